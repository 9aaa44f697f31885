//! How many connections may be open: in all, and of each client.
//!
//! What accepts takes a vacancy before it accepts, and makes it a [`Permit`] of the connection. The connection drops its
//! permit when it ends, on its own thread. While there is no vacancy, or no descriptor, idle connections are closed for
//! clients that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connections::Connections;
use super::peers::{PeerPermit, Peers};
use crate::http::Peer;

/// The limit of one server: all that accepts for it shares it, and so do its reactors.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    /// One for each connection that may be opened still.
    vacancies: Semaphore,
    peers: Peers,
    shortage: Shortage,
    ended: Notify,
}

impl ConnectionLimit {
    /// At most `max` connections, and of each client as many as `peers` admits.
    pub(super) fn new(max: usize, peers: Peers) -> Arc<Self> {
        Arc::new(Self {
            vacancies: Semaphore::new(max.min(Semaphore::MAX_PERMITS)),
            peers,
            shortage: Shortage::default(),
            ended: Notify::new(),
        })
    }

    pub(super) fn is_reached(&self) -> bool {
        self.vacancies.available_permits() == 0
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
            self.shortage.request();
            // The semaphore is never closed.
            if let Ok(Ok(vacancy)) = timeout(RETRY_AFTER, self.vacancies.acquire()).await {
                return vacancy;
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

    /// Has an idle connection closed, if a failure to accept says that there are no descriptors.
    pub(super) fn make_room_after(&self, failure: Errno) {
        self.shortage.request_after(failure);
    }

    /// Waits until a connection ends, from when this is called.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Closes idle connections of one reactor for clients that wait. Never ends.
    pub(super) async fn close_idle(&self, connections: &Connections) {
        self.shortage.relieve(connections).await;
    }
}

/// The permit of an open connection. It is dropped when the connection has ended and its socket is closed.
#[derive(Debug)]
pub(super) struct Permit {
    // Dropped first: a client whose place is free for others may take it itself.
    peer: Option<PeerPermit>,
    vacancy: Vacancy,
}

impl Permit {
    /// Whether it is known which client has the connection.
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

/// How long to wait for an idle connection to end before the next request: a busy one may have become idle.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Shared by what accepts and the reactors that it accepts for.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    is_requested: AtomicBool,
    requested: Notify,
}

impl Shortage {
    /// Requests that one idle connection is closed. Another request before one is found changes nothing.
    pub(super) fn request(&self) {
        self.is_requested.store(true, Ordering::Release);
        self.requested.notify_waiters();
    }

    /// The same, if a failure to accept says that there are no descriptors.
    pub(super) fn request_after(&self, failure: Errno) {
        if matches!(failure, Errno::MFILE | Errno::NFILE) {
            self.request();
        }
    }

    /// Closes idle connections of one reactor as that is requested. Never ends.
    pub(super) async fn relieve(&self, connections: &Connections) {
        loop {
            self.requested.notified().await;
            // A connection whose next request has arrived is polled before: it is not idle any more.
            tokio::task::yield_now().await;
            connections.close_idlest(|| self.is_requested.swap(false, Ordering::AcqRel));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;

    const CLIENT: Peer = Peer::Process { uid: 0, pid: 1 };

    fn admit(limit: &Arc<ConnectionLimit>) -> Option<Permit> {
        limit.admit(limit.try_vacancy()?, Some(CLIENT))
    }

    #[test]
    fn a_client_that_is_refused_takes_no_vacancy_and_an_ended_connection_gives_its_own_back() {
        let limit = ConnectionLimit::new(2, Peers::new(NonZeroU32::new(1)));
        let permit = admit(&limit).expect("the first");
        for _ in 0..5 {
            assert!(admit(&limit).is_none());
        }
        assert!(!limit.is_reached());
        drop(permit);
        let _permit = admit(&limit).expect("the next");
        let _vacancy = limit.try_vacancy().expect("the second vacancy");
        assert!(limit.is_reached() && limit.try_vacancy().is_none());
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
}
