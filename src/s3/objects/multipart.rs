//! A value that is longer than one request may carry: sent in parts, which the store joins when the last has arrived.
//!
//! Until then there is nothing but parts, and those are removed on every way out: dropped, it has the store forget them. A
//! part is sent once.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{ETAG, HeaderName};
use quick_xml::escape::escape;
use serde::Deserialize;

use super::put::{Sending, Write};
use crate::s3::contract::Written;
use crate::s3::transport::Client;
use crate::s3::transport::answer::{Answer, Failure, explained, parse, text, unclear};
use crate::s3::transport::body::{CHECKSUM, SendBody};
use crate::s3::transport::call::{Call, query};
use crate::s3::transport::sign::NOTHING;
use crate::value::Error;

/// The most bytes that one request may carry.
pub const ONE_REQUEST: u64 = 5 << 30;

/// The most parts of a value.
const MOST_PARTS: u64 = 10_000;

/// The longest value: the most parts of the greatest length.
pub const LONGEST: u64 = MOST_PARTS * ONE_REQUEST;

/// The shortest part, but for the last: a failure of the store costs the upload, so there is no gain in short ones.
const SHORTEST: u64 = 256 << 20;

/// The longest answer to what begins and ends an upload in parts.
const MAX_ANSWER: usize = 64 << 10;

/// An upload in parts.
#[derive(Debug)]
pub struct Multipart {
    client: Arc<Client>,
    object: String,
    /// The identifier that the store gave it; `None` once the store has joined its parts or was told to forget them.
    id: Option<String>,
    part_len: u64,
    /// Bytes of the value that do not belong to a part yet.
    left: u64,
    sending: Option<Sending>,
    sent: Vec<SentPart>,
}

impl Multipart {
    /// Begins a value of `len` bytes with what `call`, a PUT of all of it, says is kept.
    pub async fn begin(client: &Arc<Client>, call: &Call, len: u64) -> Result<Self, Error> {
        Self::with_parts_of(part_len(len), client, call, len).await
    }

    /// As [`Multipart::begin`], with parts of `part_len` bytes.
    pub async fn with_parts_of(
        part_len: u64,
        client: &Arc<Client>,
        call: &Call,
        len: u64,
    ) -> Result<Self, Error> {
        let begin = call
            .clone()
            .with_static("x-amz-checksum-algorithm", "CRC64NVME")
            .with_static("x-amz-checksum-type", "FULL_OBJECT");
        let id = initiate(client, &begin).await?;
        Ok(Self {
            client: Arc::clone(client),
            object: call.object.clone(),
            id: Some(id),
            part_len,
            left: len,
            sending: None,
            sent: Vec::new(),
        })
    }

