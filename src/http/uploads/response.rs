//! Responses about resumable uploads (draft-ietf-httpbis-resumable-upload): the fields of responses, and the interim responses.
//! hyper sends none of those but 100: over HTTP/1.1 the connection sends the others as bytes.

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, LOCATION};

use crate::http::response::outcome::UploadState;
use crate::http::response::plain::put;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::fields::{
    self, INTEROP, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_OFFSET,
    boolean,
};
use crate::http::uploads::request::UploadAddress;

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

/// The interim response that tells a client to send its body (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The fields that tell a client where its upload can be resumed (draft-ietf-httpbis-resumable-upload, "Status Code 104").
pub fn resumption_supported(address: UploadAddress, config: &ServiceConfig) -> HeaderMap {
    let fields = [
        ("upload-draft-interop-version", INTEROP.to_string()),
        ("location", address.to_string()),
        ("upload-limit", limit(config)),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.insert(name, HeaderValue::try_from(value).expect("ASCII"));
    }
    headers
}

/// The response with these fields over HTTP/1.1.
pub fn in_http1(resumption_supported: &HeaderMap) -> Bytes {
    let mut head = BytesMut::from("HTTP/1.1 104 Upload Resumption Supported\r\n");
    for (name, value) in resumption_supported {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head.freeze()
}

/// The same over HTTP/2.
pub fn in_http2(resumption_supported: HeaderMap) -> Response<()> {
    let response = Response::builder().status(104).body(());
    let mut response = response.expect("a response");
    *response.headers_mut() = resumption_supported;
    response
}
