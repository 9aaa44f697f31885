//! Buckets: the folders of the root. One is made to stay, and removed when nothing is in it.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::folders::change::{MakeFolder, make_folder, remove_empty_folder};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, plain, with};
use crate::http::s3_door::errors::{
    BAD_ARGUMENT, BUCKET_EXISTS, BUCKET_NOT_EMPTY, NO_BUCKET, not_implemented,
};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, needs_bucket, number};
use crate::http::s3_door::xml::{BAD_XML, Document, MEDIA_TYPE, parse};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Error, Key, Page, Prefixes, Purpose};

/// The items of one look at the root.
const PAGE: usize = 1_000;

/// The buckets of one answer.
const MOST_BUCKETS: usize = 10_000;

/// The longest document that a bucket is made with.
const LONGEST: usize = 64 << 10;

/// The response with this document.
pub fn document(text: String) -> Reply {
    let response = with(plain(StatusCode::OK, Body::bytes(text)), |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    });
    response.into()
}

fn no_bucket(target: &Target) -> Result<Key<'static>, Refusal> {
    target.bucket().ok_or(NO_BUCKET)
}

/// The answer about something that no bucket, or no object, has here.
pub struct Said {
    bucket: Option<Key<'static>>,
    object: Option<Key<'static>>,
    says: Option<Result<&'static str, Refusal>>,
}

impl Said {
    pub fn of(target: &Target, says: Result<&'static str, Refusal>) -> Self {
        let object = match target {
            Target::Object(key) => Some(key.clone()),
            _ => None,
        };
        Self {
            bucket: target.bucket(),
            object,
            says: Some(says),
        }
    }
}

#[async_trait(?Send)]
impl Verb for Said {
    fn needs(&self) -> Vec<Need<'_>> {
        match (&self.object, &self.bucket) {
            (Some(key), _) => vec![Need::all(Right::Read, key.as_str())],
            (None, Some(it)) => vec![Need::Any(Right::List, format!("{it}/").into())],
            (None, None) => Vec::new(),
        }
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        _: &mut Received<'_>,
    ) -> Outcome {
        if let Some(bucket) = &self.bucket {
            needs_bucket(request, bucket).await?;
        }
        if let Some(key) = &self.object {
            let (store, reactor) = (&request.service.store, request.service.reactor);
            let found = store.get(reactor, key, false, Purpose::Use).await?;
            found.ok_or(NO_SUCH_KEY)?;
        }
        let text = self.says.take().unwrap_or(Err(NO_BUCKET))?;
        Ok(document(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}\n"
        )))
    }
}

/// The list of buckets. The token of a page is the last name of the one before.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn list(asked: &RequestHead<'_>, _: Target) -> Parsed {
    let get = |name| asked.query.get(name).unwrap_or_default();
    let after = match get("continuation-token") {
        "" => String::new(),
        last => format!("{last}/"),
    };
    let most = number(asked, "max-buckets", MOST_BUCKETS)?;
    if !(1..=MOST_BUCKETS).contains(&most) {
        return Err(BAD_ARGUMENT);
    }
    let page = Page {
        prefix: get("prefix").to_owned(),
        after,
        limit: PAGE,
        by_folder: true,
        folders: true,
        within: Prefixes::all(),
    };
    parsed(ListBuckets(page, most))
}

/// The first page, and how many buckets an answer has at most.
struct ListBuckets(Page, usize);

