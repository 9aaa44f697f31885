//! The removal of values that have ended.
//!
//! Such a value is absent to every request at once ([`Meta::has_ended`]): the walks here only give its place back. Each removal is a
//! change like any other, and the publisher makes it only if the value is still the one that was found. What a client has stored
//! meanwhile stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::Directory;
use crate::failpoint;
use crate::store::changes::Removal;
use crate::store::directory_fd::{NameKind, ValuesDir};
use crate::store::list::walk::{Met, open, walk};
use crate::store::publish::{Condition, Publisher};
use crate::value::{Error, Key, Meta};

/// The time between two walks.
const WALK_EVERY: Duration = Duration::from_secs(600);

/// The values of one folder that are found before they are removed, at most.
const FOUND_AT_ONCE: usize = 1 << 16;

/// The removals that are handed to the publisher at once: clients have their turn in between.
const REMOVED_AT_ONCE: usize = 64;

/// What one look at a folder has found.
#[derive(Default)]
struct Folder {
    below: Vec<String>,
    /// The values that have ended.
    ended: Vec<(Key<'static>, Meta)>,
    /// There may be more of them.
    is_cut: bool,
}

impl Directory {
    /// Removes for ever the files of values that have ended, if it may write: at once, and again from time to time. It walks only where a
    /// value ever had an end.
    pub async fn remove_ended(&self) {
        let Some(writing) = &self.writing else { return };
        let pause = failpoint::expiry_interval(WALK_EVERY);
        loop {
            let began = Instant::now();
            if self.dir.ends.is_possible()
                && let Some(error) = self.remove_all(&writing.publisher).await
            {
                tracing::error!(%error, "cannot remove all values that have ended");
            }
            // A walk of more than a second is a small part of the time.
            let long = began.elapsed().saturating_sub(Duration::from_secs(1));
            tokio::time::sleep(pause.max(20 * long)).await;
        }
    }

    /// Removes what has ended, and answers the first failure: one file or folder that is in the way keeps no other from going.
    async fn remove_all(&self, publisher: &Publisher) -> Option<Error> {
        let mut failure = None;
        let mut folders = vec![String::new()];
        while let Some(path) = folders.pop() {
            let (dir, at) = (Arc::clone(&self.dir), path.clone());
            let look = move || look(&dir, &at);
            let found = self.lister.threads.spawn(look).await;
            let mut found = found.unwrap_or_else(|error| {
                failure.get_or_insert(error);
                Folder::default()
            });
            let mut is_less = false;
            while !found.ended.is_empty() {
                let rest = found.ended.len().saturating_sub(REMOVED_AT_ONCE);
                let remove = |(key, meta)| {
                    self.cache.forget(&key);
                    publisher.remove(key, is_still(meta), Removal::Expired)
                };
                let removals: Vec<_> = found.ended.drain(rest..).map(remove).collect();
                // Together: a reply that is not waited for would keep those of the others.
                for removed in join_all(removals).await {
                    match removed {
                        Ok(removed) => is_less |= removed.is_some(),
                        Err(Error::Precondition) => {}
                        Err(error) => drop(failure.get_or_insert(error)),
                    }
                }
            }
            if found.is_cut && is_less {
                // It is looked at again, with the folders in it.
                folders.push(path);
            } else {
                folders.append(&mut found.below);
            }
        }
        failure
    }
}

/// Holds for a value that is still the one of `found`, and has still ended.
fn is_still(found: Meta) -> Condition {
    Box::new(move |now| now.is_some_and(|now| now == found && now.has_ended()))
}

/// Looks for ended values in the folder `path`. Blocks.
fn look(dir: &ValuesDir, path: &str) -> Result<Folder, Error> {
    let mut found = Folder::default();
    let Some(folder) = open(dir, path)? else {
        return Ok(found);
    };
    walk(dir, &folder, path, |met| {
        match met {
            Met::Pause => {}
            Met::Folder(path) => found.below.push(path),
            Met::Value(_) if found.ended.len() == FOUND_AT_ONCE => found.is_cut = true,
            Met::Value(key) => {
                let entry = dir.look_up(&folder, key.name());
                if let NameKind::Value(meta, _) = entry.map_err(Error::errno_while("look up"))?
                    && meta.has_ended()
                {
                    found.ended.push((key.into_owned(), meta));
                }
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(found)
}
