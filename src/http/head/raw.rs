//! The raw head of a request, before hyper parses it: where it ends, and how its body is framed.
//!
//! hyper is lenient where two recipients could disagree on the end of a request: it folds equal Content-Lengths, drops one
//! beside Transfer-Encoding, and takes a bare LF for the end of a line. A head with any of that is invalid here, and so is
//! one whose lines hold a bare CR or NUL, begin with a space (RFC 9112, section 5.2) or have one before the colon (5.1).
//! What lines say otherwise is left to hyper. Fields that clients send and this server never reads are taken out of the head:
//! a browser sends ten of them, and each would cost hyper more than the search for its end. Keeps nothing but numbers.

use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use memchr::{memchr, memchr3};

use crate::http::head::syntax::is_token_byte;

/// The longest head of a request taken, in bytes, the empty lines before it among them.
pub const MAX_HEAD: usize = 64 << 10;

/// Fields of a head at most.
pub const MAX_FIELDS: usize = 100;

/// Why a request is refused before it is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A line is malformed.
    #[error("the head of the request has a malformed line")]
    Line,
    /// It is of HTTP/2, which is not spoken there.
    #[error(
        "this port speaks HTTP/1.1: HTTP/2 is spoken in the clear with --http2-clear, and over TLS"
    )]
    Http2,
    /// The length of the body is in doubt.
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

/// Whether this is a field that clients send and nothing in this server reads. A test looks in the sources for others that name one.
fn is_unread(name: &[u8]) -> bool {
    let names: &[&[u8]] = match name.len() {
        3 => &[b"dnt", b"via"],
        6 => &[b"cookie", b"pragma"],
        7 => &[b"referer"],
        8 => &[b"priority"],
        9 => &[b"sec-ch-ua", b"x-real-ip"],
        10 => &[b"user-agent", b"tracestate"],
        14 => &[b"sec-fetch-mode", b"sec-fetch-dest", b"sec-fetch-user"],
        15 => &[b"accept-language"],
        16 => &[
            b"sec-ch-ua-mobile",
            b"x-forwarded-host",
            b"x-forwarded-port",
        ],
        17 => &[b"x-forwarded-proto"],
        18 => &[b"sec-ch-ua-platform"],
        25 => &[b"upgrade-insecure-requests"],
        _ => &[],
    };
    names.iter().any(|unread| name.eq_ignore_ascii_case(unread))
}

/// Whether an access log may tell this one all the same.
fn is_told(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"user-agent") || name.eq_ignore_ascii_case(b"referer")
}

/// How the body after a head is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    Chunked,
}

/// The bytes that were passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// So many bytes.
    pub len: usize,
    /// So many of them are kept, at their beginning.
    pub kept: usize,
}

/// A head that is being received: what its whole lines said.
#[derive(Debug, Default)]
pub struct Scan {
    /// Where the first line begins that is not whole.
    at: usize,
    /// Bytes of the whole lines that are kept, which lie at the beginning.
    kept: usize,
    /// Whole lines, those before the request line left out.
    lines: usize,
    is_1_0: bool,
    length: Option<u64>,
    chunked: bool,
}

impl Scan {
    /// Goes on in `bytes`, which begin where the head does: once it is whole, its length, how much of it is kept, and the framing
    /// of its body.
    pub fn feed(
        &mut self,
        bytes: &mut [u8],
        tells_of_client: bool,
    ) -> Result<Option<(Passed, Body)>, FramingError> {
        while let Some(line) = line(&bytes[self.at..])? {
            let whole = self.at..self.at + line.len() + 2;
            if whole.end > MAX_HEAD {
                return Err(FramingError::TooLarge);
            }
            let (is_end, is_read) = match (line, self.lines) {
                // RFC 9112, section 2.2: an empty line before a request is passed over.
                ([], lines) => (lines > 0, true),
                (line, 0) => self.request_line(line).map(|()| (false, true))?,
                (line, _) => (false, self.field(line, tells_of_client)?),
            };
            self.lines += usize::from(whole.len() > 2);
            if self.lines > MAX_FIELDS + 1 {
                return Err(FramingError::TooLarge);
            }
            self.at = whole.end;
            if is_read {
                let len = whole.len();
                if self.kept < whole.start {
                    bytes.copy_within(whole, self.kept);
                }
                self.kept += len;
            }
            if is_end {
                let (len, kept) = (self.at, self.kept);
                return Ok(Some((Passed { len, kept }, self.body()?)));
            }
        }
        if bytes.len() > MAX_HEAD {
            return Err(FramingError::TooLarge);
        }
        Ok(None)
    }

