//! Resumable uploads: a value that is received in several requests, and published then as every other.
//!
//! The received bytes lie in `.data-server/uploads`, under a name that cannot be guessed, and are still there after a
//! restart. A [`Resumable`] is the claim of one request on one upload. Its [`FileUpload`] appends to the file; to be
//! published, it goes to the publisher, which renames the file. The length of the file alone says how much has been
//! received.
//!
//! Promises that an offset that is answered stays: it survives the death of the process, and with `Durability::Disk`
//! the loss of power, after [`Resumable::secure`].

mod record;
mod registry;

use std::sync::Arc;

use super::bounds::{Account, Staging};
use super::temp_file::TempFile;
use super::upload::FileUpload;
use super::upload_claim::{Claim, Progress, Touched, UploadEntry, UploadId};
use super::upload_room::UploadRoom;
use super::value_file::ValueFile;
use super::write_context::{Durability, WriteContext};
use crate::transfer::{
    BlockingPool, NoPlace, QuotaReservation, ReservationHandle, Uploader, hash_file,
};
use crate::value::{Digests, Error, Hasher, Key, Wanted};
use record::{create, cut, keep_record, open, record, remove_files};

pub use record::{FILES, Field, Record, unlink};
pub use registry::Registry;

/// The claim on a resumable upload.
#[derive(Debug)]
pub struct Resumable {
    writer: Arc<WriteContext>,
    registry: Arc<Registry>,
    claim: Arc<Claim>,
    /// `None` when it has been published.
    file: Option<Arc<ValueFile>>,
    offset: u64,
    /// Whether a client may know of it: else it is removed when the claim is given up.
    is_known: bool,
    /// With bounds: what makes room for it.
    pub room: Option<Box<UploadRoom>>,
}

impl Resumable {
    /// What counts for its bytes in the bounds of `account`.
    pub fn staging(&self, account: &Arc<Account>) -> Arc<Staging> {
        self.claim.entry.staging(account)
    }

    /// Its identifier, for the client. It stays from now on.
    pub fn announce(&mut self) -> UploadId {
        self.is_known = true;
        self.claim.entry.id
    }

    /// The key of the value.
    pub fn key(&self) -> &Key<'static> {
        &self.claim.entry.key
    }

    /// The fields that are kept with it.
    pub async fn fields(&self) -> Result<Vec<Field>, Error> {
        let record = self.on_disk(record).await?;
        Ok(record.fields)
    }

    /// How long it will be, where that is known.
    pub fn length(&self) -> Option<u64> {
        self.claim.entry.progress().length
    }

    /// The number of bytes received when it was claimed, or when [`Resumable::appended`] was called last.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// True once it has been published.
    pub fn is_complete(&self) -> bool {
        self.claim.entry.progress().is_complete
    }

    /// Waits until another request wants the claim, which has to outlive the future.
    pub fn is_wanted(&self) -> impl Future<Output = ()> + use<> {
        let mut waiting = self.claim.entry.waiting.subscribe();
        async move { drop(waiting.wait_for(|&waiting| waiting > 0).await) }
    }

    /// Begins to receive the next bytes, `len` of them where that is known.
    pub fn append(&self, len: Option<u64>) -> Result<FileUpload, Error> {
        let file = self.file.clone().ok_or(Error::Truncated)?;
        let mut share = ReservationHandle::Common(Arc::clone(&self.claim.entry.reservation));
        let end = self.offset.saturating_add(len.unwrap_or(0));
        self.room
            .as_ref()
            .map_or(Ok(()), |it| it.staging.may_grow(end))?;
        share.grow(end)?;
        let claim = Arc::clone(&self.claim);
        let file = TempFile::claimed(&self.writer.temp_dir, file, claim);
        let writer = Arc::clone(&self.writer);
        let room = self.room.clone();
        Ok(FileUpload::resume(
            writer,
            file,
            self.offset,
            end,
            share,
            room,
        ))
    }

    /// Fails unless the disk has space for `len` bytes more, or can get it by evictions.
    pub async fn may_append(&self, len: u64) -> Result<(), Error> {
        let take = move |writer: &WriteContext, _: &Claim| writer.may_take(len);
        self.on_disk(take).await
    }

    /// Takes the offset from the file, after an [`FileUpload`] was paused.
    pub fn appended(&mut self) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        self.offset = record::length(&**file)?;
        self.claim.entry.progress().touched = Touched::now();
        Ok(())
    }

    /// Keeps how long it will be.
    pub async fn set_length(&mut self, length: u64) -> Result<(), Error> {
        self.claim.entry.progress().length = Some(length);
        self.on_disk(keep_record).await
    }

    /// Puts what has been received on the disk, where that is promised: only then may its length be answered.
    pub async fn secure(&mut self) -> Result<(), Error> {
        let Some(file) = self.file.clone() else {
            return Ok(());
        };
        let (offset, synced) = (self.offset, self.claim.entry.progress().synced);
        if self.writer.durability != Durability::Disk || synced == Some(offset) {
            return Ok(());
        }
        let sync = move |writer: &WriteContext, _: &Claim| {
            let synced = writer.sync(&*file);
            synced.map_err(Error::unsynced("sync an upload"))
        };
        if let Err(error) = self.on_disk(sync).await {
            // The kernel has forgotten what it could not write: the next sync would prove nothing.
            self.remove().await?;
            return Err(error);
        }
        self.claim.entry.progress().synced = Some(offset);
        let kept = self.on_disk(keep_record).await;
        match &kept {
            Ok(()) => {}
            // Nothing of the record came so far as to be synced: it can be tried again.
            Err(Error::NoSpace { .. } | Error::ReadOnly | Error::Exhausted { .. }) => {
                self.claim.entry.progress().synced = synced;
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
        self.on_disk(move |_, _| cut(&*file, offset)).await?;
        self.offset = offset;
        self.claim.entry.progress().received = offset;
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
        compute.spawn(hash).await
    }

    /// Removes it.
    pub async fn remove(&mut self) -> Result<(), Error> {
        (self.file, self.is_known) = (None, true);
        self.removal().await
    }

    /// Begins to remove it.
    fn removal(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        let registry = Arc::clone(&self.registry);
        self.on_disk(move |writer, claim| {
            registry.remove(claim, &writer.temp_dir.uploads);
            Ok(())
        })
    }

    /// Has a disk thread do `job`, which holds the claim, also when nothing waits for it any more.
    fn on_disk<T, F>(&self, job: F) -> impl Future<Output = Result<T, Error>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&WriteContext, &Claim) -> Result<T, Error> + Send + 'static,
    {
        let (writer, claim) = (Arc::clone(&self.writer), Arc::clone(&self.claim));
        let job = move || job(&writer, &claim);
        self.writer.dir().disk.spawn(job)
    }
}

