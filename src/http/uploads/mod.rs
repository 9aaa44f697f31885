//! Resumable uploads in messages (draft-ietf-httpbis-resumable-upload): the fields Upload-Complete, Upload-Offset and
//! Upload-Length, a PUT that creates an upload, requests to an upload resource, and the fields of their responses.
//!
//! Pure. A field that does not have the type that the draft gives it counts as absent, as the draft asks. A request
//! whose lengths contradict each other is refused before a byte of it is read. hyper sends no interim response but 100:
//! over HTTP/1.1 the connection sends the others as bytes.

pub mod parts;
pub mod perform;
pub mod request;

use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LOCATION,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use sfv::{BareItem, Item, Parser};

use crate::http::fields::end;
use crate::http::head::names::UPLOAD_COMPLETE;
use crate::http::head::syntax::{depth, only, put, up};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{no_page_method, too_large};
use crate::http::refusal::kind::Kind;
use crate::http::service_config::{ServiceConfig, UploadLimits};
use crate::http::values::digest_fields::{DIGEST, REPR_DIGEST, of_part};
use crate::store::{DATE, Digests, Field, UploadId};

const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const INTEROP_VERSION: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// The media types that PATCH takes (RFC 5789, section 3.1).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The version of the draft that is implemented ("Draft Version Identification").
const INTEROP: u64 = 8;

/// The media type of a part ("Media Type application/partial-upload").
const PARTIAL_UPLOAD: &str = "application/partial-upload";

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

const BAD_FIELD: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-upload-field");
const NOT_A_PART: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-partial-upload")
    .fields(&[("accept-patch", PARTIAL_UPLOAD)]);

const NO_SUCH_UPLOAD: Refusal = Refusal::new(
    &Kind::new(StatusCode::NOT_FOUND, "no-such-upload"),
    "there is no such upload: it was never made, was cancelled, or has expired",
);

/// One of the two types of problems that the draft defines.
const INCONSISTENT_LENGTH: Refusal = Refusal::new(
    &Kind::new(
        StatusCode::BAD_REQUEST,
        "https://iana.org/assignments/http-problem-types#inconsistent-upload-length",
    ),
    "the lengths that were given for this upload differ",
);

/// The methods of an upload resource.
pub const UPLOAD_METHODS: &str = "GET, HEAD, PATCH, DELETE, OPTIONS";

/// The fields of a PUT that are kept until the whole value is published.
static KEPT: [HeaderName; 12] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_DISPOSITION,
    CACHE_CONTROL,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    DIGEST,
    REPR_DIGEST,
    HeaderName::from_static(DATE),
];

/// A PUT that creates an upload.
#[derive(Debug)]
pub struct UploadCreation {
    pub part: UploadPart,
    /// The fields kept until the value is published.
    pub fields: Vec<Field>,
    /// The client understands a 104.
    pub wants_104: bool,
    /// The depth of the request's address below the root.
    pub depth: usize,
}

/// The part of a value that a request brings.
#[derive(Debug, Default)]
pub struct UploadPart {
    /// Its length in bytes, if the head has it.
    pub len: Option<u64>,
    pub is_last: bool,
    /// The length of the whole value, where the client says it.
    pub length: Option<u64>,
    /// The digests of the part itself.
    pub expected: Digests,
    /// The digests of the whole value that come with the part.
    pub of_value: Digests,
}

/// The state of an upload, as its client is told it.
#[derive(Debug, Default)]
pub struct UploadState {
    /// All of the value has been received.
    pub complete: bool,
    pub offset: Option<u64>,
    pub length: Option<u64>,
}

/// A request to an upload resource.
#[derive(Debug)]
pub enum UploadRequest {
    /// Report how much has been received.
    Offset,
    /// Append a part, which begins at this offset.
    Append(u64, Box<UploadPart>),
    Cancel,
}

impl UploadPart {
    /// The part that a request with these `headers` brings, which begins at `offset` of the value.
    fn of(
        headers: &HeaderMap,
        len: Option<u64>,
        offset: u64,
        is_last: bool,
    ) -> Result<Self, Refusal> {
        let end = len.map(|len| offset.saturating_add(len));
        let length = integer(headers, &UPLOAD_LENGTH).or(end.filter(|_| is_last));
        let contradicts = match (length, end) {
            (Some(length), Some(end)) if is_last => length != end,
            (Some(length), Some(end)) => length < end,
            (Some(length), None) => length < offset,
            (None, _) => false,
        };
        if contradicts {
            return Err(INCONSISTENT_LENGTH);
        }
        Ok(Self {
            len,
            is_last,
            length,
            expected: Digests::of_content(headers)?,
            of_value: Digests::of_representation(headers)?,
        })
    }

