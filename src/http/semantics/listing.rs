//! The listing of keys: its query read, its page rendered. Pure functions.

use form_urlencoded::parse;
use hyper::header::HeaderMap;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::http::response::representation::etag;
use crate::http::semantics::accept::media_type;
use crate::store::{Listing, Page};

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

    pub(in crate::http) fn render(self, page: &Page, listing: &Listing) -> Vec<u8> {
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

/// One item a line, encoded as it stands in a path, so that no key can look like two. That of a folder ends with `/`.
fn text(listing: &Listing) -> Vec<u8> {
    let keys = listing.keys.iter().map(|(key, _)| key.as_str());
    let folders = listing.folders.iter().map(String::as_str);
    let mut items: Vec<&str> = keys.chain(folders).collect();
    items.sort_unstable();
    let mut text = String::new();
    for item in items {
        text.extend(utf8_percent_encode(item, UNSAFE));
        text.push('\n');
    }
    text.into_bytes()
}

/// Where the page after this one is: the `Link` of relation `next` (RFC 8288).
pub(in crate::http) fn next_link(page: &Page, listing: &Listing) -> Option<String> {
    let after = listing.next.as_deref()?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    if !page.prefix.is_empty() {
        query.append_pair("prefix", &page.prefix);
    }
    if page.by_folder {
        query.append_pair("delimiter", DELIMITER);
    }
    let query = query.append_pair("after", after);
    let query = query.append_pair("limit", &page.limit.to_string());
    Some(format!("</?{}>; rel=\"next\"", query.finish()))
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
    let below = folder.len();
    let mut page = Page {
        prefix: folder,
        after: String::new(),
        limit: DEFAULT_LIMIT,
        by_folder: false,
    };
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
fn json(page: &Page, listing: &Listing) -> Vec<u8> {
    let keys = listing.keys.iter().map(|(key, meta)| JsonKey {
        key: key.as_str(),
        size: meta.len,
        etag: etag(meta.version),
        modified: humantime::format_rfc3339_nanos(meta.version.time()).to_string(),
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
