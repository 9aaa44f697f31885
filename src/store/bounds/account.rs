//! The account: the names of the directory, and what each value takes, so far as a bound counts it.
//!
//! The index of the names is kept here, with or without bounds: a bound adds to each of its names a [`Value`], with its size and the time
//! of its last use. The totals of each bound are sums over these, so nothing drifts. Two write here: the publisher, when it
//! decides a change and when it has made it, and the index, which sees what other programs do. A read only sets the time of a value.
//!
//! The order of eviction is that of the last use, exactly: a pass over all values collects those used longest ago, and one of them
//! goes only if it was not used since. The lock is held for short: for one name, or for a part of a pass.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{self as Edge, Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

use super::rule::{Bound, Full, named};
use super::uses::{Uses, hash};
use crate::store::clock;
use crate::store::directory_fd::{Blocking, ValuesDir};
use crate::value::{Error, Meta, Version};

/// Memory that a name takes beside its bytes, as measured: its part of a node, and the allocator's own.
const NAME_OVERHEAD: usize = 52;

/// Names that are looked at while the lock is held.
const CHUNK: usize = 1024;

/// The blocks of file systems, as a rule.
const BLOCK: u64 = 4 << 10;

/// The seconds in which file systems choose the blocks of what was written; until then the length of a value tells more.
const DELAYED: i64 = 10;

/// The time of use of a value that could not be evicted.
pub(super) const STUCK: i64 = i64::MAX;

/// A value that a bound counts.
#[derive(Debug)]
pub struct Value {
    name: Box<str>,
    /// When it was used last, in milliseconds of [`uptime`].
    pub(super) used: AtomicI64,
    /// Its version: nanoseconds since 1970.
    pub(super) written: AtomicI64,
    /// Bytes of the disk that it takes.
    pub(super) size: AtomicU64,
    /// The count that has met it last.
    count: AtomicU32,
}

impl Value {
    /// Notes that it is used now.
    pub fn touch(&self) {
        self.used.store(uptime(), Relaxed);
    }
}

/// Milliseconds since the system started, to the nearest tick of the kernel. No step of the clock changes it.
pub fn uptime() -> i64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// A span in milliseconds.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

pub fn nanos(version: i128) -> i64 {
    i64::try_from(version).unwrap_or(if version < 0 { i64::MIN } else { i64::MAX })
}

/// The bytes of the disk that a value of `len` bytes will take.
pub fn size_of(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(len)
}

/// The bytes of the disk that the file of `stat` takes.
fn taken(stat: &Stat) -> u64 {
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    let is_new = clock::now() / 1_000_000_000 - stat.st_ctime < DELAYED;
    if is_new {
        blocks.max(size_of(Meta::of(stat).len))
    } else {
        blocks
    }
}

/// The names, and what their values take.
#[derive(Debug)]
pub struct Account {
    pub(super) bounds: Vec<Bound>,
    /// For each bound, whether it may remove what it has found.
    pub(super) may_evict: Vec<AtomicBool>,
    pub(super) state: Mutex<State>,
    /// Rises with each change by the publisher.
    changes: AtomicU64,
    /// All values have been counted once.
    is_whole: AtomicBool,
    counted: Condvar,
    pub(super) counters: Vec<Counters>,
}

/// The counters of a bound.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Changes that were refused.
    refused: AtomicU64,
    /// How long the last value that was evicted had not been used, in milliseconds.
    pub(super) last_evicted: AtomicU64,
    /// How long the value used longest ago has not been used, in milliseconds, at the last pass.
    pub(super) oldest: AtomicU64,
}

/// The figures of a bound.
#[derive(Debug)]
pub struct BoundFigures {
    /// What it holds.
    pub total: Total,
    /// Changes that it refused.
    pub refused: u64,
    /// How long the last value that it evicted had not been used.
    pub last_evicted: Duration,
    /// How long the value used longest ago has not been used, at the last pass.
    pub oldest: Duration,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) names: BTreeSet<Name>,
    /// Bytes of the names.
    name_bytes: usize,
    /// For each bound, what it counts by, and the sums.
    pub(super) scopes: Vec<BTreeMap<Box<str>, Scope>>,
    /// Names whose counted changes are not made yet, and how many each has: their files do not tell what is counted.
    in_flight: BTreeMap<Box<str>, u32>,
    /// Values whose removal is counted and not made yet: one that stays keeps its last use, and the reads that note the next.
    removed: BTreeMap<Box<str>, Arc<Value>>,
    /// Prefixes of names that the index reads again; those that it does not meet are gone.
    doubted: Vec<Box<str>>,
    /// The number of this count.
    count: u32,
    /// The uses that an earlier process has noted, until the first count ends.
    remembered: Uses,
}