    /// The digests of the part itself, and those of the whole value, which the `trailers` behind it may bring too.
    fn digests(&self, trailers: Option<&HeaderMap>) -> Result<(Digests, Digests), Refusal> {
        let Some(trailers) = trailers else {
            return Ok((self.expected, self.of_value));
        };
        let of_value = Digests::of_representation(trailers)?;
        if !self.is_last && !of_value.wanted().is_none() {
            return Err(of_part());
        }
        let expected = self.expected.and(Digests::of_content(trailers)?)?;
        Ok((expected, self.of_value.and(of_value)?))
    }
}

impl UploadCreation {
    /// The upload that a PUT creates, if it creates one.
    pub fn of(
        head: &Parts,
        len: Option<u64>,
        config: &ServiceConfig,
    ) -> Result<Option<Box<Self>>, Refusal> {
        let headers = &head.headers;
        let Some(is_last) = upload_complete(headers) else {
            return Ok(None);
        };
        let part = UploadPart::of(headers, len, 0, is_last)?;
        let limit = config.limits.max_body;
        if part.length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        Ok(Some(Box::new(Self {
            part,
            fields: kept(headers, config),
            wants_104: config.interim && wants_104(headers),
            depth: depth(head.uri.path()),
        })))
    }
}

impl UploadRequest {
    pub fn of(method: &Method, headers: &HeaderMap, len: Option<u64>) -> Result<Self, Refusal> {
        match *method {
            Method::GET | Method::HEAD => Ok(Self::Offset),
            Method::DELETE => Ok(Self::Cancel),
            Method::PATCH => Self::append(headers, len),
            _ => Err(no_page_method(UPLOAD_METHODS)),
        }
    }

    fn append(headers: &HeaderMap, len: Option<u64>) -> Result<Self, Refusal> {
        let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let essence = media_type.and_then(|text| text.split(|&b| b == b';').next());
        let essence = essence.unwrap_or_default().trim_ascii();
        if !essence.eq_ignore_ascii_case(PARTIAL_UPLOAD.as_bytes()) {
            return Err(NOT_A_PART.because(
                "a part of an upload comes with Content-Type: application/partial-upload",
            ));
        }
        let offset = integer(headers, &UPLOAD_OFFSET);
        let offset = offset.ok_or_else(|| no_field("Upload-Offset"))?;
        let is_last = upload_complete(headers);
        let is_last = is_last.ok_or_else(|| no_field("Upload-Complete"))?;
        let part = UploadPart::of(headers, len, offset, is_last)?;
        if !is_last && !part.of_value.wanted().is_none() {
            return Err(of_part());
        }
        Ok(Self::Append(offset, Box::new(part)))
    }
}

fn no_field(name: &str) -> Refusal {
    BAD_FIELD.because(format!("a part of an upload comes with a valid {name}"))
}

/// The beginning of the paths of upload resources.
const UPLOADS: &str = "/-/uploads/";

/// The address of an upload resource, relative to the request that created it, whose address has this `depth` below the
/// root.
fn address(id: UploadId, depth: usize) -> String {
    format!("{}{}{id}", up(depth), &UPLOADS[1..])
}

/// The upload resource at `path`, if the path is one of upload resources.
pub fn upload(path: &str) -> Option<Result<UploadId, Refusal>> {
    let name = path.strip_prefix(UPLOADS)?;
    Some(UploadId::parse(name).ok_or(NO_SUCH_UPLOAD))
}

/// The fields of `headers` that are kept. Bytes that are no UTF-8 are replaced: such a value matches nothing and is
/// valid nowhere, before and after.
fn kept(headers: &HeaderMap, config: &ServiceConfig) -> Vec<Field> {
    // Seconds from now on are not those from the end of the upload on. A bad end is refused elsewhere.
    let end = end(headers).ok().flatten();
    let end = end.iter().map(|(name, value)| (name, value));
    let is_kept = |name| KEPT.contains(name) || config.kept_fields.names().any(|kept| kept == name);
    let fields = headers.iter().filter(|(name, _)| is_kept(name));
    let fields = fields.chain(end);
    let fields = fields.map(|(name, value)| {
        let text = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), text.into_owned())
    });
    fields.collect()
}

/// The headers that became [`UploadCreation::fields`].
pub fn kept_headers(fields: &[Field]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    headers
}

fn upload_complete(headers: &HeaderMap) -> Option<bool> {
    item(headers, &UPLOAD_COMPLETE)?.as_boolean()
}

/// True where the client understands a 104 of this server.
fn wants_104(headers: &HeaderMap) -> bool {
    integer(headers, &INTEROP_VERSION) == Some(INTEROP)
}

