//! Closing idle connections for clients that wait, when connections are at their limit or descriptors have run out.
//!
//! Accepting requests it, and the first reactor that has an idle connection closes the one that has been idle longest. A
//! connection with a request under way is never closed for another client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::Notify;

use super::connections::Connections;

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
