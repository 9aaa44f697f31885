//! The store as the rooms above see it: an enum over engines, with one type of a value that was found and one of a
//! value on its way in.
//!
//! The engines promise the same where they can. The rooms above ask which one answers only for its own metrics, for how
//! many members of an archive it takes at once, and for what an S3 store lacks: folders, resumable uploads, bounds and
//! the feed of changes. The futures of an S3 store are boxed, so that those of a directory are not longer for them.

use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::attributes::add_of_version;
use super::bounds::Account;
use super::changes::Changes;
use super::directory::{Directory, Purpose};
use super::multipart::Multipart;
use super::object::{Descriptor, Object};
use super::publish::Condition;
use super::resumable::Resumable;
use super::space::Free;
use super::upload::FileUpload;
use crate::metrics::ReactorCounters;
use crate::s3::{ConditionalUpload, PIECE, RemoteValue, S3};
use crate::transfer::{BlockingPool, BodySource, CHUNK, StagingQuota, UploadHead, read};
use crate::value::{
    Current, Digest, Digests, Error, GZIP, Key, Listing, Meta, Page, Preconditions, Validators,
    Wanted, coded_tag, date,
};

/// Keys and their values, in one of the engines.
#[derive(Debug)]
pub enum Store {
    /// One file for each key, in a directory.
    Directory(Box<Directory>),
    /// One object for each key, in a bucket.
    S3(Arc<S3>),
}

/// A value that was found.
pub enum Found {
    /// A file of a directory.
    File(Arc<Object>),
    /// An object of an S3 store.
    Object(Box<RemoteValue>),
}

/// A value on its way in. One that is dropped leaves what was there.
#[expect(
    clippy::large_enum_variant,
    reason = "a small value of a directory is received without another allocation"
)]
pub enum Upload<'a> {
    /// To a file of a directory, published under this condition.
    File(&'a Directory, FileUpload, Option<Condition>),
    /// To an object of an S3 store.
    Object(Box<ConditionalUpload>),
}

impl Found {
    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is no container")]
    pub fn len(&self) -> u64 {
        match self {
            Self::File(object) => object.meta.len,
            Self::Object(object) => object.meta.len,
        }
    }

    /// The date of the value for people: without one of its own, when it was written.
    pub fn date(&self) -> SystemTime {
        match self {
            Self::File(object) => object.date().unwrap_or(object.meta.modified()),
            Self::Object(object) => date(&object.meta.fields).unwrap_or(object.meta.modified),
        }
    }

    /// The address at the store of a value that clients read there, for a GET or for a HEAD.
    pub fn link(&self, is_head: bool) -> Result<Option<String>, Error> {
        match self {
            Self::File(_) => Ok(None),
            Self::Object(object) => object.link(is_head),
        }
    }

    /// Requests the first bytes of `range`; false where the value was replaced or removed.
    pub async fn open_range(&mut self, range: Range<u64>) -> Result<bool, Error> {
        match self {
            Self::File(_) => Ok(true),
            Self::Object(object) => Box::pin(object.open_range(range)).await,
        }
    }
}

/// The validators of a value that was published; an S3 store does not say when that was.
#[derive(Debug)]
pub struct Published {
    /// The entity tag, quotes included.
    pub etag: String,
    /// When it was written.
    pub modified: Option<SystemTime>,
}

impl From<Meta> for Published {
    fn from(meta: Meta) -> Self {
        let Validators { etag, modified } = meta.into();
        Self {
            etag,
            modified: Some(modified),
        }
    }
}

/// Files are those of a directory.
const NO_PARTS: Error = Error::NotSupported {
    name: "no-parts",
    what: "uploads to an S3 store are not received in parts: send all of the value with one PUT",
};

/// The publishing of a value.
pub type Publishing<'a> = Pin<Box<dyn Future<Output = Result<Published, Error>> + 'a>>;

/// A probe of the store: what is free for values, where that is known and values may be written.
pub type Probe = Pin<Box<dyn Future<Output = Result<Option<Free>, Error>> + Send>>;

/// Values. `reactor` is the number of the reactor that asks: each has its own connections to an S3 store.
impl Store {
    /// The value of `key`, if it is in the cache and proved current; counted in `counters`, where there is a cache.
    pub fn get_cached(&self, key: &Key<'_>, counters: &ReactorCounters) -> Option<Arc<Object>> {
        let found = self.directory()?.get_cached(key);
        match found {
            Some(_) => counters.cache_hits.add(1),
            None => counters.cache_misses.add(1),
        }
        found
    }

