//! The answer to a read of an object: its metadata, and its bytes or a range of them.
//!
//! Nothing is read ahead but what the connection holds. An answer that breaks off is resumed where it ended, by a
//! request for the rest of the same version; a few times, and then the body ends with an error.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Body;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, IF_MATCH,
    LAST_MODIFIED,
};
use tokio::time::timeout;

use super::Gateway;
use crate::s3::contract::RemoteMeta;
use crate::s3::transport::S3Client;
use crate::s3::transport::answer::{StoreResponse, text, unclear};
use crate::s3::transport::call::{Call, KEPT, METADATA, MTIME, NO_MEDIA_TYPE, NONCE};
use crate::value::{DATE, DELETE_AT, Error, Key};

/// The coding of a body in pieces, which some stores answer as if it were the value's own.
const FRAMING: &str = "aws-chunked";

/// The metadata that `answer` has of the value, whose entity tag is `known` where the store leaves it out.
fn meta(answer: &StoreResponse, known: Option<&str>) -> Result<RemoteMeta, Error> {
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

impl Gateway {
    /// The length, the entity tag and the fields of the value of `key`; `None` when there is none.
    pub async fn head(&self, key: &Key<'_>) -> Result<Option<RemoteMeta>, Error> {
        let call = Call::object(Method::HEAD, &self.client.place, key)?;
        let call = call.with_static("x-amz-checksum-mode", "ENABLED");
        let answer = self.client.read(&call).await?;
        answer.map(|answer| meta(&answer, None)).transpose()
    }

    /// The object of `call`, a GET, or the bytes `range` of it; `None` where there is none, or another version than
    /// `only`.
    pub async fn get(
        &self,
        call: Call,
        range: Option<Range<u64>>,
        only: Option<&str>,
    ) -> Result<Option<(RemoteMeta, RemoteBody)>, Error> {
        let found = found(&self.client, call.clone(), range, only).await?;
        Ok(found.map(|(meta, left, answer)| {
            let body = RemoteBody::new(&self.client, call, &meta.etag, left, Some(answer));
            (meta, body)
        }))
    }
}

/// The answer to [`Gateway::get`], with the bytes that it brings.
async fn found(
    client: &S3Client,
    mut call: Call,
    range: Option<Range<u64>>,
    only: Option<&str>,
) -> Result<Option<(RemoteMeta, Range<u64>, StoreResponse)>, Error> {
    if let Some(range) = &range {
        call = call.ranged(range)?;
    }
    if let Some(etag) = only {
        call = call.with(IF_MATCH, etag)?;
    }
    let Some(answer) = client.read(&call).await? else {
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
fn check_range(answer: &StoreResponse, range: &Range<u64>, len: u64) -> Result<(), Error> {
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
    let is_kept =
        |kept: &str| ![DELETE_AT, DATE].contains(&kept) && KEPT.iter().all(|own| own != kept);
    let metadata = headers.iter().filter(|(name, _)| *name != NONCE);
    let metadata = metadata.filter_map(|(name, value)| {
        let kept = name.as_str().strip_prefix(METADATA)?;
        let kept = if kept == MTIME {
            DATE
        } else {
            is_kept(kept).then_some(kept)?
        };
        Some((kept, value))
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
    pieces: Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>,
    /// Bytes that are still to come.
    pub left: u64,
}

impl RemoteBody {
    /// The bytes `left` of the version `etag` of what `call` names, which `answer` brings; without one the store is
    /// asked for them when they are first polled for.
    pub fn new(
        client: &Arc<S3Client>,
        call: Call,
        etag: &str,
        left: Range<u64>,
        answer: Option<StoreResponse>,
    ) -> Self {
        let download = Download {
            client: Arc::clone(client),
            call,
            etag: etag.to_owned(),
            left: left.clone(),
            answer,
            resumed: 0,
        };
        Self {
            pieces: Box::pin(try_unfold(download, Download::next)),
            left: left.end - left.start,
        }
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let next = ready!(self.pieces.as_mut().poll_next(cx));
        if let Some(Ok(data)) = &next {
            self.left -= data.len() as u64;
        }
        Poll::Ready(next)
    }
}

/// The way of such bytes between two pieces.
struct Download {
    client: Arc<S3Client>,
    /// A request for the object, without a range.
    call: Call,
    etag: String,
    /// The bytes that are to come.
    left: Range<u64>,
    /// The answer that brings them, unless one is still to be asked for.
    answer: Option<StoreResponse>,
    resumed: u32,
}

impl Download {
    /// The next bytes, and what is left behind them.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        loop {
            let mut answer = match self.answer.take() {
                Some(answer) => answer,
                None if self.left.is_empty() => return Ok(None),
                None => self.ask().await?,
            };
            let broken = match timeout(self.client.timeout, answer.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap_or_default();
                    let len = data.len() as u64;
                    if len > self.left.end - self.left.start {
                        return Err(unclear("the answer is longer than it said"));
                    }
                    self.left.start += len;
                    // Behind the last byte the connection is free for the next request.
                    if !self.left.is_empty() || !answer.body.is_end_stream() {
                        self.answer = Some(answer);
                    }
                    if data.is_empty() {
                        continue;
                    }
                    return Ok(Some((data, self)));
                }
                Ok(None) => "the answer ended early".to_owned(),
                Ok(Some(Err(error))) => error.to_string(),
                Err(_) => "the next bytes did not come in time".to_owned(),
            };
            if self.left.is_empty() {
                return Ok(None);
            }
            if self.resumed == RESUMED {
                return Err(Error::BadGateway(broken));
            }
            self.resumed += 1;
        }
    }

    /// Asks for the bytes that are left, of the same version.
    async fn ask(&self) -> Result<StoreResponse, Error> {
        let (call, left) = (self.call.clone(), self.left.clone());
        let found = found(&self.client, call, Some(left), Some(&self.etag)).await?;
        found.map(|(_, _, answer)| answer).ok_or(Error::Truncated)
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
