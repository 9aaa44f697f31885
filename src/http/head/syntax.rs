//! The syntax that fields share: tokens, quoted strings and lists (RFC 9110, section 5.6).
//!
//! Pure.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

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

/// What stands behind the end of a quoted string (section 5.6.4).
pub fn skip_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some(&text[end + 1..])
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
