//! The simplest responses: a status with a body, with none, or with a line that names the problem.

use std::fmt::Display;

use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::http::body::response::Body;
use crate::http::service::operation::{FormProgress, ResponseContext};
use crate::http::ui::{FAILURE_POLICY, FailedForm, Failure};

/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// RFC 9457; docs/http.md lists the names.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
    #[serde(flatten)]
    offsets: Option<Offsets>,
    /// The keys of a form that were stored before.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stored: &'a [String],
}

/// What a mismatching offset is told with (draft-ietf-httpbis-resumable-upload, "Mismatching Offset").
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Offsets {
    pub expected_offset: u64,
    pub provided_offset: u64,
}

/// An error: one line that names the problem, or the same as `application/problem+json`. Caches may keep some errors and
/// guess for how long (RFC 9110, section 15.1), 404 among them; without a validator there is nothing to keep them for.
pub fn problem(
    status: StatusCode,
    name: &str,
    why: impl Display,
    context: &ResponseContext,
) -> Response<Body> {
    problem_with(status, name, why, None, context)
}

/// As [`problem`], with these `offsets`. A `name` that is a URI is the type itself.
pub fn problem_with(
    status: StatusCode,
    name: &str,
    why: impl Display,
    offsets: Option<Offsets>,
    context: &ResponseContext,
) -> Response<Body> {
    let prefix = if name.starts_with("https:") {
        ""
    } else {
        "urn:data-server:problem:"
    };
    let form = context.form.as_deref();
    if let Some(depth) = context.page {
        return failure_page(status, name, &why.to_string(), depth, form);
    }
    let why = form.map_or_else(|| why.to_string(), |form| progress(&why, form));
    let (media_type, text) = if context.problem {
        let problem = Problem {
            r#type: format!("{prefix}{name}"),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: why,
            offsets,
            stored: form.map_or(&[], |form| &form.stored),
        };
        let json = serde_json::to_string(&problem).unwrap_or_default();
        ("application/problem+json", json)
    } else {
        (TEXT, why)
    };
    error(status, media_type, text)
}

/// An error as S3 and Azure word it: of another body their clients show the status alone.
pub fn store_error(status: StatusCode, why: impl Display) -> Response<Body> {
    let why = why.to_string();
    let why = quick_xml::escape::escape(&why);
    let text = format!("<Error><Code>NotImplemented</Code><Message>{why}</Message></Error>");
    error(status, "application/xml", text)
}

/// The same for a person.
fn failure_page(
    status: StatusCode,
    name: &str,
    why: &str,
    depth: usize,
    form: Option<&FormProgress>,
) -> Response<Body> {
    let form = form.map(|form| FailedForm {
        folder: &form.folder,
        file: form.file.as_deref(),
        stored: &form.stored,
    });
    let failure = Failure {
        status: status.as_u16(),
        name,
        why,
        depth,
        form,
    };
    let mut response = error(status, "text/html; charset=utf-8", failure.page());
    put(
        response.headers_mut(),
        CONTENT_SECURITY_POLICY,
        FAILURE_POLICY.clone(),
    );
    response
}

fn error(status: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    let mut response = plain(status, Body::bytes(text + "\n"));
    let media_type = HeaderValue::from_static(media_type);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Why a form ended, with the file that it was at, and those that were stored before.
fn progress(why: &impl Display, form: &FormProgress) -> String {
    let file = form.file.as_ref();
    let file = file.map_or_else(String::new, |file| format!("{file}: "));
    let stored = match form.stored.as_slice() {
        [] => "nothing was stored before".to_owned(),
        stored => format!("stored before: {}", stored.join(", ")),
    };
    format!("{file}{why}; {stored}")
}

/// This `status` with this `body`.
pub fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// This `status` with no body.
pub fn empty(status: StatusCode) -> Response<Body> {
    plain(status, Body::empty())
}

/// `response`, with what `describe` adds to its headers.
pub fn with(mut response: Response<Body>, describe: impl FnOnce(&mut HeaderMap)) -> Response<Body> {
    describe(response.headers_mut());
    response
}

/// All of our own texts are valid header values; one that is not is left out rather than fatal.
pub fn put(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// Ends the connection after `response`: what follows on it cannot be trusted, or told apart from an unread body.
pub fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}
