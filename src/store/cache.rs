//! Hot small values, each use proved fresh.
//!
//! Promises never to answer what a new read would not find: an entry keeps its file open, and is used only after one
//! fstat has shown that the file is still the one under its key (no link lost), and unchanged (size, times). Bounded in
//! bytes, overhead included, and in descriptors; shared by all reactors. It reads no file itself.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;
use rustix::fs::Stat;

use super::key::Key;
use super::object::Meta;

/// What an entry takes besides its bytes: itself, its key, its place in the cache, its answer's headers.
const OVERHEAD: u64 = 512;

/// How long a file must have been left alone before it is kept. Its times advance in ticks of the kernel's clock (10 ms
/// at most), and before the bytes of a write are all in place: a younger file might change unseen.
const SETTLED: Duration = Duration::from_millis(100);

/// A small value in memory.
pub struct Small {
    meta: Meta,
    bytes: Bytes,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
    proof: Option<Proof>,
}

/// What shows that the bytes are still current.
struct Proof {
    file: OwnedFd,
    stamp: Stamp,
}

/// What changes when a file is edited, renamed, linked or unlinked.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            links: stat.st_nlink,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    fn is_settled(self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch =
            u64::try_from(seconds).map(|s| Duration::from_secs(s) + Duration::from_nanos(nanos));
        let age = since_epoch
            .ok()
            .and_then(|at| SystemTime::now().duration_since(UNIX_EPOCH + at).ok());
        age.is_some_and(|age| age >= SETTLED)
    }
}

impl Small {
    /// A value just read from `file`, described by `stat` from before the read.
    pub(super) fn new(file: OwnedFd, stat: &Stat, bytes: Bytes) -> Self {
        let stamp = Stamp::of(stat);
        let proof = stamp.is_settled().then_some(Proof { file, stamp });
        Self {
            meta: Meta::of(stat),
            bytes,
            note: OnceLock::new(),
            proof,
        }
    }

    /// Length and version.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// The value.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the room above keeps beside this version of the value; made once, by the first who asks.
    pub fn note<N: Any + Send + Sync>(&self, make: impl FnOnce() -> N) -> Option<&N> {
        self.note.get_or_init(|| Box::new(make())).downcast_ref()
    }

    fn is_fresh(&self) -> bool {
        let Some(proof) = &self.proof else {
            return false;
        };
        rustix::fs::fstat(&proof.file).is_ok_and(|now| Stamp::of(&now) == proof.stamp)
    }
}

impl std::fmt::Debug for Small {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Small")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// The cache; `None` inside when it is off.
#[derive(Debug)]
pub(super) struct Cache(Option<QuickCache<Box<str>, Arc<Small>, Weight>>);

impl Cache {
    /// A cache of `capacity` bytes that keeps at most `descriptors` files open; a capacity of 0 is off.
    pub(super) fn new(capacity: u64, descriptors: u64) -> Self {
        if capacity == 0 || descriptors == 0 {
            return Self(None);
        }
        let weight = Weight {
            least: capacity.div_ceil(descriptors),
        };
        let expected = (capacity / (weight.least + OVERHEAD)).min(1 << 16);
        let expected = usize::try_from(expected).unwrap_or(1 << 16);
        Self(Some(QuickCache::with_weighter(expected, capacity, weight)))
    }

    /// The value of `key`, when it is here and proved current now.
    pub(super) fn get(&self, key: &Key<'_>) -> Option<Arc<Small>> {
        let cache = self.0.as_ref()?;
        let small = cache.get(key.as_str())?;
        if small.is_fresh() {
            return Some(small);
        }
        cache.remove_if(key.as_str(), |kept| Arc::ptr_eq(kept, &small));
        None
    }

    /// Keeps `small`, if it can be proved current later and is worth its place.
    pub(super) fn keep(&self, key: &Key<'_>, small: &Arc<Small>) {
        if let (Some(cache), true) = (&self.0, small.proof.is_some()) {
            cache.insert(key.as_str().into(), Arc::clone(small));
        }
    }
}

#[derive(Clone, Debug)]
struct Weight {
    /// No entry weighs less, so that the capacity bounds the descriptors too.
    least: u64,
}

impl Weighter<Box<str>, Arc<Small>> for Weight {
    fn weight(&self, key: &Box<str>, small: &Arc<Small>) -> u64 {
        (small.meta.len + key.len() as u64 + OVERHEAD).max(self.least)
    }
}
