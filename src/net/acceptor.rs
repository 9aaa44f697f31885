//! The acceptor: one thread that takes connections and hands each to a reactor.
//!
//! It waits for nobody: no client, no handshake, no reactor. What fails because of one peer is skipped; what fails
//! because of this machine pauses accepting for a moment, again and again, and never ends it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Dispatch;
use super::accept::{Attempt, Backoff, LONGEST_PAUSE, attempt};
use super::gate::{Accepting, Gate, Slot};
use super::peers::Peers;
use super::reactor::{Accepted, Handle};
use crate::drain::Draining;

/// Where clients wait to be accepted.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) listener: TcpListener,
    /// It is there after this process: whoever still waits is left to the next.
    pub(super) outlives: bool,
}

/// Starts accepting from `queue` on a thread of its own, until the returned [`Accepting`] is dropped.
pub(super) fn start(
    queue: Queue,
    reactors: Vec<Handle>,
    dispatch: Dispatch,
    max_connections: usize,
    peers: Peers,
    draining: Draining,
) -> io::Result<Accepting> {
    let gate = Gate::new(max_connections)?;
    let accepting = Accepting(Arc::clone(&gate));
    let acceptor = Acceptor {
        queue,
        reactors,
        dispatch,
        next: 0,
        gate,
        peers,
        backoff: Backoff::default(),
    };
    std::thread::Builder::new()
        .name("acceptor".into())
        .spawn(move || {
            // Failing costs switches, no connection.
            let _ = rustix::process::nice(NICENESS);
            acceptor.run();
            drop(draining);
        })?;
    Ok(accepting)
}

/// How much less than a reactor the acceptor asks of a processor that they share: enough for the scheduler to let a
/// reactor finish its turn before clients that come meanwhile are taken, all at once. It costs two switches for each
/// connection otherwise.
const NICENESS: i32 = 5;

struct Acceptor {
    queue: Queue,
    reactors: Vec<Handle>,
    dispatch: Dispatch,
    next: usize,
    gate: Arc<Gate>,
    peers: Peers,
    backoff: Backoff,
}

impl Acceptor {
    /// Accepts all who wait, then waits for more; the listener has few wake-ups when many come at once.
    fn run(mut self) {
        while !self.gate.has_ended() {
            if self.gate.is_full() {
                self.wait(false, None);
                continue;
            }
            self.backoff.recover();
            match attempt(&self.queue.listener) {
                Attempt::Connection(socket, peer) => self.hand_over(socket, peer),
                Attempt::PeerFailed => self.failed(),
                Attempt::Nobody => {
                    self.wait(true, self.backoff.is_active().then_some(LONGEST_PAUSE));
                }
                Attempt::Exhausted(errno) => {
                    self.failed();
                    let pause = self.backoff.failed(errno);
                    self.wait(false, Some(pause));
                }
            }
        }
        // Who was connected before the end was asked for is still served: by this process, unless there is a next.
        while !self.queue.outlives && !self.gate.is_full() {
            let Attempt::Connection(socket, peer) = attempt(&self.queue.listener) else {
                break;
            };
            self.hand_over(socket, peer);
        }
    }

    fn hand_over(&mut self, socket: TcpStream, peer: SocketAddr) {
        let Some(guest) = self.peers.admit(peer.ip()) else {
            self.reactors[self.next].counters.accepting.refused.add(1);
            return;
        };
        let picked = self.pick();
        let reactor = &self.reactors[picked];
        let slot = Slot::take(&self.gate, &reactor.load, guest);
        reactor.counters.accepting.accepted.add(1);
        // Fails only when the reactor is gone, and with it the process.
        let _ = reactor.queue.send(Accepted { socket, peer, slot });
    }

    fn failed(&self) {
        self.reactors[self.next].counters.accepting.errors.add(1);
    }

    /// The reactor whose turn it is, or the one with the fewest connections, in turn among equals.
    fn pick(&mut self) -> usize {
        let count = self.reactors.len();
        let turn = (0..count).map(|i| (self.next + i) % count);
        let picked = match self.dispatch {
            Dispatch::LeastConnections => {
                turn.min_by_key(|&i| self.reactors[i].load.load(Ordering::Relaxed))
            }
            Dispatch::RoundRobin | Dispatch::ReusePort => turn.take(1).next(),
        };
        let picked = picked.unwrap_or(0);
        self.next = (picked + 1) % count;
        picked
    }

    /// Waits for the bell; with `for_clients` for a connection as well; not longer than `limit`.
    fn wait(&self, for_clients: bool, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [
            PollFd::new(self.gate.bell(), PollFlags::IN),
            PollFd::new(&self.queue.listener, PollFlags::IN),
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
