//! From what happened to status, headers and body: the only room with status codes.
//!
//! What the C server answered and the honest answer stand side by side here, wherever they differ.

pub(super) mod body;
mod clock;
pub(super) mod encoded;
pub(super) mod file_body;
pub(super) mod head_encoder;
pub(super) mod outcome;
pub(super) mod representation;

use std::hash::{BuildHasher, Hasher, RandomState};

use hyper::body::Body as _;
use hyper::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
    LINK, ORIGIN, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_VERSION, SERVER, UPGRADE, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::http::admin;
use crate::http::request::head::FramingError;
use crate::http::request::operation::ResponseContext;
use crate::http::request::rejection::Rejection;
use crate::http::request::watch_request::BadWatchRequest;
use crate::http::response::body::{Body, EndlessBody};
use crate::http::response::outcome::{Outcome, ValueResponse};
use crate::http::response::representation::{NAME, Representation, validators};
use crate::http::semantics::coding::variant;
use crate::http::semantics::digest_fields::REPR_DIGEST;
use crate::http::semantics::listing::ListFormat;
use crate::http::semantics::multipart;
use crate::http::semantics::multipart::Multipart;
use crate::http::semantics::range::{content_range, unsatisfied};
use crate::http::semantics::select::Selection;
use crate::http::service_config::ServiceConfig;
use crate::http::ui;
use crate::store;

/// What may be done.
fn methods(config: &ServiceConfig) -> HeaderValue {
    HeaderValue::from_static(if config.read_only {
        "GET, HEAD, OPTIONS"
    } else {
        "GET, HEAD, PUT, DELETE, OPTIONS"
    })
}

/// Headers of requests and answers that pages of other origins may send and read.
const SENT: &str = "content-type, content-md5, content-digest, repr-digest, want-repr-digest, if-match, if-none-match, \
    if-modified-since, if-unmodified-since, if-range, range, last-event-id, x-request-id, traceparent";
const READ: &str = "etag, last-modified, content-range, accept-ranges, repr-digest, link, retry-after, x-request-id, \
    server-timing";

/// The answer to a request.
pub(super) fn render(
    outcome: Outcome,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    let is_value = matches!(outcome, Outcome::Value(_));
    let mut response = match outcome {
        Outcome::Value(sending) => value(sending),
        Outcome::Page(page) => own_page(page),
        Outcome::Stored(version) => {
            let mut response = empty(StatusCode::OK);
            response.headers_mut().extend(validators(version));
            response
        }
        Outcome::Discarded | Outcome::Deleted => empty(StatusCode::OK),
        Outcome::NoValue => problem(StatusCode::NOT_FOUND, "no-such-key", "no such key", context),
        Outcome::Listed { text, format, next } => listed(text, format, next, config),
        Outcome::Home { is_known } => page(is_known),
        Outcome::Options { preflight } => options(preflight, context, config),
        Outcome::Subscribed(events) => subscribed(events),
        Outcome::Upgraded(accept) => upgraded(accept),
        Outcome::Refused(why) => refused(&why, context, config),
        Outcome::Failed(error) => failed(&error, context, config),
        Outcome::Panicked => panicked(context),
    };
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the answer to HEAD when the body is empty.
        let empty = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, empty);
    }
    // A value's own headers say it already, but for 304, which says less.
    let has_manners = is_value && response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if !has_manners {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(SERVER, NAME);
    }
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
    response
}

/// The answer with a value.
fn value(sending: ValueResponse) -> Response<Body> {
    let ValueResponse {
        value,
        selection,
        digest,
        encoded,
    } = sending;
    let representation = value.representation();
    let len = value.object().meta().len;
    let mut headers = match &selection {
        Selection::NotModified(etag) => not_modified(representation, etag),
        _ => representation.headers.clone(),
    };
    if let Some(digest) = digest {
        put(&mut headers, REPR_DIGEST, digest);
    }
    let (status, body) = match (selection, encoded) {
        (Selection::Whole, Some((coding, encoded))) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
            put(&mut headers, ETAG, variant(&representation.etag, coding));
            headers.remove(ACCEPT_RANGES);
            (StatusCode::OK, Body::encoded(encoded))
        }
        (Selection::Part(range), _) => {
            put(&mut headers, CONTENT_RANGE, content_range(&range, len));
            let body = Body::part(value.into_object(), range);
            (StatusCode::PARTIAL_CONTENT, body)
        }
        (Selection::Parts(ranges), _) => {
            let boundary = boundary();
            let parts = Multipart::new(&ranges, len, &representation.media_type, &boundary);
            put(
                &mut headers,
                CONTENT_TYPE,
                multipart::content_type(&boundary),
            );
            let body = Body::parts(value.object(), parts);
            (StatusCode::PARTIAL_CONTENT, body)
        }
        (Selection::NotModified(_), _) => (StatusCode::NOT_MODIFIED, Body::empty()),
        (Selection::Whole, None) => (StatusCode::OK, Body::part(value.into_object(), 0..len)),
    };
    let mut response = plain(status, body);
    *response.headers_mut() = headers;
    response
}

