//! Responses about resumable uploads (draft-ietf-httpbis-resumable-upload): the fields of responses, and the interim responses.
//! hyper sends none of those but 100: over HTTP/1.1 the connection sends the others as bytes.

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, LOCATION};

use crate::http::response::outcome::UploadState;
use crate::http::response::plain::put;
use crate::http::service_config::{ServiceConfig, UploadLimits};
use crate::http::uploads::request::{
    INTEROP, INTEROP_VERSION, MAX_INTEGER, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_LENGTH,
    UPLOAD_OFFSET, UploadAddress,
};

const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");

/// Which media types PATCH takes (RFC 5789, section 3.1).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// Says in `headers` where an upload stands.
pub fn describe(headers: &mut HeaderMap, state: UploadState, config: &ServiceConfig) {
    let complete = if state.complete { "?1" } else { "?0" };
    headers.insert(UPLOAD_COMPLETE, HeaderValue::from_static(complete));
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
    put(headers, UPLOAD_LIMIT, limit(&config.limits));
}

/// Says in `headers` what an upload resource takes.
pub fn accept_parts(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_PATCH, HeaderValue::from_static(PARTIAL_UPLOAD));
}

/// The value of Upload-Limit.
fn limit(of: &UploadLimits) -> String {
    let mut limits = Vec::new();
    if of.max_body <= MAX_INTEGER {
        limits.push(format!("max-size={}", of.max_body));
    }
    if !of.expiry.is_zero() {
        limits.push(format!("max-age={}", of.expiry.as_secs().min(MAX_INTEGER)));
    }
    if limits.is_empty() {
        // An empty field would not say that uploads can be resumed.
        limits.push("min-size=0".to_owned());
    }
    limits.join(", ")
}

/// The interim response that tells a client to send its body (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The fields that tell a client where its upload can be resumed (draft-ietf-httpbis-resumable-upload, "Status Code 104").
pub fn resumption_supported(address: UploadAddress, config: &ServiceConfig) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(INTEROP_VERSION, INTEROP.into());
    put(&mut headers, LOCATION, address.to_string());
    tell_limit(&mut headers, config);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::http::uploads::response::*;

    #[test]
    fn a_limit_is_never_empty() {
        let of = |max_body, seconds| {
            limit(&UploadLimits {
                max_body,
                expiry: Duration::from_secs(seconds),
                ..UploadLimits::default()
            })
        };
        assert_eq!(of(10, 86_400), "max-size=10, max-age=86400");
        assert_eq!(of(u64::MAX, 86_400), "max-age=86400");
        assert_eq!(of(u64::MAX, 0), "min-size=0");
    }
}
