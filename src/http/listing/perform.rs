//! What is asked of a listing: from the store to its text, which is written where that keeps no reactor busy; and the
//! address of a folder.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue, LOCATION, VARY};
use hyper::http::request::Parts;
use sha2::{Digest as _, Sha256};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::head::query::QueryFields;
use crate::http::head::syntax::{depth, encoded, put, up};
use crate::http::listing::{
    ListFormat, ListTarget, PARAMETERS, describe, index::index, is_known, json, tag, text,
};
use crate::http::refusal::Refusal;
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Outcome, Reply, empty, plain};
use crate::http::values::symlinks;
use crate::http::verb::Verb;
use crate::store::{Error, Key, Listing, Page, Prefixes, Store, Unlisted};

/// The most items of a listing that a reactor writes itself.
const WRITTEN_AT_ONCE: usize = 50;

/// The address of the `folder` of a request, relative to that of the request, with its query.
pub fn address(head: &Parts, folder: &str) -> String {
    let (path, query) = (head.uri.path(), head.uri.query());
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{}{}{query}", up(depth(path)), encoded(folder))
}

/// True where the address of a folder is opened, and nothing asks for its listing: no parameter of one, and no
/// preference for JSON or text.
pub fn opens_folder(head: &Parts, query: &QueryFields<'_>) -> bool {
    !query.has_any(PARAMETERS)
        && ListFormat::preferred(&head.headers, ListFormat::Html) == ListFormat::Html
}

/// Leads the client to the page for browsers, at this address.
pub struct Redirect(pub String);

#[async_trait(?Send)]
impl Verb for Redirect {
    async fn perform(self: Box<Self>, _: &RequestContext, _: &mut Received<'_>) -> Outcome {
        Ok(redirect(self.0))
    }
}

#[async_trait(?Send)]
impl Verb for ListTarget {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::List, &self.page.prefix)]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        // Who hands in files gets the page for that, and no name.
        if !client.hands_in(&self.page.prefix) {
            client.meet_all(self.needs())?;
        }
        client.may_list(&mut self.page);
        Ok(())
    }

    /// The page of a listing that `target` names.
    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (mut target, service) = (*self, &*request.service);
        let page = target.page.clone();
        let listing = service.store.list(service.reactor, page).await?;
        if let Some(to) = behind_links(request, &target, &listing).await? {
            return Ok(redirect(to));
        }
        let beside = if target.wants_unlisted {
            Some(unlisted(request, &target).await?)
        } else {
            None
        };
        let follows = service.config.follows_symlinks;
        let (next, format) = (target.next_link(&listing), target.format);
        let preconditions = target.preconditions.take();
        let render = move |listing: &Listing| {
            let text = match format {
                ListFormat::Json => json(&target.page, listing, beside.as_ref(), follows),
                ListFormat::Text => text(listing),
                ListFormat::Html => index(&target, listing),
            };
            let etag = tag(&Sha256::digest(&text));
            (text, etag)
        };
        let (text, etag) = written(&service.store, listing, false, render).await?;
        let is_known = is_known(preconditions.as_ref(), &etag)?;
        let response = if is_known {
            empty(StatusCode::NOT_MODIFIED)
        } else {
            plain(StatusCode::OK, Body::bytes(text))
        };
        Ok(Reply::from(response).with(|headers| {
            describe(headers, format, next, etag, &service.config);
        }))
    }
}

/// True where `target` is the page of a folder that is not there, or of which the client may see nothing. `listing` is
/// what the page has. The top is always there.
pub async fn is_absent(
    service: &Service,
    target: &ListTarget,
    listing: &Listing,
) -> Result<bool, Error> {
    let page = &target.page;
    let is_whole = page.prefix == target.folder && page.after.is_empty();
    let sees_any = page.within.iter().next().is_some();
    if has_any(listing) || !is_whole || !sees_any || target.folder.is_empty() {
        return Ok(false);
    }
    // A page by folder lacks the folder itself, which may stay without a value.
    let first = first_below(target.folder.clone(), page.within.clone());
    let found = service.store.list(service.reactor, first).await?;
    Ok(!has_any(&found))
}

