//! The head of a response that the connection sends itself: as bytes, or for a stream of HTTP/2. hyper writes all others.
//!
//! Promises the fields that hyper would send (RFC 9112, section 4): those of the response, its length and its date.

use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Response, Version};

use crate::http::response::clock::Clock;
use crate::http::response::has_length;

/// Room for a head, in bytes: more than most need.
const ROOM: usize = 512;

/// Encodes heads.
#[derive(Debug, Default)]
pub struct Encoder {
    clock: Clock,
}

impl Encoder {
    /// The head of the response with these `parts` and a body of `len` bytes.
    pub fn encode(&self, parts: &Parts, len: u64) -> Vec<u8> {
        let reason = parts.status.canonical_reason().unwrap_or_default();
        let mut head = Vec::with_capacity(ROOM);
        extend(
            &mut head,
            &["HTTP/1.1 ", parts.status.as_str(), " ", reason, "\r\n"],
        );
        for (name, value) in &parts.headers {
            field(&mut head, name.as_str(), value);
        }
        if !parts.headers.contains_key(CONTENT_LENGTH) {
            field(&mut head, "content-length", &HeaderValue::from(len));
        }
        if !parts.headers.contains_key(DATE) {
            field(&mut head, "date", &self.clock.date());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The same for HTTP/2, which has no fields about the connection (RFC 9113, section 8.2.2).
    pub fn complete(&self, mut parts: Parts, len: Option<u64>) -> Response<()> {
        parts.version = Version::HTTP_2;
        let headers = &mut parts.headers;
        headers.remove(CONNECTION);
        if let Some(len) = len.filter(|_| has_length(parts.status)) {
            headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
        }
        headers.entry(DATE).or_insert_with(|| self.clock.date());
        Response::from_parts(parts, ())
    }
}

/// Whether the connection ends with the response with these `parts`.
pub fn closes(parts: &Parts) -> bool {
    parts
        .headers
        .get(CONNECTION)
        .is_some_and(|value| value == "close")
}

fn field(head: &mut Vec<u8>, name: &str, value: &HeaderValue) {
    extend(head, &[name, ": "]);
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

fn extend(head: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        head.extend_from_slice(text.as_bytes());
    }
}
