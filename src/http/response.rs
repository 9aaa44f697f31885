//! What a feature answers with: a [`Reply`], and the plain responses that replies are made of. Knows no feature.
//!
//! What all responses have is added by [`service`](crate::http::service).

pub mod markup;
pub mod problem;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use crate::http::audit::AuditEvent;
use crate::http::body::response::Body;
use crate::http::refusal::Refusal;

/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";
pub const JSON: &str = "application/json";

/// What comes of a request.
pub type Outcome = Result<Reply, Refusal>;

/// The answer of a feature to a request: the response, and the events for the audit log.
pub struct Reply {
    pub response: Response<Body>,
    /// The response has a value, whose headers are complete.
    pub is_value: bool,
    /// The store was changed under the name that the request has.
    is_change: bool,
    events: Vec<AuditEvent>,
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self {
            response,
            is_value: false,
            is_change: false,
            events: Vec::new(),
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

    /// The same, of a request that has changed what it names.
    pub fn changed(mut self) -> Self {
        self.is_change = true;
        self
    }

    /// The same with this event besides.
    pub fn told(mut self, event: AuditEvent) -> Self {
        self.events.push(event);
        self
    }

    /// The same with the headers that `describe` adds.
    pub fn with(mut self, describe: impl FnOnce(&mut HeaderMap)) -> Self {
        describe(self.response.headers_mut());
        self
    }

    /// The events for the audit log.
    pub fn take_events(&mut self) -> Vec<AuditEvent> {
        let own = self.is_change.then_some(AuditEvent::Changed(None));
        own.into_iter().chain(self.events.drain(..)).collect()
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
