//! One page of the keys, made of as many pages of the store as it takes.
//!
//! The store lists in byte order, folders and keys each by themselves; here they become one order. Items that may not
//! be seen are not asked for. An item whose name is no key is left out.

use std::time::SystemTime;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;

use super::Gateway;
use crate::s3::transport::S3Client;
use crate::s3::transport::answer::{RequestError, parse, unclear};
use crate::s3::transport::call::{self, Call};
use crate::transfer::{BlockingPool, COPIED};
use crate::value::{Error, Key, ListedValue, Listing, Page, Validators, may_have_keys};

/// The longest page of a store that is read: 1,000 of the longest names, encoded, are a part of it.
const MAX_PAGE: usize = 16 << 20;

/// The most items that a store gives at once.
pub const AT_ONCE: usize = 1000;

/// Greater than all that a key may go on with.
const LAST: char = '\u{10ffff}';

/// The body of an answer to `ListObjectsV2`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StorePage {
    #[serde(default)]
    contents: Vec<ListedObject>,
    #[serde(default)]
    common_prefixes: Vec<CommonPrefix>,
    next_continuation_token: Option<String>,
    /// Every list has it, and no page for people: that one would be an empty list.
    is_truncated: bool,
    encoding_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ListedObject {
    key: String,
    last_modified: String,
    #[serde(rename = "ETag")]
    etag: String,
    size: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct CommonPrefix {
    prefix: String,
}

/// An item of a listing.
#[derive(Debug)]
enum ListedItem {
    Key(Key<'static>, ListedValue),
    Folder(String),
}

impl Gateway {
    /// One page of the keys, in byte order. Long pages of the store are read on the compute threads.
    pub async fn list(&self, page: &Page) -> Result<Listing, Error> {
        let mut visible = page.visible();
        while let Some(part) = visible.next() {
            let found = collect(&self.client, &self.shared.compute, &part);
            visible.add(found.await?);
        }
        Ok(listing(visible.found, page.limit))
    }
}

/// More items of `page` than its limit, or all.
async fn collect(
    client: &S3Client,
    compute: &BlockingPool,
    page: &Page,
) -> Result<Vec<ListedItem>, Error> {
    let mut items = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let body = ask(client, page, items.len(), token.as_deref()).await?;
        let (more, next) = if body.len() <= COPIED {
            read(&body, page, &client.place.prefix)?
        } else {
            let (page, prefix) = (page.clone(), client.place.prefix.clone());
            compute.spawn(move || read(&body, &page, &prefix)).await?
        };
        items.extend(more);
        if next.is_some() && next == token {
            return Err(unclear("a list goes on where it began"));
        }
        token = next;
        if token.is_none() || items.len() > page.limit {
            return Ok(items);
        }
    }
}

/// The items of a page of the store, in byte order, and the token of the next page.
fn read(
    body: &[u8],
    page: &Page,
    prefix: &str,
) -> Result<(Vec<ListedItem>, Option<String>), Error> {
    let mut found: StorePage = parse(body)?;
    let next = found.next()?;
    let mut items = found.into_items(page, prefix);
    // The store sorts folders and keys each by themselves: only together are they in byte order.
    items.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    Ok((items, next))
}

pub async fn ask(
    client: &S3Client,
    page: &Page,
    have: usize,
    token: Option<&str>,
) -> Result<Bytes, Error> {
    let prefix = &client.place.prefix;
    // One more than wanted tells whether there are more.
    let wanted = (page.limit + 1).saturating_sub(have).clamp(1, AT_ONCE);
    let (wanted, below) = (wanted.to_string(), format!("{prefix}{}", page.prefix));
    let mut after = format!("{prefix}{}", page.after);
    if page.by_folder && page.after.ends_with('/') {
        after.push(LAST);
    }
    let mut parameters = vec![
        ("list-type", "2"),
        ("encoding-type", "url"),
        ("max-keys", &wanted),
        ("prefix", &below),
    ];
    match token {
        Some(token) => parameters.push(("continuation-token", token)),
        None if !page.after.is_empty() => parameters.push(("start-after", &after)),
        None => {}
    }
    if page.by_folder {
        parameters.push(("delimiter", "/"));
    }
    let call = Call::bucket(Method::GET).with_query(&parameters);
    let answer = client.read(&call).await?;
    let answer = answer.ok_or_else(|| unclear("there is no list"))?;
    let body = answer.whole(MAX_PAGE, client.timeout).await;
    body.map_err(RequestError::error)
}

impl StorePage {
    /// The token of the page after this, where there is one.
    pub fn next(&mut self) -> Result<Option<String>, Error> {
        let token = self.next_continuation_token.take();
        match token.filter(|token| self.is_truncated && !token.is_empty()) {
            None if self.is_truncated => Err(unclear(
                "a list is cut off and does not say where it goes on",
            )),
            token => Ok(token),
        }
    }

    /// The names of its keys and folders, each in the order of the store.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let keys = self.contents.iter().map(|object| &object.key);
        let folders = self.common_prefixes.iter().map(|folder| &folder.prefix);
        let encoding = self.encoding_type.as_deref();
        keys.chain(folders)
            .filter_map(move |name| call::listed(name, encoding))
    }

    /// Its items on `page`; all names begin with `prefix`.
    fn into_items(self, page: &Page, prefix: &str) -> Vec<ListedItem> {
        let name = |text: &str| {
            let name = call::listed(text, self.encoding_type.as_deref())?;
            let name = name.strip_prefix(prefix)?.to_owned();
            page.has(&name).then_some(name)
        };
        let folders = self.common_prefixes.into_iter();
        let folders = folders.filter_map(|folder| name(&folder.prefix));
        let folders = folders.filter(|folder| may_have_keys(folder.trim_end_matches('/')));
        let folders = folders.map(ListedItem::Folder);
        let keys = self.contents.into_iter().filter_map(|object| {
            let key = Key::new(name(&object.key)?).ok()?;
            let modified = humantime::parse_rfc3339_weak(&object.last_modified);
            let validators = Validators {
                modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
                etag: object.etag,
            };
            let value = ListedValue {
                len: object.size,
                validators,
                end: None,
                date: None,
            };
            Some(ListedItem::Key(key, value))
        });
        folders.chain(keys).collect()
    }
}

