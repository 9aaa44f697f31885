//! Reading a value, or a range of it, and the digest of one that the store keeps none of.

use std::future::poll_fn;

use hyper::Method;
use hyper::header::IF_MATCH;

use super::Gateway;
use super::body::RemoteBody;
use super::head::{check_range, meta};
use crate::s3::contract::{Read, RemoteMeta};
use crate::s3::transport::call::Call;
use crate::s3::transport::client::Found;
use crate::transfer::{CHUNK, Hashing, WriteBuffer};
use crate::value::{Digest, Error, Key, Wanted};

/// The outcome of a read.
#[expect(
    clippy::large_enum_variant,
    reason = "one is made for each request, and most are values"
)]
#[derive(Debug)]
pub enum Got {
    /// The value, or the range of it.
    Value(RemoteMeta, RemoteBody),
    /// There is no value.
    Gone,
    /// There is another version now.
    Changed,
}

impl Gateway<'_> {
    /// The value of `key`, or the part of it that `read` names.
    pub async fn get(&self, key: &Key<'_>, read: Read<'_>) -> Result<Got, Error> {
        let mut call = Call::object(Method::GET, &self.client.place, key)?;
        if let Some(etag) = read.only {
            call = call.with(IF_MATCH, etag)?;
        }
        let found = match &read.range {
            Some(range) => self.client.read(&call.ranged(range)?).await?,
            None => self.client.read(&call).await?,
        };
        let answer = match found {
            Found::Answer(answer) => answer,
            Found::Missing => return Ok(Got::Gone),
            Found::Changed => return Ok(Got::Changed),
        };
        let meta = meta(&answer, read.only)?;
        // Some stores ignore the condition.
        if read.only.is_some_and(|etag| etag != meta.etag) {
            return Ok(Got::Changed);
        }
        let left = read.range.unwrap_or(0..meta.len);
        check_range(&answer, &left, meta.len)?;
        let body = RemoteBody::new(self.client, call, &meta.etag, left, answer);
        Ok(Got::Value(meta, body))
    }

    /// An address that lets its reader have the value of `key` from the store, by `method`, for a few minutes.
    pub fn link(&self, method: &Method, key: &Key<'_>) -> Result<String, Error> {
        self.client.link(method, key)
    }

    /// A digest of the value of `key` with this entity tag, SHA-512 or else SHA-256, computed from all of it on the compute threads while
    /// it is read; `None`, when there is another version now, or none.
    pub async fn digest(
        &self,
        key: &Key<'_>,
        etag: &str,
        sha512: bool,
    ) -> Result<Option<Digest>, Error> {
        let read = Read {
            range: None,
            only: Some(etag),
        };
        let Got::Value(_, mut body) = self.get(key, read).await? else {
            return Ok(None);
        };
        let wanted = Wanted {
            sha256: !sha512,
            sha512,
            ..Wanted::default()
        };
        let mut hashing = Hashing::new(wanted, self.shared.compute.clone());
        let mut buffer = WriteBuffer::default();
        while let Some(data) = poll_fn(|cx| body.poll_next(cx)).await {
            buffer.push(data?);
            if buffer.len() >= CHUNK {
                hashing = hashing.next(buffer.take()).await?;
            }
        }
        let digests = hashing.next(buffer.take()).await?.finish().await?;
        let sha256 = digests.sha256.map(Digest::Sha256);
        Ok(sha256.or(digests.sha512.map(Digest::Sha512)))
    }
}
