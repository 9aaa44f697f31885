//! The XML of `WebDAV` (RFC 4918, section 14): what bodies ask for, and how answers are written.
//!
//! A body is short, shallow, and has no document type, so no entity of its own: another is refused. Pure, but for the
//! receiving.

use hyper::StatusCode;
use quick_xml::NsReader;
use quick_xml::escape::escape;
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;

use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::refusal::kind::Kind;

const BAD_XML: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-xml");

/// The longest body, in bytes.
const MOST: usize = 64 << 10;

/// The most elements of a body, and how deep they may be.
const MOST_ELEMENTS: usize = 500;
const MOST_DEEP: usize = 10;

/// The longest text of an element that is kept, in bytes.
const MOST_TEXT: usize = 1 << 10;

const DAV: &str = "DAV:";

pub const MEDIA_TYPE: &str = "application/xml; charset=utf-8";

/// An element: its namespace and name, its text, and what is in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub namespace: String,
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// True for an element of the RFC of this name.
    pub fn is(&self, name: &str) -> bool {
        self.namespace == DAV && self.name == name
    }

    /// The first element of the RFC of this name in this one.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.is(name))
    }

    /// The element without its content, as it stands in an answer.
    pub fn empty(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        match &**namespace {
            DAV => format!("<D:{name}/>"),
            namespace => format!("<{name} xmlns=\"{}\"/>", escape(namespace)),
        }
    }
}

/// The root of the document that is the `body`; `None` where that is empty.
pub async fn receive(body: &mut Received<'_>) -> Result<Option<Element>, Refusal> {
    let mut text = Vec::new();
    while let Some(bytes) = body.next().await? {
        if text.len() + bytes.len() > MOST {
            return Err(too_large(MOST as u64));
        }
        text.extend_from_slice(&bytes);
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let root = parse(&text);
    let bad = || {
        BAD_XML.because("the body is no XML that this server takes: it has no document type, and is neither deep nor long")
    };
    root.map(Some).ok_or_else(bad)
}

/// The root of a document; `None` where it is malformed, or beyond the limits.
pub fn parse(text: &[u8]) -> Option<Element> {
    let text = str::from_utf8(text).ok()?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let (mut open, mut count): (Vec<Element>, usize) = (Vec::new(), 0);
    loop {
        match reader.read_resolved_event().ok()? {
            (namespace, Event::Start(start)) => {
                count += 1;
                if open.len() >= MOST_DEEP || count > MOST_ELEMENTS {
                    return None;
                }
                let namespace = match namespace {
                    ResolveResult::Bound(namespace) => namespace.0.to_owned(),
                    ResolveResult::Unbound => String::new(),
                    ResolveResult::Unknown(_) => return None,
                };
                let name = start.local_name().into_inner().to_owned();
                // Attributes are not used, and must be well formed all the same.
                if start.attributes().any(|it| it.is_err()) || !is_name(&name) {
                    return None;
                }
                open.push(Element {
                    namespace,
                    name,
                    ..Element::default()
                });
            }
            (_, Event::End(_)) => {
                let element = open.pop()?;
                let Some(parent) = open.last_mut() else {
                    return ends(&mut reader).then_some(element);
                };
                parent.children.push(element);
            }
            (_, Event::Text(text)) => add(&mut open, &text)?,
            (_, Event::CData(text)) => add(&mut open, &text)?,
            (_, Event::GeneralRef(reference)) => {
                let named = || quick_xml::escape::resolve_predefined_entity(&reference);
                let char = reference.resolve_char_ref().ok()?.map(String::from);
                add(&mut open, &char.or_else(|| named().map(str::to_owned))?)?;
            }
            (_, Event::Decl(_) | Event::Comment(_) | Event::PI(_)) => {}
            (_, Event::DocType(_) | Event::Eof | Event::Empty(_)) => return None,
        }
    }
}

/// True where nothing stands behind the root.
fn ends(reader: &mut NsReader<&[u8]>) -> bool {
    loop {
        match reader.read_event() {
            Ok(Event::Eof) => return true,
            Ok(Event::Comment(_) | Event::PI(_)) => {}
            Ok(Event::Text(text)) if text.trim().is_empty() => {}
            _ => return false,
        }
    }
}

/// Adds text to the innermost open element; only white space stands outside of all.
fn add(open: &mut [Element], text: &str) -> Option<()> {
    match open.last_mut() {
        Some(element) if element.text.len() + text.len() <= MOST_TEXT => element.text += text,
        None if text.trim().is_empty() => {}
        _ => return None,
    }
    Some(())
}

/// True for a name that can be written into an answer as it is.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_alphabetic() || c == '_';
    let is_part = |c: char| is_letter(c) || c.is_numeric() || matches!(c, '-' | '.');
    name.starts_with(is_letter) && name.chars().all(is_part)
}

/// The beginning and the end of an answer about several resources.
pub const BEGIN: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
pub const END: &str = "</D:multistatus>\n";

/// The statuses of properties.
pub const OK: &str = "200 OK";
pub const FORBIDDEN: &str = "403 Forbidden";
pub const NOT_FOUND: &str = "404 Not Found";

/// Adds what an answer says of the resource at `href`: its properties, those of each status together.
pub fn write_response(to: &mut String, href: &str, found: &[(&str, String)]) {
    to.push_str("<D:response><D:href>");
    to.push_str(&escape(href));
    to.push_str("</D:href>");
    for (status, properties) in found {
        to.push_str("<D:propstat><D:prop>");
        to.push_str(properties);
        to.push_str("</D:prop><D:status>HTTP/1.1 ");
        to.push_str(status);
        to.push_str("</D:status></D:propstat>");
    }
    to.push_str("</D:response>\n");
}

/// Adds that the resource at `href` stays, and why.
pub fn write_failure(to: &mut String, href: &str, why: &str) {
    let (href, why) = (escape(href), escape(why));
    to.extend([
        "<D:response><D:href>",
        &*href,
        "</D:href><D:status>HTTP/1.1 409 Conflict</D:status><D:responsedescription>",
        &*why,
        "</D:responsedescription></D:response>\n",
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_is_read_with_its_namespaces() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><size xmlns=\"http://a/\">&lt;&#65;</size></D:prop></D:propfind>\n";
        let root = parse(text.as_bytes()).unwrap();
        let prop = root.child("prop").unwrap();
        assert!(root.is("propfind") && prop.children[0].is("getetag"));
        let other = &prop.children[1];
        assert_eq!((&*other.namespace, &*other.text), ("http://a/", "<A"));
        assert_eq!(other.empty(), "<size xmlns=\"http://a/\"/>");
    }

    #[test]
    fn what_is_no_document_or_beyond_the_limits_is_refused() {
        let deep = "<a>".repeat(MOST_DEEP + 1) + &"</a>".repeat(MOST_DEEP + 1);
        let many = format!("<a>{}</a>", "<b/>".repeat(MOST_ELEMENTS));
        let long = format!("<a>{}</a>", "x".repeat(MOST_TEXT + 1));
        for text in [
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "<a>&b;</a>",
            "<a><b></a>",
            "<a/><b/>",
            "<a",
            "a",
            "<D:a/>",
            "<a b/>",
            &deep,
            &many,
            &long,
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[ -~é]{0,80}", wild in "(<|>|/|a|:|&|;|!|\\[|\\]|-|\"| |xmlns=){0,40}") {
            parse(text.as_bytes());
            parse(wild.as_bytes());
        }
    }
}
