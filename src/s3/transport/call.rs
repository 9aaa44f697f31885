//! A request to the store, before it has an endpoint and a signature, and what came of it.
//!
//! The one place that reads the statuses and the error codes of S3, and that knows how names are encoded in URIs and lists.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE, RETRY_AFTER,
};
use hyper_util::client::legacy;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::connector::{Loan, advice};
use crate::metrics::StoreOperation;
use crate::s3::contract::{Exact, Kept, Place};
use crate::value::{Error, Key};

/// The longest name of an object, in bytes: what S3 allows.
const MAX_NAME: usize = 1024;

/// The media type that says there is none: what S3 itself gives an object without one.
pub const NO_MEDIA_TYPE: &str = "binary/octet-stream";

/// The field that tells one write from every other.
pub const NONCE: &str = "x-amz-meta-data-server-write";

/// The longest error message that is read.
const MAX_MESSAGE: usize = 64 << 10;

/// All but the unreserved characters (RFC 3986, section 2.3).
const ALL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// As [`ALL`], for a path.
const PATH: &AsciiSet = &ALL.remove(b'/');

/// A request to the store.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// The encoded name of the object; that of the bucket is empty.
    pub object: String,
    pub query: String,
    pub headers: HeaderMap,
}

impl Call {
    /// About the object of `key`.
    pub fn object(method: Method, place: &Place, key: &Key<'_>) -> Result<Self, Error> {
        Ok(Self::named(method, object_name(place, key)?))
    }

    /// About the object with this encoded name.
    pub fn named(method: Method, object: String) -> Self {
        Self {
            method,
            object,
            query: String::new(),
            headers: HeaderMap::new(),
        }
    }

    /// About the bucket.
    pub fn bucket(method: Method) -> Self {
        Self::named(method, String::new())
    }

    /// The operation that it is counted as.
    pub fn operation(&self) -> StoreOperation {
        match (&self.method, &*self.object, &*self.query) {
            (&Method::GET, "", _) => StoreOperation::List,
            (&Method::HEAD, "", _) => StoreOperation::Probe,
            (&Method::GET, ..) => StoreOperation::Get,
            (&Method::HEAD, ..) => StoreOperation::Head,
            (&Method::PUT, _, "") => StoreOperation::Put,
            (&Method::DELETE, _, "") => StoreOperation::Delete,
            _ => StoreOperation::Multipart,
        }
    }

    /// Whether it is about an upload in parts.
    pub fn is_part(&self) -> bool {
        !self.query.is_empty()
    }

    /// With these parameters.
    pub fn with_query(mut self, parameters: &[(&str, &str)]) -> Self {
        self.query = query(parameters);
        self
    }

    /// The same for these bytes of the object alone.
    pub fn ranged(&self, range: &Range<u64>) -> Result<Self, Error> {
        let last = range.end.saturating_sub(1);
        let range = format!("bytes={}-{last}", range.start);
        self.clone().with(RANGE, &range)
    }

    /// With the field `name`.
    pub fn with(mut self, name: HeaderName, value: &str) -> Result<Self, Error> {
        self.headers.insert(name, header_value(value)?);
        Ok(self)
    }

    /// With the field `name`, whose value is known to be one.
    pub fn with_static(mut self, name: &'static str, value: &'static str) -> Self {
        let name = HeaderName::from_static(name);
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// To be done only under `condition`.
    pub fn under(self, condition: &Exact) -> Result<Self, Error> {
        match condition {
            Exact::Any => Ok(self),
            Exact::Create => self.with(IF_NONE_MATCH, "*"),
            Exact::Swap(etag) => self.with(IF_MATCH, etag),
        }
    }

    /// With what is `kept` with a value.
    pub fn keeping(mut self, kept: &Kept) -> Result<Self, Error> {
        let media_type = kept.media_type.as_deref().unwrap_or(NO_MEDIA_TYPE);
        self.headers.insert(CONTENT_TYPE, header_value(media_type)?);
        let text = kept.fields.as_deref().unwrap_or_default();
        for line in text.split(|&b| b == b'\n') {
            let Some(colon) = line.iter().position(|&b| b == b':') else {
                continue;
            };
            let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| not_a_field())?;
            let value = line[colon + 1..].trim_ascii();
            let value = HeaderValue::from_bytes(value).map_err(|_| not_a_field())?;
            self.headers.insert(name, value);
        }
        Ok(self)
    }
}

/// The encoded name of the object of `key`.
pub fn object_name(place: &Place, key: &Key<'_>) -> Result<String, Error> {
    let key = key.as_str();
    if place.prefix.len() + key.len() > MAX_NAME {
        return Err(Error::BadKey("it is too long for the store"));
    }
    // A list is XML 1.0, which has no way to say these characters.
    let cannot_be_listed = |c: char| c < ' ' || matches!(c, '\u{7f}' | '\u{fffe}' | '\u{ffff}');
    if key.contains(cannot_be_listed) {
        return Err(Error::BadKey(
            "a key in this store holds no control characters, no U+FFFE and no U+FFFF",
        ));
    }
    Ok(path(&format!("{}{key}", place.prefix)))
}

