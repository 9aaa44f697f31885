//! Whether the kernel holds packets of a connection back until they are full.
//!
//! Failing costs packets, not bytes, and is no error.

use std::cell::Cell;

use rustix::net::sockopt::{set_tcp_cork, tcp_congestion};

use super::socket::Socket;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Cork(Cell<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Untried,
    /// Under a paced connection, holding back costs more than it gains; a unix socket has no packets: never.
    Useless,
    In,
    Out,
}

impl Cork {
    /// Has the kernel send full packets of `socket` only, or what it holds and from then on at once.
    pub(super) fn set(&self, socket: &Socket, corked: bool) {
        if self.0.get() == State::Untried && corked {
            self.0.set(if gains(socket) {
                State::Out
            } else {
                State::Useless
            });
        }
        let wanted = if corked { State::In } else { State::Out };
        if matches!(self.0.get(), State::In | State::Out) && self.0.get() != wanted {
            let _ = socket
                .raw()
                .with(|socket| Ok(set_tcp_cork(socket, corked)?));
            self.0.set(wanted);
        }
    }
}

/// Whether the congestion control does not send by a timer, as BBR does; a unix socket has none, and sends no packets.
fn gains(socket: &Socket) -> bool {
    let name = socket.raw().with(|socket| Ok(tcp_congestion(socket)?));
    name.is_ok_and(|name| !name.starts_with("bbr"))
}
