//! A version of a value as clients see it: its media type, entity tag, and the headers that every answer with it carries.
//!
//! Made once for each open value and kept with it: on the way of a hot request it is only copied.

use std::time::SystemTime;

use hyper::header::{
    ACCEPT_RANGES, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    LAST_MODIFIED, SERVER, VARY, X_CONTENT_TYPE_OPTIONS,
};

use super::conditional::Current;
use super::encode::{Coding, variant};
use super::media;
use super::response::OK_LINE;
use crate::store::{Key, Meta, Object, Version};

/// The name in the Server header.
pub(super) const NAME: HeaderValue = HeaderValue::from_static("data-server");

/// A stored page must not act as this origin, nor have its reader's browser ask other servers: it is of no origin, runs no
/// script, sends no form, and loads nothing but images and styles of this one.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'",
);

/// The line by which an answer says that it is the last of its connection.
pub(super) const CLOSE: &[u8] = b"connection: close\r\n";

/// See [`representation`].
#[derive(Debug)]
pub(super) struct Representation {
    /// Of an answer with all of the value.
    pub(super) headers: HeaderMap,
    /// The same as bytes.
    pub(super) head: Head,
    pub(super) etag: String,
    pub(super) variants: Vec<String>,
    pub(super) media_type: String,
    pub(super) modified: SystemTime,
    pub(super) is_compressible: bool,
}

/// The head of an answer with all of a value, as hyper writes it, up to the value of its Date.
#[derive(Debug)]
pub(super) struct Head {
    bytes: Box<[u8]>,
    /// Where [`CLOSE`] goes, if it does.
    connection: usize,
}

impl Head {
    fn new(headers: &HeaderMap, len: u64) -> Self {
        let mut bytes = OK_LINE.as_bytes().to_vec();
        for (name, value) in headers {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let connection = bytes.len();
        bytes.extend(format!("content-length: {len}\r\ndate: ").bytes());
        Self {
            bytes: bytes.into(),
            connection,
        }
    }

    /// What comes before and after [`CLOSE`].
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.connection)
    }
}

/// The entity tag of a version, quotes included: strong, as no two writes of a key share it.
pub(super) fn etag(version: Version) -> String {
    format!("\"{:x}\"", version.nanos())
}

/// The headers by which a version is known.
pub(super) fn validators(version: Version) -> [(hyper::header::HeaderName, HeaderValue); 2] {
    let header = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    [
        (ETAG, header(etag(version))),
        (
            LAST_MODIFIED,
            header(httpdate::fmt_http_date(date(version))),
        ),
    ]
}

/// The date of an HTTP header lies between 1970 and now (RFC 9110, section 8.8.2.1), whatever a hand has set.
fn date(version: Version) -> SystemTime {
    version
        .time()
        .clamp(SystemTime::UNIX_EPOCH, SystemTime::now())
}

impl Representation {
    fn new(meta: Meta, media_type: &str, compress: bool) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        let given = HeaderValue::try_from(media_type);
        headers.insert(
            CONTENT_TYPE,
            given.unwrap_or(HeaderValue::from_static(media::UNKNOWN)),
        );
        headers.extend(validators(meta.version));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if media::is_active(media_type) {
            headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        }
        let is_compressible = compress && media::is_compressible(media_type);
        if is_compressible {
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        headers.insert(SERVER, NAME);
        let etag = etag(meta.version);
        let variants = Coding::ALL.map(|coding| variant(&etag, coding));
        Self {
            head: Head::new(&headers, meta.len),
            headers,
            variants: if is_compressible {
                variants.into()
            } else {
                Vec::new()
            },
            etag,
            media_type: media_type.to_owned(),
            modified: date(meta.version),
            is_compressible,
        }
    }

    /// What preconditions are asked against, given to `ask`.
    pub(super) fn current<T>(&self, ask: impl FnOnce(Current<'_>) -> T) -> T {
        let variants: Vec<&str> = self.variants.iter().map(String::as_str).collect();
        ask(Current {
            etag: &self.etag,
            variants: &variants,
            modified: self.modified,
        })
    }
}

/// The representation of `object`, the value of `key`; `compress` when answers may be compressed.
pub(super) fn representation<'a>(
    object: &'a Object,
    key: &Key<'_>,
    compress: bool,
) -> &'a Representation {
    object.note(|| {
        let given = object.media_type().and_then(|t| media::check(t.as_bytes()));
        let media_type = given.unwrap_or_else(|| media::guess(key.as_str()));
        Representation::new(object.meta(), media_type, compress)
    })
}
