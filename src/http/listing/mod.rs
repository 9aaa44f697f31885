//! Listings: which one a request asks for, in which format, or which page that shows one; and the headers of the answers.
//! `query` says what is on a page of one and writes it, `perform` asks the store.

pub mod perform;
pub mod query;

use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    LINK, LOCATION, VARY,
};
use hyper::http::request::Parts;

use crate::http::head::syntax::{depth, encoded, up};
use crate::http::listing::query::{ListFormat, ListTarget, Query};
use crate::http::refusal::rejection::Rejection;
use crate::http::response::plain::put;
use crate::http::service::operation::{HomeRequest, Operation};
use crate::http::service_config::ServiceConfig;
use crate::http::ui;
use crate::http::values::conditional::Preconditions;
use crate::http::values::encoded::takes_gzip;
use crate::store::Key;

/// An index of links loads nothing and runs nothing: a key that became markup would do nothing.
const NOTHING: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The listing of the keys that begin with `folder` and with the prefix of the query behind it. HTML is the page for those
/// that prefer it, as browsers do, and for others an index of links.
pub fn list(head: &Parts, folder: String) -> Result<Operation<'static>, Rejection> {
    let query = Query::of(head.uri.query().unwrap_or_default())?;
    let preferred = || ListFormat::preferred(&head.headers, query.usual_format());
    let format = query.format.unwrap_or_else(preferred);
    let has_other_address = depth(head.uri.path()) != folder.matches('/').count();
    if format == ListFormat::Html && has_other_address {
        // A `/` of the address is encoded. The links of HTML are relative, so it has one address, in which none is.
        let query = head.uri.query();
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let to = format!("{}{}{query}", up(depth(head.uri.path())), encoded(&folder));
        return Ok(Operation::Moved { to });
    }
    let mut place = ListTarget::new(folder, query, format);
    if format == ListFormat::Html && ui::is_preferred(&head.headers) {
        return Ok(Operation::Home(Box::new(HomeRequest {
            place,
            preconditions: Preconditions::of(&head.headers),
            takes_gzip: takes_gzip(&head.headers),
        })));
    }
    // The parameters of the next page would have it be JSON.
    place.is_format_told |= format == ListFormat::Html;
    Ok(Operation::List(Box::new(place)))
}

/// The request of a link by which a person signs in or out; `None` where it is none of them.
pub fn session(head: &Parts) -> Option<Result<Operation<'static>, Rejection>> {
    let mut query = form_urlencoded::parse(head.uri.query()?.as_bytes());
    match query.next()? {
        (name, _) if name == "sign-out" => Some(Err(Rejection::SignedOut)),
        (name, folder) if name == "sign-in" => {
            // What is no folder leads to the root.
            let is_folder = folder.ends_with('/') && Key::new(format!("{folder}k")).is_ok();
            let folder = if is_folder { &*folder } else { "" };
            let to = format!("./{}", encoded(folder));
            Some(Ok(Operation::SignIn { to }))
        }
        _ => None,
    }
}

/// Describes a page of a listing in `headers`, and the `next` one.
pub fn describe(
    headers: &mut HeaderMap,
    format: ListFormat,
    next: Option<String>,
    config: &ServiceConfig,
) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    if format == ListFormat::Html {
        headers.insert(CONTENT_SECURITY_POLICY, NOTHING);
    }
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
}

/// Describes the page for browsers in `headers`, and the `next` one.
pub fn describe_page(headers: &mut HeaderMap, etag: &str, is_gzip: bool, next: Option<String>) {
    headers.extend(ui::headers(etag));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
}

/// Says in `headers` where the page is. Not for ever, for another client is answered where it asked.
pub fn describe_move(headers: &mut HeaderMap, to: String) {
    put(headers, LOCATION, to);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}
