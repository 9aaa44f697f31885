//! The directory store: one key, one file, the file's path is the key.
//!
//! A directory is [opened](open) for writing by one server alone, or for reading by any number. Reads are answered from
//! the kernel's caches without blocking, and go to the disk threads only for bytes that those do not have. Writes go
//! through an [`FileUpload`] to the publisher. Any future here may be dropped: an upload that has not been handed over
//! leaves nothing, and a change that was handed over is made.

pub mod bounds_report;
mod expire;
mod folders;
mod keeper;
pub mod open;
mod parts;
mod uses;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;

use super::bounds::{Account, Ask, Staging};
use super::cache::Cache;
use super::changes::Changes;
use super::directory_fd::{Blocking, ValuesDir};
use super::list::Lister;
use super::multipart::Multiparts;
use super::object::{IsText, Object};
use super::publish::{Change, Condition, Publisher, ended};
use super::resumable::{FILES, Field, Registry, Resumable};
use super::space::Free;
use super::symlinks::{Target, follow};
use super::upload::{FileUpload, secured};
use super::upload_claim::UploadId;
use super::upload_room::UploadRoom;
use super::value_file;
use super::write_context::{Durability, WriteContext};
use crate::metrics::StoreCounters;
use crate::transfer::{BlockingPool, CHUNK, IN_MEMORY, NoPlace, Uploader, is_large};
use crate::value::{Error, Key, Meta};

/// How often an open is repeated when the file is replaced during each read. FUSE keeps a name that went stale for a
/// second, as its default is: the pauses between, from 1 to 128 ms, last longer together. On mergerfs more than half of
/// the tries fail while the value is replaced all the time, so a few after that second would not do.
const TRIES: u32 = 32;

/// The reason for a read, which decides what bounds evict later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client asks for the value: this is a use of it.
    Use,
    /// The value is one of many, in an archive or in a copy of a folder. This is no use of it, and the cache does not
    /// keep it.
    Scan,
}

/// A directory served as a key-value store.
#[derive(Debug)]
pub struct Directory {
    pub(super) dir: Arc<ValuesDir>,
    /// The threads for what keeps a processor busy.
    pub compute: BlockingPool,
    /// The values in memory.
    pub cache: Arc<Cache>,
    /// The counters.
    pub counters: Arc<StoreCounters>,
    /// The latest changes; of a store that is only read, none.
    pub changes: Arc<Changes>,
    is_text: IsText,
    /// The listings.
    pub lister: Arc<Lister>,
    pub(super) writing: Option<Writing>,
}

/// The parts that a store which may write holds in addition.
#[derive(Debug)]
pub(super) struct Writing {
    /// Before the publisher, which it needs.
    _keeper: Option<keeper::Keeper>,
    pub(super) writer: Arc<WriteContext>,
    pub(super) publisher: Arc<Publisher>,
    uploads: Arc<Registry>,
    multiparts: Arc<Multiparts>,
    _lock: File,
}

impl Writing {
    /// What makes room for a large value of `key`, where there are bounds.
    fn room(&self, key: &Key<'_>) -> Option<Box<UploadRoom>> {
        let account = self.writer.account.as_ref()?;
        let staging = Staging::new(account, key.as_str());
        Some(Box::new(self.room_of(staging)))
    }

    fn room_of(&self, staging: Arc<Staging>) -> UploadRoom {
        UploadRoom {
            staging,
            writer: Arc::clone(&self.writer),
            publisher: Arc::downgrade(&self.publisher),
            unexplained: 0,
        }
    }

    fn with_room(&self, mut upload: Resumable) -> Resumable {
        let account = self.writer.account.as_ref();
        upload.room = account.map(|it| Box::new(self.room_of(upload.staging(it))));
        upload
    }
}

