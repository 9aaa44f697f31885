//! A value that is longer than one request may carry: sent in parts, which the store joins when the last has arrived.
//!
//! Until then there is nothing but parts, and those are removed on every way out: dropped, it has the store forget
//! them. A part is sent once.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::ETAG;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::put::{Sending, Write};
use crate::s3::contract::explained;
use crate::s3::transport::S3Client;
use crate::s3::transport::answer::{RequestError, parse, text, unclear};
use crate::s3::transport::body::CHECKSUM;
use crate::s3::transport::call::Call;
use crate::value::Error;

/// The most bytes that one request may carry, or have copied.
pub const ONE_REQUEST: u64 = 5 << 30;

/// The most parts of a value.
const MOST_PARTS: u64 = 10_000;

/// The longest value: the most parts of the greatest length.
pub const LONGEST: u64 = MOST_PARTS * ONE_REQUEST;

/// The shortest part, but for the last: a failure of the store costs the upload, so there is no gain in short ones.
const SHORTEST: u64 = 256 << 20;

/// The longest answer to what begins and ends an upload in parts.
pub const MAX_ANSWER: usize = 64 << 10;

/// An upload in parts.
pub struct MultipartUpload {
    client: Arc<S3Client>,
    object: String,
    /// The identifier that the store gave it; `None` once the store has joined its parts or was asked to drop them.
    id: Option<String>,
    part_len: u64,
    /// Bytes of the value that do not belong to a part yet.
    left: u64,
    sending: Option<Sending>,
    sent: CompleteMultipartUpload,
}

impl MultipartUpload {
    /// Begins a value of `len` bytes with what `call`, a PUT of all of it, says is kept.
    pub async fn begin(client: &Arc<S3Client>, call: &Call, len: u64) -> Result<Self, Error> {
        Self::with_parts_of(part_len(len), client, call, len).await
    }

    /// As [`MultipartUpload::begin`], with parts of `part_len` bytes.
    pub async fn with_parts_of(
        part_len: u64,
        client: &Arc<S3Client>,
        call: &Call,
        len: u64,
    ) -> Result<Self, Error> {
        let mut request = call
            .clone()
            .with_static("x-amz-checksum-algorithm", "CRC64NVME")
            .with_static("x-amz-checksum-type", "FULL_OBJECT")
            .with_query(&[("uploads", "")]);
        request.method = Method::POST;
        // An upload that is begun twice stays, unseen and without parts. It cannot be distinguished from one that
        // another server has begun and is about to use: a list of uploads has neither their metadata nor their clients.
        let answer = client.repeat(&request, client.deadline()).await;
        let body = answer
            .map_err(RequestError::error)?
            .whole(MAX_ANSWER, client.timeout);
        let begun: Begun = parse(&body.await.map_err(RequestError::error)?)?;
        Ok(Self {
            client: Arc::clone(client),
            object: call.object.clone(),
            id: Some(begun.upload_id),
            part_len,
            left: len,
            sending: None,
            sent: CompleteMultipartUpload::default(),
        })
    }

    /// Sends the next bytes, waiting while the store is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), RequestError> {
        while !data.is_empty() {
            let sending = match &mut self.sending {
                Some(sending) => sending,
                None => self.next_part().map_err(RequestError::NotTried)?,
            };
            let room = usize::try_from(sending.remaining()).unwrap_or(usize::MAX);
            let part = data.split_to(room.min(data.len()));
            sending.push(part).await?;
            if sending.remaining() == 0 && self.left > 0 {
                self.end_part().await?;
            }
        }
        Ok(())
    }

    /// Has the store join the parts as `write` says; the entity tag of the value.
    pub async fn finish(mut self, write: &Write<'_>) -> Result<String, Error> {
        self.end_part().await.map_err(RequestError::error)?;
        if self.left > 0 {
            return Err(Error::Incomplete);
        }
        let call = self.call(Method::POST, &[])?.under(write.condition)?;
        let sent = quick_xml::se::to_string(&self.sent);
        let sent = sent.map_err(|error| unclear(&error.to_string()))?;
        let call = call.carrying(sent.into());
        let joining = write.make(async |tries| join(write.client, &call, tries.until).await);
        let joining = joining.await;
        if joining.is_ok() {
            self.id = None;
        }
        joining
    }

    fn next_part(&mut self) -> Result<&mut Sending, Error> {
        let len = self.part_len.min(self.left);
        let number = (self.sent.parts.len() + 1).to_string();
        let call = self.call(Method::PUT, &[("partNumber", &number)])?;
        self.left -= len;
        let sending = Sending::begin(&self.client, &call, len, None)?;
        Ok(self.sending.insert(sending))
    }

    async fn end_part(&mut self) -> Result<(), RequestError> {
        let Some(sending) = self.sending.take() else {
            return Ok(());
        };
        let answer = sending.finish().await?;
        let said = |name: &str| text(&answer.headers, name).map(str::to_owned);
        let etag = said(ETAG.as_str());
        self.sent.parts.push(SentPart {
            part_number: self.sent.parts.len() + 1,
            etag: etag
                .ok_or_else(|| RequestError::NotTried(unclear("a part has no entity tag")))?,
            checksum: said(CHECKSUM),
        });
        Ok(())
    }

    fn call(&self, method: Method, parameters: &[(&str, &str)]) -> Result<Call, Error> {
        let id = self.id.as_deref().ok_or(Error::Incomplete)?;
        let parameters = [parameters, &[("uploadId", id)]].concat();
        Ok(Call::named(method, self.object.clone()).with_query(&parameters))
    }
}

