//! The answer to a read of an object: its metadata, and its bytes or a range of them.
//!
//! Nothing is read ahead but what the connection holds. An answer that breaks off is resumed where it ended, by a request for the
//! rest of the same version; a few times, and then the body ends with an error.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::body::Body;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, IF_MATCH,
    LAST_MODIFIED,
};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Gateway;
use crate::s3::contract::RemoteMeta;
use crate::s3::transport::answer::{Answer, text, unclear};
use crate::s3::transport::call::{Call, KEPT, METADATA, NO_MEDIA_TYPE, NONCE};
use crate::s3::transport::{Client, ReadOutcome};
use crate::value::{DELETE_AT, Error, Key};

/// The coding of a body in pieces, which some stores answer as if it were the value's own.
const FRAMING: &str = "aws-chunked";

/// The metadata that `answer` has of the value, whose entity tag is `known` where the store leaves it out.
fn meta(answer: &Answer, known: Option<&str>) -> Result<RemoteMeta, Error> {
    let headers = &answer.headers;
    let etag = text(headers, &ETAG).or(known);
    let etag = etag.ok_or_else(|| unclear("an object has no entity tag"))?;
    let len = match text(headers, &CONTENT_RANGE) {
        Some(range) if answer.status == 206 => {
            range.rsplit_once('/').and_then(|(_, len)| len.parse().ok())
        }
        _ => text(headers, &CONTENT_LENGTH).and_then(|len| len.parse().ok()),
    };
    let modified = text(headers, &LAST_MODIFIED);
    let modified = modified.and_then(|date| httpdate::parse_http_date(date).ok());
    let media_type = text(headers, &CONTENT_TYPE).filter(|&media_type| media_type != NO_MEDIA_TYPE);
    Ok(RemoteMeta {
        len: len.ok_or_else(|| unclear("an object has no length"))?,
        etag: etag.to_owned(),
        modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        media_type: media_type.map(str::to_owned),
        fields: fields(headers),
        sha256: sha256(headers),
    })
}

impl Gateway<'_> {
    /// The length, the entity tag and the fields of the value of `key`; `None` when there is none.
    pub async fn head(&self, key: &Key<'_>) -> Result<Option<RemoteMeta>, Error> {
        let call = Call::object(Method::HEAD, &self.client.place, key)?;
        let call = call.with_static("x-amz-checksum-mode", "ENABLED");
        match self.client.read(&call).await? {
            ReadOutcome::Answer(answer) => meta(&answer, None).map(Some),
            ReadOutcome::Missing => Ok(None),
            ReadOutcome::Changed => Err(unclear("a condition failed that was not set")),
        }
    }

    /// The object of `call`, a GET, or the bytes `range` of it; `None` where there is none, or another version than `only`.
    pub async fn get(
        &self,
        call: Call,
        range: Option<Range<u64>>,
        only: Option<&str>,
    ) -> Result<Option<(RemoteMeta, RemoteBody)>, Error> {
        let found = found(self.client, call.clone(), range, only).await?;
        Ok(found.map(|(meta, left, answer)| {
            let state = AnswerState::Reading(Box::new(answer));
            let body = RemoteBody::new(self.client, call, &meta.etag, left, state);
            (meta, body)
        }))
    }
}

/// The answer to [`Gateway::get`], with the bytes that it brings.
async fn found(
    client: &Client,
    mut call: Call,
    range: Option<Range<u64>>,
    only: Option<&str>,
) -> Result<Option<(RemoteMeta, Range<u64>, Answer)>, Error> {
    if let Some(range) = &range {
        call = call.ranged(range)?;
    }
    if let Some(etag) = only {
        call = call.with(IF_MATCH, etag)?;
    }
    let ReadOutcome::Answer(answer) = client.read(&call).await? else {
        return Ok(None);
    };
    let meta = meta(&answer, only)?;
    // Some stores ignore the condition.
    if only.is_some_and(|etag| etag != meta.etag) {
        return Ok(None);
    }
    let range = range.unwrap_or(0..meta.len);
    check_range(&answer, &range, meta.len)?;
    Ok(Some((meta, range, answer)))
}

/// Refuses an `answer` that is not this range of a value of `len` bytes.
fn check_range(answer: &Answer, range: &Range<u64>, len: u64) -> Result<(), Error> {
    let last = range.end.saturating_sub(1);
    let expected = format!("bytes {}-{last}/{len}", range.start);
    let is_right = match answer.status {
        206 => text(&answer.headers, &CONTENT_RANGE) == Some(&expected),
        status => status == 200 && *range == (0..len),
    };
    let wrong = || unclear("the answer is not the range that was asked for");
    is_right.then_some(()).ok_or_else(wrong)
}

/// The fields that are kept with a value, a line for each, and what else the store keeps with it.
fn fields(headers: &HeaderMap) -> Vec<u8> {
    let own = KEPT.iter().map(|name| (name.as_str(), headers.get(name)));
    let own = own.filter_map(|(name, value)| Some((name, value?)));
    // Metadata of another program is no field of the server's own.
    let is_kept = |kept: &str| kept != DELETE_AT && KEPT.iter().all(|own| own != kept);
    let metadata = headers.iter().filter(|(name, _)| *name != NONCE);
    let metadata = metadata.filter_map(|(name, value)| {
        let kept = name.as_str().strip_prefix(METADATA)?;
        is_kept(kept).then_some((kept, value))
    });
    let mut lines = Vec::new();
    for (kept, value) in own.chain(metadata) {
        let value = match std::str::from_utf8(value.as_bytes()) {
            Ok(codings) if CONTENT_ENCODING == *kept => unframed(codings).into_bytes(),
            _ => value.as_bytes().to_vec(),
        };
        if !value.is_empty() {
            for part in [kept.as_bytes(), b": ", &value, b"\n"] {
                lines.extend_from_slice(part);
            }
        }
    }
    lines
}

