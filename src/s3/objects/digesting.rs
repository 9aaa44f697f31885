//! The digest of a value that the store keeps none of: computed from all of it.

use std::future::poll_fn;
use std::sync::Arc;

use super::get::{Got, get};
use crate::s3::contract::Read;
use crate::s3::transport::client::Client;
use crate::transfer::{BlockingPool, CHUNK, Hashing, WriteBuffer};
use crate::value::{Digest, Error, Key, Wanted};

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
