//! What responses say of resumable uploads (draft-ietf-httpbis-resumable-upload, "State").

use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, LOCATION};

use crate::http::response::outcome::UploadState;
use crate::http::response::plain::put;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::fields::{
    self, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_OFFSET, boolean,
};

/// Which media types PATCH takes (RFC 5789, section 3.1).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// Says in `headers` where an upload stands.
pub fn describe(headers: &mut HeaderMap, state: UploadState, config: &ServiceConfig) {
    headers.insert(UPLOAD_COMPLETE, boolean(state.complete));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(offset) = state.offset {
        headers.insert(UPLOAD_OFFSET, offset.into());
    }
    if let Some(length) = state.length {
        headers.insert(UPLOAD_LENGTH, length.into());
    }
    if let Some(address) = state.location {
        put(headers, LOCATION, address.to_string());
    }
    tell_limit(headers, config);
}

/// Says in `headers` that uploads can be resumed, and within which limits.
pub fn tell_limit(headers: &mut HeaderMap, config: &ServiceConfig) {
    put(headers, UPLOAD_LIMIT, limit(config));
}

/// Says in `headers` what an upload resource takes.
pub fn accept_parts(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_PATCH, HeaderValue::from_static(PARTIAL_UPLOAD));
}

pub fn limit(config: &ServiceConfig) -> String {
    fields::limit(config.limits.max_body, config.limits.expiry)
}
