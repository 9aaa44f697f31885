//! A value on its way in: received in memory, or in a temporary file that the disk threads write, and then published
//! whole.
//!
//! A value stays in memory unless it [`is_large`]: it touches no file before it is published. Of a larger one, at most
//! two chunks are in memory: one being filled while the other is written. The file of a value of one chunk is made when
//! all of it is there, by the job that writes it. An [`FileUpload`] that is dropped leaves nothing behind. Its only way
//! out is [`FileUpload::into_value`], to the publisher.

mod copy_bytes;
mod file_writer;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::attributes::Attributes;
use super::bounds::size_of;
use super::new_value::NewValue;
use super::object::{Descriptor, Object};
use super::temp_file::TempFile;
use super::upload_room::UploadRoom;
use super::write_context::WriteContext;
use crate::transfer::{
    BlockingPool, BodySource, CHUNK, QuotaReservation, ReservationHandle, UploadReceiver, Uploader,
    is_large, read, read_at,
};
use crate::value::{Digests, Error, Key, Wanted};
use file_writer::FileWriter;

/// A value being received.
pub struct FileUpload {
    writer: Arc<WriteContext>,
    /// The file that each full buffer goes to; without it, all bytes stay in the buffer.
    file: Option<Box<FileWriter>>,
    /// The bytes that have been received and are not being written.
    received: UploadReceiver,
    /// With bounds: what makes room for a file that is not there yet.
    room: Option<Box<UploadRoom>>,
    /// The attributes to keep beside the value: the fields have at most [`MAX_FIELDS`](super::MAX_FIELDS) bytes.
    pub attributes: Attributes,
}

impl FileUpload {
    /// An upload of `len` bytes, where that is known: so much of the quota is its own before any arrives. Room is made
    /// with `room`, as the bytes arrive.
    pub fn new(
        writer: Arc<WriteContext>,
        len: Option<u64>,
        uploader: Option<Uploader>,
        room: Option<Box<UploadRoom>>,
    ) -> Result<Self, Error> {
        let mut reservation = QuotaReservation::new(&writer.quota, uploader);
        reservation.grow(len.unwrap_or(0))?;
        Ok(Self {
            writer,
            file: None,
            room,
            received: UploadReceiver::new(ReservationHandle::Own(reservation)),
            attributes: Attributes::default(),
        })
    }

    /// Makes the file of a large value of `key`, of `len` bytes. One that the disk can have no space for, or that
    /// cannot get to its folder, is refused.
    pub async fn create_file(&mut self, key: &Key<'_>, len: u64) -> Result<(), Error> {
        let key = Some(key.clone().into_owned());
        self.create(len, key, (Vec::new(), 0)).await
    }

