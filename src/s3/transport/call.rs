//! A request to the store, before it has a signature, and the endpoints that it may go to.
//!
//! The one place that knows which names objects have, how they are encoded in URIs and lists, and which host and path
//! of an endpoint they are asked at. Sends nothing.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::Method;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, IntoHeaderName, RANGE,
};
use parking_lot::Mutex;
use percent_encoding::percent_decode;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::body::{BodyFraming, CHECKSUM, SendBody};
use crate::metrics::StoreOperation;
use crate::s3::contract::{BucketPrefix, Settings, WriteCondition};
use crate::sigv4::chunks::UNSIGNED_TRAILER;
use crate::sigv4::{NOTHING, hex, path, query};
use crate::value::{Attributes, DATE, Error, Key, kept_lines};

/// The longest name of an object, in bytes: what S3 allows.
const MAX_NAME: usize = 1024;

/// The media type that says there is none: what S3 itself gives an object without one.
pub const NO_MEDIA_TYPE: &str = "binary/octet-stream";

/// The field that tells one write from every other.
pub const NONCE: &str = "x-amz-meta-data-server-write";

/// The beginning of a field that the store keeps and does not know.
pub const METADATA: &str = "x-amz-meta-";

/// The metadata of the date of a value, as rclone has it.
pub const MTIME: &str = "mtime";

/// What counts in the 2 KiB of metadata beside the lines `name: value`: in all the nonce, and for each the difference
/// of their forms. Some stores count the names with their beginning.
pub const BESIDE_METADATA: (usize, usize) = (NONCE.len() + 32, METADATA.len() - ": \n".len());

/// The fields of values that the store knows; any other is kept as metadata.
pub const KEPT: [HeaderName; 4] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
];

/// A request to the store.
#[derive(Clone)]
pub struct Call {
    pub method: Method,
    /// The encoded name of the object; that of the bucket is empty.
    pub object: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: SendBody,
    /// The SHA-256 of the body in hexadecimal digits, or a name for it.
    pub payload: Cow<'static, str>,
}

impl Call {
    /// About the object of `key`.
    pub fn object(method: Method, place: &BucketPrefix, key: &Key<'_>) -> Result<Self, Error> {
        Ok(Self::named(method, object_name(place, key)?))
    }

