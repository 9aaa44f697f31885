//! The removal of values that have ended.
//!
//! Such a value is absent to every request at once ([`Meta::has_ended`]): the walks here only give its place back. Each
//! removal is a change like any other, and the publisher makes it only if the value is still the one that was found.
//! What a client has stored meanwhile stays.

use std::time::{Duration, Instant};

use super::Directory;
use crate::failpoint;
use crate::store::list::{Order, SPARE, ValueWalk};
use crate::store::publish::{Publisher, removal_of_ended};
use crate::value::{Error, Prefixes};

/// The time between two walks.
const WALK_EVERY: Duration = Duration::from_secs(600);

impl Directory {
    /// Removes for ever the files of values that have ended, if it may write: at once, and again from time to time. It
    /// walks only where a value ever had an end.
    pub async fn remove_ended(&self) {
        let Some(writing) = &self.writing else { return };
        let pause = failpoint::interval("DATA_SERVER_EXPIRY", WALK_EVERY);
        loop {
            let began = Instant::now();
            if self.dir.ends.is_possible()
                && let Some(error) = self.remove_all(&writing.publisher, "").await
            {
                tracing::error!(%error, "cannot remove all values that have ended");
            }
            // A walk of more than a second is a small part of the time.
            let long = began.elapsed().saturating_sub(Duration::from_secs(1));
            tokio::time::sleep(pause.max(20 * long)).await;
        }
    }

    /// Removes what has ended below the folder `below`. Answers the first failure: one file or folder that is in the
    /// way keeps no other from going.
    pub(super) async fn remove_all(&self, publisher: &Publisher, below: &str) -> Option<Error> {
        let mut walk = ValueWalk::below(below, Prefixes::all(), Order::AsRead, SPARE);
        let mut failure = None;
        loop {
            let ended = match self.next_values(&mut walk).await {
                Ok(Some(found)) => found.ended,
                Ok(None) => return failure,
                Err(error) => return failure.or(Some(error)),
            };
            let ended = ended.into_iter();
            let removals = ended.map(|(key, meta)| removal_of_ended(key, meta));
            let removed = publisher.evict(removals, || true).await;
            let mut failed = removed.into_iter().filter_map(Result::err);
            failure = failure.or(failed.find(|error| !matches!(error, Error::Precondition)));
        }
    }
}