/// A name, with what its value takes if a bound counts it. Two words, so that the index of a directory without bounds takes no more.
#[derive(Debug)]
pub(super) enum Name {
    Uncounted(Box<str>),
    Counted(Arc<Value>),
}

impl Name {
    pub(super) fn value(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Uncounted(_) => None,
            Self::Counted(value) => Some(value),
        }
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        match self {
            Self::Uncounted(name) => name,
            Self::Counted(value) => &value.name,
        }
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let (name, other): (&str, &str) = (self.borrow(), other.borrow());
        name.cmp(other)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Name {}

/// The count of a value that the index reads again.
const DOUBTED: u32 = 0;

/// The sums of a bound, or of one name of it.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) total: Total,
    /// Those used longest ago, when it was looked at last.
    pub(super) oldest: VecDeque<(i64, Box<str>)>,
    /// No pass finds a value to evict ahead of need before this time.
    pub(super) spared_until: i64,
}

/// A number of values, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Values.
    pub keys: u64,
}

impl Total {
    /// With `after` in place of `before`.
    fn replaced(self, before: Self, after: Self) -> Self {
        Self {
            bytes: self
                .bytes
                .saturating_add(after.bytes)
                .saturating_sub(before.bytes),
            keys: self
                .keys
                .saturating_add(after.keys)
                .saturating_sub(before.keys),
        }
    }

    /// By how much it exceeds what `bound` has room for.
    pub(super) fn beyond(self, bound: &Bound) -> Self {
        let beyond = |max: Option<u64>, has: u64| max.map_or(0, |max| has.saturating_sub(max));
        Self {
            bytes: beyond(bound.max_size, self.bytes),
            keys: beyond(bound.max_keys, self.keys),
        }
    }

    pub(super) fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// The scope of a bound that lacks room for a value.
#[derive(Debug)]
pub struct Lack {
    /// The number of the bound.
    pub bound: usize,
    pub scope: Box<str>,
    /// The part for which there is no room.
    pub beyond: Total,
    /// True where no eviction would make room.
    pub is_final: bool,
}

/// What is known of a value that was read.
pub enum Counted {
    /// No bound counts it.
    Never,
    /// It is counted, here.
    Here(Arc<Value>),
    /// It is not counted yet.
    NotYet,
}

impl Account {
    /// An account of nothing yet, of which an earlier process has `remembered` the uses.
    pub fn new(bounds: Vec<Bound>, remembered: Uses) -> Arc<Self> {
        let state = State {
            scopes: bounds.iter().map(|_| BTreeMap::new()).collect(),
            count: DOUBTED + 1,
            remembered,
            ..State::default()
        };
        Arc::new(Self {
            may_evict: bounds.iter().map(|_| AtomicBool::new(false)).collect(),
            counters: bounds.iter().map(|_| Counters::default()).collect(),
            bounds,
            state: Mutex::new(state),
            changes: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            counted: Condvar::new(),
        })
    }

    /// The bounds.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
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

    /// Waits until all values have been counted, at most this long.
    pub fn wait_until_whole(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut state = self.state.lock();
        while !self.is_whole() && !self.counted.wait_until(&mut state, until).timed_out() {}
    }

    /// The figures of each bound, for the metrics.
    pub fn figures(&self) -> Vec<BoundFigures> {
        let millis = |age: &AtomicU64| Duration::from_millis(age.load(Relaxed));
        let figures = |(at, counters): (usize, &Counters)| BoundFigures {
            total: self.total(at),
            refused: counters.refused.load(Relaxed),
            last_evicted: millis(&counters.last_evicted),
            oldest: millis(&counters.oldest),
        };
        self.counters.iter().enumerate().map(figures).collect()
    }

