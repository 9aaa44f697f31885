//! Headers of the server's own pages.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};

/// Describes one of the server's own pages in `headers`: it is true at this moment only.
pub fn describe(headers: &mut HeaderMap, media_type: &'static str) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
