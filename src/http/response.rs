//! From what happened to status, headers and body: the only room with status codes.
//!
//! What the C server answered and the honest answer stand side by side here, wherever they differ.

pub(super) mod body;
mod clock;
mod cross_origin;
pub(super) mod encoded;
pub(super) mod file_body;
pub(super) mod head_encoder;
pub(super) mod outcome;
pub(super) mod plain;
pub(super) mod representation;
mod value;

use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName,
    HeaderValue, LINK, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_VERSION, SERVER, UPGRADE,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use crate::http::admin;
use crate::http::request::head::FramingError;
use crate::http::request::operation::ResponseContext;
use crate::http::request::rejection::Rejection;
use crate::http::request::watch_request::BadWatchRequest;
use crate::http::response::body::{Body, EndlessBody};
use crate::http::response::outcome::{Outcome, ValueResponse};
use crate::http::response::plain::{close, empty, plain, problem, put};
use crate::http::response::representation::{NAME, validators};
use crate::http::response::value::Sent;
use crate::http::semantics::listing::ListFormat;
use crate::http::semantics::range::unsatisfied;
use crate::http::semantics::stored_fields::BadField;
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
    cross_origin::share(headers, context);
    response
}

/// The answer with a value.
fn value(sending: ValueResponse) -> Response<Body> {
    let (sent, headers, body) = value::sent(sending);
    let status = match sent {
        Sent::Whole => StatusCode::OK,
        Sent::Part => StatusCode::PARTIAL_CONTENT,
        Sent::Nothing => StatusCode::NOT_MODIFIED,
    };
    let mut response = plain(status, body);
    *response.headers_mut() = headers;
    response
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
        cross_origin::allow(headers, methods(config));
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
        Rejection::BadKey(store::BadKey::TooLong | store::BadKey::SegmentTooLong) => {
            (S::URI_TOO_LONG, "key-too-long")
        }
        Rejection::BadKey(_) | Rejection::BadEscape => (S::BAD_REQUEST, "bad-key"),
        Rejection::BadHost => (S::BAD_REQUEST, "bad-host"),
        Rejection::WrongHost(_) => (S::MISDIRECTED_REQUEST, "wrong-host"),
        Rejection::CrossSite(_) => (S::FORBIDDEN, "cross-site"),
        Rejection::BadTarget => (S::BAD_REQUEST, "bad-target"),
        Rejection::CutOff => (S::BAD_REQUEST, "body-cut-off"),
        Rejection::PartialPut => (S::BAD_REQUEST, "partial-put"),
        Rejection::BadField(BadField::Framing) => (S::UNSUPPORTED_MEDIA_TYPE, "content-coding"),
        Rejection::BadField(_) => (S::BAD_REQUEST, "bad-field"),
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
        E::Occupied(_) => (S::CONFLICT, "occupied"),
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
