//! Buckets: the folders of the root. One is made to stay, and removed when nothing is in it.

use std::collections::HashMap;

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::response::Body;
use crate::http::folders::change::{MakeFolder, make_folder, remove_empty_folder};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::head::RequestHead;
use crate::http::response::{empty, with};
use crate::http::s3_door::errors::{
    BAD_ARGUMENT, BUCKET_EXISTS, BUCKET_NOT_EMPTY, not_implemented,
};
use crate::http::s3_door::listing::number;
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, needs_bucket};
use crate::http::s3_door::xml::{BAD_XML, DECLARATION, Document, answered, parse};
use crate::http::verb::Parsed;
use crate::store::{Error, Key, Page, Prefixes, Purpose};

/// The items of one look at the root.
const PAGE: usize = 1_000;

/// The buckets of one answer.
const MOST_BUCKETS: usize = 10_000;

/// The longest document that a bucket is made with.
const LONGEST: usize = 64 << 10;

/// What shows that there is a bucket: the right to list any key in it.
fn seen(bucket: &Key<'_>) -> Need<'static> {
    Need::Any(Right::List, format!("{bucket}/").into())
}

/// The answer about something that no bucket, or no object, has here.
pub fn says(target: Target, says: Result<&'static str, Refusal>) -> Parsed {
    let object = match &target {
        Target::Object(key) => Some(key.clone()),
        _ => None,
    };
    let bucket = target.bucket()?;
    let need = match &object {
        Some(key) => Need::all(Right::Read, key.as_str()).into_owned(),
        None => seen(&bucket),
    };
    operation(Takes::Nothing, [need], async move |request, _| {
        needs_bucket(request, &bucket).await?;
        if let Some(key) = &object {
            let (store, reactor) = (&request.service.store, request.service.reactor);
            let found = store.get(reactor, key, false, Purpose::Use).await?;
            found.ok_or(NO_SUCH_KEY)?;
        }
        says.map(|text| answered(Body::bytes(format!("{DECLARATION}{text}\n"))))
    })
}

/// The list of buckets. The token of a page is the last name of the one before.
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
    let mut page = Page {
        prefix: get("prefix").to_owned(),
        after,
        limit: PAGE,
        by_folder: true,
        folders: true,
        within: Prefixes::all(),
    };
    operation(
        Takes::Nothing,
        [Need::any(Right::List, "")],
        async move |request, _| {
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
            let (mut shown, mut last, mut is_cut) = (0, String::new(), false);
            'pages: loop {
                let listing = service.store.list(service.reactor, page.clone()).await?;
                let folders = listing.folders.clone();
                let dates = service.store.folder_dates(folders, &page.within).await?;
                for (folder, date) in listing.folders.iter().zip(dates) {
                    if shown == most {
                        is_cut = true;
                        break 'pages;
                    }
                    shown += 1;
                    folder.trim_end_matches('/').clone_into(&mut last);
                    text.within("Bucket", |text| {
                        text.add("Name", &last);
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
            if is_cut {
                text.add("ContinuationToken", &last);
            }
            if !page.prefix.is_empty() {
                text.add("Prefix", &page.prefix);
            }
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

/// What a bucket is to be like. It may name a region, and this server is in none; it has nothing else.
#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "LocationConstraint")]
    _region: Option<String>,
    #[expect(clippy::zero_sized_map_values, reason = "their names tell")]
    #[serde(flatten)]
    others: HashMap<String, IgnoredAny>,
}

/// Makes a bucket.
pub fn create(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let bucket = target.bucket()?;
    let folder = MakeFolder::of(bucket.clone(), asked.config)?;
    let payload = Payload::of(asked)?;
    operation(
        Takes::Body,
        [Need::below(Right::Create, bucket.as_str())],
        async move |request, body| {
            let text = payload.read(request, body, LONGEST).await?;
            if !text.is_empty() {
                let asked: Configuration = parse(&text).ok_or(BAD_XML)?;
                if let Some(name) = asked.others.keys().find(|name| !name.starts_with('@')) {
                    return Err(not_implemented(format!("{name} of buckets")));
                }
            }
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
            let uploads = format!("{bucket}/");
            let removed = remove_empty_folder(request, bucket).await;
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
        },
    )
}
