//! The listing of keys: the page of it that a query names, the address of the next one, its text as JSON or lines, and
//! the headers of the answers. Pure; [`perform`] parses a request and asks the store.

pub mod index;
pub mod perform;
pub mod site;
pub mod unlisted;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LINK, VARY,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::http::head::accept::media_type;
use crate::http::head::query::{BAD_QUERY, Parameters, QueryFields};
use crate::http::head::syntax::put;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::service_config::ServiceConfig;
use crate::store::{
    Current, ListedValue, Listing, Page, Preconditions, Prefixes, Unlisted, Verdict,
};

/// The number of keys on a page, unless its request says it.
pub const DEFAULT_LIMIT: usize = 1_000;

/// The most keys on a page.
const MAX_LIMIT: usize = 10_000;

/// The only delimiter that keys are grouped by.
const DELIMITER: &str = "/";

/// The format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    Json,
    Text,
    Html,
}

impl ListFormat {
    const ALL: [Self; 3] = [Self::Json, Self::Text, Self::Html];

    /// The format that Accept prefers; `first`, where it prefers none.
    pub fn preferred(headers: &HeaderMap, first: Self) -> Self {
        let mut formats = Self::ALL;
        formats.sort_by_key(|format| *format != first);
        let types = formats.map(|format| format.terms().1);
        formats[media_type(headers, &types).unwrap_or(0)]
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.terms().0 == name)
    }

    /// Its name in a query, its media type, and its Content-Type with the charset.
    fn terms(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Json => ("json", "application/json", "application/json"),
            Self::Text => ("text", "text/plain", "text/plain; charset=utf-8"),
            Self::Html => ("html", "text/html", "text/html; charset=utf-8"),
        }
    }
}

/// A key with its value, or a folder, which ends with `/`.
#[derive(Debug)]
pub struct Item<'a> {
    pub text: &'a str,
    pub value: Option<&'a ListedValue>,
}

/// The keys and folders of a page together, in byte order.
pub fn items(listing: &Listing) -> Vec<Item<'_>> {
    let keys = listing.keys.iter().map(|(key, value)| Item {
        text: key.as_str(),
        value: Some(value),
    });
    let folders = listing.folders.iter().map(|folder| Item {
        text: folder,
        value: None,
    });
    let mut items: Vec<Item<'_>> = keys.chain(folders).collect();
    items.sort_unstable_by_key(|item| item.text);
    items
}

/// The place in the store that a listing shows: a folder, and which page of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListTarget {
    /// Its name with the `/` at the end; empty for the root.
    pub folder: String,
    pub page: Page,
    pub format: ListFormat,
    /// The query says the format, and so does the address of the next page.
    pub names_format: bool,
    pub preconditions: Option<Preconditions>,
    /// The page for browsers asks what the folder has beside its listing.
    pub wants_unlisted: bool,
    /// The query as it was asked, for the address of the folder that links lead to.
    pub query: Option<Box<str>>,
}

impl ListTarget {
    /// The target that `query` names in `folder`. By default HTML has pages of the greatest length, because its clients
    /// follow links to keys but not to a next page, and folders stand for their keys.
    pub fn new(folder: String, query: Query, format: ListFormat) -> Self {
        let is_html = format == ListFormat::Html;
        let limit = if is_html { MAX_LIMIT } else { DEFAULT_LIMIT };
        let by_folder = query.by_folder.unwrap_or(is_html);
        let page = Page {
            prefix: format!("{folder}{}", query.prefix.unwrap_or_default()),
            after: query.after.unwrap_or_default(),
            limit: query.limit.unwrap_or(limit),
            by_folder,
            folders: by_folder,
            within: Prefixes::all(),
        };
        Self {
            folder,
            page,
            format,
            names_format: query.format.is_some(),
            preconditions: None,
            wants_unlisted: query.unlisted,
            query: None,
        }
    }

