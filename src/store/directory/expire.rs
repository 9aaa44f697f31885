//! The removal of values that have ended.
//!
//! Such a value is absent to every request at once ([`Meta::has_ended`]): the walks here only give its place back. Each removal is a
//! change like any other, and the publisher makes it only if the value is still the one that was found. What a client has stored
//! meanwhile stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, Sender};

use super::Directory;
use crate::failpoint;
use crate::store::changes::Removal;
use crate::store::directory_fd::ValuesDir;
use crate::store::list::{Entries, Go, Met, Order, Walk};
use crate::store::publish::{Condition, Publisher};
use crate::value::{Error, Key, Meta};

/// The time between two walks.
const WALK_EVERY: Duration = Duration::from_secs(600);

/// The removals that are handed to the publisher at once: clients have their turn in between.
const REMOVED_AT_ONCE: usize = 64;

/// Values that have ended, each as it was found.
type Ended = Vec<(Key<'static>, Meta)>;

impl Directory {
    /// Removes for ever the files of values that have ended, if it may write: at once, and again from time to time. It walks only where a
    /// value ever had an end.
    pub async fn remove_ended(&self) {
        let Some(writing) = &self.writing else { return };
        let pause = failpoint::expiry_interval(WALK_EVERY);
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

    /// Removes what has ended below the folder `below` while a listing thread finds more of it. Answers the first failure: one file or folder that is in the way
    /// keeps no other from going.
    pub(super) async fn remove_all(&self, publisher: &Publisher, below: &str) -> Option<Error> {
        let (found, mut ended) = mpsc::channel(1);
        let (dir, below) = (Arc::clone(&self.dir), below.to_owned());
        let find = self
            .lister
            .threads
            .spawn(move || Ok(find_ended(&dir, &below, &found)));
        let mut failure = None;
        while let Some(some) = ended.recv().await {
            let still = |(key, meta)| (key, is_still(meta));
            let removed = publisher.remove(Ended::into_iter(some).map(still), Removal::Expired);
            let failed = removed.await.into_iter().filter_map(Result::err);
            let failed = failed.filter(|error| !matches!(error, Error::Precondition));
            failure = failure.into_iter().chain(failed).next();
        }
        failure.or(find.await.unwrap_or_else(Some))
    }
}

/// Holds for a value that is still the one of `found`, and has still ended.
fn is_still(found: Meta) -> Condition {
    Box::new(move |now| now.is_some_and(|now| now == found && now.has_ended()))
}

/// Sends the values of `dir` below the folder `below` that have ended, some at a time. Answers the first failure. Blocks.
fn find_ended(dir: &ValuesDir, below: &str, found: &Sender<Ended>) -> Option<Error> {
    let (mut ended, mut failure, mut entries) = (Ended::new(), None, Entries::new(dir));
    let mut walk = Walk::below(below, Order::AsRead);
    let walked = walk.go_on(dir, usize::MAX, |met| {
        // Nothing waits any more where the directory is closed.
        if found.is_closed() {
            return Ok(Go::Past);
        }
        let Met::Value(key) = met else {
            return Ok(Go::On);
        };
        match entries.meta(&key)? {
            Ok(Some(meta)) if meta.has_ended() => ended.push((key.into_owned(), meta)),
            Ok(_) => {}
            Err(why) => drop(failure.get_or_insert(why)),
        }
        if ended.len() == REMOVED_AT_ONCE {
            let _ = found.blocking_send(std::mem::take(&mut ended));
        }
        Ok(Go::On)
    });
    let _ = found.blocking_send(ended);
    failure.or(walked.err())
}
