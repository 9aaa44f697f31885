//! What is sent of a value: all of it, some of it, or only what a cache asks for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, LOCATION,
};

use crate::http::body::response::Body;
use crate::http::response::outcome::{Published, RemoteResponse, ValueResponse};
use crate::http::response::plain::{TEXT, put};
use crate::http::values::conditional::Selection;
use crate::http::values::digest_fields::REPR_DIGEST;
use crate::http::values::encoded::{GZIP, gzip_tag};
use crate::http::values::range::{Multipart, content_range, multipart_type};
use crate::http::values::representation::{Representation, Validators};

/// How much of a value is sent.
pub enum Sent {
    /// All of it.
    Whole,
    /// One range of it, or several.
    Part,
    /// None of it: the client has it.
    Nothing,
}

/// The headers and the body of the answer with a value.
pub fn sent(response: ValueResponse) -> (Sent, HeaderMap, Body) {
    let ValueResponse {
        value,
        selection,
        digest,
        encoded,
    } = response;
    let representation = value.representation();
    let len = value.object().meta().len;
    let mut headers = described(representation, &selection, digest);
    match (selection, encoded) {
        (Selection::Whole, Some(encoded)) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(GZIP));
            put(&mut headers, ETAG, gzip_tag(&representation.etag));
            headers.remove(ACCEPT_RANGES);
            (Sent::Whole, headers, Body::encoded(encoded))
        }
        (Selection::Part(range), _) => {
            put(&mut headers, CONTENT_RANGE, content_range(&range, len));
            let body = Body::part(value.into_object(), range);
            (Sent::Part, headers, body)
        }
        (Selection::Parts(ranges), _) => {
            let framing = framing(&mut headers, &ranges, len, representation);
            (Sent::Part, headers, Body::parts(value.object(), framing))
        }
        (Selection::NotModified(_), _) => (Sent::Nothing, headers, Body::empty()),
        (Selection::Whole, None) => {
            let body = Body::part(value.into_object(), 0..len);
            (Sent::Whole, headers, body)
        }
    }
}

/// The same of a value of an S3 store.
pub fn sent_remotely(response: RemoteResponse) -> (Sent, HeaderMap, Body) {
    let RemoteResponse {
        representation,
        len,
        selection,
        digest,
        mut parts,
    } = response;
    let mut headers = described(&representation, &selection, digest);
    let mut only = || parts.pop().map_or_else(Body::empty, Body::remote);
    match selection {
        Selection::Whole => (Sent::Whole, headers, only()),
        Selection::Part(range) => {
            put(&mut headers, CONTENT_RANGE, content_range(&range, len));
            (Sent::Part, headers, only())
        }
        Selection::Parts(ranges) => {
            let framing = framing(&mut headers, &ranges, len, &representation);
            (Sent::Part, headers, Body::remote_parts(parts, framing))
        }
        Selection::NotModified(_) => (Sent::Nothing, headers, Body::empty()),
    }
}

/// Adds what tells of a value that was stored.
pub fn describe_published(headers: &mut HeaderMap, published: Published) {
    // With what every response has: each PUT makes one, and none is to grow.
    headers.reserve(6);
    match published {
        Published::Version(version) => headers.extend(Validators::from(version).headers()),
        Published::Tag(etag) => put(headers, ETAG, etag),
    }
}

/// The text for a client that does not follow.
pub const ELSEWHERE: &str = "the value is at the address in Location, for a few minutes\n";

/// Says in `headers` where the store has the value, for the moment.
pub fn describe_elsewhere(headers: &mut HeaderMap, to: String) {
    put(headers, LOCATION, to);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// The headers of an answer with what `selection` takes of a value.
fn described(
    representation: &Representation,
    selection: &Selection,
    digest: Option<String>,
) -> HeaderMap {
    let mut headers = match selection {
        Selection::NotModified(etag) => representation.not_modified(etag),
        _ => representation.headers.clone(),
    };
    if let Some(digest) = digest {
        put(&mut headers, REPR_DIGEST, digest);
    }
    headers
}

/// The framing of the `ranges` of a value of `len` bytes, and its type in `headers`.
fn framing(
    headers: &mut HeaderMap,
    ranges: &[Range<u64>],
    len: u64,
    representation: &Representation,
) -> Multipart {
    // Random, so that no value holds it but by an accident that will not happen.
    let random = || RandomState::new().build_hasher().finish();
    let boundary = format!("part-{:016x}{:016x}", random(), random());
    put(headers, CONTENT_TYPE, multipart_type(&boundary));
    Multipart::new(ranges, len, &representation.media_type, &boundary)
}
