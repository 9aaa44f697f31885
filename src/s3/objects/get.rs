//! Reading a value, or a range of it, and the digest of one that the store keeps none of.

use std::future::poll_fn;
use std::sync::Arc;

use hyper::Method;
use hyper::header::IF_MATCH;

use super::body::RemoteBody;
use super::head::{check_range, meta};
use crate::s3::contract::{Read, RemoteMeta};
use crate::s3::transport::call::Call;
use crate::s3::transport::client::{Client, Found};
use crate::transfer::{BlockingPool, CHUNK, Hashing, WriteBuffer};
use crate::value::{Digest, Error, Key, Wanted};

/// What a read came to.
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

/// The value of `key`, or the part of it that `read` names.
pub async fn get(client: &Arc<Client>, key: &Key<'_>, read: Read<'_>) -> Result<Got, Error> {
    get_object(
        client,
        Call::object(Method::GET, client.place(), key)?,
        read,
    )
    .await
}

/// What `call` names, a GET, or what of it is to be read.
pub async fn get_object(
    client: &Arc<Client>,
    mut call: Call,
    read: Read<'_>,
) -> Result<Got, Error> {
    if let Some(etag) = read.only {
        call = call.with(IF_MATCH, etag)?;
    }
    let found = match &read.range {
        Some(range) => client.read(&call.ranged(range)?).await?,
        None => client.read(&call).await?,
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
    let body = RemoteBody::new(client, call, &meta.etag, left, answer);
    Ok(Got::Value(meta, body))
}

/// The digest that `sha512` chooses of the value of `key` with this entity tag, computed on the `compute` threads while it
/// is read.
pub async fn digest(
    client: &Arc<Client>,
    compute: &BlockingPool,
    key: &Key<'_>,
    etag: &str,
    sha512: bool,
) -> Result<Option<Digest>, Error> {
    let read = Read {
        range: None,
        only: Some(etag),
    };
    let Got::Value(_, mut body) = get(client, key, read).await? else {
        return Ok(None);
    };
    let wanted = Wanted {
        sha256: !sha512,
        sha512,
        ..Wanted::default()
    };
    let mut hashing = Hashing::new(wanted, compute.clone());
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
