//! The frame of the page: one document with its style and scripts, and slots for the parts that differ from page to
//! page; and the rights of the client, for the scripts.
//!
//! Pure. The files in `ui/` are put into one document, so that nothing else has to be reachable for it. Its
//! Content-Security-Policy lets exactly these scripts and this style act, by their digests: a key or an error that
//! became markup would do nothing. Promises that the rights name no prefix at which the client may list nothing.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::access::{Right, Subject};
use crate::http::listing::tag;
use crate::store::{GZIP, Prefixes, coded_tag};

const HTML: &str = include_str!("index.html");
const STYLES: &[(&str, &str)] = &[
    ("app.css", include_str!("app.css")),
    ("plain.css", include_str!("plain.css")),
];
pub const SCRIPTS: &[(&str, &str)] = &[
    ("common.js", include_str!("common.js")),
    ("rights.js", include_str!("rights.js")),
    ("place.js", include_str!("place.js")),
    ("rows.js", include_str!("rows.js")),
    ("order.js", include_str!("order.js")),
    ("search.js", include_str!("search.js")),
    ("picked.js", include_str!("picked.js")),
    ("removal.js", include_str!("removal.js")),
    ("keys.js", include_str!("keys.js")),
    ("live.js", include_str!("live.js")),
    ("unfinished.js", include_str!("unfinished.js")),
    ("sending.js", include_str!("sending.js")),
    ("uploads.js", include_str!("uploads.js")),
    ("files.js", include_str!("files.js")),
    ("naming.js", include_str!("naming.js")),
    ("folders.js", include_str!("folders.js")),
    ("rename.js", include_str!("rename.js")),
    ("share.js", include_str!("share.js")),
    ("preview.js", include_str!("preview.js")),
    ("edit.js", include_str!("edit.js")),
    ("keyboard.js", include_str!("keyboard.js")),
    ("metrics.js", include_str!("metrics.js")),
    ("reactors.js", include_str!("reactors.js")),
    ("app.js", include_str!("app.js")),
];

/// The frame that every page has.
pub static FRAME: LazyLock<PageFrame> = LazyLock::new(PageFrame::assemble);

/// The document without its slots, and its Content-Security-Policy.
pub struct PageFrame {
    /// Texts, each with the name of the slot after it; the last has none.
    pub pieces: Vec<(String, &'static str)>,
    pub policy: String,
    digest: [u8; 32],
}

/// The slots of a page: the name of each in the frame, and its markup.
pub type Slots = [(&'static str, String); 12];

/// A page, and its entity tag.
#[derive(Debug)]
pub struct Document {
    pub html: Vec<u8>,
    pub etag: String,
    pub is_gzip: bool,
}

impl Document {
    /// The page in gzip, another representation of it. Takes milliseconds.
    pub fn compressed(self) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let html = encoder
            .write_all(&self.html)
            .and_then(|()| encoder.finish());
        match html {
            Ok(html) => Self {
                etag: coded_tag(&self.etag, GZIP),
                is_gzip: true,
                html,
            },
            // Writing to a Vec does not fail.
            Err(_) => self,
        }
    }
}

impl PageFrame {
    fn assemble() -> Self {
        let mut pieces = Vec::new();
        let mut rest = HTML;
        while let Some((text, behind)) = rest.split_once("{{")
            && let Some((slot, after)) = behind.split_once("}}")
        {
            pieces.push((with_files(text), slot));
            rest = after;
        }
        pieces.push((with_files(rest), ""));
        let policy = format!(
            "default-src 'none'; script-src{}; style-src{}; connect-src 'self'; img-src blob: data:; media-src 'self'; \
             frame-src blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            sources(SCRIPTS),
            sources(STYLES),
        );
        // The policy is a part of the page: the entity tag is of both.
        let mut digest = Sha256::new_with_prefix(&policy);
        for (text, slot) in &pieces {
            digest.update(text);
            digest.update(slot);
        }
        Self {
            digest: digest.finalize().into(),
            pieces,
            policy,
        }
    }

    /// The page with these slots; its entity tag is of the frame and the slots.
    pub fn fill(&self, slots: &Slots) -> Document {
        let mut digest = Sha256::new_with_prefix(self.digest);
        for (_, text) in slots {
            digest.update(text.len().to_be_bytes());
            digest.update(text);
        }
        let texts = self.pieces.iter().map(|(text, _)| text.len());
        let len = texts.chain(slots.iter().map(|(_, text)| text.len())).sum();
        let mut html = Vec::with_capacity(len);
        for (text, slot) in &self.pieces {
            html.extend_from_slice(text.as_bytes());
            let value = slots.iter().find(|(name, _)| name == slot);
            html.extend_from_slice(value.map_or("", |(_, text)| text.as_str()).as_bytes());
        }
        Document {
            html,
            etag: tag(&digest.finalize()),
            is_gzip: false,
        }
    }
}

/// `html` with each file in place of the link to it.
fn with_files(html: &str) -> String {
    let mut html = html.to_owned();
    for (name, text) in STYLES {
        let link = format!("<link rel=\"stylesheet\" href=\"{name}\">");
        html = html.replacen(&link, &format!("<style>{text}</style>"), 1);
    }
    for (name, text) in SCRIPTS {
        let link = format!("<script src=\"{name}\"></script>");
        html = html.replacen(&link, &format!("<script>{text}</script>"), 1);
    }
    html
}

/// The sources of a policy for these texts, by digest (CSP Level 3, section 2.3.1).
fn sources(texts: &[(&str, &str)]) -> String {
    texts.iter().fold(String::new(), |mut sources, (_, text)| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(text));
        let _ = write!(sources, " 'sha256-{digest}'"); // writing to a String cannot fail
        sources
    })
}

