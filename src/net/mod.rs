//! Sockets and threads. Knows no key and no status.

mod accept;
mod acceptor;
mod connection;
mod gate;
mod inflow;
mod intake;
mod lag;
mod own;
mod passed;
mod peers;
mod reactor;
mod socket;
mod stream;
mod watch;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Semaphore;

use crate::drain::Draining;

pub use gate::Accepting;
pub use passed::passed;
pub use peers::Peers;
pub use reactor::Setup;
pub use watch::{Limits, RATE_WINDOW};

use acceptor::Queue;
use own::Own;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Connections that an [`Aside`] may have open.
const MOST_ASIDE: usize = 256;

/// Whether a call on a socket came too early, and is to be made again.
fn is_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On this address.
    Address(SocketAddr),
    /// On the socket that was passed as this descriptor; it goes on listening when this process has ended.
    Passed(RawFd),
}

impl Listen {
    fn socket(self, shared: bool) -> io::Result<TcpListener> {
        match self {
            Self::Address(address) => listen(address, shared),
            Self::Passed(fd) => passed::listener(fd),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Passed(fd) => write!(f, "fd:{fd}"),
        }
    }
}

/// How connections come to reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The acceptor hands them out in turn.
    RoundRobin,
    /// The acceptor hands each to the reactor that has the fewest open.
    LeastConnections,
    /// There is no acceptor: each reactor has a listener of its own, and the kernel chooses (`SO_REUSEPORT`).
    ReusePort,
}

/// The listening sockets of a server: one, or one for each reactor.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    dispatch: Dispatch,
    address: SocketAddr,
    outlive: bool,
}

impl Listeners {
    /// Listens, for so many reactors; on a socket that was passed not with [`Dispatch::ReusePort`], which takes several.
    /// Accepted sockets inherit `TCP_NODELAY`.
    pub fn bind(at: Listen, dispatch: Dispatch, reactors: usize) -> io::Result<Self> {
        let shared = dispatch == Dispatch::ReusePort;
        let first = at.socket(shared)?;
        // The port that was picked, if it was 0.
        let address = first.local_addr()?;
        let mut sockets = vec![first];
        while shared && sockets.len() < reactors {
            sockets.push(listen(address, shared)?);
        }
        Ok(Self {
            sockets,
            dispatch,
            address,
            outlive: matches!(at, Listen::Passed(_)),
        })
    }

    /// Where they listen.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Whether they go on listening when this process has ended: clients that are not accepted then wait for the next.
    pub fn outlive(&self) -> bool {
        self.outlive
    }
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A reactor that accepts for itself, beside those of a server: for what must be answered while they are busy.
#[derive(Debug)]
pub struct Aside {
    listener: TcpListener,
    address: SocketAddr,
}

impl Aside {
    /// Listens there.
    pub fn bind(at: Listen) -> io::Result<Self> {
        let listener = at.socket(false)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Starts it. It ends when `draining` asks.
    pub fn start(self, setup: Setup, draining: Draining) -> io::Result<()> {
        let slots = Arc::new(Semaphore::new(MOST_ASIDE));
        let listener = self.listener;
        let own = Own {
            listener,
            outlives: false,
            slots,
            peers: Peers::default(),
        };
        reactor::start_own(setup, own, draining)
    }
}

/// Starts a reactor for each of `setups`, and what brings them connections: where there is one reactor, nothing does, for
/// there is nobody to choose from. Accepting ends, and the reactors drain, when `draining` asks and the returned
/// [`Accepting`], if any, is dropped.
pub fn start(
    mut listeners: Listeners,
    setups: Vec<Setup>,
    max_connections: usize,
    peers: Peers,
    draining: &Draining,
) -> io::Result<Option<Accepting>> {
    if listeners.dispatch == Dispatch::ReusePort || setups.len() == 1 {
        let slots = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        for (setup, listener) in setups.into_iter().zip(listeners.sockets) {
            let own = Own {
                listener,
                outlives: listeners.outlive,
                slots: Arc::clone(&slots),
                peers: peers.clone(),
            };
            reactor::start_own(setup, own, draining.clone())?;
        }
        return Ok(None);
    }
    let reactors: io::Result<Vec<_>> = setups
        .into_iter()
        .map(|setup| reactor::start(setup, draining.clone()))
        .collect();
    let dispatch = listeners.dispatch;
    let queue = Queue {
        listener: listeners.sockets.remove(0),
        outlives: listeners.outlive,
    };
    acceptor::start(
        queue,
        reactors?,
        dispatch,
        max_connections,
        peers,
        draining.clone(),
    )
    .map(Some)
}
