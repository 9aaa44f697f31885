//! A version of a value as clients see it, and the answer with it: all of the value, some of it, or only what a cache
//! asks for.
//!
//! A [`Representation`] has the media type, the entity tag and the headers that every answer with the value carries. It
//! is made once for each open value and kept with it, so an answer from the cache only copies it. Statuses are not
//! known here.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::time::SystemTime;

use httpdate::fmt_http_date;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};

use crate::http::body::Content;
use crate::http::body::response::Body;
use crate::http::body::sources::Encoded;
use crate::http::fields::StoredFields;
use crate::http::fields::media;
use crate::http::head::range::{MAX_PARTS, Multipart, content_range, multipart_type};
use crate::http::head::syntax::put;
use crate::http::response::{Reply, empty, plain};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::Selection;
use crate::http::values::digest_fields::REPR_DIGEST;
use crate::store::{Current, DATE, Found, GZIP, Key, Published, Validators, coded_tag};

/// A stored page must not act as this origin, nor have its reader's browser ask other servers: it is of no origin, runs
/// no script, sends no form, and loads nothing but images and styles of this one.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'",
);

/// The representation of a value.
#[derive(Clone, Debug)]
pub struct Representation {
    /// The headers of an answer with all of the value.
    headers: HeaderMap,
    etag: String,
    /// The entity tag of the compressed representation, where there may be one; of a sibling, that of the value itself.
    variant: Option<String>,
    /// The value may have siblings.
    pub has_siblings: bool,
    media_type: Cow<'static, str>,
    modified: SystemTime,
}

impl Representation {
    pub fn new(
        Validators { etag, modified }: Validators,
        media_type: Cow<'static, str>,
        fields: StoredFields,
        config: &ServiceConfig,
        key: &Key<'_>,
    ) -> Self {
        let site = config.sites.of(key.as_str());
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
        put(&mut headers, ETAG, etag.clone());
        put(&mut headers, LAST_MODIFIED, fmt_http_date(modified));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(value) = &config.cache_control {
            headers.insert(CACHE_CONTROL, value.clone());
        }
        let may_transform = fields.may_transform();
        // A field of the value replaces the operator's.
        for (name, value) in fields.0 {
            headers.insert(name, value);
        }
        if media::is_active(&media_type) && !site.is_some_and(|site| site.scripts) {
            headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        }
        let may_be_coded =
            media::is_compressible(&media_type) && !headers.contains_key(CONTENT_ENCODING);
        let is_compressible = config.compress && may_be_coded && may_transform;
        let has_siblings = site.is_some() && may_be_coded;
        let varies_by = match (is_compressible || has_siblings, config.authorizes) {
            (true, true) => Some("accept-encoding, authorization"),
            (true, false) => Some("accept-encoding"),
            (false, true) => Some("authorization"),
            (false, false) => None,
        };
        if let Some(names) = varies_by {
            headers.insert(VARY, HeaderValue::from_static(names));
        }
        Self {
            headers,
            variant: is_compressible.then(|| coded_tag(&etag, GZIP)),
            has_siblings,
            etag,
            media_type,
            modified,
        }
    }

    /// This representation in a `coding`, as the sibling with these validators has it.
    fn coded(&self, coding: &'static str, Validators { etag, modified }: Validators) -> Self {
        let (mut headers, etag) = (self.headers.clone(), coded_tag(&etag, coding));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        put(&mut headers, ETAG, etag.clone());
        put(&mut headers, LAST_MODIFIED, fmt_http_date(modified));
        Self {
            headers,
            etag,
            // A client that names the value as it is, as the page does, has the current one.
            variant: Some(self.etag.clone()),
            has_siblings: false,
            media_type: self.media_type.clone(),
            modified,
        }
    }

    /// True where the server may compress the value.
    pub fn is_compressible(&self) -> bool {
        self.variant.is_some() && !self.is_coded()
    }

    /// The length of an answer with these `parts` of the value, which has `len` bytes.
    pub fn len_of(&self, parts: &[Range<u64>], len: u64) -> u64 {
        Multipart::new(parts, len, &self.media_type, &boundary()).len
    }

    /// True where the value was stored in a content coding.
    pub fn is_coded(&self) -> bool {
        self.headers.contains_key(CONTENT_ENCODING)
    }

