//! Closing idle connections for clients that wait, when connections are at their limit or descriptors have run out.
//!
//! Accepting asks, and the first reactor that has an idle connection closes the one that has been idle longest. A
//! connection with a request under way is never closed for another client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::Notify;

use super::connections::Connections;

/// How long to wait for an idle connection to end before asking again: a busy one may have become idle.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Shared by what accepts and the reactors that it accepts for.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    is_asked: AtomicBool,
    asked: Notify,
}

impl Shortage {
    /// Asks for one idle connection to be closed. Asking again before one is found changes nothing.
    pub(super) fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
        self.asked.notify_waiters();
    }

    /// Asks, if a failure to accept says that there are no descriptors.
    pub(super) fn ask_after(&self, failure: Errno) {
        if matches!(failure, Errno::MFILE | Errno::NFILE) {
            self.ask();
        }
    }

    /// Closes idle connections of one reactor as they are asked for. Never ends.
    pub(super) async fn relieve(&self, connections: &Connections) {
        loop {
            self.asked.notified().await;
            // A connection whose next request has arrived is polled before: it is not idle any more.
            tokio::task::yield_now().await;
            connections.close_idlest(|| self.is_asked.swap(false, Ordering::AcqRel));
        }
    }
}
