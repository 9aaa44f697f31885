//! A version of a value as clients see it, and the answer with it: all of the value, some of it, or only what a cache asks for.
//!
//! A [`Representation`] has the media type, the entity tag and the headers that every answer with the value carries. It is made once
//! for each open value and kept with it, so an answer from the cache only copies it. Statuses are not known here.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, LOCATION, SERVER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::http::body::Content;
use crate::http::body::response::Body;
use crate::http::body::sources::{Encoded, RemotePart};
use crate::http::head::accept::content_coding;
use crate::http::head::syntax::put;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::{Current, Selection};
use crate::http::values::digest_fields::REPR_DIGEST;
use crate::http::values::fields::StoredFields;
use crate::http::values::media;
use crate::http::values::range::{Multipart, content_range, multipart_type};
use crate::store::{Key, Meta, Object};

/// The name in the Server header.
pub const NAME: HeaderValue = HeaderValue::from_static("data-server");

/// A stored page must not act as this origin, nor have its reader's browser ask other servers: it is of no origin, runs no
/// script, sends no form, and loads nothing but images and styles of this one.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'",
);

/// The representation of a value.
#[derive(Debug)]
pub struct Representation {
    /// The headers of an answer with all of the value.
    headers: HeaderMap,
    etag: String,
    /// The entity tag of the compressed representation.
    variant: Option<String>,
    media_type: Cow<'static, str>,
    modified: SystemTime,
    pub is_compressible: bool,
}

/// The entity tag of a value, quotes included: strong, as no two writes of a key share it. The length tells files apart that a hand has
/// given the same date.
pub fn etag(meta: Meta) -> String {
    let (mut version, mut len) = ([0; 32], [0; 16]);
    let version = hex(&meta.version.nanos().to_be_bytes(), &mut version);
    let len = hex(&meta.len.to_be_bytes(), &mut len);
    ["\"", version, "-", len, "\""].concat()
}

/// The digits of the number that `bytes` are, in `digits`. Each PUT tells two such numbers: `format!` takes three times as long.
fn hex<'d>(bytes: &[u8], digits: &'d mut [u8]) -> &'d str {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros.min(bytes.len() - 1)..];
    let text = HEXLOWER.encode_mut_str(bytes, &mut digits[..2 * bytes.len()]);
    &text[usize::from(bytes[0] < 0x10)..]
}

/// The validators of a value (RFC 9110, section 8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// Quotes included.
    pub etag: String,
    pub modified: SystemTime,
}

impl From<Meta> for Validators {
    fn from(meta: Meta) -> Self {
        Self {
            etag: etag(meta),
            modified: meta.modified(),
        }
    }
}

impl Validators {
    fn headers(&self) -> [(HeaderName, HeaderValue); 2] {
        let none = HeaderValue::from_static("");
        let etag = HeaderValue::from_str(&self.etag);
        let modified = HeaderValue::try_from(httpdate::fmt_http_date(self.modified));
        [
            (ETAG, etag.unwrap_or(none.clone())),
            (LAST_MODIFIED, modified.unwrap_or(none)),
        ]
    }
}

impl Representation {
    pub fn new(
        validators: Validators,
        media_type: Cow<'static, str>,
        fields: StoredFields,
        config: &ServiceConfig,
    ) -> Self {
        let mut headers = HeaderMap::with_capacity(10);
        // A static value has no reference count that reactors would share.
        let content_type = match &media_type {
            Cow::Borrowed(guess) => Ok(HeaderValue::from_static(guess)),
            Cow::Owned(given) => HeaderValue::try_from(given),
        };
        headers.insert(
            CONTENT_TYPE,
            content_type.unwrap_or(HeaderValue::from_static(media::UNKNOWN)),
        );
        headers.extend(validators.headers());
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(value) = &config.cache_control {
            headers.insert(CACHE_CONTROL, value.clone());
        }
        let may_transform = fields.may_transform();
        // A field of the value replaces the operator's.
        for (name, value) in fields {
            headers.insert(name, value);
        }
        if media::is_active(&media_type) {
            headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        }
        let is_compressible = config.compress
            && media::is_compressible(&media_type)
            && !headers.contains_key(CONTENT_ENCODING)
            && may_transform;
        let varies_by = match (is_compressible, config.authorizes) {
            (true, true) => Some("accept-encoding, authorization"),
            (true, false) => Some("accept-encoding"),
            (false, true) => Some("authorization"),
            (false, false) => None,
        };
        if let Some(names) = varies_by {
            headers.insert(VARY, HeaderValue::from_static(names));
        }
        headers.insert(SERVER, NAME);
        let Validators { etag, modified } = validators;
        Self {
            headers,
            variant: is_compressible.then(|| gzip_tag(&etag)),
            etag,
            media_type,
            modified,
            is_compressible,
        }
    }

