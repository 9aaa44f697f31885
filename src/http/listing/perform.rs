//! Listings, and the page for browsers that shows one: from a request to its target, and from the store to the text,
//! which is written where that keeps no reactor busy.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, HeaderValue, LINK, LOCATION, VARY};
use hyper::http::request::Parts;
use sha2::{Digest as _, Sha256};

use crate::access::Right;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::head::accept::takes_gzip;
use crate::http::head::query::{Parameters, QueryFields};
use crate::http::head::syntax::{depth, encoded, put, up};
use crate::http::listing::{
    ListFormat, ListTarget, PARAMETERS, Query, UiRequest, describe, index::index, is_known, json,
    tag, text,
};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Outcome, Reply, empty, plain};
use crate::http::ui::{self, PageRights};
use crate::http::values::conditional::preconditions;
use crate::http::values::get::GetOptions;
use crate::http::verb::Verb;
use crate::store::{Error, Key, Listing, Page, Prefixes, Store};

/// The challenge with which a browser forgets a password: it names a scheme that browsers neither answer nor ask for.
const SIGNED_OUT: Refusal = Refusal::new(
    &Kind::new(StatusCode::UNAUTHORIZED, "signed-out")
        .fields(&[("www-authenticate", "Bearer realm=\"signed out\"")]),
    "you are signed out",
);

/// The most items of a listing that a reactor writes itself.
const WRITTEN_AT_ONCE: usize = 50;

/// The listing of the keys in `folder` that the query asks for. HTML is the page for clients that prefer it, as
/// browsers do, and an index of links for others; it has one address.
pub fn list_request(
    head: &Parts,
    query: &QueryFields<'_>,
    folder: String,
) -> Result<Result<Box<dyn Verb>, Redirect>, Refusal> {
    let by_person = ui::is_preferred(&head.headers);
    let query = Query::of(query)?;
    let preferred = || ListFormat::preferred(&head.headers, query.usual_format());
    let format = query.format.unwrap_or_else(preferred);
    let has_other_address = depth(head.uri.path()) != folder.matches('/').count();
    if format == ListFormat::Html && has_other_address {
        // A `/` of the address is encoded. The links of HTML are relative, so it has one address, in which none is.
        return Ok(Err(Redirect(address(head, &folder))));
    }
    let mut target = ListTarget::new(folder, query, format);
    if format == ListFormat::Html && by_person {
        return Ok(Ok(Box::new(UiRequest {
            target,
            preconditions: preconditions(&head.headers),
            takes_gzip: takes_gzip(&head.headers),
        })));
    }
    // With the parameters of the next page, JSON would be the usual format.
    target.names_format |= format == ListFormat::Html;
    target.preconditions = preconditions(&head.headers);
    Ok(Ok(Box::new(target)))
}

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

/// The parameters of a link by which a person signs in or out.
const OF_SESSION: &Parameters = &Parameters {
    of: "the root",
    once: &["sign-in", "sign-out"],
    many: &[],
    hint: "it has sign-in and sign-out, and those of a listing",
};

/// What is asked for by a link by which a person signs in or out.
pub fn session(query: &QueryFields<'_>) -> Result<Option<SignIn>, Refusal> {
    query.check(OF_SESSION, &[])?;
    if query.has("sign-out") {
        return Err(SIGNED_OUT);
    }
    Ok(query.get("sign-in").map(|folder| {
        // A name of no folder leads to the root.
        let is_folder = folder.ends_with('/') && Key::new(format!("{folder}k")).is_ok();
        let folder = if is_folder { folder } else { "" };
        SignIn(format!("./{}", encoded(folder)))
    }))
}

/// Leads the client to the page for browsers, at this address.
pub struct Redirect(pub String);

/// Has the client sign in, and leads it to this address.
pub struct SignIn(String);

#[async_trait(?Send)]
impl Verb for Redirect {
    async fn perform(self: Box<Self>, _: &RequestContext, _: &mut Received<'_>) -> Outcome {
        Ok(redirect(self.0))
    }
}

