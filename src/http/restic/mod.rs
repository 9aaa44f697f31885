//! Repositories of restic and rustic, by the REST protocol of restic, version 2: below the prefixes of `[[content]]`
//! with `kind = "restic"` a POST creates a file, and a GET that asks for that version lists all files of a kind.
//!
//! Promises that a POST never replaces a value, and is a PUT in all else; and that a list has every file that was there
//! from its first page to its last, or breaks off without its end. Where files lie, and what their names demand, is in
//! [`content_names`](crate::http::values::content_names). Their GET and HEAD are those of every value.

use std::fmt::Write as _;
use std::rc::Rc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use hyper::StatusCode;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::body::{Content, Pieces};
use crate::http::changes::removal_of;
use crate::http::head::client::Door;
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::Kind;
use crate::http::request::head::RequestHead;
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Outcome, Reply, empty, plain};
use crate::http::values::content_names::{CONFIG, name_at, place, placed};
use crate::http::values::put::{PutRequest, put, put_at};
use crate::http::values::representation::stored;
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Listing, Page, Preconditions, Prefixes, Tags};

const EXISTS: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "file-exists"),
    "there is such a file, and a POST replaces none: remove it first, or replace it with PUT",
);

/// The media type of a list.
const LIST: &str = "application/vnd.x.restic.rest.v2";

/// The most files that are looked up for one piece of a list.
const AT_ONCE: usize = 1000;

/// A request for a repository that no other client makes.
pub fn request(asked: &RequestHead<'_>) -> Parsed {
    let (head, repositories) = (asked.head, &asked.config.repositories);
    let is_plain = asked.client.door == Door::Plain && !asked.common.resumable;
    if repositories.is_empty() || !is_plain {
        return Ok(None);
    }
    let folder = asked.folder().ok().flatten();
    let folder = folder.filter(|folder| repositories.has(folder));
    let key = asked.key().ok();
    let key = key.filter(|key| repositories.has(key.as_str()));
    match (head.method.as_str(), folder, key) {
        ("GET", Some(folder), _) if head.headers.get(ACCEPT).is_some_and(|it| it == LIST) => {
            let of_kind = place(&folder, asked.config).filter(|(_, place)| place.is_empty());
            let kind = of_kind.map(|(kind, _)| kind.to_owned());
            kind.map_or(Ok(None), |kind| parsed(ListFiles::of(folder, kind)))
        }
        ("POST", Some(folder), _) if asked.query.get("create") == Some("true") => {
            asked.config.may_change()?;
            parsed(MakeRepository(folder))
        }
        ("POST", _, Some(key)) => {
            if key.name() != CONFIG && place(key.as_str(), asked.config).is_none() {
                return Ok(None);
            }
            let key = placed(&key, asked.config).unwrap_or_else(|| key.into_owned());
            let mut put = put_at(asked, key, true)?;
            let is_conditional = put.preconditions.is_some();
            let only_new = put.preconditions.get_or_insert(Preconditions::NEW);
            only_new.none_matching = Some(Tags::Any);
            parsed(CreateFile {
                put,
                is_conditional,
            })
        }
        ("DELETE", _, Some(key)) => match placed(&key, asked.config) {
            Some(key) => removal_of(asked, key),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Makes a repository: nothing, for folders are made with the files in them.
struct MakeRepository(String);

#[async_trait(?Send)]
impl Verb for MakeRepository {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::Create, &self.0)]
    }

    async fn perform(self: Box<Self>, _: &RequestContext, body: &mut Received<'_>) -> Outcome {
        body.ignore().await?;
        Ok(empty(StatusCode::OK).into())
    }
}

/// Stores a file that is not there.
struct CreateFile {
    put: Box<PutRequest>,
    /// The client gave a condition of its own.
    is_conditional: bool,
}

#[async_trait(?Send)]
impl Verb for CreateFile {
    fn needs(&self) -> Vec<Need<'_>> {
        self.put.needs().collect()
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let has_date = self.put.has_date();
        let published = put(request, self.put, body).await.map_err(|why| {
            let exists = why.kind == PRECONDITION.kind && !self.is_conditional;
            if exists { EXISTS } else { why }
        });
        Ok(stored(published?, has_date))
    }
}

/// Lists the files of a kind, all of them.
struct ListFiles {
    kind: String,
    page: Page,
    /// What is written before the next file.
    before: char,
}

impl ListFiles {
    fn of(folder: String, kind: String) -> Self {
        let page = Page {
            prefix: folder,
            limit: AT_ONCE,
            within: Prefixes::all(),
            ..Page::default()
        };
        Self {
            kind,
            page,
            before: '[',
        }
    }

    /// The next piece of the list, for a client that may still have it, and what is left.
    async fn next(
        mut self,
        service: &Service,
        client: Option<&Principal>,
    ) -> Result<(Piece, Option<Self>), Refusal> {
        if let Some(client) = client {
            self.permit(&client.by_now()?)?;
        }
        let page = self.page.clone();
        let listing = service.store.list(service.reactor, page).await?;
        let write = move || Ok(self.write(&listing));
        Ok(service.store.compute().spawn(write).await?)
    }

    fn write(mut self, listing: &Listing) -> (Piece, Option<Self>) {
        let (mut text, start) = (String::new(), self.page.prefix.len());
        for (key, value) in &listing.keys {
            if let Some(name) = name_at(&self.kind, &key.as_str()[start..]) {
                let (before, len) = (self.before, value.len);
                // A string takes all.
                let _ = write!(text, "{before}{{\"name\":\"{name}\",\"size\":{len}}}");
                self.before = ',';
            }
        }
        let Some(next) = &listing.next else {
            text.push_str(if self.before == '[' { "[]" } else { "]" });
            return (Piece::Bytes(text.into()), None);
        };
        self.page.after.clone_from(next);
        (Piece::Bytes(text.into()), Some(self))
    }
}

#[async_trait(?Send)]
impl Verb for ListFiles {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::List, &self.page.prefix)]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        client.may_list(&mut self.page);
        Ok(())
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (service, client) = (
            Rc::clone(&request.service),
            request.context.principal.clone(),
        );
        let mut pieces = Box::pin(stream::try_unfold(Some(*self), move |files| {
            let (service, client) = (Rc::clone(&service), client.clone());
            async move {
                let Some(files) = files else { return Ok(None) };
                files.next(&service, client.as_deref()).await.map(Some)
            }
        }));
        // What fails at once is an error, and no list that breaks off.
        let first = pieces.try_next().await?;
        let service = Rc::clone(&request.service);
        let exchange = Rc::clone(&request.guard.exchange);
        let rest = pieces.map_err(move |why| service.broke_off(why, &exchange));
        let pieces: Pieces = Box::pin(stream::iter(first.map(Ok)).chain(rest));
        let response = plain(StatusCode::OK, Body::of(Content::Made(pieces)));
        Ok(Reply::from(response).with(|headers| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(LIST));
            headers.insert(VARY, HeaderValue::from_static("accept"));
            if let Some(value) = &request.service.config.cache_control {
                headers.insert(CACHE_CONTROL, value.clone());
            }
        }))
    }
}
