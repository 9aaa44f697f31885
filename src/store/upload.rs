//! A value on its way in: received in memory, or in a temporary file that the disk threads write, and then published whole.
//!
//! A value stays in memory unless it [`is_large`]: it touches no file before it is published. Of a larger one, at most two
//! chunks are in memory: one being filled while the other is written. An [`FileUpload`] that is dropped leaves nothing behind.
//! Its only way out is [`FileUpload::finish`], to the publisher, as a [`NewValue`].

mod file_writer;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::attributes::Attributes;
use super::bounds::size_of;
use super::new_value::{NewValue, Place};
use super::object::Object;
use super::temp_file::TempFile;
use super::upload_room::UploadRoom;
use super::write_context::{Durability, WriteContext};
use crate::transfer::{
    BlockingPool, BodySource, CHUNK, Receiver, Reservation, ReservationHandle, Uploader, is_large,
    read,
};
use crate::value::{Digests, Error, Key, Wanted};
use file_writer::FileWriter;

/// A value being received.
pub struct FileUpload {
    writer: Arc<WriteContext>,
    /// The file that each full buffer goes to; without it, all bytes stay in the buffer.
    file: Option<FileWriter>,
    /// The bytes that have been received and are not being written.
    received: Receiver,
    /// With bounds: what makes room for a file that is not there yet.
    room: Option<Box<UploadRoom>>,
    /// The attributes to keep beside the value: the fields have at most [`MAX_FIELDS`](super::MAX_FIELDS) bytes.
    pub attributes: Attributes,
}

impl FileUpload {
    /// Begins an upload of `len` bytes, where that is known, for `key`: so much of the quota is its own before any arrives. One that the
    /// disk can have no space for, or that cannot get to its folder, is refused. Room is made with `room`, as the bytes arrive.
    pub async fn begin(
        writer: Arc<WriteContext>,
        key: &Key<'_>,
        len: Option<u64>,
        uploader: Option<Uploader>,
        mut room: Option<Box<UploadRoom>>,
    ) -> Result<Self, Error> {
        let mut reservation = Reservation::new(&writer.quota, uploader);
        reservation.grow(len.unwrap_or(0))?;
        let mut file = None;
        if let Some(len) = len.filter(|&len| is_large(len)) {
            let (key, room) = (Some(key.clone().into_owned()), room.take());
            file = Some(FileWriter::create(&writer, len, key, room).await?);
        }
        Ok(Self {
            writer,
            file,
            room,
            received: Receiver::new(ReservationHandle::Own(reservation)),
            attributes: Attributes::default(),
        })
    }

    /// Continues `file`, which has `len` bytes; the bytes before `end` are announced.
    pub fn resume(
        writer: Arc<WriteContext>,
        file: TempFile,
        len: u64,
        end: u64,
        reservation: ReservationHandle,
        room: Option<Box<UploadRoom>>,
    ) -> Self {
        let file = FileWriter::resume(Arc::clone(&writer), file, len, end, room);
        Self {
            writer,
            file: Some(file),
            room: None,
            received: Receiver::new(reservation),
            attributes: Attributes::default(),
        }
    }

    /// Writes what has been received to the file of a resumable upload.
    pub async fn pause(mut self) -> Result<(), Error> {
        self.written().await.map(drop)
    }

    /// Has the digests that are `wanted` computed from the bytes to come, on the `compute` threads.
    pub fn hash(&mut self, wanted: Wanted, compute: BlockingPool) {
        self.received.hash(wanted, compute);
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed.
    ///
    /// Digests that [`FileUpload::hash`] computed on the way cost little; for others the value is read again.
    pub async fn digests(
        &mut self,
        wanted: Wanted,
        compute: &BlockingPool,
    ) -> Result<Digests, Error> {
        let gone = match &mut self.file {
            Some(file) if !self.received.covers(wanted) => {
                file.written().await?;
                Some((Arc::clone(&file.file.file), file.len))
            }
            _ => None,
        };
        self.received.digests(wanted, compute, gone).await
    }

    /// Takes the next bytes of the value, waiting while the disk is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        let written = self.file.as_ref().map_or(0, |file| file.len);
        self.received.reserve(written, data.len())?;
        while !data.is_empty() {
            if self.received.fill(&mut data, CHUNK, None) {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Takes all that `source` has: through the kernel alone where that can be, the upload has a file and there is a pipe.
    /// Nothing is hashed on that way.
    ///
    /// Nothing may have been pushed before, and the length must have been known from the beginning.
    pub async fn receive(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        if source.can_splice()
            && let Some(file) = &mut self.file
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

    /// Takes all bytes of `object`, which are many. Nothing may have been pushed before.
    pub async fn copy(&mut self, object: &Object) -> Result<(), Error> {
        let file = self.file.as_mut().ok_or(Error::Truncated)?;
        file.copy(object).await
    }

    /// All bytes are in: gives them up for publishing, on the disk already where that is promised; where a small value has no space there,
    /// `room` makes some. What a small value does not need is boxed, as its future is copied once where it is begun.
    pub fn finish(
        mut self,
        room: impl FnOnce() -> Option<Box<UploadRoom>>,
    ) -> impl Future<Output = Result<NewValue, Error>> {
        let written = self.file.as_ref().map_or(0, |file| file.len);
        let len = written + self.received.buffer.len() as u64;
        let is_small = self.file.is_none() && !is_large(len);
        async move {
            let staging = self.file.as_ref().and_then(FileWriter::staging);
            let place = if is_small {
                Place::Memory
            } else {
                Place::File(Box::pin(self.written()).await?)
            };
            let (bytes, reservation) = self.received.into_parts();
            let value = NewValue {
                len,
                attributes: self.attributes,
                small: is_small.then_some(bytes),
                is_journaled: is_small && self.writer.journal.is_used.load(Relaxed),
                place,
                sealed: None,
                reservation: Some(reservation),
                staging,
            };
            if self.writer.durability == Durability::Disk && !value.is_journaled {
                return Box::pin(secured(value, self.writer, room)).await;
            }
            Ok(value)
        }
    }

    /// The file, which has all of the value.
    async fn written(&mut self) -> Result<TempFile, Error> {
        self.flush().await?;
        let file = self.file.take().ok_or(Error::Truncated)?;
        file.finish().await
    }

    /// Starts to write what is in the buffer, once what came before it is written.
    async fn flush(&mut self) -> Result<(), Error> {
        if self.received.buffer.len() == 0 {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let created = FileWriter::create(&self.writer, 0, None, self.room.take());
                none.insert(created.await?)
            }
        };
        let (runs, len) = self.received.hand_on().await?;
        file.write(runs, len).await
    }
}

/// Puts `value` on the disk, for which `room` may make room there.
async fn secured(
    value: NewValue,
    writer: Arc<WriteContext>,
    room: impl FnOnce() -> Option<Box<UploadRoom>>,
) -> Result<NewValue, Error> {
    let (mut value, mut full) = match value.secured(Arc::clone(&writer)).await? {
        Ok(secured) => return Ok(secured),
        Err(full) => full,
    };
    let Some(mut room) = room() else {
        return Err(full);
    };
    while room.make(size_of(value.len), 1).await {
        (value, full) = match value.secured(Arc::clone(&writer)).await? {
            Ok(secured) => return Ok(secured),
            Err(full) => full,
        };
    }
    Err(full)
}
