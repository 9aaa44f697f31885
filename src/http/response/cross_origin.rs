//! What lets pages of other origins use the server (CORS, the Fetch standard).

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderValue, ORIGIN, VARY,
};

use crate::http::service::operation::ResponseContext;

/// Headers of requests and answers that pages of other origins may send and read.
const SENT: &str = "authorization, content-type, content-encoding, content-language, \
    content-disposition, cache-control, content-md5, content-digest, repr-digest, want-repr-digest, if-match, if-none-match, \
    if-modified-since, if-unmodified-since, if-range, range, last-event-id, x-request-id, traceparent, upload-complete, upload-offset, \
    upload-length, upload-draft-interop-version";
const READ: &str = "etag, last-modified, content-encoding, content-disposition, content-range, accept-ranges, repr-digest, link, retry-after, x-request-id, \
    server-timing, location, upload-complete, upload-offset, upload-length, upload-limit";

/// Lets the page that asked read the response, if its origin is allowed.
pub fn share(headers: &mut HeaderMap, context: &ResponseContext) {
    if let Some(origin) = &context.origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(READ),
        );
    }
    if context.varies {
        headers.append(VARY, ORIGIN.into());
    }
}

/// The answer to a preflight request: these `methods`, for an hour.
pub fn allow(headers: &mut HeaderMap, methods: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
}
