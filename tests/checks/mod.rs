//! What `tests/fuzz` feeds with inputs: each function takes any bytes, and panics where a promise about them is broken.
//!
//! The library includes this module by its path, for `cfg(test)` and `cfg(fuzzing)` alone: it needs what is private
//! there, and is in no build that is used. The unit tests run every seed of the corpora through it, and inputs made by
//! proptest.
#![allow(clippy::missing_panics_doc, reason = "a panic is how they tell")]

mod access;
mod dav;
mod destination;
mod form;
mod forwarded;
mod framing;
mod signatures;
mod tar;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::body::request::FrameSource;
use crate::http::head::path;
use crate::http::head::query::QueryFields;
use crate::http::head::range::{MAX_PARTS, ranges};
use crate::http::listing::{ListFormat, ListTarget, Query};
use crate::http::refusal::Refusal;
use crate::http::values::conditional::{if_range, preconditions as preconditions_of};
use crate::http::values::digest_fields::{CONTENT_DIGEST, REPR_DIGEST, field as written};
use crate::store::{Current, Digest, Digests, Key, Listing};

pub use access::{access_file, authorization, link};
pub use dav::{dav_fields, dav_xml};
pub use destination::destination;
pub use form::form;
pub use forwarded::forwarded;
pub use framing::framing;
pub use signatures::{canonical, chunk_chain, chunks, s3_xml, signature};
pub use tar::tar;

/// A path names at most one key, which obeys the rules and comes back from any encoding of it; or a folder, below which
/// keys may lie.
pub fn key(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else {
        return;
    };
    let path = format!("/{name}");
    let folder = path::folder(&path);
    let Ok(key) = path::key(&path, false) else {
        if let Ok(Some(prefix)) = folder {
            Key::new(prefix + "k").expect("a key below the folder");
        }
        return;
    };
    assert_eq!(folder, Ok(None));
    let name = key.as_str();
    assert!((1..=1024).contains(&name.len()) && !name.contains('\0'));
    for segment in name.split('/') {
        assert!((1..=255).contains(&segment.len()));
        assert!(segment != "." && segment != "..");
    }
    assert!(!name.starts_with(".data-server") && !name.starts_with("-/"));
    let encoded = format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
    let again = path::key(&encoded, false).expect("the same key, encoded");
    assert_eq!(again, Key::new(name).expect("a key"));
    assert_eq!(path::key(&path, true).is_ok(), !name.contains('/'));
}

/// A target that hyper takes names a key by its path alone.
pub fn target(data: &[u8]) {
    let Ok(uri) = Uri::try_from(data) else {
        return;
    };
    let Ok(key) = path::key(uri.path(), false) else {
        return;
    };
    let path = uri.path().trim_start_matches('/');
    assert!(!path.contains(['?', '#']), "{uri}");
    assert!(key.as_str().len() <= path.len(), "{uri}");
}

/// Every range lies within the value, parts are few, and together no longer than twice the value.
pub fn range(data: &[u8]) {
    let Some((len, field)) = data.split_first_chunk() else {
        return;
    };
    let (len, headers) = (u64::from_le_bytes(*len), fields(&[RANGE], field));
    let Some(asked) = ranges(&headers, len) else {
        return;
    };
    assert!(asked.len() <= MAX_PARTS);
    for part in &asked {
        let is_within = part.start < part.end && part.end <= len;
        assert!(is_within, "{part:?} of {len}");
    }
}

/// A precondition that names a version never holds where there is none, and one that wants none never where there is
/// one.
pub fn preconditions(data: &[u8]) {
    let names = [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
        IF_RANGE,
    ];
    let headers = fields(&names, data);
    let current = Current {
        etag: "\"18ea04c1e2788651-5\"",
        variant: None,
        modified: SystemTime::UNIX_EPOCH,
    };
    if_range(&headers, current);
    let Some(preconditions) = preconditions_of(&headers) else {
        return;
    };
    preconditions.for_read(Some(current));
    preconditions.for_read(None);
    if headers.contains_key(IF_MATCH) {
        assert!(!preconditions.for_write(None), "{headers:?}");
    }
    let none_match = headers.get(IF_NONE_MATCH);
    if none_match.is_some_and(|value| value.as_bytes().trim_ascii() == b"*") {
        assert!(!preconditions.for_write(Some(current)), "{headers:?}");
    }
}

/// A digest that is understood is the same when it is written and understood again.
pub fn digest_fields(data: &[u8]) {
    let content_md5 = HeaderName::from_static("content-md5");
    let headers = fields(&[CONTENT_DIGEST, REPR_DIGEST, content_md5], data);
    let Ok(expected) = Digests::of(&headers) else {
        return;
    };
    if let Some(digest) = expected.sha256 {
        let field = written(&Digest::Sha256(digest));
        let again = fields(&[CONTENT_DIGEST], field.as_bytes());
        assert_eq!(Digests::of(&again).map(|e| e.sha256), Ok(Some(digest)));
    }
    assert_eq!(expected.and(expected), Ok(expected));
}

/// The cursor of a page leads to where the page ended.
pub fn cursor(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else {
        return;
    };
    for format in [ListFormat::Json, ListFormat::Text, ListFormat::Html] {
        let place = |query| {
            Query::of(&QueryFields::of(Some(query)))
                .map(|query| ListTarget::new("a/".to_owned(), query, format))
        };
        let Ok(first) = place(query) else {
            return;
        };
        assert!((1..=10_000).contains(&first.page.limit));
        let listing = Listing {
            keys: Vec::new(),
            folders: Vec::new(),
            next: Some(first.page.after.clone()),
        };
        let link = first.next_link(&listing).expect("a link to the next page");
        assert!(HeaderValue::try_from(&link).is_ok(), "{link}");
        let query = link
            .strip_prefix("<?")
            .and_then(|rest| rest.split_once('>'));
        let second = place(query.expect("an address").0).expect("a page");
        assert_eq!(second.page, first.page);
    }
}

/// A body in pieces of one size.
struct Pieces<'a>(std::slice::Chunks<'a, u8>);

impl FrameSource for Pieces<'_> {
    async fn next_frame(&mut self) -> Result<Option<Bytes>, Refusal> {
        Ok(self.0.next().map(Bytes::copy_from_slice))
    }
}

/// The output of a future that has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits, and all bytes are there"),
    }
}

/// The values of `names`, one a line.
fn fields(names: &[HeaderName], data: &[u8]) -> HeaderMap {
    let lines = data.split(|&b| b == b'\n');
    let values = lines.map(|line| HeaderValue::from_bytes(line).ok());
    let pairs = names.iter().cycle().zip(values);
    let fields = pairs.filter_map(|(name, value)| Some((name.clone(), value?)));
    fields.take(100).collect()
}