    /// The value of `key`, or `None` when there is none. Where `all` of it is wanted, an S3 store is asked once.
    pub async fn get(
        &self,
        reactor: usize,
        key: &Key<'_>,
        all: bool,
        purpose: Purpose,
    ) -> Result<Option<Found>, Error> {
        match self {
            Self::Directory(directory) => Ok(directory.get(key, purpose).await?.map(Found::File)),
            Self::S3(s3) => {
                let found = Box::pin(s3.gateway(reactor).find(key, all)).await?;
                Ok(found.map(Box::new).map(Found::Object))
            }
        }
    }

    /// The digest of `found`, SHA-512 or else SHA-256: as it is kept, or computed on the compute threads; `None` where
    /// the value was replaced or removed.
    pub async fn digest(&self, found: &Found, sha512: bool) -> Result<Option<Digest>, Error> {
        match found {
            Found::File(object) => {
                let keep = self.directory().is_some_and(|it| it.writing.is_some());
                let digest = object.digest(sha512, keep, self.compute());
                Ok(Some(digest.await?))
            }
            Found::Object(object) => Box::pin(object.digest(sha512)).await,
        }
    }

    /// Begins to receive the value of `key` that `head` announces, unless its preconditions fail already. Takes what it
    /// keeps of the head.
    pub async fn upload(
        &self,
        reactor: usize,
        key: &Key<'_>,
        head: &mut UploadHead,
    ) -> Result<Upload<'_>, Error> {
        match self {
            Self::Directory(directory) => {
                if let Some(preconditions) = &head.preconditions {
                    Box::pin(check(directory, key, preconditions)).await?;
                }
                let mut upload = directory
                    .upload(key, head.len, head.uploader.take())
                    .await?;
                upload.attributes = mem::take(&mut head.attributes);
                let condition = head.preconditions.take().map(condition);
                Ok(Upload::File(directory, upload, condition))
            }
            Self::S3(s3) => {
                let upload = Box::pin(s3.gateway(reactor).put(key, mem::take(head))).await?;
                Ok(Upload::Object(Box::new(upload)))
            }
        }
    }

    /// Removes the value of `key`, if the preconditions hold at that moment; false when there was none.
    pub async fn delete(
        &self,
        reactor: usize,
        key: Key<'static>,
        preconditions: Option<Preconditions>,
    ) -> Result<bool, Error> {
        match self {
            Self::Directory(directory) => directory.delete(key, preconditions.map(condition)).await,
            Self::S3(s3) => Box::pin(s3.gateway(reactor).remove(&key, preconditions)).await,
        }
    }

    /// One page of the keys, in byte order.
    pub async fn list(&self, reactor: usize, page: Page) -> Result<Arc<Listing>, Error> {
        match self {
            Self::Directory(directory) => directory.lister.list(page).await,
            Self::S3(s3) => Ok(Arc::new(s3.gateway(reactor).list(&page).await?)),
        }
    }

    /// The value of a resumable upload, all of which has been received, to be published with this `head`.
    pub fn publish_resumable(
        &self,
        upload: &Resumable,
        head: UploadHead,
    ) -> Result<Upload<'_>, Error> {
        let mut value = upload.append(None)?;
        value.attributes = head.attributes;
        let condition = head.preconditions.map(condition);
        Ok(Upload::File(self.resumable()?, value, condition))
    }

    /// The directory, for uploads that are received in several requests.
    pub fn resumable(&self) -> Result<&Directory, Error> {
        self.directory().ok_or(Error::NotSupported {
            name: "no-resumable-uploads",
            what: "uploads to an S3 store cannot be resumed: send all of the value with one PUT",
        })
    }
}

/// Fails with [`Error::Precondition`] if `preconditions` do not hold for the value of `key` now.
pub async fn check(
    directory: &Directory,
    key: &Key<'_>,
    preconditions: &Preconditions,
) -> Result<(), Error> {
    let is_refused = !holds(preconditions, directory.meta(key).await?);
    if is_refused && holds(preconditions, None) {
        directory.found_existing(key);
    }
    (!is_refused).then_some(()).ok_or(Error::Precondition)
}

/// `preconditions` as the publisher decides them.
pub(super) fn condition(preconditions: Preconditions) -> Condition {
    Box::new(move |current| holds(&preconditions, current))
}

pub(super) fn holds(preconditions: &Preconditions, current: Option<Meta>) -> bool {
    let Some(meta) = current else {
        return preconditions.for_write(None);
    };
    let Validators { etag, modified } = Validators::from(meta);
    preconditions.for_write(Some(Current {
        etag: &etag,
        variant: Some(&coded_tag(&etag, GZIP)),
        modified,
    }))
}

impl<'a> Upload<'a> {
    /// Computes the digests that are `wanted` from the bytes to come.
    pub fn hash(&mut self, wanted: Wanted) {
        match self {
            Self::File(directory, upload, _) => upload.hash(wanted, directory.compute.clone()),
            Self::Object(object) => object.upload.hash(wanted),
        }
    }

