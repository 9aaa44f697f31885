//! Media types of values: those that are kept, those that are guessed, and the classes of types that browsers run, read
//! as text, or that are worth compressing.
//!
//! Pure. A type is text of the value's writer, who may have set it by hand, so one that is read back from a file goes
//! through [`check`] like one that arrives with a PUT. The rules look at the type alone, never at the value.

use std::borrow::Cow;

use crate::http::head::syntax::{is_parameter, split};
use crate::store::guessed_type as guess;

pub use crate::store::UNKNOWN_TYPE as UNKNOWN;

/// The type of a form without files.
const FORM: &str = "application/x-www-form-urlencoded";

/// The longest Content-Type that is kept, in bytes.
const MAX_LEN: usize = 255;

/// `content_type` as text, where it is a media type (RFC 9110, section 8.3.1) that can be kept and sent again: visible
/// ASCII and spaces, with nothing left to interpretation.
pub fn check(content_type: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content_type).ok()?.trim_matches(' ');
    let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    let (essence, parameters) = text.split_at(text.find(';').unwrap_or(text.len()));
    let (kind, subtype) = essence.trim_end_matches(' ').split_once('/')?;
    let is_good = text.len() <= MAX_LEN
        && is_plain
        && is_name(kind)
        && is_name(subtype)
        && split(parameters, ';').all(|it| it.is_empty() || is_parameter(it));
    is_good.then_some(text)
}

/// `content_type` of a PUT, if it is kept. curl sends [`FORM`] for each body without a given type, and no value is a
/// form.
pub fn kept(content_type: &[u8]) -> Option<&str> {
    check(content_type).filter(|text| !essence(text).eq_ignore_ascii_case(FORM))
}

/// The type of the value of `key`: the one that was `stored` with it, else the one that its name suggests. A guessed
/// type of text names the charset of a value that `is_utf8`: without it, browsers take text for windows-1252.
///
/// Other text gets no charset: a wrong one is worse than none, for it overrides the declaration in the text itself.
pub fn of(key: &str, stored: Option<&str>, is_utf8: bool) -> Cow<'static, str> {
    match stored.and_then(|stored| check(stored.as_bytes())) {
        Some(stored) => stored.to_owned().into(),
        None if is_utf8 && is_text(guess(key)) => format!("{}; charset=utf-8", guess(key)).into(),
        None => guess(key).into(),
    }
}

/// True where the type of the value of `key` is guessed, as none is `stored`, and is text that may need a charset.
pub fn is_guessed_text(key: &str, stored: Option<&str>) -> bool {
    is_text(guess(key)) && stored.is_none_or(|stored| check(stored.as_bytes()).is_none())
}

/// True where browsers read a value of this type as text and guess its charset. JSON is always UTF-8, and XML is unless
/// it declares another, which a charset of ours would override (RFC 7303, section 3).
fn is_text(content_type: &str) -> bool {
    const SCRIPTS: [&str; 3] = [
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
    ];
    let is_xml = content_type != "text/html" && is_active(content_type);
    (has_prefix(content_type, "text/") && !is_xml) || is_one_of(content_type, &SCRIPTS)
}

/// True where a browser that opens a value of this type may run scripts of it: HTML, all of XML, which may hold HTML or
/// SVG, and types made of parts that have types of their own.
pub fn is_active(content_type: &str) -> bool {
    const ACTIVE: [&str; 6] = [
        "text/html",
        "text/xml",
        "text/xsl",
        // Firefox reads it as XML.
        "text/rdf",
        "application/xml",
        "multipart/x-mixed-replace",
    ];
    let essence = essence(content_type);
    is_one_of(essence, &ACTIVE) || has_suffix(essence, "+xml")
}

/// True where a value of this type is likely to become smaller: text in one form or another, and formats without
/// compression.
pub fn is_compressible(content_type: &str) -> bool {
    const SUFFIXES: [&str; 5] = ["+xml", "+json", "+yaml", "+text", "+cbor"];
    const TYPES: [&str; 28] = [
        "application/cbor",
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/json5",
        "application/jsonl",
        "application/msgpack",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-tar",
        "application/x-www-form-urlencoded",
        "application/x-yaml",
        "application/xml",
        "application/xml-dtd",
        "application/yaml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/x-icon",
        "image/x-ms-bmp",
    ];
    let essence = essence(content_type);
    has_prefix(essence, "text/")
        || SUFFIXES.iter().any(|suffix| has_suffix(essence, suffix))
        || is_one_of(essence, &TYPES)
}

