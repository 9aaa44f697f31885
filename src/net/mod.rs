//! Sockets and threads. Knows no key and no status.

mod accept;
mod accept_loop;
mod acceptor;
mod balance;
mod closing;
mod command;
mod connection;
mod connection_context;
mod connection_limit;
mod connections;
mod event_loop_lag;
mod http1;
mod hyper_io;
mod listener;
mod peers;
mod reactor;
mod reactor_thread;
mod resting;
mod runtime_thread;
mod shortage;
mod socket;
mod socket_activation;
mod socket_body;
mod socket_reader;
mod socket_writer;
mod splice;
mod takeover;
mod timeouts;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crate::drain::Draining;

pub use balance::Balance;
pub use listener::{Dispatch, Listen, Listeners, everywhere};
pub use peers::Peers;
pub use reactor::Takeover;
pub use reactor_thread::ReactorConfig;
pub use socket_activation::passed;
pub use timeouts::{Limits, RATE_WINDOW};

use balance::Targets;
use connection_limit::ConnectionLimit;
use listener::Listener;

/// Connections that an [`AdminListener`] may have open.
const ADMIN_CONNECTIONS: usize = 256;

/// A listener with a reactor of its own, beside those of a server: for what must be answered while they are busy.
#[derive(Debug)]
pub struct AdminListener {
    socket: TcpListener,
    address: SocketAddr,
}

impl AdminListener {
    /// Listens there.
    pub fn bind(at: Listen) -> io::Result<Self> {
        let socket = at.socket(false)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Starts its reactor, which ends when `draining` asks.
    pub fn start(self, reactor: ReactorConfig, draining: Draining) -> io::Result<()> {
        let listener = Listener {
            socket: self.socket,
            outlives: false,
        };
        let limit = ConnectionLimit::new(ADMIN_CONNECTIONS, Peers::default());
        reactor_thread::start_accepting(reactor, listener, limit, draining)
    }
}

/// Starts the reactors, and what accepts for them: each for itself, or the acceptor for all where there are several.
/// Accepting ends, and the reactors drain, when `draining` asks.
pub fn start(
    listeners: Listeners,
    reactors: Vec<ReactorConfig>,
    max_connections: usize,
    peers: Peers,
    draining: &Draining,
) -> io::Result<()> {
    let limit = ConnectionLimit::new(max_connections, peers);
    match listeners.dispatch() {
        Dispatch::Acceptor(balance) if reactors.len() > 1 => {
            let reactors = reactors.into_iter();
            let targets = reactors
                .map(|config| reactor_thread::start(config, Arc::clone(&limit), draining.clone()))
                .collect::<io::Result<_>>()?;
            let targets = Targets::new(targets, balance);
            acceptor::start(listeners.into_first(), limit, targets, draining.clone())
        }
        Dispatch::Acceptor(_) | Dispatch::ReusePort => {
            let mut pairs = reactors.into_iter().zip(listeners.into_each());
            pairs.try_for_each(|(config, listener)| {
                let limit = Arc::clone(&limit);
                reactor_thread::start_accepting(config, listener, limit, draining.clone())
            })
        }
    }
}
