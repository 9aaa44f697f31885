//! Accepting: one loop for each listener, on the thread of the acceptor, which chooses the reactor of a connection, or
//! on a reactor's own.
//!
//! It waits for no client, no handshake and no reactor. What fails because of one peer is skipped. What fails because
//! of this machine (descriptors, memory) makes an episode: accepting pauses longer and longer, and never ends; the log
//! says so once, and again when nothing has failed for a while. It ends when the server drains: no client begins a
//! connection then, and those that have begun one are still served, unless the listener outlives this process.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags};
use socket2::{SockFilter, SockRef};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

use super::connection_limit::{ConnectionLimit, Permit};
use super::listen::{Listener, Properties};
use crate::http::{Client, Peer};
use crate::lifecycle::Draining;
use crate::metrics::ReactorCounters;

/// A reactor that has this many connections more than the next one misses its turn. Otherwise one reactor gets all that
/// stay when long and short connections arrive in turn.
const AHEAD: u64 = 8;

/// A connection that was accepted.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: TcpStream,
    pub(super) client: Client,
    pub(super) permit: Permit,
}

/// A reactor that connections are accepted for: on this thread, or by way of its queue.
pub(super) trait Worker {
    fn counters(&self) -> &ReactorCounters;

    /// Has the reactor serve the connection, and does not wait for it.
    fn serve(&self, accepted: Accepted);
}

/// The reactors that connections are accepted for: at least one.
#[derive(Clone, Debug)]
pub(super) struct Workers<T> {
    reactors: Vec<T>,
    turn: usize,
}

impl<T: Worker> Workers<T> {
    pub(super) fn new(reactors: Vec<T>) -> Self {
        Self { reactors, turn: 0 }
    }

    /// The reactor whose turn it is. Attempts that come to no connection are counted for it.
    fn turn(&self) -> &T {
        &self.reactors[self.turn]
    }

    /// The reactor for the next connection: the one whose turn it is, but for one that is far ahead of the next.
    fn take_turn(&mut self) -> &T {
        let count = self.reactors.len();
        let active = |i: usize| self.reactors[i].counters().active();
        let next = (self.turn + 1) % count;
        let is_ahead = active(self.turn) >= active(next) + AHEAD;
        let picked = if is_ahead { next } else { self.turn };
        self.turn = (picked + 1) % count;
        &self.reactors[picked]
    }
}

/// Connections that are accepted or begun in a row, before the other tasks of the thread have their turn.
const BATCH: usize = 32;

/// How long a handshake of TCP that has begun before the drain may take to end: a round trip.
const HANDSHAKE: Duration = Duration::from_millis(100);

/// The connections so far of one batch.
#[derive(Debug, Default)]
pub(super) struct AcceptBatch(usize);

