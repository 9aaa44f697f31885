//! The changes most recently acknowledged, in the order in which they were published.
//!
//! The publisher, which alone writes names, appends. A subscriber holds one number, that of the last change it has
//! seen, and asks for those after it. So a slow subscriber delays no other: one that has fallen behind what is kept
//! gets a [`Gap`]. Nothing is kept before the first subscriber. Changes that other programs make are not seen here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::clock::Clock;
use crate::value::{Key, Meta};

/// Changes kept; a key has at most 1,024 bytes, and a move has two, so all of them stay below 10 MiB.
const KEPT: usize = 4096;

/// Nanoseconds between two numbers.
const NANOS: i128 = 1_000;

/// One acknowledged change.
#[derive(Debug)]
pub struct Change {
    /// Its number: higher than that of every change before it, also of an earlier process, and below 2^53.
    pub seq: u64,
    /// The key.
    pub key: Key<'static>,
    /// The value that the key has since then; `None` when it was deleted.
    pub value: Option<Meta>,
    /// The reason of the server, where no client deleted it.
    pub removal: Option<Removal>,
    /// The key that the value moved from, and that has none since then.
    pub from: Option<Box<Key<'static>>>,
}

/// A change before it has a number: the key, its value now, the reason of a removal by the server, and the key that the
/// value moved from.
pub type NewChange = (
    Key<'static>,
    Option<Meta>,
    Option<Removal>,
    Option<Box<Key<'static>>>,
);

/// Why the server itself removes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A bound of size or of keys was passed.
    Full,
    /// A bound of age was passed.
    Age,
    /// The end that the value was stored with has come.
    Expired,
}

impl Removal {
    /// The reasons, as watchers, metrics and the log name them.
    pub const NAMES: [&str; 3] = ["evicted", "aged", "expired"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Changes have been missed: they are kept no more, or were never seen. Going on is possible from `latest` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The latest change.
    pub latest: u64,
}

/// The latest changes of the store, for watchers.
#[derive(Debug)]
pub struct Changes {
    recent: Mutex<Recent>,
    /// How many subscribers there are now.
    pub subscribers: AtomicU64,
    /// The number of the latest change, once there has been a subscriber. To wake a receiver costs the publisher time,
    /// so one should wait on behalf of many.
    pub latest: watch::Sender<u64>,
    /// The clock of a store that writes; its readings pass every number.
    clock: Option<Arc<Mutex<Clock>>>,
}

#[derive(Debug)]
struct Recent {
    /// Changes `floor + 1` to `latest`.
    kept: VecDeque<Arc<Change>>,
    floor: u64,
    latest: u64,
    is_kept: bool,
}

impl Changes {
    /// Begins to count after every number and version given so far: in microseconds since 1970.
    pub fn after(clock: Arc<Mutex<Clock>>) -> Self {
        let reached = clock.lock().reached();
        Self {
            clock: Some(clock),
            ..Self::starting_at(u64::try_from(reached / NANOS).unwrap_or(0))
        }
    }

    /// Begins to count after `start`, of no clock.
    pub fn starting_at(start: u64) -> Self {
        Self {
            recent: Mutex::new(Recent {
                kept: VecDeque::new(),
                floor: start,
                latest: start,
                is_kept: false,
            }),
            subscribers: AtomicU64::new(0),
            latest: watch::Sender::new(start),
            clock: None,
        }
    }

    /// Appends what has been published, in that order. Blocks now and then.
    pub fn append(&self, made: impl Iterator<Item = NewChange>) {
        self.reserve(made.size_hint().1.unwrap_or(1));
        let mut recent = self.recent.lock();
        for change in made {
            recent.append(change);
        }
        self.notify(recent);
    }

    /// Records that something was published, or may have been, that cannot be named: all subscribers meet a gap. Blocks
    /// now and then.
    pub fn mark_gap(&self) {
        self.reserve(1);
        let mut recent = self.recent.lock();
        recent.latest += 1;
        recent.forget();
        self.notify(recent);
    }

    /// Has the clock pass the next `count` numbers before they are used, so that the next start begins after them. Its
    /// file is not written under the lock that reactors take.
    fn reserve(&self, count: usize) {
        let Some(clock) = &self.clock else { return };
        let end = self.recent.lock().latest + count as u64;
        // The changes are made. Where the clock cannot be written, the numbers hold until a crash.
        let _ = clock.lock().pass(i128::from(end) * NANOS);
    }

    fn notify(&self, recent: MutexGuard<'_, Recent>) {
        let (latest, is_kept) = (recent.latest, recent.is_kept);
        drop(recent);
        if is_kept {
            self.latest.send_replace(latest);
        }
    }

    /// Adds a subscriber, until it [unsubscribes](Self::unsubscribe). Changes are kept from now on, if they were not
    /// already. Answers the number of the latest.
    pub fn subscribe(&self) -> u64 {
        self.subscribers.fetch_add(1, Relaxed);
        let mut recent = self.recent.lock();
        recent.is_kept = true;
        recent.latest
    }