/// A number of bytes for people: at least three digits where there are that many, and a prefix of 1024.
pub struct Size(pub u64);

impl Display for Size {
    #[expect(clippy::cast_precision_loss, reason = "it is rounded to three digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1000.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = match value {
            _ if unit == 0 || value >= 100.0 => 0,
            _ if value >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{value:.digits$} {}", UNITS[unit])
    }
}

/// The rights of the client of a page, as the scripts read them: the prefixes of the keys by right. The page offers
/// nothing that would be refused.
#[derive(Debug, Serialize)]
pub struct PageRights {
    list: Prefixes,
    read: Prefixes,
    create: Prefixes,
    write: Prefixes,
    delete: Prefixes,
    watch: Prefixes,
    metrics: bool,
    /// The keys to which the server signs links for the client.
    share: Prefixes,
    /// The longest that such a link lasts, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    lasts: Option<u64>,
    /// The name of the client; empty for an anonymous one, `None` where there are no rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The server knows the path that a proxy has in front of it, and takes it from a Destination.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prefixed: bool,
    /// The name of the page.
    #[serde(skip)]
    pub title: Box<str>,
    /// The client authenticated by a password, which its browser can forget.
    #[serde(skip)]
    pub signs_out: bool,
}

impl PageRights {
    /// The rights of `subject`, or all where there are no rules; none to change a server that is `read_only`.
    /// `signs_out` says whether the browser can forget the password.
    pub fn new(subject: Option<&Subject>, read_only: bool, signs_out: bool) -> Self {
        let keys =
            |right| subject.map_or_else(Prefixes::all, |subject| subject.grant.keys(right).clone());
        let list = keys(Right::List);
        let sees_none = list.iter().next().is_none();
        let shown = |right, is_offered: bool| {
            let keys = keys(right);
            // Who lists nothing hands in files by a link.
            let is_shown = |prefix: &&str| is_offered && (sees_none || list.may_have_below(prefix));
            Prefixes::new(keys.iter().filter(is_shown))
        };
        let name = |subject: &Subject| {
            let name = Some(&*subject.name).filter(|_| !subject.is_anonymous);
            name.unwrap_or_default().into()
        };
        Self {
            read: shown(Right::Read, true),
            create: shown(Right::Create, !read_only),
            write: shown(Right::Write, !read_only),
            delete: shown(Right::Delete, !read_only),
            // A server that changes nothing has nothing to tell.
            watch: shown(Right::Watch, !read_only),
            metrics: keys(Right::Metrics).may_have_below(""),
            share: Prefixes::default(),
            lasts: None,
            list,
            name: subject.map(name),
            title: "data-server".into(),
            prefixed: false,
            signs_out,
        }
    }

    /// The same, where the server signs links to these keys for the client, which last so long at most.
    pub fn with_shared(self, keys: &Prefixes, lasts: Duration) -> Self {
        let share = keys.and(&self.list);
        let lasts = Some(lasts.as_secs());
        Self {
            share,
            lasts,
            ..self
        }
    }

    /// True where all of `folder` may be listed.
    pub fn may_list(&self, folder: &str) -> bool {
        self.list.has(folder)
    }

    /// True where a value may be stored under some key in `folder`, and in no folder of it.
    pub fn may_create_in(&self, folder: &str) -> bool {
        let mut below = self.create.below(folder);
        self.create.has(folder) || below.any(|prefix| !prefix[folder.len()..].contains('/'))
    }
}