impl Drop for Resumable {
    fn drop(&mut self) {
        if !self.is_known {
            drop(self.removal());
        }
    }
}

impl Resumable {
    /// Makes an upload for the value of `key`, of this `length` where it is known, that counts for `uploader`; `fields`
    /// are kept with it until it is published. It goes with the claim, unless its client is to be told of it.
    pub async fn begin(
        writer: &Arc<WriteContext>,
        registry: &Arc<Registry>,
        key: Key<'static>,
        length: Option<u64>,
        fields: Vec<Field>,
        uploader: Uploader,
    ) -> Result<Result<Self, NoPlace>, Error> {
        let reservation = match QuotaReservation::of_unfinished(&writer.quota, uploader) {
            Ok(reservation) => reservation,
            Err(full) => return Ok(Err(full)),
        };
        let is_synced = writer.durability == Durability::Disk;
        let progress = Progress {
            length,
            synced: is_synced.then_some(0),
            received: 0,
            is_ahead: false,
            touched: Touched::now(),
            is_complete: false,
        };
        let id = UploadId::random()?;
        let entry = UploadEntry::new(id, key, progress, reservation);
        let claim = entry.try_claim().map(Arc::new).ok_or(Error::Truncated)?;
        let mut upload = Self {
            writer: Arc::clone(writer),
            registry: Arc::clone(registry),
            claim,
            file: None,
            offset: 0,
            is_known: false,
            room: None,
        };
        // The job has the upload: where no request waits for it any more, it is dropped with the job's result, and
        // removed.
        let job = move || {
            let forgotten = match upload.registry.add(entry) {
                Ok(forgotten) => forgotten,
                Err(full) => return Ok(Err(full)),
            };
            for id in forgotten {
                remove_files(&upload.writer.temp_dir.uploads, id);
            }
            upload.create(fields).map(|()| Ok(upload))
        };
        writer.dir().disk.spawn(job).await
    }

    /// Makes its files, or leaves none. Blocks.
    fn create(&mut self, fields: Vec<Field>) -> Result<(), Error> {
        let created = create(&self.writer, &self.claim, fields);
        if created.is_err() {
            let uploads = &self.writer.temp_dir.uploads;
            self.registry.remove(&self.claim, uploads);
            self.is_known = true;
        }
        self.file = Some(Arc::new(created?));
        Ok(())
    }

    /// Claims the upload `id`, which ends what another request does with it; `None` where there is none.
    pub async fn claim(
        writer: &Arc<WriteContext>,
        registry: &Arc<Registry>,
        id: UploadId,
    ) -> Result<Option<Self>, Error> {
        let Some(entry) = registry.get(id) else {
            return Ok(None);
        };
        let Some(claim) = entry.claim().await.map(Arc::new) else {
            return Ok(None);
        };
        let mut claimed = Self {
            writer: Arc::clone(writer),
            registry: Arc::clone(registry),
            claim,
            file: None,
            offset: entry.progress().length.unwrap_or(0),
            is_known: true,
            room: None,
        };
        entry.progress().touched = Touched::now();
        if entry.progress().is_complete {
            return Ok(Some(claimed));
        }
        let Some((file, offset)) = claimed.on_disk(open).await? else {
            claimed.remove().await?;
            return Ok(None);
        };
        (claimed.file, claimed.offset) = (Some(Arc::new(file)), offset);
        Ok(Some(claimed))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::super::directory::Directory;
    use super::super::directory::open::Options;
    use crate::transfer::Uploader;
    use crate::value::Key;

    #[test]
    fn an_upload_whose_request_ends_while_it_is_made_is_removed() {
        let dir = TempDir::new().unwrap();
        let options = Options::default();
        let directory = Directory::open(dir.path(), &options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            for _ in 0..20 {
                let mut beginning = Box::pin(directory.begin_resumable(
                    Key::new("k").unwrap(),
                    None,
                    Vec::new(),
                    Uploader("a client".into()),
                ));
                poll_fn(|cx| match beginning.as_mut().poll(cx) {
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    _ => Poll::Ready(()),
                })
                .await;
            }
        });
        let uploads = dir.path().join(".data-server/uploads");
        let left = || uploads.read_dir().unwrap().count() + directory.unfinished_uploads();
        let deadline = Instant::now() + Duration::from_secs(30);
        while left() > 0 {
            assert!(Instant::now() < deadline, "{} are left", left());
            std::thread::yield_now();
        }
    }
}
