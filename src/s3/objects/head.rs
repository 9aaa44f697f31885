//! The metadata of a value, from the fields of an answer.

use std::ops::Range;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Method;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
};

use super::Gateway;
use crate::s3::contract::RemoteMeta;
use crate::s3::transport::call::{Answer, Call, NO_MEDIA_TYPE, text, unclear};
use crate::s3::transport::client::Found;
use crate::value::{Error, Key};

/// The fields that are kept with a value.
const KEPT: [HeaderName; 4] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
];

/// The coding of a body in pieces, which some stores answer as if it were the value's own.
const FRAMING: &str = "aws-chunked";

impl Gateway<'_> {
    /// The length, the entity tag and the fields of the value of `key`; `None` when there is none.
    pub async fn head(&self, key: &Key<'_>) -> Result<Option<RemoteMeta>, Error> {
        let call = Call::object(Method::HEAD, &self.client.place, key)?;
        let call = call.with_static("x-amz-checksum-mode", "ENABLED");
        match self.client.read(&call).await? {
            Found::Answer(answer) => meta(&answer, None).map(Some),
            Found::Missing => Ok(None),
            Found::Changed => Err(unclear("a condition failed that was not set")),
        }
    }
}

/// The metadata that `answer` has of the value, whose entity tag is `known` where the store leaves it out.
pub fn meta(answer: &Answer, known: Option<&str>) -> Result<RemoteMeta, Error> {
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

/// Whether `answer`, of a value of `len` bytes, is that range of it.
pub fn check_range(answer: &Answer, range: &Range<u64>, len: u64) -> Result<(), Error> {
    let is_whole = *range == (0..len);
    let expected = format!(
        "bytes {}-{}/{len}",
        range.start,
        range.end.saturating_sub(1)
    );
    let said = answer.headers.get("content-range");
    let is_range =
        answer.status == 206 && said.is_some_and(|said| said.as_bytes() == expected.as_bytes());
    if is_range || (answer.status == 200 && is_whole) {
        return Ok(());
    }
    Err(unclear("the answer is not the range that was asked for"))
}

/// The fields that are kept with a value, a line for each.
fn fields(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for name in KEPT {
        let Some(value) = headers.get(&name).map(HeaderValue::as_bytes) else {
            continue;
        };
        let value = match std::str::from_utf8(value) {
            Ok(codings) if name == CONTENT_ENCODING => unframed(codings).into_bytes(),
            _ => value.to_vec(),
        };
        if !value.is_empty() {
            for part in [name.as_str().as_bytes(), b": ", &value, b"\n"] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coding_of_the_way_is_no_coding_of_the_value() {
        assert_eq!(unframed("aws-chunked"), "");
        assert_eq!(unframed("gzip,aws-chunked"), "gzip");
        assert_eq!(unframed("AWS-Chunked, gzip, br"), "gzip, br");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aws-chunked"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        assert_eq!(fields(&headers), b"cache-control: no-store\n");
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