    /// The bounds that hold for all of `folder`: what each counts it by, its rule and its sums.
    pub fn of_folder(&self, folder: &str) -> Vec<(String, &Bound, Total)> {
        let state = self.state.lock();
        let sums = |(at, scope): (usize, &str)| {
            let sums: Option<&Scope> = state.scopes[at].get(scope);
            let total = sums.map_or(Total::default(), |sums| sums.total);
            (scope.to_owned(), &self.bounds[at], total)
        };
        self.scopes(folder).map(sums).collect()
    }

    /// The sums of a bound, over all that it counts by.
    pub fn total(&self, bound: usize) -> Total {
        let state = self.state.lock();
        let scopes = state.scopes[bound].values();
        scopes.fold(Total::default(), |sum, scope| {
            sum.replaced(Total::default(), scope.total)
        })
    }
}

/// For reads.
impl Account {
    /// A value of `key` is read from its file: it is used, and where the next use of it is noted.
    pub fn read(&self, key: &str) -> Counted {
        if !self.counts(key) {
            return Counted::Never;
        }
        let state = self.state.lock();
        let Some(value) = state.value(key) else {
            return Counted::NotYet;
        };
        value.touch();
        Counted::Here(Arc::clone(value))
    }
}

/// For the publisher.
impl Account {
    /// Counts a value of `key` that will be published, in place of what is counted; fails where a bound has no room for it.
    pub fn admit(&self, key: &str, size: u64, version: Version) -> Result<(), Error> {
        if !self.counts(key) {
            return Ok(());
        }
        if !self.is_whole() {
            return Err(Error::Counting);
        }
        let mut state = self.state.lock();
        if let Some(lack) = self.lack(&state, key, size) {
            self.counters[lack.bound].refused.fetch_add(1, Relaxed);
            let why = self.is_full(&lack);
            return Err(Error::NoSpace(why.into()));
        }
        self.changes.fetch_add(1, Relaxed);
        state.begin(key);
        self.note(
            &mut state,
            key,
            size,
            nanos(version.nanos()),
            Some(uptime()),
        );
        Ok(())
    }

    /// Counts the removal of `key` that will be made.
    pub fn release(&self, key: &str) {
        if self.counts(key) {
            let mut state = self.state.lock();
            self.changes.fetch_add(1, Relaxed);
            state.begin(key);
            if let Some(value) = self.forget(&mut state, key) {
                state.removed.insert(key.into(), value);
            }
        }
    }

    /// A change of `key` that was counted will not be made.
    pub fn finish(&self, key: &str) {
        if self.counts(key) {
            self.state.lock().finish(key);
        }
    }

    /// The change of `key` that was counted is made: `after` is its value now, unless others are counted that come after it.
    pub fn made(&self, key: &str, after: Option<Meta>) {
        if !self.counts(key) {
            return;
        }
        let mut state = self.state.lock();
        self.changes.fetch_add(1, Relaxed);
        state.finish(key);
        if state.in_flight.contains_key(key) {
            return;
        }
        if let Some(Meta { len, version, .. }) = after {
            let (size, written) = (size_of(len), nanos(version.nanos()));
            self.note(&mut state, key, size, written, Some(uptime()));
        } else {
            self.forget(&mut state, key);
            state.removed.remove(key);
        }
    }

    /// The bytes that may be evicted in all, at most.
    pub fn evictable(&self) -> u64 {
        let evicting = (0..self.bounds.len()).filter(|&at| self.evicts(at));
        evicting.fold(0, |sum, at| sum.saturating_add(self.total(at).bytes))
    }

    /// Fails for a value of `len` bytes that a bound never has room for, or that a quota has none for now.
    pub fn may_begin(&self, key: &str, len: u64) -> Result<(), Error> {
        let lack = self.lack(&self.state.lock(), key, size_of(len));
        let refusing = lack.filter(|lack| lack.is_final && self.is_whole());
        refusing.map_or(Ok(()), |lack| {
            self.counters[lack.bound].refused.fetch_add(1, Relaxed);
            let why = self.is_full(&lack);
            Err(Error::NoSpace(why.into()))
        })
    }

