//! The limits of open connections: in all, and of each client.
//!
//! An accept loop takes a vacancy before it accepts, and makes it a [`Permit`] of the connection. The connection drops
//! its permit when it ends, on its own thread. While there is no vacancy, or no descriptor, idle connections are closed
//! for clients that wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connections::Connections;
use crate::access::ClientSource;
use crate::http::Peer;

/// How long to wait for an idle connection to end before the next request: a busy one may have become idle.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// How long a connection that was asked to end has for it before another is asked: most need a round trip.
const TO_END: Duration = Duration::from_millis(250);

/// The log has a line about refused connections at most this often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The limit of one server: all that accepts for it shares it, and so do its reactors.
#[derive(Debug)]
pub struct ConnectionLimit {
    /// One for each connection that may be opened still.
    vacancies: Semaphore,
    /// The most connections of one client (`--max-connections-per-ip`), if they are bounded.
    most_of_one: Option<NonZeroU32>,
    clients: Mutex<Clients>,
    /// An idle connection is to be closed, and none has been found yet.
    wants_room: AtomicBool,
    room_wanted: Notify,
    ended: Notify,
}

/// The clients of a server, where their connections are bounded: only those that have open ones.
///
/// A client is an IPv4 address or an IPv6 network of 64 bits, which is what one customer gets, or the user of processes
/// that connect to a unix socket. One over the bound is closed at once: an answer would cost what the bound is there to
/// save.
#[derive(Debug, Default)]
struct Clients {
    open: HashMap<ClientSource, u32>,
    refused: u64,
    /// The last line of the log about refused connections: its time, and how many there had been.
    logged: Option<(Instant, u64)>,
}

impl ConnectionLimit {
    /// At most `max` connections, and `most_of_one` of each client.
    pub(super) fn new(max: usize, most_of_one: Option<NonZeroU32>) -> Arc<Self> {
        Arc::new(Self {
            vacancies: Semaphore::new(max.min(Semaphore::MAX_PERMITS)),
            most_of_one,
            clients: Mutex::default(),
            wants_room: AtomicBool::new(false),
            room_wanted: Notify::new(),
            ended: Notify::new(),
        })
    }

    /// Connections refused so far because their client had too many.
    pub fn refused(&self) -> u64 {
        self.clients.lock().refused
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

    /// Gives the vacancy to a connection of `client`, unless the client has too many; `None` is one that is not known
    /// yet.
    pub(super) fn admit(
        self: &Arc<Self>,
        vacancy: SemaphorePermit<'_>,
        client: Option<Peer>,
    ) -> Option<Permit> {
        let client = match client {
            Some(client) => Some(self.enter(client)?),
            None => None,
        };
        vacancy.forget();
        Some(Permit {
            client,
            limit: Arc::clone(self),
        })
    }

    /// Counts a connection of `peer`, unless it has too many.
    fn enter(&self, peer: Peer) -> Option<ClientSource> {
        let client = peer.source();
        let Some(max) = self.most_of_one else {
            return Some(client);
        };
        let mut clients = self.clients.lock();
        let open = clients.open.entry(client).or_insert(0);
        if *open < max.get() {
            *open += 1;
            return Some(client);
        }
        clients.refused += 1;
        let (refused, logged) = (clients.refused, clients.logged);
        if logged.is_none_or(|(at, _)| at.elapsed() >= LOG_EVERY) {
            let address = match peer {
                Peer::Address(address) => address.ip().to_string(),
                Peer::Process { .. } => peer.to_string(),
            };
            let refused = refused - logged.map_or(0, |(_, before)| before);
            tracing::warn!(
                address,
                max,
                refused,
                "too many connections from one address"
            );
            clients.logged = Some((Instant::now(), clients.refused));
        }
        None
    }

    /// Gives up a connection of `client`.
    fn leave(&self, client: ClientSource) {
        if self.most_of_one.is_none() {
            return;
        }
        if let Entry::Occupied(mut open) = self.clients.lock().open.entry(client) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }

    /// A permit for another that takes as much as a connection of `client`, if there is a vacancy.
    pub(super) fn try_admit(self: &Arc<Self>, client: Peer) -> Option<Permit> {
        self.admit(self.try_vacancy()?, Some(client))
    }

    /// Requests that one idle connection is closed, which gives up its descriptor too. Another request before one is
    /// found changes nothing.
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
    client: Option<ClientSource>,
    limit: Arc<ConnectionLimit>,
}

impl Permit {
    /// True when it is known which client has the connection.
    pub(super) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Gives it to `client`; false when that has too many connections.
    pub(super) fn give_to(&mut self, client: Peer) -> bool {
        self.client = self.limit.enter(client);
        self.has_client()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // First: with the vacancy that this gives up, the client itself may connect again.
        if let Some(client) = self.client {
            self.limit.leave(client);
        }
        self.limit.vacancies.add_permits(1);
        self.limit.ended.notify_waiters();
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
        let limit = ConnectionLimit::new(2, NonZeroU32::new(1));
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
        let limit = ConnectionLimit::new(3, NonZeroU32::new(1));
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
        let limit = ConnectionLimit::new(1, None);
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
        let limit = ConnectionLimit::new(1, None);
        let permit = admit(&limit);
        let ended = limit.ended();
        drop(permit);
        let second = Duration::from_secs(1);
        assert!(timeout(second, ended).await.is_ok());
        assert!(timeout(second, limit.ended()).await.is_err());
    }