    /// Takes the next bytes.
    pub async fn push(&mut self, data: Bytes) -> Result<(), Error> {
        match self {
            Self::File(_, upload, _) => upload.push(data).await,
            Self::Object(object) => Box::pin(object.upload.push(data)).await,
        }
    }

    /// Takes all that `source` has. Nothing is hashed on the way.
    pub async fn take(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        let object = match self {
            Self::File(_, upload, _) => return upload.receive(source).await,
            Self::Object(object) => object,
        };
        while source.remaining() > 0 {
            Box::pin(object.upload.push(read(source).await?)).await?;
        }
        Ok(())
    }

    /// Keeps these lines of fields too, which are true of this value's bytes alone, if there is room.
    pub fn keep_of_version(&mut self, lines: &[u8]) {
        if let Self::File(_, upload, _) = self {
            add_of_version(&mut upload.attributes, lines);
        }
    }

    /// Adds these bytes of a file.
    pub async fn copy_range(&mut self, from: &Descriptor, range: Range<u64>) -> Result<(), Error> {
        match self {
            Self::File(_, upload, _) => upload.copy_range(from, range).await,
            Self::Object(_) => Err(NO_PARTS),
        }
    }

    /// Keeps the value as the part of this number of an upload; `None` where that has ended.
    pub async fn keep_part(
        self,
        upload: &Arc<Multipart>,
        number: u16,
    ) -> Result<Option<Meta>, Error> {
        match self {
            Self::File(directory, part, _) => directory.keep_part(part, upload, number).await,
            Self::Object(_) => Err(NO_PARTS),
        }
    }

    /// The digests that are `wanted`, of the value received.
    pub async fn digests(&mut self, wanted: Wanted) -> Result<Digests, Error> {
        match self {
            Self::File(directory, upload, _) => upload.digests(wanted, &directory.compute).await,
            Self::Object(object) => Box::pin(object.upload.digests(wanted)).await,
        }
    }

    /// Publishes the value as that of `key`, if its preconditions hold at that moment. The future is boxed, so that the
    /// futures of uploads are smaller.
    pub fn publish(self, key: Key<'static>) -> Publishing<'a> {
        match self {
            Self::File(directory, upload, condition) => {
                // An async block would have the future of the publishing twice.
                let publishing = directory.put(key, upload, condition);
                Box::pin(publishing.map(|meta| Ok(meta?.into())))
            }
            Self::Object(object) => Box::pin(async move {
                let etag = object.publish(&key).await?;
                Ok(Published {
                    etag,
                    modified: None,
                })
            }),
        }
    }
}

impl Store {
    /// The directory, if this store is one.
    pub fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Directory(directory) => Some(directory),
            Self::S3(_) => None,
        }
    }

    /// Tries, beside the reactors, whether values can be read and, if they may be written, whether one can be
    /// published.
    pub fn probe(&self) -> Probe {
        match self {
            Self::Directory(directory) => Box::pin(directory.probe()),
            Self::S3(s3) => {
                let s3 = Arc::clone(s3);
                Box::pin(async move { s3.probe().await.map(|()| None) })
            }
        }
    }

    /// The reason why each write is synced by itself, where a journal should do that.
    pub fn unjournaled(&self) -> Option<&'static str> {
        self.directory()?.writer()?.journal.missing()
    }

    /// The most bytes of an upload that are received at a time; a whole head fits, too. While an engine takes them, as
    /// many again may be received, so short ones bound the memory of many uploads at once.
    pub fn receive_buffer(&self) -> usize {
        match self {
            Self::Directory(_) => CHUNK,
            Self::S3(_) => PIECE,
        }
    }

    /// What the values take, where there are bounds.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.directory()?.account()
    }

    /// The latest changes; of a store that is only read, none; of one that others change unseen, `None`.
    pub fn changes(&self) -> Option<&Arc<Changes>> {
        Some(&self.directory()?.changes)
    }

    /// The threads for what keeps a processor busy.
    pub fn compute(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => &directory.compute,
            Self::S3(s3) => s3.compute(),
        }
    }

    /// The threads for calls that may block on the disk.
    pub fn disk(&self) -> &BlockingPool {
        match self {
            Self::Directory(directory) => &directory.dir.disk,
            Self::S3(s3) => s3.disk(),
        }
    }

    /// The quota of uploads, over all reactors; of a directory that is only read, none.
    pub fn quota(&self) -> Option<&StagingQuota> {
        match self {
            Self::Directory(directory) => directory.writer().map(|writer| &*writer.quota),
            Self::S3(s3) => Some(s3.quota()),
        }
    }
}
