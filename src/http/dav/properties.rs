//! PROPFIND and PROPPATCH (RFC 4918, sections 9.1 and 9.2): the properties of a value or a folder, and of all that is
//! in a folder. All are live: none is kept for a client.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use httpdate::fmt_http_date;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use quick_xml::escape::escape;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::Content;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::dav::conditions::Conditions;
use crate::http::dav::name::{Name, Resource, of_name, resource};
use crate::http::dav::xml::{self, BEGIN, END, Element};
use crate::http::fields::media;
use crate::http::head::syntax::encoded;
use crate::http::listing::perform::written;
use crate::http::listing::{ListFormat, ListTarget, Query, items};
use crate::http::locks::{Lock, Locks, Scope};
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, plain, unstored, with};
use crate::http::values::moves::request::is_deep;
use crate::http::values::representation::validators;
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Free, Listing, Page, Stays};

pub const XML: &str = "application/xml; charset=utf-8";

/// The properties that PROPFIND answers unless it names some (section 9.1.5), and those that it answers when named.
const ALL: [&str; 9] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "creationdate",
    "supportedlock",
    "lockdiscovery",
];
/// RFC 4331: of folders.
const QUOTA: &str = "quota-available-bytes";

/// The most items of one look at the store.
const PAGE: usize = 1_000;

/// The properties that are asked for.
#[derive(Debug, Clone)]
enum Wanted {
    /// All, or only their names.
    All {
        names: bool,
    },
    Some(Arc<[Element]>),
}

/// The properties of a name, and of all that is in the folder of this name.
struct Find {
    name: Name,
    /// The folder, as a listing has it.
    target: ListTarget,
    with_members: bool,
    /// The path of this server behind a proxy.
    prefix: Box<str>,
}

/// The PROPFIND of `name`.
pub fn find(asked: &RequestHead<'_>, name: Name) -> Parsed {
    let headers = &asked.head.headers;
    let depth = headers
        .get(HeaderName::from_static("depth"))
        .map(HeaderValue::as_bytes);
    if is_deep(headers)? != Some(false) {
        let why = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
        return parsed(Infinite(why));
    }
    let folder = match &*name.text {
        "" => String::new(),
        text => format!("{text}/"),
    };
    let mut target = ListTarget::new(folder, Query::default(), ListFormat::Html);
    target.page.limit = PAGE;
    parsed(Find {
        with_members: depth == Some(b"1"),
        prefix: asked
            .client
            .forwarded_prefix(headers)
            .unwrap_or_default()
            .into(),
        name,
        target,
    })
}

/// A PROPFIND of all below a folder, at any depth: it is refused (section 9.1.1).
struct Infinite(&'static str);

#[async_trait(?Send)]
impl Verb for Infinite {
    async fn perform(self: Box<Self>, _: &RequestContext, _: &mut Received<'_>) -> Outcome {
        Ok(unstored(StatusCode::FORBIDDEN, XML, self.0).into())
    }
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
            return folder(request, writer, &name, target.page, with_members, text).await;
        };
        let item = Item {
            name: &name.text,
            value: Some((len, &etag, date)),
        };
        writer.write(&mut text, &item);
        text.push_str(END);
        Ok(multistatus(Body::bytes(text)))
    }
}

