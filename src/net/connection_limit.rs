//! The limits of open connections: in all, and of each client.
//!
//! An accept loop takes a vacancy before it accepts, and makes it a [`Permit`] of the connection. The connection drops its
//! permit when it ends, on its own thread. While there is no vacancy, or no descriptor, idle connections are closed for
//! clients that wait.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connections::Connections;
use crate::access::Source;
use crate::http::Peer;

/// How long to wait for an idle connection to end before the next request: a busy one may have become idle.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// How long a connection that was asked to end has for it before another is asked: most need a round trip.
const TO_END: Duration = Duration::from_millis(250);

/// The log has a line about refused connections at most this often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The limit of one server: all that accepts for it shares it, and so do its reactors.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    /// One for each connection that may be opened still.
    vacancies: Semaphore,
    peers: Peers,
    /// An idle connection is to be closed, and none has been found yet.
    wants_room: AtomicBool,
    room_wanted: Notify,
    ended: Notify,
}

impl ConnectionLimit {
    /// At most `max` connections, and of each client as many as `peers` admits.
    pub(super) fn new(max: usize, peers: Peers) -> Arc<Self> {
        Arc::new(Self {
            vacancies: Semaphore::new(max.min(Semaphore::MAX_PERMITS)),
            peers,
            wants_room: AtomicBool::new(false),
            room_wanted: Notify::new(),
            ended: Notify::new(),
        })
    }

    /// A vacancy, if there is one.
    pub(super) fn try_vacancy(&self) -> Option<SemaphorePermit<'_>> {
        self.vacancies.try_acquire().ok()
    }

    /// Waits for a vacancy, on behalf of a client that waits: has idle connections closed until there is one.
    pub(super) async fn vacancy(&self) -> SemaphorePermit<'_> {
        loop {
            if let Some(vacancy) = self.try_vacancy() {
                return vacancy;
            }
            self.request_room();
            for patience in [RETRY_AFTER, TO_END] {
                // The semaphore is never closed.
                if let Ok(Ok(vacancy)) = timeout(patience, self.vacancies.acquire()).await {
                    return vacancy;
                }
                if self.wants_room.load(Ordering::Acquire) {
                    // No connection could be asked.
                    break;
                }
            }
        }
    }

    /// Gives the vacancy to a connection of `client`, unless the client has too many; `None` is one that is not known yet.
    pub(super) fn admit(
        self: &Arc<Self>,
        vacancy: SemaphorePermit<'_>,
        client: Option<Peer>,
    ) -> Option<Permit> {
        let peer = match client {
            Some(client) => Some(self.peers.admit(client)?),
            None => None,
        };
        vacancy.forget();
        Some(Permit {
            peer,
            vacancy: Vacancy(Arc::clone(self)),
        })
    }

    /// A permit for another that takes as much as a connection of `client`, if there is a vacancy.
    pub(super) fn try_admit(self: &Arc<Self>, client: Peer) -> Option<Permit> {
        self.admit(self.try_vacancy()?, Some(client))
    }

    /// Requests that one idle connection is closed, which gives up its descriptor too. Another request before one is found changes nothing.
    pub(super) fn request_room(&self) {
        self.wants_room.store(true, Ordering::Release);
        self.room_wanted.notify_waiters();
    }

    /// Waits until a connection ends, from when this is called.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Closes idle connections of one reactor for clients that wait. Never ends.
    pub(super) async fn close_idle(&self, connections: &Connections) {
        loop {
            self.room_wanted.notified().await;
            // A connection whose next request has arrived is polled before: it is not idle any more.
            tokio::task::yield_now().await;
            connections.close_idlest(|| self.wants_room.swap(false, Ordering::AcqRel));
        }
    }
}

/// The permit of an open connection. It is dropped when the connection has ended and its socket is closed.
#[derive(Debug)]
pub(super) struct Permit {
    // Dropped first: with the vacancy that it gives up, the client itself may connect again.
    peer: Option<PeerPermit>,
    vacancy: Vacancy,
}