    /// Removes a subscriber. What it has not seen is still kept: it may come back.
    pub fn unsubscribe(&self) {
        self.subscribers.fetch_sub(1, Relaxed);
    }

    /// The first changes after the one numbered `seq`, at most `count`.
    pub fn since(&self, seq: u64, count: usize) -> Result<Vec<Arc<Change>>, Gap> {
        let recent = self.recent.lock();
        let gap = Gap {
            latest: recent.latest,
        };
        if seq > recent.latest {
            return Err(gap);
        }
        let seen = seq.checked_sub(recent.floor).ok_or(gap)?;
        let seen = usize::try_from(seen).map_err(|_| gap)?;
        Ok(recent.kept.iter().skip(seen).take(count).cloned().collect())
    }
}

impl Recent {
    fn append(&mut self, (key, value, removal, from): NewChange) {
        self.latest += 1;
        if !self.is_kept {
            self.forget();
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.floor += 1;
        }
        let seq = self.latest;
        self.kept.push_back(Arc::new(Change {
            seq,
            key,
            value,
            removal,
            from,
        }));
    }

    fn forget(&mut self) {
        self.kept.clear();
        self.floor = self.latest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(name: &str) -> NewChange {
        (Key::new(name.to_owned()).unwrap(), None, None, None)
    }

    fn seqs(changes: &Changes, seq: u64) -> Result<Vec<u64>, Gap> {
        let kept = changes.since(seq, usize::MAX)?;
        Ok(kept.iter().map(|change| change.seq).collect())
    }

    #[test]
    fn nothing_is_kept_before_the_first_subscriber_and_every_change_is_counted() {
        let changes = Changes::starting_at(100);
        changes.append([change("a"), change("b")].into_iter());
        assert_eq!(changes.subscribe(), 102);
        assert_eq!(seqs(&changes, 101), Err(Gap { latest: 102 }));
        assert_eq!(seqs(&changes, 102), Ok(vec![]));
        changes.append([change("c")].into_iter());
        assert_eq!(seqs(&changes, 102), Ok(vec![103]));
        assert_eq!(changes.since(102, 1).unwrap()[0].key.as_str(), "c");
    }

    #[test]
    fn what_was_never_told_is_a_gap() {
        let changes = Changes::starting_at(7);
        let seen = changes.subscribe();
        for elsewhere in [0, seen - 1, seen + 1, u64::MAX] {
            assert_eq!(seqs(&changes, elsewhere), Err(Gap { latest: seen }));
        }
    }

    #[test]
    fn a_loss_is_a_gap_to_all_and_the_order_goes_on_after_it() {
        let changes = Changes::starting_at(7);
        let seen = changes.subscribe();
        changes.append([change("a")].into_iter());
        changes.mark_gap();
        assert_eq!(seqs(&changes, seen), Err(Gap { latest: 9 }));
        assert_eq!(seqs(&changes, 8), Err(Gap { latest: 9 }));
        changes.append([change("b")].into_iter());
        assert_eq!(seqs(&changes, 9), Ok(vec![10]));
    }

    #[test]
    fn a_receiver_hears_of_a_batch_once_and_of_nothing_before_the_first_subscriber() {
        let changes = Changes::starting_at(0);
        let mut latest = changes.latest.subscribe();
        changes.append([change("a")].into_iter());
        assert!(!latest.has_changed().unwrap());
        changes.subscribe();
        changes.append([change("b"), change("c")].into_iter());
        assert!(latest.has_changed().unwrap());
        assert_eq!(*latest.borrow_and_update(), 3);
        assert!(!latest.has_changed().unwrap());
    }

    proptest! {
        #[test]
        fn a_subscriber_sees_every_change_once_in_order_or_a_gap(steps in prop::collection::vec((0..6000_usize, 1..6000_usize), 1..12)) {
            let changes = Changes::starting_at(1_000);
            let (mut seen, mut told) = (changes.subscribe(), changes.subscribe());
            for (appended, taken) in steps {
                changes.append((0..appended).map(|_| change("k")));
                told += appended as u64;
                match changes.since(seen, taken) {
                    Ok(new) => {
                        let expected = (told - seen).min(taken as u64);
                        prop_assert_eq!(new.len() as u64, expected);
                        for (change, seq) in new.iter().zip(seen + 1..) {
                            prop_assert_eq!(change.seq, seq);
                        }
                        seen += expected;
                    }
                    Err(gap) => {
                        prop_assert!(told - seen > KEPT as u64);
                        prop_assert_eq!(gap.latest, told);
                        seen = gap.latest;
                    }
                }
                prop_assert!(changes.recent.lock().kept.len() <= KEPT);
            }
        }
    }
}
