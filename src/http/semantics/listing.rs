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

    pub(in crate::http) fn render(self, listing: &Listing) -> Vec<u8> {
        match self {
            Self::Json => json(listing),
            Self::Text => text(listing),
        }
    }
}

/// What a path segment cannot hold as it is (RFC 3986, section 3.3), and what ends a line.
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

/// One key a line, encoded as it stands in a path, so that no key can look like two.
fn text(listing: &Listing) -> Vec<u8> {
    let mut text = String::new();
    for (key, _) in &listing.keys {
        text.extend(utf8_percent_encode(key.as_str(), UNSAFE));
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
    let query = query.append_pair("after", after);
    let query = query.append_pair("limit", &page.limit.to_string());
    Some(format!("</?{}>; rel=\"next\"", query.finish()))
}

/// Why a query is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::http) enum BadQuery {
    #[error("bad limit: a number from 1 to {MAX_LIMIT}")]
    Limit,
}

/// The page that `query` asks for: `prefix`, `after` and `limit`, all optional; other names are ignored.
pub(in crate::http) fn page(query: &str) -> Result<Page, BadQuery> {
    let mut page = Page {
        prefix: String::new(),
        after: String::new(),
        limit: DEFAULT_LIMIT,
    };
    for (name, value) in parse(query.as_bytes()) {
        match &*name {
            "prefix" => page.prefix = value.into_owned(),
            "after" => page.after = value.into_owned(),
            "limit" => page.limit = limit(&value)?,
            _ => {}
        }
    }
    Ok(page)
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
fn json(listing: &Listing) -> Vec<u8> {
    let keys = listing.keys.iter().map(|(key, meta)| JsonKey {
        key: key.as_str(),
        size: meta.len,
        etag: etag(meta.version),
        modified: humantime::format_rfc3339_nanos(meta.version.time()).to_string(),
    });
    let page = JsonPage {
        keys: keys.collect(),
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
        };
        assert_eq!(page(""), Ok(whole.clone()));
        assert_eq!(page("unknown=1"), Ok(whole));
        let some = Page {
            prefix: "a b".into(),
            after: "a/c".into(),
            limit: 7,
        };
        assert_eq!(page("prefix=a+b&after=a%2Fc&limit=7"), Ok(some));
        for bad in ["limit=0", "limit=10001", "limit=", "limit=x", "limit=-1"] {
            assert_eq!(page(bad), Err(BadQuery::Limit), "{bad}");
        }
    }
}
