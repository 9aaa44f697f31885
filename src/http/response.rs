//! From what happened to status, headers and body: the only room with status codes.
//!
//! What the C server answered and the honest answer stand side by side here, wherever they differ.

pub mod clock;
pub mod cross_origin;
pub mod head_encoder;
pub mod outcome;
pub mod plain;
pub mod privacy;

use hyper::body::Body as _;
use hyper::header::{
    CONTENT_LENGTH, HeaderMap, HeaderValue, RETRY_AFTER, SERVER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use crate::http::admin;
use crate::http::body::response::Body;
use crate::http::forms;
use crate::http::head::raw::FramingError;
use crate::http::listing;
use crate::http::refusal;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{FormStored, Outcome};
use crate::http::response::plain::{close, empty, plain, problem, problem_with, with};
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::http::ui;
use crate::http::uploads;
use crate::http::values;
use crate::http::values::representation::NAME;
use crate::http::values::response::Sent;
use crate::http::values::stored_fields::BadField;
use crate::http::watch;
use crate::http::watch::request::BadWatchRequest;
use crate::store;

/// The answer to a request.
pub fn render(
    outcome: Outcome,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    let is_value = matches!(outcome, Outcome::Value(_) | Outcome::Remote(_));
    let mut response = respond(outcome, context, config);
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the answer to HEAD when the body is empty.
        let none = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, none);
    }
    // A value's own headers say it already, but for 304, which says less.
    let has_manners = is_value && response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if !has_manners {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(SERVER, NAME);
    }
    cross_origin::share(headers, context);
    privacy::protect(headers, context.proof.as_deref(), is_value);
    response
}

/// What tells a client over HTTP/2 that it may send its body; over HTTP/1 it is [`uploads::interim::CONTINUE`].
pub fn go_on() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    response
}

/// Whether a response says how long its body is (RFC 9110, section 8.6).
fn has_length(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The response to `outcome`, without what every response has.
fn respond(outcome: Outcome, context: &ResponseContext, config: &ServiceConfig) -> Response<Body> {
    match outcome {
        Outcome::Value(sending) => value(values::response::sent(sending)),
        Outcome::Remote(sending) => value(values::response::sent_remotely(*sending)),
        Outcome::Page(page) => own_page(page),
        Outcome::Stored(published) | Outcome::Completed(_, published) => {
            with(empty(StatusCode::OK), |headers| {
                values::response::describe_published(headers, published);
            })
        }
        Outcome::Discarded | Outcome::Deleted => empty(StatusCode::OK),
        Outcome::NoValue => problem(StatusCode::NOT_FOUND, "no-such-key", "no such key", context),
        Outcome::Listed { text, format, next } => {
            with(plain(StatusCode::OK, Body::bytes(text)), |headers| {
                listing::response::describe(headers, format, next, config);
            })
        }
        Outcome::Home {
            document,
            next,
            is_known,
        } => page(document, next, is_known),
        Outcome::Moved { to } => with(empty(StatusCode::FOUND), |headers| {
            listing::response::describe_move(headers, to);
        }),
        Outcome::Elsewhere { to } => elsewhere(to),
        Outcome::FormStored(stored) => form_stored(&stored),
        Outcome::FormHalted(halted) => {
            let (why, context) = forms::response::halted(*halted, context);
            respond(why, &context, config)
        }
        Outcome::Options { preflight, of } => with(empty(StatusCode::NO_CONTENT), |headers| {
            refusal::table::describe_options(headers, preflight, of, context, config);
        }),
        Outcome::Nothing | Outcome::Cancelled(_) => empty(StatusCode::NO_CONTENT),
        Outcome::UploadCreated => empty(StatusCode::CREATED),
        Outcome::Upload(outcome, state) => with(respond(*outcome, context, config), |headers| {
            uploads::response::describe(headers, state, config);
        }),
        Outcome::Subscribed(events) => {
            let response = plain(StatusCode::OK, Body::endless(events));
            with(response, watch::response::announce_events)
        }
        Outcome::Upgraded(accept) => with(empty(StatusCode::SWITCHING_PROTOCOLS), |headers| {
            watch::response::accept_websocket(headers, accept);
        }),
        Outcome::Refused(why) => refused(&why, context, config),
        Outcome::Failed(error) => failed(&error, context, config),
        Outcome::Panicked => panicked(context),
    }
}

/// The answer with a value.
fn value((sent, headers, body): (Sent, HeaderMap, Body)) -> Response<Body> {
    let status = match sent {
        Sent::Whole => StatusCode::OK,
        Sent::Part => StatusCode::PARTIAL_CONTENT,
        Sent::Nothing => StatusCode::NOT_MODIFIED,
    };
    let mut response = plain(status, body);
    *response.headers_mut() = headers;
    response
}

/// One of the server's own pages.
fn own_page(page: admin::PageText) -> Response<Body> {
    let status = if page.is_good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let response = plain(status, Body::bytes(page.body));
    with(response, |headers| {
        admin::response::describe(headers, page.media_type);
    })
}

fn page(document: ui::Document, next: Option<String>, is_known: bool) -> Response<Body> {
    let response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        plain(StatusCode::OK, Body::bytes(document.html))
    };
    with(response, |headers| {
        listing::response::describe_page(headers, &document.etag, document.is_gzip, next);
    })
}