/// RFC 9110, section 15.4.5: what a cache needs to know which of its answers is still good; and how it is to be shown.
fn not_modified(representation: &Representation, etag: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    put(&mut headers, ETAG, etag.to_owned());
    for name in [LAST_MODIFIED, CACHE_CONTROL, VARY, CONTENT_SECURITY_POLICY] {
        if let Some(value) = representation.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    headers
}

/// Random, so that no value holds it but by an accident that will not happen.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("part-{:016x}{:016x}", random(), random())
}

fn listed(
    text: Vec<u8>,
    format: ListFormat,
    next: Option<String>,
    config: &ServiceConfig,
) -> Response<Body> {
    let mut response = plain(StatusCode::OK, Body::bytes(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
    response
}

/// One of the server's own pages, which are true at this moment only.
fn own_page(page: admin::PageText) -> Response<Body> {
    let status = if page.is_good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut response = plain(status, Body::bytes(page.body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn page(is_known: bool) -> Response<Body> {
    let mut response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        plain(StatusCode::OK, Body::bytes(ui::document()))
    };
    response.headers_mut().extend(ui::headers());
    response
}

fn subscribed(events: Box<dyn EndlessBody>) -> Response<Body> {
    let mut response = plain(StatusCode::OK, Body::endless(events));
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static("text/event-stream");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Else nginx keeps events back until it has many.
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
    response
}

fn upgraded(accept: String) -> Response<Body> {
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    response.headers_mut().extend(upgrade());
    put(response.headers_mut(), SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// RFC 9110, section 7.8: who sends Upgrade sends Connection with it.
fn upgrade() -> [(HeaderName, HeaderValue); 2] {
    [
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
    ]
}

fn options(preflight: bool, context: &ResponseContext, config: &ServiceConfig) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ALLOW, methods(config));
    if preflight && context.origin.is_some() {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods(config));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    }
    response
}

fn refused(why: &Rejection, context: &ResponseContext, config: &ServiceConfig) -> Response<Body> {
    use StatusCode as S;
    let (status, name) = match why {
        Rejection::NoKey if config.compat => return empty(S::NO_CONTENT),
        Rejection::NothingToStore => return empty(S::NOT_MODIFIED),
        Rejection::NoSuchPath => (S::NOT_FOUND, "no-such-path"),
        Rejection::NoKey => (S::BAD_REQUEST, "no-key"),
        Rejection::BadKey(store::BadKey::TooLong) => (S::URI_TOO_LONG, "key-too-long"),
        Rejection::BadKey(_) | Rejection::BadEscape => (S::BAD_REQUEST, "bad-key"),
        Rejection::BadHost => (S::BAD_REQUEST, "bad-host"),
        Rejection::WrongHost(_) => (S::MISDIRECTED_REQUEST, "wrong-host"),
        Rejection::CrossSite(_) => (S::FORBIDDEN, "cross-site"),
        Rejection::BadTarget => (S::BAD_REQUEST, "bad-target"),
        Rejection::CutOff => (S::BAD_REQUEST, "body-cut-off"),
        Rejection::PartialPut => (S::BAD_REQUEST, "partial-put"),
        Rejection::ContentCoding => (S::UNSUPPORTED_MEDIA_TYPE, "content-coding"),
        Rejection::BadDigest(_) => (S::BAD_REQUEST, "bad-digest"),
        Rejection::DigestMismatch => (S::BAD_REQUEST, "digest-mismatch"),
        Rejection::Unsatisfiable { .. } => (S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable"),
        Rejection::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        Rejection::FramingError(FramingError::Line) => (S::BAD_REQUEST, "bad-head"),
        Rejection::FramingError(FramingError::Length | FramingError::Chunks) => {
            (S::BAD_REQUEST, "bad-framing")
        }
        Rejection::FramingError(FramingError::Coding) => (S::NOT_IMPLEMENTED, "transfer-coding"),
        Rejection::FramingError(FramingError::Late) => (S::REQUEST_TIMEOUT, "request-timeout"),
        Rejection::FramingError(FramingError::TooLarge) => {
            (S::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large")
        }
        Rejection::LengthRequired => (S::LENGTH_REQUIRED, "length-required"),
        Rejection::Expectation => (S::EXPECTATION_FAILED, "expectation"),
        Rejection::Method if config.compat => (S::NOT_FOUND, "method"),
        Rejection::Method | Rejection::PageMethod(_) => (S::METHOD_NOT_ALLOWED, "method"),
        Rejection::ReadOnly => (S::FORBIDDEN, "read-only"),
        Rejection::BadQuery(_)
        | Rejection::BadWatchRequest(BadWatchRequest::Prefix | BadWatchRequest::Since) => {
            (S::BAD_REQUEST, "bad-query")
        }
        Rejection::BadWatchRequest(BadWatchRequest::Handshake(_)) => {
            (S::BAD_REQUEST, "bad-handshake")
        }
        Rejection::BadWatchRequest(BadWatchRequest::WebSocketVersion) => {
            (S::UPGRADE_REQUIRED, "websocket-version")
        }
        Rejection::BadWatchRequest(BadWatchRequest::ForeignOrigin(_)) => {
            (S::FORBIDDEN, "foreign-origin")
        }
        Rejection::TooLarge { .. } => (S::PAYLOAD_TOO_LARGE, "too-large"),
    };
    let mut response = problem(status, name, why, context);
    if status == S::METHOD_NOT_ALLOWED {
        let allowed = match why {
            Rejection::PageMethod(methods) => HeaderValue::from_static(methods),
            _ => methods(config),
        };
        response.headers_mut().insert(ALLOW, allowed);
    }
    if status == S::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.extend(upgrade());
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    if let Rejection::Unsatisfiable { len } = why {
        put(response.headers_mut(), CONTENT_RANGE, unsatisfied(*len));
    }
    if matches!(
        why,
        Rejection::BadHost | Rejection::BadTarget | Rejection::CutOff
    ) {
        close(&mut response);
    }
    response
}

fn failed(
    error: &store::Error,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    use StatusCode as S;
    use store::Error as E;
    let (status, name) = match error {
        E::NoSpace { .. } | E::TooLarge => (S::INSUFFICIENT_STORAGE, "no-space"),
        E::Exhausted { .. } => (S::SERVICE_UNAVAILABLE, "exhausted"),
        E::Displaced { .. } => (S::SERVICE_UNAVAILABLE, "directory-displaced"),
        E::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        E::NotAFile => (S::CONFLICT, "occupied"),
        E::Incomplete => return refused(&Rejection::CutOff, context, config),
        // As the C server had it.
        E::Forbidden { .. } if config.compat => (S::INTERNAL_SERVER_ERROR, "forbidden"),
        E::Forbidden { .. } => (S::FORBIDDEN, "forbidden"),
        E::Truncated | E::Failed { .. } => (S::INTERNAL_SERVER_ERROR, "store-failed"),
    };
    let mut response = problem(status, name, error, context);
    if status == S::SERVICE_UNAVAILABLE {
        let soon = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, soon);
    }
    response
}

fn panicked(context: &ResponseContext) -> Response<Body> {
    let why = "the server failed on this request; its log says more";
    let mut response = problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", why, context);
    close(&mut response);
    response
}

const TEXT: &str = "text/plain; charset=utf-8";

/// RFC 9457; docs/http.md lists the names.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
}

/// An error: one line that names the problem, or the same as `application/problem+json`. Caches may keep some errors and
/// guess for how long (RFC 9110, section 15.1), 404 among them; without a validator there is nothing to keep them for.
fn problem(
    status: StatusCode,
    name: &str,
    why: impl std::fmt::Display,
    context: &ResponseContext,
) -> Response<Body> {
    let (media_type, text) = if context.problem {
        let problem = Problem {
            r#type: format!("urn:data-server:problem:{name}"),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: why.to_string(),
        };
        let json = serde_json::to_string(&problem).unwrap_or_default();
        ("application/problem+json", json)
    } else {
        (TEXT, why.to_string())
    };
    let mut response = plain(status, Body::bytes(text + "\n"));
    let media_type = HeaderValue::from_static(media_type);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    plain(status, Body::empty())
}

/// All of our own texts are valid header values; one that is not is left out rather than fatal.
fn put(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// Ends the connection after `response`: what follows on it cannot be trusted, or told apart from an unread body.
pub(super) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