impl Permit {
    /// True when it is known which client has the connection.
    pub(super) fn has_client(&self) -> bool {
        self.peer.is_some()
    }

    /// Gives it to `client`; false when that has too many connections.
    pub(super) fn give_to(&mut self, client: Peer) -> bool {
        self.peer = self.vacancy.0.peers.admit(client);
        self.has_client()
    }
}

#[derive(Debug)]
struct Vacancy(Arc<ConnectionLimit>);

impl Drop for Vacancy {
    fn drop(&mut self) {
        self.0.vacancies.add_permits(1);
        self.0.ended.notify_waiters();
    }
}

/// The connections that each client has open, where `--max-connections-per-ip` bounds them. Clones share it.
///
/// A client is an IPv4 address or an IPv6 network of 64 bits, which is what one customer gets, or the user of processes that
/// connect to a unix socket. One over the bound is closed at once: an answer would cost what the bound is there to save. Only
/// clients with open connections are remembered. Without a bound there is no table.
#[derive(Clone, Debug, Default)]
pub struct Peers(Option<Arc<Bounded>>);

#[derive(Debug)]
struct Bounded {
    max: NonZeroU32,
    open: Mutex<HashMap<Source, u32>>,
    refused: AtomicU64,
    logged: Mutex<Logged>,
}

/// The last line of the log about refused connections: its time, and how many there had been.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    refused: u64,
}

/// One connection of a client, until it is dropped.
#[derive(Debug)]
struct PeerPermit(Option<(Arc<Bounded>, Source)>);

impl Peers {
    /// With at most `max` connections of each client, if there is a bound.
    pub fn new(max: Option<NonZeroU32>) -> Self {
        Self(max.map(|max| {
            Arc::new(Bounded {
                max,
                open: Mutex::default(),
                refused: AtomicU64::new(0),
                logged: Mutex::default(),
            })
        }))
    }

    /// Counts a connection of `peer`, or refuses it.
    fn admit(&self, peer: Peer) -> Option<PeerPermit> {
        let Some(bounded) = &self.0 else {
            return Some(PeerPermit(None));
        };
        let client = peer.source();
        if bounded.enter(client) {
            return Some(PeerPermit(Some((Arc::clone(bounded), client))));
        }
        bounded.refuse(peer);
        None
    }

    /// Connections refused so far.
    pub fn refused(&self) -> u64 {
        let refused = |bounded: &Arc<Bounded>| bounded.refused.load(Ordering::Relaxed);
        self.0.as_ref().map_or(0, refused)
    }
}

