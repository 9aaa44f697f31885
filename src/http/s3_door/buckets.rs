//! Buckets: the folders of the root. One is made to stay, and removed when nothing is in it.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::folders::change::{MakeFolder, make_folder, remove_empty_folder};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, plain, with};
use crate::http::s3_door::errors::{BUCKET_EXISTS, BUCKET_NOT_EMPTY, NO_BUCKET};
use crate::http::s3_door::target::{Target, needs_bucket};
use crate::http::s3_door::xml::{Document, MEDIA_TYPE};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Error, Key, Page, Prefixes};

/// The items of one look at the root.
const PAGE: usize = 1_000;

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

/// The answer about something that no bucket has here.
pub struct Said {
    bucket: Option<Key<'static>>,
    says: Option<Result<&'static str, Refusal>>,
}

impl Said {
    pub fn of(target: &Target, says: Result<&'static str, Refusal>) -> Self {
        Self {
            bucket: target.bucket(),
            says: Some(says),
        }
    }
}

#[async_trait(?Send)]
impl Verb for Said {
    fn needs(&self) -> Vec<Need<'_>> {
        let bucket = self.bucket.iter();
        bucket
            .map(|it| Need::Any(Right::List, format!("{it}/").into()))
            .collect()
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        _: &mut Received<'_>,
    ) -> Outcome {
        if let Some(bucket) = &self.bucket {
            needs_bucket(request, bucket).await?;
        }
        let text = self.says.take().unwrap_or(Err(NO_BUCKET))?;
        Ok(document(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}\n"
        )))
    }
}

/// The list of all buckets.
pub fn list(_: &RequestHead<'_>, _: Target) -> Parsed {
    parsed(ListBuckets(Page {
        limit: PAGE,
        by_folder: true,
        folders: true,
        within: Prefixes::all(),
        ..Page::default()
    }))
}

struct ListBuckets(Page);

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
        let (mut page, service) = (self.0, &*request.service);
        let mut text = Document::new("ListAllMyBucketsResult", true);
        let owner = request
            .principal()
            .map_or("anonymous", |it| &*it.subject.name);
        text.within("Owner", |text| {
            text.add("ID", owner);
            text.add("DisplayName", owner);
        });
        text.begin("Buckets");
        loop {
            let listing = service.store.list(service.reactor, page.clone()).await?;
            for folder in &listing.folders {
                text.within("Bucket", |text| {
                    text.add("Name", folder.trim_end_matches('/'));
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
        folder: Some(MakeFolder::of(bucket.clone(), asked.config)?),
        bucket,
    })
}

struct Create {
    bucket: Key<'static>,
    folder: Option<MakeFolder>,
}

#[async_trait(?Send)]
impl Verb for Create {
    /// The body names a region; this server is in none.
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::below(Right::Create, self.bucket.as_str())]
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        _: &mut Received<'_>,
    ) -> Outcome {
        let folder = self.folder.take().ok_or(NO_BUCKET)?;
        make_folder(request, folder)
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
        let removed = remove_empty_folder(request, self.0).await;
        removed.map_err(|why| match why.cause() {
            Some(Error::Occupied(_)) => BUCKET_NOT_EMPTY,
            _ => why,
        })?;
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}
