//! Resumable uploads: a value that is received in several requests, and published then as every other.
//!
//! What has been received lies in `.data-server/uploads`, under a name that cannot be guessed, and is still there after a
//! restart. A [`Resumable`] is the claim of one request on one upload. Its [`Upload`] appends to the file; to be published,
//! it goes to the publisher, which renames the file. How much has been received is the length of the file, and nothing
//! else says it.
//!
//! Promises that an offset that is answered stays: it survives the death of the process, and with `Durability::Disk` the
//! loss of power, after [`Resumable::secure`].

use std::sync::Arc;

use rustix::io::retry_on_intr;

use super::temp_file::TempFile;
use super::upload::Upload;
use super::upload_claim::{Claim, Standing, Touched, UploadId};
use super::value_file::ValueFile;
use super::writer::{Durability, Writer};
use crate::transfer::{BlockingPool, Share, Uploader, hash_file};
use crate::value::{Digests, Error, Hasher, Key, Meta, Wanted};

mod files;
mod record;
mod registry;
mod start;

use files::{keep_record, record};
pub use record::Field;
pub(super) use registry::Registry;

/// An upload to be made.
#[derive(Debug)]
pub struct NewUpload {
    /// What it will be the value of.
    pub key: Key<'static>,
    /// How long it will be, where that is known.
    pub length: Option<u64>,
    /// What is kept with it until it is published.
    pub fields: Vec<Field>,
    /// The client that it counts for.
    pub uploader: Uploader,
}

/// The claim on a resumable upload.
#[derive(Debug)]
pub struct Resumable {
    writer: Arc<Writer>,
    registry: Arc<Registry>,
    claim: Arc<Claim>,
    /// `None` when it has been published.
    file: Option<Arc<ValueFile>>,
    offset: u64,
    /// Whether a client may know of it: else it is removed when the claim is given up.
    is_known: bool,
}

impl Resumable {
    /// Its identifier, for the client. It stays from now on.
    pub fn announce(&mut self) -> UploadId {
        self.is_known = true;
        self.id()
    }

    fn id(&self) -> UploadId {
        self.claim.entry().id
    }

