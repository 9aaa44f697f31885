//! Hot values, proved fresh at each use.
//!
//! Promises to answer only what a new read would find: an entry is an open file, and is used only after it was shown
//! that it is still the one under its key, and unchanged (size, times). Of a flat key one fstat shows both, for a file
//! that is renamed or removed has its times or its links changed. A file in a folder stays as it is when its folder is
//! moved away, and on some file systems any removed file does, so there the path is looked up again. Two changes show
//! in neither way: another program writes through a memory map, or mounts something over the file of a flat key. The
//! first use after a [`Cache::sweep`], which comes every few seconds, looks for these too. Bounded in bytes, overhead
//! included, and in descriptors; shared by all reactors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;

use super::directory_fd::ValuesDir;
use super::object::Object;
use crate::value::Key;

/// The size of an entry besides its bytes: itself, its key, its slot in the cache, the headers of its response.
const OVERHEAD: u64 = 512;

/// A file of up to this length that was removed by hand may stay on the disk until its key is next read or it falls out
/// of the cache; the next sweep gives up a longer one.
const NEGLIGIBLE: u64 = 64 << 10;

/// The cache.
#[derive(Debug)]
pub struct Cache {
    kept: QuickCache<Box<str>, Arc<Object>, Weight>,
    /// How many sweeps there were.
    sweeps: AtomicU32,
}

impl Cache {
    /// A cache of `capacity` bytes that keeps at most `descriptors` files open; a capacity of 0 is off.
    pub fn new(capacity: u64, descriptors: u64) -> Self {
        // Of no capacity it keeps nothing.
        let capacity = if descriptors == 0 { 0 } else { capacity };
        let weight = Weight {
            least: capacity.div_ceil(descriptors.max(1)),
        };
        let expected = (capacity / weight.least.max(OVERHEAD)).min(1 << 16);
        let expected = usize::try_from(expected).unwrap_or(1 << 16);
        Self {
            kept: QuickCache::with_weighter(expected, capacity, weight),
            sweeps: AtomicU32::new(0),
        }
    }

    /// The value of `key` in `dir`, when it is here and proved current now.
    pub fn get(&self, key: &Key<'_>, dir: &ValuesDir) -> Option<Arc<Object>> {
        let object = self.kept.get(key.as_str())?;
        let sweep = self.sweeps.load(Relaxed);
        let is_current =
            if key.is_flat() && object.fs_type.shows_removal && object.is_compared(sweep) {
                object.is_current()
            } else {
                is_there(key.as_str(), &object, dir) && object.compare(sweep)
            };
        if is_current {
            return Some(object);
        }
        self.remove(key.as_str(), &object);
        None
    }

    /// Keeps `object`, if it can be proved current later and is worth its place.
    pub fn keep(&self, key: &Key<'_>, object: &Arc<Object>) {
        if object.stamp.is_quiescent() {
            object.note_compared(self.sweeps.load(Relaxed));
            self.kept.insert(key.as_str().into(), Arc::clone(object));
        }
    }

    /// Has the next use of each value look for changes that the times of its file do not show. Forgets the values that
    /// lie on another file system than `dir`, which cannot be unmounted while their files are open, and large ones that
    /// are no longer those under their keys: their files would otherwise keep their space until the keys are read.
    pub fn sweep(&self, dir: &ValuesDir) {
        self.sweeps.fetch_add(1, Relaxed);
        if let Some(device) = dir.device() {
            self.kept.retain(|_, object| object.stamp.device == device);
        }
        // Collected first, so that no lock of the cache is held during system calls.
        let is_large = |object: &Object| object.meta.len > NEGLIGIBLE;
        let large: Vec<_> = self.kept.iter().filter(|(_, o)| is_large(o)).collect();
        for (key, object) in large {
            if !is_there(&key, &object, dir) {
                self.remove(&key, &object);
            }
        }
    }

    /// Bytes of its capacity that are taken.
    pub fn bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// How many values it keeps, each with a descriptor.
    pub fn values(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Forgets the value of `key`, whose file would otherwise stay on the disk as long as it is kept.
    pub fn forget(&self, key: &Key<'_>) {
        self.kept.remove(key.as_str());
    }

    /// Forgets the values of all keys that begin with this.
    pub fn forget_all(&self, prefix: &str) {
        self.kept.retain(|key, _| !key.starts_with(prefix));
    }

    /// Forgets `object`, unless another has its key.
    fn remove(&self, key: &str, object: &Arc<Object>) {
        let is_it = |kept: &Arc<Object>| Arc::ptr_eq(kept, object);
        self.kept.remove_if(key, is_it);
    }
}

/// True if the file of `object` lies in `dir` under `key`, unchanged.
fn is_there(key: &str, object: &Object, dir: &ValuesDir) -> bool {
    dir.stamp(key) == Some(object.stamp)
}

#[derive(Clone, Debug)]
struct Weight {
    /// No entry weighs less, so that the capacity bounds the descriptors too.
    least: u64,
}

impl Weighter<Box<str>, Arc<Object>> for Weight {
    fn weight(&self, key: &Box<str>, object: &Arc<Object>) -> u64 {
        let bytes = object.bytes.as_ref().map_or(0, bytes::Bytes::len);
        // As they are stored, and as headers.
        let fields = 2 * object.fields.as_ref().map_or(0, |fields| fields.len());
        ((bytes + fields + key.len()) as u64 + OVERHEAD).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytes::Bytes;
    use rustix::fs::{CWD, Mode, OFlags};

    use super::super::directory_fd::Blocking;
    use super::super::location::Location;
    use super::*;
    use crate::transfer::BlockingPool;

    /// A cache that keeps a value of each length, whose bytes are not those of its file: as after a write through a
    /// memory map.
    fn filled(at: &tempfile::TempDir, lens: &[usize]) -> (Cache, ValuesDir) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, at.path(), flags, Mode::empty()).unwrap();
        let location = Location::new(at.path(), &root, None).unwrap();
        let disk = BlockingPool::disk(None).unwrap();
        let dir = ValuesDir::new(root, location, disk.clone());
        let cache = Cache::new(1 << 20, 1 << 10);
        for &len in lens {
            let name = len.to_string();
            fs::write(at.path().join(&name), vec![b'a'; len]).unwrap();
            let key = Key::new(name).unwrap();
            let values = cache.values();
            // A file is kept once it has been unchanged for a moment.
            while cache.values() == values {
                let opened = dir.open(&key, Blocking::Allowed).unwrap().unwrap();
                let bytes = Bytes::from(vec![b'b'; len]);
                let object = Object::new(opened, Some(bytes), false, disk.clone()).unwrap();
                cache.keep(&key, &Arc::new(object));
                std::thread::yield_now();
            }
        }
        (cache, dir)
    }

    #[test]
    fn the_first_use_after_a_sweep_compares_the_bytes() {
        let at = tempfile::tempdir().unwrap();
        let (cache, dir) = filled(&at, &[10]);
        let key = Key::new("10").unwrap();
        assert!(cache.get(&key, &dir).is_some());
        cache.sweep(&dir);
        assert!(cache.get(&key, &dir).is_none());
    }

    #[test]
    fn a_sweep_looks_up_large_values_alone() {
        let at = tempfile::tempdir().unwrap();
        let (cache, dir) = filled(&at, &[10, 100_000]);
        for name in ["10", "100000"] {
            fs::remove_file(at.path().join(name)).unwrap();
        }
        cache.sweep(&dir);
        let found = cache.values();
        assert_eq!(found, 1, "so it costs nothing where many values are small");
        assert!(cache.get(&Key::new("10").unwrap(), &dir).is_none());
    }
}
