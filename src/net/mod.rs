//! Sockets and threads. Knows no key and no status.

mod acceptor;
mod connection;
mod reactor;
mod stream;
mod watch;

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::drain::Draining;

pub use acceptor::Accepting;
pub use reactor::Setup;
pub use watch::{Limits, RATE_WINDOW};

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Listens on `address`. Accepted sockets inherit `TCP_NODELAY`.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Starts a reactor for each of `setups`, then the acceptor that hands them connections from `listener`. Accepting ends,
/// and the reactors drain, when what is returned is dropped.
pub fn start(
    listener: TcpListener,
    setups: Vec<Setup>,
    max_connections: usize,
    draining: &Draining,
) -> io::Result<Accepting> {
    let reactors: io::Result<Vec<_>> = setups
        .into_iter()
        .map(|setup| reactor::start(setup, draining.clone()))
        .collect();
    acceptor::start(listener, reactors?, max_connections, draining.clone())
}