impl Drop for MultipartUpload {
    fn drop(&mut self) {
        let Ok(call) = self.call(Method::DELETE, &[]) else {
            return;
        };
        self.sending = None;
        let client = Arc::clone(&self.client);
        // Without a runtime the process is about to end, and the parts stay.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { abort(&client, &call).await });
        }
    }
}

/// The length of the parts of a value of `len` bytes.
fn part_len(len: u64) -> u64 {
    len.div_ceil(MOST_PARTS).max(SHORTEST)
}

/// All parts, as the request that joins them names them.
#[derive(Default, Serialize)]
struct CompleteMultipartUpload {
    #[serde(rename = "Part")]
    parts: Vec<SentPart>,
}

/// A part that the store has: what it says of it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SentPart {
    part_number: usize,
    #[serde(rename = "ETag")]
    etag: String,
    /// Some stores join only parts whose checksums are named again.
    #[serde(rename = "ChecksumCRC64NVME", skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

/// The outcome of joining, or of a copy: a store may begin a 200 before it knows that it fails.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Joined {
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "Code")]
    code: String,
}

/// Has the store join the parts that `call` names. Returns the entity tag of the value.
async fn join(client: &S3Client, call: &Call, until: Instant) -> Result<String, RequestError> {
    let answer = match client.ask(call, until).await {
        // An earlier try has joined them, or the upload was given up.
        Err(RequestError::Refused(refusal)) if refusal.is_no_upload() => {
            return Err(RequestError::MaybeDone(refusal.said()));
        }
        answered => answered?,
    };
    joined(&answer.whole(MAX_ANSWER, client.timeout).await?)
}

/// The entity tag in the body of a success, which may tell a failure after all.
pub fn joined(body: &[u8]) -> Result<String, RequestError> {
    let joined: Joined = parse(body).map_err(|error| RequestError::MaybeDone(explained(&error)))?;
    match &*joined.code {
        "" if !joined.etag.is_empty() => Ok(joined.etag),
        "PreconditionFailed" => Err(RequestError::NotTried(Error::Precondition)),
        _ => Err(RequestError::MaybeDone(joined.code)),
    }
}

/// Has the store forget an upload in parts.
async fn abort(client: &S3Client, call: &Call) {
    match client.repeat(call, client.deadline()).await {
        Ok(_) => {}
        Err(RequestError::Refused(refusal)) if refusal.is_missing() => {}
        Err(failure) => {
            let error = failure.error();
            tracing::warn!(%error, "parts of an upload stay in the store");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_has_too_many_parts_and_none_is_too_long() {
        for len in [1, ONE_REQUEST, 5 << 40] {
            assert!(len.div_ceil(part_len(len)) <= MOST_PARTS);
            assert!(part_len(len) <= ONE_REQUEST);
        }
    }

    #[test]
    fn a_success_may_turn_out_to_be_none() {
        let joined = b"<CompleteMultipartUploadResult><ETag>&quot;a-1&quot;</ETag></CompleteMultipartUploadResult>";
        assert_eq!(super::joined(joined).unwrap(), "\"a-1\"");
        let failed = b"<?xml version=\"1.0\"?>\n  <Error><Code>InternalError</Code></Error>";
        for unclear in [&failed[..], b"<html>", b""] {
            assert!(matches!(
                super::joined(unclear),
                Err(RequestError::MaybeDone(_))
            ));
        }
    }
}