    /// The query of the place behind this one, in the same folder.
    pub fn next_query(&self, listing: &Listing) -> Option<String> {
        let after = listing.next.as_deref()?;
        let prefix = self.page.prefix.strip_prefix(&self.folder);
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
            query.append_pair("prefix", prefix);
        }
        if self.page.by_folder != (self.format == ListFormat::Html) {
            let delimiter = if self.page.by_folder { DELIMITER } else { "" };
            query.append_pair("delimiter", delimiter);
        }
        query.append_pair("after", after);
        query.append_pair("limit", &self.page.limit.to_string());
        if self.names_format {
            query.append_pair("format", self.format.terms().0);
        }
        Some(query.finish())
    }

    /// The `Link` to the next page (RFC 8288). Relative, as the server may be below a path of a proxy.
    pub fn next_link(&self, listing: &Listing) -> Option<String> {
        let query = self.next_query(listing)?;
        Some(format!("<?{query}>; rel=\"next\""))
    }
}

/// The parameters of a listing.
pub const PARAMETERS: &Parameters = &Parameters {
    of: "a listing",
    once: &[
        "prefix",
        "after",
        "limit",
        "delimiter",
        "format",
        "unlisted",
    ],
    many: &[],
    hint: "it has prefix, after, limit, delimiter, format and unlisted, and an archive has archive and files",
};

/// The query of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Query {
    prefix: Option<String>,
    after: Option<String>,
    pub limit: Option<usize>,
    by_folder: Option<bool>,
    pub format: Option<ListFormat>,
    unlisted: bool,
}

impl Query {
    /// The listing that a query asks for, which was checked against [`PARAMETERS`].
    pub fn of(query: &QueryFields<'_>) -> Result<Self, Refusal> {
        let by_folder = |delimiter| match delimiter {
            // An empty delimiter is none, as in S3.
            "" => Ok(false),
            DELIMITER => Ok(true),
            _ => Err(BAD_QUERY.because(format!("bad delimiter: it is '{DELIMITER}'"))),
        };
        let limit = |limit: &str| match limit.parse() {
            Ok(limit @ 1..=MAX_LIMIT) => Ok(limit),
            _ => Err(BAD_QUERY.because(format!("bad limit: a number from 1 to {MAX_LIMIT}"))),
        };
        let format = |name| {
            let why = "bad format: it is json, text or html";
            ListFormat::named(name).ok_or_else(|| BAD_QUERY.because(why))
        };
        Ok(Self {
            prefix: query.get("prefix").map(str::to_owned),
            after: query.get("after").map(str::to_owned),
            limit: query.get("limit").map(limit).transpose()?,
            by_folder: query.get("delimiter").map(by_folder).transpose()?,
            format: query.get("format").map(format).transpose()?,
            unlisted: query.has("unlisted"),
        })
    }

    /// The format for a client without a preference: one that sends no parameter of listings follows links.
    pub fn usual_format(&self) -> ListFormat {
        let of_no_listing = Self {
            format: self.format,
            ..Self::default()
        };
        if *self == of_no_listing {
            ListFormat::Html
        } else {
            ListFormat::Json
        }
    }
}

/// The bytes that are encoded in a path (RFC 3986, section 3.3), those that mean something else in a query, and those
/// that end a line. The `/` of a key separates segments.
const UNSAFE: &AsciiSet = &{
    let (mut set, bytes) = (CONTROLS.add(b' '), b"\"#%&+<>?[\\]^`{|}");
    let mut at = 0;
    while at < bytes.len() {
        set = set.add(bytes[at]);
        at += 1;
    }
    set
};

/// The page as text: an item a line, encoded for a path and for a query, so that no key looks like two. A folder ends
/// with `/`.
pub fn text(listing: &Listing) -> Vec<u8> {
    let mut text = String::new();
    for item in items(listing) {
        text.extend(utf8_percent_encode(item.text, UNSAFE));
        text.push('\n');
    }
    text.into_bytes()
}