fn header_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| not_a_field())
}

fn not_a_field() -> Error {
    Error::BadGateway {
        said: "what is to be sent cannot stand in a field".to_owned(),
    }
}

/// The success that a request came to. It holds its connection until its body is read or dropped.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Incoming,
    /// The loan of its connection, where that is a plain one.
    pub loan: Option<Loan>,
    pub(super) _connection: OwnedSemaphorePermit,
}

/// Why a request is no success.
#[derive(Debug)]
pub enum Failure {
    /// It did not arrive: nothing was done.
    NotSent(String),
    /// The store, or what is before it, asks for patience: it says that nothing was done.
    Busy { retry_after: u64 },
    /// Its answer was lost, or the store failed: it was perhaps done.
    MaybeDone(String),
    /// No answer came in time: it was perhaps done.
    Late,
    /// The store has refused it: nothing was done.
    Refused(Refusal),
    /// It was not tried.
    NotTried(Error),
}

/// The refusal of a request by the store.
#[derive(Debug, Default)]
pub struct Refusal {
    pub status: u16,
    code: String,
    message: String,
}

/// The body of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ErrorBody {
    code: String,
    message: String,
}

impl Answer {
    /// This answer, where it is a success.
    pub async fn checked(self, timeout: Duration) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let (status, wait) = (self.status, retry_after(&self.headers));
        let body = tokio::time::timeout(timeout, self.whole(MAX_MESSAGE)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let said: ErrorBody = quick_xml::de::from_str(text).unwrap_or_default();
        let refusal = Refusal {
            status,
            code: said.code,
            message: said.message,
        };
        Err(refusal.meaning(wait))
    }

    /// All of its body, of at most `max` bytes.
    pub async fn whole(self, max: usize) -> Result<Bytes, String> {
        let whole = Limited::new(self.body, max).collect().await;
        whole.map(Collected::to_bytes).map_err(|e| e.to_string())
    }
}

impl Failure {
    /// The failure of a request without an answer.
    pub fn without_answer(error: &legacy::Error) -> Self {
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<hyper::Error>());
        let text = causes(error);
        // hyper gives up a request unsent when its connection was closed meanwhile.
        if error.is_connect() || cause.is_some_and(hyper::Error::is_canceled) {
            Self::NotSent(text)
        } else {
            Self::MaybeDone(text)
        }
    }
}

/// An error, and what it comes from.
fn causes(error: &legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.push_str(advice(error).unwrap_or_default());
    text
}

impl Refusal {
    fn meaning(self, retry_after: Option<u64>) -> Failure {
        let says_patience = matches!(
            &*self.code,
            "ConditionalRequestConflict" | "OperationAborted" | "SlowDown" | "RequestTimeout"
        );
        let is_nameless_conflict = self.status == 409 && self.code.is_empty();
        let retry_after = retry_after.unwrap_or(1);
        match self.status {
            _ if says_patience || is_nameless_conflict => Failure::Busy { retry_after },
            429 | 503 => Failure::Busy { retry_after },
            500 | 502 | 504.. if !self.is_full() => Failure::MaybeDone(self.said()),
            _ => Failure::Refused(self),
        }
    }

    /// Whether there is no such object: not when it is the bucket that is missing.
    pub fn is_missing(&self) -> bool {
        self.status == 404 && self.code != "NoSuchBucket"
    }

    /// Whether there is no such upload in parts.
    pub fn is_no_upload(&self) -> bool {
        self.code == "NoSuchUpload"
    }

    /// Whether the version or the range that was asked for is not there any more.
    pub fn is_changed(&self) -> bool {
        matches!(self.status, 412 | 416)
    }

    fn is_full(&self) -> bool {
        self.status == 507
            || matches!(
                &*self.code,
                "QuotaExceeded" | "XMinioStorageFull" | "StorageFull"
            )
    }

    /// The error that it is where no refusal was expected.
    pub fn error(self) -> Error {
        match (self.status, &*self.code) {
            _ if self.is_full() => Error::NoSpace {
                reason: "no space left in the store",
            },
            (_, "KeyTooLongError") => Error::BadKey("it is too long for the store"),
            (413, _) | (_, "EntityTooLarge") => Error::TooLarge,
            (409, _) => Error::Occupied(self.message),
            (412, _) => Error::Precondition,
            (501, _) => Error::NotSupported {
                name: "not-in-the-store",
                what: "the store behind this server cannot do this",
            },
            (300..=399 | 401 | 403, _) => Error::Refused { said: self.said() },
            _ if is_about_the_server(&self.code) => Error::Refused { said: self.said() },
            _ => Error::BadGateway { said: self.said() },
        }
    }