    /// What it will be the value of.
    pub fn key(&self) -> &Key<'static> {
        &self.claim.entry().key
    }

    /// What is kept with it.
    pub async fn fields(&self) -> Result<Vec<Field>, Error> {
        let record = self.on_disk(record).await?;
        Ok(record.fields)
    }

    /// How long it will be, where that is known.
    pub fn length(&self) -> Option<u64> {
        self.claim.entry().progress().length
    }

    /// How many bytes had been received when it was claimed, or [`Resumable::appended`] last.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether it has been published.
    pub fn is_complete(&self) -> bool {
        self.claim.entry().progress().standing == Standing::Complete
    }

    /// Waits until another request wants the claim.
    pub fn is_wanted(&self) -> impl Future<Output = ()> + use<> {
        self.claim.is_wanted()
    }

    /// Begins to receive the next bytes, `len` of them where that is known.
    pub fn append(&self, len: Option<u64>) -> Result<Upload, Error> {
        let file = self.file.clone().ok_or(Error::Truncated)?;
        let mut share = Share::Common(Arc::clone(self.claim.reservation()));
        let end = self.offset.saturating_add(len.unwrap_or(0));
        share.grow(end)?;
        let (dir, name) = (self.writer.temp_dir(), self.id().to_string());
        let file = TempFile::claimed(dir, file, name, Arc::clone(&self.claim));
        Ok(Upload::resume(
            Arc::clone(&self.writer),
            file,
            self.offset,
            end,
            share,
        ))
    }

    /// Whether the disk has space for `len` bytes more, which are announced.
    pub async fn has_space(&self, len: u64) -> Result<(), Error> {
        self.on_disk(move |writer, _| writer.take_space(len).map(drop))
            .await
    }

    /// Looks how many bytes have been received, once an [`Upload`] has been paused.
    pub fn appended(&mut self) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let stat = retry_on_intr(|| rustix::fs::fstat(&**file));
        let stat = stat.map_err(Error::errno_while("look at an upload"))?;
        self.offset = Meta::of(&stat).len;
        self.claim.entry().progress().touched = Touched::now();
        Ok(())
    }

    /// Keeps how long it will be.
    pub async fn set_length(&mut self, length: u64) -> Result<(), Error> {
        self.claim.entry().progress().length = Some(length);
        self.keep_record().await
    }

    /// Puts what has been received on the disk, where that is promised: only then may its length be answered.
    pub async fn secure(&mut self) -> Result<(), Error> {
        let Some(file) = self.file.clone() else {
            return Ok(());
        };
        let (offset, synced) = (self.offset, self.claim.entry().progress().synced);
        if self.writer.durability() != Durability::Disk || synced == Some(offset) {
            return Ok(());
        }
        let sync = move |writer: &Writer, _: &Claim| {
            let synced = writer.sync(&*file);
            synced.map_err(Error::unsynced("sync an upload"))
        };
        if let Err(error) = self.on_disk(sync).await {
            // The kernel has forgotten what it could not write: the next sync would prove nothing.
            self.remove().await?;
            return Err(error);
        }
        self.claim.entry().progress().synced = Some(offset);
        let kept = self.keep_record().await;
        match &kept {
            Ok(()) => {}
            // Nothing of the record came so far as to be synced: it can be tried again.
            Err(Error::NoSpace { .. } | Error::ReadOnly | Error::Exhausted { .. }) => {
                self.claim.entry().progress().synced = synced;
            }
            Err(_) => self.remove().await?,
        }
        kept
    }

    /// Takes back what was received from `offset` on.
    pub async fn take_back(&mut self, offset: u64) -> Result<(), Error> {
        let Some(file) = self.file.clone() else {
            return Ok(());
        };
        let cut = move |_: &Writer, _: &Claim| {
            retry_on_intr(|| rustix::fs::ftruncate(&*file, offset))
                .map_err(Error::errno_while("cut an upload"))
        };
        self.on_disk(cut).await?;
        self.offset = offset;
        self.claim.has_received(offset);
        Ok(())
    }

    /// The digests of what was received from `offset` on.
    pub async fn digests(
        &self,
        offset: u64,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        let (file, end) = (self.file.clone().ok_or(Error::Truncated)?, self.offset);
        let hash = move || hash_file(&*file, offset..end, Hasher::new(wanted)).map(Hasher::finish);
        compute.run(hash).await
    }

    /// Removes it.
    pub async fn remove(&mut self) -> Result<(), Error> {
        (self.file, self.is_known) = (None, true);
        let (writer, registry) = (Arc::clone(&self.writer), Arc::clone(&self.registry));
        let claim = Arc::clone(&self.claim);
        let remove = move || {
            registry.remove(&claim, writer.temp_dir().uploads());
            Ok(())
        };
        self.writer.disk().spawn(remove).await
    }

    async fn keep_record(&self) -> Result<(), Error> {
        self.on_disk(keep_record).await
    }

    /// Has a disk thread do `job`, which holds the claim, also when nothing waits for it any more.
    async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Writer, &Claim) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (writer, claim) = (Arc::clone(&self.writer), Arc::clone(&self.claim));
        let job = move || job(&writer, &claim);
        self.writer.disk().spawn(job).await
    }
}

impl Drop for Resumable {
    fn drop(&mut self) {
        if self.is_known {
            return;
        }
        let (writer, registry) = (Arc::clone(&self.writer), Arc::clone(&self.registry));
        let claim = Arc::clone(&self.claim);
        let remove = move || registry.remove(&claim, writer.temp_dir().uploads());
        self.writer.disk().spawn_detached(remove);
    }
}
