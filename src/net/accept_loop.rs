//! Accepting: one loop for each listener, on the acceptor's thread or on a reactor's own.
//!
//! It waits for no client, no handshake and no reactor. What fails because of one peer is skipped. What fails because of
//! this machine pauses accepting for a moment, again and again, and never ends it. It ends when the server drains: no
//! client begins a connection then, and those that have begun one are still served, unless the listener outlives this
//! process.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

use super::accept::{Attempt, Backoff, LONGEST_PAUSE};
use super::balance::{Accepted, Target, Targets};
use super::connection_limit::ConnectionLimit;
use super::listener::ReactorListener;
use crate::drain::Draining;
use crate::http::{Client, Peer};

/// So many connections in a row are accepted, or begun with, before the other tasks of the thread have their turn.
const ACCEPT_BATCH: usize = 32;

/// How long a handshake of TCP that has begun before the drain may take to end: a round trip.
const HANDSHAKE: Duration = Duration::from_millis(100);

/// What remains of an [`ACCEPT_BATCH`].
#[derive(Debug)]
pub(super) struct AcceptBudget(usize);

impl Default for AcceptBudget {
    fn default() -> Self {
        Self(ACCEPT_BATCH)
    }
}

impl AcceptBudget {
    /// Counts one connection; after the last of a batch, lets the other tasks have their turn.
    pub(super) async fn spend(&mut self) {
        self.0 -= 1;
        if self.0 == 0 {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
    }
}

/// Accepts by all of `listeners`, at the same time, until `draining` asks for the end.
pub(super) async fn run<T: Target + Clone>(
    listeners: Vec<ReactorListener>,
    limit: &Arc<ConnectionLimit>,
    targets: Targets<T>,
    draining: &Draining,
) {
    let accepting = listeners.into_iter().map(|listener| {
        let accepting = AcceptLoop::new(listener, Arc::clone(limit), targets.clone());
        accepting.run(draining.clone())
    });
    join_all(accepting).await;
}

/// A listener, and the reactors that it accepts for.
#[derive(Debug)]
struct AcceptLoop<T> {
    listener: ReactorListener,
    limit: Arc<ConnectionLimit>,
    targets: Targets<T>,
    backoff: Backoff,
    budget: AcceptBudget,
}

impl<T: Target> AcceptLoop<T> {
    fn new(listener: ReactorListener, limit: Arc<ConnectionLimit>, targets: Targets<T>) -> Self {
        Self {
            listener,
            limit,
            targets,
            backoff: Backoff::default(),
            budget: AcceptBudget::default(),
        }
    }

    /// Accepts until `draining` asks for the end.
    async fn run(mut self, mut draining: Draining) {
        tokio::select! {
            () = self.accept() => {}
            () = draining.started() => {}
        }
        if self.listener.outlives() {
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
        while self.wait_for_client().await.is_ok() {
            // Taken only when a client waits: a listener without clients leaves its vacancy to the others.
            let vacancy = limit.vacancy().await;
            let ended = limit.ended();
            match self.listener.accept() {
                Attempt::Connection(socket, peer) => {
                    self.serve(socket, peer, vacancy);
                    self.budget.spend().await;
                }
                Attempt::Empty => self.budget = AcceptBudget::default(),
                Attempt::PeerFailed => self.count_error(),
                Attempt::Exhausted(errno) => {
                    self.count_error();
                    drop(vacancy);
                    limit.make_room_after(errno);
                    tokio::select! {
                        () = sleep(self.backoff.failed(errno)) => {}
                        () = ended => {}
                    }
                }
            }
        }
    }

    /// Waits until a client is in the queue.
    async fn wait_for_client(&mut self) -> io::Result<()> {
        loop {
            self.backoff.recover();
            let readable = self.listener.readable();
            if !self.backoff.is_active() {
                readable.await?;
            } else if let Ok(readable) = timeout(LONGEST_PAUSE, readable).await {
                readable?;
            } else {
                // The end of an episode of failures is logged also when no client comes.
                continue;
            }
            // At the limit, idle connections are closed for a client that waits, and for no other reason.
            if !self.limit.is_reached() || self.listener.has_client() {
                return Ok(());
            }
        }
    }

    /// Accepts the clients that are in the queue already, up to the limit.
    fn accept_queued(&mut self) {
        let limit = Arc::clone(&self.limit);
        while let Some(vacancy) = limit.try_vacancy()
            && let Attempt::Connection(socket, peer) = self.listener.accept_now()
        {
            self.serve(socket, peer, vacancy);
        }
    }

    /// Hands the connection to a reactor, if its client may have one more.
    fn serve(&mut self, socket: TcpStream, peer: Peer, vacancy: SemaphorePermit<'_>) {
        let client = (!self.listener.is_proxied()).then_some(peer);
        let Some(permit) = self.limit.admit(vacancy, client) else {
            self.targets.turn().counters().accepting.refused.add(1);
            return;
        };
        let target = self.targets.take_turn();
        target.counters().accepting.accepted.add(1);
        target.serve(Accepted {
            socket,
            client: Client {
                peer,
                by_loopback: self.listener.is_loopback(),
                by_tls: self.listener.is_tls(),
                tls_version: None,
            },
            permit,
        });
    }

    fn count_error(&self) {
        self.targets.turn().counters().accepting.errors.add(1);
    }
}
