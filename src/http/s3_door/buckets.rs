//! Buckets: the folders of the root. One is made to stay, and removed when nothing is in it.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::response::Body;
use crate::http::folders::change::{MakeFolder, make_folder, remove_empty_folder};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::request::head::RequestHead;
use crate::http::response::{empty, with};
use crate::http::s3_door::errors::{BUCKET_EXISTS, BUCKET_NOT_EMPTY};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::target::{Target, needs_bucket};
use crate::http::s3_door::xml::{DECLARATION, Document, answered};
use crate::http::verb::Parsed;
use crate::store::{Error, Key, Page, Prefixes};

/// The items of one look at the root.
const PAGE: usize = 1_000;

/// What shows that there is a bucket: the right to list any key in it.
fn seen(bucket: &Key<'_>) -> Need<'static> {
    Need::Any(Right::List, format!("{bucket}/").into())
}

/// The answer about something that no bucket has here.
pub fn says(target: Target, says: Result<&'static str, Refusal>) -> Parsed {
    let bucket = target.bucket()?;
    operation(Takes::Nothing, [seen(&bucket)], async move |request, _| {
        needs_bucket(request, &bucket).await?;
        says.map(|text| answered(Body::bytes(format!("{DECLARATION}{text}\n"))))
    })
}

/// The list of all buckets.
pub fn list(_: &RequestHead<'_>, _: Target) -> Parsed {
    operation(
        Takes::Nothing,
        [Need::any(Right::List, "")],
        async |request, _| {
            let mut page = Page {
                limit: PAGE,
                by_folder: true,
                folders: true,
                within: Prefixes::all(),
                ..Page::default()
            };
            request.permitted_now(|client| {
                client.may_list(&mut page);
                Ok(())
            })?;
            let service = &*request.service;
            let mut text = Document::new("ListAllMyBucketsResult");
            let owner = request.principal();
            let owner = owner.map_or("anonymous", |it| &*it.subject.name);
            text.within("Owner", |text| {
                text.add("ID", owner);
                text.add("DisplayName", owner);
            });
            text.begin("Buckets");
            loop {
                let listing = service.store.list(service.reactor, page.clone()).await?;
                let folders = listing.folders.clone();
                let dates = service.store.folder_dates(folders, &page.within).await?;
                for (folder, date) in listing.folders.iter().zip(dates) {
                    text.within("Bucket", |text| {
                        text.add("Name", folder.trim_end_matches('/'));
                        // Not every file system tells when a folder was made.
                        text.date("CreationDate", date);
                    });
                }
                let Some(next) = listing.next.clone() else {
                    break;
                };
                page.after = next;
            }
            text.close("Buckets");
            Ok(text.answer())
        },
    )
}

/// The region of a bucket: none, which is that of the clients' default.
pub fn location(_: &RequestHead<'_>, target: Target) -> Parsed {
    const NOWHERE: &str = "<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>";
    says(target, Ok(NOWHERE))
}

/// Whether there is a bucket.
pub fn head(_: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    operation(Takes::Nothing, [seen(&bucket)], async move |request, _| {
        needs_bucket(request, &bucket).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert("x-amz-bucket-region", HeaderValue::from_static("us-east-1"));
        });
        Ok(response.into())
    })
}

/// Makes a bucket. The body names a region; this server is in none.
pub fn create(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    let folder = MakeFolder::of(bucket.clone(), asked.config)?;
    operation(
        Takes::Nothing,
        [Need::below(Right::Create, bucket.as_str())],
        async move |request, _| {
            make_folder(request, folder)
                .await
                .map_err(|why| if is_folder(&why) { BUCKET_EXISTS } else { why })?;
            let response = with(empty(StatusCode::OK), |headers| {
                put(headers, LOCATION, format!("/{bucket}"));
            });
            Ok(response.into())
        },
    )
}

/// A folder has the name already.
pub fn is_folder(why: &Refusal) -> bool {
    matches!(
        why.cause(),
        Some(Error::FolderKept | Error::NameTaken("a folder"))
    )
}

/// Removes a bucket.
pub fn delete(_: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    operation(
        Takes::Nothing,
        Need::removal(bucket.as_str()),
        async |request, _| {
            needs_bucket(request, &bucket).await?;
            let removed = remove_empty_folder(request, bucket).await;
            removed.map_err(|why| match why.cause() {
                Some(Error::Occupied(_)) => BUCKET_NOT_EMPTY,
                _ => why,
            })?;
            Ok(empty(StatusCode::NO_CONTENT).into())
        },
    )
}
