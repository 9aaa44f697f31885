//! The directory store: one key, one file, the file's name is the key.
//!
//! Owns the way to a value: reads answer from the kernel's caches without blocking and go to the disk threads only
//! when those say no; writes go through an [`Upload`] to the publisher. Dropping any of its futures loses no value:
//! an upload not yet handed over leaves nothing, a change handed over is made.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;

use super::budget::{InFlight, Share};
use super::cache::Cache;
use super::changes::Changes;
use super::content::Content;
use super::error::Error;
use super::key::Key;
use super::list::{self, Listing, Page};
use super::names::{Names, Opened};
use super::object::{Meta, Object, Version};
use super::publish::{Condition, Publisher};
use super::read::{self, Read};
use super::staging::Staging;
use super::threads::Threads;
use super::upload::Upload;
use crate::metrics::StoreCounters;

mod open;

pub use open::Options;

/// Values up to this length are answered from memory, in bytes: copying more costs more than having the kernel send it
/// from its own cache.
const IN_MEMORY: u64 = 8 << 10;

/// A file of up to this many bytes that was removed by hand may stay on the disk until it is looked at again or falls out
/// of the cache; a larger one is given up by the next [`Directory::sweep`].
const NEGLIGIBLE: u64 = 64 << 10;

/// A directory served as a key-value store.
#[derive(Debug)]
pub struct Directory {
    names: Arc<Names>,
    compute: Threads,
    cache: Arc<Cache>,
    counters: Arc<StoreCounters>,
    changes: Arc<Changes>,
    writing: Option<Writing>,
}

/// What only a server that may write holds.
#[derive(Debug)]
struct Writing {
    staging: Arc<Staging>,
    publisher: Publisher,
    _lock: File,
}

impl Directory {
    /// The value of `key`, if it is in the cache and proved current: one system call, and nothing to wait for.
    pub fn get_cached(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        self.cache.get(key)
    }

    /// The value of `key`, or `None` when there is none. Looks past the cache, and fills it.
    pub async fn get(&self, key: &Key<'_>) -> Result<Option<Arc<Object>>, Error> {
        let Some(opened) = self.open_value(key).await? else {
            return Ok(None);
        };
        let (disk, is_memory) = (self.names.disk(), self.names.is_memory());
        let len = Meta::of(&opened.stat).len;
        let object = if len <= IN_MEMORY {
            let Read { fd, stat, bytes } = read::whole(opened, disk, is_memory).await?;
            Object::new(fd, &stat, Some(bytes), disk.clone(), is_memory)?
        } else {
            Object::new(opened.fd, &opened.stat, None, disk.clone(), is_memory)?
        };
        let object = Arc::new(object);
        self.cache.keep(key, &object);
        Ok(Some(object))
    }

    /// Opens the file of `key` from the kernel's caches, or on a disk thread when those do not have it.
    async fn open_value(&self, key: &Key<'_>) -> Result<Option<Opened>, Error> {
        match self.names.open(key, true) {
            Err(Errno::AGAIN) => {
                let (names, key) = (Arc::clone(&self.names), key.to_owned());
                self.names
                    .disk()
                    .run(move || names.open(&key, false).map_err(Error::while_("open")))
                    .await
            }
            opened => opened.map_err(Error::while_("open")),
        }
    }

    /// Begins to receive a value of `len` bytes, where that is known.
    pub async fn upload(&self, len: Option<u64>) -> Result<Upload, Error> {
        Upload::begin(Arc::clone(&self.writing()?.staging), len).await
    }

    /// Publishes what was received as the value of `key`, if `condition` holds at that moment: from then on, every GET
    /// sees all of it.
    pub async fn put(
        &self,
        key: Key<'static>,
        upload: Upload,
        condition: Option<Condition>,
    ) -> Result<Version, Error> {
        let writing = self.writing()?;
        let content = upload.finish().await?;
        self.publish(writing, key, content, condition).await
    }

    /// Publishes `bytes`, a small value that is here whole already, as the value of `key`; its media type is kept beside it.
    pub async fn put_small(
        &self,
        key: Key<'static>,
        bytes: Bytes,
        media_type: Option<Box<str>>,
    ) -> Result<Version, Error> {
        let writing = self.writing()?;
        let len = bytes.len() as u64;
        let mut share = Share::new(writing.staging.budget());
        share.cover(len)?;
        let content = Content::small(bytes, media_type, share);
        let content = content.secured(&writing.staging).await?;
        self.publish(writing, key, (content, len), None).await
    }

    fn publish<'a>(
        &'a self,
        writing: &'a Writing,
        key: Key<'static>,
        content: (Content, u64),
        condition: Option<Condition>,
    ) -> impl Future<Output = Result<Version, Error>> + 'a {
        let published = writing.publisher.put(key.clone(), content, condition);
        async move {
            let published = published.await;
            self.cache.forget(&key);
            published
        }
    }

    /// Removes the value of `key`, if `condition` holds at that moment; false when there was none.
    pub async fn delete(
        &self,
        key: Key<'static>,
        condition: Option<Condition>,
    ) -> Result<bool, Error> {
        let deleted = self
            .writing()?
            .publisher
            .delete(key.clone(), condition)
            .await;
        self.cache.forget(&key);
        deleted
    }

    /// One page of the keys, in byte order.
    pub async fn list(&self, page: Page) -> Result<Listing, Error> {
        let names = Arc::clone(&self.names);
        self.names
            .disk()
            .run(move || list::list(&names, &page))
            .await
    }

    /// Gives up large files that were removed by hand and that only the cache keeps on the disk. To be called every few
    /// seconds.
    pub async fn sweep(&self) {
        let cache = Arc::clone(&self.cache);
        let swept = self.names.disk().run(move || {
            cache.sweep(NEGLIGIBLE);
            Ok(())
        });
        if let Err(error) = swept.await {
            tracing::error!(%error, "cannot sweep the cache");
        }
    }

    /// What was changed lately; of a store that is only read, nothing.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &Threads {
        &self.compute
    }

    /// The threads for what may wait for a device.
    pub fn disk(&self) -> &Threads {
        self.names.disk()
    }

    /// What has been counted.
    pub fn counters(&self) -> &StoreCounters {
        &self.counters
    }

    /// Memory that cached values take, in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Tries, on a disk thread, whether a value can be written; answers how many bytes are free for values.
    pub fn probe(&self) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        let staging = self.writing().map(|writing| Arc::clone(&writing.staging));
        let disk = self.names.disk().clone();
        async move {
            let staging = staging?;
            disk.run(move || staging.probe()).await
        }
    }

    /// Whether values may be changed.
    pub fn is_writable(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether there is a bound to what may be staged: an upload of any length is to ask before it is received.
    pub fn is_staging_bounded(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|writing| writing.staging.budget().is_bounded())
    }

    /// What is staged at the moment, over all reactors.
    pub fn staged(&self) -> InFlight {
        let in_flight = |writing: &Writing| writing.staging.budget().in_flight();
        self.writing
            .as_ref()
            .map_or_else(InFlight::default, in_flight)
    }

    fn writing(&self) -> Result<&Writing, Error> {
        self.writing
            .as_ref()
            .ok_or_else(|| Error::new("write", Errno::ROFS))
    }
}