/// The first of what is in `folder`, or the folder itself where it stays without a value.
fn first_below(folder: String, within: Prefixes) -> Page {
    Page {
        prefix: folder,
        limit: 1,
        folders: true,
        within,
        ..Page::default()
    }
}

/// True where there is something in `listing`.
pub fn has_any(listing: &Listing) -> bool {
    !listing.keys.is_empty() || !listing.folders.is_empty()
}

/// The address of the page of the folder of this name, if there is one that the client may see, with the query. The
/// address that was asked for has this `depth`, which an encoded `/` makes another than that of the key.
pub async fn folder_of(
    request: &RequestContext,
    key: &Key<'_>,
    depth: usize,
    query: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let Service { store, reactor, .. } = &*request.service;
    let mut page = first_below(format!("{}/", key.as_str()), Prefixes::all());
    let may_list = |principal: &Principal| principal.may_list(&mut page);
    if !request.principal().is_none_or(may_list) {
        return Ok(None);
    }
    let found = store.list(*reactor, page).await?;
    if !has_any(&found) {
        return Ok(None);
    }
    // Relative, as the server may be below a path of a proxy.
    let mut to = format!("{}{}/", up(depth), encoded(key.as_str()));
    if let Some(query) = query {
        to = format!("{to}?{query}");
    }
    Ok(Some(to))
}

/// The address of the folder of this name, or that symbolic links lead to from it, as [`folder_of`] finds it. A folder
/// has one address: its listing and its page have the names by which all in it is changed.
pub async fn linked_folder_of(
    request: &RequestContext,
    key: &Key<'_>,
    depth: usize,
    query: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let found = folder_of(request, key, depth, query).await?;
    if found.is_some() {
        return Ok(found);
    }
    match symlinks::target(request, key, true).await? {
        Some(target) => folder_of(request, &target, depth, query).await,
        None => Ok(None),
    }
}

/// The address of the folder that symbolic links lead to from that of `target`, whose `listing` has nothing.
pub async fn behind_links(
    request: &RequestContext,
    target: &ListTarget,
    listing: &Listing,
) -> Result<Option<String>, Refusal> {
    let name = target.folder.strip_suffix('/');
    let follows = request.service.config.follows_symlinks && !has_any(listing);
    let Some(name) = name.filter(|_| follows) else {
        return Ok(None);
    };
    let query = target.query.as_deref();
    linked_folder_of(request, &Key::new(name)?, depth(&request.path), query).await
}

/// What the folder of `target` has beside its listing; nothing for who may not list all of it, and with a page that is
/// not its first.
pub async fn unlisted(request: &RequestContext, target: &ListTarget) -> Result<Unlisted, Refusal> {
    let (service, page) = (&*request.service, &target.page);
    let is_first = page.prefix == target.folder && page.after.is_empty();
    let directory = service.store.directory();
    match directory.filter(|_| is_first && page.within.has(&target.folder)) {
        Some(directory) => {
            let follows = service.config.follows_symlinks;
            let found = directory.lister.unlisted(&target.folder, follows);
            Ok(found.await?)
        }
        None => Ok(Unlisted::default()),
    }
}

/// Redirects a browser to the page. No cache may keep this: other clients get an answer at the address that they asked
/// for.
pub fn redirect(to: String) -> Reply {
    Reply::from(empty(StatusCode::FOUND)).with(|headers| {
        put(headers, LOCATION, to);
        headers.insert(VARY, HeaderValue::from_static("accept"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    })
}

/// The text that `render` makes of `listing`; on the compute threads, where it is long or `takes_long`.
pub async fn written<T: Send + 'static>(
    store: &Store,
    listing: Arc<Listing>,
    takes_long: bool,
    render: impl FnOnce(&Listing) -> T + Send + 'static,
) -> Result<T, Error> {
    if !takes_long && listing.keys.len() + listing.folders.len() <= WRITTEN_AT_ONCE {
        return Ok(render(&listing));
    }
    store.compute().spawn(move || Ok(render(&listing))).await
}