fn integer(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let integer = item(headers, name)?.as_integer()?;
    u64::try_from(i64::from(integer)).ok()
}

/// The value of a field that is an item (RFC 9651, section 3.3), if there is exactly one.
fn item(headers: &HeaderMap, name: &HeaderName) -> Option<BareItem> {
    let item: Item = Parser::new(only(headers, name)?.as_bytes()).parse().ok()?;
    Some(item.bare_item)
}

/// Adds the fields with the state of an upload, and with the limits of uploads.
fn describe(headers: &mut HeaderMap, state: &UploadState, config: &ServiceConfig) {
    describe_state(headers, state);
    add_limit(headers, config);
}

fn describe_state(headers: &mut HeaderMap, state: &UploadState) {
    let complete = if state.complete { "?1" } else { "?0" };
    headers.insert(UPLOAD_COMPLETE, HeaderValue::from_static(complete));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(offset) = state.offset {
        headers.insert(UPLOAD_OFFSET, offset.into());
    }
    if let Some(length) = state.length {
        headers.insert(UPLOAD_LENGTH, length.into());
    }
}

/// Adds Upload-Limit, which says that uploads can be resumed, and within which limits.
pub fn add_limit(headers: &mut HeaderMap, config: &ServiceConfig) {
    put(headers, UPLOAD_LIMIT, limit(&config.limits));
}

/// Adds Accept-Patch, the media type of parts.
pub fn add_accept_patch(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_PATCH, HeaderValue::from_static(PARTIAL_UPLOAD));
}

fn limit(of: &UploadLimits) -> String {
    let mut limits = Vec::new();
    if of.max_body <= MAX_INTEGER {
        limits.push(format!("max-size={}", of.max_body));
    }
    if !of.expiry.is_zero() {
        limits.push(format!("max-age={}", of.expiry.as_secs().min(MAX_INTEGER)));
    }
    if limits.is_empty() {
        // An empty field would not say that uploads can be resumed.
        limits.push("min-size=0".to_owned());
    }
    limits.join(", ")
}

/// A 104, which tells a client where its upload can be resumed ("Status Code 104").
fn resumption_supported(address: String, config: &ServiceConfig) -> Response<()> {
    let response = Response::builder().status(104).body(());
    let mut response = response.expect("a response");
    let headers = response.headers_mut();
    headers.insert(INTEROP_VERSION, INTEROP.into());
    put(headers, LOCATION, address);
    add_limit(headers, config);
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use crate::http::uploads::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_field_of_another_type_counts_as_absent() {
        let complete = |value| upload_complete(&headers(&[(UPLOAD_COMPLETE, value)]));
        assert_eq!(complete("?1"), Some(true));
        assert_eq!(complete(" ?0;x=1"), Some(false));
        for value in ["", "1", "true", "?2", "?1, ?0", "(?1)"] {
            assert_eq!(complete(value), None, "{value}");
        }
        let offset = |value| integer(&headers(&[(UPLOAD_OFFSET, value)]), &UPLOAD_OFFSET);
        assert_eq!(offset("0"), Some(0));
        assert_eq!(offset("999999999999999"), Some(MAX_INTEGER));
        for value in ["-1", "1.0", "1000000000000000", "0x1", "\"1\"", "+1", ""] {
            assert_eq!(offset(value), None, "{value}");
        }
        let twice = headers(&[(UPLOAD_LENGTH, "1"), (UPLOAD_LENGTH, "1")]);
        assert_eq!(integer(&twice, &UPLOAD_LENGTH), None);
    }

    #[test]
    fn an_interim_response_is_for_clients_of_the_same_draft() {
        let takes = |value| wants_104(&headers(&[(INTEROP_VERSION, value)]));
        assert!(takes("8"));
        assert!(!takes("6") && !takes("?1") && !wants_104(&HeaderMap::new()));
    }

    #[test]
    fn a_limit_is_never_empty() {
        let of = |max_body, seconds| {
            limit(&UploadLimits {
                max_body,
                expiry: Duration::from_secs(seconds),
                ..UploadLimits::default()
            })
        };
        assert_eq!(of(10, 86_400), "max-size=10, max-age=86400");
        assert_eq!(of(u64::MAX, 86_400), "max-age=86400");
        assert_eq!(of(u64::MAX, 0), "min-size=0");
    }

    proptest! {
        #[test]
        fn no_value_panics(value in "[ -~]{0,30}") {
            let headers = headers(&[(UPLOAD_OFFSET, &value), (UPLOAD_COMPLETE, &value)]);
            let _ = (integer(&headers, &UPLOAD_OFFSET), upload_complete(&headers));
        }
    }
}
