//! The account of the values that bounds count, as readers and the publisher use it.
//!
//! It stands on the names of the directory, of which the index of listings is made. Three write here: the publisher,
//! when it admits a change and when it has made it; the index ([`super::count`]), which sees what other programs do;
//! and reads, which set the time of a value.
//!
//! The lock is held for short, and never across a call that may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use super::ledger::{Largest, Round, State, scopes};
use super::rule::{Bound, Full, Total};
use super::uses::Uses;
use super::value::Value;
use crate::store::changes::Removal;
use crate::store::directory_fd::ValuesDir;
use crate::value::Error;

/// The blocks of file systems, as a rule.
const BLOCK: u64 = 4 << 10;

/// The bytes of the disk that a value of `len` bytes will take, as a rule.
pub fn size_of(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(len)
}

/// The most seconds after which a client is told to try again while the values are counted.
const MOST_TOLD: u64 = 60;

/// The account.
#[derive(Debug)]
pub struct Account {
    /// The bounds.
    pub bounds: Vec<Bound>,
    /// Figures of each bound.
    pub figures: Vec<Figures>,
    /// The device of the file system, where it is known.
    pub(super) device: Option<u64>,
    /// The blocks of the file system, in bytes.
    block: u64,
    /// For each bound, whether it may remove what it has found: by its size, and by age.
    may_remove: Vec<[AtomicBool; 2]>,
    pub(super) state: Mutex<State>,
    /// The scopes that evictions for the disk take from.
    pub(super) largest: Mutex<Largest>,
    pub(super) last_round: Mutex<Option<Round>>,
    /// Held while a pass chooses who goes.
    pub(super) choosing: Mutex<()>,
    /// Held while a folder gets its other name, on the disk and here; and by the index while it looks at a name or
    /// forgets some.
    pub(super) renaming: Mutex<()>,
    /// All values have been counted once.
    is_whole: AtomicBool,
    began: Instant,
}

/// Figures of a bound, for the metrics; times in milliseconds.
#[derive(Debug, Default)]
pub struct Figures {
    /// GETs and HEADs of its keys: those that found a value, and those that found none.
    pub requests: [AtomicU64; 2],
    /// Writes that it had no room for.
    pub refused: AtomicU64,
    /// Values that it evicted, for its own room or the disk's.
    pub evicted: AtomicU64,
    /// Their bytes.
    pub evicted_bytes: AtomicU64,
    /// How long the last of them had not been used.
    pub last_evicted: AtomicU64,
    /// How long the value used longest ago has not been used, at the last pass.
    pub oldest: AtomicU64,
}

impl Account {
    /// An account of nothing yet, in the directory `dir`, of which an earlier process has `remembered` the uses.
    /// Blocks.
    pub fn new(bounds: Vec<Bound>, dir: Option<&ValuesDir>, remembered: Uses) -> Arc<Self> {
        let block = dir.and_then(|dir| rustix::fs::fstatvfs(&dir.root).ok());
        let block = block.map_or(0, |told| told.f_frsize);
        Arc::new(Self {
            figures: bounds.iter().map(|_| Figures::default()).collect(),
            may_remove: bounds.iter().map(|_| Default::default()).collect(),
            device: dir.and_then(ValuesDir::device),
            block: if block > 0 { block } else { BLOCK },
            state: Mutex::new(State::new(bounds.len(), remembered)),
            bounds,
            largest: Mutex::default(),
            last_round: Mutex::default(),
            choosing: Mutex::default(),
            renaming: Mutex::default(),
            is_whole: AtomicBool::new(false),
            began: Instant::now(),
        })
    }

    /// The bytes of the disk that a value of `len` bytes will take, as a rule.
    pub fn size_of(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.block).unwrap_or(len)
    }

    /// True if a bound holds for `key`.
    pub fn counts(&self, key: &str) -> bool {
        scopes(&self.bounds, key).next().is_some()
    }

    /// True once all values have been counted. Until then nothing is evicted.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// Fails while the values are being counted, with how far that is.
    pub fn counted(&self) -> Result<(), Error> {
        if self.is_whole() {
            return Ok(());
        }
        let state = self.state.lock();
        let counted = state.names.size().0 as u64;
        // An earlier process noted how many there were; without that, as if a fifth were left.
        let all = (state.remembered.count() as u64).max(counted + counted / 4);
        let passed = self.began.elapsed().as_secs();
        let left = passed.saturating_mul(all - counted) / counted.max(1);
        let retry_after = left.clamp(1, MOST_TOLD);
        Err(Error::Counting {
            counted,
            retry_after,
        })
    }

    /// All values have been counted once, and it is decided what may be evicted.
    pub fn set_whole(&self) {
        self.is_whole.store(true, Relaxed);
    }

    /// Whether the bound of this number may remove what it has found, for this reason.
    pub fn set_may_remove(&self, bound: usize, why: Removal, may_remove: bool) {
        self.may_remove[bound][usize::from(why == Removal::Age)].store(may_remove, Relaxed);
    }

    /// True if the bound of this number may remove what it counts, for this reason.
    pub fn may_remove(&self, bound: usize, why: Removal) -> bool {
        self.may_remove[bound][usize::from(why == Removal::Age)].load(Relaxed)
    }

    /// True if the bound of this number may evict what it counts.
    pub(super) fn evicts(&self, bound: usize) -> bool {
        self.bounds[bound].full == Full::Evict && self.may_remove(bound, Removal::Full)
    }

    /// The bounds that hold for all of `folder`: what each counts it by, its rule and its sums.
    pub fn of_folder(&self, folder: &str) -> Vec<(String, &Bound, Total)> {
        let state = self.state.lock();
        let sums = |(at, scope): (usize, &str)| {
            (scope.to_owned(), &self.bounds[at], state.total(at, scope))
        };
        scopes(&self.bounds, folder).map(sums).collect()
    }

    /// Counts a GET or HEAD of `key` in all bounds that hold for it.
    pub fn count_request(&self, key: &str, is_hit: bool) {
        for (at, _) in scopes(&self.bounds, key) {
            self.figures[at].requests[usize::from(!is_hit)].fetch_add(1, Relaxed);
        }
    }

    /// A value of `key`, which a bound counts, is read from its file: it is used, and where the next use of it is
    /// noted; `None` where it is not counted yet.
    pub fn read(&self, key: &str) -> Option<Arc<Value>> {
        let state = self.state.lock();
        let value = state.names.value(key).cloned();
        value.filter(|value| value.touch())
    }
}

/// For the publisher.
impl Account {
    /// How often the index has looked at a name.
    pub fn looks(&self) -> u64 {
        self.state.lock().looks
    }

    /// Whether the value of `key` could not be evicted: then it is not chosen again until it changes.
    pub fn set_stuck(&self, key: &str, is_stuck: bool) {
        let state = &mut *self.state.lock();
        if let Some(value) = state.names.value(key).cloned() {
            let values = [Some(&*value); 2];
            state.recharge(&self.bounds, key, values, |_| {
                value.is_stuck.store(is_stuck, Relaxed);
            });
            state.order(&self.bounds, key, &value);
        }
    }
}