    /// The length of an answer with these `parts` of the value, which has `len` bytes.
    pub fn len_of(&self, parts: &[Range<u64>], len: u64) -> u64 {
        Multipart::new(parts, len, &self.media_type, &boundary()).len
    }

    /// True where the value was stored in a content coding.
    pub fn is_coded(&self) -> bool {
        self.headers.contains_key(CONTENT_ENCODING)
    }

    /// The headers of a 304: those that a cache needs to find its answer (RFC 9110, section 15.4.5), and the policy of the page.
    fn not_modified(&self, etag: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Ok(etag) = HeaderValue::from_str(etag) {
            headers.insert(ETAG, etag);
        }
        for name in [LAST_MODIFIED, CACHE_CONTROL, VARY, CONTENT_SECURITY_POLICY] {
            if let Some(value) = self.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        headers
    }

    /// The state that preconditions are compared with.
    pub fn current(&self) -> Current<'_> {
        Current {
            etag: &self.etag,
            variant: self.variant.as_deref(),
            modified: self.modified,
        }
    }
}

/// The content coding that the server can apply.
const GZIP: &str = "gzip";

/// Values shorter than this are sent as they are: the coding would save less than it costs.
pub const MIN_COMPRESSED: u64 = 1 << 10;

/// True where the client prefers gzip to no coding.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    content_coding(headers, &[GZIP]).is_some()
}

/// The entity tag of the gzip representation of the value of `etag`: each representation has its own (RFC 9110, section 8.8.3.3).
pub fn gzip_tag(etag: &str) -> String {
    format!("{}-{GZIP}\"", etag.trim_end_matches('"'))
}

/// A value of a directory; its representation is noted with it.
#[derive(Debug)]
pub struct ShownValue(Arc<Object>);

impl ShownValue {
    /// `object`, the value of `key`, as it is represented under `config`.
    pub fn new(object: Arc<Object>, key: &Key<'_>, config: &ServiceConfig) -> Self {
        object.note(|| {
            let fields = object.fields().map(StoredFields::decode);
            let fields = fields.unwrap_or_default().with_coding_of(key.as_str());
            // The charset is that of the text, and not of its coded bytes.
            let is_utf8 = object.is_utf8() && !fields.has_coding();
            let media_type = media::of(key.as_str(), object.media_type(), is_utf8);
            Representation::new(object.meta().into(), media_type, fields, config)
        });
        Self(object)
    }

    pub fn object(&self) -> &Arc<Object> {
        &self.0
    }

    pub fn representation(&self) -> &Representation {
        let noted = self.0.noted::<Representation>();
        noted.expect("a value that is shown has a representation")
    }
}

/// A value of an S3 store.
#[derive(Debug)]
pub struct RemoteValue {
    pub representation: Representation,
    pub len: u64,
    /// The parts that are sent: one for each range, or all of it.
    pub parts: Vec<RemotePart>,
}

/// A value of either engine.
#[derive(Debug)]
pub enum FoundValue {
    Directory(ShownValue),
    S3(Box<RemoteValue>),
}

impl FoundValue {
    /// The body with one range of the value.
    fn part(self, range: Range<u64>) -> Body {
        match self {
            Self::Directory(value) => Body::of(Content::part(value.0, range)),
            Self::S3(mut value) => {
                let part = value.parts.pop();
                Body::of(part.map_or(Content::Empty, Content::remote))
            }
        }
    }

