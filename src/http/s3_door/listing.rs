//! `ListObjects`, of both versions: the objects of a bucket in the order of their keys' bytes, from the index.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::response::Body;
use crate::http::listing::perform::written;
use crate::http::listing::{Item, items};
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::s3_door::errors::BAD_ARGUMENT;
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::target::{Target, name_of, needs_bucket};
use crate::http::s3_door::xml::{Document, answered};
use crate::http::verb::Parsed;
use crate::sigv4::path;
use crate::store::{Error, Key, Listing, Page, Prefixes, Store};

/// The most keys of an answer.
pub const MOST: usize = 1_000;

/// No key holds it: behind a prefix it comes after all keys that begin so.
const LAST: char = '\u{10ffff}';

/// What is asked of a listing.
pub struct Asked {
    pub bucket: Key<'static>,
    pub prefix: String,
    pub delimiter: String,
    /// The first version of the protocol has one mark, and the second two.
    is_second: bool,
    after: String,
    /// What the answer repeats: the mark of the request, and the token.
    mark: Option<String>,
    token: Option<String>,
    pub most: usize,
    pub encodes: bool,
    with_owner: bool,
}

impl Asked {
    fn of(asked: &RequestHead<'_>, bucket: Key<'static>) -> Result<Self, Refusal> {
        let get = |name| asked.query.get(name).map(str::to_owned);
        let is_second = asked.query.get("list-type") == Some("2");
        let (mark, token) = if is_second {
            (get("start-after"), get("continuation-token"))
        } else {
            (get("marker"), None)
        };
        let after = match &token {
            Some(token) => {
                let text = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
                let text = text.and_then(|text| String::from_utf8(text).ok());
                text.ok_or(BAD_ARGUMENT)?
            }
            None => mark.clone().unwrap_or_default(),
        };
        Ok(Self {
            bucket,
            prefix: get("prefix").unwrap_or_default(),
            delimiter: get("delimiter").unwrap_or_default(),
            is_second,
            after,
            mark,
            token,
            most: number(asked, "max-keys", MOST)?.min(MOST),
            encodes: encodes(asked)?,
            with_owner: !is_second || asked.query.get("fetch-owner") == Some("true"),
        })
    }

    /// The page of the store that begins behind `after`, a name in the bucket.
    fn page(&self, after: &str, within: Prefixes) -> Page {
        Page {
            prefix: format!("{}/{}", self.bucket, self.prefix),
            // The bucket itself is no object.
            after: format!("{}/{after}", self.bucket),
            limit: self.most,
            by_folder: self.delimiter == "/",
            folders: true,
            within,
        }
    }

    /// The text of a key in the answer.
    fn shown(&self, key: &str) -> String {
        shown(key, self.encodes)
    }
}

/// A number in the query.
pub fn number(asked: &RequestHead<'_>, name: &str, otherwise: usize) -> Result<usize, Refusal> {
    let number = asked.query.get(name).map(str::parse).transpose();
    Ok(number.map_err(|_| BAD_ARGUMENT)?.unwrap_or(otherwise))
}

/// Whether keys are to be encoded as in a URL.
pub fn encodes(asked: &RequestHead<'_>) -> Result<bool, Refusal> {
    match asked.query.get("encoding-type") {
        None | Some("") => Ok(false),
        Some("url") => Ok(true),
        Some(_) => Err(BAD_ARGUMENT),
    }
}

/// The text of a key in an answer. A `/` is never encoded.
pub fn shown(key: &str, encodes: bool) -> String {
    if encodes { path(key) } else { key.to_owned() }
}

/// The dates of `folders` that are objects.
async fn dates_of(
    store: &Store,
    folders: Vec<String>,
    within: &Prefixes,
) -> Result<HashMap<String, SystemTime>, Error> {
    let dates = store.folder_dates(folders.clone(), within).await?;
    Ok(folders.into_iter().zip(dates).collect())
}

