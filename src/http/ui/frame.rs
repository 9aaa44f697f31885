//! The frame of the page: one document with its style and scripts in it, and slots for what differs from page to page.
//!
//! The files in `ui/` are put into one document, so that nothing else has to be reachable for it. Its
//! Content-Security-Policy lets exactly these scripts and this style act, by their digests, and refuses everything else:
//! a key or an error that became markup would still do nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::http::values::encoded::gzip_tag;

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
    ("rename.js", include_str!("rename.js")),
    ("preview.js", include_str!("preview.js")),
    ("edit.js", include_str!("edit.js")),
    ("keyboard.js", include_str!("keyboard.js")),
    ("metrics.js", include_str!("metrics.js")),
    ("reactors.js", include_str!("reactors.js")),
    ("app.js", include_str!("app.js")),
];

/// The frame that every page has.
pub static FRAME: LazyLock<Frame> = LazyLock::new(Frame::assemble);

/// The document without what differs from page to page, and its Content-Security-Policy.
pub struct Frame {
    /// Text, each with the name of the slot behind it. The last has none.
    pieces: Vec<(String, &'static str)>,
    pub policy: String,
    digest: [u8; 32],
}

/// The slots of a page, as markup.
pub struct Slots {
    pub title: String,
    /// The folders that lead to this one.
    pub crumbs: String,
    pub rows: String,
    /// The link to the next page.
    pub next: String,
    /// The form for files, for those without scripts.
    pub form: String,
    /// The sentence in place of rows.
    pub empty: String,
    /// What the client may do, as the value of an attribute.
    pub rights: String,
    /// Who the client is, or how it says so, where that matters.
    pub account: String,
    pub is_root: bool,
    pub is_empty: bool,
}

impl Slots {
    /// Each slot by its name in the frame.
    fn named(&self) -> [(&'static str, &str); 10] {
        let hidden = |is_hidden| if is_hidden { " hidden" } else { "" };
        [
            ("title", &self.title),
            ("crumbs", &self.crumbs),
            ("rows", &self.rows),
            ("next", &self.next),
            ("form", &self.form),
            ("empty", &self.empty),
            ("rights", &self.rights),
            ("account", &self.account),
            ("hidden-at-root", hidden(self.is_root)),
            ("hidden-with-rows", hidden(!self.is_empty)),
        ]
    }
}

/// A page, and its entity tag.
#[derive(Debug)]
pub struct Document {
    pub html: Vec<u8>,
    pub etag: String,
    pub is_gzip: bool,
}

impl Document {
    /// The page in gzip, which is another representation of it. That takes milliseconds.
    pub fn compressed(self) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let html = encoder
            .write_all(&self.html)
            .and_then(|()| encoder.finish());
        match html {
            Ok(html) => Self {
                etag: gzip_tag(&self.etag),
                is_gzip: true,
                html,
            },
            // Writing to a Vec does not fail.
            Err(_) => self,
        }
    }
}

impl Frame {
    fn assemble() -> Self {
        let mut pieces = Vec::new();
        let mut rest = HTML;
        while let Some((text, (slot, after))) = rest
            .split_once("{{")
            .and_then(|(text, rest)| Some((text, rest.split_once("}}")?)))
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
        // The policy belongs to the version, as the document means nothing without it.
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

    /// The page with these slots. Its entity tag is of the frame and the slots.
    pub fn fill(&self, slots: &Slots) -> Document {
        let slots = slots.named();
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
            html.extend_from_slice(value.map_or("", |(_, text)| text).as_bytes());
        }
        let digest = &digest.finalize()[..12];
        Document {
            html,
            etag: format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(digest)),
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

/// These texts as the sources of a policy: by digest (CSP Level 3, section 2.3.1).
fn sources(texts: &[(&str, &str)]) -> String {
    texts.iter().fold(String::new(), |mut sources, (_, text)| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(text));
        let _ = write!(sources, " 'sha256-{digest}'"); // writing to a String cannot fail
        sources
    })
}

#[cfg(test)]
mod tests {
    use crate::http::ui::frame::*;

    fn slots() -> Slots {
        Slots {
            title: "T".into(),
            crumbs: "C".into(),
            rows: "R".into(),
            next: "N".into(),
            form: "F".into(),
            empty: "E".into(),
            rights: "M".into(),
            account: "A".into(),
            is_root: true,
            is_empty: true,
        }
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
    fn every_slot_of_the_frame_has_a_value_and_every_value_a_slot() {
        let slots = slots();
        let mut values: Vec<_> = slots.named().map(|(name, _)| name).into();
        let mut names: Vec<_> = FRAME.pieces.iter().map(|(_, slot)| *slot).collect();
        assert_eq!(names.pop(), Some(""));
        names.sort_unstable();
        values.sort_unstable();
        assert_eq!(names, values);
    }

    #[test]
    fn the_entity_tag_is_of_all_slots() {
        let tag = |change: fn(&mut Slots)| {
            let mut slots = slots();
            change(&mut slots);
            FRAME.fill(&slots).etag
        };
        let mut tags = vec![
            tag(|_| {}),
            tag(|slots| slots.title.push('x')),
            tag(|slots| slots.crumbs.push('x')),
            tag(|slots| slots.rows.push('x')),
            tag(|slots| slots.next.push('x')),
            tag(|slots| slots.form.push('x')),
            tag(|slots| slots.empty.push('x')),
            tag(|slots| slots.rights.push('x')),
            tag(|slots| slots.account.push('x')),
            tag(|slots| slots.is_root = false),
            tag(|slots| slots.is_empty = false),
            // What moves from one slot to the next.
            tag(|slots| slots.title = std::mem::take(&mut slots.crumbs)),
        ];
        assert_eq!(tags[0], FRAME.fill(&slots()).etag);
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 12);
    }
}