    /// Why a bound has no room, in words for the client.
    fn is_full(&self, lack: &Lack) -> String {
        let bound = &self.bounds[lack.bound];
        let advice = match bound.full {
            Full::Refuse => "delete values first",
            Full::Evict if self.may_evict[lack.bound].load(Relaxed) => {
                "and nothing can be evicted for this value"
            }
            Full::Evict => {
                "and what was there before it is not evicted until the server is started with --evict-existing"
            }
        };
        format!(
            "the bound of {} is full ({bound}): {advice}",
            named(&lack.scope)
        )
    }

    /// A bound that lacks room for a value of `size` bytes under `key`.
    pub(super) fn lack(&self, state: &State, key: &str, size: u64) -> Option<Lack> {
        let new = Total {
            bytes: size,
            keys: 1,
        };
        let before = state
            .value(key)
            .map_or(Total::default(), |value| value.total());
        // What takes no more than what it replaces is taken by any bound.
        if before.keys > 0 && size <= before.bytes {
            return None;
        }
        let lacks = self.scopes(key).filter_map(|(at, scope)| {
            let bound = &self.bounds[at];
            let total = state.scopes[at].get(scope).map(|scope| scope.total);
            let total = total.unwrap_or_default().replaced(before, new);
            let beyond = total.beyond(bound);
            (!beyond.is_zero()).then(|| Lack {
                bound: at,
                scope: scope.into(),
                beyond,
                is_final: !new.beyond(bound).is_zero()
                    || bound.full == Full::Refuse
                    || !self.may_evict[at].load(Relaxed),
            })
        });
        // One that refuses counts first: for it nothing is evicted from the others.
        lacks.min_by_key(|lack| !lack.is_final)
    }

    /// Counts the value of `key`; `used` is its last use, where it is another than what is noted.
    fn note(&self, state: &mut State, key: &str, size: u64, written: i64, used: Option<i64>) {
        let after = Total {
            bytes: size,
            keys: 1,
        };
        let count = state.count;
        let mut before = Total::default();
        if let Some(value) = state.value(key) {
            before = value.total();
            value.size.store(size, Relaxed);
            value.written.store(written, Relaxed);
            value.count.store(count, Relaxed);
            let noted = value.used.load(Relaxed);
            if let Some(used) = used.filter(|&used| used > noted || noted == STUCK) {
                value.used.store(used, Relaxed);
                self.order_anew(state, key, used);
            }
            if before == after {
                return;
            }
        } else {
            let used = used.unwrap_or_else(uptime);
            self.order_anew(state, key, used);
            let removed = state
                .removed
                .remove(key)
                .filter(|value| value.is_of(written));
            let value = removed.unwrap_or_else(|| {
                Arc::new(Value {
                    name: key.into(),
                    used: used.into(),
                    written: written.into(),
                    size: size.into(),
                    count: count.into(),
                })
            });
            value.count.store(count, Relaxed);
            state.insert(Name::Counted(value));
        }
        for (at, scope) in self.scopes(key) {
            if let Some(sums) = state.scopes[at].get_mut(scope) {
                sums.total = sums.total.replaced(before, after);
                continue;
            }
            let sums = Scope {
                total: after,
                ..Scope::default()
            };
            state.scopes[at].insert(scope.into(), sums);
        }
    }

    /// A value is found that was used last at this time: where it comes before the last of those that are chosen, it is one of them.
    fn order_anew(&self, state: &mut State, key: &str, used: i64) {
        for (at, scope) in self.scopes(key) {
            let Some(sums) = state.scopes[at].get_mut(scope) else {
                continue;
            };
            if sums.oldest.back().is_some_and(|(last, _)| used < *last) {
                let before = sums.oldest.partition_point(|(other, _)| *other < used);
                sums.oldest.insert(before, (used, key.into()));
            }
            let spared_until = used.saturating_add(millis(self.bounds[at].min_age));
            sums.spared_until = sums.spared_until.min(spared_until);
        }
    }