fn multistatus(body: Body) -> Reply {
    let response = plain(StatusCode::MULTI_STATUS, body);
    let response = with(response, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(XML));
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
            let write = move |listing: &Listing| writer.members(listing);
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

/// A value, with its length, tag and date for people, or a folder.
struct Item<'a> {
    /// Its name, for a folder without a `/` at the end.
    name: &'a str,
    value: Option<(u64, &'a str, SystemTime)>,
}

/// The writer of the answers to one request.
#[derive(Clone)]
struct Writer {
    wanted: Wanted,
    prefix: Box<str>,
    locks: Option<Arc<Locks>>,
    /// The bytes that values may still take, if that is asked for and known.
    available: Option<u64>,
}

impl Writer {
    /// True where a property is asked for by this name.
    fn names(&self, name: &str) -> bool {
        matches!(&self.wanted, Wanted::Some(names) if names.iter().any(|it| it.is(name)))
    }

    fn members(&self, listing: &Listing) -> String {
        let mut text = String::new();
        for item in items(listing) {
            let value = item.value;
            let value = value.map(|it| (it.len, &*it.validators.etag, it.date()));
            let name = item.text.trim_end_matches('/');
            self.write(&mut text, &Item { name, value });
        }
        text
    }

    /// Adds the answer about `item`.
    fn write(&self, to: &mut String, item: &Item<'_>) {
        let (mut found, mut missing) = (String::new(), String::new());
        match &self.wanted {
            Wanted::All { names } => {
                for name in ALL {
                    match self.property(name, item) {
                        Some(_) if *names => found.extend(["<D:", name, "/>"]),
                        Some(value) => found.extend(["<D:", name, ">", &*value, "</D:", name, ">"]),
                        None => {}
                    }
                }
            }
            Wanted::Some(names) => {
                for asked in &**names {
                    let name = &asked.name;
                    match Some(asked)
                        .filter(|it| it.is(name))
                        .and_then(|_| self.property(name, item))
                    {
                        Some(value) => found.extend(["<D:", name, ">", &*value, "</D:", name, ">"]),
                        None => missing.push_str(&asked.empty()),
                    }
                }
            }
        }
        let both = [(xml::OK, found), (xml::NOT_FOUND, missing)];
        let is_first = |(status, text): &(&str, String)| *status == xml::OK || !text.is_empty();
        let both: Vec<_> = both.into_iter().filter(is_first).collect();
        xml::write_response(to, &href(&self.prefix, item), &both);
    }

    /// The value of a property, as XML; `None` where the item has none of this name.
    fn property(&self, name: &str, item: &Item<'_>) -> Option<String> {
        let (len, etag, date) = match item.value {
            Some((len, etag, date)) => (Some(len), Some(etag), Some(date)),
            None => (None, None, None),
        };
        Some(match name {
            "resourcetype" if item.value.is_none() => "<D:collection/>".to_owned(),
            "resourcetype" => String::new(),
            "displayname" => {
                let name = item.name.rsplit('/').next().unwrap_or_default();
                escape(name).into_owned()
            }
            "getcontentlength" => len?.to_string(),
            "getcontenttype" => escape(&*media::of(item.name, None, false)).into_owned(),
            "getetag" => escape(etag?).into_owned(),
            "getlastmodified" => fmt_http_date(date?),
            "creationdate" => humantime::format_rfc3339_seconds(date?).to_string(),
            "supportedlock" => SUPPORTED.to_owned(),
            "lockdiscovery" => {
                let locks = self.locks.as_ref().map(|locks| locks.of(item.name));
                let locks = locks.unwrap_or_default();
                locks
                    .iter()
                    .map(|lock| discovered(lock, &self.prefix))
                    .collect()
            }
            QUOTA if item.value.is_none() => self.available?.to_string(),
            _ => return None,
        })
    }
}

const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
     <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// The path of an item, behind that of a proxy.
fn href(prefix: &str, item: &Item<'_>) -> String {
    let end = if item.value.is_none() && !item.name.is_empty() {
        "/"
    } else {
        ""
    };
    format!("{prefix}/{}{end}", encoded(item.name))
}

/// A lock, as it is told of.
pub fn discovered(lock: &Lock, prefix: &str) -> String {
    let scope = if lock.is_shared {
        "shared"
    } else {
        "exclusive"
    };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let (owner, token, seconds) = (&lock.owner, &lock.token, lock.timeout.as_secs());
    let root = format!("{prefix}/{}", encoded(&lock.name));
    format!(
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>\
         <D:owner>{owner}</D:owner><D:timeout>Second-{seconds}</D:timeout><D:locktoken><D:href>{token}</D:href></D:locktoken>\
         <D:lockroot><D:href>{root}</D:href></D:lockroot></D:activelock>"
    )
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
        let of_folder = Need::below(Right::Create, &self.name.text);
        of_name(
            &self.name,
            Need::Store(self.name.text.clone().into()),
            of_folder,
        )
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
