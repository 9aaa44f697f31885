//! Who a request is, in logs: its id, and the trace it is a part of.
//!
//! The id is the client's, if that is one line's worth of visible ASCII, else one of our own that no other request has.
//! Reads `X-Request-Id` and `traceparent` (W3C Trace Context, level 1), and nothing else.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use data_encoding::HEXLOWER;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::http::head::syntax::only;

/// The header of the id, in requests and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// The longest id taken from a client, in bytes.
const LONGEST: usize = 128;

/// A request's id, and where it stands in a trace.
#[derive(Debug)]
pub struct RequestIds {
    /// Visible ASCII.
    pub request: HeaderValue,
    /// The trace and the caller's span in it.
    pub trace: Option<(String, String)>,
}

/// Makes ids: a part that no other process or reactor has, and a count.
#[derive(Debug)]
pub struct IdGenerator {
    prefix: u64,
    next: Cell<u64>,
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self {
            prefix: RandomState::new().build_hasher().finish(),
            next: Cell::new(0),
        }
    }
}

impl IdGenerator {
    /// The identity of the request with these headers.
    pub fn identify(&self, headers: &HeaderMap) -> RequestIds {
        let given = only(headers, &REQUEST_ID).filter(|id| is_id(id.as_bytes()));
        RequestIds {
            request: given.cloned().unwrap_or_else(|| self.make()),
            trace: only(headers, &TRACE_PARENT).and_then(|parent| trace(parent.as_bytes())),
        }
    }

    /// The identity of a request that gave none.
    pub fn anonymous(&self) -> RequestIds {
        RequestIds {
            request: self.make(),
            trace: None,
        }
    }

    fn make(&self) -> HeaderValue {
        let count = self.next.get();
        self.next.set(count + 1);
        let (mut id, mut digits) = ([b'-'; 33], [0; 16]);
        HEXLOWER.encode_mut(&self.prefix.to_be_bytes(), &mut id[..16]);
        HEXLOWER.encode_mut(&count.to_be_bytes(), &mut digits);
        let digits = &digits[count.max(1).leading_zeros() as usize / 4..];
        let id = &mut id[..17 + digits.len()];
        id[17..].copy_from_slice(digits);
        HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("-"))
    }
}

fn is_id(id: &[u8]) -> bool {
    (1..=LONGEST).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// The trace and the span of `version-trace-span-flags`. Of a version yet to come only these parts are read.
fn trace(parent: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(parent).ok()?;
    let mut parts = text.splitn(5, '-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags, rest) = (parts.next()?, parts.next()?, parts.next());
    let is_hex = |part: &str, len| {
        part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, len| is_hex(part, len) && part.bytes().any(|b| b != b'0');
    let is_version = is_hex(version, 2) && version != "ff" && (version != "00" || rest.is_none());
    (is_version && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2))
        .then(|| (trace.to_owned(), span.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::http::head::identity::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_trace_is_taken_only_when_it_is_well_formed() {
        let parsed = Some((TRACE.to_owned(), SPAN.to_owned()));
        for good in [
            format!("00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-00"),
            format!("cc-{TRACE}-{SPAN}-01-what-comes-later"),
        ] {
            assert_eq!(trace(good.as_bytes()), parsed, "{good}");
        }
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{SPAN}-{TRACE}-01"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(trace(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_id_is_the_clients_or_one_that_no_other_request_has() {
        let ids = IdGenerator::default();
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    REQUEST_ID,
                    HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            ids.identify(&headers).request
        };
        let longest = "x".repeat(LONGEST);
        for good in [
            "a",
            "550e8400-e29b-41d4-a716-446655440000",
            "a=b;c/\"d\"",
            &longest,
        ] {
            assert_eq!(with(&[good]), good);
        }
        let too_long = "x".repeat(LONGEST + 1);
        let bad: [&[&str]; 6] = [&[], &[""], &["a b"], &["\u{e9}"], &["a", "a"], &[&too_long]];
        let mut made: Vec<_> = bad.into_iter().map(with).collect();
        for id in &made {
            assert!(is_id(id.as_bytes()), "{id:?}");
        }
        made.dedup();
        assert_eq!(made.len(), 6);
    }

    proptest! {
        #[test]
        fn what_is_taken_for_a_trace_is_harmless(parent in "[0-9a-f]{2}-[0-9a-fA-F]{31,33}-[0-9a-f]{15,17}-.{0,4}") {
            if let Some((trace, span)) = trace(parent.as_bytes()) {
                let start = format!("{}-{trace}-{span}-", &parent[..2]);
                prop_assert!(parent.starts_with(&start));
                prop_assert_eq!((trace.len(), span.len()), (32, 16));
            }
        }
    }
}