impl Directory {
    /// The value of `key`, if it is in the cache and proved current: one system call, and nothing to wait for.
    pub fn get_cached(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        let object = self.cache.get(key, &self.dir)?;
        self.may_read(key, &object).ok()?;
        if object.meta.has_ended() {
            return None;
        }
        // The account may have forgotten it, and know the value anew: the next look in the file finds that.
        let is_counted = object.counted.as_ref().is_none_or(|value| {
            let is_counted = value.touch();
            if is_counted {
                self.count_request(key, true);
            }
            is_counted
        });
        is_counted.then_some(object)
    }

    /// Fails while the file of `key`, read as `object`, may lack bytes that the journal has.
    fn may_read(&self, key: &Key<'_>, object: &Object) -> Result<(), Error> {
        let writer = self.writer();
        writer.map_or(Ok(()), |writer| writer.journal.may_read(key, object.meta))
    }

    /// The value of `key`, or `None` when there is none. Looks past the cache, and fills it.
    pub async fn get(&self, key: &Key<'_>, purpose: Purpose) -> Result<Option<Arc<Object>>, Error> {
        for nth in 1..TRIES {
            match self.read(key, purpose).await {
                Err(error) if error.is_gone() => {
                    tokio::time::sleep(Duration::from_millis(1 << nth.min(8)) / 2).await;
                }
                read => return read,
            }
        }
        self.read(key, purpose).await
    }

    async fn read(&self, key: &Key<'_>, purpose: Purpose) -> Result<Option<Arc<Object>>, Error> {
        // From the kernel's caches, or on a disk thread where those do not have it.
        let Some(opened) = self.ask_kernel("open", key, ValuesDir::open).await? else {
            return Ok(None);
        };
        let disk = &self.dir.disk;
        let (opened, bytes) = if Meta::of(&opened.stat).len <= IN_MEMORY {
            let (opened, bytes) = value_file::whole(opened, disk).await?;
            (opened, Some(bytes))
        } else {
            (opened, None)
        };
        // Another server may store the first date at any time.
        let has_dates = self.dir.dates.is_possible() || self.dir.dates.others_write;
        let mut object = Object::new(opened, bytes, has_dates, disk.clone())?;
        if object.meta.end().is_some() {
            // Where it was restored without the server's own directory, nothing else tells.
            self.dir.ends.met();
            if object.meta.has_ended() {
                self.cache.forget(key);
                return Ok(None);
            }
        }
        // Before any other reactor can find it in the cache.
        if (self.is_text)(key.as_str(), object.media_type.as_deref()) {
            object.look().await?;
        }
        let account = self.account().filter(|it| it.counts(key.as_str()));
        let account = account.filter(|_| purpose == Purpose::Use);
        object.counted = account.and_then(|account| account.read(key.as_str()));
        let object = Arc::new(object);
        // A value that is not counted yet is not kept: its next use would not be noted.
        if purpose == Purpose::Use && (account.is_none() || object.counted.is_some()) {
            self.cache.keep(key, &object);
        }
        // Checked after the read, so that a value that was doubted meanwhile is not answered.
        self.may_read(key, &object)?;
        Ok(Some(object))
    }

    /// The length and the version of the value of `key`, or `None` when there is none. Takes no right to read the
    /// value.
    pub async fn meta(&self, key: &Key<'_>) -> Result<Option<Meta>, Error> {
        let found = self.ask_kernel("look up", key, ValuesDir::meta).await?;
        Ok(found.filter(|meta| !meta.has_ended()))
    }

    /// What the name `key` leads to through symbolic links, if it leads through any, and to something in here.
    pub async fn follow(&self, key: &Key<'_>) -> Result<Option<Target>, Error> {
        self.ask_kernel("follow", key, follow).await
    }

    /// Notes a use of the value of `key`: a client that is told that it is there relies on it.
    pub(super) fn found_existing(&self, key: &Key<'_>) {
        if let Some(account) = self.account() {
            account.read(key.as_str());
        }
    }