impl AsRef<str> for ListedItem {
    fn as_ref(&self) -> &str {
        match self {
            Self::Key(key, _) => key.as_str(),
            Self::Folder(name) => name,
        }
    }
}

impl From<String> for ListedItem {
    fn from(folder: String) -> Self {
        Self::Folder(folder)
    }
}

/// The first `limit` of `items`.
fn listing(mut items: Vec<ListedItem>, limit: usize) -> Listing {
    let has_more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| has_more);
    let mut listing = Listing {
        keys: Vec::new(),
        folders: Vec::new(),
        next: last.map(|item| item.as_ref().to_owned()),
    };
    for item in items {
        match item {
            ListedItem::Key(key, value) => listing.keys.push((key, value)),
            ListedItem::Folder(name) => listing.folders.push(name),
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Prefixes;

    fn page(after: &str, limit: usize) -> Page {
        Page {
            prefix: String::new(),
            after: after.to_owned(),
            limit,
            by_folder: true,
            folders: false,
            within: Prefixes::all(),
        }
    }

    const BODY: &str = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <Name>b</Name><Prefix>p%2F</Prefix><KeyCount>3</KeyCount><IsTruncated>false</IsTruncated>ENCODING\
        <Contents><Key>p/a%2Bb</Key><LastModified>2026-11-22T13:29:00.123Z</LastModified><ETag>&quot;x&quot;</ETag><Size>5</Size></Contents>\
        <CommonPrefixes><Prefix>p/a/</Prefix></CommonPrefixes>\
        <Contents><Key>p/c+d</Key><LastModified>2026-11-22T13:29:00Z</LastModified><ETag>&quot;y&quot;</ETag><Size>0</Size><Owner><ID>1</ID></Owner></Contents>\
        <Contents><Key>p/.data-server-x</Key><Size>0</Size></Contents>\
        </ListBucketResult>";

    #[test]
    fn a_page_of_the_store_is_read_as_it_says_it_is_encoded() {
        let keys = |body: &str, after| {
            let items = parse::<StorePage>(body.as_bytes())
                .unwrap()
                .into_items(&page(after, 10), "p/");
            let mut names: Vec<_> = items.iter().map(|item| item.as_ref().to_owned()).collect();
            names.sort();
            names
        };
        let plain = BODY.replace("ENCODING", "");
        let encoded = BODY.replace("ENCODING", "<EncodingType>url</EncodingType>");
        assert_eq!(keys(&plain, ""), ["a%2Bb", "a/", "c+d"]);
        assert_eq!(keys(&encoded, ""), ["a+b", "a/", "c d"]);
        assert_eq!(keys(&encoded, "a/"), ["c d"]);
        assert!(parse::<StorePage>(b"<ListBucketResult><Contents>").is_err());
    }

    #[test]
    fn an_object_has_its_length_tag_and_time() {
        let items = parse::<StorePage>(BODY.as_bytes())
            .unwrap()
            .into_items(&page("b", 10), "p/");
        let [ListedItem::Key(key, value)] = &items[..] else {
            panic!("{items:?}")
        };
        let found = (key.as_str(), value.len, &*value.validators.etag);
        assert_eq!(found, ("c+d", 0, "\"y\""));
        let seen = httpdate::fmt_http_date(value.validators.modified);
        assert_eq!(seen, "Sun, 22 Nov 2026 13:29:00 GMT");
    }

    #[test]
    fn a_page_ends_at_its_limit_and_says_what_the_last_item_is() {
        let folders = ["a/", "b/", "c/"].map(|name| ListedItem::Folder(name.to_owned()));
        let two = listing(folders.into(), 2);
        assert_eq!(two.folders, ["a/", "b/"]);
        assert_eq!(two.next.as_deref(), Some("b/"));
        let one = listing(vec![ListedItem::Folder("a/".to_owned())], 1);
        assert_eq!(one.next, None);
    }
}
