//! The XML of `WebDAV` (RFC 4918, section 14): what bodies ask for, and how answers are written.
//!
//! A body is short, shallow, and has no document type, so no entity of its own: another is refused. Pure, but for the
//! receiving.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use quick_xml::NsReader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;

use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::head::syntax::encoded;
use crate::http::locks::Lock;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::response::{Reply, plain};
use crate::store::Stays;

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

/// The beginning and the end of an answer about several resources.
pub const BEGIN: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
pub const END: &str = "</D:multistatus>\n";

/// An element: its namespace and name, its text, and what is in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub namespace: String,
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// The empty element of the RFC of this name.
    pub fn of_rfc(name: &str) -> Self {
        Self {
            namespace: DAV.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

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
        match (&*self.namespace, &self.name) {
            (DAV, name) => format!("<D:{name}/>"),
            (namespace, name) => format!("<{name} xmlns=\"{}\"/>", text(namespace)),
        }
    }
}

/// The root of the document that is the `body`; `None` where that is empty.
pub async fn receive(body: &mut Received<'_>) -> Result<Option<Element>, Refusal> {
    let text = body.whole(MOST).await?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let bad = "the body is no XML that this server takes: it has no document type, and is neither deep nor long";
    parse(&text).map(Some).ok_or_else(|| BAD_XML.because(bad))
}

/// The root of a document; `None` where it is malformed, or beyond the limits.
pub fn parse(text: &[u8]) -> Option<Element> {
    let text = str::from_utf8(text).ok()?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let (mut open, mut root, mut count): (Vec<Element>, _, _) = (Vec::new(), None, 0);
    loop {
        match reader.read_resolved_event().ok()? {
            (namespace, Event::Start(start)) => {
                count += 1;
                if open.len() >= MOST_DEEP || count > MOST_ELEMENTS || root.is_some() {
                    return None;
                }
                let namespace = match namespace {
                    ResolveResult::Bound(namespace) => unescape(namespace.0).ok()?.into_owned(),
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
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => root = Some(element),
                }
            }
            (_, Event::Text(text)) => add(&mut open, &text)?,
            (_, Event::CData(text)) => add(&mut open, &text)?,
            (_, Event::GeneralRef(reference)) => {
                let named = || quick_xml::escape::resolve_predefined_entity(&reference);
                let char = reference.resolve_char_ref().ok()?.map(String::from);
                add(&mut open, &char.or_else(|| named().map(str::to_owned))?)?;
            }
            (_, Event::Decl(_) | Event::Comment(_) | Event::PI(_)) => {}
            (_, Event::Eof) => return root,
            (_, Event::DocType(_) | Event::Empty(_)) => return None,
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

/// Text as an answer has it: what no document can have, and names may, is replaced (section 2.2 of XML 1.0).
pub fn text(given: &str) -> String {
    let may_be = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let is_right = |c: char| may_be(c) || matches!(c, '\t' | '\n' | '\r');
    let right = given
        .chars()
        .map(|c| if is_right(c) { c } else { '\u{fffd}' });
    escape(right.collect::<String>()).into_owned()
}

/// What an answer says of the value or folder of this name, below the `prefix` of a proxy.
pub fn response(prefix: &str, name: &str, said: &str) -> String {
    let name = encoded(name);
    format!("<D:response><D:href>{prefix}/{name}</D:href>{said}</D:response>\n")
}

/// What an answer says of `properties` that have this `status`.
pub fn propstat(status: &str, properties: &str) -> String {
    format!(
        "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    )
}

/// A lock, as an answer has it.
pub fn discovered(prefix: &str, lock: &Lock) -> String {
    let (owner, token, seconds) = (&lock.owner, &lock.token, lock.timeout.as_secs());
    let (name, depth) = (
        encoded(&lock.name),
        if lock.is_deep { "infinity" } else { "0" },
    );
    let scope = if lock.is_shared {
        "shared"
    } else {
        "exclusive"
    };
    format!(
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>\
         <D:owner>{owner}</D:owner><D:timeout>Second-{seconds}</D:timeout><D:locktoken><D:href>{token}</D:href></D:locktoken>\
         <D:lockroot><D:href>{prefix}/{name}</D:href></D:lockroot></D:activelock>"
    )
}

/// The answer with these responses.
pub fn multistatus(responses: &str) -> Reply {
    let body = Body::bytes(format!("{BEGIN}{responses}{END}"));
    reply(plain(StatusCode::MULTI_STATUS, body))
}

/// The answer to a change of a folder of which something stays: what, and why.
pub fn stayed(prefix: &str, stays: &Stays) -> Reply {
    let of_one = stays.why.iter().map(|it| {
        let why = text(&it.reason);
        let said = format!("<D:status>HTTP/1.1 409 Conflict</D:status><D:responsedescription>{why}</D:responsedescription>");
        response(prefix, &it.name, &said)
    });
    multistatus(&of_one.collect::<String>())
}

/// The answer whose body is XML.
pub fn reply(response: Response<Body>) -> Reply {
    Reply::from(response).with(|headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    })
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
        let other = parse(b"<a xmlns='b&amp;c'/>").unwrap();
        assert_eq!(other.empty(), "<a xmlns=\"b&amp;c\"/>");
        assert_eq!(super::text("a\u{1}<\n"), "a\u{fffd}&lt;\n");
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
