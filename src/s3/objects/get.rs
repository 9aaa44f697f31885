//! Asking for a value, or for a range of it.

use std::sync::Arc;

use hyper::Method;
use hyper::header::IF_MATCH;

use super::remote_body::RemoteBody;
use crate::s3::contract::{Read, RemoteMeta};
use crate::s3::transport::call::Call;
use crate::s3::transport::client::{Client, Found};
use crate::s3::transport::head::{check_range, meta};
use crate::value::{Error, Key};

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
