//! The names of the directory, in byte order, each with what its value takes if a bound counts it. The index of listings is these names.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
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
    /// Its key.
    pub name: Box<str>,
    /// When it was used last.
    pub(super) used: AtomicI64,
    /// Its version: nanoseconds since 1970.
    pub(super) written: AtomicI64,
    /// Bytes of the disk that it takes.
    pub(super) size: AtomicU64,
    /// The count that has met it last.
    pub(super) count: AtomicU32,
    /// Its changes that are counted and not made yet: its file does not tell what is counted.
    pub(super) in_flight: AtomicU32,
}

impl Value {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            used: i64::MIN.into(),
            written: 0.into(),
            size: UNCOUNTED.into(),
            count: 0.into(),
            in_flight: 0.into(),
        }
    }

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
        clock::now() / 1_000_000_000 - self.age() / 1000
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

/// A name. Two words, so that the index of a directory without bounds takes no more than its names.
#[derive(Debug)]
enum Name {
    Uncounted(Box<str>),
    Counted(Arc<Value>),
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

impl Name {
    fn value(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Uncounted(_) => None,
            Self::Counted(value) => Some(value),
        }
    }
}

/// The names.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: BTreeSet<Name>,
    bytes: usize,
}

impl Names {
    /// How many there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.names.len(), self.bytes)
    }

    /// The value of `name`, if a bound counts it.
    pub fn value(&self, name: &str) -> Option<&Arc<Value>> {
        self.names.get(name)?.value()
    }

    /// The value of `name`, which is added if there is none.
    pub fn counted(&mut self, name: &str) -> Arc<Value> {
        if let Some(value) = self.value(name) {
            return Arc::clone(value);
        }
        let value = Arc::new(Value::new(name));
        self.insert(Name::Counted(Arc::clone(&value)));
        value
    }

    /// Adds a name that no bound counts.
    pub fn add(&mut self, name: &str) {
        self.insert(Name::Uncounted(name.into()));
    }

    fn insert(&mut self, name: Name) {
        let len = Borrow::<str>::borrow(&name).len();
        if self.names.insert(name) {
            self.bytes += len + OVERHEAD;
        }
    }

    /// Removes `name`; returns its value, if a bound counted it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Value>> {
        let removed = self.names.take(name)?;
        self.bytes -= name.len() + OVERHEAD;
        removed.value().map(Arc::clone)
    }

    /// The first name from `from` on.
    pub fn first_from(&self, from: &str) -> Option<Box<str>> {
        let mut names = self.names.range::<str, _>((Included(from), Unbounded));
        let first: &str = names.next()?.borrow();
        Some(first.into())
    }

    /// The names after `from` that begin with `prefix`, with their values.
    pub fn after<'n>(
        &'n self,
        from: &'n Bound<Box<str>>,
        prefix: &'n str,
    ) -> impl Iterator<Item = (&'n str, Option<&'n Arc<Value>>)> {
        let from = from.as_ref().map(|from| &**from);
        let names = self.names.range::<str, _>((from, Unbounded));
        let names = names.map(|name| (name.borrow(), name.value()));
        names.take_while(move |(name, _): &(&str, _)| name.starts_with(prefix))
    }
}
