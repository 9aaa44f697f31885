//! Listings, and the page for browsers that shows one: asked of the store, and written where that keeps no reactor busy.

use std::sync::Arc;

use crate::http::auth::authorize::authorize_page;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::head::syntax::encoded;
use crate::http::listing::query::{ListFormat, ListTarget, Listed, json, text};
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::Handler;
use crate::http::service::operation::HomeRequest;
use crate::http::ui::{self, PageRights};
use crate::store::{Error, Key, Listing, Page, Prefixes, Store};

/// A listing of more items than this takes a reactor too long to write.
const WRITTEN_AT_ONCE: usize = 50;

impl Handler {
    pub async fn list(&self, place: ListTarget) -> Result<Outcome, Outcome> {
        match &*self.store {
            Store::Directory(directory) => {
                let listing = directory.list(place.page.clone()).await?;
                self.listed(place, listing).await
            }
            Store::S3(s3) => {
                let listing = s3.gateway(self.reactor).list(&place.page).await?;
                self.listed(place, Arc::new(listing)).await
            }
        }
    }

    /// The page of the folder that has the name of `key`, if there is one that the client of `proof` may see.
    pub async fn folder_of(
        &self,
        key: &Key<'_>,
        proof: Option<&Principal>,
    ) -> Result<Outcome, Outcome> {
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
        let is_folder = match &*self.store {
            Store::Directory(directory) => !directory.list(page).await?.keys.is_empty(),
            Store::S3(s3) => !s3.gateway(self.reactor).list(&page).await?.keys.is_empty(),
        };
        if !is_folder {
            return Ok(Outcome::NoValue);
        }
        // Relative, as the server may be below a path of a proxy.
        let to = format!("{}/", encoded(key.name()));
        Ok(Outcome::Redirect { to })
    }

    /// The page for browsers, as the client of `proof` may use it.
    pub async fn home(
        &self,
        request: HomeRequest,
        proof: Option<&Principal>,
    ) -> Result<Outcome, Outcome> {
        let page = &request.place.page;
        let grant = proof.map(|proof| &proof.subject.grant);
        let mut rights = PageRights::new(grant, self.config.read_only);
        if let Some(proof) = proof {
            rights = rights.of(&proof.subject, proof.by == AuthMethod::Basic);
        }
        match &*self.store {
            Store::Directory(directory) => {
                let listing = directory.list(page.clone()).await?;
                self.shown(request, listing, rights).await
            }
            Store::S3(s3) => {
                let listing = s3.gateway(self.reactor).list(page).await?;
                self.shown(request, Arc::new(listing), rights).await
            }
        }
    }

    async fn listed<V: Listed + Send + Sync + 'static>(
        &self,
        place: ListTarget,
        listing: Arc<Listing<V>>,
    ) -> Result<Outcome, Outcome> {
        let (next, format) = (place.next_link(&listing), place.format);
        let render = move |listing: &Listing<V>| match format {
            ListFormat::Json => json(&place.page, listing),
            ListFormat::Text => text(listing),
            ListFormat::Html => ui::index(&place, listing),
        };
        let text = self.written(listing, false, render).await?;
        Ok(Outcome::Listed { text, format, next })
    }

    async fn shown<V: Listed + Send + Sync + 'static>(
        &self,
        request: HomeRequest,
        listing: Arc<Listing<V>>,
        rights: PageRights,
    ) -> Result<Outcome, Outcome> {
        let HomeRequest {
            place,
            preconditions,
            takes_gzip,
        } = request;
        let next = place.next_link(&listing);
        let render = move |listing: &Listing<V>| {
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

    /// The text that `render` makes of `listing`, which may take long whatever is in it.
    async fn written<V: Send + Sync + 'static, T: Send + 'static>(
        &self,
        listing: Arc<Listing<V>>,
        takes_long: bool,
        render: impl FnOnce(&Listing<V>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        if !takes_long && listing.keys.len() + listing.folders.len() <= WRITTEN_AT_ONCE {
            return Ok(render(&listing));
        }
        let render = move || Ok(render(&listing));
        self.store.compute().run(render).await
    }
}
