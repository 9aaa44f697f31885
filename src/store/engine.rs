//! The store as the rooms above see it: an enum over engines, of which there is one today.
//!
//! Each call matches the engine once and is dispatched statically. Values, pages and errors are the same types for every
//! engine.

use std::path::Path;
use std::sync::Arc;

use super::blocking_pool::BlockingPool;
use super::changes::Changes;
use super::directory::{Directory, Options};
use super::error::Error;
use super::key::Key;
use super::layout::OpenError;
use super::list::{Listing, Page};
use super::meta::Version;
use super::object::Object;
use super::publish::Condition;
use super::staging_quota::InFlight;
use super::upload::Upload;
use crate::metrics::StoreCounters;

/// Keys and their values, in one of the engines.
#[derive(Debug)]
pub enum Store {
    /// One file for each key, in a directory.
    Directory(Directory),
}

impl Store {
    /// Opens the directory `dir` for reading and writing, making it when it is missing.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Directory::open(dir, options).map(Self::Directory)
    }

    /// Opens the directory `dir` for reading alone: nothing is created or locked.
    pub fn open_read_only(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Directory::open_read_only(dir, options).map(Self::Directory)
    }

    /// The value of `key`, if it is in the cache and proved current: there is nothing to wait for.
    pub fn get_cached(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        match self {
            Self::Directory(directory) => directory.get_cached(key),
        }
    }

    /// The value of `key`, or `None` when there is none. Looks past the cache, and fills it.
    pub async fn get(&self, key: &Key<'_>) -> Result<Option<Arc<Object>>, Error> {
        match self {
            Self::Directory(directory) => directory.get(key).await,
        }
    }

    /// Begins to receive a value of `len` bytes, where that is known.
    pub async fn upload(&self, len: Option<u64>) -> Result<Upload, Error> {
        match self {
            Self::Directory(directory) => directory.upload(len).await,
        }
    }

    /// Publishes what was received as the value of `key`, if `condition` holds at that moment: from then on, every read
    /// finds all of it.
    pub async fn put(
        &self,
        key: Key<'static>,
        upload: Upload,
        condition: Option<Condition>,
    ) -> Result<Version, Error> {
        match self {
            Self::Directory(directory) => directory.put(key, upload, condition).await,
        }
    }

    /// Removes the value of `key`, if `condition` holds at that moment; false when there was none.
    pub async fn delete(
        &self,
        key: Key<'static>,
        condition: Option<Condition>,
    ) -> Result<bool, Error> {
        match self {
            Self::Directory(directory) => directory.delete(key, condition).await,
        }
    }

    /// One page of the keys, in byte order.
    pub async fn list(&self, page: Page) -> Result<Arc<Listing>, Error> {
        match self {
            Self::Directory(directory) => directory.list(page).await,
        }
    }

    /// Does what the engine needs done every few seconds.
    pub async fn sweep(&self) {
        match self {
            Self::Directory(directory) => directory.sweep().await,
        }
    }

    /// Tries, beside the reactors, whether values can be read and, if they may be written, whether one can be published;
    /// answers how many bytes are free for values, unless none may be written.
    pub fn probe(&self) -> impl Future<Output = Result<Option<u64>, Error>> + Send + use<> {
        match self {
            Self::Directory(directory) => directory.probe(),
        }
    }

    /// What was changed lately; of a store that is only read, nothing.
    pub fn changes(&self) -> &Arc<Changes> {
        match self {
            Self::Directory(directory) => directory.changes(),
        }
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => directory.compute(),
        }
    }

    /// The threads for what may wait for a device.
    pub fn disk(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => directory.disk(),
        }
    }

    /// The threads for listings.
    pub fn listing(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => directory.listing(),
        }
    }

    /// What has been counted.
    pub fn counters(&self) -> &StoreCounters {
        match self {
            Self::Directory(directory) => directory.counters(),
        }
    }

    /// Memory that cached values take, in bytes.
    pub fn cached_bytes(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.cached_bytes(),
        }
    }

    /// Whether values may be changed.
    pub fn is_writable(&self) -> bool {
        match self {
            Self::Directory(directory) => directory.is_writable(),
        }
    }

    /// What is staged at the moment, over all reactors.
    pub fn staged(&self) -> InFlight {
        match self {
            Self::Directory(directory) => directory.staged(),
        }
    }
}