/// The objects of a bucket.
pub fn list(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let asked = Asked::of(asked, target.bucket()?)?;
    let needs = [Need::Any(
        Right::List,
        format!("{}/{}", asked.bucket, asked.prefix).into(),
    )];
    operation(Takes::Nothing, needs, async move |request, _| {
        let mut page = asked.page(&asked.after, Prefixes::all());
        request.permitted_now(|client| {
            client.may_list(&mut page);
            Ok(())
        })?;
        let service = &*request.service;
        if !matches!(&*asked.delimiter, "" | "/") {
            let found = grouped(request, &asked, page.within).await?;
            if found.count == 0 {
                needs_bucket(request, &asked.bucket).await?;
            }
            return Ok(answered(Body::bytes(asked.answer(found))));
        }
        let (whole, within) = (page.prefix.clone(), page.within.clone());
        // The folder that the prefix names is an object, which is in no group.
        let is_named = page.by_folder && whole.ends_with('/') && asked.after < asked.prefix;
        let has_own = is_named && stays(request, &whole, within.clone()).await?;
        let own = has_own.then_some(whole);
        let listing = service.store.list(service.reactor, page).await?;
        // By this delimiter the others are common prefixes, which have no dates.
        let folders = match &*asked.delimiter {
            "/" => own.clone().into_iter().collect(),
            _ => listing.folders.clone(),
        };
        let dates = dates_of(&service.store, folders, &within).await?;
        if listing.keys.is_empty() && listing.folders.is_empty() {
            needs_bucket(request, &asked.bucket).await?;
        }
        let render = move |listing: &Listing| {
            let mut found = Found::default();
            let own = own.as_deref().map(|text| Item { text, value: None });
            let mut last = None;
            for item in own.into_iter().chain(items(listing)) {
                if found.count == asked.most {
                    found.next = last;
                    return asked.answer(found);
                }
                found.add(&asked, &item, &dates);
                last = Some(name_of(item.text, &asked.bucket).to_owned());
            }
            let next = listing.next.as_deref();
            found.next = next.map(|next| name_of(next, &asked.bucket).to_owned());
            asked.answer(found)
        };
        let text = written(&service.store, listing, false, render).await?;
        Ok(answered(Body::bytes(text)))
    })
}

/// Whether the folder of this `name`, which ends with `/`, stays.
pub async fn stays(
    request: &RequestContext,
    name: &str,
    within: Prefixes,
) -> Result<bool, Refusal> {
    let service = &*request.service;
    let first = Page {
        prefix: name.to_owned(),
        limit: 1,
        folders: true,
        within,
        ..Page::default()
    };
    let listing = service.store.list(service.reactor, first).await?;
    Ok(listing.folders.first().is_some_and(|it| it == name))
}

/// What an answer lists.
#[derive(Default)]
struct Found {
    contents: String,
    prefixes: String,
    count: usize,
    /// The last of it, if there is more.
    next: Option<String>,
}

impl Found {
    /// Adds an object, a folder that stays, or a common prefix.
    fn add(&mut self, asked: &Asked, item: &Item<'_>, dates: &HashMap<String, SystemTime>) {
        let name = name_of(item.text, &asked.bucket);
        if item.value.is_none() && asked.delimiter == "/" && name != asked.prefix {
            return self.add_prefix(asked, name);
        }
        self.count += 1;
        let mut text = Document::part();
        text.within("Contents", |text| {
            text.add("Key", &asked.shown(name));
            let (len, etag, modified) = match item.value {
                Some(value) => (
                    value.len,
                    &*value.validators.etag,
                    value.validators.modified,
                ),
                None => (
                    0,
                    FOLDER_TAG,
                    dates.get(item.text).copied().unwrap_or(UNIX_EPOCH),
                ),
            };
            text.date("LastModified", modified);
            text.add("ETag", etag);
            text.show("Size", len);
            text.show("StorageClass", "STANDARD");
            if asked.with_owner {
                text.within("Owner", |text| text.show("ID", "owner"));
            }
        });
        self.contents.push_str(&text.end());
    }

