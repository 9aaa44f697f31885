//! What is asked of the page for browsers: which listing is one, the page as the client may use it, and the links by
//! which a person signs in and out.

use std::time::SystemTime;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, HeaderName, HeaderValue, LINK};

use crate::access::Right;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::head::accept::takes_gzip;
use crate::http::head::client::Door;
use crate::http::head::query::Parameters;
use crate::http::head::syntax::{depth, encoded, put};
use crate::http::listing::perform::{
    Redirect, address, behind_links, is_absent, redirect, unlisted, written,
};
use crate::http::listing::site::index_or;
use crate::http::listing::{DEFAULT_LIMIT, ListFormat, ListTarget, PARAMETERS, Query, is_known};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, plain};
use crate::http::ui::{self, PageRights};
use crate::http::values::conditional::preconditions;
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Key, Listing, Preconditions};

/// The challenge with which a browser forgets a password: it names a scheme that browsers neither answer nor ask for.
const SIGNED_OUT: Refusal = Refusal::new(
    &Kind::new(StatusCode::UNAUTHORIZED, "signed-out")
        .fields(&[("www-authenticate", "Bearer realm=\"signed out\"")]),
    "you are signed out",
);

/// A request for the page for browsers.
#[derive(Debug)]
pub struct UiRequest {
    pub target: ListTarget,
    pub preconditions: Option<Preconditions>,
    /// The client takes it compressed.
    pub takes_gzip: bool,
    /// Browsers trust the origin.
    pub is_trustworthy: bool,
    /// A trusted proxy says which path it has in front of the server.
    pub is_prefixed: bool,
}

/// Has the client sign in, and leads it to this address.
pub struct SignIn(String);

/// The listing of a folder, or the index in its place. HTML is the page for clients that prefer it, as browsers do, and
/// an index of links for others; it has one address.
pub fn listing(asked: &RequestHead<'_>) -> Parsed {
    let head = asked.head;
    let folder = if asked.reads() { asked.folder()? } else { None };
    let Some(folder) = folder else {
        return Ok(None);
    };
    asked.query.check(PARAMETERS, &[])?;
    let mut query = Query::of(&asked.query)?;
    let preferred = || ListFormat::preferred(&head.headers, query.usual_format());
    let format = query.format.unwrap_or_else(preferred);
    let has_other_address = depth(asked.path) != folder.matches('/').count();
    if format == ListFormat::Html && has_other_address {
        // A `/` of the address is encoded. The links of HTML are relative, so it has one address, in which none is.
        return parsed(Redirect(address(head, &folder)));
    }
    // The scripts of the page know the answers of the plain door alone.
    let is_plain = asked.client.door == Door::Plain;
    let is_page = is_plain && format == ListFormat::Html && ui::is_preferred(&head.headers);
    if is_page {
        // A browser draws each row before its script runs, and people follow the link to the next page.
        query.limit.get_or_insert(DEFAULT_LIMIT);
    }
    let mut target = ListTarget::new(folder.clone(), query, format);
    target.query = head.uri.query().map(Into::into);
    let listing: Box<dyn Verb> = if is_page {
        Box::new(UiRequest {
            target,
            preconditions: preconditions(&head.headers),
            takes_gzip: takes_gzip(&head.headers),
            is_trustworthy: asked.common.is_trustworthy(&head.headers, &asked.client),
            is_prefixed: asked.client.forwarded_prefix(&head.headers).is_some(),
        })
    } else {
        // With the parameters of the next page, JSON would be the usual format.
        target.names_format |= format == ListFormat::Html;
        target.preconditions = preconditions(&head.headers);
        Box::new(target)
    };
    Ok(Some(index_or(listing, asked, &folder)))
}

/// The parameters of a link by which a person signs in or out.
const OF_SESSION: &Parameters = &Parameters {
    of: "the root",
    once: &["sign-in", "sign-out"],
    many: &[],
    hint: "it has sign-in and sign-out, and those of a listing",
};

/// The link by which a person signs in or out.
pub fn session(asked: &RequestHead<'_>) -> Parsed {
    if asked.path != "/" || !asked.reads() || asked.config.compat || !asked.config.authorizes {
        return Ok(None);
    }
    asked.query.check(OF_SESSION, &[])?;
    if asked.query.has("sign-out") {
        return Err(SIGNED_OUT);
    }
    let Some(folder) = asked.query.get("sign-in") else {
        return Ok(None);
    };
    // A name of no folder leads to the root.
    let is_folder = folder.ends_with('/') && Key::new(format!("{folder}k")).is_ok();
    let folder = if is_folder { folder } else { "" };
    parsed(SignIn(format!("./{}", encoded(folder))))
}

#[async_trait(?Send)]
impl Verb for UiRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        self.target.needs()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.target.permit(client)
    }

    /// The page for browsers, as the client may use it.
    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (asked, service) = (*self, &*request.service);
        let principal = request.principal();
        let subject = principal.map(|principal| &*principal.subject);
        let signs_out = principal.is_some_and(|principal| principal.by == AuthMethod::Basic);
        let mut rights = PageRights::new(subject, service.config.read_only, signs_out);
        rights.prefixed = asked.is_prefixed;
        if !service.config.authorizes {
            rights.name = None;
        }
        if let Some(principal) = principal {
            let policy = principal.access.policy();
            rights.title.clone_from(&policy.realm);
            if let Some((keys, lasts)) = policy.shared(&principal.subject, SystemTime::now()) {
                rights = rights.with_shared(&keys, lasts);
            }
        }
        if let Some(title) = &service.config.title {
            rights.title = title.as_str().into();
        }
        let page = asked.target.page.clone();
        let listing = service.store.list(service.reactor, page).await?;
        if let Some(to) = behind_links(request, &asked.target, &listing).await? {
            return Ok(redirect(to));
        }
        let is_absent = is_absent(service, &asked.target, &listing).await?;
        let beside = unlisted(request, &asked.target).await?;
        let beside = ui::unlisted(&beside, service.config.follows_symlinks);
        let (next, takes_long) = (asked.target.next_link(&listing), asked.takes_gzip);
        let bounds = service.store.account().map_or_else(String::new, |account| {
            let mut bounds = account.of_folder(&asked.target.folder);
            bounds.retain(|(scope, ..)| rights.may_list(scope));
            ui::bounds(&bounds)
        });
        let remarks = beside + &bounds;
        let render = move |listing: &Listing| {
            let mut document = ui::document(&asked.target, listing, &rights, remarks, is_absent);
            if asked.takes_gzip {
                document = document.compressed();
            }
            let is_known = is_known(asked.preconditions.as_ref(), &document.etag);
            (document, is_known)
        };
        let (document, is_known) = written(&service.store, listing, takes_long, render).await?;
        let response = match is_known? {
            true if !is_absent => empty(StatusCode::NOT_MODIFIED),
            _ if is_absent => plain(StatusCode::NOT_FOUND, Body::bytes(document.html)),
            _ => plain(StatusCode::OK, Body::bytes(document.html)),
        };
        Ok(Reply::from(response).with(|headers| {
            headers.extend(ui::headers(&document.etag));
            if asked.is_trustworthy {
                let policy = HeaderName::from_static("cross-origin-opener-policy");
                headers.insert(policy, HeaderValue::from_static("same-origin"));
            }
            if document.is_gzip {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            if let Some(next) = next {
                put(headers, LINK, next);
            }
        }))
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
