//! A value on its way to the store.
//!
//! A short one is gathered in memory and sent at once. A longer one of known length goes on to the store as it comes,
//! in one request or in parts. One whose length or condition is known only at its end is kept in a file without a name
//! until then: the disk threads write and read it, one piece at a time, and the system frees it when it is closed, also
//! when the process is killed. Dropped, an upload leaves what was there, and nothing else.

use std::fs::File;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use rustix::io::Errno;

use super::Gateway;
use super::multipart::{LONGEST, MultipartUpload, ONE_REQUEST};
use super::put::{Sending, Write, nonce, written};
use crate::s3::contract::WriteCondition;
use crate::s3::transport::answer::RequestError;
use crate::s3::transport::call::{Call, NONCE};
use crate::transfer::{
    BlockingPool, QuotaReservation, ReservationHandle, SMALL, UploadHead, UploadReceiver, read_at,
    write_at,
};
use crate::value::{Digests, Error, Key, Wanted};

/// A value being received. One that is dropped leaves what was there.
pub struct RemoteUpload {
    pub(super) gateway: Gateway,
    /// The write; without its condition, where that is not known yet.
    call: Call,
    destination: Destination,
    /// The bytes that have been received and are neither written nor, on their way to the store, hashed.
    received: UploadReceiver,
    digests: Digests,
}

/// The destination of an upload's bytes.
enum Destination {
    /// They stay in the buffer.
    Memory,
    /// To the store, in one request.
    Whole(Box<Sending>),
    /// To the store, in several.
    Parts(Box<MultipartUpload>),
    /// Each full buffer goes to a file.
    Spool(Spool),
    /// They are gone: a value is published once.
    Ended,
}

/// True where a value of this length is sent to the store piece by piece.
pub fn is_long(len: Option<u64>) -> bool {
    len.is_none_or(|len| len > SMALL)
}

impl Gateway {
    /// Begins to receive the value of `key` that `head` announces. Without the `condition` of its publishing it is kept
    /// until that is known.
    pub async fn upload(
        &self,
        key: &Key<'_>,
        head: UploadHead,
        condition: Option<&WriteCondition>,
    ) -> Result<RemoteUpload, Error> {
        let shared = &self.shared;
        let call = Call::object(Method::PUT, &self.client.place, key)?.keeping(&head.attributes)?;
        let reservation = QuotaReservation::new(&shared.quota, head.uploader);
        let mut upload = RemoteUpload {
            gateway: self.clone(),
            call: call.with(NONCE, &nonce()?)?,
            destination: Destination::Memory,
            received: UploadReceiver::new(ReservationHandle::Own(reservation)),
            digests: Digests {
                sha256: head.sha256,
                ..Digests::default()
            },
        };
        if head.len.is_some_and(|len| len > LONGEST) {
            return Err(Error::TooLarge);
        }
        match (head.len, condition) {
            (Some(len), Some(condition)) if len > SMALL => {
                upload.destination = upload.straight(len, condition).await?;
            }
            (Some(len), _) => upload.received.reserve(len, 0)?,
            (None, _) => {}
        }
        Ok(upload)
    }
}

impl RemoteUpload {
    /// The destination of `len` bytes that go on to the store as they come.
    async fn straight(&self, len: u64, condition: &WriteCondition) -> Result<Destination, Error> {
        if len > ONE_REQUEST {
            let parts = MultipartUpload::begin(&self.gateway.client, &self.call, len).await?;
            return Ok(Destination::Parts(Box::new(parts)));
        }
        let call = self.call.clone().under(condition)?;
        let sending = Sending::begin(&self.gateway.client, &call, len, self.digests.sha256)?;
        Ok(Destination::Whole(Box::new(sending)))
    }

    /// Has the digests that are `wanted` computed from the bytes to come.
    pub fn hash(&mut self, wanted: Wanted) {
        self.received
            .hash(wanted, self.gateway.shared.compute.clone());
    }