    /// RFC 9112, section 3.2: no form of the target has a fragment, and hyper would drop it. On HTTP/2 it would close without a word.
    fn request_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        if line.ends_with(b" HTTP/2.0") {
            return Err(FramingError::Http2);
        }
        self.is_1_0 = line.ends_with(b"HTTP/1.0");
        memchr(b'#', line).map_or(Ok(()), |_| Err(FramingError::Line))
    }

    /// Whether anything reads this field. hyper refuses one that is invalid.
    fn field(&mut self, line: &[u8], tells_of_client: bool) -> Result<bool, FramingError> {
        let colon = memchr(b':', line).ok_or(FramingError::Line)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if is_unread(name) && !(tells_of_client && is_told(name)) {
            return Ok(has_control(value));
        }
        if name.is_empty() || !name.iter().all(|&b| TOKEN[usize::from(b)]) {
            return Err(FramingError::Line);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(trim(value)).ok_or(FramingError::Length)?;
            if self.length.replace(length).is_some() {
                return Err(FramingError::Length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_chunked = trim(value).eq_ignore_ascii_case(b"chunked");
            if !is_chunked || std::mem::replace(&mut self.chunked, true) {
                return Err(FramingError::Coding);
            }
        }
        Ok(true)
    }

    /// RFC 9112, section 6.1: a coding beside a length, or before HTTP/1.1, is an attack or a mistake.
    fn body(&self) -> Result<Body, FramingError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(FramingError::Length),
            (true, None) if self.is_1_0 => Err(FramingError::Length),
            (true, None) => Ok(Body::Chunked),
            (false, length) => Ok(Body::Length(length.unwrap_or(0))),
        }
    }
}

/// The Accept fields of a head that is invalid: in which form its client takes errors.
pub fn accept_fields(head: &[u8]) -> HeaderMap {
    let (mut fields, mut at) = (HeaderMap::new(), 0);
    while let Ok(Some(line)) = line(&head[at..]) {
        at += line.len() + 2;
        if let Some((name, value)) = line.split_at_checked(ACCEPT.as_str().len() + 1)
            && name.eq_ignore_ascii_case(b"accept:")
            && let Ok(value) = HeaderValue::from_bytes(trim(value))
        {
            fields.append(ACCEPT, value);
        }
    }
    fields
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

/// Whether a field's value has a byte that none may have (RFC 9110, section 5.5). Looks at all of them, many at a time.
fn has_control(value: &[u8]) -> bool {
    let is_control = |b: u8| u8::from(b < b' ') & u8::from(b != b'\t') | u8::from(b == 0x7F);
    value.iter().fold(0, |has, &b| has | is_control(b)) != 0
}

/// Without optional white space around it (RFC 9110, section 5.6.3).
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Decimal digits and nothing else, of a number that a body could have and hyper can count.
pub fn number(digits: &[u8]) -> Option<u64> {
    // A sign would be parsed too.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let number = number.and_then(|digits| digits.parse().ok());
    number.filter(|&number| number <= u64::MAX - 2)
}

/// Which bytes a field's name may have.
const TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        token[byte as usize] = is_token_byte(byte);
        byte += 1;
    }
    token
};
