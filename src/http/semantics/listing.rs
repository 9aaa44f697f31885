//! The listing of keys: its query read, its page rendered. Pure functions.

use std::time::SystemTime;

use form_urlencoded::parse;
use hyper::header::HeaderMap;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::http::response::representation::etag;
use crate::http::semantics::accept::media_type;
use crate::http::semantics::address::encoded;
use crate::store::Prefixes;
use crate::store::s3::RemoteValue;
use crate::store::{Listing, Meta, Page};

/// Keys on a page when the client does not say.
const DEFAULT_LIMIT: usize = 1_000;

/// Keys on a page at most.
const MAX_LIMIT: usize = 10_000;

/// What a query may have keys put together by.
const DELIMITER: &str = "/";

/// How a listing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum ListFormat {
    Json,
    Text,
}

impl ListFormat {
    /// The one that Accept prefers; JSON where it does not care.
    pub(in crate::http) fn preferred(headers: &HeaderMap) -> Self {
        match media_type(headers, &["application/json", "text/plain"]) {
            Some(1) => Self::Text,
            _ => Self::Json,
        }
    }

    pub(in crate::http) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    pub(in crate::http) fn render<V: Listed>(self, page: &Page, listing: &Listing<V>) -> Vec<u8> {
        match self {
            Self::Json => json(page, listing),
            Self::Text => text(listing),
        }
    }
}

/// What a path cannot hold as it is (RFC 3986, section 3.3), and what ends a line. The `/` of a key separates segments.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// What a listing tells of a value.
pub(in crate::http) trait Listed {
    /// Its length in bytes.
    fn len(&self) -> u64;

    /// Its entity tag, quotes included.
    fn etag(&self) -> String;

    /// When it was written.
    fn modified(&self) -> SystemTime;
}

impl Listed for Meta {
    fn len(&self) -> u64 {
        self.len
    }

    fn etag(&self) -> String {
        etag(self.version)
    }

    fn modified(&self) -> SystemTime {
        self.version.time()
    }
}

impl Listed for RemoteValue {
    fn len(&self) -> u64 {
        self.len
    }

    fn etag(&self) -> String {
        self.etag.clone()
    }

    fn modified(&self) -> SystemTime {
        self.modified
    }
}

/// A key with what is known of its value, or a folder, which ends with `/`.
#[derive(Debug)]
pub(in crate::http) struct Item<'a, V> {
    pub(in crate::http) text: &'a str,
    pub(in crate::http) value: Option<&'a V>,
}

/// The keys and folders of a page together, in byte order.
pub(in crate::http) fn items<V>(listing: &Listing<V>) -> Vec<Item<'_, V>> {
    let keys = listing.keys.iter().map(|(key, value)| Item {
        text: key.as_str(),
        value: Some(value),
    });
    let folders = listing.folders.iter().map(|folder| Item {
        text: folder,
        value: None,
    });
    let mut items: Vec<Item<'_, V>> = keys.chain(folders).collect();
    items.sort_unstable_by_key(|item| item.text);
    items
}

/// One item a line, encoded as it stands in a path, so that no key can look like two. That of a folder ends with `/`.
fn text<V>(listing: &Listing<V>) -> Vec<u8> {
    let mut text = String::new();
    for item in items(listing) {
        text.extend(utf8_percent_encode(item.text, UNSAFE));
        text.push('\n');
    }
    text.into_bytes()
}

/// Where the page after this one is: the `Link` of relation `next` (RFC 8288).
pub(in crate::http) fn next_link<V>(page: &Page, listing: &Listing<V>) -> Option<String> {
    let after = listing.next.as_deref()?;
    let delimiter = page.by_folder.then_some(DELIMITER);
    let query = next_query(Some(&page.prefix), delimiter, after, page.limit);
    Some(format!("</?{query}>; rel=\"next\""))
}

fn next_query(prefix: Option<&str>, delimiter: Option<&str>, after: &str, limit: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
        query.append_pair("prefix", prefix);
    }
    if let Some(delimiter) = delimiter {
        query.append_pair("delimiter", delimiter);
    }
    query.append_pair("after", after);
    query.append_pair("limit", &limit.to_string());
    query.finish()
}

/// What a page for people shows: a folder, and which page of the listing of its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Place {
    /// Its name with the `/` at the end; that of the root is empty.
    pub(in crate::http) folder: String,
    pub(in crate::http) page: Page,
}

impl Place {
    /// The place that `query` asks for in `folder`, by the names that [`page`] has. Without a `limit` it is as long as a
    /// page can be, for clients that follow links to keys and none to a next page; and folders stand for what is in them.
    pub(in crate::http) fn of(folder: String, query: &str) -> Result<Self, BadQuery> {
        let page = Page {
            prefix: folder.clone(),
            after: String::new(),
            limit: MAX_LIMIT,
            by_folder: true,
            within: Prefixes::all(),
        };
        let page = read(page, query)?;
        Ok(Self { folder, page })
    }

