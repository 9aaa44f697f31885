//! Resumable uploads as requests name them: a PUT that creates one, and what is asked of an upload resource.
//!
//! Promises that a request whose lengths contradict each other is refused before a byte of it is read.

use std::fmt;

use hyper::Method;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
};
use hyper::http::request::Parts;

use crate::http::head::syntax::{depth, up};
use crate::http::refusal::rejection::Rejection;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::fields::{self, PARTIAL_UPLOAD};
use crate::http::values::digest_fields::{Expected, REPR_DIGEST};
use crate::store::{Field, UploadId};

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

/// That a PUT creates an upload.
#[derive(Debug)]
pub struct Creation {
    pub part: Part,
    /// The fields that are kept until the value is published.
    pub fields: Vec<Field>,
    /// The client understands a 104.
    pub takes_interim: bool,
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
        let length = fields::length(headers).or(end.filter(|_| is_last));
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
        let Some(is_last) = fields::complete(headers) else {
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
            takes_interim: config.interim && fields::takes_interim(headers),
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
        let offset = fields::offset(headers);
        let offset = offset.ok_or(Rejection::UploadField("Upload-Offset"))?;
        let is_last = fields::complete(headers);
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
