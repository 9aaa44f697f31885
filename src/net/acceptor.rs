//! The acceptor: one thread that takes connections and hands each to a reactor.
//!
//! It waits for nobody: no client, no handshake, no reactor. What fails because of one peer is skipped; what fails
//! because of this machine (descriptors, memory) pauses accepting for a moment, again and again, and never ends it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::reactor::{Accepted, Handle};
use crate::drain::Draining;

/// The first pause after a failure of this machine; each further one in a row is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Starts accepting from `listener` on a thread of its own, until the returned [`Accepting`] is dropped.
pub(super) fn start(
    listener: TcpListener,
    reactors: Vec<Handle>,
    max_connections: usize,
    draining: Draining,
) -> io::Result<Accepting> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let gate = Arc::new(Gate {
        open: AtomicUsize::new(0),
        max: max_connections,
        ended: AtomicBool::new(false),
        bell,
    });
    let acceptor = Acceptor {
        listener,
        reactors,
        next: 0,
        gate: Arc::clone(&gate),
        episode: None,
    };
    std::thread::Builder::new()
        .name("acceptor".into())
        .spawn(move || {
            acceptor.run();
            drop(draining);
        })?;
    Ok(Accepting(gate))
}

/// Accepting goes on as long as this lives.
#[derive(Debug)]
pub struct Accepting(Arc<Gate>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.ring();
    }
}

/// What decides whether the acceptor may go on, and the bell that has it look again.
#[derive(Debug)]
struct Gate {
    /// Connections open now.
    open: AtomicUsize,
    max: usize,
    ended: AtomicBool,
    bell: OwnedFd,
}

impl Gate {
    fn is_full(&self) -> bool {
        self.open.load(Ordering::Acquire) >= self.max
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn ring(&self) {
        // Fails only when the bell has been rung 2^64 times unheard.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

/// A connection's share of the connections that may be open; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<Gate>);

impl Slot {
    fn take(gate: &Arc<Gate>) -> Self {
        gate.open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(gate))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) >= self.0.max {
            self.0.ring();
        }
    }
}

struct Acceptor {
    listener: TcpListener,
    reactors: Vec<Handle>,
    next: usize,
    gate: Arc<Gate>,
    /// The current episode of failures, if there is one.
    episode: Option<Episode>,
}

/// Failures of this machine that follow each other closely.
#[derive(Clone, Copy)]
struct Episode {
    last: Instant,
    pause: Duration,
}

/// What one attempt to accept came to.
enum Attempt {
    Connection(TcpStream, SocketAddr),
    /// Nobody waits.
    Nobody,
    /// This peer's trouble: on to the next.
    PeerFailed,
    /// This machine's trouble.
    Exhausted(Errno),
}

impl Acceptor {
    fn run(mut self) {
        while !self.gate.has_ended() {
            if self.gate.is_full() {
                self.wait(false, None);
                continue;
            }
            self.recover();
            match self.attempt() {
                Attempt::Connection(socket, peer) => self.hand_over(socket, peer),
                Attempt::PeerFailed => {}
                Attempt::Nobody => self.wait(true, self.episode.map(|_| LONGEST_PAUSE)),
                Attempt::Exhausted(errno) => self.pause(errno),
            }
        }
        // Who was connected before the end was asked for is still served.
        while !self.gate.is_full() {
            let Attempt::Connection(socket, peer) = self.attempt() else {
                break;
            };
            self.hand_over(socket, peer);
        }
    }

    fn attempt(&self) -> Attempt {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(&self.listener, flags) {
            Ok((socket, peer)) => match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
                Some(peer) => Attempt::Connection(socket.into(), peer),
                None => Attempt::PeerFailed,
            },
            Err(Errno::AGAIN) => Attempt::Nobody,
            Err(errno) if is_peers_fault(errno) => Attempt::PeerFailed,
            Err(errno) => Attempt::Exhausted(errno),
        }
    }

    /// Round-robin: the next reactor in turn.
    fn hand_over(&mut self, socket: TcpStream, peer: SocketAddr) {
        let reactor = &self.reactors[self.next];
        self.next = (self.next + 1) % self.reactors.len();
        // Fails only when the reactor is gone, and with it the process.
        let _ = reactor.send(Accepted {
            socket,
            peer,
            slot: Slot::take(&self.gate),
        });
    }

    fn pause(&mut self, errno: Errno) {
        if self.episode.is_none() {
            tracing::warn!(error = %errno, "accepting paused");
        }
        let pause = self
            .episode
            .map_or(FIRST_PAUSE, |e| (e.pause * 2).min(LONGEST_PAUSE));
        self.episode = Some(Episode {
            last: Instant::now(),
            pause,
        });
        self.wait(false, Some(pause));
    }

    /// Ends the episode once nothing has failed for a while; one success proves little when descriptors come and go.
    fn recover(&mut self) {
        if self
            .episode
            .is_some_and(|e| e.last.elapsed() > LONGEST_PAUSE)
        {
            self.episode = None;
            tracing::info!("accepting again");
        }
    }

    /// Waits for the bell; with `for_clients` for a connection as well; not longer than `limit`.
    fn wait(&self, for_clients: bool, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [
            PollFd::new(&self.gate.bell, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let fds = if for_clients {
            &mut fds[..]
        } else {
            &mut fds[..1]
        };
        if poll(fds, limit.as_ref()).is_ok() && !fds[0].revents().is_empty() {
            self.gate.silence();
        }
    }
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
