//! Listings, and the page for browsers that shows one: from a request to the place that it asks for, and from the store to the text,
//! which is written where that keeps no reactor busy.

use std::sync::Arc;

use hyper::http::request::Parts;

use crate::http::auth::authorize::authorize_page;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::head::syntax::{depth, encoded, up};
use crate::http::listing::{ListFormat, ListTarget, Query, json, text};
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::Handler;
use crate::http::service::operation::{HomeRequest, Operation};
use crate::http::ui::{self, PageRights};
use crate::http::values::conditional::preconditions;
use crate::http::values::representation::takes_gzip;
use crate::store::{Error, Key, Listing, Page, Prefixes};

/// The most items of a listing that a reactor writes itself.
const WRITTEN_AT_ONCE: usize = 50;

/// The listing of the keys in `folder` that the query asks for. HTML is the page for clients that prefer it, as browsers do, and an
/// index of links for others.
pub fn list(head: &Parts, folder: String) -> Result<Operation<'static>, Refusal> {
    let by_person = ui::is_preferred(&head.headers);
    let query = Query::of(head.uri.query().unwrap_or_default(), by_person)?;
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
    if format == ListFormat::Html && by_person {
        return Ok(Operation::Home(Box::new(HomeRequest {
            place,
            preconditions: preconditions(&head.headers),
            takes_gzip: takes_gzip(&head.headers),
        })));
    }
    // With the parameters of the next page, JSON would be the usual format.
    place.is_format_told |= format == ListFormat::Html;
    Ok(Operation::List(Box::new(place)))
}

/// The operation of a link by which a person signs in or out.
pub fn session(head: &Parts) -> Option<Result<Operation<'static>, Refusal>> {
    let mut query = form_urlencoded::parse(head.uri.query()?.as_bytes());
    match query.next()? {
        (name, _) if name == "sign-out" => Some(Err(Refusal::SignedOut)),
        (name, folder) if name == "sign-in" => {
            // A name of no folder leads to the root.
            let is_folder = folder.ends_with('/') && Key::new(format!("{folder}k")).is_ok();
            let folder = if is_folder { &*folder } else { "" };
            let to = format!("./{}", encoded(folder));
            Some(Ok(Operation::SignIn { to }))
        }
        _ => None,
    }
}

impl Handler {
    pub async fn list(&self, place: ListTarget) -> Result<Outcome, Refusal> {
        let listing = self.store.list(self.reactor, place.page.clone()).await?;
        let (next, format) = (place.next_link(&listing), place.format);
        let render = move |listing: &Listing| match format {
            ListFormat::Json => json(&place.page, listing),
            ListFormat::Text => text(listing),
            ListFormat::Html => ui::index(&place, listing),
        };
        let text = self.written(listing, false, render).await?;
        Ok(Outcome::Listed { text, format, next })
    }

    /// Redirects to the page of the folder of this name, if there is one that the client of `proof` may see. The address that was asked
    /// for has this `depth`, which an encoded `/` makes another than that of the key.
    pub async fn folder_of(
        &self,
        key: &Key<'_>,
        depth: usize,
        proof: Option<&Principal>,
    ) -> Result<Outcome, Refusal> {
        let mut page = Page {
            prefix: format!("{}/", key.as_str()),
            after: String::new(),
            limit: 1,
            by_folder: false,
            within: Prefixes::all(),
        };
        let grant = proof.map(|proof| &proof.subject.grant);
        if grant.is_some_and(|grant| authorize_page(&mut page, grant).is_err()) {
            return Ok(Outcome::NoValue);
        }
        let found = self.store.list(self.reactor, page).await?;
        if found.keys.is_empty() {
            return Ok(Outcome::NoValue);
        }
        // Relative, as the server may be below a path of a proxy.
        let to = format!("{}{}/", up(depth), encoded(key.as_str()));
        Ok(Outcome::Redirect { to })
    }

    /// The page for browsers, as the client of `proof` may use it.
    pub async fn home(
        &self,
        request: HomeRequest,
        proof: Option<&Principal>,
    ) -> Result<Outcome, Refusal> {
        let HomeRequest {
            place,
            preconditions,
            takes_gzip,
        } = request;
        let grant = proof.map(|proof| &proof.subject.grant);
        let mut rights = PageRights::new(grant, self.config.read_only);
        if let Some(proof) = proof {
            rights = rights.of(&proof.subject, proof.by == AuthMethod::Basic);
        }
        let listing = self.store.list(self.reactor, place.page.clone()).await?;
        let next = place.next_link(&listing);
        let render = move |listing: &Listing| {
            let document = ui::document(&place, listing, &rights);
            let document = if takes_gzip {
                document.compressed()
            } else {
                document
            };
            let is_known = ui::is_known(preconditions.as_ref(), &document.etag);
            (document, is_known)
        };
        let (document, is_known) = self.written(listing, takes_gzip, render).await?;
        Ok(Outcome::Home {
            is_known: is_known?,
            document,
            next,
        })
    }

    /// The text that `render` makes of `listing`; on the compute threads, where it is long or `takes_long`.
    async fn written<T: Send + 'static>(
        &self,
        listing: Arc<Listing>,
        takes_long: bool,
        render: impl FnOnce(&Listing) -> T + Send + 'static,
    ) -> Result<T, Error> {
        if !takes_long && listing.keys.len() + listing.folders.len() <= WRITTEN_AT_ONCE {
            return Ok(render(&listing));
        }
        let render = move || Ok(render(&listing));
        self.store.compute().run(render).await
    }
}