    /// Makes the file, with its `first` bytes, for a value of which so many are `announced`.
    async fn create(
        &mut self,
        announced: u64,
        key: Option<Key<'static>>,
        first: (Vec<Bytes>, u64),
    ) -> Result<(), Error> {
        let room = self.room.take();
        let created = FileWriter::create(&self.writer, announced, key, room, first).await;
        // Where it is made, nothing may have been written yet.
        let file = created.or_else(|error| self.writer.note(Err(error)))?;
        self.file = Some(Box::new(file));
        Ok(())
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
            file: Some(Box::new(file)),
            room: None,
            received: UploadReceiver::new(reservation),
            attributes: Attributes::default(),
        }
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
                Box::pin(file.written()).await?;
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
                // Boxed, as what else a small value does not need: its future is copied once where it is begun.
                Box::pin(self.flush(0)).await?;
            }
        }
        Ok(())
    }

    /// Takes all that `source` has: through the kernel alone where that can be, the upload has a file and there is a
    /// pipe. Nothing is hashed on that way.
    ///
    /// Nothing may have been pushed before, and the length must have been known from the beginning.
    pub async fn receive(&mut self, source: &mut dyn BodySource) -> Result<(), Error> {
        if source.can_splice()
            && let Some(file) = &mut self.file
            && let Some(pipe) = self.writer.pipes.take()
        {
            return Box::pin(file.receive(pipe, source)).await;
        }
        while source.remaining() > 0 {
            let data = read(source).await?;
            self.push(data).await?;
        }
        Ok(())
    }

    /// Takes all bytes of `object`, which are many, as the value of `key`. Nothing may have been pushed before.
    pub async fn copy(&mut self, object: &Object, key: &Key<'_>) -> Result<(), Error> {
        if self.file.is_none() {
            self.create_file(key, object.meta.len).await?;
        }
        let file = self.file.as_mut().ok_or(Error::Truncated)?;
        file.copy(object).await
    }

    /// Adds these bytes of a file.
    pub async fn copy_range(&mut self, from: &Descriptor, range: Range<u64>) -> Result<(), Error> {
        let Some(file) = &mut self.file else {
            // It is short, and the file too.
            let (from, mut at) = (Arc::clone(from), range.start);
            let read = move || {
                let mut bytes = Vec::new();
                while at < range.end {
                    let left = usize::try_from(range.end - at).unwrap_or(CHUNK).min(CHUNK);
                    let mut piece = vec![0; left];
                    let read = read_at(&*from, at, &mut piece)?;
                    bytes.extend_from_slice(&piece[..read]);
                    at += read as u64;
                }
                Ok(Bytes::from(bytes))
            };
            let bytes = self.writer.dir().disk.spawn(read).await?;
            return self.push(bytes).await;
        };
        file.copy_range(from, range, false).await
    }

    /// True of a value that has no file, and needs none before it is published.
    pub fn is_small(&self) -> bool {
        self.file.is_none() && !is_large(self.received.buffer.len() as u64)
    }

    /// True of a small value that the journal is to hold.
    pub fn is_journaled(&self) -> bool {
        self.is_small() && self.writer.journal.is_used.load(Relaxed)
    }

    /// Writes all that has been received to the file, which is made if there is none.
    pub async fn write_out(&mut self) -> Result<(), Error> {
        self.flush(self.received.buffer.len() as u64).await?;
        match &mut self.file {
            Some(file) => file.written().await,
            None => Ok(()),
        }
    }

    /// All bytes are in, in its file unless it [`is_small`](Self::is_small): gives them up for publishing.
    pub fn into_value(self) -> NewValue {
        let (is_small, is_journaled) = (self.is_small(), self.is_journaled());
        let written = self.file.as_ref().map_or(0, |file| file.len);
        let (bytes, reservation) = self.received.into_parts();
        let held: usize = bytes.iter().map(Bytes::len).sum();
        NewValue {
            len: written + held as u64,
            attributes: self.attributes,
            small: is_small.then_some(bytes),
            is_journaled,
            staging: self.file.as_deref().and_then(FileWriter::staging),
            file: self.file.map(|file| file.file),
            sealed: None,
            reservation: Some(reservation),
        }
    }

    /// Starts to write what is in the buffer, once what came before it is written. A value that has no file yet, and of
    /// which so many bytes are `announced`, gets one.
    async fn flush(&mut self, announced: u64) -> Result<(), Error> {
        if self.received.buffer.len() == 0 {
            return Ok(());
        }
        let (runs, len) = self.received.hand_on().await?;
        if let Some(file) = &mut self.file {
            return file.write(runs, len).await;
        }
        let key = self.room.as_ref().map(|room| room.staging.key.to_string());
        let key = key.and_then(|key| Key::new(key).ok());
        self.create(announced, key, (runs, len)).await
    }
}

/// Puts `value` on the disk, where `room` makes room for it, if there is one: the syncs of concurrent writers then run,
/// and are committed, together.
pub async fn secured(
    mut value: NewValue,
    writer: &Arc<WriteContext>,
    mut room: Option<Box<UploadRoom>>,
) -> Result<NewValue, Error> {
    loop {
        let context = Arc::clone(writer);
        let job = move || {
            let secured = value.secure(&context);
            Ok((value, secured))
        };
        let secured;
        (value, secured) = writer.dir().disk.spawn(job).await?;
        match (secured, &mut room) {
            (Err(full @ Error::NoSpace(_)), Some(room)) => {
                if !room.make(size_of(value.len), 1).await {
                    return Err(full);
                }
            }
            (secured, _) => return secured.map(|()| value),
        }
    }
}
