//! The syntax that fields and paths share: tokens, quoted strings and lists (RFC 9110, section 5.6), percent-encoding (RFC 3986,
//! section 2.1), and addresses, written so that no reader can take a name for anything else. Pure.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// The value of a field that stands there once.
pub fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Whether `byte` may stand in a token (section 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// Whether `text` is a token.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Whether a list of tokens has this `member`, in any case (section 5.6.1).
pub fn has_member(list: &[u8], member: &str) -> bool {
    list.split(|&byte| byte == b',')
        .any(|element| element.trim_ascii().eq_ignore_ascii_case(member.as_bytes()))
}

/// The text behind the end of a quoted string (section 5.6.4).
pub fn skip_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some(&text[end + 1..])
}

/// Whether a `%` is not followed by two hexadecimal digits.
pub fn has_bad_escape(segment: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = segment.as_bytes();
    let bad = |(i, &b): (usize, &u8)| {
        b == b'%' && !(is_hex(bytes.get(i + 1)) && is_hex(bytes.get(i + 2)))
    };
    bytes.iter().enumerate().any(bad)
}

/// All but the unreserved characters (RFC 3986, section 2.3) and the `/` between segments. A `:` is among them: in the first
/// segment of a relative reference it would end a scheme (section 4.2).
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// How far below the root the address `path` is.
pub fn depth(path: &str) -> usize {
    path.matches('/').count().saturating_sub(1)
}

/// The relative path to the root from that far below. Addresses that the server tells are relative to that of the request, as it may
/// be below a path of a proxy, which it does not know (RFC 3986, section 4.2).
pub fn up(depth: usize) -> String {
    "../".repeat(depth)
}

/// `name`, of a key or a folder, as it stands in a path.
pub fn encoded(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, ALL_BUT_UNRESERVED)
}

#[cfg(test)]
mod tests {
    use crate::http::head::syntax::*;

    #[test]
    fn a_token_has_the_bytes_of_the_rfc_and_no_others() {
        let punctuation = b"!#$%&'*+-.^_`|~";
        for byte in 0..=u8::MAX {
            let is_of_rfc = byte.is_ascii_alphanumeric() || punctuation.contains(&byte);
            assert_eq!(is_token_byte(byte), is_of_rfc, "{byte:#x}");
        }
        assert!(!is_token(""));
    }

    #[test]
    fn a_list_has_its_members_in_any_case_and_no_parts_of_them() {
        for (list, expected) in [
            ("close", true),
            ("keep-alive, Close", true),
            ("\tCLOSE\t,", true),
            ("", false),
            ("closed", false),
            ("not close", false),
        ] {
            assert_eq!(has_member(list.as_bytes(), "close"), expected, "{list:?}");
        }
    }
}
