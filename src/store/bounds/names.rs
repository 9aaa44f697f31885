//! The names of the directory, in byte order, each with what its value takes if a bound counts it. The index of listings is these names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

use super::rule::Total;
use crate::store::clock;
use crate::value::Version;

/// Memory that a name takes beside its bytes, as measured: its part of a node, and the allocator's own.
const OVERHEAD: usize = 52;

/// The size of a value that is not counted: its removal is decided, or nothing is known of it yet.
const UNCOUNTED: u64 = u64::MAX;

/// Names that are looked at while the lock is held.
pub(super) const CHUNK: usize = 1024;

/// The time of use of a value that could not be evicted.
pub(super) const STUCK: i64 = i64::MAX;

/// A value that a bound counts. Its times are milliseconds since the system started.
#[derive(Debug)]
pub struct Value {
    /// When it was used last.
    pub(super) used: AtomicI64,
    /// Its version: nanoseconds since 1970.
    pub(super) written: AtomicI64,
    /// Bytes of the disk that it takes.
    pub(super) size: AtomicU64,
    /// The number of the count that has met it last.
    pub(super) count: AtomicU64,
    /// Its changes that are counted and not made yet: its file does not tell what is counted.
    pub(super) in_flight: AtomicU32,
}

/// Of a value of which nothing is known yet.
impl Default for Value {
    fn default() -> Self {
        Self {
            used: i64::MIN.into(),
            written: 0.into(),
            size: UNCOUNTED.into(),
            count: 0.into(),
            in_flight: 0.into(),
        }
    }
}

impl Value {
    /// Notes that it is used now.
    pub fn touch(&self) {
        self.used.store(uptime(), Relaxed);
    }

    /// How long it has not been used, in milliseconds.
    pub fn age(&self) -> i64 {
        uptime().saturating_sub(self.used.load(Relaxed)).max(0)
    }

    /// The second since 1970 in which it was used last.
    pub fn second(&self) -> i64 {
        started().saturating_add(self.used.load(Relaxed).min(uptime())) / 1000
    }

    /// Bytes of the disk that it takes; 0 while it is not counted.
    pub fn size(&self) -> u64 {
        self.total().bytes
    }

    pub(super) fn total(&self) -> Total {
        match self.size.load(Relaxed) {
            UNCOUNTED => Total::default(),
            bytes => Total { bytes, keys: 1 },
        }
    }

    /// Has it count no more, until it is noted anew.
    pub(super) fn uncount(&self) {
        self.size.store(UNCOUNTED, Relaxed);
    }
}

pub(super) fn nanos(version: Version) -> i64 {
    let nanos = version.nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Milliseconds since the system started, to the nearest tick of the kernel. No step of the clock changes it.
pub(super) fn uptime() -> i64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// The uptime at so many milliseconds since 1970, if that is not in the future.
pub(super) fn since_1970(millis: i64) -> i64 {
    millis.saturating_sub(started()).min(uptime())
}

/// When the system started, in milliseconds since 1970. Noted, and noted anew once the clock was set or the system slept: the two clocks tick
/// apart, and two values of one time have one time of use, whenever each is looked at.
fn started() -> i64 {
    static NOTED: AtomicI64 = AtomicI64::new(0);
    let (now, noted) = (clock::now() / 1_000_000 - uptime(), NOTED.load(Relaxed));
    if now.abs_diff(noted) < 1000 {
        return noted;
    }
    NOTED.store(now, Relaxed);
    now
}

/// The names, apart from each other: a directory without bounds takes no more memory than its names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those that no bound counts.
    uncounted: BTreeSet<Box<str>>,
    counted: BTreeMap<Box<str>, Arc<Value>>,
    bytes: usize,
}

impl Names {
    /// How many there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.uncounted.len() + self.counted.len(), self.bytes)
    }

    /// The value of `name`, if a bound counts it.
    pub fn value(&self, name: &str) -> Option<&Arc<Value>> {
        self.counted.get(name)
    }

    /// The value of `name`, which is added if there is none.
    pub fn counted(&mut self, name: &str) -> Arc<Value> {
        if let Some(value) = self.value(name) {
            return Arc::clone(value);
        }
        let value = Arc::<Value>::default();
        self.insert(name.into(), Arc::clone(&value));
        value
    }

    /// Adds a name that is not there, with its value.
    pub fn insert(&mut self, name: Box<str>, value: Arc<Value>) {
        self.bytes += name.len() + OVERHEAD;
        self.counted.insert(name, value);
    }

    /// Adds a name that no bound counts.
    pub fn add(&mut self, name: &str) {
        if self.uncounted.insert(name.into()) {
            self.bytes += name.len() + OVERHEAD;
        }
    }

    /// Removes `name`; returns its value, if a bound counted it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Value>> {
        let value = self.counted.remove(name);
        if value.is_some() || self.uncounted.remove(name) {
            self.bytes -= name.len() + OVERHEAD;
        }
        value
    }

    /// The first name from `from` on.
    pub fn first_from(&self, from: &str) -> Option<Box<str>> {
        let from = (Included(from), Unbounded);
        let counted = self.counted.range::<str, _>(from).next();
        let uncounted = self.uncounted.range::<str, _>(from).next();
        counted
            .map(|(name, _)| name)
            .into_iter()
            .chain(uncounted)
            .min()
            .cloned()
    }

    /// The names that no bound counts and that begin with `prefix`.
    pub fn uncounted<'n>(&'n self, prefix: &'n str) -> impl Iterator<Item = &'n Box<str>> {
        let names = self
            .uncounted
            .range::<str, _>((Included(prefix), Unbounded));
        names.take_while(move |name| name.starts_with(prefix))
    }

    /// The values whose names come after `from` and begin with `prefix`.
    pub fn values<'n>(
        &'n self,
        from: &'n Bound<Box<str>>,
        prefix: &'n str,
    ) -> impl Iterator<Item = (&'n Box<str>, &'n Arc<Value>)> {
        let from = from.as_ref().map(|from| &**from);
        let values = self.counted.range::<str, _>((from, Unbounded));
        values.take_while(move |(name, _)| name.starts_with(prefix))
    }
}
