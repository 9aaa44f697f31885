//! PROPFIND and PROPPATCH (RFC 4918, sections 9.1, 9.2 and 15): which properties are asked for, of a name or of all
//! that is in a folder, and the answer, in bounded memory. All properties are live: none is kept for a client.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, TryStreamExt as _};
use httpdate::fmt_http_date;
use hyper::StatusCode;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::body::Content;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::dav::name::{Name, Resource, Target, resource};
use crate::http::dav::xml::{self, BEGIN, END, Element, MEDIA_TYPE};
use crate::http::dav::xml::{discovered, multistatus, propstat};
use crate::http::fields::media;
use crate::http::listing::perform::{has_any, written};
use crate::http::listing::{Item, ListFormat, ListTarget, Query, items};
use crate::http::locks::{Locks, Scope};
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, plain, unstored};
use crate::http::values::moves::request::is_deep;
use crate::http::values::representation::validators;
use crate::store::{Free, ListedValue, Listing, Page};

/// The most items of one look at the store.
const PAGE: usize = 1_000;

/// The answer about all below a folder, at any depth (section 9.1.1).
const NOT_FINITE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

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

const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
     <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// A look at the properties of a name, and of all that is in the folder of this name.
pub struct Find {
    /// The folder, as a listing has it.
    pub page: Page,
    /// Whether its members are asked for; `None` for all below them, too.
    with_members: Option<bool>,
}

impl Find {
    /// The PROPFIND of `name`.
    pub fn of(asked: &RequestHead<'_>, name: &Name) -> Result<Self, Refusal> {
        let headers = &asked.head.headers;
        let is_one = || headers.get("depth").is_some_and(|depth| depth == "1");
        let folder = ListTarget::new(name.of_folder(), Query::default(), ListFormat::Html);
        Ok(Self {
            with_members: (is_deep(headers)? == Some(false)).then(is_one),
            page: Page {
                limit: PAGE,
                ..folder.page
            },
        })
    }
}

/// The properties that are asked for.
#[derive(Clone)]
struct Wanted {
    properties: Arc<[Element]>,
    /// They were named, so that those which an item has not are told.
    are_named: bool,
    /// Only the names of those that an item has.
    names_alone: bool,
}

impl Wanted {
    /// What the body of a PROPFIND asks for.
    fn of(body: Option<Element>) -> Self {
        let all = || ALL.map(Element::of_rfc).into();
        let children = body.map_or(Vec::new(), |root| root.children);
        let names_alone = children.iter().any(|child| child.is("propname"));
        let prop = children.into_iter().find(|child| child.is("prop"));
        Self {
            are_named: prop.is_some(),
            names_alone: prop.is_none() && names_alone,
            properties: prop.map_or_else(all, |prop| prop.children.into()),
        }
    }
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
    /// The answer about `item`. The `date` is that of a value for people, or when something in a folder was last made
    /// or removed.
    fn response(&self, item: &Item<'_>, date: SystemTime) -> String {
        let (mut found, mut missing) = (String::new(), String::new());
        for asked in &*self.wanted.properties {
            let name = &asked.name;
            match self.property(name, item, date).filter(|_| asked.is(name)) {
                Some(_) if self.wanted.names_alone => found += &asked.empty(),
                Some(value) => found.extend(["<D:", name, ">", &value, "</D:", name, ">"]),
                None if self.wanted.are_named => missing += &asked.empty(),
                None => {}
            }
        }
        let mut stats = propstat("200 OK", &found);
        if !missing.is_empty() {
            stats += &propstat("404 Not Found", &missing);
        }
        xml::response(&self.prefix, item.text, &stats)
    }

    /// The answers about all in `listing`, whose folders have these dates.
    fn members(&self, listing: &Listing, dates: &[SystemTime]) -> String {
        let (items, mut dates) = (items(listing), dates.iter());
        let responses = items.iter().map(|item| {
            // Folders come in the same order.
            let of_folder = || dates.next().copied().unwrap_or(UNIX_EPOCH);
            let date = item.value.map_or_else(of_folder, ListedValue::date);
            self.response(item, date)
        });
        responses.collect()
    }

    /// The value of a property, as XML; `None` where the item has none of this name.
    fn property(&self, name: &str, item: &Item<'_>, date: SystemTime) -> Option<String> {
        let of = item.text.trim_end_matches('/');
        Some(match (name, item.value) {
            ("resourcetype", None) => "<D:collection/>".to_owned(),
            ("resourcetype", Some(_)) => String::new(),
            ("displayname", _) => xml::text(of.rsplit('/').next()?),
            ("getcontentlength", Some(value)) => value.len.to_string(),
            ("getcontenttype", Some(_)) => xml::text(&media::of(of, None, false)),
            ("getetag", Some(value)) => xml::text(&value.validators.etag),
            ("getlastmodified", _) => fmt_http_date(date),
            ("creationdate", _) => humantime::format_rfc3339_seconds(date).to_string(),
            ("supportedlock", _) => SUPPORTED.to_owned(),
            ("lockdiscovery", _) => {
                let locks = self.locks.as_ref().map(|locks| locks.of(of));
                let locks = locks.iter().flatten();
                locks.map(|lock| discovered(&self.prefix, lock)).collect()
            }
            (QUOTA, None) => self.available?.to_string(),
            _ => return None,
        })
    }
}