impl AcceptBatch {
    /// Counts one connection; after the last of a batch, lets the other tasks have their turn.
    pub(super) async fn count(&mut self) {
        self.0 += 1;
        if self.0 == BATCH {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Accepts by all of `listeners`, at the same time, until `draining` asks for the end.
pub(super) async fn accept<T: Worker + Clone>(
    listeners: Vec<ReactorListener>,
    limit: &Arc<ConnectionLimit>,
    workers: Workers<T>,
    draining: &Draining,
) {
    let accepting = listeners.into_iter().map(|listener| {
        let accepting = AcceptLoop {
            listener,
            limit: Arc::clone(limit),
            workers: workers.clone(),
            backoff: Backoff::default(),
        };
        accepting.run(draining.clone())
    });
    join_all(accepting).await;
}

/// A listener, and the reactors that it accepts for.
#[derive(Debug)]
struct AcceptLoop<T> {
    listener: ReactorListener,
    limit: Arc<ConnectionLimit>,
    workers: Workers<T>,
    backoff: Backoff,
}

impl<T: Worker> AcceptLoop<T> {
    /// Accepts until `draining` asks for the end.
    async fn run(mut self, mut draining: Draining) {
        tokio::select! {
            () = self.accept() => {}
            () = draining.started() => {}
        }
        if self.listener.properties.outlives {
            return;
        }
        match self.listener.close_to_new() {
            Ok(()) => drop(timeout(HANDSHAKE, self.accept()).await),
            Err(error) => tracing::debug!(%error, "clients may connect until the socket is closed"),
        }
        self.accept_queued();
    }

    /// Accepts as long as the runtime runs.
    async fn accept(&mut self) {
        let limit = Arc::clone(&self.limit);
        let mut batch = AcceptBatch::default();
        while self.wait_for_client().await.is_ok() {
            // Taken only when a client waits: a listener without clients leaves its vacancy to the others.
            let vacancy = limit.vacancy().await;
            let ended = limit.ended();
            match self.listener.accept() {
                Ok((socket, peer)) => {
                    self.serve(socket, peer, vacancy);
                    batch.count().await;
                }
                Err(Errno::AGAIN) => {}
                Err(errno) if is_peers_fault(errno) => self.count_error(),
                Err(errno) => {
                    self.count_error();
                    drop(vacancy);
                    if matches!(errno, Errno::MFILE | Errno::NFILE) {
                        limit.request_room();
                    }
                    tokio::select! {
                        () = sleep(self.backoff.failed(errno)) => {}
                        () = ended => {}
                    }
                }
            }
        }
    }

    /// Waits until a client is in the queue. The driver calls it readable until it has been found empty.
    async fn wait_for_client(&mut self) -> io::Result<()> {
        loop {
            self.backoff.recover();
            let readable = self.listener.socket.readable();
            if self.backoff.0.is_none() {
                drop(readable.await?);
            } else if let Ok(readable) = timeout(LONGEST_PAUSE, readable).await {
                drop(readable?);
            } else {
                // The end of an episode of failures is logged also when no client comes.
                continue;
            }
            // A poll costs a tenth of an accept without a client, which makes a socket and a file first. At the limit,
            // idle connections are closed for a client that waits, and for no other reason.
            if self.listener.has_client() {
                return Ok(());
            }
        }
    }

    /// Accepts the clients that are in the queue already, up to the limit.
    fn accept_queued(&mut self) {
        let limit = Arc::clone(&self.limit);
        while let Some(vacancy) = limit.try_vacancy()
            && let Ok((socket, peer)) = attempt(self.listener.socket.get_ref())
        {
            self.serve(socket, peer, vacancy);
        }
    }

    /// Hands the connection to a reactor, if its client may have one more.
    fn serve(&mut self, socket: TcpStream, peer: Peer, vacancy: SemaphorePermit<'_>) {
        let properties = &self.listener.properties;
        let client = (!properties.by_proxy).then_some(peer);
        let Some(permit) = self.limit.admit(vacancy, client) else {
            self.workers.turn().counters().accepting.refused.add(1);
            return;
        };
        let worker = self.workers.take_turn();
        worker.counters().accepting.accepted.add(1);
        worker.serve(Accepted {
            socket,
            client: Client {
                peer,
                by_trusted: false,
                door: properties.door,
                by_loopback: properties.by_loopback,
                by_tls: properties.by_tls,
                tls_version: None,
            },
            permit,
        });
    }

    fn count_error(&self) {
        self.workers.turn().counters().accepting.errors.add(1);
    }
}

/// The first pause after a failure of this machine; each further one in a row is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause, so that everything is served again within a second of relief; and how long nothing may fail for
/// an episode to be over.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The current episode of failures, if there is one: the time of the last failure, and the pause after it.
#[derive(Debug, Default)]
struct Backoff(Option<(Instant, Duration)>);

impl Backoff {
    /// The length of the pause after this failure.
    fn failed(&mut self, errno: Errno) -> Duration {
        let pause = if let Some((_, pause)) = self.0 {
            (pause * 2).min(LONGEST_PAUSE)
        } else {
            tracing::warn!(error = %errno, "accepting paused");
            FIRST_PAUSE
        };
        self.0 = Some((Instant::now(), pause));
        pause
    }

    /// Ends the episode once nothing has failed for a while; one success proves little when descriptors come and go.
    fn recover(&mut self) {
        let is_over = |(last, pause): (Instant, Duration)| last.elapsed() > pause + LONGEST_PAUSE;
        if self.0.is_some_and(is_over) {
            self.0 = None;
            tracing::info!("accepting again");
        }
    }
}

/// A socket filter that drops segments with SYN, by the 14th byte of their header (RFC 9293, section 3.1). It keeps new
/// connections out while the last ones are accepted: closing the socket resets what is in its queue or in a handshake.
/// A client that was kept out sends its SYN again, and is refused.
const NO_SYN: [SockFilter; 4] = [
    SockFilter::new(0x30, 0, 0, 13),       // load the flags
    SockFilter::new(0x45, 0, 1, 0x02),     // if SYN is among them
    SockFilter::new(0x06, 0, 0, 0),        // drop the segment
    SockFilter::new(0x06, 0, 0, u32::MAX), // take it whole
];

/// A [`Listener`] that is registered with the driver of a runtime.
#[derive(Debug)]
pub(super) struct ReactorListener {
    properties: Properties,
    socket: AsyncFd<TcpListener>,
}

impl ReactorListener {
    /// Registers it with the driver of this thread's runtime.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for types that lie about their descriptor; a TcpListener does not"
    )]
    pub(super) fn register(listener: Listener) -> io::Result<Self> {
        Ok(Self {
            properties: listener.properties,
            socket: AsyncFd::with_interest(listener.socket, Interest::READABLE)?,
        })
    }

    /// Lets no client begin a connection any more. Those that have begun one come into the queue.
    fn close_to_new(&mut self) -> io::Result<()> {
        if self.properties.file.take().is_some() {
            return Ok(());
        }
        SockRef::from(self.socket.get_ref()).attach_filter(&NO_SYN)
    }

    /// True when a client is in the queue, where one may be.
    fn has_client(&self) -> bool {
        let look = |socket: &TcpListener| {
            let mut fds = [PollFd::new(socket, PollFlags::IN)];
            match poll(&mut fds, Some(&Timespec::default())) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        };
        self.socket.try_io(Interest::READABLE, look).is_ok()
    }

    /// Accepts a client, where the driver knows of one.
    fn accept(&self) -> Result<(TcpStream, Peer), Errno> {
        let accept = |socket: &TcpListener| Ok(attempt(socket)?);
        let accepted = self.socket.try_io(Interest::READABLE, accept);
        accepted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    }
}

/// Accepts one connection; `AGAIN` where none waits. A peer without an address is at fault.
fn attempt(listener: &TcpListener) -> Result<(TcpStream, Peer), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, address) = rustix::net::acceptfrom_with(listener, flags)?;
    let address = address.ok_or(Errno::PROTO)?;
    // A TcpStream is what owns any connection here, by a unix socket too: nothing asks it for addresses.
    if address.address_family() != AddressFamily::UNIX {
        let peer = SocketAddr::try_from(address)?;
        return Ok((socket.into(), Peer::Address(peer)));
    }
    let identified = identify(socket.into());
    identified.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PROTO))
}

