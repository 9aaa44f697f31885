//! The fields of resumable uploads (draft-ietf-httpbis-resumable-upload, "State"): Upload-Complete, Upload-Offset,
//! Upload-Length and Upload-Limit.
//!
//! Pure. A field that does not have the type that the draft gives it counts as absent, as the draft asks.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, Parser};

use crate::http::head::syntax::only;

pub const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
pub const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const INTEROP_VERSION: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// The version of the draft that is implemented ("Draft Version Identification").
pub const INTEROP: u64 = 8;

/// The media type of a part ("Media Type application/partial-upload").
pub const PARTIAL_UPLOAD: &str = "application/partial-upload";

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Whether all of the value has arrived with this message.
pub fn complete(headers: &HeaderMap) -> Option<bool> {
    match item(headers, &UPLOAD_COMPLETE)? {
        BareItem::Boolean(complete) => Some(complete),
        _ => None,
    }
}

/// At which offset the content of a request begins.
pub fn offset(headers: &HeaderMap) -> Option<u64> {
    integer(headers, &UPLOAD_OFFSET)
}

/// How long the whole value will be.
pub fn length(headers: &HeaderMap) -> Option<u64> {
    integer(headers, &UPLOAD_LENGTH)
}

/// Whether the client understands a 104 of this server.
pub fn takes_interim(headers: &HeaderMap) -> bool {
    integer(headers, &INTEROP_VERSION) == Some(INTEROP)
}

/// The value of Upload-Limit.
pub fn limit(max_size: u64, max_age: Duration) -> String {
    let mut limits = Vec::new();
    if max_size <= MAX_INTEGER {
        limits.push(format!("max-size={max_size}"));
    }
    if !max_age.is_zero() {
        limits.push(format!("max-age={}", max_age.as_secs().min(MAX_INTEGER)));
    }
    if limits.is_empty() {
        // An empty field would not say that uploads can be resumed.
        limits.push("min-size=0".to_owned());
    }
    limits.join(", ")
}

/// The value of Upload-Complete.
pub fn boolean(is_true: bool) -> HeaderValue {
    HeaderValue::from_static(if is_true { "?1" } else { "?0" })
}

fn integer(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    match item(headers, name)? {
        BareItem::Integer(integer) => u64::try_from(i64::from(integer)).ok(),
        _ => None,
    }
}

/// The value of a field that is an item (RFC 9651, section 3.3); one that stands there twice is none.
fn item(headers: &HeaderMap, name: &HeaderName) -> Option<BareItem> {
    let item: Item = Parser::new(only(headers, name)?.as_bytes()).parse().ok()?;
    Some(item.bare_item)
}

#[cfg(test)]
mod tests {
    use crate::http::uploads::fields::*;
    use proptest::prelude::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_field_of_another_type_counts_as_absent() {
        let complete = |value| complete(&headers(&[(UPLOAD_COMPLETE, value)]));
        assert_eq!(complete("?1"), Some(true));
        assert_eq!(complete(" ?0;x=1"), Some(false));
        for value in ["", "1", "true", "?2", "?1, ?0", "(?1)"] {
            assert_eq!(complete(value), None, "{value}");
        }
        let offset = |value| offset(&headers(&[(UPLOAD_OFFSET, value)]));
        assert_eq!(offset("0"), Some(0));
        assert_eq!(offset("999999999999999"), Some(MAX_INTEGER));
        for value in ["-1", "1.0", "1000000000000000", "0x1", "\"1\"", "+1", ""] {
            assert_eq!(offset(value), None, "{value}");
        }
        let twice = headers(&[(UPLOAD_LENGTH, "1"), (UPLOAD_LENGTH, "1")]);
        assert_eq!(length(&twice), None);
    }

    #[test]
    fn an_interim_response_is_for_clients_of_the_same_draft() {
        let takes = |value| takes_interim(&headers(&[(INTEROP_VERSION, value)]));
        assert!(takes("8"));
        assert!(!takes("6") && !takes("?1") && !takes_interim(&HeaderMap::new()));
    }

    #[test]
    fn a_limit_is_never_empty() {
        let day = Duration::from_secs(86_400);
        assert_eq!(limit(10, day), "max-size=10, max-age=86400");
        assert_eq!(limit(u64::MAX, day), "max-age=86400");
        assert_eq!(limit(u64::MAX, Duration::ZERO), "min-size=0");
    }

    proptest! {
        #[test]
        fn no_value_panics(value in "[ -~]{0,30}") {
            let headers = headers(&[(UPLOAD_OFFSET, &value), (UPLOAD_COMPLETE, &value)]);
            let _ = (offset(&headers), complete(&headers));
        }
    }
}
