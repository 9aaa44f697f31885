//! One part of a resumable upload as it is received: gathered in a file, sent as parts of the upload in parts whenever there
//! is enough, and the rest kept as a tail.
//!
//! Where the bytes are to be compared with a digest first, nothing of them is kept as received before that.

use std::future::poll_fn;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderName;

use super::super::super::digest::{Digests, Hasher, Wanted};
use super::super::super::error::Error;
use super::super::super::staging_quota::Reservation;
use super::super::super::write_buffer::WriteBuffer;
use super::super::call::{Call, NONCE};
use super::super::contract::{Exact, Read};
use super::super::get::{Got, get_object};
use super::super::head::unclear;
use super::super::nonce::nonce;
use super::super::publish::publish_spool;
use super::super::spool::{PIECE, Spool};
use super::RemoteResumable;
use super::info::{self, Tail};
use super::parts::shortest;
use super::receiving::Receiving;
use super::remove::discard;
use super::sums::{Hashers, Sums};

/// How much is gathered for a part where there is so much.
const AMPLE: u64 = 16 << 20;

impl RemoteResumable {
    /// Begins to receive the next bytes, of which the digests that are `wanted` are computed. Nothing of them is kept before
    /// they are compared, if it `waits` for that.
    pub async fn receive(&mut self, wanted: Wanted, waits: bool) -> Result<(), Error> {
        if self.receiving.is_some() {
            return Ok(());
        }
        let whole = Hasher::resume(&self.progress.digests);
        let whole = whole.ok_or_else(|| unclear("an upload has no digest"))?;
        let spool = Spool::create(&self.shared.settings.spool, &self.shared.disk).await?;
        let known = self.progress.tail.as_ref().map_or(0, |tail| tail.len);
        let hashers = Hashers::new(whole, wanted);
        let mut receiving = Box::new(Receiving {
            spool,
            buffer: WriteBuffer::default(),
            sums: Some(Sums::new(hashers, self.shared.compute.clone())),
            reservation: Reservation::new(&self.shared.quota, self.info.uploader()),
            base: self.progress.offset - known,
            known,
            before: self.progress.clone(),
            waits,
        });
        if let Some(tail) = &self.progress.tail {
            self.read_back(tail, &mut receiving).await?;
        }
        self.receiving = Some(receiving);
        Ok(())
    }

    /// Takes the next bytes, waiting while the store is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            let receiving = self.receiving.as_mut().ok_or(Error::Incomplete)?;
            let room = PIECE - receiving.buffer.len();
            let piece = data.split_to(room.min(data.len()));
            let waiting = receiving.spool.len() + (receiving.buffer.len() + piece.len()) as u64;
            receiving.reservation.grow(waiting)?;
            receiving.buffer.copy(&piece, PIECE);
            if receiving.buffer.len() == PIECE {
                receiving.flush(true).await?;
                if receiving.spool.len() >= AMPLE.max(shortest(self.info.next)) {
                    self.send_part(true).await?;
                }
            }
        }
        Ok(())
    }

    /// The digests of the bytes of this request.
    pub async fn part_digests(&mut self) -> Result<Digests, Error> {
        Ok(self.all().await?.request.finish())
    }

    /// Takes back what this request has brought.
    pub async fn take_back(&mut self) -> Result<(), Error> {
        let Some(receiving) = self.receiving.take() else {
            return Ok(());
        };
        self.progress = receiving.before;
        self.commit().await
    }

    /// Keeps all that was received.
    pub async fn keep(&mut self) -> Result<(), Error> {
        let Some(receiving) = &mut self.receiving else {
            return self.touch().await;
        };
        receiving.flush(true).await?;
        receiving.waits = false;
        let mut tail = None;
        if receiving.spool.len() >= shortest(self.info.next) {
            self.send_part(false).await?;
        } else if receiving.spool.len() > receiving.known {
            tail = Some(self.send_tail().await?);
        }
        let kept = self.commit().await;
        if let (Err(Error::Taken), Some(tail)) = (&kept, &tail) {
            discard(&self.client, info::object(self.client.place(), tail));
        }
        kept?;
        self.tails.extend(tail);
        self.receiving = None;
        self.drop_tails();
        Ok(())
    }

    /// All that has been received, with nothing on its way to the file: its digests.
    pub(super) async fn all(&mut self) -> Result<Hashers, Error> {
        self.receive(Wanted::default(), false).await?;
        let receiving = self.receiving.as_mut().ok_or(Error::Incomplete)?;
        receiving.settle(false).await
    }

    /// What waits in the file, all of which is written.
    pub(super) fn spool(&self) -> Result<&Spool, Error> {
        let receiving = self.receiving.as_ref().ok_or(Error::Incomplete)?;
        Ok(&receiving.spool)
    }

    /// Nothing is compared any more.
    pub(super) fn compared(&mut self) {
        if let Some(receiving) = &mut self.receiving {
            receiving.waits = false;
        }
    }

    /// Brings the tail back, to go on behind it.
    async fn read_back(&self, tail: &Tail, receiving: &mut Receiving) -> Result<(), Error> {
        let object = info::object(self.client.place(), &tail.name);
        let call = Call::named(Method::GET, object);
        let got = get_object(&self.client, call, Read::default()).await?;
        let Got::Value(_, mut body) = got else {
            return Err(Error::Taken);
        };
        while let Some(data) = poll_fn(|cx| body.poll_next(cx)).await {
            // A tail never changes: where it goes while it is read, another server has the upload.
            let data = data.map_err(|error| match error {
                Error::Truncated => Error::Taken,
                error => error,
            });
            receiving.buffer.copy(&data?, PIECE);
            if receiving.buffer.len() >= PIECE {
                receiving.flush(false).await?;
            }
        }
        receiving.flush(false).await?;
        if receiving.spool.len() == tail.len {
            Ok(())
        } else {
            Err(Error::Truncated)
        }
    }

    /// Sends what waits in the file as the tail: its name.
    async fn send_tail(&mut self) -> Result<String, Error> {
        let hashers = self.settled(false).await?;
        let name = format!("{}.{}", self.claim.id(), nonce());
        let object = info::object(self.client.place(), &name);
        let call = Call::named(Method::PUT, object);
        let call = call.with(HeaderName::from_static(NONCE), &nonce())?;
        let (spool, sha256) = (self.spool()?, hashers.sha256());
        publish_spool(&self.client, &call, spool, sha256, &Exact::Any).await?;
        let len = spool.len();
        self.progress.offset = self.offset();
        self.progress.tail = Some(Tail {
            name: name.clone(),
            len,
        });
        self.progress.digests = hashers.whole.state();
        Ok(name)
    }

    /// Keeps in the store what has been received, where that is not kept yet.
    pub(super) async fn commit(&mut self) -> Result<(), Error> {
        let reserved = self.reserved.take();
        let is_kept = self.info.progress == self.progress && !self.has_new_length;
        if is_kept && reserved.is_none() {
            return Ok(());
        }
        // The number was not used.
        self.info.next = reserved.unwrap_or(self.info.next);
        self.info.progress = self.progress.clone();
        self.save().await
    }

    pub(super) async fn settled(&mut self, is_sent: bool) -> Result<Hashers, Error> {
        let receiving = self.receiving.as_mut().ok_or(Error::Incomplete)?;
        receiving.settle(is_sent).await
    }
}
