//! A value on its way to the store.
//!
//! A short one is gathered in memory and sent at once. A longer one of known length goes on to the store as it comes, in one
//! request or in parts. One whose length or condition is known only at its end is kept in a file until then. Dropped, an
//! upload leaves what was there, and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderName;

use super::super::blocking_pool::BlockingPool;
use super::super::digest::{Digests, Hasher, Wanted};
use super::super::error::Error;
use super::super::key::Key;
use super::super::limits::{COPIED, SMALL};
use super::super::staging_quota::Reservation;
use super::super::upload::hashing::{Hashing, hash_file};
use super::super::write_buffer::WriteBuffer;
use super::answer::Failure;
use super::call::{Call, NONCE};
use super::client::Client;
use super::contract::{Begin, Exact, Written};
use super::multipart::{LONGEST, Multipart, ONE_REQUEST};
use super::nonce::nonce;
use super::publish::{publish_parts, publish_spool, publish_whole};
use super::put::{joined, put, refused};
use super::sending::Sending;
use super::shared::Shared;
use super::spool::{PIECE, Spool};
use super::tries::error;

/// A value being received. One that is dropped leaves what was there.
pub struct RemoteUpload {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// The write; without its condition, where that is not known yet.
    call: Call,
    destination: Destination,
    /// What has been received and is neither written nor, on its way to the store, hashed.
    buffer: WriteBuffer,
    hashing: Option<Hashing>,
    digests: Digests,
    reservation: Reservation,
}

/// Where the bytes of an upload go.
#[derive(Debug)]
enum Destination {
    /// They stay in the buffer.
    Memory,
    /// To the store, in one request.
    Whole(Box<Sending>),
    /// To the store, in several.
    Parts(Box<Multipart>),
    /// Each full buffer goes to a file.
    Spool(Spool),
    /// They are gone: a value is published once.
    Ended,
}

/// Whether a value of this length is sent to the store piece by piece.
pub fn is_long(len: Option<u64>) -> bool {
    len.is_none_or(|len| len > SMALL)
}

impl RemoteUpload {
    /// Begins to receive a value for `key`.
    pub(super) async fn begin(
        shared: &Arc<Shared>,
        client: &Arc<Client>,
        key: &Key<'_>,
        begin: &Begin,
    ) -> Result<Self, Error> {
        let call = Call::object(Method::PUT, client.place(), key)?.keeping(&begin.kept)?;
        let mut upload = Self {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            call: call.with(HeaderName::from_static(NONCE), &nonce())?,
            destination: Destination::Memory,
            buffer: WriteBuffer::default(),
            hashing: None,
            digests: Digests {
                sha256: begin.kept.sha256,
                ..Digests::default()
            },
            reservation: Reservation::new(&shared.quota, begin.uploader.clone()),
        };
        if begin.len.is_some_and(|len| len > LONGEST) {
            return Err(Error::TooLarge);
        }
        if let Some(condition) = &begin.condition {
            shared.promises.check(condition)?;
        }
        match (begin.len, &begin.condition) {
            (Some(len), Some(condition)) if len > SMALL => {
                upload.destination = upload.straight(len, condition).await?;
            }
            (len, _) => upload.reservation.grow(len.unwrap_or(0))?,
        }
        Ok(upload)
    }

    /// The way of `len` bytes that go on to the store as they come.
    async fn straight(&self, len: u64, condition: &Exact) -> Result<Destination, Error> {
        if len > ONE_REQUEST {
            let parts = Multipart::begin(&self.client, &self.call, len).await?;
            return Ok(Destination::Parts(Box::new(parts)));
        }
        let call = self.call.clone().under(condition)?;
        let sending = Sending::begin(&self.client, &call, len, self.digests.sha256)?;
        Ok(Destination::Whole(Box::new(sending)))
    }

    /// Has the digests that are `wanted` computed from the bytes to come.
    pub fn hash(&mut self, wanted: Wanted) {
        self.hashing = Some(Hashing::new(wanted, self.shared.compute.clone()));
    }

