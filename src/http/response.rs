//! From what happened to status, headers and body. Statuses stand here and in the [table of refusals](refusal::table) alone.

pub mod head_encoder;
pub mod options;
pub mod outcome;
pub mod plain;

use std::fmt::Display;

use hyper::body::Body as _;
use hyper::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, SERVER,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use crate::http::admin;
use crate::http::body::response::Body;
use crate::http::forms;
use crate::http::listing;
use crate::http::refusal;
use crate::http::refusal::rejection::Rejection;
use crate::http::refusal::table::{Refusal, Wording};
use crate::http::response::outcome::{FormStored, Outcome};
use crate::http::response::plain::{close, empty, plain, problem, problem_with, with};
use crate::http::service::operation::ResponseContext;
use crate::http::service_config::ServiceConfig;
use crate::http::ui;
use crate::http::uploads;
use crate::http::values;
use crate::http::values::cache_control::mark_private;
use crate::http::values::representation::NAME;
use crate::http::values::response::Sent;
use crate::http::watch::events::announce_events;
use crate::http::watch::websocket::accept_websocket;
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
    options::share(headers, context);
    mark_private(headers, context.proof.as_deref(), is_value);
    response
}

/// The interim response that tells a client over HTTP/2 to send its body; over HTTP/1 it is [`uploads::response::CONTINUE`].
pub fn continue_100() -> Response<()> {
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
                listing::describe(headers, format, next, config);
            })
        }
        Outcome::Home {
            document,
            next,
            is_known,
        } => page(document, next, is_known),
        Outcome::Redirect { to } => with(empty(StatusCode::FOUND), |headers| {
            listing::describe_move(headers, to);
        }),
        Outcome::RedirectToStore { to } => elsewhere(to),
        Outcome::FormStored(stored) => form_stored(&stored),
        Outcome::FormHalted(halted) => {
            let (why, context) = forms::response::halted(*halted, context);
            respond(why, &context, config)
        }
        Outcome::Options { preflight, of } => with(empty(StatusCode::NO_CONTENT), |headers| {
            options::describe(headers, preflight, of, context, config);
        }),
        Outcome::NoContent | Outcome::Cancelled(_) => empty(StatusCode::NO_CONTENT),
        Outcome::UploadCreated => empty(StatusCode::CREATED),
        Outcome::Upload(outcome, state) => with(respond(*outcome, context, config), |headers| {
            uploads::response::describe(headers, state, config);
        }),
        Outcome::Subscribed(events) => {
            let response = plain(StatusCode::OK, Body::endless(events));
            with(response, announce_events)
        }
        Outcome::Upgraded(accept) => with(empty(StatusCode::SWITCHING_PROTOCOLS), |headers| {
            accept_websocket(headers, accept);
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
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.media_type));
        // It is true at this moment only.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    })
}

fn page(document: ui::Document, next: Option<String>, is_known: bool) -> Response<Body> {
    let response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        plain(StatusCode::OK, Body::bytes(document.html))
    };
    with(response, |headers| {
        listing::describe_page(headers, &document.etag, document.is_gzip, next);
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
    refusal(refusal::table::rejected(why, config), why, context)
}

fn failed(
    error: &store::Error,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    match error {
        // It is told in the words of a body that the connection found cut off.
        store::Error::Incomplete => refused(&Rejection::CutOff, context, config),
        error => refusal(refusal::table::failed(error, config), error, context),
    }
}

/// The response that a row of the table of refusals describes.
fn refusal(row: Refusal<'_>, why: impl Display, context: &ResponseContext) -> Response<Body> {
    let Refusal { status, name, .. } = row;
    let mut response = match row.body {
        Wording::Empty => return empty(status),
        Wording::OfStore if context.of_store && !context.problem => plain::store_error(status, why),
        Wording::OfStore => problem(status, name, why, context),
        Wording::Problem(offsets) => problem_with(status, name, why, offsets, context),
    };
    if row.closes {
        close(&mut response);
    }
    if let Some(explain) = row.explain {
        explain(response.headers_mut());
    }
    response
}

fn panicked(context: &ResponseContext) -> Response<Body> {
    let why = "the server failed on this request; its log says more";
    let mut response = problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", why, context);
    close(&mut response);
    response
}
