//! One attempt to accept: what a failure means, and how long to leave it.
//!
//! Failures of one peer are that peer's. Failures of this machine (descriptors, memory) make an episode: accepting pauses
//! longer and longer, the log says so once, and again when nothing has failed for a while.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags};

use crate::http::Peer;

/// The first pause after a failure of this machine; each further one in a row is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause, so that everything is served again within a second of relief; and how long nothing may fail for an episode to be over.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The current episode of failures, if there is one.
#[derive(Debug, Default)]
pub(super) struct Backoff(Option<Episode>);

#[derive(Clone, Copy, Debug)]
struct Episode {
    last: Instant,
    pause: Duration,
}

impl Backoff {
    /// How long to pause after this failure.
    pub(super) fn failed(&mut self, errno: Errno) -> Duration {
        if self.0.is_none() {
            tracing::warn!(error = %errno, "accepting paused");
        }
        let pause = self
            .0
            .map_or(FIRST_PAUSE, |e| (e.pause * 2).min(LONGEST_PAUSE));
        self.0 = Some(Episode {
            last: Instant::now(),
            pause,
        });
        pause
    }

    /// Whether an episode is going on.
    pub(super) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Ends the episode once nothing has failed for a while; one success proves little when descriptors come and go.
    pub(super) fn recover(&mut self) {
        if self
            .0
            .is_some_and(|e| e.last.elapsed() > e.pause + LONGEST_PAUSE)
        {
            self.0 = None;
            tracing::info!("accepting again");
        }
    }
}

/// What one attempt to accept came to.
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