/// Answers a PROPFIND.
pub async fn find(
    request: &RequestContext,
    target: Target,
    asked: Find,
    body: &mut Received<'_>,
) -> Outcome {
    let wanted = Wanted::of(xml::receive(body).await?);
    let found = target.found(request).await?;
    let Target { name, prefix } = target;
    let writer = Writer {
        wanted,
        prefix,
        locks: request.service.locks.clone(),
        available: None,
    };
    let Resource::Value(found) = found else {
        return match asked.with_members {
            Some(with_members) => folder(request, writer, asked.page, with_members).await,
            None => Ok(unstored(StatusCode::FORBIDDEN, MEDIA_TYPE, NOT_FINITE).into()),
        };
    };
    let may_see = |client: &Principal| client.allows(Right::List, &name.text);
    if !request.principal().is_none_or(may_see) {
        return Err(NO_SUCH_KEY);
    }
    let value = ListedValue {
        len: found.len(),
        validators: validators(&found),
        end: None,
        date: Some(found.date()),
    };
    let item = Item {
        text: &name.text,
        value: Some(&value),
    };
    Ok(multistatus(&writer.response(&item, found.date())))
}

/// The answer about a folder, of which a client that may not list all sees what it may.
async fn folder(
    request: &RequestContext,
    mut writer: Writer,
    page: Page,
    with_members: bool,
) -> Outcome {
    let service = Rc::clone(&request.service);
    let sees_all = page.within.has(&page.prefix);
    let mut first = None;
    if with_members || !sees_all {
        let found = service.store.list(service.reactor, page.clone()).await?;
        if !sees_all && !has_any(&found) {
            return Err(NO_SUCH_KEY);
        }
        first = Some(found).filter(|_| with_members);
    }
    if (writer.wanted.properties.iter()).any(|asked| asked.is(QUOTA)) {
        let free = service.store.probe().await?;
        writer.available = free.map(Free::beyond_floor);
    }
    let own = Item {
        text: &page.prefix,
        value: None,
    };
    let of_itself = vec![page.prefix.clone()];
    let date = service.store.folder_dates(of_itself, &page.within).await?[0];
    let own = writer.response(&own, date);
    let Some(first) = first else {
        return Ok(multistatus(&own));
    };
    let exchange = Rc::clone(&request.guard.exchange);
    let of_pieces = Rc::clone(&service);
    let pieces = stream::try_unfold(Some((BEGIN.to_owned() + &own, first, page)), move |state| {
        let (service, writer) = (Rc::clone(&of_pieces), writer.clone());
        async move {
            let Some((mut text, listing, mut page)) = state else {
                return Ok::<_, Refusal>(None);
            };
            let (next, mut rest) = (listing.next.clone(), None);
            let folders = listing.folders.clone();
            let dates = service.store.folder_dates(folders, &page.within).await?;
            let write = move |listing: &Listing| writer.members(listing, &dates);
            text += &written(&service.store, listing, false, write).await?;
            if let Some(after) = next {
                page.after = after;
                let listing = service.store.list(service.reactor, page.clone()).await?;
                rest = Some((String::new(), listing, page));
            } else {
                text += END;
            }
            Ok(Some((Piece::Bytes(text.into()), rest)))
        }
    });
    let pieces = pieces.map_err(move |why| service.broke_off(why, &exchange));
    let body = Body::of(Content::Made(Box::pin(pieces)));
    Ok(xml::reply(plain(StatusCode::MULTI_STATUS, body)))
}

/// Answers a PROPPATCH. Each property is refused by itself: Explorer sets times, and goes on where the answer is 207.
pub async fn patch(
    request: &RequestContext,
    Target { name, prefix }: &Target,
    body: &mut Received<'_>,
) -> Outcome {
    let asked = xml::receive(body).await?;
    let found = resource(request, name).await?.ok_or(NO_SUCH_KEY)?;
    let _changing = request.begin_change(&[Scope::one(&name.text)])?;
    let changes = asked.iter().flat_map(|root| &root.children);
    let props = changes.filter_map(|change| change.child("prop"));
    let names = props.flat_map(|prop| &prop.children).map(Element::empty);
    let refused = propstat("403 Forbidden", &names.collect::<String>());
    let text = match found {
        Resource::Value(_) => name.text.clone(),
        Resource::Folder => name.of_folder(),
    };
    Ok(multistatus(&xml::response(prefix, &text, &refused)))
}