    /// Sends the next bytes, waiting while the store is slower than the sender.
    pub async fn push(&mut self, mut data: Bytes) -> Result<(), Failure> {
        while !data.is_empty() {
            let sending = match &mut self.sending {
                Some(sending) => sending,
                None => self.next_part().map_err(Failure::NotTried)?,
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

    /// Has the store join the parts as `write` says.
    pub async fn finish(mut self, write: &Write<'_>) -> Result<Written, Error> {
        self.end_part().await.map_err(Failure::error)?;
        if self.left > 0 {
            return Err(Error::Incomplete);
        }
        let call = self.call(Method::POST, &[])?;
        let joining = complete(write, call, &self.sent).await;
        if joining.is_ok() {
            self.id = None;
        }
        joining
    }

    fn next_part(&mut self) -> Result<&mut Sending, Error> {
        let len = self.part_len.min(self.left);
        let number = (self.sent.len() + 1).to_string();
        let call = self.call(Method::PUT, &[("partNumber", &number)])?;
        self.left -= len;
        let sending = Sending::begin(&self.client, &call, len, None)?;
        Ok(self.sending.insert(sending))
    }

    async fn end_part(&mut self) -> Result<(), Failure> {
        let Some(sending) = self.sending.take() else {
            return Ok(());
        };
        let number = u32::try_from(self.sent.len() + 1).unwrap_or(u32::MAX);
        self.sent
            .push(SentPart::of(number, &sending.finish().await?)?);
        Ok(())
    }

    fn call(&self, method: Method, parameters: &[(&str, &str)]) -> Result<Call, Error> {
        let id = self.id.as_deref().ok_or(Error::Incomplete)?;
        let parameters = [parameters, &[("uploadId", id)]].concat();
        Ok(Call::named(method, self.object.clone()).with_query(&parameters))
    }
}

impl Drop for Multipart {
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

/// A part that the store has: what it says of it.
#[derive(Debug)]
struct SentPart {
    number: u32,
    etag: String,
    /// Some stores join only parts whose checksums are named again.
    checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

/// The outcome of joining: a store may begin a 200 before it knows that it fails.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Joined {
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "Code")]
    code: String,
}

impl SentPart {
    /// The one with this number, as the store answers it.
    fn of(number: u32, answer: &Answer) -> Result<Self, Failure> {
        let said = |name| text(&answer.headers, name).map(str::to_owned);
        let etag = said(&ETAG);
        let etag = etag.ok_or_else(|| Failure::NotTried(unclear("a part has no entity tag")))?;
        Ok(Self {
            number,
            etag,
            checksum: said(&HeaderName::from_static(CHECKSUM)),
        })
    }
}

/// Begins an upload in parts of the value of `call`, a PUT of all of it. Answers the upload's id.
async fn initiate(client: &Client, call: &Call) -> Result<String, Error> {
    let call = Call {
        method: Method::POST,
        query: query(&[("uploads", "")]),
        ..call.clone()
    };
    let mut tries = client.tries();
    let answer = loop {
        // An upload that is begun twice stays, unseen and without parts. It cannot be told from one that another server has begun
        // and is about to use: a list of uploads has neither their metadata nor who asked for them.
        let asked = client.ask(&call, SendBody::Empty, NOTHING, tries.until);
        match asked.await {
            Ok(answer) => break answer,
            Err(failure) => tries.retry(failure).await?,
        }
    };
    let body = answer.whole(MAX_ANSWER, client.timeout).await;
    let upload: Begun = parse(&body.map_err(Failure::error)?)?;
    Ok(upload.upload_id)
}

/// Has the store join `parts` by `call`, under the condition of `write`.
async fn complete(write: &Write<'_>, call: Call, parts: &[SentPart]) -> Result<Written, Error> {
    let client = write.client;
    let (body, payload) = SendBody::whole(listed(parts).into());
    let call = call.under(write.condition)?;
    let mut tries = client.tries();
    loop {
        let asked = client.ask(&call, body.clone(), &payload, tries.until);
        let body = match asked.await {
            Ok(answer) => answer.whole(MAX_ANSWER, client.timeout).await,
            // An earlier try has joined them, or the upload was given up.
            Err(Failure::Refused(refusal)) if refusal.is_no_upload() => {
                Err(Failure::MaybeDone(refusal.said()))
            }
            Err(failure) => Err(failure),
        };
        let failure = match body.and_then(|body| written(&body)) {
            Ok(written) => return Ok(written),
            Err(failure) => failure,
        };
        if let Some(ended) = write.failed(&mut tries, failure).await {
            return ended;
        }
    }
}

/// The body that tells the store all parts.
fn listed(parts: &[SentPart]) -> String {
    use std::fmt::Write as _;
    let mut xml = "<CompleteMultipartUpload>".to_owned();
    for part in parts {
        let (number, etag) = (part.number, escape(&part.etag));
        let checksum = part.checksum.as_deref().map(escape);
        let checksum = checksum.map_or_else(String::new, |sum| {
            format!("<ChecksumCRC64NVME>{sum}</ChecksumCRC64NVME>")
        });
        // Writing to a string does not fail.
        let _ = write!(
            xml,
            "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{checksum}</Part>"
        );
    }
    xml.push_str("</CompleteMultipartUpload>");
    xml
}

/// Has the store forget an upload in parts.
async fn abort(client: &Client, call: &Call) {
    let mut tries = client.tries();
    loop {
        let asked = client.ask(call, SendBody::Empty, NOTHING, tries.until);
        let failure = match asked.await {
            Ok(_) => return,
            Err(Failure::Refused(refusal)) if refusal.is_missing() => return,
            Err(failure) => failure,
        };
        if let Err(error) = tries.retry(failure).await {
            tracing::warn!(%error, "parts of an upload stay in the store");
            return;
        }
    }
}

fn written(body: &[u8]) -> Result<Written, Failure> {
    let lost = |error| Failure::MaybeDone(explained(&error));
    let joined: Joined = parse(body).map_err(lost)?;
    match &*joined.code {
        "" if !joined.etag.is_empty() => Ok(Written { etag: joined.etag }),
        "PreconditionFailed" => Err(Failure::NotTried(Error::Precondition)),
        _ => Err(Failure::MaybeDone(joined.code)),
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
        assert_eq!(written(joined).unwrap().etag, "\"a-1\"");
        let failed = b"<?xml version=\"1.0\"?>\n  <Error><Code>InternalError</Code></Error>";
        for unclear in [&failed[..], b"<html>", b""] {
            assert!(matches!(written(unclear), Err(Failure::MaybeDone(_))));
        }
    }
}