/// The type without its parameters.
fn essence(content_type: &str) -> &str {
    let end = content_type.find(';').unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}

fn is_one_of(essence: &str, types: &[&str]) -> bool {
    types.iter().any(|t| essence.eq_ignore_ascii_case(t))
}

/// True where `text` begins with this `prefix`, in any case.
pub fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// True where `text` ends with this `suffix`, in any case.
pub fn has_suffix(text: &str, suffix: &str) -> bool {
    let start = text.len().checked_sub(suffix.len());
    start
        .and_then(|start| text.get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// `restricted-name` of RFC 6838, section 4.2: narrower than `token`, so that no wildcard is kept.
fn is_name(text: &str) -> bool {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use crate::http::fields::media::*;
    use crate::http::head::syntax::is_token;
    use proptest::prelude::*;

    #[test]
    fn media_types_are_kept_as_sent() {
        for good in [
            "text/html",
            "text/html;charset=utf-8",
            "text/html; charset=utf-8",
            "Text/HTML;Charset=\"utf-8\"",
            "text/html ; charset=\"utf-8\" ; a=b",
            "text/plain;",
            "text/plain; ;a=b;",
            "a/b;c=\"d;e, \\\"f/g\"",
            "application/vnd.api+json",
            "application/x-www-form-urlencoded",
            "image/svg+xml",
            "1/2",
            "a/b;c=d;e=f;g=h",
            "a/b; c=*",
            &format!("a/{}", "b".repeat(253)),
        ] {
            assert_eq!(check(good.as_bytes()), Some(good), "{good}");
        }
        assert_eq!(check(b"  a/b "), Some("a/b"));
    }

    #[test]
    fn what_is_no_media_type_is_not_kept() {
        for bad in [
            "",
            ";",
            "text",
            "text/",
            "/html",
            "text//html",
            "*/*",
            "text/*",
            ".a/b",
            "te xt/html",
            "text /html",
            "text/ html",
            "text/html, text/plain",
            "text/plain; a=b, text/html",
            "text/html; charset",
            "text/html; charset=",
            "text/html; =utf-8",
            "text/html; charset =utf-8",
            "text/html; charset= utf-8",
            "text/html; charset=\"utf-8",
            "text/html; charset=\"utf-8\"x",
            "text/html; charset=\"utf-8\\\"",
            "text/html; charset=utf-8 x",
            "text/html\tx",
            "text/html;\ta=b",
            "text/html\r\nx-a: b",
            "text/html\0",
            "text/h\u{e9}ml",
            "text/html; a=\"\u{e9}\"",
            &format!("a/{}", "b".repeat(254)),
        ] {
            assert_eq!(check(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(check(b"text/html; a=\"\xff\""), None);
    }

    proptest! {
        #[test]
        fn well_formed_types_are_kept(
            kind in "[a-z0-9][a-zA-Z0-9.+-]{0,10}",
            subtype in "[a-z0-9][a-zA-Z0-9.+-]{0,20}",
            parameters in r#"( ?; ?[a-z*]{1,8}=([!#-'*+.0-9a-z-]{1,10}|"([ !#-\[\]-~]|\\[ -~]){0,10}"))?"#,
        ) {
            let text = format!("{kind}/{subtype}{parameters}");
            prop_assert_eq!(check(text.as_bytes()), Some(text.as_str()));
        }

        #[test]
        fn what_is_kept_can_be_sent_and_is_read_the_same_again(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(text) = check(&bytes) {
                prop_assert!(hyper::header::HeaderValue::from_str(text).is_ok());
                prop_assert_eq!(check(text.as_bytes()), Some(text));
            }
        }

        #[test]
        fn a_type_of_printable_text_never_panics(text in "([a-z]{1,3}/[a-z]{1,3})?[ -~]{0,40}") {
            if let Some(kept) = check(text.as_bytes()) {
                prop_assert!(hyper::header::HeaderValue::from_str(kept).is_ok());
                prop_assert!(is_token(essence(kept).split('/').next().unwrap_or_default()));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            is_active(&text);
            is_compressible(&text);
            prop_assert!(check(guess(&text).as_bytes()).is_some());
        }
    }
}
