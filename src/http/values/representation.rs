//! A version of a value as clients see it: its media type, entity tag, and the headers that every answer with it carries.
//!
//! Made once for each open value and kept with it: on the way of a hot request it is only copied.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, LAST_MODIFIED, SERVER, VARY, X_CONTENT_TYPE_OPTIONS,
};

use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::Current;
use crate::http::values::encoded::gzip_tag;
use crate::http::values::media;
use crate::http::values::stored_fields::StoredFields;
use crate::store::{Key, Object, Version};

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
    /// Of an answer with all of the value.
    pub headers: HeaderMap,
    pub etag: String,
    pub variants: Vec<String>,
    pub media_type: Cow<'static, str>,
    pub modified: SystemTime,
    pub is_compressible: bool,
}

/// The entity tag of a version, quotes included: strong, as no two writes of a key share it.
pub fn etag(version: Version) -> String {
    // Each PUT tells one: so it grows no buffer.
    let mut text = String::with_capacity(2 + 32);
    let _ = write!(text, "\"{:x}\"", version.nanos());
    text
}

/// By what a version of a value is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// Quotes included.
    pub etag: String,
    pub modified: SystemTime,
}

impl From<Version> for Validators {
    /// The date of an HTTP header lies between 1970 and now (RFC 9110, section 8.8.2.1), whatever a hand has set.
    fn from(version: Version) -> Self {
        let now = SystemTime::now();
        Self {
            etag: etag(version),
            modified: version.time().clamp(SystemTime::UNIX_EPOCH, now),
        }
    }
}

impl Validators {
    /// The headers that tell them.
    pub fn headers(&self) -> [(hyper::header::HeaderName, HeaderValue); 2] {
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
        // Of the text of a guess no copies are counted, which all cores would share.
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
        // What came with the value wins over what the operator says of all values.
        for (name, value) in fields {
            headers.insert(name, value);
        }
        if media::is_active(&media_type) {
            headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        }
        let is_compressible = config.compress
            && media::is_compressible(&media_type)
            && !headers.contains_key(CONTENT_ENCODING);
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
            variants: if is_compressible {
                vec![gzip_tag(&etag)]
            } else {
                Vec::new()
            },
            etag,
            media_type,
            modified,
            is_compressible,
        }
    }

    /// Whether the value was stored in a content coding.
    pub fn is_coded(&self) -> bool {
        self.headers.contains_key(CONTENT_ENCODING)
    }

    /// RFC 9110, section 15.4.5: what a cache needs to know which of its answers is still good; and how it is to be shown.
    pub fn not_modified(&self, etag: &str) -> HeaderMap {
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

    /// What preconditions are asked against, given to `ask`.
    pub fn current<T>(&self, ask: impl FnOnce(Current<'_>) -> T) -> T {
        let variants: Vec<&str> = self.variants.iter().map(String::as_str).collect();
        ask(Current {
            etag: &self.etag,
            variants: &variants,
            modified: self.modified,
        })
    }
}

/// A value and its representation.
#[derive(Debug)]
pub struct ShownValue(Arc<Object>);

impl ShownValue {
    /// `object`, the value of `key`, as `config` have it.
    pub fn new(object: Arc<Object>, key: &Key<'_>, config: &ServiceConfig) -> Self {
        object.note(|| {
            let fields = object.fields().map(StoredFields::decode);
            let fields = fields.unwrap_or_default();
            // The charset is that of the text, and not of its coded bytes.
            let is_utf8 = object.is_utf8() && !fields.has_coding();
            let media_type = media::of(key.as_str(), object.media_type(), is_utf8);
            Representation::new(object.meta().version.into(), media_type, fields, config)
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

    pub fn into_object(self) -> Arc<Object> {
        self.0
    }
}
