//! Interim responses, as the bytes that a connection sends: hyper sends none but 100.

use bytes::Bytes;

use crate::http::request::uploads::location;
use crate::http::response::uploads::limit;
use crate::http::semantics::upload_fields::INTEROP;
use crate::http::service_config::ServiceConfig;
use crate::store::UploadId;

/// What tells a client that waits to send its body (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What tells a client where its upload can be resumed (draft-ietf-httpbis-resumable-upload, "Status Code 104").
pub(in crate::http) fn resumption_supported(id: UploadId, config: &ServiceConfig) -> Bytes {
    let (location, limit) = (location(id), limit(config));
    let head = format!(
        "HTTP/1.1 104 Upload Resumption Supported\r\nupload-draft-interop-version: {INTEROP}\r\n\
         location: {location}\r\nupload-limit: {limit}\r\n\r\n"
    );
    head.into()
}
