//! A value on its way in: received in memory, or in a temporary file that the disk threads write, and then published whole.
//!
//! A value stays in memory up to [`SMALL`] bytes: it touches no file before it is published. Of a larger one, at most two
//! chunks are in memory: one being filled while the other is written. An [`Upload`] that is dropped leaves nothing behind.
//! Its only way out is [`Upload::finish`], to the publisher.

use std::sync::Arc;

use bytes::Bytes;

use super::attributes::Attributes;
use super::blocking_pool::BlockingPool;
use super::body_source::{BodySource, read};
use super::digest::{Digests, Wanted};
use super::error::Error;
use super::limits::{CHUNK, SMALL};
use super::staging_quota::{Reservation, Share, Uploader};
use super::temp_file::TempFile;
use super::write_buffer::WriteBuffer;
use super::writer::Writer;

mod file_writer;
pub(super) mod hashing;
mod new_value;

use file_writer::FileWriter;
use hashing::Hashing;
pub(super) use hashing::hash_file;
use new_value::Details;
pub(super) use new_value::{NewValue, SealedValue};

/// A value being received.
pub struct Upload {
    writer: Arc<Writer>,
    destination: Destination,
    /// What has been received and is not being written.
    buffer: WriteBuffer,
    hashing: Option<Hashing>,
    attributes: Attributes,
    reservation: Share,
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

impl Upload {
    /// Begins an upload of `len` bytes, where that is known: so much of the quota is its own before any arrives. One that the
    /// disk has no space for is refused.
    pub(super) async fn begin(
        writer: Arc<Writer>,
        len: Option<u64>,
        uploader: Option<Uploader>,
    ) -> Result<Self, Error> {
        let mut reservation = Reservation::new(writer.quota(), uploader);
        reservation.grow(len.unwrap_or(0))?;
        let destination = match len {
            Some(len) if len > SMALL => {
                Destination::TempFile(FileWriter::create(&writer, len).await?)
            }
            _ => Destination::Memory,
        };
        Ok(Self {
            writer,
            destination,
            buffer: WriteBuffer::default(),
            hashing: None,
            attributes: Attributes::default(),
            reservation: Share::Own(reservation),
        })
    }

    /// Goes on with `file`, which has `len` bytes already and is to have those before `end` soon.
    pub(super) fn resume(
        writer: Arc<Writer>,
        file: TempFile,
        len: u64,
        end: u64,
        reservation: Share,
    ) -> Self {
        let file = FileWriter::resume(Arc::clone(&writer), file, len, end);
        Self {
            writer,
            destination: Destination::TempFile(file),
            buffer: WriteBuffer::default(),
            hashing: None,
            attributes: Attributes::default(),
            reservation,
        }
    }

    /// Writes what has been received to the file of a resumable upload.
    pub async fn pause(mut self) -> Result<(), Error> {
        if self.buffer.len() > 0 {
            self.flush().await?;
        }
        match &mut self.destination {
            Destination::Memory => Ok(()),
            Destination::TempFile(file) => file.written().await,
        }
    }

    /// Keeps `media_type` beside the value.
    pub fn set_media_type(&mut self, media_type: &str) {
        self.attributes.media_type = Some(media_type.into());
    }

    /// Keeps `fields`, at most [`MAX_FIELDS`](super::MAX_FIELDS) bytes, beside the value.
    pub fn set_fields(&mut self, fields: Box<[u8]>) {
        self.attributes.fields = Some(fields);
    }

    /// Has the digests that are `wanted` computed from the bytes to come, on the `compute` threads.
    pub fn hash(&mut self, wanted: Wanted, compute: BlockingPool) {
        self.hashing = Some(Hashing::new(wanted, compute));
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed. They are kept beside it.
    ///
    /// Costs little for those that [`Upload::hash`] has had computed on the way; for others the value is read again.
    pub async fn digests(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        let hashing = match self.hashing.take() {
            Some(hashing) if hashing.covers(wanted) => hashing,
            _ => self.hash_written(wanted, compute).await?,
        };
        let rest = self.buffer.share();
        let digests = hashing.next(rest).await?.finish().await?;
        self.attributes.digests = Some(Box::new(digests));
        Ok(digests)
    }

    /// Starts over with what has been written to the file, if there is one.
    async fn hash_written(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Hashing, Error> {
        let compute = compute.clone();
        let Destination::TempFile(writer) = &mut self.destination else {
            return Ok(Hashing::new(wanted, compute));
        };
        writer.written().await?;
        let (file, len) = (Arc::clone(writer.file()), writer.len());
        let read = move |hasher| hash_file(&*file, 0..len, hasher);
        Ok(Hashing::after(wanted, compute, read))
    }

    /// Takes the next bytes of the value, waiting while the disk is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        let received = self.destination.len() + (self.buffer.len() + data.len()) as u64;
        self.reservation.grow(received)?;
        while !data.is_empty() {
            let room = CHUNK - self.buffer.len();
            self.buffer.push(data.split_to(room.min(data.len())));
            if self.buffer.len() == CHUNK {
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
            && let Some(pipe) = self.writer.pipes().take()
        {
            return file.receive(pipe, source).await;
        }
        while source.left() > 0 {
            let data = read(source).await?;
            self.push(data).await?;
        }
        Ok(())
    }

    /// All bytes are in: gives them up for publishing, on the disk already where that is promised.
    pub(super) async fn finish(mut self) -> Result<NewValue, Error> {
        let len = self.destination.len() + self.buffer.len() as u64;
        let is_in_memory = matches!(self.destination, Destination::Memory);
        if self.buffer.len() > 0 && !(is_in_memory && len <= SMALL) {
            self.flush().await?;
        }
        let details = Details {
            len,
            attributes: self.attributes,
            _reservation: self.reservation,
        };
        let value = match self.destination {
            Destination::Memory => NewValue::Memory(self.buffer.take(), details),
            Destination::TempFile(file) => NewValue::TempFile(file.finish().await?, details),
        };
        value.secured(&self.writer).await
    }

    /// Starts to write the buffer, once what came before it is written.
    async fn flush(&mut self) -> Result<(), Error> {
        if let Destination::Memory = self.destination {
            let file = FileWriter::create(&self.writer, 0).await?;
            self.destination = Destination::TempFile(file);
        }
        let Destination::TempFile(file) = &mut self.destination else {
            return Err(Error::Truncated);
        };
        let len = self.buffer.len() as u64;
        let runs = self.buffer.take();
        if let Some(hashing) = self.hashing.take() {
            self.hashing = Some(hashing.next(runs.clone()).await?);
        }
        file.write(runs, len).await
    }
}
