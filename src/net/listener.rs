//! The listening sockets of a server, what a listening socket does, and what one attempt to accept comes to.
//!
//! Failures of one peer are that peer's; all others are failures of this machine (descriptors, memory).

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags};
use socket2::{SockFilter, SockRef};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::listen::{Address, BoundAddress, Listen, Properties};
use crate::http::Peer;

/// How connections come to reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The acceptor hands each to a reactor, in turn.
    Acceptor,
    /// There is no acceptor: each reactor has a listener of its own, and the kernel chooses (`SO_REUSEPORT`), by a hash
    /// of the addresses and not evenly. A unix socket is shared: the first reactor that looks gets the connection.
    ReusePort,
}

impl BoundAddress {
    fn into_listeners(self) -> impl Iterator<Item = Listener> {
        let sockets = self.sockets.into_iter();
        sockets.map(move |socket| Listener {
            properties: self.properties.clone(),
            socket,
        })
    }
}

/// The places where a server listens.
#[derive(Debug)]
pub struct Listeners {
    places: Vec<BoundAddress>,
    dispatch: Dispatch,
    reactors: usize,
}

impl Listeners {
    /// None yet, for so many reactors.
    pub fn new(dispatch: Dispatch, reactors: usize) -> Self {
        Self {
            places: Vec::new(),
            dispatch,
            reactors,
        }
    }

    /// Listens there too, one place of `all`; on a socket that was passed not with [`Dispatch::ReusePort`], which takes several.
    pub fn add(&mut self, at: &Listen, all: &[Listen]) -> io::Result<()> {
        let shared = self.dispatch == Dispatch::ReusePort;
        let sockets = if shared { self.reactors } else { 1 };
        self.places.push(at.bind(all, sockets, shared)?);
        Ok(())
    }

    /// Where they listen.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.places.iter().map(|place| &place.address)
    }

    /// The URL of each, for clients.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.places.iter().map(BoundAddress::url)
    }

    pub(super) fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    /// One socket of each place for each that accepts: for the acceptor, or for each reactor.
    pub(super) fn into_shares(self) -> impl Iterator<Item = Vec<Listener>> {
        let places = self.places.into_iter();
        let mut places: Vec<_> = places.map(BoundAddress::into_listeners).collect();
        std::iter::from_fn(move || places.iter_mut().map(Iterator::next).collect())
    }
}

/// A socket filter that drops segments with SYN, by the 14th byte of their header (RFC 9293, section 3.1). It keeps new
/// connections out while the last ones are accepted: closing the socket resets what is in its queue or in a handshake. A
/// client that was kept out sends its SYN again, and is refused.
const NO_SYN: [SockFilter; 4] = [
    SockFilter::new(0x30, 0, 0, 13),       // load the flags
    SockFilter::new(0x45, 0, 1, 0x02),     // if SYN is among them
    SockFilter::new(0x06, 0, 0, 0),        // drop the segment
    SockFilter::new(0x06, 0, 0, u32::MAX), // take it whole
];

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    // Dropped first: the file of a unix socket goes before the socket does.
    properties: Properties,
    socket: TcpListener,
}

impl Listener {
    /// One for what accepts by itself, and what clients are given.
    pub(super) fn bind(at: &Listen) -> io::Result<(Self, String)> {
        let place = at.bind(&[], 1, false)?;
        let url = place.url();
        let listener = place.into_listeners().next();
        Ok((listener.ok_or(io::ErrorKind::NotFound)?, url))
    }

    /// Has the driver of this thread's runtime know it.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for types that lie about their descriptor; a TcpListener does not"
    )]
    pub(super) fn register(self) -> io::Result<ReactorListener> {
        Ok(ReactorListener {
            properties: self.properties,
            socket: AsyncFd::with_interest(self.socket, Interest::READABLE)?,
        })
    }
}

/// A [`Listener`] that the driver of a runtime knows.
#[derive(Debug)]
pub(super) struct ReactorListener {
    pub(super) properties: Properties,
    socket: AsyncFd<TcpListener>,
}

impl ReactorListener {
    /// Lets no client begin a connection any more. Those that have begun one come into the queue.
    pub(super) fn close_to_new(&mut self) -> io::Result<()> {
        if self.properties.file.take().is_some() {
            return Ok(());
        }
        SockRef::from(self.socket.get_ref()).attach_filter(&NO_SYN)
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

/// The result of one attempt to accept.
#[derive(Debug)]
pub(super) enum Attempt {
    Connection(TcpStream, Peer),
    /// No client waits.
    Empty,
    /// This peer's trouble: on to the next.
    PeerFailed,
    /// This machine's trouble.
    Exhausted(Errno),
}

/// Accepts one connection, if one waits.
pub(super) fn attempt(listener: &TcpListener) -> Attempt {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match rustix::net::acceptfrom_with(listener, flags) {
        Ok((socket, address)) => match address.and_then(|address| peer(&socket, address)) {
            // A TcpStream is what owns any connection here, by a unix socket too: nothing asks it for addresses.
            Some(peer) => Attempt::Connection(socket.into(), peer),
            None => Attempt::PeerFailed,
        },
        Err(Errno::AGAIN) => Attempt::Empty,
        Err(errno) if is_peers_fault(errno) => Attempt::PeerFailed,
        Err(errno) => Attempt::Exhausted(errno),
    }
}

/// Who is at the other end of `socket`.
fn peer(socket: &OwnedFd, address: SocketAddrAny) -> Option<Peer> {
    if address.address_family() != AddressFamily::UNIX {
        return SocketAddr::try_from(address).ok().map(Peer::Address);
    }
    let process = socket_peercred(socket).ok()?;
    Some(Peer::Process {
        uid: process.uid.as_raw(),
        pid: process.pid.as_raw_pid(),
    })
}

/// Whether a failed accept concerns only the connection that was to be accepted (accept(2), "Error handling").
fn is_peers_fault(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::CONNREFUSED
            | Errno::INTR
            | Errno::PROTO
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_peer_are_told_from_errors_of_this_machine() {
        for errno in [
            Errno::CONNABORTED,
            Errno::CONNRESET,
            Errno::PROTO,
            Errno::PERM,
            Errno::INTR,
        ] {
            assert!(is_peers_fault(errno), "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert!(!is_peers_fault(errno), "{errno}");
        }
    }
}
