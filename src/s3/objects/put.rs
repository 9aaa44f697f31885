//! Writing a value that is in memory: one request, whose signature covers the bytes.
//!
//! It is sent again only where it surely was not done. Where it was perhaps done, the object tells: [`nonce`].

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{ETAG, HeaderMap, HeaderName};
use tokio::time::Instant;

use super::nonce;
use crate::s3::contract::{Exact, Written};
use crate::s3::transport::answer::{Failure, Refusal};
use crate::s3::transport::call::Call;
use crate::s3::transport::client::Client;
use crate::s3::transport::head::{text, unclear};
use crate::s3::transport::send_body::SendBody;
use crate::s3::transport::sign::hex;
use crate::s3::transport::tries::Tries;
use crate::value::Error;

/// Writes `body`, whose digest is `sha256`, as `call` says, if `condition` holds.
pub async fn put(
    client: &Client,
    call: &Call,
    body: &Bytes,
    sha256: &[u8; 32],
    condition: &Exact,
) -> Result<Written, Error> {
    let checksum = HeaderName::from_static("x-amz-checksum-sha256");
    let signed = call.clone().under(condition)?;
    let signed = signed.with(checksum, &BASE64_STANDARD.encode(sha256))?;
    let payload = hex(sha256);
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    loop {
        let body = SendBody::Whole(body.clone());
        let failure = match client.ask(&signed, body, &payload, until).await {
            Ok(answer) => return written(&answer.headers),
            Err(Failure::Refused(refusal)) => {
                let error = refused(refusal, condition);
                return settle_again(client, call, &tries, error).await;
            }
            Err(failure) => failure,
        };
        if let Err(error) = tries.again_after_nothing(failure).await {
            return settle(client, call, until, error).await;
        }
    }
}

/// What a write by `call` came to, all of which was sent, and which ended with `error`.
pub async fn settle(
    client: &Client,
    call: &Call,
    until: Instant,
    error: Error,
) -> Result<Written, Error> {
    let is_unknown = match error {
        Error::OutcomeUnknown { .. } => true,
        // It says that nothing was done, which is not always so.
        Error::Busy { .. } => false,
        error => return Err(error),
    };
    let counters = client.counters();
    counters.unknown.add(u64::from(is_unknown));
    let found = nonce::find(client, call, until).await;
    counters
        .resolved
        .add(u64::from(is_unknown && found.is_some()));
    found.ok_or(error)
}

/// What a write by `call` came to that the store refuses with `error`. Where an earlier try was answered by what asks for patience,
/// that may have been made after all, by a store behind a proxy or a part of one: then it is our own write that the condition met.
pub async fn settle_again(
    client: &Client,
    call: &Call,
    tries: &Tries<'_>,
    error: Error,
) -> Result<Written, Error> {
    if !tries.may_have_been_made() || !matches!(error, Error::Precondition) {
        return Err(error);
    }
    let found = nonce::find(client, call, Instant::now()).await;
    found.ok_or(error)
}

/// What the store says of a write that it has made.
pub fn written(headers: &HeaderMap) -> Result<Written, Error> {
    let etag = text(headers, &ETAG);
    let etag = etag.ok_or_else(|| unclear("a write has no entity tag"))?;
    Ok(Written {
        etag: etag.to_owned(),
    })
}

/// What the refusal of a write under `condition` means.
pub fn refused(refusal: Refusal, condition: &Exact) -> Error {
    // Some stores say of a swap that there is nothing to be swapped.
    if refusal.is_missing() && matches!(condition, Exact::Swap(_)) {
        return Error::Precondition;
    }
    refusal.error()
}

/// All of `runs` in one.
pub fn joined(mut runs: Vec<Bytes>) -> Bytes {
    match runs.len() {
        0 => Bytes::new(),
        1 => runs.remove(0),
        _ => runs.concat().into(),
    }
}
