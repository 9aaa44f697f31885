//! The simplest responses: a status with a body, with none, or with a line that names the problem.

use std::fmt::Display;

use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::http::request::operation::ResponseContext;
use crate::http::response::body::Body;

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
pub(super) fn problem(
    status: StatusCode,
    name: &str,
    why: impl Display,
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

/// This `status` with this `body`.
pub(super) fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// This `status` with no body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    plain(status, Body::empty())
}

/// All of our own texts are valid header values; one that is not is left out rather than fatal.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// Ends the connection after `response`: what follows on it cannot be trusted, or told apart from an unread body.
pub(in crate::http) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