    /// Takes the next bytes of the value, waiting while the store is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        match &mut self.destination {
            Destination::Whole(sending) => {
                sending
                    .push(data.clone())
                    .await
                    .map_err(RequestError::error)?;
            }
            Destination::Parts(parts) => parts
                .push(data.clone())
                .await
                .map_err(RequestError::error)?,
            Destination::Spool(spool) => self.received.reserve(spool.len, data.len())?,
            _ => self.received.reserve(0, data.len())?,
        }
        let is_straight = matches!(
            self.destination,
            Destination::Whole(_) | Destination::Parts(_)
        );
        if is_straight && !self.received.is_hashing() {
            return Ok(());
        }
        while !data.is_empty() {
            // A run of its own would keep all that was received with it, of each of many uploads. Where nothing is
            // known of the length, a short value does not take the room of a long one.
            let most = match self.destination {
                Destination::Memory => 0,
                _ => PIECE,
            };
            if self.received.fill(&mut data, PIECE, Some(most)) {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Has the buffer hashed and, where it is all there is, starts to write it to a file.
    async fn flush(&mut self) -> Result<(), Error> {
        if let Destination::Memory = self.destination {
            let spool = Spool::create(
                &self.gateway.shared.settings.spool,
                &self.gateway.shared.disk,
            )
            .await?;
            self.destination = Destination::Spool(spool);
        }
        let (runs, len) = self.received.hand_on().await?;
        match &mut self.destination {
            Destination::Spool(spool) => spool.write(runs, len).await,
            _ => Ok(()),
        }
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed. Of a value that has gone on to the
    /// store, only those are known that [`RemoteUpload::hash`] was asked for.
    pub async fn digests(&mut self, wanted: Wanted) -> Result<Digests, Error> {
        let gone = match &mut self.destination {
            _ if self.received.covers(wanted) => None,
            Destination::Memory => None,
            Destination::Spool(spool) => {
                spool.written().await?;
                Some((spool.file()?, spool.len))
            }
            _ => return Err(Error::Incomplete),
        };
        let compute = &self.gateway.shared.compute;
        self.digests = self.received.digests(wanted, compute, gone).await?;
        Ok(self.digests)
    }

    /// Publishes what was received, if `condition` holds at that moment; it is the one that the upload began with,
    /// where that had one. Else it may be called again after [`Error::Precondition`].
    pub async fn publish(&mut self, condition: &WriteCondition) -> Result<String, Error> {
        match &self.destination {
            Destination::Spool(_) if self.received.buffer.len() > 0 => self.flush().await?,
            Destination::Memory if self.digests.sha256.is_none() => {
                self.digests(Wanted::one(false)).await?;
            }
            _ => {}
        }
        let write = Write {
            client: &self.gateway.client,
            call: &self.call,
            condition,
        };
        let sha256 = self.digests.sha256;
        match &mut self.destination {
            Destination::Memory => {
                let body = joined(self.received.buffer.share());
                let sha256 = sha256.ok_or(Error::Incomplete)?;
                write.put(body, &sha256).await
            }
            Destination::Spool(spool) => {
                spool.written().await?;
                write.put_spool(spool, sha256).await
            }
            gone => match std::mem::replace(gone, Destination::Ended) {
                Destination::Whole(sending) => write.end(*sending).await,
                Destination::Parts(parts) => parts.finish(&write).await,
                _ => Err(Error::Incomplete),
            },
        }
    }
}

/// The bytes of all `runs`, in one piece.
fn joined(mut runs: Vec<Bytes>) -> Bytes {
    match runs.len() {
        1 => runs.remove(0),
        _ => runs.concat().into(),
    }
}

impl Write<'_> {
    /// Sends what `spool` holds, all of which is written.
    async fn put_spool(&self, spool: &Spool, sha256: Option<[u8; 32]>) -> Result<String, Error> {
        if spool.len > ONE_REQUEST {
            let mut parts = MultipartUpload::begin(self.client, self.call, spool.len).await?;
            let read = spool.read(async |data| parts.push(data).await);
            read.await.map_err(RequestError::error)?;
            return parts.finish(self).await;
        }
        let call = self.conditional()?;
        self.make(async |tries| {
            loop {
                let sending = Sending::begin(self.client, &call, spool.len, sha256);
                let mut sending = sending.map_err(RequestError::NotTried)?;
                match spool.read(async |data| sending.push(data).await).await {
                    Ok(()) => return written(&sending.finish().await?),
                    Err(RequestError::Refused(refusal)) => {
                        return Err(RequestError::Refused(refusal));
                    }
                    // Without its end it was not made: it may be sent again.
                    Err(failure) => {
                        let retry = tries.retry(failure).await;
                        retry.map_err(|failure| RequestError::NotTried(failure.error()))?;
                    }
                }
            }
        })
        .await
    }
}

/// Bytes that are written or read at a time: an upload has at most two of these in memory.
pub const PIECE: usize = 64 << 10;

type PendingWrite = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// An upload of unknown length.
struct Spool {
    /// `None` once it is being closed.
    file: Option<Arc<File>>,
    /// Bytes written, or being written.
    len: u64,
    writing: Option<PendingWrite>,
    disk: BlockingPool,
}

impl Spool {
    /// A new one in `dir`.
    async fn create(dir: &Path, disk: &BlockingPool) -> Result<Self, Error> {
        let dir = dir.to_owned();
        let make = move || {
            let made = tempfile::tempfile_in(dir);
            let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
            made.map_err(|error| Error::new("make a file in --spool", errno(error)))
        };
        let file = disk.spawn(make).await?;
        Ok(Self {
            file: Some(Arc::new(file)),
            len: 0,
            writing: None,
            disk: disk.clone(),
        })
    }

    /// Starts to write `runs`, `len` bytes, once the write before has ended.
    async fn write(&mut self, runs: Vec<Bytes>, len: u64) -> Result<(), Error> {
        self.written().await?;
        let (file, offset) = (self.file()?, self.len);
        self.len += len;
        let job = move || write_at(&*file, offset, &runs);
        self.writing = Some(Box::pin(self.disk.spawn(job)));
        Ok(())
    }

    /// Waits until all is written.
    async fn written(&mut self) -> Result<(), Error> {
        match self.writing.take() {
            Some(writing) => writing.await,
            None => Ok(()),
        }
    }

    /// Reads all bytes, which are written, and gives `push` a piece of them at a time.
    async fn read(
        &self,
        mut push: impl AsyncFnMut(Bytes) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let mut offset = 0;
        while offset < self.len {
            let file = self.file().map_err(RequestError::NotTried)?;
            let len = usize::try_from(self.len - offset)
                .unwrap_or(PIECE)
                .min(PIECE);
            let read = move || {
                let mut data = vec![0; len];
                let read = read_at(&file, offset, &mut data)?;
                data.truncate(read);
                Ok(Bytes::from(data))
            };
            let data = self.disk.spawn(read).await;
            let data = data.map_err(RequestError::NotTried)?;
            offset += data.len() as u64;
            push(data).await?;
        }
        Ok(())
    }

    /// The file, for a job.
    fn file(&self) -> Result<Arc<File>, Error> {
        self.file.clone().ok_or(Error::Incomplete)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // To free the blocks of a long file takes long.
        if let Some(file) = self.file.take() {
            self.disk.spawn_detached(move || drop(file));
        }
    }
}