    /// The query of the place behind this one, in the same folder.
    pub(in crate::http) fn next_query<V>(&self, listing: &Listing<V>) -> Option<String> {
        let after = listing.next.as_deref()?;
        let prefix = self.page.prefix.strip_prefix(&self.folder);
        let delimiter = (!self.page.by_folder).then_some("");
        Some(next_query(prefix, delimiter, after, self.page.limit))
    }

    /// Where that is: the `Link` of relation `next`.
    pub(in crate::http) fn next_link<V>(&self, listing: &Listing<V>) -> Option<String> {
        let query = self.next_query(listing)?;
        Some(format!(
            "</{}?{query}>; rel=\"next\"",
            encoded(&self.folder)
        ))
    }
}

/// Why a query is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::http) enum BadQuery {
    #[error("bad limit: a number from 1 to {MAX_LIMIT}")]
    Limit,
    #[error("bad delimiter: it is '{DELIMITER}'")]
    Delimiter,
}

/// The page that `query` asks for of the keys that begin with `folder`: `prefix`, `after`, `limit` and `delimiter`, all
/// optional; other names are ignored.
pub(in crate::http) fn page(folder: String, query: &str) -> Result<Page, BadQuery> {
    let page = Page {
        prefix: folder,
        after: String::new(),
        limit: DEFAULT_LIMIT,
        by_folder: false,
        within: Prefixes::all(),
    };
    read(page, query)
}

/// `page`, of a folder, with what `query` says.
fn read(mut page: Page, query: &str) -> Result<Page, BadQuery> {
    let below = page.prefix.len();
    for (name, value) in parse(query.as_bytes()) {
        match &*name {
            "prefix" => {
                page.prefix.truncate(below);
                page.prefix.push_str(&value);
            }
            "delimiter" => page.by_folder = delimiter(&value)?,
            "after" => page.after = value.into_owned(),
            "limit" => page.limit = limit(&value)?,
            _ => {}
        }
    }
    Ok(page)
}

/// An empty delimiter is none, as in S3.
fn delimiter(value: &str) -> Result<bool, BadQuery> {
    match value {
        "" => Ok(false),
        DELIMITER => Ok(true),
        _ => Err(BadQuery::Delimiter),
    }
}

fn limit(value: &str) -> Result<usize, BadQuery> {
    match value.parse() {
        Ok(limit @ 1..=MAX_LIMIT) => Ok(limit),
        _ => Err(BadQuery::Limit),
    }
}

#[derive(Serialize)]
struct JsonPage<'a> {
    keys: Vec<JsonKey<'a>>,
    /// What stands for keys that have a delimiter in common, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefixes: Option<&'a [String]>,
    /// The `after` of the next page, when there is one.
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonKey<'a> {
    key: &'a str,
    size: u64,
    etag: String,
    modified: String,
}

/// The page as JSON.
fn json<V: Listed>(page: &Page, listing: &Listing<V>) -> Vec<u8> {
    let keys = listing.keys.iter().map(|(key, value)| JsonKey {
        key: key.as_str(),
        size: value.len(),
        etag: value.etag(),
        modified: humantime::format_rfc3339_nanos(value.modified()).to_string(),
    });
    let page = JsonPage {
        keys: keys.collect(),
        prefixes: page.by_folder.then_some(&listing.folders),
        next: listing.next.as_deref(),
    };
    let mut json = serde_json::to_vec(&page).unwrap_or_default();
    json.push(b'\n');
    json
}

#[cfg(test)]
mod tests {
    use crate::http::semantics::listing::*;

    #[test]
    fn a_query_gives_a_page_or_says_what_is_wrong() {
        let whole = Page {
            prefix: String::new(),
            after: String::new(),
            limit: 1000,
            by_folder: false,
            within: Prefixes::all(),
        };
        let root = |query| page(String::new(), query);
        assert_eq!(root(""), Ok(whole.clone()));
        assert_eq!(root("unknown=1"), Ok(whole.clone()));
        assert_eq!(root("delimiter="), Ok(whole));
        let some = Page {
            prefix: "a b".into(),
            after: "a/c".into(),
            limit: 7,
            by_folder: true,
            within: Prefixes::all(),
        };
        let query = "prefix=a+b&after=a%2Fc&limit=7&delimiter=%2F";
        assert_eq!(root(query), Ok(some.clone()));
        assert_eq!(
            page(
                "a ".into(),
                "prefix=x&prefix=b&after=a/c&limit=7&delimiter=/"
            ),
            Ok(some)
        );
        for bad in ["limit=0", "limit=10001", "limit=", "limit=x", "limit=-1"] {
            assert_eq!(root(bad), Err(BadQuery::Limit), "{bad}");
        }
        for bad in ["delimiter=-", "delimiter=//", "delimiter=a"] {
            assert_eq!(root(bad), Err(BadQuery::Delimiter), "{bad}");
        }
    }
}