    /// Without a bound for one client where `max` is 0.
    fn of_one(max: u32) -> Arc<ConnectionLimit> {
        ConnectionLimit::new(1000, NonZeroU32::new(max))
    }

    fn address(text: &str) -> Peer {
        Peer::Address((text.parse::<std::net::IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn a_client_over_the_bound_is_refused_until_one_of_its_connections_ends() {
        let limit = of_one(2);
        let first = limit.try_admit(address("192.0.2.1")).unwrap();
        let _second = limit.try_admit(address("192.0.2.1")).unwrap();
        assert!(limit.try_admit(address("192.0.2.1")).is_none());
        assert!(limit.try_admit(address("::ffff:192.0.2.1")).is_none());
        assert!(limit.try_admit(address("192.0.2.2")).is_some());
        drop(first);
        assert!(limit.try_admit(address("192.0.2.1")).is_some());
        assert_eq!(limit.refused(), 2);
    }

    #[test]
    fn ipv6_is_counted_by_networks_of_64_bits() {
        let limit = of_one(1);
        let _permit = limit.try_admit(address("2001:db8::1")).unwrap();
        assert!(limit.try_admit(address("2001:db8::ffff:0:0:1")).is_none());
        assert!(limit.try_admit(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn processes_are_counted_by_user() {
        let limit = of_one(1);
        let process = |uid, pid| Peer::Process { uid, pid };
        let _permit = limit.try_admit(process(1, 10)).unwrap();
        assert!(limit.try_admit(process(1, 11)).is_none());
        assert!(limit.try_admit(process(2, 10)).is_some());
    }

    #[test]
    fn only_clients_with_open_connections_are_remembered() {
        let limit = of_one(1);
        for host in 0..=255 {
            let peer = Peer::Address(([192, 0, 2, host], 1).into());
            let permit = limit.try_admit(peer).unwrap();
            assert!(limit.try_admit(peer).is_none());
            drop(permit);
        }
        assert!(limit.clients.lock().open.is_empty());
    }

    #[test]
    fn without_a_bound_nobody_is_refused_or_remembered() {
        let limit = of_one(0);
        let permits: Vec<_> = (0..1000)
            .map(|_| limit.try_admit(address("192.0.2.1")))
            .collect();
        assert!(permits.iter().all(Option::is_some));
        assert!(limit.clients.lock().open.is_empty());
    }
}
