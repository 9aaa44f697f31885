//! From what happened to status, headers and body: the only room with status codes.
//!
//! What the C server answered and the honest answer stand side by side here, wherever they differ.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

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

use super::body::Body;
use super::digest_fields::REPR_DIGEST;
use super::encode::{Coding, Encoded, variant};
use super::head::Fault;
use super::home;
use super::link::Link;
use super::listing::Form;
use super::multipart::{self, Multipart};
use super::operation::Audience;
use super::outcome::Outcome;
use super::range::{content_range, unsatisfied};
use super::refusal::Refusal;
use super::representation::{NAME, Representation, representation, validators};
use super::rules::Rules;
use super::select::Selection;
use super::subscription::{BadAsk, Events};
use crate::store::{self, Key, Listing, Object};

/// What may be done.
fn methods(rules: &Rules) -> HeaderValue {
    HeaderValue::from_static(if rules.read_only {
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

/// What a whole value is answered with, by itself and as the first line of an answer.
pub(super) const OK: u16 = 200;
pub(super) const OK_LINE: &str = "HTTP/1.1 200 OK\r\n";

/// What is sent on a connection whose request did not arrive in time, without a request to answer.
pub const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    server: data-server\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 35\r\nconnection: close\r\n\r\n\
    the request did not arrive in time\n";

/// The answer to a request.
pub(super) fn render(outcome: Outcome, audience: &Audience, rules: &Rules) -> Response<Body> {
    // A value's own headers say it already, but for 304, which says less.
    let has_manners =
        matches!(&outcome, Outcome::Value(r) if r.status() != StatusCode::NOT_MODIFIED);
    let mut response = match outcome {
        Outcome::Value(response) | Outcome::Page(response) => response,
        Outcome::Stored(version) => {
            let mut response = empty(StatusCode::OK);
            response.headers_mut().extend(validators(version));
            response
        }
        Outcome::Discarded | Outcome::Deleted => empty(StatusCode::OK),
        Outcome::NoValue => problem(
            StatusCode::NOT_FOUND,
            "no-such-key",
            "no such key",
            audience,
        ),
        Outcome::Listed {
            listing,
            form,
            next,
        } => listed(&listing, form, next),
        Outcome::Home { is_known } => page(is_known),
        Outcome::Options { preflight } => options(preflight, audience, rules),
        Outcome::Subscribed(events) => subscribed(events),
        Outcome::Upgraded(accept) => upgraded(accept),
        Outcome::Refused(why) => refused(&why, audience, rules),
        Outcome::Failed(error) => failed(&error, audience),
        Outcome::Panicked => panicked(audience),
    };
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the answer to HEAD when the body is empty.
        let empty = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, empty);
    }
    let headers = response.headers_mut();
    if !has_manners {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(SERVER, NAME);
    }
    if let Some(origin) = &audience.origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(READ),
        );
    }
    if audience.varies {
        headers.append(VARY, ORIGIN.into());
    }
    response
}

/// The answer with all of `object`, the value of `key`: the way of a hot request.
pub(super) fn whole(
    object: Arc<Object>,
    key: &Key<'_>,
    compress: bool,
    link: &Rc<Link>,
) -> Response<Body> {
    let headers = representation(&object, key, compress).headers.clone();
    let len = object.meta().len;
    let mut response = Response::new(Body::part(object, 0..len, link));
    *response.headers_mut() = headers;
    response
}

/// A value as it is to be sent: what of it, and how.
pub(super) struct Sending<'a> {
    pub(super) object: Arc<Object>,
    pub(super) representation: &'a Representation,
    pub(super) selection: Selection,
    /// Of all of the value, as a field.
    pub(super) digest: Option<String>,
    pub(super) encoded: Option<(Coding, Encoded)>,
}

/// The answer with a value.
pub(super) fn value(sending: Sending<'_>, link: &Rc<Link>) -> Response<Body> {
    let Sending {
        object,
        representation,
        selection,
        digest,
        encoded,
    } = sending;
    let len = object.meta().len;
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
            (StatusCode::PARTIAL_CONTENT, Body::part(object, range, link))
        }
        (Selection::Parts(ranges), _) => {
            let boundary = boundary();
            let parts = Multipart::new(&ranges, len, &representation.media_type, &boundary);
            put(
                &mut headers,
                CONTENT_TYPE,
                multipart::content_type(&boundary),
            );
            let body = Body::parts(&object, parts, link);
            (StatusCode::PARTIAL_CONTENT, body)
        }
        (Selection::NotModified(_), _) => (StatusCode::NOT_MODIFIED, Body::empty()),
        (Selection::Whole, None) => (StatusCode::OK, Body::part(object, 0..len, link)),
    };
    let mut response = plain(status, body);
    *response.headers_mut() = headers;
    response
}