/// The process at the other end of `socket`. A process of another container has the number 0 here, which rustix has no
/// value for.
fn identify(socket: UnixStream) -> io::Result<(TcpStream, Peer)> {
    let socket = tokio::net::UnixStream::from_std(socket)?;
    let process = socket.peer_cred()?;
    let peer = Peer::Process {
        uid: process.uid(),
        pid: process.pid().unwrap_or(0),
    };
    Ok((OwnedFd::from(socket.into_std()?).into(), peer))
}

/// True when a failed accept concerns only the connection that was to be accepted (accept(2), "Error handling").
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

    impl Worker for (usize, ReactorCounters) {
        fn counters(&self) -> &ReactorCounters {
            &self.1
        }

        fn serve(&self, _: Accepted) {}
    }

    /// The reactors that get one connection after the other, when the third has `active` already.
    fn order(active: u64) -> Vec<usize> {
        let workers: Vec<_> = (0..3).map(|n| (n, ReactorCounters::default())).collect();
        workers[2].1.accepting.accepted.add(active + 1);
        workers[2].1.finished.add(1);
        let mut workers = Workers::new(workers);
        let picked = (0..7).map(|_| {
            let worker = workers.take_turn();
            worker.1.accepting.accepted.add(1);
            worker.0
        });
        picked.collect()
    }

    #[test]
    fn connections_go_to_each_in_turn_but_for_one_that_is_far_ahead() {
        assert_eq!(order(2), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(order(9), [0, 1, 0, 1, 2, 0, 1]);
    }

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
