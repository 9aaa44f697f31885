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
use crate::http::head::syntax::depth;
use crate::http::listing::perform::{address, folder_of, opens_folder, redirect};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;
use crate::http::service_config::ServiceConfig;
use crate::http::values::get::GetOptions;
use crate::http::values::get::{GetOutcome, get};
use crate::http::values::siblings::CODINGS;
use crate::http::verb::{Parsed, Verb};
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

/// The GET of a value of a site, or of a folder by its name.
pub fn site(asked: &RequestHead<'_>) -> Parsed {
    if asked.config.sites.is_empty() || !asked.reads() || asked.folder()?.is_some() {
        return Ok(None);
    }
    let found = below(asked, &asked.key()?);
    Ok(found.map(|found| Box::new(found) as _))
}

/// The verb of a GET of `folder`: its index, if it is in a site and not asked for its `listing`.
pub fn index_or(listing: Box<dyn Verb>, asked: &RequestHead<'_>, folder: &str) -> Box<dyn Verb> {
    let (head, config) = (asked.head, asked.config);
    let index = config.sites.of(folder);
    let index = index.and_then(|site| Key::new(format!("{folder}{}", site.index)).ok());
    match index {
        Some(key) if opens_folder(head, &asked.query) => {
            let otherwise = Otherwise::Listing(listing);
            Box::new(of_key(head, key, otherwise, config))
        }
        _ => listing,
    }
}

/// The GET of `key`, if it is in a site, or the name of one.
fn below(asked: &RequestHead<'_>, key: &Key<'_>) -> Option<SiteRequest> {
    let (head, config) = (asked.head, asked.config);
    let site = config.sites.below(key.as_str())?;
    let folder = format!("{}/", key.as_str());
    let by_browser = asked.common.by_browser && !config.compat;
    let otherwise = Otherwise::Folder {
        to: address(head, &folder),
        index: Key::new(folder + &site.index).ok(),
        by_browser: by_browser.then(|| depth(asked.path)),
    };
    let has_other_address = depth(asked.path) != key.as_str().matches('/').count();
    Some(SiteRequest {
        plain: has_other_address.then(|| address(head, key.as_str())),
        ..of_key(head, key.clone().into_owned(), otherwise, config)
    })
}

fn of_key(
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
