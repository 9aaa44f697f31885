//! Resumable uploads as requests name them (draft-ietf-httpbis-resumable-upload): the fields Upload-Complete, Upload-Offset and
//! Upload-Length, a PUT that creates an upload, and what is asked of an upload resource.
//!
//! Pure. A field that does not have the type that the draft gives it counts as absent, as the draft asks. Promises that a
//! request whose lengths contradict each other is refused before a byte of it is read.

use std::fmt;

use hyper::Method;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
};
use hyper::http::request::Parts;
use sfv::{BareItem, Item, Parser};

use crate::http::head::syntax::{depth, only, up};
use crate::http::refusal::rejection::Rejection;
use crate::http::service_config::ServiceConfig;
use crate::http::values::digest_fields::{Expected, REPR_DIGEST};
use crate::store::{Field, UploadId};

pub const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
pub const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub const INTEROP_VERSION: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// The version of the draft that is implemented ("Draft Version Identification").
pub const INTEROP: u64 = 8;

/// The media type of a part ("Media Type application/partial-upload").
pub const PARTIAL_UPLOAD: &str = "application/partial-upload";

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The beginning of the paths of upload resources.
const UPLOADS: &str = "/-/uploads/";

/// The methods of an upload resource.
pub const UPLOAD_METHODS: &str = "GET, HEAD, PATCH, DELETE, OPTIONS";

/// Fields of a PUT that say how the whole value is published: they are kept until it is.
static KEPT: [HeaderName; 10] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_DISPOSITION,
    CACHE_CONTROL,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    REPR_DIGEST,
];

/// A PUT that creates an upload.
#[derive(Debug)]
pub struct Creation {
    pub part: Part,
    /// The fields that are kept until the value is published.
    pub fields: Vec<Field>,
    /// The client understands a 104.
    pub wants_104: bool,
    /// How far below the root the address of the request is.
    pub depth: usize,
}

/// The part of a value that a request brings.
#[derive(Debug)]
pub struct Part {
    /// How many bytes, where the head tells.
    pub len: Option<u64>,
    /// It is the last one.
    pub is_last: bool,
    /// How long the whole value will be, as the client says.
    pub length: Option<u64>,
    /// The digests of the part itself.
    pub expected: Expected,
    /// Digests of the whole value that come with the part.
    pub of_value: Expected,
}

/// A request to an upload resource.
#[derive(Debug)]
pub enum UploadRequest {
    /// How much has been received.
    Offset,
    /// To append this part, which begins at this offset.
    Append(u64, Box<Part>),
    Cancel,
}

impl Part {
    /// Of a request with these `headers`, whose content begins at `offset` of the value.
    fn of(
        headers: &HeaderMap,
        len: Option<u64>,
        offset: u64,
        is_last: bool,
    ) -> Result<Self, Rejection> {
        let end = len.map(|len| offset.saturating_add(len));
        let length = integer(headers, &UPLOAD_LENGTH).or(end.filter(|_| is_last));
        let contradicts = match (length, end) {
            (Some(length), Some(end)) if is_last => length != end,
            (Some(length), Some(end)) => length < end,
            (Some(length), None) => length < offset,
            (None, _) => false,
        };
        if contradicts {
            return Err(Rejection::InconsistentLength);
        }
        Ok(Self {
            len,
            is_last,
            length,
            expected: Expected::of_content(headers)?,
            of_value: Expected::of_representation(headers)?,
        })
    }
}

impl Creation {
    /// Of a PUT with this `head`; `None` where it creates no upload.
    pub fn of(
        head: &Parts,
        len: Option<u64>,
        config: &ServiceConfig,
    ) -> Result<Option<Box<Self>>, Rejection> {
        let headers = &head.headers;
        let Some(is_last) = upload_complete(headers) else {
            return Ok(None);
        };
        let part = Part::of(headers, len, 0, is_last)?;
        let limit = config.limits.max_body;
        if part.length.is_some_and(|length| length > limit) {
            return Err(Rejection::TooLarge { limit });
        }
        Ok(Some(Box::new(Self {
            part,
            fields: kept(headers),
            wants_104: config.interim && wants_104(headers),
            depth: depth(head.uri.path()),
        })))
    }
}

impl UploadRequest {
    /// Of a request by `method` to an upload resource.
    pub fn of(method: &Method, headers: &HeaderMap, len: Option<u64>) -> Result<Self, Rejection> {
        match *method {
            Method::GET | Method::HEAD => Ok(Self::Offset),
            Method::DELETE => Ok(Self::Cancel),
            Method::PATCH => Self::append(headers, len),
            _ => Err(Rejection::PageMethod(UPLOAD_METHODS)),
        }
    }

    fn append(headers: &HeaderMap, len: Option<u64>) -> Result<Self, Rejection> {
        let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let essence = media_type.and_then(|text| text.split(|&b| b == b';').next());
        let is_part = essence.is_some_and(|text| {
            text.trim_ascii()
                .eq_ignore_ascii_case(PARTIAL_UPLOAD.as_bytes())
        });
        if !is_part {
            return Err(Rejection::NotPartialUpload);
        }
        let offset = integer(headers, &UPLOAD_OFFSET);
        let offset = offset.ok_or(Rejection::UploadField("Upload-Offset"))?;
        let is_last = upload_complete(headers);
        let is_last = is_last.ok_or(Rejection::UploadField("Upload-Complete"))?;
        let part = Part::of(headers, len, offset, is_last)?;
        Ok(Self::Append(offset, Box::new(part)))
    }
}

/// The upload that `path` names; `None` where it names none.
pub fn upload(path: &str) -> Option<Result<UploadId, Rejection>> {
    let name = path.strip_prefix(UPLOADS)?;
    Some(UploadId::parse(name).ok_or(Rejection::NoSuchUpload))
}

/// Where an upload resource is, for the client that has created it.
#[derive(Clone, Copy, Debug)]
pub struct UploadAddress {
    pub id: UploadId,
    /// How far below the root its request was.
    pub depth: usize,
}

impl fmt::Display for UploadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, uploads) = (up(self.depth), &UPLOADS[1..]);
        write!(f, "{up}{uploads}{}", self.id)
    }
}

/// The fields of `headers` that are kept. A value that is no UTF-8 is kept as text that means the same: it matches
/// nothing, and is valid nowhere.
fn kept(headers: &HeaderMap) -> Vec<Field> {
    let fields = KEPT.iter().flat_map(|name| {
        let values = headers.get_all(name).iter();
        values.map(move |value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), text.into_owned())
        })
    });
    fields.collect()
}

/// The headers that [`Creation::fields`] were kept of.
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

/// Whether all of the value has arrived with this message.
fn upload_complete(headers: &HeaderMap) -> Option<bool> {
    match item(headers, &UPLOAD_COMPLETE)? {
        BareItem::Boolean(complete) => Some(complete),
        _ => None,
    }
}

/// Whether the client understands a 104 of this server.
fn wants_104(headers: &HeaderMap) -> bool {
    integer(headers, &INTEROP_VERSION) == Some(INTEROP)
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
    use proptest::prelude::*;

    use crate::http::uploads::request::*;

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

    proptest! {
        #[test]
        fn no_value_panics(value in "[ -~]{0,30}") {
            let headers = headers(&[(UPLOAD_OFFSET, &value), (UPLOAD_COMPLETE, &value)]);
            let _ = (integer(&headers, &UPLOAD_OFFSET), upload_complete(&headers));
        }
    }
}
