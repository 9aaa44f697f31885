//! A value on its way in: received in memory, or in a temporary file that the disk threads write, and then published whole.
//!
//! A value stays in memory up to [`SMALL`] bytes: it touches no file before it is published. Of a larger one, at most two
//! chunks are in memory: one being filled while the other is written. An [`Upload`] that is dropped leaves nothing behind.
//! Its only way out is [`Upload::finish`], to the publisher.

use std::sync::Arc;

use bytes::Bytes;

use super::attributes::Attributes;
use super::temp_file::TempFile;
use super::writer::Writer;
use crate::transfer::{
    BlockingPool, BodySource, CHUNK, Receiver, Reservation, SMALL, Share, Uploader, read,
};
use crate::value::{Digests, Error, Wanted};

mod file_writer;
mod new_value;

use file_writer::FileWriter;
use new_value::Details;
pub(super) use new_value::{NewValue, SealedValue};

/// A value being received.
pub struct Upload {
    writer: Arc<Writer>,
    destination: Destination,
    /// What has been received and is not being written.
    received: Receiver,
    attributes: Attributes,
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
            received: Receiver::new(Share::Own(reservation)),
            attributes: Attributes::default(),
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
        self.received.hash(wanted, compute);
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed. They are kept beside it.
    ///
    /// Costs little for those that [`Upload::hash`] has had computed on the way; for others the value is read again.
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
        let digests = self.received.digests(wanted, compute, gone).await?;
        self.attributes.digests = Some(Box::new(digests));
        Ok(digests)
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
        let len = self.destination.len() + self.received.len() as u64;
        let is_in_memory = matches!(self.destination, Destination::Memory);
        if self.received.len() > 0 && !(is_in_memory && len <= SMALL) {
            self.flush().await?;
        }
        let (runs, share) = self.received.into_parts();
        let details = Details {
            len,
            attributes: self.attributes,
            _reservation: share,
        };
        let value = match self.destination {
            Destination::Memory => NewValue::Memory(runs, details),
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
        let (runs, len) = self.received.hand_on().await?;
        file.write(runs, len).await
    }
}