/// `codings` without that of a body in pieces.
fn unframed(codings: &str) -> String {
    let codings = codings.split(',').map(str::trim);
    let own: Vec<_> = codings
        .filter(|coding| !coding.eq_ignore_ascii_case(FRAMING))
        .collect();
    own.join(", ")
}

/// The digest of all bytes; that of a value in parts is one of the parts' digests, with their number behind it.
fn sha256(headers: &HeaderMap) -> Option<[u8; 32]> {
    let text = headers.get("x-amz-checksum-sha256")?;
    let digest = BASE64_STANDARD.decode(text.as_bytes()).ok()?;
    digest.try_into().ok()
}

/// Times that a body is resumed.
const RESUMED: u32 = 3;

/// The bytes of a value, or of a range of it, as the store sends them.
pub struct RemoteBody {
    client: Arc<Client>,
    /// A request for the object, without a range.
    call: Box<Call>,
    etag: String,
    /// The bytes that are to come.
    left: Range<u64>,
    state: AnswerState,
    resumed: u32,
    /// The end of the wait for the next bytes.
    patience: Option<Pin<Box<Sleep>>>,
}

type Resuming = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

enum AnswerState {
    Reading(Box<Answer>),
    Resuming(Resuming),
    Ended,
}

impl RemoteBody {
    /// The bytes `left` of the version `etag` of what `call` names, which are asked for when they are first polled for.
    pub fn later(client: &Arc<Client>, call: Call, etag: &str, left: Range<u64>) -> Self {
        let mut body = Self::new(client, call, etag, left, AnswerState::Ended);
        body.ask();
        body
    }

    fn new(
        client: &Arc<Client>,
        call: Call,
        etag: &str,
        left: Range<u64>,
        state: AnswerState,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            call: Box::new(call),
            etag: etag.to_owned(),
            left,
            state,
            resumed: 0,
            patience: None,
        }
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let broken = match &mut self.state {
                AnswerState::Ended => return Poll::Ready(None),
                AnswerState::Resuming(resuming) => match ready!(resuming.as_mut().poll(cx)) {
                    Ok(answer) => {
                        self.state = AnswerState::Reading(Box::new(answer));
                        continue;
                    }
                    Err(error) => return self.end_with(error),
                },
                AnswerState::Reading(answer) => match Pin::new(&mut answer.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        self.patience = None;
                        let Ok(data) = frame.into_data() else {
                            continue;
                        };
                        return self.pass(data);
                    }
                    Poll::Ready(None) if self.left.is_empty() => {
                        self.state = AnswerState::Ended;
                        continue;
                    }
                    Poll::Ready(None) => "the answer ended early".to_owned(),
                    Poll::Ready(Some(Err(error))) => error.to_string(),
                    Poll::Pending => {
                        ready!(self.poll_patience(cx));
                        "the next bytes did not come in time".to_owned()
                    }
                },
            };
            if self.left.is_empty() {
                self.state = AnswerState::Ended;
            } else if self.resumed == RESUMED {
                return self.end_with(Error::BadGateway(broken));
            } else {
                self.resumed += 1;
                self.ask();
            }
        }
    }

    /// Bytes that are still to come.
    pub fn remaining(&self) -> u64 {
        self.left.end - self.left.start
    }

    fn pass(&mut self, data: Bytes) -> Poll<Option<Result<Bytes, Error>>> {
        let len = data.len() as u64;
        if len > self.remaining() {
            return self.end_with(unclear("the answer is longer than it said"));
        }
        self.left.start += len;
        if self.left.is_empty()
            && let AnswerState::Reading(answer) = &self.state
            && answer.body.is_end_stream()
        {
            // The connection is free for the next request.
            self.state = AnswerState::Ended;
        }
        Poll::Ready(Some(Ok(data)))
    }

    fn end_with(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.state = AnswerState::Ended;
        Poll::Ready(Some(Err(error)))
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.client.timeout;
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        ready!(patience.as_mut().poll(cx));
        self.patience = None;
        Poll::Ready(())
    }

    /// Asks for the bytes that are left, of the same version.
    fn ask(&mut self) {
        let (client, call) = (Arc::clone(&self.client), Call::clone(&self.call));
        let (etag, left) = (self.etag.clone(), self.left.clone());
        self.state = AnswerState::Resuming(Box::pin(async move {
            let found = found(&client, call, Some(left), Some(&etag)).await?;
            found.map(|(_, _, answer)| answer).ok_or(Error::Truncated)
        }));
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_coding_of_the_way_is_no_coding_of_the_value() {
        assert_eq!(unframed("aws-chunked"), "");
        assert_eq!(unframed("gzip,aws-chunked"), "gzip");
        assert_eq!(unframed("AWS-Chunked, gzip, br"), "gzip, br");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aws-chunked"));
        headers.insert("cache-control", HeaderValue::from_static("no-store"));
        headers.insert("x-amz-meta-x-tag", HeaderValue::from_static("t"));
        headers.insert("x-amz-id-2", HeaderValue::from_static("i"));
        let lines = fields(&headers);
        assert_eq!(lines, b"cache-control: no-store\nx-tag: t\n");
    }

    #[test]
    fn a_digest_of_parts_is_no_digest_of_the_value() {
        let of = |text| {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-checksum-sha256", HeaderValue::from_static(text));
            sha256(&headers)
        };
        assert!(of("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=").is_some());
        assert_eq!(of("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=-2"), None);
        assert_eq!(of("AAAA"), None);
    }
}
