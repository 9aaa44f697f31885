//! A value of the store as it was found: its metadata, and the way to its bytes, which are all of the version that was
//! found.

use std::future::poll_fn;
use std::ops::Range;

use hyper::Method;

use super::Gateway;
use super::get::RemoteBody;
use crate::s3::contract::RemoteMeta;
use crate::s3::transport::call::Call;
use crate::transfer::{CHUNK, Hashing, WriteBuffer};
use crate::value::{Digest, Error, Key, Preconditions, Wanted};

/// A value of the store.
pub struct RemoteValue {
    gateway: Gateway,
    /// A request for all of the object.
    pub(super) call: Call,
    /// The metadata of the version that was found.
    pub meta: RemoteMeta,
    /// The bytes that the store sends already.
    coming: Option<RemoteBody>,
}

impl Gateway {
    /// Finds the value of `key`: with one request where `all` of it is to be read from this server, else by a HEAD.
    pub async fn find(&self, key: &Key<'_>, all: bool) -> Result<Option<RemoteValue>, Error> {
        let call = Call::object(Method::GET, &self.client.place, key)?;
        let is_read_here = self.shared.settings.redirect_from.is_none();
        let (meta, coming) = if all && is_read_here {
            self.get(call.clone(), None, None).await?.unzip()
        } else {
            (self.head(key).await?, None)
        };
        Ok(meta.map(|meta| RemoteValue {
            gateway: self.clone(),
            call,
            meta,
            coming,
        }))
    }
}

impl RemoteValue {
    /// The address at the store for a GET, or a HEAD, of a value that is so long that clients read it there.
    pub fn link(&self, is_head: bool) -> Result<Option<String>, Error> {
        let method = if is_head { Method::HEAD } else { Method::GET };
        let redirect_from = self.gateway.shared.settings.redirect_from;
        let is_read_there = redirect_from.is_some_and(|from| self.meta.len >= from);
        is_read_there
            .then(|| self.gateway.client.link(&method, &self.call.object))
            .transpose()
    }

    /// Asks the store for the bytes of `range`, which [`Self::part`] then gives; false where the value is another one
    /// now, or gone.
    pub async fn open_range(&mut self, range: Range<u64>) -> Result<bool, Error> {
        if self.coming.is_none() && !range.is_empty() {
            let range = (range != (0..self.meta.len)).then_some(range);
            let Some((_, body)) = self.get(range).await? else {
                return Ok(false);
            };
            self.coming = Some(body);
        }
        Ok(true)
    }

    /// The bytes of `range`: the first time those that the store sends already; else the store is asked when they are
    /// first polled for.
    pub fn part(&mut self, range: Range<u64>) -> RemoteBody {
        let later = || {
            let (client, call) = (&self.gateway.client, self.call.clone());
            RemoteBody::new(client, call, &self.meta.etag, range, None)
        };
        self.coming.take().unwrap_or_else(later)
    }

    /// True if `preconditions` let the value be taken from its key.
    pub fn allows(&self, preconditions: &Preconditions) -> bool {
        preconditions.for_write(Some(self.meta.current()))
    }

    /// The digest of the value, SHA-512 or else SHA-256: kept by the store, or computed from all of it on the compute
    /// threads while it is read; `None` where the value is another one now, or gone.
    pub async fn digest(&self, sha512: bool) -> Result<Option<Digest>, Error> {
        if let (Some(digest), false) = (self.meta.sha256, sha512) {
            return Ok(Some(Digest::Sha256(digest)));
        }
        let Some((_, mut body)) = self.get(None).await? else {
            return Ok(None);
        };
        let mut hashing = Hashing::new(Wanted::one(sha512), self.gateway.shared.compute.clone());
        let mut buffer = WriteBuffer::default();
        while let Some(data) = poll_fn(|cx| body.poll_next(cx)).await {
            buffer.push(data?);
            if buffer.len() >= CHUNK {
                hashing = hashing.next(buffer.take()).await?;
            }
        }
        let digests = hashing.next(buffer.take()).await?.finish().await?;
        Ok(digests.one())
    }

    /// The bytes `range` of the version that was found, or all of it.
    async fn get(
        &self,
        range: Option<Range<u64>>,
    ) -> Result<Option<(RemoteMeta, RemoteBody)>, Error> {
        let only = Some(&*self.meta.etag);
        self.gateway.get(self.call.clone(), range, only).await
    }
}