impl Bounded {
    fn open(&self) -> MutexGuard<'_, HashMap<Source, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, client: Source) -> bool {
        let mut open = self.open();
        let connections = open.entry(client).or_insert(0);
        let enters = *connections < self.max.get();
        *connections += u32::from(enters);
        enters
    }

    fn leave(&self, client: Source) {
        let mut open = self.open();
        if let Some(connections) = open.get_mut(&client) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&client);
            }
        }
    }

    fn refuse(&self, peer: Peer) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            let since = refused.saturating_sub(logged.refused);
            let address = match peer {
                Peer::Address(address) => address.ip().to_string(),
                Peer::Process { .. } => peer.to_string(),
            };
            tracing::warn!(
                address,
                max = self.max,
                refused = since,
                "too many connections from one address"
            );
            *logged = Logged {
                at: Some(Instant::now()),
                refused,
            };
        }
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        if let Some((bounded, client)) = &self.0 {
            bounded.leave(*client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Peer = Peer::Process { uid: 0, pid: 1 };

    fn admit(limit: &Arc<ConnectionLimit>) -> Option<Permit> {
        limit.try_admit(CLIENT)
    }

    #[test]
    fn a_client_that_is_refused_takes_no_vacancy_and_an_ended_connection_gives_its_own_back() {
        let limit = ConnectionLimit::new(2, Peers::new(NonZeroU32::new(1)));
        let permit = admit(&limit).expect("the first");
        for _ in 0..5 {
            assert!(admit(&limit).is_none());
        }
        assert!(limit.try_vacancy().is_some());
        drop(permit);
        let _permit = admit(&limit).expect("the next");
        let _vacancy = limit.try_vacancy().expect("the second vacancy");
        assert!(limit.try_vacancy().is_none());
    }

    #[test]
    fn a_client_that_is_known_later_counts_from_then() {
        let limit = ConnectionLimit::new(3, Peers::new(NonZeroU32::new(1)));
        let unknown = || limit.admit(limit.try_vacancy()?, None);
        let mut first = unknown().expect("the first");
        let mut second = unknown().expect("the second");
        assert!(first.give_to(CLIENT) && first.has_client());
        assert!(!second.give_to(CLIENT) && !second.has_client());
        assert!(admit(&limit).is_none());
        drop(first);
        assert!(second.give_to(CLIENT));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_vacancy_ends_with_the_first_connection_that_ends() {
        let limit = ConnectionLimit::new(1, Peers::default());
        let permit = admit(&limit).expect("the first");
        let patience = RETRY_AFTER * 10;
        assert!(timeout(patience, limit.vacancy()).await.is_err());
        let ending = async {
            tokio::time::sleep(RETRY_AFTER * 5 / 2).await;
            drop(permit);
        };
        let (vacancy, ()) = tokio::join!(timeout(patience, limit.vacancy()), ending);
        assert!(vacancy.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_ends_between_a_failure_and_the_wait_is_not_missed() {
        let limit = ConnectionLimit::new(1, Peers::default());
        let permit = admit(&limit);
        let ended = limit.ended();
        drop(permit);
        let second = Duration::from_secs(1);
        assert!(timeout(second, ended).await.is_ok());
        assert!(timeout(second, limit.ended()).await.is_err());
    }

    fn peers(max: u32) -> Peers {
        Peers::new(NonZeroU32::new(max))
    }

    fn address(text: &str) -> Peer {
        Peer::Address((text.parse::<std::net::IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn a_client_over_the_bound_is_refused_until_one_of_its_connections_ends() {
        let peers = peers(2);
        let first = peers.admit(address("192.0.2.1")).unwrap();
        let _second = peers.admit(address("192.0.2.1")).unwrap();
        assert!(peers.admit(address("192.0.2.1")).is_none());
        assert!(peers.admit(address("::ffff:192.0.2.1")).is_none());
        assert!(peers.admit(address("192.0.2.2")).is_some());
        drop(first);
        assert!(peers.admit(address("192.0.2.1")).is_some());
        assert_eq!(peers.refused(), 2);
    }

    #[test]
    fn ipv6_is_counted_by_networks_of_64_bits() {
        let peers = peers(1);
        let _permit = peers.admit(address("2001:db8::1")).unwrap();
        assert!(peers.admit(address("2001:db8::ffff:0:0:1")).is_none());
        assert!(peers.admit(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn processes_are_counted_by_user() {
        let peers = peers(1);
        let process = |uid, pid| Peer::Process { uid, pid };
        let _permit = peers.admit(process(1, 10)).unwrap();
        assert!(peers.admit(process(1, 11)).is_none());
        assert!(peers.admit(process(2, 10)).is_some());
    }

    #[test]
    fn only_clients_with_open_connections_are_remembered() {
        let peers = peers(1);
        for host in 0..=255 {
            let peer = Peer::Address(([192, 0, 2, host], 1).into());
            let permit = peers.admit(peer).unwrap();
            assert!(peers.admit(peer).is_none());
            drop(permit);
        }
        assert!(peers.0.unwrap().open().is_empty());
    }

    #[test]
    fn without_a_bound_nobody_is_refused_or_remembered() {
        let peers = Peers::default();
        let permits: Vec<_> = (0..1000)
            .map(|_| peers.admit(address("192.0.2.1")))
            .collect();
        assert!(permits.iter().all(Option::is_some));
    }
}