#[async_trait(?Send)]
impl Verb for ListBuckets {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::List, "")]
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        client.may_list(&mut self.0);
        Ok(())
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (Self(mut page, most), service) = (*self, &*request.service);
        let (mut shown, mut last, mut is_cut) = (0, String::new(), false);
        let mut text = Document::new("ListAllMyBucketsResult", true);
        let owner = request
            .principal()
            .map_or("anonymous", |it| &*it.subject.name);
        text.within("Owner", |text| {
            text.add("ID", owner);
            text.add("DisplayName", owner);
        });
        text.begin("Buckets");
        'pages: loop {
            let listing = service.store.list(service.reactor, page.clone()).await?;
            for folder in &listing.folders {
                if shown == most {
                    is_cut = true;
                    break 'pages;
                }
                shown += 1;
                folder.trim_end_matches('/').clone_into(&mut last);
                text.within("Bucket", |text| {
                    text.add("Name", &last);
                    // No file system that values are kept on tells when a folder was made.
                    text.date("CreationDate", UNIX_EPOCH);
                });
            }
            let Some(next) = listing.next.clone() else {
                break;
            };
            page.after = next;
        }
        text.close("Buckets");
        if is_cut {
            text.add("ContinuationToken", &last);
        }
        if !page.prefix.is_empty() {
            text.add("Prefix", &page.prefix);
        }
        Ok(document(text.end()))
    }
}

/// The region of a bucket: none, which is that of the clients' default.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn location(_: &RequestHead<'_>, target: Target) -> Parsed {
    const NOWHERE: &str = "<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>";
    parsed(Said::of(&target, Ok(NOWHERE)))
}

/// Whether there is a bucket.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn head(_: &RequestHead<'_>, target: Target) -> Parsed {
    no_bucket(&target)?;
    parsed(Head(Said::of(&target, Ok(""))))
}

struct Head(Said);

#[async_trait(?Send)]
impl Verb for Head {
    fn needs(&self) -> Vec<Need<'_>> {
        self.0.needs()
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        Box::new(self.0).perform(request, body).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert("x-amz-bucket-region", HeaderValue::from_static("us-east-1"));
        });
        Ok(response.into())
    }
}

/// Makes a bucket.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn create(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = no_bucket(&target)?;
    parsed(Create {
        folder: MakeFolder::of(bucket.clone(), asked.config)?,
        bucket,
        payload: Payload::of(asked)?,
    })
}

struct Create {
    bucket: Key<'static>,
    folder: MakeFolder,
    payload: Payload,
}

/// What a bucket is to be like. It may name a region, and this server is in none; it has nothing else.
#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "LocationConstraint")]
    _region: Option<String>,
    #[serde(flatten)]
    others: HashMap<String, IgnoredAny>,
}

#[async_trait(?Send)]
impl Verb for Create {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::below(Right::Create, self.bucket.as_str())]
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let text = self.payload.read(request, body, LONGEST).await?;
        if !text.is_empty() {
            let asked: Configuration = parse(&text).ok_or(BAD_XML)?;
            if let Some(name) = asked.others.keys().find(|name| !name.starts_with('@')) {
                return Err(not_implemented(format!("{name} of buckets")));
            }
        }
        make_folder(request, self.folder)
            .await
            .map_err(|why| if is_folder(&why) { BUCKET_EXISTS } else { why })?;
        let response = with(empty(StatusCode::OK), |headers| {
            put(headers, LOCATION, format!("/{}", self.bucket));
        });
        Ok(response.into())
    }
}

/// A folder has the name already.
pub fn is_folder(why: &Refusal) -> bool {
    matches!(
        why.cause(),
        Some(Error::FolderKept | Error::NameTaken("a folder"))
    )
}

/// Removes a bucket.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what a row of the table takes"
)]
pub fn delete(_: &RequestHead<'_>, target: Target) -> Parsed {
    parsed(Delete(no_bucket(&target)?))
}

struct Delete(Key<'static>);

#[async_trait(?Send)]
impl Verb for Delete {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        Need::removal(self.0.as_str()).into()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        needs_bucket(request, &self.0).await?;
        let uploads = format!("{}/", self.0);
        let removed = remove_empty_folder(request, self.0).await;
        removed.map_err(|why| match why.cause() {
            Some(Error::Occupied(_)) => BUCKET_NOT_EMPTY,
            _ => why,
        })?;
        // None is of a bucket that is made anew.
        let directory = request.service.store.resumable()?;
        for upload in directory.multiparts(&uploads) {
            directory.remove_multipart(&upload).await?;
        }
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}
