//! Listening: where, on how many sockets, and what a listening socket does.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::RawFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::accept::{Attempt, attempt};
use super::balance::Balance;
use super::socket_activation;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On this address.
    Address(SocketAddr),
    /// On the socket that was passed as this descriptor; it goes on listening when this process has ended.
    Fd(RawFd),
}

impl Listen {
    pub(super) fn socket(self, shared: bool) -> io::Result<TcpListener> {
        match self {
            Self::Address(address) => listen(address, shared),
            Self::Fd(fd) => socket_activation::listener(fd),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Fd(fd) => write!(f, "fd:{fd}"),
        }
    }
}

/// How connections come to reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The acceptor hands each to a reactor.
    Acceptor(Balance),
    /// There is no acceptor: each reactor has a listener of its own, and the kernel chooses (`SO_REUSEPORT`), by a hash
    /// of the addresses and not evenly.
    ReusePort,
}

/// The listening sockets of a server: one, or one for each reactor.
#[derive(Debug)]
pub struct Listeners {
    first: TcpListener,
    others: Vec<TcpListener>,
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
        let others = if shared {
            reactors.saturating_sub(1)
        } else {
            0
        };
        let others = (0..others).map(|_| listen(address, shared));
        Ok(Self {
            first,
            others: others.collect::<io::Result<_>>()?,
            dispatch,
            address,
            outlive: matches!(at, Listen::Fd(_)),
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

    pub(super) fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    pub(super) fn into_first(self) -> Listener {
        Listener {
            socket: self.first,
            outlives: self.outlive,
        }
    }

    pub(super) fn into_each(self) -> impl Iterator<Item = Listener> {
        let outlives = self.outlive;
        let sockets = std::iter::once(self.first).chain(self.others);
        sockets.map(move |socket| Listener { socket, outlives })
    }
}

/// All addresses of this machine: those of IPv6 and IPv4 together, where the kernel has IPv6.
pub fn everywhere() -> IpAddr {
    let all = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let is_known = TcpListener::bind((all, 0)).is_ok();
    if is_known {
        all
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Of IPv4 too, also where net.ipv6.bindv6only says otherwise.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    /// It goes on listening when this process has ended.
    pub(super) outlives: bool,
}

impl Listener {
    /// Has the driver of this thread's runtime know it.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for types that lie about their descriptor; a TcpListener does not"
    )]
    pub(super) fn register(self) -> io::Result<ReactorListener> {
        Ok(ReactorListener {
            socket: AsyncFd::with_interest(self.socket, Interest::READABLE)?,
            outlives: self.outlives,
        })
    }
}

/// A [`Listener`] that the driver of a runtime knows.
#[derive(Debug)]
pub(super) struct ReactorListener {
    socket: AsyncFd<TcpListener>,
    outlives: bool,
}

impl ReactorListener {
    /// Whether it goes on listening when this process has ended.
    pub(super) fn outlives(&self) -> bool {
        self.outlives
    }

    /// Waits until a client may be in the queue. The driver says so until the queue has been found empty.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(drop)
    }

    /// Whether a client is in the queue, where one may be.
    pub(super) fn has_client(&self) -> bool {
        let look = |socket: &TcpListener| {
            let mut fds = [PollFd::new(socket, PollFlags::IN)];
            match poll(&mut fds, Some(&Timespec::default())) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        };
        self.socket.try_io(Interest::READABLE, look).is_ok()
    }

    /// Accepts a client, where one may be in the queue.
    pub(super) fn accept(&self) -> Attempt {
        let accept = |socket: &TcpListener| match attempt(socket) {
            Attempt::Empty => Err(io::ErrorKind::WouldBlock.into()),
            attempt => Ok(attempt),
        };
        let accepted = self.socket.try_io(Interest::READABLE, accept);
        accepted.unwrap_or(Attempt::Empty)
    }

    /// Accepts a client, also where the driver does not know of one yet.
    pub(super) fn accept_now(&self) -> Attempt {
        attempt(self.socket.get_ref())
    }
}
