//! The head of a response that the connection sends itself: as bytes, or for a stream of HTTP/2. hyper writes all others.
//!
//! Promises the fields that hyper would send (RFC 9112, section 4): those of the response, its length and its date.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Response, Version};
use rustix::time::{ClockId, clock_gettime};

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

/// Renders a date once for each second.
#[derive(Debug)]
pub struct Clock {
    second: Cell<i64>,
    date: RefCell<HeaderValue>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            second: Cell::new(0),
            date: RefCell::new(date(0)),
        }
    }
}

impl Clock {
    /// RFC 9110, section 6.6.1: the time of the response, to the second.
    pub fn date(&self) -> HeaderValue {
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        if self.second.replace(second) != second {
            *self.date.borrow_mut() = date(second);
        }
        self.date.borrow().clone()
    }
}

/// The date of this second since 1970.
fn date(second: i64) -> HeaderValue {
    let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
    let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use crate::http::response::head_encoder::*;

    #[test]
    fn a_date_follows_the_clock() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        let now = Clock::default().date();
        let now = httpdate::parse_http_date(now.to_str().unwrap()).unwrap();
        let age = SystemTime::now().duration_since(now).unwrap();
        assert!(age < Duration::from_secs(60), "{age:?}");
    }
}
