//! The response: from an outcome to status, headers and body; and what pages of other origins may do (CORS, the Fetch
//! standard).
//!
//! Statuses stand here, in the [table of refusals](crate::http::refusal), and in [`encode`](crate::http::head::encode)
//! alone.

pub mod options;
pub mod outcome;
pub mod plain;

use hyper::body::Body as _;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH,
    HeaderMap, HeaderValue, LINK, LOCATION, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::http::admin;
use crate::http::archives;
use crate::http::body::Content;
use crate::http::body::response::Body;
use crate::http::forms;
use crate::http::head::syntax::{encoded, put};
use crate::http::listing;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::ResponseContext;
use crate::http::response::options::{OptionsRequest, Target};
use crate::http::response::outcome::{FormStored, Outcome};
use crate::http::response::plain::{empty, plain, refuse, unstored, with};
use crate::http::service_config::ServiceConfig;
use crate::http::ui;
use crate::http::uploads;
use crate::http::values::conditional::Selection;
use crate::http::values::fields::mark_private;
use crate::http::values::representation::{ValueResponse, describe_stored, sent};
use crate::http::watch::request::{accept_websocket, announce_events};
use crate::store::Stays;

/// The response to a request, by what came of it.
pub fn render(
    result: Result<Outcome, Refusal>,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    let is_value = matches!(result, Ok(Outcome::Value(_)));
    let mut response = match result {
        Ok(outcome) => respond(outcome, context, config),
        Err(refusal) => refuse(&refusal, context, config),
    };
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the response to HEAD where the body is empty.
        let none = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, none);
    }
    // The headers of a value have it already, but for 304.
    let has_nosniff = is_value && response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if !has_nosniff {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    add_cors_headers(headers, context, config);
    let subject = context.principal.as_ref().map(|it| &*it.subject);
    mark_private(headers, subject, is_value);
    response
}

/// The response with `outcome`, without the fields that every response has.
fn respond(outcome: Outcome, context: &ResponseContext, config: &ServiceConfig) -> Response<Body> {
    use StatusCode as S;
    match outcome {
        Outcome::Value(response) => value(response),
        Outcome::Page(page) => own_page(page),
        Outcome::Stored(published) | Outcome::Completed(_, published) => {
            with(empty(S::OK), |headers| describe_stored(headers, published))
        }
        Outcome::Relocated(value) => {
            let status = if value.is_new {
                S::CREATED
            } else {
                S::NO_CONTENT
            };
            with(empty(status), |headers| {
                describe_stored(headers, value.published);
            })
        }
        Outcome::Discarded | Outcome::Deleted => empty(S::OK),
        Outcome::FolderRemoved(removed) => of_folder(&removed, &removed.stays),
        Outcome::FolderCopied(copied) => of_folder(&copied, &copied.stays),
        Outcome::NoValue => refuse(&NO_SUCH_KEY, context, config),
        Outcome::Listed {
            text,
            format,
            next,
            etag,
        } => {
            let response = text.map(|text| plain(S::OK, Body::bytes(text)));
            let response = response.unwrap_or_else(|| empty(S::NOT_MODIFIED));
            with(response, |headers| {
                listing::describe(headers, format, next, etag, config);
            })
        }
        Outcome::Archive {
            format,
            folder,
            pieces,
        } => with(plain(S::OK, Body::of(Content::Made(pieces))), |headers| {
            archives::describe(headers, format, &folder, config);
        }),
        Outcome::Shared { link, .. } => unstored(S::OK, plain::TEXT, link),
        Outcome::Unpacked(text) => unstored(S::OK, "application/json", text),
        Outcome::Ui {
            document,
            next,
            is_known,
        } => page(document, next, is_known),
        Outcome::Redirect(to) => with(empty(S::FOUND), |headers| {
            listing::describe_move(headers, to);
        }),
        Outcome::RedirectToStore(to) => elsewhere(to),
        Outcome::FormStored(stored) => form_stored(&stored),
        Outcome::Options(request) => options(request, context, config),
        Outcome::NoContent | Outcome::Cancelled(_) => empty(S::NO_CONTENT),
        Outcome::FolderMade | Outcome::FolderMoved(_) | Outcome::UploadCreated => empty(S::CREATED),
        Outcome::Upload(outcome, state) => with(respond(*outcome, context, config), |headers| {
            uploads::describe(headers, &state, config);
        }),
        Outcome::Subscribed(events) => {
            let response = plain(S::OK, Body::of(Content::Made(events)));
            with(response, announce_events)
        }
        Outcome::Upgraded(accept) => with(empty(S::SWITCHING_PROTOCOLS), |headers| {
            accept_websocket(headers, accept);
        }),
    }
}

