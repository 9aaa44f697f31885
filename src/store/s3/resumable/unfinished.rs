//! The unfinished uploads in the store, as this server last saw them: how many there are, and how many there may be.
//!
//! A search of the store finds them, and what this server begins, ends and meets between two searches is counted at once.
//! What other servers do in that time is not known, so each server holds to the bound by itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::super::super::error::Error;
use super::super::super::resumable::{MOST, UploadId, no_room};
use super::super::super::staging_quota::{Reservation, StagingQuota, Uploader};
use crate::metrics::SharedCounter;

/// How far the clock of the store may be behind that of the server.
const SKEW: Duration = Duration::from_secs(3600);

/// The unfinished uploads in the store, as this server last saw them.
#[derive(Debug)]
pub struct UnfinishedUploads {
    quota: Arc<StagingQuota>,
    seen: Mutex<Seen>,
    /// Those that expired, and that this server removed.
    pub expired: SharedCounter,
}

#[derive(Debug, Default)]
struct Seen {
    /// Each was in the store before it came in here, so that a search that does not find it means that it has ended.
    open: HashMap<UploadId, Reservation>,
    /// How many are being made.
    beginning: usize,
    /// When the last search of the whole store began.
    searched: Option<SystemTime>,
    /// The upload that a search is looking at, if it did not end meanwhile.
    looked_at: Option<UploadId>,
}

/// Room for an upload that is being made.
#[derive(Debug)]
pub(super) struct Room<'a> {
    uploads: &'a UnfinishedUploads,
    /// Its place among those of its client.
    _place: Reservation,
}

/// A search of the store, while it is made.
#[derive(Debug)]
pub(super) struct Search {
    /// What was known when it began.
    before: HashSet<UploadId>,
    began: SystemTime,
    last: Option<SystemTime>,
}

impl UnfinishedUploads {
    /// None; what there is counts in `quota`, for its client.
    pub(in crate::store) fn new(quota: &Arc<StagingQuota>) -> Self {
        Self {
            quota: Arc::clone(quota),
            seen: Mutex::default(),
            expired: SharedCounter::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.seen().open.len()
    }

    /// Room for one more, while it is made.
    pub(super) fn begin(&self, uploader: &Uploader) -> Result<Room<'_>, Error> {
        let place = Reservation::of_unfinished(&self.quota, uploader.clone())?;
        let mut seen = self.seen();
        if seen.open.len() + seen.beginning >= MOST {
            return Err(no_room());
        }
        seen.beginning += 1;
        drop(seen);
        Ok(Room {
            uploads: self,
            _place: place,
        })
    }

    /// An unfinished upload of `uploader` was seen in the store.
    pub(super) fn saw(&self, id: UploadId, uploader: Option<Uploader>) {
        let open = &mut self.seen().open;
        let place = || Reservation::of_left(&self.quota, uploader, 0);
        open.entry(id).or_insert_with(place);
    }

    /// An upload has ended.
    pub(super) fn ended(&self, id: UploadId) {
        let mut seen = self.seen();
        seen.open.remove(&id);
        seen.looked_at.take_if(|looked_at| *looked_at == id);
    }

    /// A search begins to look at an upload.
    pub(super) fn look(&self, id: UploadId) {
        self.seen().looked_at = Some(id);
    }

    /// What the search saw of one of `uploader`, unfinished if it `is_open`; it may be out of date.
    pub(super) fn looked(&self, id: UploadId, is_open: bool, uploader: Option<Uploader>) {
        let ended_meanwhile = self.seen().looked_at.take().is_none();
        if ended_meanwhile {
            return;
        }
        if is_open {
            self.saw(id, uploader);
        } else {
            self.ended(id);
        }
    }

    /// Begins to search the store.
    pub(super) fn search(&self) -> Search {
        let seen = self.seen();
        Search {
            before: seen.open.keys().copied().collect(),
            began: SystemTime::now(),
            last: seen.searched,
        }
    }

    /// The search has come to its end, and these uploads are in the store.
    pub(super) fn searched(&self, search: &Search, there: &HashSet<UploadId>) {
        let mut seen = self.seen();
        let is_gone = |id: &UploadId| search.before.contains(id) && !there.contains(id);
        seen.open.retain(|id, _| !is_gone(id));
        seen.searched = Some(search.began);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.uploads.seen().beginning -= 1;
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
    use super::super::super::super::staging_quota::StagingBounds;
    use super::*;

    fn none() -> UnfinishedUploads {
        UnfinishedUploads::new(&StagingQuota::new(StagingBounds::default()))
    }

    fn new() -> UploadId {
        UploadId::random().unwrap()
    }

    #[test]
    fn no_more_are_begun_than_there_may_be() {
        let uploads = none();
        let last = new();
        uploads.saw(last, None);
        for _ in 2..MOST {
            uploads.saw(new(), None);
        }
        let room = uploads.begin(&Uploader::new("a")).unwrap();
        let refused = uploads.begin(&Uploader::new("a"));
        assert!(matches!(refused, Err(Error::Exhausted { .. })));
        drop(room);
        drop(uploads.begin(&Uploader::new("a")).unwrap());
        uploads.saw(new(), None);
        assert_eq!(uploads.count(), MOST);
        assert!(uploads.begin(&Uploader::new("a")).is_err());
        uploads.ended(last);
        uploads.begin(&Uploader::new("a")).unwrap();
    }

    #[test]
    fn what_ends_while_a_search_looks_at_it_has_ended() {
        let uploads = none();
        let [ended, other] = [new(), new()];
        for (ends, left) in [(ended, 0), (other, 1)] {
            uploads.look(ended);
            uploads.ended(ends);
            uploads.looked(ended, true, None);
            assert_eq!(uploads.count(), left);
        }
    }

    #[test]
    fn a_search_forgets_what_is_not_there_but_for_what_began_meanwhile() {
        let uploads = none();
        let [stays, gone, begun] = [new(), new(), new()];
        uploads.saw(stays, None);
        uploads.saw(gone, None);
        let search = uploads.search();
        uploads.saw(begun, None);
        uploads.searched(&search, &HashSet::from([stays]));
        let open: HashSet<_> = uploads.seen().open.keys().copied().collect();
        assert_eq!(open, HashSet::from([stays, begun]));
    }

    #[test]
    fn what_changed_before_the_last_search_is_known() {
        let uploads = none();
        let now = SystemTime::now();
        assert!(uploads.search().is_news(now - 48 * SKEW), "the first");
        uploads.searched(&uploads.search(), &HashSet::new());
        let next = uploads.search();
        assert!(next.is_news(now - SKEW / 2), "its clock may be behind");
        assert!(!next.is_news(now - 2 * SKEW));
    }
}
