//! A value on its way in: received in memory, or in a temporary file that the disk threads write, and then published whole.
//!
//! A value stays in memory up to [`SMALL`] bytes: it touches no file before it is published. Of a larger one, at most two
//! chunks are in memory: one being filled while the other is written. An [`FileUpload`] that is dropped leaves nothing behind.
//! Its only way out is [`FileUpload::finish`], to the publisher, as a [`NewValue`].

mod file_writer;

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::attributes::Attributes;
use super::directory_fd::Folder;
use super::temp_file::{Target, TempFile};
use super::write_context::{Durability, WriteContext};
use crate::transfer::{
    BlockingPool, BodySource, CHUNK, Receiver, Reservation, ReservationHandle, SMALL, Uploader,
    is_large, read,
};
use crate::value::{Digests, Error, Key, Version, Wanted};
use file_writer::FileWriter;

/// A value being received.
pub struct FileUpload {
    writer: Arc<WriteContext>,
    destination: Destination,
    /// The bytes that have been received and are not being written.
    received: Receiver,
    /// The attributes to keep beside the value: the fields have at most [`MAX_FIELDS`](super::MAX_FIELDS) bytes.
    pub attributes: Attributes,
}

/// Where the bytes of an upload go.
enum Destination {
    /// They stay in the buffer.
    Memory,
    /// Each full buffer goes to a file.
    TempFile(FileWriter),
}

impl Destination {
    /// Bytes that have gone to the file.
    fn len(&self) -> u64 {
        match self {
            Self::Memory => 0,
            Self::TempFile(file) => file.len(),
        }
    }
}

impl FileUpload {
    /// Begins an upload of `len` bytes, where that is known, for `key`: so much of the quota is its own before any arrives. One that the
    /// disk has no space for, or that cannot get to its folder, is refused.
    pub async fn begin(
        writer: Arc<WriteContext>,
        key: &Key<'_>,
        len: Option<u64>,
        uploader: Option<Uploader>,
    ) -> Result<Self, Error> {
        let mut reservation = Reservation::new(&writer.quota, uploader);
        reservation.grow(len.unwrap_or(0))?;
        let destination = match len {
            Some(len) if len > SMALL => {
                let key = Some(key.to_owned());
                Destination::TempFile(FileWriter::create(&writer, len, key).await?)
            }
            _ => Destination::Memory,
        };
        Ok(Self {
            writer,
            destination,
            received: Receiver::new(ReservationHandle::Own(reservation)),
            attributes: Attributes::default(),
        })
    }

    /// Goes on with `file`, which has `len` bytes already and is to have those before `end` soon.
    pub fn resume(
        writer: Arc<WriteContext>,
        file: TempFile,
        len: u64,
        end: u64,
        reservation: ReservationHandle,
    ) -> Self {
        let file = FileWriter::resume(Arc::clone(&writer), file, len, end);
        Self {
            writer,
            destination: Destination::TempFile(file),
            received: Receiver::new(reservation),
            attributes: Attributes::default(),
        }
    }

    /// Writes what has been received to the file of a resumable upload.
    pub async fn pause(mut self) -> Result<(), Error> {
        if self.received.len() > 0 {
            self.flush().await?;
        }
        match &mut self.destination {
            Destination::Memory => Ok(()),
            Destination::TempFile(file) => file.written().await,
        }
    }