/// The response with a value.
fn value(response: ValueResponse) -> Response<Body> {
    let status = match response.selection {
        Selection::Whole => StatusCode::OK,
        Selection::Part(_) | Selection::Parts(_) => StatusCode::PARTIAL_CONTENT,
        Selection::NotModified(_) => StatusCode::NOT_MODIFIED,
    };
    let (headers, body) = sent(response);
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
    unstored(status, page.media_type, page.body)
}

/// The page for browsers.
fn page(document: ui::Document, next: Option<String>, is_known: bool) -> Response<Body> {
    let response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        plain(StatusCode::OK, Body::bytes(document.html))
    };
    with(response, |headers| {
        headers.extend(ui::headers(&document.etag));
        if document.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(next) = next {
            put(headers, LINK, next);
        }
    })
}

/// Redirects to the address that the value has at the store for a few minutes.
fn elsewhere(to: String) -> Response<Body> {
    // For a client that does not follow.
    let text = "the value is at the address in Location, for a few minutes\n";
    let response = unstored(StatusCode::TEMPORARY_REDIRECT, plain::TEXT, text);
    with(response, |headers| put(headers, LOCATION, to))
}

/// The response to a form whose files are stored: a redirect to the page of their folder, or a list of them.
fn form_stored(stored: &FormStored) -> Response<Body> {
    if stored.wants_page {
        // Relative to where forms are sent, so that it holds behind a proxy that serves this server below a path.
        let to = format!("../{}", encoded(&stored.folder));
        return with(empty(StatusCode::SEE_OTHER), |headers| {
            put(headers, LOCATION, to);
        });
    }
    unstored(
        StatusCode::OK,
        "application/json",
        forms::json(&stored.files),
    )
}

/// The report of the removal or the copy of a folder: 409 where something stays, or was not copied.
fn of_folder(report: &impl Serialize, stays: &Stays) -> Response<Body> {
    let status = if stays.count == 0 {
        StatusCode::OK
    } else {
        StatusCode::CONFLICT
    };
    let report = serde_json::to_string(report).unwrap_or_default();
    unstored(status, "application/json", report + "\n")
}

/// Fields of responses that pages of other origins may read.
const EXPOSED: &str = "etag, last-modified, content-encoding, content-disposition, content-range, accept-ranges, x-delete-at, repr-digest, link, retry-after, x-request-id, \
    server-timing, location, upload-complete, upload-offset, upload-length, upload-limit";

/// The response to OPTIONS: the methods of a target and, to a preflight request, that a page of an allowed origin may
/// use them with the fields that it asks for, whatever they are: each request is checked when it arrives.
fn options(
    request: OptionsRequest,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    with(empty(StatusCode::NO_CONTENT), |headers| {
        let methods = HeaderValue::from_static(request.target.methods(config));
        if request.target == Target::Upload {
            uploads::add_accept_patch(headers);
        }
        headers.insert(ALLOW, methods.clone());
        if config.announces_uploads() {
            uploads::add_limit(headers, config);
        }
        if request.is_preflight && context.origin.is_some() {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
            if let Some(fields) = request.fields {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, *fields);
            }
            // An hour.
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
        }
    })
}

/// Lets the page that asked read the response, if its origin is allowed.
fn add_cors_headers(headers: &mut HeaderMap, context: &ResponseContext, config: &ServiceConfig) {
    if let Some(origin) = &context.origin {
        let exposed = HeaderValue::from_static(EXPOSED);
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        for name in config.kept_fields.names() {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.clone().into());
        }
    }
    if !config.allowed.origins.is_empty() {
        headers.append(VARY, ORIGIN.into());
    }
}