    /// The body with several ranges of the value, each in its framing.
    fn parts(self, framing: Multipart) -> Body {
        Body::of(match self {
            Self::Directory(value) => {
                Content::parts(framing, |range| Content::part(Arc::clone(&value.0), range))
            }
            Self::S3(value) => {
                let mut parts = value.parts.into_iter();
                Content::parts(framing, |_| {
                    parts.next().map_or(Content::Empty, Content::remote)
                })
            }
        })
    }
}

/// A value that answers a request, and what of it is sent.
#[derive(Debug)]
pub struct ValueResponse {
    pub value: FoundValue,
    pub selection: Selection,
    /// The digest of all of the value, as a field.
    pub digest: Option<String>,
    /// The value compressed, which is sent in place of the whole.
    pub encoded: Option<Box<Encoded>>,
}

/// The amount of a value that is sent.
pub enum Sent {
    Whole,
    /// One range of it, or several.
    Part,
    /// None of it: the client has it.
    Nothing,
}

/// A delimiter of parts: random, so that no value holds it but by an accident that will not happen.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("part-{:016x}{:016x}", random(), random())
}

/// The headers and the body of the answer with a value.
pub fn sent(response: ValueResponse) -> (Sent, HeaderMap, Body) {
    let ValueResponse {
        value,
        selection,
        digest,
        encoded,
    } = response;
    let (representation, len) = match &value {
        FoundValue::Directory(value) => (value.representation(), value.0.meta().len),
        FoundValue::S3(value) => (&value.representation, value.len),
    };
    let mut headers = match &selection {
        Selection::NotModified(etag) => representation.not_modified(etag),
        _ => representation.headers.clone(),
    };
    if let Some(digest) = digest {
        put(&mut headers, REPR_DIGEST, digest);
    }
    match (selection, encoded) {
        (Selection::Whole, Some(encoded)) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(GZIP));
            put(&mut headers, ETAG, gzip_tag(&representation.etag));
            headers.remove(ACCEPT_RANGES);
            (Sent::Whole, headers, Body::of(Content::Encoded(encoded)))
        }
        (Selection::Whole, None) => (Sent::Whole, headers, value.part(0..len)),
        (Selection::Part(range), _) => {
            put(&mut headers, CONTENT_RANGE, content_range(&range, len));
            (Sent::Part, headers, value.part(range))
        }
        (Selection::Parts(ranges), _) => {
            let boundary = boundary();
            put(&mut headers, CONTENT_TYPE, multipart_type(&boundary));
            let framing = Multipart::new(&ranges, len, &representation.media_type, &boundary);
            (Sent::Part, headers, value.parts(framing))
        }
        (Selection::NotModified(_), _) => (Sent::Nothing, headers, Body::empty()),
    }
}

/// The text for a client that does not follow the redirection to the store.
pub const ELSEWHERE: &str = "the value is at the address in Location, for a few minutes\n";

/// Redirects to the address that the value has at the store for a few minutes.
pub fn describe_elsewhere(headers: &mut HeaderMap, to: String) {
    put(headers, LOCATION, to);
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// A value that was stored.
#[derive(Debug)]
pub enum Published {
    /// In a directory.
    File(Meta),
    /// In an S3 store, under this entity tag, quotes included.
    Tag(String),
}

impl Published {
    /// Its entity tag, quotes included.
    pub fn etag(&self) -> String {
        match self {
            Self::File(meta) => etag(*meta),
            Self::Tag(etag) => etag.clone(),
        }
    }

    /// Adds the validators of the stored value.
    pub fn describe(self, headers: &mut HeaderMap) {
        // With what every response has, so that the map of a PUT does not grow.
        headers.reserve(6);
        match self {
            Self::File(meta) => headers.extend(Validators::from(meta).headers()),
            Self::Tag(etag) => put(headers, ETAG, etag),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Version;

    proptest! {
        #[test]
        fn a_tag_is_the_version_and_the_length_in_hexadecimal_digits(
            nanos in prop_oneof![any::<i128>(), any::<i64>().prop_map(i128::from), Just(0)],
            len in prop_oneof![any::<u64>(), 0..300_u64],
        ) {
            let meta = Meta::new(len, Version::from_nanos(nanos));
            prop_assert_eq!(etag(meta), format!("\"{nanos:x}-{len:x}\""));
        }
    }
}