    /// Makes `call`, at first so that it does not wait for the device, then on a disk thread if it would have to.
    async fn ask_kernel<T: Send + 'static>(
        &self,
        doing: &'static str,
        key: &Key<'_>,
        call: fn(&ValuesDir, &Key<'_>, Blocking) -> Result<T, Errno>,
    ) -> Result<T, Error> {
        let asked = match call(&self.dir, key, Blocking::Never) {
            Err(Errno::AGAIN) => {
                let (dir, key) = (Arc::clone(&self.dir), key.clone().into_owned());
                let ask = move || Ok(call(&dir, &key, Blocking::Allowed));
                self.dir.disk.spawn(ask).await?
            }
            asked => asked,
        };
        asked.map_err(Error::errno_while(doing))
    }

    /// Begins to receive a value of `key` of `len` bytes, where that is known, for `uploader`, where the quota counts
    /// clients.
    pub async fn upload(
        &self,
        key: &Key<'_>,
        len: Option<u64>,
        uploader: Option<Uploader>,
    ) -> Result<FileUpload, Error> {
        self.may_begin(key, len)?;
        let writing = self.writing()?;
        let writer = Arc::clone(&writing.writer);
        // For a small value the publisher makes room.
        let is_small = len.is_some_and(|len| !is_large(len));
        let room = if is_small { None } else { writing.room(key) };
        let mut upload = FileUpload::new(writer, len, uploader, room)?;
        // One write takes all of a shorter value, and makes its file.
        if let Some(len) = len.filter(|&len| len > CHUNK as u64) {
            Box::pin(upload.create_file(key, len)).await?;
        }
        Ok(upload)
    }

    /// Fails for a value of `len` bytes that a bound has no room for.
    fn may_begin(&self, key: &Key<'_>, len: Option<u64>) -> Result<(), Error> {
        let known = self.account().zip(len);
        known.map_or(Ok(()), |(account, len)| {
            account.may_begin(&Ask::new(key.as_str(), account.size_of(len)))
        })
    }

    /// Publishes what was received as the value of `key`, if `condition` holds at that moment: from then on, every GET
    /// sees all of it.
    #[expect(clippy::manual_async_fn, reason = "it would have the upload twice")]
    pub fn put(
        &self,
        key: Key<'static>,
        mut upload: FileUpload,
        condition: Option<Condition>,
    ) -> impl Future<Output = Result<Meta, Error>> {
        async move {
            let writing = self.writing()?;
            // What a small value does not need is boxed, as its future is copied once where it is begun.
            if !upload.is_small() {
                Box::pin(upload.write_out()).await?;
            }
            let change = if upload.is_journaled() || writing.writer.durability == Durability::Os {
                Change::Put(upload.into_value())
            } else {
                let (value, room) = (upload.into_value(), writing.room(&key));
                Change::Put(Box::pin(secured(value, &writing.writer, room)).await?)
            };
            let published = writing.publisher.change(key.clone(), change, condition);
            let published = published.await;
            self.cache.forget(&key);
            writing.writer.note(published)?.ok_or_else(ended)
        }
    }

    /// Makes an upload that can be received in several requests, and claims it; `fields` are kept with it until it is
    /// published.
    pub async fn begin_resumable(
        &self,
        key: Key<'static>,
        length: Option<u64>,
        fields: Vec<Field>,
        uploader: Uploader,
    ) -> Result<Result<Resumable, NoPlace>, Error> {
        let writing = self.writing()?;
        self.may_begin(&key, length)?;
        let (writer, uploads) = (&writing.writer, &writing.uploads);
        let mut room = writing.room(&key);
        loop {
            let (key, fields, uploader) = (key.clone(), fields.clone(), uploader.clone());
            let begun = Resumable::begin(writer, uploads, key, length, fields, uploader).await;
            if let (Err(Error::NoSpace(_)), Some(room)) = (&begun, &mut room)
                && Box::pin(room.make(0, FILES)).await
            {
                continue;
            }
            return writer.note(begun.map(|begun| begun.map(|upload| writing.with_room(upload))));
        }
    }

