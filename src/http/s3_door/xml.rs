//! Documents of S3: how answers are written, and what the bodies of requests ask for.

use std::fmt::Write as _;
use std::time::SystemTime;

use humantime::format_rfc3339_millis;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;

use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::response::{Reply, plain, with};
use crate::http::s3_door::payload::Payload;
use crate::http::values::digest_fields::{AMZ_CHECKSUM, checksum_type, checksums};

pub const BAD_XML: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "bad-xml"),
    "the body is no document that this operation takes",
);

pub const MEDIA_TYPE: &str = "application/xml";

pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The longest body: the keys of one request, or the parts of an upload, each with its checksums.
const MOST: usize = 4 << 20;

/// The longest body that a reactor reads itself.
const READ_AT_ONCE: usize = 64 << 10;

/// A document, as it is written.
pub struct Document {
    text: String,
    root: &'static str,
}

impl Document {
    /// A document with this root.
    pub fn new(root: &'static str) -> Self {
        Self {
            text: format!("{DECLARATION}<{root} xmlns=\"{NAMESPACE}\">"),
            root,
        }
    }

    /// The document of an error, which has no namespace.
    pub fn of_error() -> Self {
        let (root, text) = ("Error", format!("{DECLARATION}<Error>"));
        Self { text, root }
    }

    /// Elements that are a part of a document.
    pub fn part() -> Self {
        Self {
            text: String::new(),
            root: "",
        }
    }

    /// Adds elements that are written already.
    pub fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds an element with this text.
    pub fn add(&mut self, name: &str, value: &str) {
        self.begin(name);
        escape(&mut self.text, value);
        self.close(name);
    }

    /// Adds an element with a number, or what else needs no escape.
    pub fn show(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.text, "<{name}>{value}</{name}>"); // cannot fail
    }

    /// Adds a time.
    pub fn date(&mut self, name: &str, time: SystemTime) {
        self.show(name, format_rfc3339_millis(time));
    }

    /// Adds an element with what `inner` adds.
    pub fn within(&mut self, name: &str, inner: impl FnOnce(&mut Self)) {
        self.begin(name);
        inner(self);
        self.close(name);
    }

    /// Begins an element, which [`Document::close`] ends.
    pub fn begin(&mut self, name: &str) {
        self.text.extend(["<", name, ">"]);
    }

    pub fn close(&mut self, name: &str) {
        self.text.extend(["</", name, ">"]);
    }

    pub fn end(mut self) -> String {
        if !self.root.is_empty() {
            self.text.extend(["</", self.root, ">\n"]);
        }
        self.text
    }

    /// The answer with it.
    pub fn answer(self) -> Reply {
        answered(Body::bytes(self.end()))
    }
}

/// Adds the checksums of an object.
pub fn add_checksums(text: &mut Document, fields: &HeaderMap) {
    for (name, value) in checksums(fields) {
        let kind = name.as_str().trim_start_matches(AMZ_CHECKSUM);
        let sum = value.to_str().unwrap_or_default();
        text.add(&format!("Checksum{}", kind.to_ascii_uppercase()), sum);
        text.show("ChecksumType", checksum_type(value));
    }
}

/// The answer with a document that is this body.
pub fn answered(body: Body) -> Reply {
    let response = with(plain(StatusCode::OK, body), |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    });
    response.into()
}

/// Adds `value` as text. What XML cannot hold is written as S3 does, as a character reference.
fn escape(text: &mut String, value: &str) {
    for char in value.chars() {
        match char {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            char if char < ' ' || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(text, "&#{};", u32::from(char)); // cannot fail
            }
            char => text.push(char),
        }
    }
}

/// What the document that is the `body` says.
pub async fn receive<T: DeserializeOwned + Send + 'static>(
    request: &RequestContext,
    payload: Payload,
    body: &mut Received<'_>,
) -> Result<T, Refusal> {
    let text = payload.read(request, body, MOST).await?;
    if text.len() <= READ_AT_ONCE {
        return parse(&text).ok_or(BAD_XML);
    }
    let compute = request.service.store.compute();
    let parsed = compute.spawn(move || Ok(parse(&text))).await?;
    parsed.ok_or(BAD_XML)
}

/// What a document says; `None` where it is malformed, or has a document type.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let text = str::from_utf8(text).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    (!text.contains("<!DOCTYPE")).then(|| quick_xml::de::from_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in "[\u{20}-\u{7e}é\u{1f600}]{0,30}") {
            #[derive(serde::Deserialize)]
            struct Said {
                #[serde(rename = "Key")]
                key: String,
            }
            let mut document = Document::new("Said");
            document.add("Key", &value);
            let said: Said = parse(document.end().as_bytes()).unwrap();
            prop_assert_eq!(said.key.trim(), value.trim());
        }

        #[test]
        fn nothing_panics(text in "(<|>|/|Key|Object|:|&|;|!|\\[|-|\"| |#1){0,40}") {
            let _ = parse::<std::collections::BTreeMap<String, String>>(text.as_bytes());
        }
    }
}