    /// The headers of a 304: those that a cache needs to find its answer (RFC 9110, section 15.4.5), and the policy of
    /// the page.
    fn not_modified(&self, etag: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        put(&mut headers, ETAG, etag.to_owned());
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

/// The most parts of a value of an S3 store: each is a request to the store.
const MAX_REMOTE_PARTS: usize = 16;

/// Values shorter than this are sent as they are: the coding would save less than it costs.
pub const MIN_COMPRESSED: u64 = 1 << 10;

/// A value, as it is represented.
pub struct RepresentedValue {
    pub found: Found,
    /// The representation of an object, a sibling or an index; that of another file is kept with the file.
    own: Option<Box<Representation>>,
}

impl RepresentedValue {
    /// `found`, the value of `key`, as it is represented under `config`.
    pub fn new(found: Found, key: &Key<'_>, config: &ServiceConfig) -> Self {
        let represent = |validators, fields: &[u8], stored, is_utf8| {
            let fields = StoredFields::decode(fields, &config.kept_fields);
            let fields = fields.with_coding_of(key.as_str());
            // The charset is that of the text, and not of its coded bytes.
            let is_utf8 = is_utf8 && !fields.has_coding();
            let media_type = media::of(key.as_str(), stored, is_utf8);
            Representation::new(validators, media_type, fields, config, key)
        };
        let own = match &found {
            Found::File(object) => {
                object.note(|| {
                    let fields = object.fields.as_deref().unwrap_or_default();
                    let stored = object.media_type.as_deref();
                    represent(object.meta.into(), fields, stored, object.is_utf8)
                });
                None
            }
            Found::Object(object) => {
                let (meta, validators) = (&object.meta, validators(&found));
                let stored = meta.media_type.as_deref();
                Some(Box::new(represent(validators, &meta.fields, stored, false)))
            }
        };
        Self { found, own }
    }

    /// The value as its sibling `found` has it in a `coding`; `None` where the sibling can be older. A store of objects
    /// has times in seconds: two of one second can be in either order.
    pub fn coded(&self, found: Found, coding: &'static str) -> Option<Self> {
        let (validators, plain) = (validators(&found), self.representation());
        let is_current = match (&found, &self.found) {
            (Found::File(sibling), Found::File(value)) => sibling.meta.is_made_from(&value.meta),
            _ => validators.modified > plain.modified,
        };
        is_current.then(|| Self {
            found,
            own: Some(Box::new(plain.coded(coding, validators))),
        })
    }

    /// Tells caches that the address has more than this value: a listing, for clients that prefer one by `Accept`.
    pub fn vary_by_accept(&mut self) {
        let mut own = self.representation().clone();
        let names = own.headers.get(VARY).and_then(|names| names.to_str().ok());
        let names = names.map_or_else(|| "accept".to_owned(), |names| format!("accept, {names}"));
        put(&mut own.headers, VARY, names);
        self.own = Some(Box::new(own));
    }

    pub fn representation(&self) -> &Representation {
        let noted = match (&self.own, &self.found) {
            (Some(own), _) => Some(&**own),
            (None, Found::File(object)) => object.noted(),
            (None, Found::Object(_)) => None,
        };
        noted.expect("a value that is shown has a representation")
    }

    /// The most parts of one answer.
    pub fn max_parts(&self) -> usize {
        match self.found {
            Found::File(_) => MAX_PARTS,
            Found::Object(_) => MAX_REMOTE_PARTS,
        }
    }

    /// The content of a body with one range of the value.
    fn part(&mut self, range: Range<u64>) -> Content {
        Content::of(&mut self.found, range)
    }
}

pub fn validators(found: &Found) -> Validators {
    match found {
        Found::File(object) => object.meta.into(),
        Found::Object(object) => Validators {
            etag: object.meta.etag.clone(),
            modified: object.meta.modified,
        },
    }
}

/// A value that answers a request, and what of it is sent.
pub struct ValueResponse {
    pub value: RepresentedValue,
    pub selection: Selection,
    /// The digest of all of the value, as a field.
    pub digest: Option<String>,
    /// The value compressed, which is sent in place of the whole.
    pub encoded: Option<Box<Encoded>>,
}

/// A delimiter of parts: random, so that no value holds it but by an accident that will not happen.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("part-{:016x}{:016x}", random(), random())
}

/// The reply with a value.
pub fn answered(response: ValueResponse) -> Reply {
    let ValueResponse {
        mut value,
        selection,
        digest,
        encoded,
    } = response;
    let (representation, len) = (value.representation(), value.found.len());
    let mut headers = match &selection {
        Selection::NotModified(etag) => representation.not_modified(etag),
        _ => representation.headers.clone(),
    };
    if let Some(digest) = digest {
        put(&mut headers, REPR_DIGEST, digest);
    }
    let mut response = match (selection, encoded) {
        (Selection::Whole, Some(encoded)) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(GZIP));
            put(&mut headers, ETAG, coded_tag(&representation.etag, GZIP));
            headers.remove(ACCEPT_RANGES);
            plain(StatusCode::OK, Body::of(Content::Encoded(encoded)))
        }
        (Selection::Whole, None) => plain(StatusCode::OK, Body::of(value.part(0..len))),
        (Selection::Part(range), _) => {
            put(&mut headers, CONTENT_RANGE, content_range(&range, len));
            plain(StatusCode::PARTIAL_CONTENT, Body::of(value.part(range)))
        }
        (Selection::Parts(ranges), _) => {
            let boundary = boundary();
            put(&mut headers, CONTENT_TYPE, multipart_type(&boundary));
            let framing = Multipart::new(&ranges, len, &representation.media_type, &boundary);
            let parts = Content::parts(framing, |range| value.part(range));
            plain(StatusCode::PARTIAL_CONTENT, Body::of(parts))
        }
        (Selection::NotModified(_), _) => empty(StatusCode::NOT_MODIFIED),
    };
    *response.headers_mut() = headers;
    Reply::of_value(response)
}

/// The reply to a request that stored its value; with a date, if that `has_date`, which clients of ownCloud are told.
pub fn stored(published: Published, has_date: bool) -> Reply {
    let reply = Reply::from(empty(StatusCode::OK));
    reply.with(|headers| {
        describe_stored(headers, published);
        if has_date {
            headers.insert(DATE, HeaderValue::from_static("accepted"));
        }
    })
}

/// Adds the validators of a value that was stored.
pub fn describe_stored(headers: &mut HeaderMap, stored: Published) {
    // With what every response has, so that the map of a PUT does not grow.
    headers.reserve(6);
    put(headers, ETAG, stored.etag);
    if let Some(modified) = stored.modified {
        put(headers, LAST_MODIFIED, fmt_http_date(modified));
    }
}