    /// The key of the resumable upload `id`; `None` where there is none. A request that holds the claim goes on.
    pub fn key_of_upload(&self, id: UploadId) -> Option<Key<'static>> {
        Some(self.writing.as_ref()?.uploads.get(id)?.key.clone())
    }

    /// Claims the resumable upload `id`; `None` where there is none.
    pub async fn resume(&self, id: UploadId) -> Result<Option<Resumable>, Error> {
        let Some(writing) = &self.writing else {
            return Ok(None);
        };
        let claimed = Resumable::claim(&writing.writer, &writing.uploads, id).await?;
        Ok(claimed.map(|upload| writing.with_room(upload)))
    }

    /// The number of unfinished resumable uploads.
    pub fn unfinished_uploads(&self) -> usize {
        let writing = self.writing.as_ref();
        writing.map_or(0, |writing| writing.uploads.unfinished())
    }

    /// Removes the value of `key`, if `condition` holds at that moment; false when there was none.
    pub async fn delete(
        &self,
        key: Key<'static>,
        condition: Option<Condition>,
    ) -> Result<bool, Error> {
        let writing = self.writing()?;
        let removed = writing
            .publisher
            .change(key.clone(), Change::Remove(None), condition)
            .await;
        self.cache.forget(&key);
        // Where there was none, nothing was written.
        let removed = removed.or_else(|error| writing.writer.note(Err(error)))?;
        Ok(removed.is_some())
    }

    /// Has the cache look for what one system call does not show, removes expired uploads, and logs how far a count of
    /// the values is. To be called every few seconds.
    pub async fn sweep(&self) {
        if let Some(Err(Error::Counting {
            counted,
            retry_after: seconds_left,
        })) = self.account().map(|account| account.counted())
        {
            tracing::info!(
                counted,
                seconds_left,
                "the values are being counted for their bounds: uploads are refused until then"
            );
        }
        let (cache, dir) = (Arc::clone(&self.cache), Arc::clone(&self.dir));
        let writing = self.writing.as_ref();
        let uploads = writing.map(|w| {
            let both = (Arc::clone(&w.uploads), Arc::clone(&w.multiparts));
            (Arc::clone(&w.writer), both)
        });
        let swept = self.dir.disk.spawn(move || {
            cache.sweep(&dir);
            if let Some((writer, (uploads, multiparts))) = uploads {
                uploads.trim(&writer.temp_dir.uploads);
                let expired = uploads.expire(&writer.temp_dir.uploads)
                    + multiparts.expire(&writer.temp_dir.parts);
                writer.counters.uploads_expired.add(expired);
            }
            Ok(())
        });
        if let Err(error) = swept.await {
            tracing::error!(%error, "cannot sweep the cache and the uploads");
        }
    }

    /// Tries, on a disk thread, whether the directory is where it was and a value can be published in it; answers what
    /// is free for values, where that is known, unless none may be written.
    pub fn probe(&self) -> impl Future<Output = Result<Option<Free>, Error>> + Send + use<> {
        let writer = self.writer().cloned();
        let dir = Arc::clone(&self.dir);
        self.dir.disk.spawn(move || {
            dir.location.check()?;
            writer.map_or(Ok(None), |writer| writer.note(writer.probe()))
        })
    }

    /// How many folders and values are left out, as they cannot be read.
    pub fn unreadable(&self) -> u64 {
        self.dir.unserved.left_out() as u64
    }

    /// True while uploads are refused because of `--min-free`.
    pub fn is_short_of_space(&self) -> bool {
        self.writer().is_some_and(|w| w.space.is_low.load(Relaxed))
    }

    /// What the values take, where there are bounds.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.writer()?.account.as_ref()
    }

    pub(super) fn writer(&self) -> Option<&Arc<WriteContext>> {
        self.writing.as_ref().map(|writing| &writing.writer)
    }

    pub(super) fn writing(&self) -> Result<&Writing, Error> {
        self.writing
            .as_ref()
            .ok_or_else(|| Error::new("write", Errno::ROFS))
    }
}
