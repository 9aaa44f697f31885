//! From what happened to status, headers and body: the only room with status codes.
//!
//! What the C server answered and the honest answer stand side by side here, wherever they differ.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, RETRY_AFTER, SERVER,
};
use hyper::{Response, StatusCode};

use super::body::Body;
use super::link::Link;
use super::listing;
use super::request::Refusal;
use crate::store::{self, Listing, Object, Version};

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Value {
        object: Arc<Object>,
        link: Rc<Link>,
    },
    Stored(Version),
    /// Received and dropped, as `--discard` asks.
    Discarded,
    Deleted,
    NoValue,
    Listed(Listing),
    Refused(Refusal),
    Failed(store::Error),
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<store::Error> for Outcome {
    fn from(error: store::Error) -> Self {
        Self::Failed(error)
    }
}

/// The answer to a request; `compat` answers as the C server did.
pub(super) fn render(outcome: Outcome, compat: bool) -> Response<Body> {
    let mut response = match outcome {
        Outcome::Value { object, link } => value(object, link),
        Outcome::Stored(version) => {
            let mut response = plain(StatusCode::OK, Body::empty());
            Validators::of(version).put_into(response.headers_mut());
            response
        }
        Outcome::Discarded | Outcome::Deleted => plain(StatusCode::OK, Body::empty()),
        Outcome::NoValue => refusal(StatusCode::NOT_FOUND, "no such key"),
        Outcome::Listed(listing) => with(listed(&listing), CONTENT_TYPE, "application/json"),
        Outcome::Refused(why) => refused(&why, compat),
        Outcome::Failed(error) => failed(&error),
    };
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the answer to HEAD when the body is empty.
        let empty = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, empty);
    }
    response
        .headers_mut()
        .insert(SERVER, HeaderValue::from_static("data-server"));
    response
}

/// What is sent on a connection whose request did not arrive in time, without a request to answer.
pub const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    server: data-server\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 35\r\nconnection: close\r\n\r\n\
    the request did not arrive in time\n";

/// The entity tag of a version, quotes included: strong, as no two writes of a key share it.
pub(super) fn etag(version: Version) -> String {
    format!("\"{:x}\"", version.nanos())
}

/// The headers of a version that cost something to make.
struct Validators {
    etag: HeaderValue,
    modified: HeaderValue,
}

impl Validators {
    fn of(version: Version) -> Self {
        // The date of an HTTP header lies between 1970 and now (RFC 9110, section 8.8.2.1), whatever a hand has set.
        let time = version
            .time()
            .clamp(SystemTime::UNIX_EPOCH, SystemTime::now());
        let modified = httpdate::fmt_http_date(time);
        let header =
            |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        Self {
            etag: header(etag(version)),
            modified: header(modified),
        }
    }

    fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(ETAG, self.etag.clone());
        headers.insert(LAST_MODIFIED, self.modified.clone());
    }
}

fn value(object: Arc<Object>, link: Rc<Link>) -> Response<Body> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    if let Some(validators) = object.note(|| Validators::of(object.meta().version)) {
        validators.put_into(&mut headers);
    }
    let body = match object.bytes() {
        Some(bytes) => Body::bytes(bytes.clone()),
        None => Body::file(object, link),
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

fn listed(listing: &Listing) -> Response<Body> {
    plain(StatusCode::OK, Body::bytes(listing::json(listing)))
}

fn refused(why: &Refusal, compat: bool) -> Response<Body> {
    match why {
        Refusal::NoSuchPath => refusal(StatusCode::NOT_FOUND, why),
        Refusal::NoKey if compat => plain(StatusCode::NO_CONTENT, Body::empty()),
        Refusal::NothingToStore => plain(StatusCode::NOT_MODIFIED, Body::empty()),
        Refusal::BadKey(store::BadKey::TooLong) => refusal(StatusCode::URI_TOO_LONG, why),
        Refusal::NoKey | Refusal::BadKey(_) | Refusal::BadEscape | Refusal::BadQuery(_) => {
            refusal(StatusCode::BAD_REQUEST, why)
        }
        Refusal::BadHost | Refusal::CutOff => closing(refusal(StatusCode::BAD_REQUEST, why)),
        Refusal::TransferCoding => closing(refusal(StatusCode::NOT_IMPLEMENTED, why)),
        Refusal::LengthRequired => refusal(StatusCode::LENGTH_REQUIRED, why),
        Refusal::Expectation => refusal(StatusCode::EXPECTATION_FAILED, why),
        Refusal::Method if compat => refusal(StatusCode::NOT_FOUND, why),
        Refusal::Method => with(
            refusal(StatusCode::METHOD_NOT_ALLOWED, why),
            ALLOW,
            "GET, HEAD, PUT, DELETE",
        ),
        Refusal::ReadOnly => refusal(StatusCode::FORBIDDEN, why),
        Refusal::TooLarge { .. } => refusal(StatusCode::PAYLOAD_TOO_LARGE, why),
    }
}

fn failed(error: &store::Error) -> Response<Body> {
    use store::Error as E;
    match error {
        E::NoSpace { .. } | E::TooLarge => refusal(StatusCode::INSUFFICIENT_STORAGE, error),
        E::Exhausted { .. } => with(
            refusal(StatusCode::SERVICE_UNAVAILABLE, error),
            RETRY_AFTER,
            "1",
        ),
        E::Precondition => refusal(StatusCode::PRECONDITION_FAILED, error),
        E::Occupied => refusal(StatusCode::CONFLICT, error),
        E::Truncated | E::Failed { .. } => refusal(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// One line that names the problem.
fn refusal(status: StatusCode, why: impl std::fmt::Display) -> Response<Body> {
    with(
        plain(status, Body::bytes(format!("{why}\n"))),
        CONTENT_TYPE,
        "text/plain; charset=utf-8",
    )
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
    response
}

/// Ends the connection after `response`: what follows on it cannot be trusted, or told apart from an unread body.
pub(super) fn close(response: &mut Response<Body>) {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
}

fn closing(mut response: Response<Body>) -> Response<Body> {
    close(&mut response);
    response
}
