//! What a refusal says besides its status and its text, and what may be done instead.

use hyper::header::{
    ALLOW, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION,
    WWW_AUTHENTICATE,
};

use crate::http::admin::page::Target;
use crate::http::head::raw::FramingError;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::cross_origin;
use crate::http::response::plain::{Offsets, put};
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::request::UPLOAD_METHODS;
use crate::http::values::range::unsatisfied;
use crate::http::watch::request::BadWatchRequest;
use crate::http::{uploads, watch};

/// The types of the problems that the draft defines.
pub const MISMATCHING_OFFSET: &str =
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
pub const INCONSISTENT_LENGTH: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";

/// The names of the problems that are who asks: the audit log has them, too.
pub const UNAUTHENTICATED: &str = "unauthenticated";
pub const NOT_ALLOWED: &str = "not-allowed";
pub const CERTIFICATE_ENDED: &str = "certificate-ended";
pub const BAD_LINK: &str = "bad-link";
pub const TOO_MANY_FAILURES: &str = "too-many-failures";
pub const CROSS_SITE: &str = "cross-site";
pub const FOREIGN_ORIGIN: &str = "foreign-origin";

/// A browser forgets the password that is answered so: no challenge takes it, and none has it ask for another.
const SIGNED_OUT: HeaderValue = HeaderValue::from_static("Bearer realm=\"signed out\"");

/// What may be done.
fn methods(of: Target, config: &ServiceConfig) -> HeaderValue {
    HeaderValue::from_static(match (of, config.read_only) {
        (Target::Values, true) => "GET, HEAD, OPTIONS",
        (Target::Values, false) => "GET, HEAD, PUT, DELETE, OPTIONS",
        (Target::Upload, _) => UPLOAD_METHODS,
        (Target::Forms, true) => "OPTIONS",
        (Target::Forms, false) => "POST, OPTIONS",
    })
}

/// Says in `headers` what may be done, for a client that asks or, if `preflight`, for a browser on behalf of a page.
pub fn describe_options(
    headers: &mut HeaderMap,
    preflight: bool,
    of: Target,
    context: &ResponseContext,
    config: &ServiceConfig,
) {
    let methods = methods(of, config);
    if of == Target::Upload {
        uploads::response::accept_parts(headers);
    }
    headers.insert(ALLOW, methods.clone());
    if config.announces_uploads() {
        uploads::response::tell_limit(headers, config);
    }
    if preflight && context.origin.is_some() {
        cross_origin::allow(headers, methods);
    }
}

/// Says in `headers` what a client can do about it.
pub fn explain(headers: &mut HeaderMap, why: &Rejection, config: &ServiceConfig) {
    match why {
        Rejection::Method if !config.compat => {
            headers.insert(ALLOW, methods(Target::Values, config));
        }
        Rejection::PageMethod(methods) => {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        Rejection::BadWatchRequest(BadWatchRequest::WebSocketVersion) => {
            headers.extend(watch::response::upgrade());
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        Rejection::Unsatisfiable { len } => put(headers, CONTENT_RANGE, unsatisfied(*len)),
        Rejection::TooLarge { .. } if config.announces_uploads() => {
            uploads::response::tell_limit(headers, config);
        }
        Rejection::NotPartialUpload => uploads::response::accept_parts(headers),
        Rejection::Unauthenticated { realm } => challenge(headers, realm),
        Rejection::SignedOut => {
            headers.insert(WWW_AUTHENTICATE, SIGNED_OUT);
        }
        Rejection::TooManyFailures { retry_after } => {
            headers.insert(RETRY_AFTER, (*retry_after).into());
        }
        Rejection::ChecksBusy => {
            headers.insert(RETRY_AFTER, 1.into());
        }
        _ => {}
    }
}

/// Says by what a client may prove who it is (RFC 9110, section 11.6.1). The realm is printable, and holds no quote.
fn challenge(headers: &mut HeaderMap, realm: &str) {
    for (scheme, rest) in [("Basic", ", charset=\"UTF-8\""), ("Bearer", "")] {
        let challenge = format!("{scheme} realm=\"{realm}\"{rest}");
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            headers.append(WWW_AUTHENTICATE, challenge);
        }
    }
}

/// Whether the connection ends with the refusal: where the request ends, or for whom it was, is in doubt.
pub fn ends_connection(why: &Rejection) -> bool {
    matches!(
        why,
        Rejection::BadHost
            | Rejection::BadTarget
            | Rejection::CutOff
            | Rejection::FramingError(FramingError::Late)
            | Rejection::CertificateEnded
    )
}

/// What a mismatching offset is told with.
pub fn offsets(why: &Rejection) -> Option<Offsets> {
    match why {
        &Rejection::MismatchingOffset { expected, provided } => Some(Offsets {
            expected_offset: expected,
            provided_offset: provided,
        }),
        _ => None,
    }
}
