//! PROPFIND and PROPPATCH (RFC 4918, sections 9.1 and 9.2): which properties are asked for, of a name or of all that
//! is in a folder, and the answer, in bounded memory.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::Content;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::dav::conditions::Conditions;
use crate::http::dav::name::{Name, Resource, resource, to_store};
use crate::http::dav::properties::{Item, QUOTA, Wanted, Writer};
use crate::http::dav::xml::{self, BEGIN, END, Element, MEDIA_TYPE};
use crate::http::head::syntax::encoded;
use crate::http::listing::perform::written;
use crate::http::listing::{ListFormat, ListTarget, Query};
use crate::http::locks::Scope;
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, plain, unstored, with};
use crate::http::values::moves::request::is_deep;
use crate::http::values::representation::validators;
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Free, Listing, Page, Stays, Store};

/// The most items of one look at the store.
const PAGE: usize = 1_000;

const INFINITE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

/// The properties of a name, and of all that is in the folder of this name.
struct Find {
    name: Name,
    /// The folder, as a listing has it.
    target: ListTarget,
    with_members: bool,
    /// All below it, at any depth, is asked for: that is refused of a folder (section 9.1.1), and a value has nothing.
    is_infinite: bool,
    /// The path of this server behind a proxy.
    prefix: Box<str>,
}

/// The PROPFIND of `name`.
pub fn find(asked: &RequestHead<'_>, name: Name) -> Parsed {
    let headers = &asked.head.headers;
    let depth = headers
        .get(HeaderName::from_static("depth"))
        .map(HeaderValue::as_bytes);
    let folder = match &*name.text {
        "" => String::new(),
        text => format!("{text}/"),
    };
    let mut target = ListTarget::new(folder, Query::default(), ListFormat::Html);
    target.page.limit = PAGE;
    parsed(Find {
        with_members: depth == Some(b"1"),
        is_infinite: is_deep(headers)?.unwrap_or(true),
        prefix: asked
            .client
            .forwarded_prefix(headers)
            .unwrap_or_default()
            .into(),
        name,
        target,
    })
}

#[async_trait(?Send)]
impl Verb for Find {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::List, &self.name.text)]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        client.may_list(&mut self.target.page);
        Ok(())
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self {
            name,
            target,
            with_members,
            is_infinite,
            prefix,
        } = *self;
        let wanted = wanted(xml::receive(body).await?);
        let service = &request.service;
        let found = resource(request, &name).await?.ok_or(NO_SUCH_KEY)?;
        let writer = Writer {
            wanted,
            prefix,
            locks: service.locks.clone(),
            available: None,
        };
        let mut text = BEGIN.to_owned();
        let value = match &found {
            Resource::Value(found) => {
                let may_see = |client: &Principal| client.allows(Right::List, &name.text);
                if !request.principal().is_none_or(may_see) {
                    return Err(NO_SUCH_KEY);
                }
                Some((found.len(), validators(found).etag, found.date()))
            }
            Resource::Folder => None,
        };
        let Some((len, etag, date)) = value else {
            if is_infinite {
                return Ok(unstored(StatusCode::FORBIDDEN, MEDIA_TYPE, INFINITE).into());
            }
            return folder(request, writer, &name, target.page, with_members, text).await;
        };
        let item = Item {
            name: &name.text,
            value: Some((len, &etag)),
            date,
        };
        writer.write(&mut text, &item);
        text.push_str(END);
        Ok(multistatus(Body::bytes(text)))
    }
}

fn multistatus(body: Body) -> Reply {
    let response = plain(StatusCode::MULTI_STATUS, body);
    let response = with(response, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    });
    response.into()
}