/// RFC 9110, section 15.4.5: what a cache needs to know which of its answers is still good; and how it is to be shown.
fn not_modified(representation: &Representation, etag: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    put(&mut headers, ETAG, etag.to_owned());
    for name in [LAST_MODIFIED, VARY, CONTENT_SECURITY_POLICY] {
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

fn listed(listing: &Listing, form: Form, next: Option<String>) -> Response<Body> {
    let mut response = plain(StatusCode::OK, Body::bytes(form.render(listing)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Some(next) = next {
        put(headers, LINK, next);
    }
    response
}

fn page(is_known: bool) -> Response<Body> {
    let mut response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        plain(StatusCode::OK, Body::bytes(home::document()))
    };
    response.headers_mut().extend(home::headers());
    response
}

fn subscribed(events: Box<Events>) -> Response<Body> {
    let mut response = plain(StatusCode::OK, Body::events(events));
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

fn options(preflight: bool, audience: &Audience, rules: &Rules) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ALLOW, methods(rules));
    if preflight && audience.origin.is_some() {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods(rules));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    }
    response
}

fn refused(why: &Refusal, audience: &Audience, rules: &Rules) -> Response<Body> {
    use StatusCode as S;
    let (status, name) = match why {
        Refusal::NoKey if rules.compat => return empty(S::NO_CONTENT),
        Refusal::NothingToStore => return empty(S::NOT_MODIFIED),
        Refusal::NoSuchPath => (S::NOT_FOUND, "no-such-path"),
        Refusal::NoKey => (S::BAD_REQUEST, "no-key"),
        Refusal::BadKey(store::BadKey::TooLong) => (S::URI_TOO_LONG, "key-too-long"),
        Refusal::BadKey(_) | Refusal::BadEscape => (S::BAD_REQUEST, "bad-key"),
        Refusal::BadHost => (S::BAD_REQUEST, "bad-host"),
        Refusal::WrongHost => (S::MISDIRECTED_REQUEST, "wrong-host"),
        Refusal::CrossSite => (S::FORBIDDEN, "cross-site"),
        Refusal::BadTarget => (S::BAD_REQUEST, "bad-target"),
        Refusal::CutOff => (S::BAD_REQUEST, "body-cut-off"),
        Refusal::PartialPut => (S::BAD_REQUEST, "partial-put"),
        Refusal::ContentCoding => (S::UNSUPPORTED_MEDIA_TYPE, "content-coding"),
        Refusal::BadDigest(_) => (S::BAD_REQUEST, "bad-digest"),
        Refusal::DigestMismatch => (S::BAD_REQUEST, "digest-mismatch"),
        Refusal::Unsatisfiable { .. } => (S::RANGE_NOT_SATISFIABLE, "range-not-satisfiable"),
        Refusal::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        Refusal::Fault(Fault::Line) => (S::BAD_REQUEST, "bad-head"),
        Refusal::Fault(Fault::Length | Fault::Chunks) => (S::BAD_REQUEST, "bad-framing"),
        Refusal::Fault(Fault::Coding) => (S::NOT_IMPLEMENTED, "transfer-coding"),
        Refusal::Fault(Fault::TooLarge) => (S::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large"),
        Refusal::LengthRequired => (S::LENGTH_REQUIRED, "length-required"),
        Refusal::Expectation => (S::EXPECTATION_FAILED, "expectation"),
        Refusal::Method if rules.compat => (S::NOT_FOUND, "method"),
        Refusal::Method | Refusal::PageMethod(_) => (S::METHOD_NOT_ALLOWED, "method"),
        Refusal::ReadOnly => (S::FORBIDDEN, "read-only"),
        Refusal::BadQuery(_) | Refusal::BadAsk(BadAsk::Prefix | BadAsk::Since) => {
            (S::BAD_REQUEST, "bad-query")
        }
        Refusal::BadAsk(BadAsk::Handshake(_)) => (S::BAD_REQUEST, "bad-handshake"),
        Refusal::BadAsk(BadAsk::WebSocketVersion) => (S::UPGRADE_REQUIRED, "websocket-version"),
        Refusal::BadAsk(BadAsk::ForeignOrigin) => (S::FORBIDDEN, "foreign-origin"),
        Refusal::TooLarge { .. } => (S::PAYLOAD_TOO_LARGE, "too-large"),
    };
    let mut response = problem(status, name, why, audience);
    if status == S::METHOD_NOT_ALLOWED {
        let allowed = match why {
            Refusal::PageMethod(methods) => HeaderValue::from_static(methods),
            _ => methods(rules),
        };
        response.headers_mut().insert(ALLOW, allowed);
    }
    if status == S::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.extend(upgrade());
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    if let Refusal::Unsatisfiable { len } = why {
        put(response.headers_mut(), CONTENT_RANGE, unsatisfied(*len));
    }
    if matches!(why, Refusal::BadHost | Refusal::BadTarget | Refusal::CutOff) {
        close(&mut response);
    }
    response
}

fn failed(error: &store::Error, audience: &Audience) -> Response<Body> {
    use StatusCode as S;
    use store::Error as E;
    let (status, name) = match error {
        E::NoSpace { .. } | E::TooLarge => (S::INSUFFICIENT_STORAGE, "no-space"),
        E::Exhausted { .. } => (S::SERVICE_UNAVAILABLE, "exhausted"),
        E::Precondition => (S::PRECONDITION_FAILED, "precondition-failed"),
        E::Occupied => (S::CONFLICT, "occupied"),
        E::BrokenOff => (S::BAD_REQUEST, "body-cut-off"),
        E::Truncated | E::Failed { .. } => (S::INTERNAL_SERVER_ERROR, "store-failed"),
    };
    let mut response = problem(status, name, error, audience);
    if status == S::SERVICE_UNAVAILABLE {
        let soon = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, soon);
    }
    response
}

fn panicked(audience: &Audience) -> Response<Body> {
    let why = "the server failed on this request; its log says more";
    let mut response = problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", why, audience);
    close(&mut response);
    response
}

const TEXT: &str = "text/plain; charset=utf-8";

/// RFC 9457; the README lists the names.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
}

/// An error: one line that names the problem, or the same as `application/problem+json`.
fn problem(
    status: StatusCode,
    name: &str,
    why: impl std::fmt::Display,
    audience: &Audience,
) -> Response<Body> {
    let (media_type, text) = if audience.problem {
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
    response.headers_mut().insert(CONTENT_TYPE, media_type);
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
