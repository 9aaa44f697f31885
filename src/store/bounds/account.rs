//! The account: what the values take that a bound counts, and which of them were used longest ago.
//!
//! It stands on the names of the directory, of which the index of listings is made: a bound adds to each of its names a [`Value`]. The
//! totals of each bound are sums over these, so nothing drifts. Two write here: the publisher, when it decides a change and when it
//! has made it, and the index ([`super::count`]), which sees what other programs do. A read only sets the time of a value.
//!
//! The lock is held for short, and never across a call that may wait: for one name, or for a part of a pass.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::names::{Names, STUCK, Value, nanos, uptime};
use super::rule::{Bound, Full, Total, named};
use super::uses::Uses;
use crate::value::{Error, Version};

/// The blocks of file systems, as a rule.
const BLOCK: u64 = 4 << 10;

/// The bytes of the disk that a value of `len` bytes will take.
pub fn size_of(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(len)
}

/// The names, and what their values take.
#[derive(Debug)]
pub struct Account {
    /// The bounds.
    pub bounds: Vec<Bound>,
    /// Figures of each bound.
    pub figures: Vec<Figures>,
    /// For each bound, whether it may remove what it has found.
    pub(super) may_evict: Vec<AtomicBool>,
    pub(super) state: Mutex<State>,
    /// All values have been counted once.
    is_whole: AtomicBool,
}

/// Figures of a bound, for the metrics; times in milliseconds.
#[derive(Debug, Default)]
pub struct Figures {
    /// Writes that it had no room for.
    pub refused: AtomicU64,
    /// How long the last value that it evicted had not been used.
    pub last_evicted: AtomicU64,
    /// How long the value used longest ago has not been used, at the last pass.
    pub oldest: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub names: Names,
    /// For each bound, what it counts by, and the sums.
    pub scopes: Vec<BTreeMap<Box<str>, Scope>>,
    /// Prefixes of names that the index reads again, and since which count; those that it does not meet are gone.
    pub doubted: Vec<(Box<str>, u64)>,
    /// The number of this count: higher each time that names are read again.
    pub count: u64,
    /// The folder that moves and its new name, each with a `/` behind it.
    pub moving: Option<[Box<str>; 2]>,
    /// The uses that an earlier process has noted, until the first count ends.
    pub remembered: Uses,
}

/// The sums of a bound, or of one name of it.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub total: Total,
    /// Those used longest ago, when it was looked at last, in this order.
    pub oldest: VecDeque<(i64, Box<str>)>,
}

/// The scope of a bound that lacks room.
#[derive(Debug)]
pub(super) struct Lack<'k> {
    /// The number of the bound.
    pub bound: usize,
    pub scope: &'k str,
    /// The part for which there is no room.
    pub beyond: Total,
    /// True where no eviction would make room.
    pub is_final: bool,
}

impl Account {
    /// An account of nothing yet, of which an earlier process has `remembered` the uses.
    pub fn new(bounds: Vec<Bound>, remembered: Uses) -> Arc<Self> {
        let state = State {
            scopes: bounds.iter().map(|_| BTreeMap::new()).collect(),
            count: 1,
            remembered,
            ..State::default()
        };
        Arc::new(Self {
            figures: bounds.iter().map(|_| Figures::default()).collect(),
            may_evict: bounds.iter().map(|_| AtomicBool::new(false)).collect(),
            bounds,
            state: Mutex::new(state),
            is_whole: AtomicBool::new(false),
        })
    }

    /// The bounds that hold for `key`, by their numbers, and what each counts it by.
    pub(super) fn scopes<'k>(&self, key: &'k str) -> impl Iterator<Item = (usize, &'k str)> {
        let bounds = self.bounds.iter().enumerate();
        bounds.filter_map(move |(at, bound)| Some((at, bound.prefix.scope(key)?)))
    }

    /// True if a bound holds for `key`.
    pub fn counts(&self, key: &str) -> bool {
        self.scopes(key).next().is_some()
    }

    /// True once all values have been counted. Until then nothing is evicted.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// All values have been counted once, and it is decided what may be evicted.
    pub fn set_whole(&self) {
        self.is_whole.store(true, Relaxed);
    }

    /// Whether the bound of this number may remove what it counts.
    pub fn set_may_evict(&self, bound: usize, may_evict: bool) {
        self.may_evict[bound].store(may_evict, Relaxed);
    }

    /// The bounds that hold for all of `folder`: what each counts it by, its rule and its sums.
    pub fn of_folder(&self, folder: &str) -> Vec<(String, &Bound, Total)> {
        let state = self.state.lock();
        let sums = |(at, scope): (usize, &str)| {
            let total = state.total(at, scope);
            (scope.to_owned(), &self.bounds[at], total)
        };
        self.scopes(folder).map(sums).collect()
    }

    /// A value of `key`, which a bound counts, is read from its file: it is used, and where the next use of it is noted; `None` where it is
    /// not counted yet.
    pub fn read(&self, key: &str) -> Option<Arc<Value>> {
        let state = self.state.lock();
        let value = state.names.value(key).cloned();
        value.inspect(|value| value.touch())
    }
}

