//! The raw head of a request, before hyper parses it: where it ends, and how its body is framed.
//!
//! hyper is lenient where two recipients could disagree on the end of a request: it folds equal Content-Lengths, drops one
//! beside Transfer-Encoding, and takes a bare LF for the end of a line. A head with any of that is invalid here, and so is
//! one whose lines hold a bare CR or NUL, begin with a space (RFC 9112, section 5.2) or have one before the colon (5.1).
//! What lines say otherwise is left to hyper. Costs one search per line, and keeps nothing but numbers.

use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use memchr::{memchr, memchr3};

use crate::http::semantics::syntax::is_token_byte;

/// The longest head of a request taken, in bytes, the empty lines before it among them.
pub const MAX_HEAD: usize = 64 << 10;

/// Fields of a head at most.
pub(in crate::http) const MAX_FIELDS: usize = 100;

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

/// How the body after a head is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Body {
    /// So many bytes.
    Length(u64),
    Chunked,
}

/// A head that is being received: what its whole lines said.
#[derive(Debug, Default)]
pub(in crate::http) struct Scan {
    /// Where the first line begins that is not whole.
    at: usize,
    /// Whole lines, those before the request line left out.
    lines: usize,
    is_1_0: bool,
    length: Option<u64>,
    chunked: bool,
}

impl Scan {
    /// Goes on in `bytes`, which begin where the head does: its length and the framing of its body once it is whole.
    pub(in crate::http) fn go_on(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(usize, Body)>, FramingError> {
        while let Some(line) = line(&bytes[self.at..])? {
            self.at += line.len() + 2;
            if self.at > MAX_HEAD {
                return Err(FramingError::TooLarge);
            }
            match (line, self.lines) {
                // RFC 9112, section 2.2: an empty line before a request is passed over.
                ([], 0) => continue,
                ([], _) => return Ok(Some((self.at, self.body()?))),
                (line, 0) => self.request_line(line)?,
                (line, _) => self.field(line)?,
            }
            self.lines += 1;
            if self.lines > MAX_FIELDS + 1 {
                return Err(FramingError::TooLarge);
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

    fn field(&mut self, line: &[u8]) -> Result<(), FramingError> {
        let name = line.iter().take_while(|&&b| TOKEN[usize::from(b)]).count();
        if name == 0 || line.get(name) != Some(&b':') {
            return Err(FramingError::Line);
        }
        let (name, value) = (&line[..name], &line[name + 1..]);
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
        Ok(())
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
pub(in crate::http) fn accept_fields(head: &[u8]) -> HeaderMap {
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
pub(in crate::http) fn line(bytes: &[u8]) -> Result<Option<&[u8]>, FramingError> {
    let Some(end) = memchr3(b'\r', b'\n', 0, bytes) else {
        return Ok(None);
    };
    match (bytes[end], bytes.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(&bytes[..end])),
        (b'\r', None) => Ok(None),
        _ => Err(FramingError::Line),
    }
}

/// Without optional white space around it (RFC 9110, section 5.6.3).
pub(in crate::http) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Decimal digits and nothing else, of a number that a body could have and hyper can count.
pub(in crate::http) fn number(digits: &[u8]) -> Option<u64> {
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
