//! What is asked of a site: from a request to its operation, and to its reply.
//!
//! An index, a sibling and a listing each need the client's right to them. A folder without an index has its listing.

use async_trait::async_trait;
use hyper::http::request::Parts;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::accept::codings;
use crate::http::head::query::QueryFields;
use crate::http::head::syntax::depth;
use crate::http::listing::perform::{address, folder_of, opens_folder, redirect};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::response::Outcome;
use crate::http::service_config::ServiceConfig;
use crate::http::values::get::GetOptions;
use crate::http::values::get::{GetOutcome, get};
use crate::http::values::siblings::CODINGS;
use crate::http::verb::Verb;
use crate::store::{Key, Purpose};

/// A GET of a site.
pub struct SiteRequest {
    /// The plain address of the key, relative to that of the request, if a `/` is encoded in this one.
    pub plain: Option<String>,
    pub key: Key<'static>,
    pub options: GetOptions,
    /// The codings of siblings that the client prefers to none, as places among all, the best first.
    pub codings: Vec<usize>,
    pub otherwise: Otherwise,
}

/// What is answered in place of a value of a site that is not there.
pub enum Otherwise {
    /// The value is an index: the listing of its folder.
    Listing(Box<dyn Verb>),
    /// The folder of this name, at this address, if it has an index; or as for a browser.
    Folder {
        index: Option<Key<'static>>,
        to: String,
        by_browser: Option<usize>,
    },
}

#[async_trait(?Send)]
impl Verb for SiteRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::all(Right::Read, self.key.as_str())]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        match &mut self.otherwise {
            // A client that may read the index may have the listing, which stands in where there is no index.
            Otherwise::Listing(listing) if !client.may_read(self.key.as_str()) => {
                listing.permit(client)
            }
            _ => client.meet_all(self.needs()),
        }
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let service = &*request.service;
        let is_index = matches!(self.otherwise, Otherwise::Listing(_));
        if !is_index || request.may_read(&self.key) {
            let found = get(request, &self.key, Some(&self.options), Some(&self.codings)).await?;
            if let Some(mut found) = found {
                if let GetOutcome::Value(response) = &mut found
                    && is_index
                {
                    response.value.vary_by_accept();
                }
                // Relative links of a page whose address has an encoded `/` would lead out of its folder, and maybe of
                // the site, whose writers alone are trusted with scripts.
                return Ok(self.plain.map_or_else(|| found.into(), redirect));
            }
        }
        match self.otherwise {
            Otherwise::Listing(mut listing) => {
                if let Some(principal) = request.principal() {
                    listing.permit(principal)?;
                }
                listing.perform(request, body).await
            }
            Otherwise::Folder {
                index,
                to,
                by_browser,
            } => {
                if let Some(index) = index.filter(|index| request.may_read(index))
                    && (service
                        .store
                        .get(service.reactor, &index, false, Purpose::Use)
                        .await?)
                        .is_some()
                {
                    return Ok(redirect(to));
                }
                let depth = by_browser.ok_or(NO_SUCH_KEY)?;
                let folder = folder_of(request, &self.key, depth, Some(&self.options)).await?;
                folder.map(redirect).ok_or(NO_SUCH_KEY)
            }
        }
    }
}

/// The operation of a request for a folder: its index, if it is in a site and not asked for its `listing`.
pub fn index_or(
    listing: Box<dyn Verb>,
    head: &Parts,
    query: &QueryFields<'_>,
    folder: &str,
    config: &ServiceConfig,
) -> Box<dyn Verb> {
    let index = config.sites.of(folder);
    let index = index.and_then(|site| Key::new(format!("{folder}{}", site.index)).ok());
    match index {
        Some(key) if opens_folder(head, query) => {
            let otherwise = Otherwise::Listing(listing);
            Box::new(asked(head, key, otherwise, config))
        }
        _ => listing,
    }
}

/// The operation of a GET of `key`, if it is in a site, or the name of one.
pub fn get_below(
    head: &Parts,
    key: &Key<'_>,
    by_browser: Option<usize>,
    config: &ServiceConfig,
) -> Option<SiteRequest> {
    let site = config.sites.below(key.as_str())?;
    let folder = format!("{}/", key.as_str());
    let otherwise = Otherwise::Folder {
        to: address(head, &folder),
        index: Key::new(folder + &site.index).ok(),
        by_browser,
    };
    let has_other_address = depth(head.uri.path()) != key.as_str().matches('/').count();
    Some(SiteRequest {
        plain: has_other_address.then(|| address(head, key.as_str())),
        ..asked(head, key.clone().into_owned(), otherwise, config)
    })
}

fn asked(
    head: &Parts,
    key: Key<'static>,
    otherwise: Otherwise,
    config: &ServiceConfig,
) -> SiteRequest {
    SiteRequest {
        key,
        plain: None,
        options: GetOptions::of(head, config),
        codings: codings(&head.headers, &CODINGS),
        otherwise,
    }
}