/// The value is where the store has it.
fn elsewhere(to: String) -> Response<Body> {
    let body = Body::bytes(values::response::ELSEWHERE);
    with(plain(StatusCode::TEMPORARY_REDIRECT, body), |headers| {
        values::response::describe_elsewhere(headers, to);
    })
}

/// All files of a form were stored: the page of their folder, or what they are.
fn form_stored(stored: &FormStored) -> Response<Body> {
    if stored.wants_page {
        let response = empty(StatusCode::SEE_OTHER);
        return with(response, |headers| {
            forms::response::lead_to_folder(headers, &stored.folder);
        });
    }
    let response = plain(
        StatusCode::OK,
        Body::bytes(forms::response::json(&stored.files)),
    );
    with(response, forms::response::describe_json)
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
        Rejection::KeyTooDeep { .. } => (S::BAD_REQUEST, "key-too-deep"),
        Rejection::BadKey(_) | Rejection::BadEscape => (S::BAD_REQUEST, "bad-key"),
        Rejection::BadHost => (S::BAD_REQUEST, "bad-host"),
        Rejection::WrongHost(_) => (S::MISDIRECTED_REQUEST, "wrong-host"),
        Rejection::CrossSite(_) => (S::FORBIDDEN, refusal::table::CROSS_SITE),
        Rejection::BadTarget => (S::BAD_REQUEST, "bad-target"),
        Rejection::CutOff => (S::BAD_REQUEST, "body-cut-off"),
        Rejection::OtherStore(_) => (S::NOT_IMPLEMENTED, "other-store"),
        Rejection::PartialPut => (S::BAD_REQUEST, "partial-put"),
        Rejection::BadField(BadField::Framing) => (S::UNSUPPORTED_MEDIA_TYPE, "content-coding"),
        Rejection::BadField(_) => (S::BAD_REQUEST, "bad-field"),
        Rejection::BadForm(_) => (S::BAD_REQUEST, "bad-form"),
        Rejection::NoForm => (S::UNSUPPORTED_MEDIA_TYPE, "no-form"),
        Rejection::BadDigest(_) => (S::BAD_REQUEST, "bad-digest"),
        Rejection::DigestMismatch => (S::BAD_REQUEST, "digest-mismatch"),
        Rejection::Unsatisfiable { .. } => (S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable"),
        Rejection::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        Rejection::FramingError(FramingError::Line) => (S::BAD_REQUEST, "bad-head"),
        Rejection::FramingError(FramingError::Http2) => {
            (S::HTTP_VERSION_NOT_SUPPORTED, "http2-off")
        }
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
        Rejection::Unauthenticated { .. } => (S::UNAUTHORIZED, refusal::table::UNAUTHENTICATED),
        Rejection::SignedOut => (S::UNAUTHORIZED, ui::SIGNED_OUT),
        Rejection::NotAllowed(_) => (S::FORBIDDEN, refusal::table::NOT_ALLOWED),
        Rejection::CertificateEnded => (S::FORBIDDEN, refusal::table::CERTIFICATE_ENDED),
        Rejection::BadLink(_) => (S::FORBIDDEN, refusal::table::BAD_LINK),
        Rejection::TooManyFailures { .. } => {
            (S::TOO_MANY_REQUESTS, refusal::table::TOO_MANY_FAILURES)
        }
        Rejection::ChecksBusy => (S::SERVICE_UNAVAILABLE, "checks-busy"),
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
            (S::FORBIDDEN, refusal::table::FOREIGN_ORIGIN)
        }
        Rejection::TooLarge { .. } => (S::PAYLOAD_TOO_LARGE, "too-large"),
        Rejection::NoSuchUpload => (S::NOT_FOUND, "no-such-upload"),
        Rejection::NotPartialUpload => (S::UNSUPPORTED_MEDIA_TYPE, "not-partial-upload"),
        Rejection::UploadField(_) => (S::BAD_REQUEST, "bad-upload-field"),
        Rejection::MismatchingOffset { .. } => (S::CONFLICT, refusal::table::MISMATCHING_OFFSET),
        Rejection::InconsistentLength => (S::BAD_REQUEST, refusal::table::INCONSISTENT_LENGTH),
        Rejection::UploadComplete => (S::CONFLICT, "upload-complete"),
        Rejection::UploadTaken => (S::CONFLICT, "upload-taken"),
    };
    let is_of_store = matches!(
        why,
        Rejection::OtherStore(_) | Rejection::BadField(BadField::Framing)
    );
    let mut response = if context.of_store && is_of_store && !context.problem {
        plain::store_error(status, why)
    } else {
        problem_with(status, name, why, refusal::table::offsets(why), context)
    };
    refusal::table::explain(response.headers_mut(), why, config);
    if refusal::table::ends_connection(why) {
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
        E::ReadOnly => (S::INSUFFICIENT_STORAGE, "file-system-read-only"),
        E::Exhausted { .. } => (S::SERVICE_UNAVAILABLE, "exhausted"),
        E::Displaced { .. } => (S::SERVICE_UNAVAILABLE, "directory-displaced"),
        E::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        E::Occupied(_) => (S::CONFLICT, "occupied"),
        E::Unsynced(why) => return failed(why, context, config),
        E::Incomplete => return refused(&Rejection::CutOff, context, config),
        // As the C server had it.
        E::Forbidden { .. } if config.compat => (S::INTERNAL_SERVER_ERROR, "forbidden"),
        E::Forbidden { .. } => (S::FORBIDDEN, "forbidden"),
        E::Truncated | E::Failed { .. } => (S::INTERNAL_SERVER_ERROR, "store-failed"),
        E::Unreachable { .. } => (S::SERVICE_UNAVAILABLE, "store-unreachable"),
        E::Busy { .. } => (S::SERVICE_UNAVAILABLE, "store-busy"),
        E::TimedOut => (S::GATEWAY_TIMEOUT, "store-timeout"),
        E::OutcomeUnknown { is_late: true } => (S::GATEWAY_TIMEOUT, "outcome-unknown"),
        E::OutcomeUnknown { is_late: false } => (S::BAD_GATEWAY, "outcome-unknown"),
        E::Refused { .. } => (S::INTERNAL_SERVER_ERROR, "store-refused"),
        E::BadGateway { .. } => (S::BAD_GATEWAY, "store-failed"),
        E::NotSupported { name, .. } => (S::NOT_IMPLEMENTED, *name),
        E::BadKey(_) => (S::BAD_REQUEST, "bad-key"),
    };
    let mut response = problem(status, name, error, context);
    if status == S::SERVICE_UNAVAILABLE {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, error.retry_after().into());
    }
    response
}

fn panicked(context: &ResponseContext) -> Response<Body> {
    let why = "the server failed on this request; its log says more";
    let mut response = problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", why, context);
    close(&mut response);
    response
}