    /// Has the digests that are `wanted` computed from the bytes to come, on the `compute` threads.
    pub fn hash(&mut self, wanted: Wanted, compute: BlockingPool) {
        self.received.hash(wanted, compute);
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed.
    ///
    /// Costs little for those that [`FileUpload::hash`] has had computed on the way; for others the value is read again.
    pub async fn digests(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        let gone = match &mut self.destination {
            Destination::TempFile(file) if !self.received.covers(wanted) => {
                file.written().await?;
                Some((Arc::clone(file.file()), file.len()))
            }
            _ => None,
        };
        self.received.digests(wanted, compute, gone).await
    }

    /// Takes the next bytes of the value, waiting while the disk is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        self.received.reserve(self.destination.len(), data.len())?;
        while !data.is_empty() {
            if self.received.fill(&mut data, CHUNK, None) {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Takes all that `source` has: through the kernel alone where the upload has a file and there is a pipe. Nothing is
    /// hashed on that way.
    ///
    /// Nothing may have been pushed before, and the length must have been known from the beginning.
    pub async fn receive(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        if let Destination::TempFile(file) = &mut self.destination
            && let Some(pipe) = self.writer.pipes.take()
        {
            return file.receive(pipe, source).await;
        }
        while source.remaining() > 0 {
            let data = read(source).await?;
            self.push(data).await?;
        }
        Ok(())
    }

    /// All bytes are in: gives them up for publishing, on the disk already where that is promised. What a small value does not need is
    /// boxed, as its future is copied once where it is begun.
    pub fn finish(mut self) -> impl Future<Output = Result<NewValue, Error>> {
        let is_in_memory = matches!(self.destination, Destination::Memory);
        let stays_there = is_in_memory && !is_large(self.received.len() as u64);
        async move {
            let file = if stays_there {
                None
            } else {
                Some(Box::pin(self.written()).await?)
            };
            let (runs, share) = self.received.into_parts();
            let details = |len| Details {
                len,
                attributes: self.attributes,
                _reservation: share,
            };
            let value = match file {
                None => {
                    let len = runs.iter().map(Bytes::len).sum::<usize>();
                    NewValue::Memory(runs, details(len as u64))
                }
                Some((file, len)) => NewValue::TempFile(file, details(len)),
            };
            if self.writer.durability == Durability::Disk && !value.is_journaled(&self.writer) {
                return Box::pin(value.secured(self.writer)).await;
            }
            Ok(value)
        }
    }

    /// The file, which has all of it, and its length in bytes.
    async fn written(&mut self) -> Result<(TempFile, u64), Error> {
        if self.received.len() > 0 {
            self.flush().await?;
        }
        match std::mem::replace(&mut self.destination, Destination::Memory) {
            Destination::Memory => Err(Error::Truncated),
            Destination::TempFile(file) => {
                let len = file.len();
                Ok((file.finish().await?, len))
            }
        }
    }

    /// Starts to write the buffer, once what came before it is written.
    async fn flush(&mut self) -> Result<(), Error> {
        if let Destination::Memory = self.destination {
            let file = FileWriter::create(&self.writer, 0, None).await?;
            self.destination = Destination::TempFile(file);
        }
        let Destination::TempFile(file) = &mut self.destination else {
            return Err(Error::Truncated);
        };
        let (runs, len) = self.received.hand_on().await?;
        file.write(runs, len).await
    }
}

/// A value that waits to be published.
#[derive(Debug)]
pub enum NewValue {
    /// A small value. The publisher writes its file.
    Memory(Vec<Bytes>, Details),
    /// In a file that has no version yet.
    TempFile(TempFile, Details),
    /// In a file that has its version.
    Sealed(SealedValue),
}

/// The length and the attributes that go with the bytes of a value.
#[derive(Debug)]
pub struct Details {
    pub len: u64,
    pub attributes: Attributes,
    /// Held until the value is published or given up.
    _reservation: ReservationHandle,
}

/// A value in a file that has its version, and is on the disk where that is promised.
#[derive(Debug)]
pub struct SealedValue {
    file: TempFile,
    version: Version,
    details: Details,
    /// The bytes of a small value that go to the journal: then its file is not synced by itself.
    journaled: Option<Vec<Bytes>>,
}

impl NewValue {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(_, details) | Self::TempFile(_, details) => details.len,
            Self::Sealed(sealed) => sealed.details.len,
        }
    }

    /// The value, on the disk already: the syncs of concurrent writers then run, and are committed, together.
    async fn secured(self, writer: Arc<WriteContext>) -> Result<Self, Error> {
        let disk = writer.dir().disk.clone();
        let job = move || {
            let _taking = match &self {
                Self::Memory(_, details) => Some(writer.take_space(details.len)?),
                _ => None,
            };
            let sealed = self.seal(&writer, Target::Absent)?;
            writer.sync_value(&sealed.file)?;
            Ok(Self::Sealed(sealed))
        };
        disk.spawn(job).await
    }

    /// True if its bytes go to the journal.
    pub fn is_journaled(&self, writer: &WriteContext) -> bool {
        match self {
            Self::Memory(..) => writer.is_journaled(),
            Self::TempFile(..) => false,
            Self::Sealed(sealed) => sealed.journaled.is_some(),
        }
    }

    /// The attributes and bytes that the journal is to hold, where they go there.
    pub fn in_memory(&self) -> Option<(&Attributes, &[Bytes])> {
        match self {
            Self::Memory(runs, details) => Some((&details.attributes, runs)),
            Self::Sealed(sealed) => {
                let runs = sealed.journaled.as_deref()?;
                Some((&sealed.details.attributes, runs))
            }
            Self::TempFile(..) => None,
        }
    }

    /// The version that it is to be published with, in place of `current`. Blocks.
    pub fn version_after(
        &mut self,
        writer: &WriteContext,
        current: Option<Version>,
    ) -> Result<Version, Error> {
        let Self::Sealed(sealed) = self else {
            return writer.next_version(current);
        };
        if let Some(current) = current {
            sealed.advance(writer, current)?;
        }
        Ok(sealed.version)
    }

    /// The value in a file that has its version; a small one is written now, for this `target`. Blocks.
    pub fn seal(self, writer: &WriteContext, target: Target) -> Result<SealedValue, Error> {
        match self {
            Self::Sealed(sealed) => Ok(sealed),
            value => {
                let version = writer.next_version(None)?;
                value.seal_as(writer, target, version)
            }
        }
    }

    /// As [`Self::seal`], with this version, unless it has one.
    pub fn seal_as(
        self,
        writer: &WriteContext,
        target: Target,
        version: Version,
    ) -> Result<SealedValue, Error> {
        let (file, details, journaled) = match self {
            Self::Memory(runs, details) => {
                let file = TempFile::create_small(&writer.temp_dir, &runs, target)?;
                (file, details, writer.is_journaled().then_some(runs))
            }
            Self::TempFile(file, details) => (file, details, None),
            Self::Sealed(sealed) => return Ok(sealed),
        };
        file.seal(&details.attributes, version)?;
        Ok(SealedValue {
            file,
            version,
            details,
            journaled,
        })
    }
}

#[cfg(test)]
impl NewValue {
    /// A value without bytes that says that it has `len`.
    pub fn of_length(len: u64) -> Self {
        use crate::transfer::{Reservation, StagingBounds, StagingQuota};
        let quota = StagingQuota::new(StagingBounds::default());
        let reservation = Reservation::new(&quota, None);
        let details = Details {
            len,
            attributes: Attributes::default(),
            _reservation: ReservationHandle::Own(reservation),
        };
        Self::Memory(Vec::new(), details)
    }
}

impl SealedValue {
    /// Gives it a later version, unless it has one later than `current`: a date never goes back while it is not ahead of the clock. Blocks.
    pub fn advance(&mut self, writer: &WriteContext, current: Version) -> Result<(), Error> {
        if current < self.version {
            return Ok(());
        }
        self.version = writer.next_version(Some(current))?;
        self.file.seal(&self.details.attributes, self.version)?;
        self.sync(writer)
    }

    /// Has it on the disk, where that is promised and the journal does not do it.
    fn sync(&self, writer: &WriteContext) -> Result<(), Error> {
        if writer.durability == Durability::Disk && self.journaled.is_none() {
            writer.sync_value(&self.file)?;
        }
        Ok(())
    }

    /// Gives it the group and the rights that it is to have in `folder`, in place of a value of the mode `replaced`. Blocks.
    pub fn inherit(
        &self,
        writer: &WriteContext,
        folder: &Folder<'_>,
        replaced: Option<Mode>,
    ) -> Result<(), Error> {
        if self.file.inherit(folder, replaced)? {
            self.sync(writer)?;
        }
        Ok(())
    }

    /// Gives it the name `to` in `folder`; `EXIST` when something has it.
    pub fn link(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.link(folder, to)
    }

    /// Gives it the name `to` in `folder` in place of the file that has it.
    pub fn replace(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.replace(folder, to, self.journaled.is_some())
    }
}
