//! What is asked of a site: from a request to its operation, and to its reply.
//!
//! An index, a sibling, a page in place of a value and a listing each need the client's right to them. A folder without
//! an index has its listing.

use async_trait::async_trait;
use hyper::http::request::Parts;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::accept::codings;
use crate::http::head::syntax::depth;
use crate::http::listing::ListFormat;
use crate::http::listing::perform::{address, folder_of, linked_folder_of, opens_folder, redirect};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply};
use crate::http::service_config::ServiceConfig;
use crate::http::sites::Site;
use crate::http::values::get::GetOptions;
use crate::http::values::get::{GetOutcome, get};
use crate::http::values::siblings::CODINGS;
use crate::http::values::symlinks;
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
    pub stand_ins: StandIns,
}

/// The end of the name of a page, which a clean address lacks.
const PAGE: &str = ".html";

/// The pages of a site that answer this client where a key has no value.
#[derive(Default)]
pub struct StandIns {
    /// The page at its clean address.
    clean: Option<Key<'static>>,
    /// The page of an application, for a navigation.
    fallback: Option<Key<'static>>,
    /// The page that says that there is nothing, with 404.
    not_found: Option<Key<'static>>,
}

impl StandIns {
    /// The pages of `site` for a request of `name`: a key, or a folder with the `/` at its end. A client that prefers
    /// JSON or text to HTML gets neither a fallback nor a page for 404. A name with an extension is that of a file that
    /// a page loads, which a page in its place would break in ways that are hard to find; so a fallback for it is for
    /// clients that ask for HTML by name alone.
    fn of(site: &Site, name: &str, head: &Parts) -> Self {
        let takes = |first| ListFormat::preferred(&head.headers, first) == ListFormat::Html;
        let last = name.rsplit('/').next().unwrap_or_default();
        let is_page = takes(if last.contains('.') {
            ListFormat::Json
        } else {
            ListFormat::Html
        });
        let is_clean = site.clean && !name.ends_with('/') && !last.ends_with(PAGE);
        let key = |name: &Option<String>, is_taken: bool| {
            let name = name.as_ref().filter(|_| is_taken)?;
            Key::new(name.clone()).ok()
        };
        Self {
            clean: is_clean
                .then(|| Key::new(format!("{name}{PAGE}")).ok())
                .flatten(),
            fallback: key(&site.fallback, is_page),
            not_found: key(&site.not_found, takes(ListFormat::Html)),
        }
    }

    fn are_none(&self) -> bool {
        self.fallback.is_none() && self.not_found.is_none()
    }

    /// The answer of the fallback, or else of the page for 404, if there is one that the client may read.
    async fn answer(
        &self,
        request: &RequestContext,
        options: &GetOptions,
        codings: &[usize],
        plain: Option<String>,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(found) = page(request, self.fallback.as_ref(), options, codings).await? {
            return Ok(Some(answer(found, true, plain)));
        }
        let (key, options) = (self.not_found.as_ref(), options.of_whole());
        let Some(found) = page(request, key, &options, codings).await? else {
            return Ok(None);
        };
        let is_redirect = plain.is_some();
        let mut reply = answer(found, true, plain);
        if !is_redirect {
            *reply.response.status_mut() = NO_SUCH_KEY.kind.status;
        }
        Ok(Some(reply))
    }
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
        let Self {
            plain,
            key,
            options,
            codings,
            otherwise,
            stand_ins,
        } = *self;
        let is_index = matches!(otherwise, Otherwise::Listing(_));
        if !is_index || request.may_read(&key) {
            let (asked, codings) = (Some(&options), Some(&*codings));
            let found = match get(request, &key, asked, codings).await? {
                None => symlinks::value(request, &key, asked, codings).await?,
                found => found,
            };
            if let Some(found) = found {
                return Ok(answer(found, is_index, plain));
            }
        }
        let clean = stand_ins.clean.as_ref();
        if let Some(found) = page(request, clean, &options, &codings).await? {
            return Ok(answer(found, false, plain));
        }
        let stand_in = stand_ins.answer(request, &options, &codings, plain);
        match otherwise {
            Otherwise::Listing(mut listing) => {
                if !stand_ins.are_none()
                    && !has_folder(request, key.folder()).await?
                    && let Some(reply) = stand_in.await?
                {
                    return Ok(reply);
                }
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
                if let Some(depth) = by_browser
                    && let Some(to) =
                        linked_folder_of(request, &key, depth, options.query.as_deref()).await?
                {
                    return Ok(redirect(to));
                }
                stand_in.await?.ok_or(NO_SUCH_KEY)
            }
        }
    }
}

/// The answer with a value that was found, at an address that has something else for other clients if it `varies`.
fn answer(mut found: GetOutcome, varies: bool, plain: Option<String>) -> Reply {
    if let GetOutcome::Value(response) = &mut found
        && varies
    {
        response.value.vary_by_accept();
    }
    // Relative links of a page whose address has an encoded `/` would lead out of its folder, and maybe of the site,
    // whose writers alone are trusted with scripts.
    plain.map_or_else(|| found.into(), redirect)
}

/// The value of `key`, which the request does not name, if the client may read it.
async fn page(
    request: &RequestContext,
    key: Option<&Key<'_>>,
    options: &GetOptions,
    codings: &[usize],
) -> Result<Option<GetOutcome>, Refusal> {
    match key.filter(|key| request.may_read(key)) {
        Some(key) => get(request, key, Some(options), Some(codings)).await,
        None => Ok(None),
    }
}

/// True where there is a folder of this name that the client may list.
async fn has_folder(request: &RequestContext, name: &str) -> Result<bool, Refusal> {
    match Key::new(name) {
        Ok(folder) => Ok(folder_of(request, &folder, 0, None).await?.is_some()),
        // The top.
        Err(_) => Ok(true),
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
    match config.sites.of(folder).zip(index) {
        Some((site, key)) if opens_folder(head, &asked.query) => {
            let stand_ins = StandIns::of(site, folder, head);
            let otherwise = Otherwise::Listing(listing);
            Box::new(of_key(head, key, otherwise, stand_ins, config))
        }
        _ => listing,
    }
}

/// The GET of `key`, if it is in a site, or the name of one.
fn below(asked: &RequestHead<'_>, key: &Key<'_>) -> Option<SiteRequest> {
    let (head, config) = (asked.head, asked.config);
    let site = config.sites.below(key.as_str())?;
    let folder = format!("{}/", key.as_str());
    // Of the site that has the address itself: its name may be that of one below.
    let of_key_itself = config.sites.of(key.as_str());
    let stand_ins = of_key_itself.map(|site| StandIns::of(site, key.as_str(), head));
    let stand_ins = stand_ins.unwrap_or_default();
    let by_browser = asked.common.by_browser && !config.compat;
    let otherwise = Otherwise::Folder {
        to: address(head, &folder),
        index: Key::new(folder + &site.index).ok(),
        by_browser: by_browser.then(|| depth(asked.path)),
    };
    let has_other_address = depth(asked.path) != key.as_str().matches('/').count();
    Some(SiteRequest {
        plain: has_other_address.then(|| address(head, key.as_str())),
        ..of_key(head, key.clone().into_owned(), otherwise, stand_ins, config)
    })
}

fn of_key(
    head: &Parts,
    key: Key<'static>,
    otherwise: Otherwise,
    stand_ins: StandIns,
    config: &ServiceConfig,
) -> SiteRequest {
    SiteRequest {
        key,
        plain: None,
        options: GetOptions::of(head, config),
        codings: codings(&head.headers, &CODINGS),
        otherwise,
        stand_ins,
    }
}
