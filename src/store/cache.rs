//! Hot values, proved fresh at each use.
//!
//! Promises to answer only what a new read would find: an entry is an open file, and is used only after it was shown that
//! it is still the one under its key, and unchanged (size, times). Of a flat key one fstat shows both, for a file that is
//! renamed or removed has its times or its links changed. A file in a folder stays as it is when its folder is moved away, and
//! on some file systems any removed file does, so there the path is looked up again. Two changes show in neither way: another
//! program writes through a memory map, or mounts something over the file of a flat key. [`Cache::sweep`] finds these, some seconds later.
//! Bounded in bytes, overhead included, and in descriptors; shared by all reactors.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;

use super::directory_fd::ValuesDir;
use super::object::Object;
use crate::value::Key;

/// The size of an entry besides its bytes: itself, its key, its slot in the cache, the headers of its response.
const OVERHEAD: u64 = 512;

/// The cache; `None` inside when it is off.
#[derive(Debug)]
pub struct Cache(Option<QuickCache<Box<str>, Arc<Object>, Weight>>);

impl Cache {
    /// A cache of `capacity` bytes that keeps at most `descriptors` files open; a capacity of 0 is off.
    pub fn new(capacity: u64, descriptors: u64) -> Self {
        if capacity == 0 || descriptors == 0 {
            return Self(None);
        }
        let weight = Weight {
            least: capacity.div_ceil(descriptors),
        };
        let expected = (capacity / weight.least.max(OVERHEAD)).min(1 << 16);
        let expected = usize::try_from(expected).unwrap_or(1 << 16);
        Self(Some(QuickCache::with_weighter(expected, capacity, weight)))
    }

    /// The value of `key` in `dir`, when it is here and proved current now.
    pub fn get(&self, key: &Key<'_>, dir: &ValuesDir) -> Option<Arc<Object>> {
        let cache = self.0.as_ref()?;
        let object = cache.get(key.as_str())?;
        let is_current = if key.is_flat() && object.shows_removal() {
            object.is_current()
        } else {
            dir.stamp(key.as_str())
                .is_some_and(|stamp| object.is(stamp))
        };
        if is_current {
            return Some(object);
        }
        cache.remove_if(key.as_str(), |kept| Arc::ptr_eq(kept, &object));
        None
    }

    /// Keeps `object`, if it can be proved current later and is worth its place.
    pub fn keep(&self, key: &Key<'_>, object: &Arc<Object>) {
        if let (Some(cache), true) = (&self.0, object.is_quiescent()) {
            cache.insert(key.as_str().into(), Arc::clone(object));
        }
    }

    /// Forgets the values in `dir` that are no longer those under their keys, or whose bytes have changed although the times of their
    /// files have not. A removed file would otherwise keep its space until its key is read. Makes a few system calls for each.
    pub fn sweep(&self, dir: &ValuesDir) {
        let Some(cache) = &self.0 else { return };
        // Collected first, so that no lock of the cache is held during system calls.
        let kept: Vec<_> = cache.iter().collect();
        for (key, object) in kept {
            let is_there = dir.stamp(&key).is_some_and(|stamp| object.is(stamp));
            if !is_there || object.has_other_bytes() {
                cache.remove_if(&key, |kept| Arc::ptr_eq(kept, &object));
            }
        }
    }

    /// Bytes of its capacity that are taken.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, QuickCache::weight)
    }

    /// How many values it keeps, each with a descriptor.
    pub fn values(&self) -> u64 {
        self.0.as_ref().map_or(0, |cache| cache.len() as u64)
    }

    /// Forgets the value of `key`, whose file would otherwise stay on the disk as long as it is kept.
    pub fn forget(&self, key: &Key<'_>) {
        if let Some(cache) = &self.0 {
            cache.remove(key.as_str());
        }
    }
}

#[derive(Clone, Debug)]
struct Weight {
    /// No entry weighs less, so that the capacity bounds the descriptors too.
    least: u64,
}

impl Weighter<Box<str>, Arc<Object>> for Weight {
    fn weight(&self, key: &Box<str>, object: &Arc<Object>) -> u64 {
        let bytes = object.bytes().map_or(0, bytes::Bytes::len);
        // As they are stored, and as headers.
        let fields = 2 * object.fields().map_or(0, <[u8]>::len);
        ((bytes + fields + key.len()) as u64 + OVERHEAD).max(self.least)
    }
}