/// For the publisher.
impl Account {
    /// Fails for a value of `len` bytes that a bound never has room for, or that a quota has none for now.
    pub fn may_begin(&self, key: &str, len: u64) -> Result<(), Error> {
        let new = Total {
            bytes: size_of(len),
            keys: 1,
        };
        // As a rule no lock is taken for a value that evictions make room for.
        if !self.scopes(key).any(|(at, _)| self.is_final(at, new)) {
            return Ok(());
        }
        let lack = self.lack(&self.state.lock(), key, new.bytes, None);
        match lack.filter(|lack| lack.is_final && self.is_whole()) {
            Some(lack) => Err(self.refuse(&lack)),
            None => Ok(()),
        }
    }

    /// Fails where a bound has no room for a small value below the folder `path`, which is not there: what it lacks is not evicted for a
    /// folder, which no bound counts.
    pub fn may_make_folder(&self, path: &str) -> Result<(), Error> {
        let below = format!("{path}/k");
        if self.counts(&below) && !self.is_whole() {
            return Err(Error::Counting);
        }
        let lack = self.lack(&self.state.lock(), &below, BLOCK, None);
        lack.map_or(Ok(()), |lack| Err(self.refuse(&lack)))
    }

    /// Counts a value of `key` that will be published, in place of what is counted, and the removal of `source`, the key that it moves from;
    /// fails where a bound has no room for it.
    pub fn admit(
        &self,
        key: &str,
        size: u64,
        version: Version,
        source: Option<&str>,
    ) -> Result<(), Error> {
        if self.counts(key) {
            if !self.is_whole() {
                return Err(Error::Counting);
            }
            let mut state = self.state.lock();
            if let Some(lack) = self.lack(&state, key, size, source) {
                return Err(self.refuse(&lack));
            }
            let value = self.note(&mut state, key, size, nanos(version), Some(uptime()));
            value.in_flight.fetch_add(1, Relaxed);
        }
        source.inspect(|source| self.release(source));
        Ok(())
    }

    /// Counts the removal of `key` that will be made. Its name stays, and what is known of its use, in case that the value does.
    pub fn release(&self, key: &str) {
        if !self.counts(key) {
            return;
        }
        let mut state = self.state.lock();
        let value = state.names.counted(key);
        value.in_flight.fetch_add(1, Relaxed);
        let before = value.total();
        value.uncount();
        self.replace(&mut state, key, before, Total::default());
    }

    /// A change of `key` that was counted is made: whether there `is_value` now, unless others are counted that come after it.
    pub fn made(&self, key: &str, is_value: bool) {
        let mut state = self.state.lock();
        let is_last = state.finish(key);
        if is_last && !is_value {
            self.forget(&mut state, key);
        } else if let Some(value) = state.names.value(key) {
            // The index may have read its folder before this change.
            value.count.store(state.count, Relaxed);
        }
    }

    /// A change of `key` that was counted will not be made.
    pub fn dropped(&self, key: &str) {
        self.state.lock().finish(key);
    }