    pub fn said(&self) -> String {
        format!("{} {} {}", self.status, self.code, self.message)
    }
}

/// Whether a refusal means that the server is set up wrongly.
fn is_about_the_server(code: &str) -> bool {
    matches!(
        code,
        "AuthorizationHeaderMalformed"
            | "AuthorizationQueryParametersError"
            | "ExpiredToken"
            | "InvalidToken"
            | "InvalidRegion"
            | "InvalidBucketName"
            | "NoSuchBucket"
            | "IllegalLocationConstraintException"
    )
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The value of a field, where it is text.
pub fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// An answer that is not what S3 says.
pub fn unclear(what: &str) -> Error {
    Error::BadGateway {
        said: what.to_owned(),
    }
}

/// A path of a URI: `/` stays.
pub fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// A query of a URI, in the order of the names, as it is signed.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, ALL).to_string();
    let mut pairs: Vec<_> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// Decodes a name of a store with `encoding-type=url`: as in forms, where a `+` is a space.
pub fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// A name in a list, which is encoded where the list says so.
pub fn listed(name: &str, encoding: Option<&str>) -> Option<String> {
    match encoding {
        Some("url") => decode(name),
        _ => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(key: &str) -> Result<String, Error> {
        let place = Place {
            bucket: "b".to_owned(),
            prefix: "p/".to_owned(),
        };
        object_name(&place, &Key::new(key).unwrap())
    }

    #[test]
    fn a_key_is_the_name_of_its_object() {
        assert_eq!(name("a b/ü?").unwrap(), "p/a%20b/%C3%BC%3F");
        for bad in ["a\n", "\u{7f}", "a\u{fffe}", "\u{ffff}b", "\u{1}"] {
            assert!(matches!(name(bad), Err(Error::BadKey(_))), "{bad:?}");
        }
        let longest = "a/".repeat(510) + "ab";
        assert!(name(&longest).is_ok());
        let over = format!("{longest}c");
        assert!(matches!(name(&over), Err(Error::BadKey(_))));
    }

    #[test]
    fn what_is_kept_goes_into_the_fields() {
        let kept = Kept {
            media_type: None,
            fields: Some(b"cache-control: no-store\ncontent-language: de\n"[..].into()),
            sha256: None,
        };
        let call = Call::bucket(Method::PUT).keeping(&kept).unwrap();
        assert_eq!(call.headers["content-type"], NO_MEDIA_TYPE);
        assert_eq!(call.headers["cache-control"], "no-store");
        assert_eq!(call.headers["content-language"], "de");
    }

    #[test]
    fn each_refusal_has_its_meaning() {
        let meaning = |status, code: &str| {
            let refusal = Refusal {
                status,
                code: code.to_owned(),
                message: String::new(),
            };
            match refusal.meaning(None) {
                Failure::Refused(refusal) => format!("{:?}", refusal.error()),
                other => format!("{other:?}"),
            }
        };
        for (status, code, expected) in [
            (403, "SignatureDoesNotMatch", "Refused"),
            (404, "NoSuchBucket", "Refused"),
            (400, "AuthorizationHeaderMalformed", "Refused"),
            (301, "PermanentRedirect", "Refused"),
            (400, "BadDigest", "BadGateway"),
            (409, "ConditionalRequestConflict", "Busy"),
            (409, "OperationAborted", "Busy"),
            (409, "ObjectParentIsFile", "Occupied"),
            (412, "PreconditionFailed", "Precondition"),
            (413, "", "TooLarge"),
            (400, "EntityTooLarge", "TooLarge"),
            (409, "", "Busy"),
            (400, "RequestTimeout", "Busy"),
            (429, "", "Busy"),
            (503, "SlowDown", "Busy"),
            (500, "InternalError", "MaybeDone"),
            (502, "", "MaybeDone"),
            (504, "", "MaybeDone"),
            (599, "", "MaybeDone"),
            (507, "", "NoSpace"),
            (507, "XMinioStorageFull", "NoSpace"),
            (403, "QuotaExceeded", "NoSpace"),
            (501, "NotImplemented", "NotSupported"),
            (418, "", "BadGateway"),
        ] {
            let found = meaning(status, code);
            assert!(found.starts_with(expected), "{status} {code}: {found}");
        }
    }

    #[test]
    fn what_is_reserved_is_encoded() {
        assert_eq!(path("a b/ü+~$.-_"), "a%20b/%C3%BC%2B~%24.-_");
        assert_eq!(
            query(&[("prefix", "a/b c"), ("list-type", "2"), ("acl", "")]),
            "acl=&list-type=2&prefix=a%2Fb%20c"
        );
        assert_eq!(decode("a+b%2Bc%20d").as_deref(), Some("a b+c d"));
        assert_eq!(decode("%FF"), None);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in ".{0,100}") {
            prop_assert_eq!(decode(&path(&text)), Some(text));
        }
    }
}
