//! The unfinished uploads in the store, as this server last saw them: how many there are, and how many there may be.
//!
//! A search of the store finds them, and what this server begins, ends and meets between two searches is counted at once.
//! What other servers do in that time is not known, so each server holds to the bound by itself.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::super::super::error::Error;
use super::super::super::resumable::{MOST, UploadId, no_room};
use crate::metrics::SharedCounter;

/// How far the clock of the store may be behind that of the server.
const SKEW: Duration = Duration::from_secs(3600);

/// The unfinished uploads in the store, as this server last saw them.
#[derive(Debug, Default)]
pub struct UnfinishedUploads {
    seen: Mutex<Seen>,
    /// Those that expired, and that this server removed.
    pub expired: SharedCounter,
}

#[derive(Debug, Default)]
struct Seen {
    /// Each was in the store before it came in here, so that a search that does not find it means that it has ended.
    open: HashSet<UploadId>,
    /// How many are being made.
    beginning: usize,
    /// When the last search of the whole store began.
    searched: Option<SystemTime>,
    /// The upload that a search is looking at, if it did not end meanwhile.
    looked_at: Option<UploadId>,
}

/// Room for an upload that is being made.
#[derive(Debug)]
pub(super) struct Room<'a>(&'a UnfinishedUploads);

/// A search of the store, while it is made.
#[derive(Debug)]
pub(super) struct Search {
    /// What was known when it began.
    before: HashSet<UploadId>,
    began: SystemTime,
    last: Option<SystemTime>,
}

impl UnfinishedUploads {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.seen().open.len()
    }

    /// Room for one more, while it is made.
    pub(super) fn begin(&self) -> Result<Room<'_>, Error> {
        let mut seen = self.seen();
        if seen.open.len() + seen.beginning >= MOST {
            return Err(no_room());
        }
        seen.beginning += 1;
        Ok(Room(self))
    }

    /// An upload was seen in the store, unfinished if it `is_open`.
    pub(super) fn saw(&self, id: UploadId, is_open: bool) {
        let mut seen = self.seen();
        if is_open {
            seen.open.insert(id);
        } else {
            seen.open.remove(&id);
            seen.looked_at.take_if(|looked_at| *looked_at == id);
        }
    }

    /// A search begins to look at an upload.
    pub(super) fn look(&self, id: UploadId) {
        self.seen().looked_at = Some(id);
    }

    /// What the search saw of it, which may be out of date.
    pub(super) fn looked(&self, id: UploadId, is_open: bool) {
        let ended_meanwhile = self.seen().looked_at.take().is_none();
        if !ended_meanwhile {
            self.saw(id, is_open);
        }
    }

    /// Begins to search the store.
    pub(super) fn search(&self) -> Search {
        let seen = self.seen();
        Search {
            before: seen.open.clone(),
            began: SystemTime::now(),
            last: seen.searched,
        }
    }

    /// The search has come to its end, and these uploads are in the store.
    pub(super) fn searched(&self, search: &Search, there: &HashSet<UploadId>) {
        let mut seen = self.seen();
        let is_gone = |id: &UploadId| search.before.contains(id) && !there.contains(id);
        seen.open.retain(|id| !is_gone(id));
        seen.searched = Some(search.began);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.seen().beginning -= 1;
    }
}

impl Search {
    /// Whether an upload may have begun or ended since the last search, if it was changed last when it was `modified`.
    pub(super) fn is_news(&self, modified: SystemTime) -> bool {
        self.last.is_none_or(|last| modified + SKEW >= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> UploadId {
        UploadId::random().unwrap()
    }

    #[test]
    fn no_more_are_begun_than_there_may_be() {
        let uploads = UnfinishedUploads::default();
        let last = new();
        uploads.saw(last, true);
        for _ in 2..MOST {
            uploads.saw(new(), true);
        }
        let room = uploads.begin().unwrap();
        let refused = uploads.begin();
        assert!(matches!(refused, Err(Error::Exhausted { .. })));
        drop(room);
        drop(uploads.begin().unwrap());
        uploads.saw(new(), true);
        assert_eq!(uploads.count(), MOST);
        assert!(uploads.begin().is_err());
        uploads.saw(last, false);
        uploads.begin().unwrap();
    }

    #[test]
    fn what_ends_while_a_search_looks_at_it_has_ended() {
        let uploads = UnfinishedUploads::default();
        let [ended, other] = [new(), new()];
        for (ends, left) in [(ended, 0), (other, 1)] {
            uploads.look(ended);
            uploads.saw(ends, false);
            uploads.looked(ended, true);
            assert_eq!(uploads.count(), left);
        }
    }

    #[test]
    fn a_search_forgets_what_is_not_there_but_for_what_began_meanwhile() {
        let uploads = UnfinishedUploads::default();
        let [stays, gone, begun] = [new(), new(), new()];
        uploads.saw(stays, true);
        uploads.saw(gone, true);
        let search = uploads.search();
        uploads.saw(begun, true);
        uploads.searched(&search, &HashSet::from([stays]));
        assert_eq!(uploads.seen().open, HashSet::from([stays, begun]));
    }

    #[test]
    fn what_changed_before_the_last_search_is_known() {
        let uploads = UnfinishedUploads::default();
        let now = SystemTime::now();
        assert!(uploads.search().is_news(now - 48 * SKEW), "the first");
        uploads.searched(&uploads.search(), &HashSet::new());
        let next = uploads.search();
        assert!(next.is_news(now - SKEW / 2), "its clock may be behind");
        assert!(!next.is_news(now - 2 * SKEW));
    }
}
