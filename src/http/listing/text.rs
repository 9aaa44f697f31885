//! A page of a listing as JSON, or as lines of text. Pure functions.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::http::listing::query::{Listed, items};
use crate::store::{Listing, Page};

/// Bytes that a path cannot hold as they are (RFC 3986, section 3.3), and those that end a line. The `/` of a key separates segments.
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
pub fn text<V>(listing: &Listing<V>) -> Vec<u8> {
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
}

#[derive(Serialize)]
struct JsonKey<'a> {
    key: &'a str,
    size: u64,
    etag: String,
    modified: String,
}

/// The page as JSON.
pub fn json<V: Listed>(page: &Page, listing: &Listing<V>) -> Vec<u8> {
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