    fn forget(&self, state: &mut State, key: &str) -> Option<Arc<Value>> {
        let Some(Name::Counted(value)) = state.remove(key) else {
            return None;
        };
        for (at, scope) in self.scopes(key) {
            let Some(sums) = state.scopes[at].get_mut(scope) else {
                continue;
            };
            sums.total = sums.total.replaced(value.total(), Total::default());
            if sums.total.keys == 0 {
                state.scopes[at].remove(scope);
            }
        }
        Some(value)
    }
}

impl Value {
    fn is_of(&self, written: i64) -> bool {
        self.written.load(Relaxed) == written
    }

    /// Bytes of the disk that it takes.
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// How long it has not been used, in milliseconds.
    pub fn age(&self) -> i64 {
        uptime().saturating_sub(self.used.load(Relaxed)).max(0)
    }

    /// The second since 1970 in which it was used last.
    pub fn second(&self) -> i64 {
        clock::now() / 1_000_000_000 - self.age() / 1000
    }

    fn total(&self) -> Total {
        Total {
            bytes: self.size(),
            keys: 1,
        }
    }
}

impl State {
    pub(super) fn value(&self, name: &str) -> Option<&Arc<Value>> {
        self.names.get(name)?.value()
    }

    fn begin(&mut self, key: &str) {
        *self.in_flight.entry(key.into()).or_default() += 1;
    }

    fn finish(&mut self, key: &str) {
        if let Some(changes) = self.in_flight.get_mut(key) {
            *changes -= 1;
            if *changes == 0 {
                self.in_flight.remove(key);
            }
        }
    }

    fn insert(&mut self, name: Name) {
        let len = Borrow::<str>::borrow(&name).len();
        if self.names.insert(name) {
            self.name_bytes += len + NAME_OVERHEAD;
        }
    }

    fn remove(&mut self, name: &str) -> Option<Name> {
        let removed = self.names.take(name)?;
        self.name_bytes -= name.len() + NAME_OVERHEAD;
        Some(removed)
    }

    /// The names from `from` on that begin with `prefix`.
    fn names<'n>(
        &'n self,
        from: &'n Edge<Box<str>>,
        prefix: &'n str,
    ) -> impl Iterator<Item = (&'n str, Option<&'n Arc<Value>>)> {
        let from = from.as_ref().map(|from| &**from);
        let names = self.names.range::<str, _>((from, Unbounded));
        let names = names.map(|name| (name.borrow(), name.value()));
        names.take_while(move |(name, _): &(&str, _)| name.starts_with(prefix))
    }
}

