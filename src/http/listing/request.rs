//! Which listing a request asks for, in which format, or which page that shows one.

use hyper::http::request::Parts;

use crate::http::head::syntax::{depth, encoded, up};
use crate::http::listing::query::{ListFormat, Place, Query};
use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::{HomeRequest, Operation};
use crate::http::ui;
use crate::http::values::conditional::Preconditions;
use crate::http::values::encoded::takes_gzip;
use crate::store::Key;

/// The listing of the keys that begin with `folder` and with the prefix of the query behind it. HTML is the page for those
/// that prefer it, as browsers do, and for others an index of links.
pub fn list(head: &Parts, folder: String) -> Result<Operation<'static>, Rejection> {
    let query = Query::of(head.uri.query().unwrap_or_default())?;
    let preferred = || ListFormat::preferred(&head.headers, query.usual_format());
    let format = query.format.unwrap_or_else(preferred);
    if format == ListFormat::Html && has_other_address(head, &folder) {
        return Ok(moved(head, &folder));
    }
    let mut place = Place::new(folder, query, format);
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

/// Whether a `/` of the address is encoded. The links of HTML are relative, so it has one address, in which none is.
fn has_other_address(head: &Parts, folder: &str) -> bool {
    depth(head.uri.path()) != folder.matches('/').count()
}

/// Leads to the address of `folder`.
fn moved(head: &Parts, folder: &str) -> Operation<'static> {
    let query = head.uri.query();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let to = format!("{}{}{query}", up(depth(head.uri.path())), encoded(folder));
    Operation::Moved { to }
}
