//! What a feature answers with: a [`Reply`], and the plain responses that replies are made of. Knows no feature.
//!
//! What all responses have is added by [`service`](crate::http::service).

pub mod markup;
pub mod problem;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use crate::http::body::response::Body;
use crate::http::refusal::Refusal;

/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";
pub const JSON: &str = "application/json";

/// What comes of a request.
pub type Outcome = Result<Reply, Refusal>;

/// The answer of a feature to a request.
pub struct Reply {
    pub response: Response<Body>,
    /// The response has a value, whose headers are complete.
    pub is_value: bool,
    /// Caches are told what the owner of the value says, and no more.
    pub keeps_cache_control: bool,
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self {
            response,
            is_value: false,
            keeps_cache_control: false,
        }
    }
}

impl Reply {
    /// The reply with a value.
    pub fn of_value(response: Response<Body>) -> Self {
        Self {
            is_value: true,
            ..Self::from(response)
        }
    }

    /// The same with the headers that `describe` adds.
    pub fn with(mut self, describe: impl FnOnce(&mut HeaderMap)) -> Self {
        describe(self.response.headers_mut());
        self
    }
}

/// A response of this media type that no cache stores: caches may keep some errors, 404 among them, and guess for how
/// long (RFC 9110, section 15.1).
pub fn unstored(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    with(plain(status, Body::bytes(body)), |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    })
}

/// A response of this `status` with this `body`.
pub fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// A response of this `status` with no body.
pub fn empty(status: StatusCode) -> Response<Body> {
    plain(status, Body::empty())
}

/// `response`, with the headers that `describe` adds.
pub fn with(mut response: Response<Body>, describe: impl FnOnce(&mut HeaderMap)) -> Response<Body> {
    describe(response.headers_mut());
    response
}

/// Ends the connection after `response`: later bytes on it cannot be trusted, or distinguished from an unread body.
pub fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