    /// About the object with this encoded name.
    pub fn named(method: Method, object: String) -> Self {
        Self {
            method,
            object,
            query: String::new(),
            headers: HeaderMap::new(),
            body: Either::Left(Full::default()),
            payload: NOTHING.into(),
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

    /// True where it asks for one version or range of the object.
    pub fn is_conditional(&self) -> bool {
        self.headers.contains_key(IF_MATCH) || self.headers.contains_key(RANGE)
    }

    /// True where it is about an upload in parts.
    pub fn is_part(&self) -> bool {
        !self.query.is_empty()
    }

    /// Sets the query.
    pub fn with_query(mut self, parameters: &[(&str, &str)]) -> Self {
        self.query = query(parameters);
        self
    }

    /// Sets the fields and the payload that tell how its body is framed.
    pub fn framed(mut self, framing: &BodyFraming) -> Result<Self, Error> {
        if let Some(sha256) = framing.sha256() {
            return self.proved(sha256);
        }
        self.payload = UNSIGNED_TRAILER.into();
        let mut coding = b"aws-chunked".to_vec();
        if let Some(own) = self.headers.get(CONTENT_ENCODING) {
            coding.push(b',');
            coding.extend_from_slice(own.as_bytes());
        }
        if let Ok(coding) = HeaderValue::from_bytes(&coding) {
            self.headers.insert(CONTENT_ENCODING, coding);
        }
        let length = framing.remaining().to_string();
        let call = self.with("x-amz-decoded-content-length", &length)?;
        Ok(call.with_static("x-amz-trailer", CHECKSUM))
    }

    /// Sets the digest that proves its body.
    pub fn proved(mut self, sha256: &[u8; 32]) -> Result<Self, Error> {
        self.payload = hex(sha256).into();
        // An upload in parts takes the checksums that it was begun with, and no other: the signature proves the part.
        if self.is_part() {
            return Ok(self);
        }
        self.with("x-amz-checksum-sha256", &BASE64_STANDARD.encode(sha256))
    }

    /// Sets the body.
    pub fn carrying(mut self, body: Bytes) -> Self {
        self.payload = hex(&Sha256::digest(&body)).into();
        self.body = Either::Left(body.into());
        self
    }

    /// Asks for these bytes of the object alone.
    pub fn ranged(self, range: &Range<u64>) -> Result<Self, Error> {
        let last = range.end.saturating_sub(1);
        self.with(RANGE, &format!("bytes={}-{last}", range.start))
    }

    /// Sets the field `name`.
    pub fn with(mut self, name: impl IntoHeaderName, value: &str) -> Result<Self, Error> {
        self.headers.insert(name, header_value(value)?);
        Ok(self)
    }

    /// Sets the field `name` to a value that needs no check.
    pub fn with_static(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Sets the field of `condition`.
    pub fn under(self, condition: &WriteCondition) -> Result<Self, Error> {
        match condition {
            WriteCondition::Any => Ok(self),
            WriteCondition::Create => self.with(IF_NONE_MATCH, "*"),
            WriteCondition::Swap(etag) => self.with(IF_MATCH, etag),
        }
    }

    /// Sets the fields for the attributes that are `kept` with a value.
    pub fn keeping(mut self, kept: &Attributes) -> Result<Self, Error> {
        let media_type = kept.media_type.as_deref().unwrap_or(NO_MEDIA_TYPE);
        self.headers.insert(CONTENT_TYPE, header_value(media_type)?);
        let text = kept.fields.as_deref().unwrap_or_default();
        for (name, value) in kept_lines(text) {
            let mut name = HeaderName::from_bytes(name).map_err(|_| not_a_field())?;
            if !KEPT.contains(&name) {
                let own = if name == DATE { MTIME } else { name.as_str() };
                let metadata = format!("{METADATA}{own}");
                name = HeaderName::try_from(metadata).map_err(|_| not_a_field())?;
            }
            let value = HeaderValue::from_bytes(value).map_err(|_| not_a_field())?;
            self.headers.insert(name, value);
        }
        Ok(self)
    }
}

/// The encoded name of the object of `key`.
fn object_name(place: &BucketPrefix, key: &Key<'_>) -> Result<String, Error> {
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
    Error::BadGateway("what is to be sent cannot stand in a field".to_owned())
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

/// The time for which an endpoint that could not be reached is passed over, where there are others.
const AVOIDED: Duration = Duration::from_secs(1);

/// The endpoints of a store.
#[derive(Debug)]
pub struct Endpoints {
    pub all: Vec<Endpoint>,
    next: AtomicUsize,
}

/// One endpoint of the bucket.
#[derive(Debug)]
pub struct Endpoint {
    /// `http` or `https`.
    scheme: String,
    /// Its host, with the port where that is not the scheme's own.
    pub authority: String,
    /// The beginning of the path of the bucket, without a `/` at its end.
    root: String,
    /// Until when it is passed over.
    avoided_until: Mutex<Instant>,
}

impl Endpoints {
    /// The endpoints of `settings`.
    pub fn new(settings: &Settings) -> Self {
        let of_aws = format!("https://s3.{}.amazonaws.com", settings.region);
        let origins = match &settings.endpoints[..] {
            [] => std::slice::from_ref(&of_aws),
            given => given,
        };
        let all = origins.iter().map(|origin| Endpoint::new(origin, settings));
        Self {
            all: all.collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// The next one.
    pub fn next(&self) -> &Endpoint {
        let now = Instant::now();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let mut in_turn = self.all[first..].iter().chain(&self.all[..first]);
        let reachable = in_turn.find(|it| *it.avoided_until.lock() <= now);
        reachable.unwrap_or(&self.all[first])
    }
}

impl Endpoint {
    fn new(origin: &str, settings: &Settings) -> Self {
        let (scheme, authority) = origin.split_once("://").unwrap_or(("https", origin));
        let authority = as_sent(scheme, authority);
        let bucket = &settings.place.bucket;
        let (authority, root) = if settings.virtual_host {
            (format!("{bucket}.{authority}"), String::new())
        } else {
            (authority, format!("/{}", path(bucket)))
        };
        Self {
            scheme: scheme.to_owned(),
            authority,
            root,
            avoided_until: Mutex::new(Instant::now()),
        }
    }

    /// Has it passed over for a while, as it could not be reached.
    pub fn avoid(&self) {
        *self.avoided_until.lock() = Instant::now() + AVOIDED;
    }

    /// The beginning of the URIs of its objects, before their paths.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The path of the object with this encoded name, or of the bucket, whose name is empty.
    pub fn path(&self, object: &str) -> String {
        if object.is_empty() && !self.root.is_empty() {
            return self.root.clone();
        }
        format!("{}/{object}", self.root)
    }
}

/// An authority as every client writes it in Host: a link signs what its user is going to send.
fn as_sent(scheme: &str, authority: &str) -> String {
    let own_port = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.strip_suffix(own_port).unwrap_or(authority);
    authority.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(key: &str) -> Result<String, Error> {
        let place = BucketPrefix {
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
        let kept = Attributes {
            media_type: None,
            fields: Some(b"cache-control: no-store\ncontent-language: de\n"[..].into()),
        };
        let call = Call::bucket(Method::PUT).keeping(&kept).unwrap();
        assert_eq!(call.headers["content-type"], NO_MEDIA_TYPE);
        assert_eq!(call.headers["cache-control"], "no-store");
        assert_eq!(call.headers["content-language"], "de");
    }

    #[test]
    fn what_is_reserved_is_encoded() {
        assert_eq!(path("a b/ü+~$.-_"), "a%20b/%C3%BC%2B~%24.-_");
        let found = query(&[("prefix", "a/b c"), ("list-type", "2"), ("acl", "")]);
        assert_eq!(found, "acl=&list-type=2&prefix=a%2Fb%20c");
        assert_eq!(decode("a+b%2Bc%20d").as_deref(), Some("a b+c d"));
        assert_eq!(decode("%FF"), None);
    }

    #[test]
    fn an_authority_is_written_as_clients_write_it() {
        for (scheme, given, sent) in [
            ("https", "S3.Example:443", "s3.example"),
            ("http", "s3.example:80", "s3.example"),
            ("http", "s3.example:443", "s3.example:443"),
            ("https", "[::1]:7070", "[::1]:7070"),
            ("http", "[fe80::80]", "[fe80::80]"),
        ] {
            assert_eq!(as_sent(scheme, given), sent);
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in ".{0,100}") {
            prop_assert_eq!(decode(&path(&text)), Some(text));
        }
    }
}
