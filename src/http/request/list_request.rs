//! Which listing a request asks for, or which page that shows one.

use hyper::http::request::Parts;

use crate::http::request::operation::{HomeRequest, Operation};
use crate::http::request::rejection::Rejection;
use crate::http::semantics::address::encoded;
use crate::http::semantics::conditional::Preconditions;
use crate::http::semantics::listing;
use crate::http::semantics::listing::{ListFormat, Place};
use crate::http::ui;

/// The listing of the keys that begin with `folder` and with the prefix of the query behind it, or the page that shows it.
pub(super) fn list(head: &Parts, folder: String) -> Result<Operation<'static>, Rejection> {
    if ui::is_preferred(&head.headers) {
        return home(head, folder);
    }
    Ok(Operation::List {
        page: listing::page(folder, head.uri.query().unwrap_or_default())?,
        format: ListFormat::preferred(&head.headers),
    })
}

/// The page that shows `folder`. Its links are relative, so it has one address, in which no `/` is encoded.
fn home(head: &Parts, folder: String) -> Result<Operation<'static>, Rejection> {
    let query = head.uri.query();
    if head.uri.path().matches('/').count() != 1 + folder.matches('/').count() {
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let to = format!("/{}{query}", encoded(&folder));
        return Ok(Operation::Moved { to });
    }
    Ok(Operation::Home(Box::new(HomeRequest {
        place: Place::of(folder, query.unwrap_or_default())?,
        preconditions: Preconditions::of(&head.headers),
    })))
}