#[derive(Serialize)]
struct JsonPage<'a> {
    keys: Vec<JsonKey<'a>>,
    /// The folders that stand for their keys, where a delimiter was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefixes: Option<&'a [String]>,
    /// The `after` of the next page, when there is one.
    next: Option<&'a str>,
    /// The symbolic links that lead to a value or a folder, by their names, and a sentence about what is not shown;
    /// where `unlisted` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unlisted: Option<String>,
}

#[derive(Serialize)]
struct JsonKey<'a> {
    key: &'a str,
    size: u64,
    etag: &'a str,
    modified: String,
    /// The date of the value, if one is kept with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// The end of the value, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

/// The page as JSON.
pub fn json(page: &Page, listing: &Listing, beside: Option<&Unlisted>, follows: bool) -> Vec<u8> {
    let keys = listing.keys.iter().map(|(key, value)| JsonKey {
        key: key.as_str(),
        size: value.len,
        etag: &value.validators.etag,
        modified: humantime::format_rfc3339_nanos(value.validators.modified).to_string(),
        date: (value.date).map(|date| humantime::format_rfc3339_nanos(date).to_string()),
        expires: value.end.map(|end| {
            let end = UNIX_EPOCH + Duration::from_secs(end);
            humantime::format_rfc3339_seconds(end).to_string()
        }),
    });
    let page = JsonPage {
        keys: keys.collect(),
        prefixes: page.by_folder.then_some(&listing.folders),
        next: listing.next.as_deref(),
        links: beside.map(|beside| &*beside.followed),
        unlisted: beside.map(|beside| unlisted::not_shown(beside, follows)),
    };
    let mut json = serde_json::to_vec(&page).unwrap_or_default();
    json.push(b'\n');
    json
}

/// The entity tag of what has this digest.
pub fn tag(digest: &[u8]) -> String {
    format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&digest[..12]))
}

/// True where the client has the page of this entity tag already. The page has no date: fields with one are ignored
/// (RFC 9110, sections 13.1.3 and 13.1.4).
pub fn is_known(preconditions: Option<&Preconditions>, etag: &str) -> Result<bool, Refusal> {
    let Some(preconditions) = preconditions else {
        return Ok(false);
    };
    let of_tags = Preconditions {
        modified_since: None,
        unmodified_since: None,
        ..preconditions.clone()
    };
    let current = Current {
        etag,
        variant: None,
        modified: SystemTime::UNIX_EPOCH,
    };
    match of_tags.for_read(Some(current)) {
        Verdict::Failed => Err(PRECONDITION),
        Verdict::NotModified(_) => Ok(true),
        Verdict::Proceed => Ok(false),
    }
}

/// An index of links loads nothing and runs nothing: a key that became markup would do nothing.
const NOTHING: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Adds the headers of a page of a listing, with the link to the `next` one.
fn describe(
    headers: &mut HeaderMap,
    format: ListFormat,
    next: Option<String>,
    etag: String,
    config: &ServiceConfig,
) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.terms().2));
    put(headers, ETAG, etag);
    if format == ListFormat::Html {
        headers.insert(CONTENT_SECURITY_POLICY, NOTHING);
    }
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if let Some(next) = next {
        put(headers, LINK, next);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::store::{Key, ListedValue, Meta, Version};

    /// The listing of a folder, as HTML, that this query asks for.
    pub fn place(folder: &str, query: &str) -> ListTarget {
        let query = Query::of(&QueryFields::of(Some(query))).unwrap();
        ListTarget::new(folder.to_owned(), query, ListFormat::Html)
    }

    /// A page of keys with their lengths and versions.
    pub fn listing(keys: &[(&str, u64, i128)], folders: &[&str], next: Option<&str>) -> Listing {
        let keys = keys.iter().map(|&(key, len, nanos)| {
            let value = ListedValue::of(Meta::new(len, Version::from_nanos(nanos)));
            (Key::new(key.to_owned()).unwrap(), value)
        });
        Listing {
            keys: keys.collect(),
            folders: folders.iter().map(|&folder| folder.to_owned()).collect(),
            next: next.map(str::to_owned),
        }
    }
}
