//! Listings (`ListObjectsV2`).

use std::collections::HashMap;
use std::fmt::Display;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Lies;
use super::objects::{Object, Objects};

/// Items of a page at most.
const MOST: usize = 1000;

enum Item<'a> {
    Key(&'a str, &'a Object),
    Prefix(&'a str),
}

impl Item<'_> {
    /// What the next page begins after.
    fn token(&self) -> String {
        match self {
            Self::Key(key, _) => format!("key:{key}"),
            Self::Prefix(prefix) => format!("prefix:{prefix}"),
        }
    }
}

/// One page, as XML.
pub(super) fn page(objects: &Objects, query: &HashMap<String, String>, lies: &Lies) -> String {
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    let most = text("max-keys").parse().unwrap_or(MOST).min(MOST);
    let mut items = Vec::new();
    let mut stored: Vec<_> = objects.stored.iter().collect();
    if lies.lists_words {
        stored.sort_by_key(|(key, _)| key.to_lowercase());
    }
    let is_forgotten = |after| lies.forgets_absent && !objects.stored.contains_key(after);
    let text = |name: &str| match text(name) {
        after if name == "start-after" && is_forgotten(after) => "",
        text => text,
    };
    for (key, object) in stored {
        let rest = key.strip_prefix(text("prefix"));
        let Some(rest) = rest.filter(|_| is_after(key, text)) else {
            continue;
        };
        let cut = Some(text("delimiter")).filter(|cut| !cut.is_empty());
        let item = match cut.and_then(|cut| Some((rest.find(cut)?, cut))) {
            None => Item::Key(key, object),
            Some((at, cut)) => Item::Prefix(&key[..key.len() - rest.len() + at + cut.len()]),
        };
        let is_same =
            |last: &Item<'_>| matches!((last, &item), (Item::Prefix(a), Item::Prefix(b)) if a == b);
        if !items.last().is_some_and(is_same) {
            items.push(item);
        }
    }
    let is_truncated = items.len() > most;
    items.truncate(most);
    let has = |name| !text(name).is_empty();
    let is_forgotten = lies.forgets_token && has("delimiter") && has("continuation-token");
    let last = items.last().filter(|_| is_truncated && !is_forgotten);
    let token = last.map(Item::token);
    write(&items, is_truncated, token, text("encoding-type") == "url")
}

fn is_after<'a>(key: &str, text: impl Fn(&str) -> &'a str) -> bool {
    let token = text("continuation-token");
    match token.split_once(':') {
        Some(("prefix", prefix)) => key > prefix && !key.starts_with(prefix),
        Some((_, last)) => key > last,
        None => key > text("start-after") || text("start-after").is_empty(),
    }
}

fn write(
    items: &[Item<'_>],
    is_truncated: bool,
    token: Option<String>,
    is_encoded: bool,
) -> String {
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult>".to_owned();
    if is_encoded {
        xml.push_str("<EncodingType>url</EncodingType>");
    }
    let name = |name: &str| {
        if is_encoded {
            utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
        } else {
            escaped(name)
        }
    };
    for item in items {
        xml += &match item {
            Item::Prefix(prefix) => element("CommonPrefixes", element("Prefix", name(prefix))),
            Item::Key(key, object) => {
                let modified = humantime::format_rfc3339_millis(object.modified);
                let key = element("Key", name(key)) + &element("LastModified", modified);
                let etag = element("ETag", object.etag.replace('"', "&quot;"));
                element(
                    "Contents",
                    key + &etag + &element("Size", object.bytes.len()),
                )
            }
        };
    }
    xml += &element("KeyCount", items.len());
    xml += &element("IsTruncated", is_truncated);
    if let Some(token) = token {
        xml += &element("NextContinuationToken", escaped(&token));
    }
    xml + "</ListBucketResult>"
}

/// An element of XML.
pub(super) fn element(name: &str, inside: impl Display) -> String {
    format!("<{name}>{inside}</{name}>")
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