/// The answer about a folder, of which a client that may not list all sees what it may.
async fn folder(
    request: &RequestContext,
    mut writer: Writer,
    name: &Name,
    page: Page,
    with_members: bool,
    mut text: String,
) -> Outcome {
    let service = Rc::clone(&request.service);
    let sees_all = page.within.has(&page.prefix);
    let first = if with_members || !sees_all {
        let found = service.store.list(service.reactor, page.clone()).await?;
        if !sees_all && found.keys.is_empty() && found.folders.is_empty() {
            return Err(NO_SUCH_KEY);
        }
        Some(found)
    } else {
        None
    };
    if writer.names(QUOTA) {
        let free = service.store.probe().await?;
        writer.available = free.map(Free::beyond_floor);
    }
    let own = Item {
        name: &name.text,
        value: None,
        date: dates(&service.store, &page, vec![page.prefix.clone()]).await?[0],
    };
    writer.write(&mut text, &own);
    let Some(first) = first.filter(|_| with_members) else {
        text.push_str(END);
        return Ok(multistatus(Body::bytes(text)));
    };
    let begin = stream::once(async move { Ok(Piece::Bytes(Bytes::from(text))) });
    let members = stream::try_unfold(Some((first, page)), move |state| {
        let (service, writer) = (Rc::clone(&service), writer.clone());
        async move {
            let Some((listing, mut page)) = state else {
                return Ok::<_, Refusal>(None);
            };
            let next = listing.next.clone();
            let dates = dates(&service.store, &page, listing.folders.clone()).await?;
            let write = move |listing: &Listing| writer.members(listing, &dates);
            let text = written(&service.store, listing, false, write).await?;
            let Some(after) = next else {
                let piece = Piece::Bytes(Bytes::from(text + END));
                return Ok(Some((piece, None)));
            };
            page.after = after;
            let listing = service.store.list(service.reactor, page.clone()).await?;
            Ok(Some((
                Piece::Bytes(Bytes::from(text)),
                Some((listing, page)),
            )))
        }
    });
    let (service, exchange) = (
        Rc::clone(&request.service),
        Rc::clone(&request.guard.exchange),
    );
    let members = members.map_err(move |why| service.broke_off(why, &exchange));
    let pieces = Box::pin(begin.chain(members));
    Ok(multistatus(Body::of(Content::Made(pieces))))
}

/// The dates of `folders`, the names of which end with `/`; 1970 of one that the client does not see all of.
async fn dates(
    store: &Store,
    page: &Page,
    folders: Vec<String>,
) -> Result<Vec<SystemTime>, Refusal> {
    let sees = folders.iter().map(|it| page.within.has(it));
    let sees: Vec<_> = sees.collect();
    let dates = store.folder_dates(folders).await?.into_iter().zip(sees);
    Ok(dates
        .map(|(date, sees)| if sees { date } else { UNIX_EPOCH })
        .collect())
}

/// What the body of a PROPFIND asks for.
fn wanted(body: Option<Element>) -> Wanted {
    let Some(root) = body else {
        return Wanted::All { names: false };
    };
    if let Some(prop) = root.child("prop") {
        let names = prop.children.iter().map(|child| Element {
            namespace: child.namespace.clone(),
            name: child.name.clone(),
            ..Element::default()
        });
        return Wanted::Some(names.collect());
    }
    let names = root.child("propname").is_some();
    Wanted::All { names }
}

/// A change of properties, none of which are kept.
struct Patch {
    name: Name,
    conditions: Conditions,
    prefix: Box<str>,
}

/// The PROPPATCH of `name`.
pub fn patch(asked: &RequestHead<'_>, name: Name, conditions: Conditions) -> Parsed {
    let prefix = asked.client.forwarded_prefix(&asked.head.headers);
    parsed(Patch {
        name,
        conditions,
        prefix: prefix.unwrap_or_default().into(),
    })
}

#[async_trait(?Send)]
impl Verb for Patch {
    fn needs(&self) -> Vec<Need<'_>> {
        to_store(&self.name)
    }

    /// Each property is refused by itself: Explorer sets times, and goes on where the answer is 207.
    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let asked = xml::receive(body).await?;
        self.conditions.check(request, &self.name).await?;
        let found = resource(request, &self.name).await?.ok_or(NO_SUCH_KEY)?;
        let _changing = request.begin_change(&[Scope::one(&self.name.text)])?;
        let changes = asked.iter().flat_map(|root| &root.children);
        let names = changes
            .filter_map(|change| change.child("prop"))
            .flat_map(|prop| &prop.children);
        let names: String = names.map(Element::empty).collect();
        let is_folder = matches!(found, Resource::Folder);
        let end = if is_folder && !self.name.text.is_empty() {
            "/"
        } else {
            ""
        };
        let href = format!("{}/{}{end}", self.prefix, encoded(&self.name.text));
        let mut text = BEGIN.to_owned();
        xml::write_response(&mut text, &href, &[(xml::FORBIDDEN, names)]);
        text.push_str(END);
        Ok(multistatus(Body::bytes(text)))
    }
}

/// The answer about a change of a folder of which something stays: what, and why.
pub fn stayed(stays: &Stays, prefix: &str) -> Reply {
    let mut text = BEGIN.to_owned();
    for it in &stays.why {
        let href = format!("{prefix}/{}", encoded(&it.name));
        xml::write_failure(&mut text, &href, &it.reason);
    }
    text.push_str(END);
    multistatus(Body::bytes(text))
}