    /// A bound that lacks room for a value of `size` bytes under `key`, which moves from `source`, if it moves.
    pub(super) fn lack<'k>(
        &self,
        state: &State,
        key: &'k str,
        size: u64,
        source: Option<&str>,
    ) -> Option<Lack<'k>> {
        let new = Total {
            bytes: size,
            keys: 1,
        };
        let source = source.and_then(|source| Some((source, state.names.value(source)?.total())));
        let lack = |before: Total| {
            let lacks = self.scopes(key).filter_map(|(at, scope)| {
                let mut total = state.total(at, scope).replaced(before, new);
                if let Some((source, going)) = source
                    && self.bounds[at].prefix.scope(source) == Some(scope)
                {
                    total = total.replaced(going, Total::default());
                }
                let beyond = total.beyond(&self.bounds[at]);
                (!beyond.is_zero()).then(|| Lack {
                    bound: at,
                    scope,
                    beyond,
                    is_final: self.is_final(at, new),
                })
            });
            // One that refuses counts first: for it nothing is evicted from the others.
            lacks.min_by_key(|lack| !lack.is_final)
        };
        // As a rule there is room for it beside what it replaces: that is not looked up.
        let lacks = lack(Total::default())?;
        let before = state.names.value(key).map(|value| value.total());
        match before.filter(|before| before.keys > 0) {
            None => Some(lacks),
            // What takes no more than what it replaces is taken by any bound.
            Some(before) if size <= before.bytes => None,
            Some(before) => lack(before),
        }
    }

    /// True if no eviction makes room for `new` where the bound of this number has none.
    fn is_final(&self, bound: usize, new: Total) -> bool {
        !new.beyond(&self.bounds[bound]).is_zero() || !self.evicts(bound)
    }

    /// The refusal of a value for which a bound has no room, in words for the client.
    fn refuse(&self, lack: &Lack<'_>) -> Error {
        self.figures[lack.bound].refused.fetch_add(1, Relaxed);
        let bound = &self.bounds[lack.bound];
        let advice = match bound.full {
            Full::Refuse => "delete values first",
            Full::Evict if self.evicts(lack.bound) => "nothing can be evicted for this value",
            Full::Evict => {
                "what was there before it is not evicted until the server is started with --evict-existing"
            }
        };
        let scope = named(lack.scope);
        Error::NoSpace(format!("the bound of {scope} is full ({bound}): {advice}").into())
    }

    /// Counts the value of `key`; `used` is its last use, where it is another than what is noted.
    pub(super) fn note(
        &self,
        state: &mut State,
        key: &str,
        size: u64,
        written: i64,
        used: Option<i64>,
    ) -> Arc<Value> {
        let value = state.names.counted(key);
        let before = value.total();
        value.size.store(size, Relaxed);
        value.written.store(written, Relaxed);
        value.count.store(state.count, Relaxed);
        self.replace(state, key, before, value.total());
        let noted = value.used.load(Relaxed);
        if let Some(used) = used.filter(|&used| used > noted || noted == STUCK) {
            value.used.store(used, Relaxed);
            self.order_anew(state, key, used);
        }
        value
    }

    /// Has the sums of `key` have `after` in place of `before`.
    fn replace(&self, state: &mut State, key: &str, before: Total, after: Total) {
        if before == after {
            return;
        }
        for (at, scope) in self.scopes(key) {
            let total = state.total(at, scope).replaced(before, after);
            let scopes = &mut state.scopes[at];
            if total.keys == 0 {
                scopes.remove(scope);
            } else if let Some(sums) = scopes.get_mut(scope) {
                sums.total = total;
            } else {
                let sums = Scope {
                    total,
                    ..Scope::default()
                };
                scopes.insert(scope.into(), sums);
            }
        }
    }

    /// Forgets `key`, which has no value.
    pub(super) fn forget(&self, state: &mut State, key: &str) {
        if let Some(value) = state.names.remove(key) {
            self.replace(state, key, value.total(), Total::default());
        }
    }
}

impl State {
    pub fn total(&self, bound: usize, scope: &str) -> Total {
        let sums = self.scopes[bound].get(scope);
        sums.map_or(Total::default(), |sums| sums.total)
    }

    /// What is counted of `key`: the version, and what it takes.
    pub fn counted(&self, key: &str) -> Option<(i64, Total)> {
        let value = self.names.value(key)?;
        Some((value.written.load(Relaxed), value.total()))
    }

    /// True if the folder moves in which `key` lies, and its value is not counted under its new name yet.
    pub fn is_moving(&self, key: &str) -> bool {
        self.moving.as_ref().is_some_and(|[from, to]| {
            let old = |rest| self.names.value(&[&**from, rest].concat());
            key.starts_with(&**from) || key.strip_prefix(&**to).and_then(old).is_some()
        })
    }

    /// Ends a change of `key` that was counted; true if no other is in flight.
    fn finish(&self, key: &str) -> bool {
        self.names.value(key).is_none_or(|value| {
            let left = value.in_flight.load(Relaxed).saturating_sub(1);
            value.in_flight.store(left, Relaxed);
            left == 0
        })
    }
}
