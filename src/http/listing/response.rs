//! Headers of listings: of a page of one, of the page for browsers, and of the way to that.

use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    LINK, LOCATION, VARY,
};

use crate::http::listing::query::ListFormat;
use crate::http::response::plain::put;
use crate::http::service_config::ServiceConfig;
use crate::http::ui;

/// An index of links loads nothing and runs nothing: a key that became markup would do nothing.
const NOTHING: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Describes a page of a listing in `headers`, and the `next` one.
pub fn describe(
    headers: &mut HeaderMap,
    format: ListFormat,
    next: Option<String>,
    config: &ServiceConfig,
) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    if format == ListFormat::Html {
        headers.insert(CONTENT_SECURITY_POLICY, NOTHING);
    }
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
}

/// Describes the page for browsers in `headers`, and the `next` one.
pub fn describe_page(headers: &mut HeaderMap, etag: &str, is_gzip: bool, next: Option<String>) {
    headers.extend(ui::headers(etag));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
}

/// Says in `headers` where the page is. Not for ever, for another client is answered where it asked.
pub fn describe_move(headers: &mut HeaderMap, to: String) {
    put(headers, LOCATION, to);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}
