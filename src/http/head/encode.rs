//! The head of a response that the connection sends itself, as bytes or for a stream of HTTP/2. hyper writes all other
//! heads.
//!
//! Each head has the fields that hyper would send (RFC 9112, section 4): those of the response, its length and its
//! date.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Response, StatusCode, Version};

use crate::http::head::syntax::{CRLF, append_field};

/// The interim response that tells a client to send its body (RFC 9110, section 10.1.1).
pub fn continue_100() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    response
}

/// True for a status whose response has a Content-Length (RFC 9110, section 8.6).
fn has_length(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The capacity of a new head, in bytes: more than most need.
const HEAD_CAPACITY: usize = 512;

/// The encoder of a reactor for the heads of responses.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The field Date of a second since 1970, which is rendered once.
    date: RefCell<(u64, Option<HeaderValue>)>,
}

impl Encoder {
    /// The head of the response with these `parts` and a body of `len` bytes, as bytes of HTTP/1.1.
    pub fn encode(&self, parts: &Parts, len: u64) -> Vec<u8> {
        let mut head = begin_head(parts.status, &parts.headers);
        if has_length(parts.status) && !parts.headers.contains_key(CONTENT_LENGTH) {
            append_field(&mut head, "content-length", &len.into(), CRLF);
        }
        if !parts.headers.contains_key(DATE) {
            append_field(&mut head, "date", &self.date(), CRLF);
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The head for a stream of HTTP/2, which has no fields about the connection (RFC 9113, section 8.2.2).
    pub fn complete(&self, mut parts: Parts, len: Option<u64>) -> Response<()> {
        parts.version = Version::HTTP_2;
        let headers = &mut parts.headers;
        headers.remove(CONNECTION);
        if let Some(len) = len.filter(|_| has_length(parts.status)) {
            headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
        }
        headers.entry(DATE).or_insert_with(|| self.date());
        Response::from_parts(parts, ())
    }

    /// The time of the response, to the second (RFC 9110, section 6.6.1).
    fn date(&self) -> HeaderValue {
        // By the clock that hyper reads: all responses of a connection have one time.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let second = now.unwrap_or_default().as_secs();
        let (rendered, value) = &mut *self.date.borrow_mut();
        if *rendered != second {
            (*rendered, *value) = (second, None);
        }
        value.get_or_insert_with(|| date(second)).clone()
    }
}

/// The head of an interim response, as bytes of HTTP/1.1.
pub fn encode_interim(response: &Response<()>) -> Vec<u8> {
    let mut head = begin_head(response.status(), response.headers());
    head.extend_from_slice(b"\r\n");
    head
}

/// A head of HTTP/1.1 without its end.
fn begin_head(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let reason = match status.as_u16() {
        104 => "Upload Resumption Supported",
        _ => status.canonical_reason().unwrap_or_default(),
    };
    let mut head = Vec::with_capacity(HEAD_CAPACITY);
    for text in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        head.extend_from_slice(text.as_bytes());
    }
    for (name, value) in fields {
        append_field(&mut head, name.as_str(), value, CRLF);
    }
    head
}

/// True for a response that ends its connection.
pub fn closes(parts: &Parts) -> bool {
    let close = HeaderValue::from_static("close");
    parts.headers.get(CONNECTION) == Some(&close)
}

/// The date of this second since 1970.
fn date(second: u64) -> HeaderValue {
    let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use crate::http::head::encode::*;

    #[test]
    fn a_date_follows_the_clock() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        let now = Encoder::default().date();
        let now = httpdate::parse_http_date(now.to_str().unwrap()).unwrap();
        let age = SystemTime::now().duration_since(now).unwrap();
        assert!(age < Duration::from_secs(60), "{age:?}");
    }
}