    /// Takes the next bytes of the value, waiting while the store is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        let straight = match &mut self.destination {
            Destination::Whole(sending) => Some(sending.push(data.clone()).await),
            Destination::Parts(parts) => Some(parts.push(data.clone()).await),
            _ => None,
        };
        match straight {
            Some(pushed) => pushed.map_err(not_made)?,
            None => self.reserve(data.len())?,
        }
        if straight_needs_no_copy(&self.destination, self.hashing.as_ref()) {
            return Ok(());
        }
        while !data.is_empty() {
            let room = PIECE - self.buffer.len();
            // A run of its own would keep all that was received with it, of each of many uploads.
            let most = self.most_buffered();
            self.buffer.copy(&data.split_to(room.min(data.len())), most);
            if self.buffer.len() == PIECE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Where nothing is known of the length, a short value does not take the room of a long one.
    fn most_buffered(&self) -> usize {
        match self.destination {
            Destination::Memory => 0,
            _ => PIECE,
        }
    }

    fn reserve(&mut self, more: usize) -> Result<(), Error> {
        let spooled = match &self.destination {
            Destination::Spool(spool) => spool.len(),
            _ => 0,
        };
        let received = spooled + (self.buffer.len() + more) as u64;
        self.reservation.grow(received)
    }

    /// Has the buffer hashed and, where it is all there is, starts to write it to a file.
    async fn flush(&mut self) -> Result<(), Error> {
        if let Destination::Memory = self.destination {
            let spool = Spool::create(&self.shared.settings.spool, &self.shared.disk).await?;
            self.destination = Destination::Spool(spool);
        }
        let len = self.buffer.len() as u64;
        let runs = self.buffer.take();
        if let Some(hashing) = self.hashing.take() {
            self.hashing = Some(hashing.next(runs.clone()).await?);
        }
        match &mut self.destination {
            Destination::Spool(spool) => spool.write(runs, len).await,
            _ => Ok(()),
        }
    }

    /// The digests of the value that are `wanted`, once all of it has been pushed. Those of a value that has gone on to the
    /// store are known only where [`RemoteUpload::hash`] was told of them.
    pub async fn digests(&mut self, wanted: Wanted) -> Result<Digests, Error> {
        let runs = self.buffer.share();
        self.digests = match self.hashing.take() {
            Some(hashing) if hashing.covers(wanted) => hashing.next(runs).await?.finish().await?,
            _ => self.hash_again(wanted, runs).await?,
        };
        Ok(self.digests)
    }

    async fn hash_again(&mut self, wanted: Wanted, runs: Vec<Bytes>) -> Result<Digests, Error> {
        let compute = self.shared.compute.clone();
        match &mut self.destination {
            Destination::Memory => {
                let is_short = self.buffer.len() <= COPIED;
                digests_of(wanted, runs, (!is_short).then_some(&compute)).await
            }
            Destination::Spool(spool) => {
                spool.written().await?;
                let (file, len) = (spool.file()?, spool.len());
                let read = move |hasher| hash_file(&*file, 0..len, hasher);
                let hashing = Hashing::after(wanted, compute, read);
                hashing.next(runs).await?.finish().await
            }
            _ => Err(Error::Incomplete),
        }
    }

    /// Publishes what was received, if `condition` holds at that moment; it is that of [`Begin`], where that had one. After
    /// [`Error::Precondition`] it may be called again, if [`Begin`] had none.
    pub async fn publish(&mut self, condition: &Exact) -> Result<Written, Error> {
        self.shared.promises.check(condition)?;
        if let Destination::Spool(_) = self.destination
            && self.buffer.len() > 0
        {
            self.flush().await?;
        }
        match &mut self.destination {
            Destination::Memory => self.publish_memory(condition).await,
            Destination::Spool(spool) => {
                spool.written().await?;
                publish_spool(
                    &self.client,
                    &self.call,
                    spool,
                    self.digests.sha256,
                    condition,
                )
                .await
            }
            _ => self.publish_straight(condition).await,
        }
    }

    async fn publish_straight(&mut self, condition: &Exact) -> Result<Written, Error> {
        match std::mem::replace(&mut self.destination, Destination::Ended) {
            Destination::Whole(sending) => {
                publish_whole(&self.client, &self.call, *sending, condition).await
            }
            Destination::Parts(parts) => {
                publish_parts(&self.client, &self.call, *parts, condition).await
            }
            _ => Err(Error::Incomplete),
        }
    }

    async fn publish_memory(&mut self, condition: &Exact) -> Result<Written, Error> {
        let sha256 = match self.digests.sha256 {
            Some(digest) => digest,
            None => self.sha256().await?,
        };
        let body = joined(self.buffer.share());
        put(&self.client, &self.call, &body, &sha256, condition).await
    }

    async fn sha256(&mut self) -> Result<[u8; 32], Error> {
        let wanted = Wanted {
            sha256: true,
            ..Wanted::default()
        };
        let digests = self.digests(wanted).await?;
        digests.sha256.ok_or(Error::Incomplete)
    }
}

impl std::fmt::Debug for RemoteUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteUpload")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

/// Whether what was pushed is on its way, and not to be hashed.
fn straight_needs_no_copy(destination: &Destination, hashing: Option<&Hashing>) -> bool {
    let is_straight = matches!(destination, Destination::Whole(_) | Destination::Parts(_));
    is_straight && hashing.is_none()
}

/// What the failure of a write is whose end was not sent: it was not made.
fn not_made(failure: Failure) -> Error {
    match failure {
        Failure::Refused(refusal) => refused(refusal, &Exact::Any),
        failure => error(failure),
    }
}

async fn digests_of(
    wanted: Wanted,
    runs: Vec<Bytes>,
    compute: Option<&BlockingPool>,
) -> Result<Digests, Error> {
    let hash = move || Ok(Hasher::new(wanted).update_all(&runs).finish());
    match compute {
        Some(compute) => compute.run(hash).await,
        None => hash(),
    }
}
