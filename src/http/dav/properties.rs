//! The properties of a value or a folder (RFC 4918, section 15), and how they are written. All are live: none is kept
//! for a client.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::fmt_http_date;
use quick_xml::escape::escape;

use crate::http::dav::xml::{self, Element};
use crate::http::fields::media;
use crate::http::head::syntax::encoded;
use crate::http::listing::items;
use crate::http::locks::{Lock, Locks};
use crate::store::{ListedValue, Listing};

/// The properties that PROPFIND answers unless it names some (section 9.1.5), and those that it answers when named.
const ALL: [&str; 9] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "creationdate",
    "supportedlock",
    "lockdiscovery",
];
/// RFC 4331: of folders.
pub const QUOTA: &str = "quota-available-bytes";

/// The properties that are asked for.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// All, or only their names.
    All {
        names: bool,
    },
    Some(Arc<[Element]>),
}

/// A value, with its length and tag, or a folder.
pub struct Item<'a> {
    /// Its name, for a folder without a `/` at the end.
    pub name: &'a str,
    pub value: Option<(u64, &'a str)>,
    /// For people: that of a value, or when something in a folder was last made or removed.
    pub date: SystemTime,
}

/// The writer of the answers to one request.
#[derive(Clone)]
pub struct Writer {
    pub wanted: Wanted,
    pub prefix: Box<str>,
    pub locks: Option<Arc<Locks>>,
    /// The bytes that values may still take, if that is asked for and known.
    pub available: Option<u64>,
}

impl Writer {
    /// True where a property is asked for by this name.
    pub fn names(&self, name: &str) -> bool {
        matches!(&self.wanted, Wanted::Some(names) if names.iter().any(|it| it.is(name)))
    }

    /// The answers about all in `listing`, whose folders have these dates.
    pub fn members(&self, listing: &Listing, dates: &[SystemTime]) -> String {
        let mut text = String::new();
        // Folders come in the same order.
        let mut dates = dates.iter();
        for item in items(listing) {
            let of_folder = || dates.next().copied().unwrap_or(UNIX_EPOCH);
            let name = item.text.trim_end_matches('/');
            let value = item.value.map(|it| (it.len, &*it.validators.etag));
            let date = item.value.map_or_else(of_folder, ListedValue::date);
            self.write(&mut text, &Item { name, value, date });
        }
        text
    }

    /// Adds the answer about `item`.
    pub fn write(&self, to: &mut String, item: &Item<'_>) {
        let (mut found, mut missing) = (String::new(), String::new());
        match &self.wanted {
            Wanted::All { names } => {
                for name in ALL {
                    match self.property(name, item) {
                        Some(_) if *names => found.extend(["<D:", name, "/>"]),
                        Some(value) => found.extend(["<D:", name, ">", &*value, "</D:", name, ">"]),
                        None => {}
                    }
                }
            }
            Wanted::Some(names) => {
                for asked in &**names {
                    let name = &asked.name;
                    match Some(asked)
                        .filter(|it| it.is(name))
                        .and_then(|_| self.property(name, item))
                    {
                        Some(value) => found.extend(["<D:", name, ">", &*value, "</D:", name, ">"]),
                        None => missing.push_str(&asked.empty()),
                    }
                }
            }
        }
        let both = [(xml::OK, found), (xml::NOT_FOUND, missing)];
        let is_first = |(status, text): &(&str, String)| *status == xml::OK || !text.is_empty();
        let both: Vec<_> = both.into_iter().filter(is_first).collect();
        xml::write_response(to, &href(&self.prefix, item), &both);
    }

    /// The value of a property, as XML; `None` where the item has none of this name.
    fn property(&self, name: &str, item: &Item<'_>) -> Option<String> {
        let (len, etag) = item.value.unzip();
        Some(match name {
            "resourcetype" if item.value.is_none() => "<D:collection/>".to_owned(),
            "resourcetype" => String::new(),
            "displayname" => {
                let name = item.name.rsplit('/').next().unwrap_or_default();
                escape(name).into_owned()
            }
            "getcontentlength" => len?.to_string(),
            "getcontenttype" => escape(&*media::of(item.name, None, false)).into_owned(),
            "getetag" => escape(etag?).into_owned(),
            "getlastmodified" => fmt_http_date(item.date),
            "creationdate" => humantime::format_rfc3339_seconds(item.date).to_string(),
            "supportedlock" => SUPPORTED.to_owned(),
            "lockdiscovery" => {
                let locks = self.locks.as_ref().map(|locks| locks.of(item.name));
                let locks = locks.unwrap_or_default();
                locks
                    .iter()
                    .map(|lock| discovered(lock, &self.prefix))
                    .collect()
            }
            QUOTA if item.value.is_none() => self.available?.to_string(),
            _ => return None,
        })
    }
}

const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
     <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// The path of an item, behind that of a proxy.
fn href(prefix: &str, item: &Item<'_>) -> String {
    let end = if item.value.is_none() && !item.name.is_empty() {
        "/"
    } else {
        ""
    };
    format!("{prefix}/{}{end}", encoded(item.name))
}

/// A lock, as it is told of.
pub fn discovered(lock: &Lock, prefix: &str) -> String {
    let scope = if lock.is_shared {
        "shared"
    } else {
        "exclusive"
    };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let (owner, token, seconds) = (&lock.owner, &lock.token, lock.timeout.as_secs());
    let root = format!("{prefix}/{}", encoded(&lock.name));
    format!(
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>\
         <D:owner>{owner}</D:owner><D:timeout>Second-{seconds}</D:timeout><D:locktoken><D:href>{token}</D:href></D:locktoken>\
         <D:lockroot><D:href>{root}</D:href></D:lockroot></D:activelock>"
    )
}
