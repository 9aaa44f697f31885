//! Interim responses. hyper sends none but 100: over HTTP/1.1 the connection sends the others as bytes.

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::header::{HeaderMap, HeaderValue};

use crate::http::service_config::ServiceConfig;
use crate::http::uploads::fields::INTEROP;
use crate::http::uploads::request::UploadAddress;
use crate::http::uploads::response::limit;

/// What tells a client that waits to send its body (RFC 9110, section 10.1.1).
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