    fn add_prefix(&mut self, asked: &Asked, prefix: &str) {
        self.count += 1;
        let mut text = Document::part();
        text.within("CommonPrefixes", |text| {
            text.add("Prefix", &asked.shown(prefix));
        });
        self.prefixes.push_str(&text.end());
    }
}

/// The entity tag of a folder, which has no bytes and no version.
pub const FOLDER_TAG: &str = "\"folder-0\"";

/// What `name` begins with, up to the first `delimiter` behind `prefix`, if it has one there.
pub fn common_prefix<'n>(name: &'n str, prefix: &str, delimiter: &str) -> Option<&'n str> {
    let rest = name.get(prefix.len()..).filter(|_| !delimiter.is_empty())?;
    let end = prefix.len() + rest.find(delimiter)? + delimiter.len();
    name.get(..end)
}

/// The listing by a delimiter that the index does not know: page by page, past the keys of each common prefix.
async fn grouped(
    request: &RequestContext,
    asked: &Asked,
    within: Prefixes,
) -> Result<Found, Refusal> {
    let service = &*request.service;
    let (mut found, mut after) = (Found::default(), asked.after.clone());
    loop {
        let page = Page {
            limit: MOST,
            ..asked.page(&after, within.clone())
        };
        let listing = service.store.list(service.reactor, page).await?;
        let dates = dates_of(&service.store, listing.folders.clone(), &within).await?;
        let mut skips = None;
        for item in items(&listing) {
            let name = name_of(item.text, &asked.bucket);
            if skips.as_ref().is_some_and(|it: &String| name < &**it) {
                continue;
            }
            let common = common_prefix(name, &asked.prefix, &asked.delimiter);
            if common.is_some_and(|it| asked.after.starts_with(it)) {
                // It was on the page before.
                skips = common.map(|it| format!("{it}{LAST}"));
                continue;
            }
            if found.count == asked.most {
                found.next = Some(after);
                return Ok(found);
            }
            if let Some(common) = common {
                found.add_prefix(asked, common);
                after = format!("{common}{LAST}");
                skips = Some(after.clone());
            } else {
                found.add(asked, &item, &dates);
                name.clone_into(&mut after);
            }
        }
        match (&listing.next, &skips) {
            (None, _) => return Ok(found),
            (Some(next), skips) => {
                let next = name_of(next, &asked.bucket);
                let past = skips.as_deref().unwrap_or_default();
                after = next.max(past).to_owned();
            }
        }
    }
}

impl Asked {
    /// The document.
    fn answer(&self, found: Found) -> String {
        let mut text = Document::new("ListBucketResult");
        text.add("Name", self.bucket.as_str());
        text.add("Prefix", &self.shown(&self.prefix));
        if !self.delimiter.is_empty() {
            text.add("Delimiter", &self.shown(&self.delimiter));
        }
        text.show("MaxKeys", self.most);
        if self.encodes {
            text.show("EncodingType", "url");
        }
        let next = found.next.filter(|_| self.most > 0);
        text.show("IsTruncated", next.is_some());
        if self.is_second {
            text.show("KeyCount", found.count);
            if let Some(mark) = &self.mark {
                text.add("StartAfter", &self.shown(mark));
            }
            if let Some(token) = &self.token {
                text.add("ContinuationToken", token);
            }
            if let Some(next) = next {
                text.show("NextContinuationToken", BASE64_URL_SAFE_NO_PAD.encode(next));
            }
        } else {
            text.add(
                "Marker",
                &self.shown(self.mark.as_deref().unwrap_or_default()),
            );
            if let Some(next) = next {
                text.add("NextMarker", &self.shown(next.trim_end_matches(LAST)));
            }
        }
        text.raw(&found.contents);
        text.raw(&found.prefixes);
        text.end()
    }
}