/// For the index.
impl Account {
    /// How many names there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.names.len(), state.name_bytes)
    }

    /// The first name from `from` on.
    pub fn first_from(&self, from: &str) -> Option<Box<str>> {
        let state = self.state.lock();
        let mut names = state.names.range::<str, _>((Included(from), Unbounded));
        let name: &str = names.next()?.borrow();
        Some(name.into())
    }

    /// Looks at what lies under `key`, which was met in a folder or named by an event. Blocks.
    pub fn look(&self, dir: &ValuesDir, key: &str) {
        let before = self.changes.load(Relaxed);
        let mut found = dir.stat(key, Blocking::Allowed);
        let mut state = self.state.lock();
        // The publisher may have changed it since. The kernel has it in memory now.
        if self.changes.load(Relaxed) != before {
            found = dir.stat(key, Blocking::Never).or(found);
        }
        let Ok(found) = found else { return };
        if state.in_flight.contains_key(key) {
            return;
        }
        let Some(stat) = found else {
            self.forget(&mut state, key);
            state.removed.remove(key);
            return;
        };
        let meta = Meta::of(&stat);
        let written = nanos(meta.version.nanos());
        let used = match state.value(key) {
            Some(value) if value.written.load(Relaxed) == written => None,
            Some(_) => Some(since_1970(stat.st_mtime)),
            _ => {
                let remembered = state.remembered.get(hash(key));
                let used = stat.st_mtime.max(stat.st_atime);
                Some(since_1970(used.max(remembered.map_or(i64::MIN, i64::from))))
            }
        };
        self.note(&mut state, key, taken(&stat), written, used);
    }

    /// Adds `key`, which was met in a folder. Blocks.
    pub fn met(&self, dir: &ValuesDir, key: &str) {
        if self.counts(key) {
            self.look(dir, key);
        } else {
            self.set_name(key, true);
        }
    }

    /// Adds or removes the name `key`, which no bound counts.
    pub fn set_name(&self, key: &str, is_value: bool) {
        let mut state = self.state.lock();
        if is_value {
            state.insert(Name::Uncounted(key.into()));
        } else {
            state.remove(key);
        }
    }

    /// Begins to read the names that begin with `prefix` again: a name that is counted stays until [`Account::settle`].
    pub fn doubt(&self, prefix: &str) {
        self.retain(prefix, |value, _| {
            value.is_some_and(|value| {
                value.count.store(DOUBTED, Relaxed);
                true
            })
        });
        if !self.bounds.is_empty() {
            self.state.lock().doubted.push(prefix.into());
        }
    }

    /// Forgets the names that were doubted and not met again.
    pub fn settle(&self) {
        let doubted = std::mem::take(&mut self.state.lock().doubted);
        for prefix in doubted {
            let is_met = |value: &Value| value.count.load(Relaxed) != DOUBTED;
            self.retain(&prefix, |value, _| value.is_none_or(is_met));
        }
    }

    /// Begins to count all values anew; with `reads_names`, also the names that no bound counts. The number of this count.
    pub fn begin_count(&self, reads_names: bool) -> u32 {
        let count = {
            let mut state = self.state.lock();
            state.count += 1;
            state.count
        };
        // What could not be evicted may be tried again.
        self.visit("", |_, value| {
            let _ = value
                .used
                .compare_exchange(STUCK, uptime(), Relaxed, Relaxed);
        });
        if reads_names {
            self.retain("", |value, _| value.is_some());
        }
        count
    }

    /// Forgets what neither this count nor a later one has met; what is read again just now is left to [`Account::settle`].
    pub fn end_count(&self, count: u32) {
        let is_met = |value: &Value| {
            let met = value.count.load(Relaxed);
            met >= count || met == DOUBTED
        };
        self.retain("", |value, _| value.is_none_or(is_met));
        self.state.lock().remembered = Uses::default();
    }

    /// All values have been counted once, and it is decided what may be evicted.
    pub fn set_whole(&self) {
        let _state = self.state.lock();
        self.is_whole.store(true, Relaxed);
        self.counted.notify_all();
    }

    /// Whether the bound of this number may remove what it counts.
    pub fn set_may_evict(&self, bound: usize, may_evict: bool) {
        self.may_evict[bound].store(may_evict, Relaxed);
    }

    /// Forgets the names beginning with `prefix` of which `is_kept` is false, by their values and the number of this count.
    fn retain(&self, prefix: &str, is_kept: impl Fn(Option<&Value>, u32) -> bool) {
        let mut from = Included(Box::from(prefix));
        loop {
            let mut state = self.state.lock();
            let (mut met, mut gone) = (None, Vec::new());
            for (name, value) in state.names(&from, prefix).take(CHUNK) {
                met = Some(name);
                let is_in_flight = || state.in_flight.contains_key(name);
                if !is_kept(value.map(|value| &**value), state.count) && !is_in_flight() {
                    gone.push(Box::<str>::from(name));
                }
            }
            let Some(last) = met.map(Box::from) else {
                return;
            };
            for name in gone {
                self.forget(&mut state, &name);
            }
            from = Excluded(last);
        }
    }

    /// Visits the values whose names begin with `scope`, in their order.
    pub fn visit(&self, scope: &str, mut visit: impl FnMut(&str, &Arc<Value>)) {
        let mut from = Included(Box::from(scope));
        loop {
            let state = self.state.lock();
            let mut met = None;
            for (name, value) in state.names(&from, scope).take(CHUNK) {
                met = Some(name);
                if let Some(value) = value {
                    visit(name, value);
                }
            }
            let Some(last) = met.map(Box::from) else {
                return;
            };
            from = Excluded(last);
        }
    }
}

/// The [`uptime`] of this second since 1970, if it is not in the future.
fn since_1970(second: i64) -> i64 {
    let age = (clock::now() / 1_000_000_000).saturating_sub(second).max(0);
    uptime().saturating_sub(age.saturating_mul(1000))
}