#[async_trait(?Send)]
impl Verb for SignIn {
    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        // The refusal of an anonymous client asks it to authenticate, whatever the right.
        if client.subject.is_anonymous {
            return Err(client.deny(Right::List));
        }
        Ok(())
    }

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
        client.meet_all(self.needs())?;
        client.may_list(&mut self.page);
        Ok(())
    }

    /// The page of a listing that `target` names.
    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (mut target, service) = (*self, &*request.service);
        let page = target.page.clone();
        let listing = service.store.list(service.reactor, page).await?;
        let (next, format) = (target.next_link(&listing), target.format);
        let preconditions = target.preconditions.take();
        let render = move |listing: &Listing| {
            let text = match format {
                ListFormat::Json => json(&target.page, listing),
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

#[async_trait(?Send)]
impl Verb for UiRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::List, &self.target.page.prefix)]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        client.may_list(&mut self.target.page);
        Ok(())
    }

    /// The page for browsers, as the client may use it.
    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (asked, service) = (*self, &*request.service);
        let principal = request.principal();
        let subject = principal.map(|principal| &*principal.subject);
        let signs_out = principal.is_some_and(|principal| principal.by == AuthMethod::Basic);
        let mut rights = PageRights::new(subject, service.config.read_only, signs_out);
        if let Some(principal) = principal {
            let policy = principal.access.policy();
            if let Some((keys, lasts)) = policy.shared(&principal.subject, SystemTime::now()) {
                rights = rights.with_shared(&keys, lasts);
            }
        }
        let page = asked.target.page.clone();
        let listing = service.store.list(service.reactor, page).await?;
        let (next, takes_long) = (asked.target.next_link(&listing), asked.takes_gzip);
        let bounds = service.store.account().map_or_else(String::new, |account| {
            let mut bounds = account.of_folder(&asked.target.folder);
            bounds.retain(|(scope, ..)| rights.may_list(scope));
            ui::bounds(&bounds)
        });
        let render = move |listing: &Listing| {
            let mut document = ui::document(&asked.target, listing, &rights, bounds);
            if asked.takes_gzip {
                document = document.compressed();
            }
            let is_known = is_known(asked.preconditions.as_ref(), &document.etag);
            (document, is_known)
        };
        let (document, is_known) = written(&service.store, listing, takes_long, render).await?;
        let response = if is_known? {
            empty(StatusCode::NOT_MODIFIED)
        } else {
            plain(StatusCode::OK, Body::bytes(document.html))
        };
        Ok(Reply::from(response).with(|headers| {
            headers.extend(ui::headers(&document.etag));
            if document.is_gzip {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            if let Some(next) = next {
                put(headers, LINK, next);
            }
        }))
    }
}

/// The address of the page of the folder of this name, if there is one that the client may see, with the query. The
/// address that was asked for has this `depth`, which an encoded `/` makes another than that of the key.
pub async fn folder_of(
    request: &RequestContext,
    key: &Key<'_>,
    depth: usize,
    options: Option<&GetOptions>,
) -> Result<Option<String>, Refusal> {
    let Service { store, reactor, .. } = &*request.service;
    let mut page = Page {
        prefix: format!("{}/", key.as_str()),
        after: String::new(),
        limit: 1,
        by_folder: false,
        folders: true,
        within: Prefixes::all(),
    };
    let may_list = |principal: &Principal| principal.may_list(&mut page);
    if !request.principal().is_none_or(may_list) {
        return Ok(None);
    }
    let found = store.list(*reactor, page).await?;
    if found.keys.is_empty() && found.folders.is_empty() {
        return Ok(None);
    }
    // Relative, as the server may be below a path of a proxy.
    let mut to = format!("{}{}/", up(depth), encoded(key.as_str()));
    if let Some(query) = options.and_then(|options| options.query.as_deref()) {
        to = format!("{to}?{query}");
    }
    Ok(Some(to))
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
async fn written<T: Send + 'static>(
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
