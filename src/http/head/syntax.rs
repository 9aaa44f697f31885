//! The syntax that heads, fields and paths share: lines (RFC 9112), tokens, quoted strings, lists and numbers (RFC
//! 9110, section 5.6), percent-encoding (RFC 3986, section 2.1), and relative addresses, written so that no reader can
//! take a name for anything else; the errors of a head or a body that breaks them. Pure, and a leaf: it imports nothing
//! of this crate.

use crate::http::refusal::Refusal;
use crate::http::refusal::common::LATE;
use crate::http::refusal::kind::Kind;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr3;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// The longest head of a request, in bytes, with the empty lines before it.
pub const MAX_HEAD: usize = 64 << 10;

/// The end of a line.
pub const CRLF: &str = "\r\n";

/// The most fields of a head.
pub const MAX_FIELDS: usize = 100;

/// The error of a request whose bytes are invalid, or late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A line is malformed.
    #[error("the head of the request has a malformed line")]
    Line,
    /// The request is of HTTP/2, which this port does not speak.
    #[error(
        "this port speaks HTTP/1.1: HTTP/2 is spoken in the clear with --http2-clear, and over TLS"
    )]
    Http2,
    /// The length of the body is ambiguous.
    #[error("a request has one valid Content-Length, or Transfer-Encoding, or neither")]
    Length,
    /// A transfer coding other than chunked.
    #[error("the only transfer coding understood is chunked, once")]
    Coding,
    /// The head is too long, or has too many fields.
    #[error("the head of a request has at most {MAX_HEAD} bytes and {MAX_FIELDS} fields")]
    TooLarge,
    /// The head did not arrive in time.
    #[error("the request did not arrive in time")]
    Late,
    /// The framing of a chunked body is malformed.
    #[error("the chunks of the body are malformed")]
    Chunks,
}

const BAD_HEAD: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-head");
const HTTP2_OFF: &Kind = &Kind::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "http2-off");
const BAD_FRAMING: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-framing");
const TRANSFER_CODING: &Kind = &Kind::new(StatusCode::NOT_IMPLEMENTED, "transfer-coding");
const TOO_LARGE: &Kind = &Kind::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head-too-large",
);

impl From<FramingError> for Refusal {
    fn from(why: FramingError) -> Self {
        let kind = match why {
            FramingError::Line => BAD_HEAD,
            FramingError::Http2 => HTTP2_OFF,
            FramingError::Length | FramingError::Chunks => BAD_FRAMING,
            FramingError::Coding => TRANSFER_CODING,
            FramingError::TooLarge => TOO_LARGE,
            FramingError::Late => return LATE,
        };
        kind.because(why.to_string())
    }
}

/// The value of the field `name`, if there is exactly one.
pub fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    // Heads are short: reading their names costs less than the hash of one.
    let mut lines = headers.iter().filter(|(of, _)| *of == name);
    let (_, value) = lines.next()?;
    lines.next().is_none().then_some(value)
}

/// Sets a field to `text`. A text that is no field value is left out rather than fatal: the server's own texts all are.
pub fn put(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// Appends the line of a field to a head, or to a text of fields.
pub fn append_field(to: &mut Vec<u8>, name: &str, value: &HeaderValue, line_end: &str) {
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b": ");
    to.extend_from_slice(value.as_bytes());
    to.extend_from_slice(line_end.as_bytes());
}

/// True for a byte of a token (section 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// True for a token.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// True for a list of tokens with this `member`, in any case (section 5.6.1).
pub fn has_member(list: &[u8], member: &str) -> bool {
    list.split(|&byte| byte == b',')
        .any(|element| element.trim_ascii().eq_ignore_ascii_case(member.as_bytes()))
}

/// True where a line of the field `name` is such a list.
pub fn names_member(headers: &HeaderMap, name: &HeaderName, member: &str) -> bool {
    let mut lines = headers.get_all(name).iter();
    lines.any(|line| has_member(line.as_bytes(), member))
}

/// The parts of `text` between the separators that stand in no quoted string, without the white space around them.
pub fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let is_separator = move |c: char| {
        if escaped {
            escaped = false;
        } else if quoted && c == '\\' {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        }
        !quoted && c == separator
    };
    text.split(is_separator).map(str::trim_ascii)
}

/// True for `token "=" ( token / quoted-string )` (section 5.6.6).
pub fn is_parameter(part: &str) -> bool {
    let is_value = |value: &str| match value.strip_prefix('"') {
        Some(quoted) => skip_quoted(quoted) == Some(""),
        None => is_token(value),
    };
    let parameter = part.split_once('=');
    parameter.is_some_and(|(name, value)| is_token(name) && is_value(value))
}

/// The text behind the end of a quoted string (section 5.6.4).
fn skip_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some(&text[end + 1..])
}

/// The line that `bytes` begin with, without its CRLF; `None` while it is not whole.
pub fn line(bytes: &[u8]) -> Result<Option<&[u8]>, FramingError> {
    let Some(end) = memchr3(b'\r', b'\n', 0, bytes) else {
        return Ok(None);
    };
    match (bytes[end], bytes.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(&bytes[..end])),
        (b'\r', None) => Ok(None),
        _ => Err(FramingError::Line),
    }
}

/// `value` without optional white space around it (section 5.6.3).
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The number in decimal `digits`, without a sign, if hyper can count a body of that length.
pub fn number(digits: &[u8]) -> Option<u64> {
    // A sign would be parsed too.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let number = number.and_then(|digits| digits.parse().ok());
    number.filter(|&number| number <= u64::MAX - 2)
}

/// True where a `%` is not followed by two hexadecimal digits.
pub fn has_bad_escape(segment: &str) -> bool {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let mut behind = segment.split('%').skip(1).map(str::as_bytes);
    behind.any(|rest| !rest.get(..2).is_some_and(is_hex))
}

/// All but the unreserved characters (RFC 3986, section 2.3) and the `/` between segments. A `:` is among them: in the
/// first segment of a relative reference it would end a scheme (section 4.2).
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// The number of folders between the root and the address `path`.
pub fn depth(path: &str) -> usize {
    path.matches('/').count().saturating_sub(1)
}

/// The relative path to the root, `depth` folders up. Addresses in responses are relative to that of the request: a
/// proxy may serve this server below a path that it does not know (RFC 3986, section 4.2).
pub fn up(depth: usize) -> String {
    "../".repeat(depth)
}

/// The `name` of a key or a folder as it is written in a path.
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