#[cfg(test)]
mod tests {
    use crate::access::Grant;
    use crate::http::ui::frame::*;

    fn slots() -> Slots {
        let names: Vec<_> = FRAME.pieces.iter().map(|(_, name)| *name).collect();
        std::array::from_fn(|at| (names[at], format!("{at}")))
    }

    #[test]
    fn every_file_is_in_the_document_and_none_ends_its_element() {
        let document = FRAME.fill(&slots());
        let document = std::str::from_utf8(&document.html).unwrap();
        for (name, text) in STYLES.iter().chain(SCRIPTS) {
            assert!(document.contains(text), "{name} is not in the document");
            assert!(!text.contains("</s"), "{name} ends its own element");
            assert!(!text.contains("<!--"), "{name} begins a comment");
        }
        assert!(!document.contains("src=\"") && !document.contains("rel=\"stylesheet\""));
    }

    #[test]
    fn the_entity_tag_is_of_all_slots() {
        let tag = |change: &dyn Fn(&mut Slots)| {
            let mut slots = slots();
            change(&mut slots);
            FRAME.fill(&slots).etag
        };
        let mut tags = vec![tag(&|_| {})];
        for at in 0..12 {
            tags.push(tag(&|slots| slots[at].1.push('x')));
        }
        // Text that one slot passes to the next.
        tags.push(tag(&|slots| slots[0].1 = std::mem::take(&mut slots[1].1)));
        assert_eq!(tags[0], FRAME.fill(&slots()).etag);
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 14);
    }

    #[test]
    fn sizes_have_three_digits_at_least() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1024, "1.00 KiB"),
            (12_345, "12.1 KiB"),
            (1_048_576, "1.00 MiB"),
            (123_456_789, "118 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    /// An anonymous client with these rights.
    fn client(rules: &[(&str, &[Right])]) -> Subject {
        Subject {
            name: "anonymous".into(),
            is_anonymous: true,
            grant: Grant::new(rules),
            ..Subject::default()
        }
    }

    #[test]
    fn a_page_has_the_rights_of_its_client_where_it_may_list() {
        use Right::{Create, Delete, List, Read, Watch, Write};
        let client = client(&[
            ("pub/", &[List, Read, Watch]),
            ("pub/in", &[Write]),
            ("box/5e1f/", &[Create, Delete]),
            ("p", &[Delete]),
            ("hidden/", &[Watch]),
        ]);
        let text = |rights: &PageRights| serde_json::to_string(rights).unwrap();
        let rights = PageRights::new(Some(&client), false, false);
        let json = r#"{"list":["pub/"],"read":["pub/"],"create":["pub/in"],"write":["pub/in"],"delete":["p"],"watch":["pub/"],"metrics":false,"share":[],"name":""}"#;
        assert_eq!(text(&rights), json);
        let rights = PageRights::new(Some(&client), true, false);
        assert_eq!(
            text(&rights),
            r#"{"list":["pub/"],"read":["pub/"],"create":[],"write":[],"delete":[],"watch":[],"metrics":false,"share":[],"name":""}"#
        );
        let shared = Prefixes::new(["pub/x", "box/5e1f/"]);
        let json = r#""share":["pub/x"],"lasts":3600,"name":""}"#;
        let rights = rights.with_shared(&shared, Duration::from_secs(3600));
        assert!(text(&rights).ends_with(json));
        let all = PageRights::new(None, false, false);
        let json = r#"{"list":[""],"read":[""],"create":[""],"write":[""],"delete":[""],"watch":[""],"metrics":true,"share":[]}"#;
        assert_eq!(text(&all), json);
    }

    #[test]
    fn files_are_stored_in_folders_that_may_have_them() {
        let may = |prefix, folder| {
            let client = client(&[(prefix, &[Right::Create, Right::List])]);
            PageRights::new(Some(&client), false, false).may_create_in(folder)
        };
        for (prefix, folder) in [
            ("", ""),
            ("", "a/"),
            ("a/", "a/"),
            ("a/", "a/b/"),
            ("a/x", "a/"),
            ("x", ""),
        ] {
            assert!(may(prefix, folder), "{prefix:?} {folder:?}");
        }
        for (prefix, folder) in [("a/", ""), ("a/b/", "a/"), ("a/x", "b/"), ("a/x", "a/b/")] {
            assert!(!may(prefix, folder), "{prefix:?} {folder:?}");
        }
    }
}
