//! The framing of a connection: where each request begins and ends, from the first byte that a client sends to its
//! last.
//!
//! Promises that no request can be smuggled in a body, and that no request behind an error is seen. hyper is lenient
//! where two recipients could disagree on the end of a request: it folds equal Content-Lengths, drops one beside
//! Transfer-Encoding, and takes a bare LF for the end of a line. All of that is invalid here, and so is a line with a
//! bare CR or NUL, with a space at its beginning (RFC 9112, section 5.2) or before the colon (5.1). hyper, which parses
//! the bytes after it, then sees the same message boundaries. Fields that clients send and this server never reads are
//! taken out of the head, and so are those that say no more than their absence: a browser sends twelve of them, and
//! each costs hyper more than the search for its end. The head of an upload whose body the connection receives itself
//! is not for hyper: it is held back. Reads no byte of a body's data.

use std::ops::Range;

use hyper::Request;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use memchr::memchr;

use crate::failpoint;
use crate::http::head::chunks::{Chunks, at_hand};
use crate::http::head::syntax::{
    FramingError, MAX_FIELDS, MAX_HEAD, is_token_byte, line, number, trim,
};
use crate::http::head::unread::{OptionalFields, has_control};

/// The framing of one connection, from the first byte of a request on.
#[derive(Debug, Default)]
pub struct Framing {
    section: Section,
    /// The number of whole heads that were passed.
    pub heads: u64,
    optional: OptionalFields,
    holds_uploads: bool,
}

#[derive(Debug)]
enum Section {
    Head(Scan),
    Data(u64),
    Chunks(Chunks),
}

impl Default for Section {
    fn default() -> Self {
        Self::Head(Scan::default())
    }
}

impl Section {
    /// A body of which `left` bytes are to come, or the head behind it.
    fn data(left: u64) -> Self {
        match left {
            0 => Self::default(),
            left => Self::Data(left),
        }
    }
}

impl Framing {
    /// The framing of a new connection, whose long uploads are held back, and whose `optional` fields are kept.
    pub fn new(optional: OptionalFields) -> Self {
        Self {
            optional,
            holds_uploads: failpoint::takes_over(),
            ..Self::default()
        }
    }

    /// Follows the framing through `bytes`, and moves the bytes that are kept to their beginning. Bytes that were not
    /// passed are the beginning of a head, or of a line of a chunked body: they come again, with more behind them, at
    /// the next call. Behind a [`StopReason`] there is none.
    pub fn feed(&mut self, bytes: &mut [u8]) -> Fed {
        let mut fed = Fed::default();
        while fed.stop.is_none() {
            match self.pass(&mut bytes[fed.at..]) {
                Ok(Passed { len: 0, .. }) => break,
                Ok(passed) => {
                    if fed.kept < fed.at {
                        bytes.copy_within(fed.at..fed.at + passed.kept, fed.kept);
                    }
                    fed.kept += passed.kept;
                    fed.at += passed.len;
                    if self.holds_uploads && passed.is_long_upload {
                        fed.stop = Some(StopReason::Upload);
                    } else {
                        fed.passed = fed.kept;
                    }
                }
                Err(error) => fed.stop = Some(StopReason::Error(error)),
            }
        }
        fed
    }

    /// Passes one head, or the bytes that there are of one body; none where there is neither.
    pub fn pass(&mut self, bytes: &mut [u8]) -> Result<Passed, FramingError> {
        let len = match &mut self.section {
            Section::Head(scan) => {
                let Some((passed, body)) = scan.feed(bytes, self.optional)? else {
                    return Ok(Passed::default());
                };
                self.section = body;
                self.heads += 1;
                return Ok(passed);
            }
            Section::Data(left) => {
                let len = at_hand(*left, bytes.len());
                self.section = Section::data(*left - len as u64);
                len
            }
            Section::Chunks(chunks) => {
                let (len, ended) = chunks.feed(bytes)?;
                if ended {
                    self.section = Section::default();
                }
                len
            }
        };
        Ok(Passed {
            len,
            kept: len,
            is_long_upload: false,
        })
    }
}

/// The bytes that were passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Their number.
    pub len: usize,
    /// The number of bytes that are kept of them, at their beginning.
    pub kept: usize,
    /// They are the head of an upload whose body the connection takes from its socket.
    pub is_long_upload: bool,
}

/// The outcome of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// The number of bytes for hyper, which lie at the beginning.
    pub passed: usize,
    /// The number of these and of the head of an upload behind them.
    pub kept: usize,
    /// Where the bytes begin that were not passed.
    pub at: usize,
    /// Why no byte behind these is for hyper.
    pub stop: Option<StopReason>,
}

/// The end of what hyper may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The head of a long upload.
    Upload,
    /// An error.
    Error(FramingError),
}

/// The field by which a client says that it understands an interim response to its upload
/// (draft-ietf-httpbis-resumable-upload).
const INTEROP_VERSION: &[u8] = b"upload-draft-interop-version";

/// The shortest body of an upload that is taken from the socket, in bytes: for shorter ones it costs more than it
/// saves.
const LONG_UPLOAD: u64 = 256 << 10;

/// The lines of Accept in a head.
#[derive(Debug, Default)]
enum Accept {
    #[default]
    None,
    /// One line, kept at this place, that takes anything: as if there was none.
    Anything(Range<usize>),
    /// Others.
    Some,
}

/// A head that is being received, with the facts of its whole lines.
#[derive(Debug, Default)]
struct Scan {
    /// The place of the first line that is not whole.
    at: usize,
    /// Bytes of the whole lines that are kept, which lie at the beginning.
    kept: usize,
    /// Whole lines, without those before the request line.
    lines: usize,
    is_1_0: bool,
    is_upload: bool,
    /// The client wants an interim response before the body has arrived, of which hyper sends none but 100.
    wants_interim: bool,
    accept: Accept,
    length: Option<u64>,
    chunked: bool,
}

impl Scan {
    /// Reads on in `bytes`, which begin where the head does. Returns the passed head and the framing of its body once
    /// the head is whole.
    fn feed(
        &mut self,
        bytes: &mut [u8],
        optional: OptionalFields,
    ) -> Result<Option<(Passed, Section)>, FramingError> {
        while let Some(line) = line(&bytes[self.at..])? {
            let whole = self.at..self.at + line.len() + 2;
            if whole.end > MAX_HEAD {
                return Err(FramingError::TooLarge);
            }
            let (is_end, is_read) = match (line, self.lines) {
                // RFC 9112, section 2.2: an empty line before a request is passed over.
                ([], lines) => (lines > 0, true),
                (line, 0) => self.request_line(line).map(|()| (false, true))?,
                (line, _) => (false, self.field(line, optional)?),
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
                if let Accept::Anything(line) = &self.accept {
                    bytes.copy_within(line.end..self.kept, line.start);
                    self.kept -= line.len();
                }
                let passed = Passed {
                    len: self.at,
                    kept: self.kept,
                    is_long_upload: self.is_long_upload(),
                };
                return Ok(Some((passed, self.body()?)));
            }
        }
        if bytes.len() > MAX_HEAD {
            return Err(FramingError::TooLarge);
        }
        Ok(None)
    }

    /// RFC 9112, section 3.2: no form of the target has a fragment, and hyper would drop it. On HTTP/2 it would close
    /// without a word.
    fn request_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        if line.ends_with(b" HTTP/2.0") {
            return Err(FramingError::Http2);
        }
        self.is_1_0 = line.ends_with(b"HTTP/1.0");
        self.is_upload = line.starts_with(b"PUT ") || line.starts_with(b"PATCH ");
        memchr(b'#', line).map_or(Ok(()), |_| Err(FramingError::Line))
    }

    /// Checks a field; false where it is taken out of the head. hyper refuses one that is invalid.
    fn field(&mut self, line: &[u8], optional: OptionalFields) -> Result<bool, FramingError> {
        let colon = memchr(b':', line).ok_or(FramingError::Line)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let (lower, len) = lower_case(name);
        let known = &lower[..len];
        if optional.are_without(known) {
            return Ok(has_control(value));
        }
        if name.is_empty() || !name.iter().all(|&b| TOKEN[usize::from(b)]) {
            return Err(FramingError::Line);
        }
        match known {
            b"content-length" => {
                let length = number(trim(value)).ok_or(FramingError::Length)?;
                if self.length.replace(length).is_some() {
                    return Err(FramingError::Length);
                }
            }
            b"transfer-encoding" => {
                let is_chunked = trim(value).eq_ignore_ascii_case(b"chunked");
                if !is_chunked || std::mem::replace(&mut self.chunked, true) {
                    return Err(FramingError::Coding);
                }
            }
            // RFC 9112, section 9.3: connections of HTTP/1.1 persist by themselves.
            b"connection" if !self.is_1_0 => {
                return Ok(!trim(value).eq_ignore_ascii_case(b"keep-alive"));
            }
            // RFC 9110, section 12.5.1: a client without Accept takes anything.
            b"accept" => {
                let place = self.kept..self.kept + line.len() + 2;
                self.accept = match self.accept {
                    Accept::None if trim(value) == b"*/*" => Accept::Anything(place),
                    _ => Accept::Some,
                };
            }
            INTEROP_VERSION => self.wants_interim = true,
            _ => {}
        }
        Ok(true)
    }

    fn is_long_upload(&self) -> bool {
        let is_long = |len| len >= LONG_UPLOAD || (len > 0 && self.wants_interim);
        self.is_upload && !self.is_1_0 && self.length.is_some_and(is_long)
    }

    /// RFC 9112, section 6.1: a coding beside a length, or before HTTP/1.1, is an attack or a mistake.
    fn body(&self) -> Result<Section, FramingError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(FramingError::Length),
            (true, None) if self.is_1_0 => Err(FramingError::Length),
            (true, None) => Ok(Section::Chunks(Chunks::Size)),
            (false, length) => Ok(Section::data(length.unwrap_or(0))),
        }
    }
}

/// The request whose head `bytes` begin with, which was passed, and the length of that head.
pub fn request(bytes: &[u8]) -> Result<(Request<()>, usize), FramingError> {
    let mut at = 0;
    let mut next = || {
        let line = line(&bytes[at..])?.ok_or(FramingError::Line)?;
        at += line.len() + 2;
        Ok(line)
    };
    let mut first = next()?;
    while first.is_empty() {
        first = next()?;
    }
    let words: Vec<_> = first.splitn(4, |&byte| byte == b' ').collect();
    let [method, target, b"HTTP/1.1"] = *words else {
        return Err(FramingError::Line);
    };
    let mut request = Request::builder().method(method).uri(target);
    loop {
        let line = next()?;
        if line.is_empty() {
            let request = request.body(()).map_err(|_| FramingError::Line)?;
            return Ok((request, at));
        }
        let colon = memchr(b':', line).ok_or(FramingError::Line)?;
        request = request.header(&line[..colon], trim(&line[colon + 1..]));
    }
}

/// The Accept fields of a head that is invalid, which say in which form its client takes errors.
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

/// `name` in lower case, and its length; of a longer name, which has no meaning here, the beginning. The bit makes
/// capital letters small, and no other byte of a line a letter or a hyphen. Inlined, it is taken apart into single
/// bytes.
#[inline(never)]
fn lower_case(name: &[u8]) -> ([u8; 32], usize) {
    let mut lower = [0; 32];
    let len = name.len().min(lower.len());
    lower[..len].copy_from_slice(&name[..len]);
    (lower.map(|byte| byte | 0x20), len)
}

/// The bytes that a field's name may have.
const TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        token[byte as usize] = is_token_byte(byte);
        byte += 1;
    }
    token
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_long_upload_is_held_back_and_is_its_request() {
        let before = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
        let long = format!("Content-Length: {LONG_UPLOAD}\r\n");
        let awaits = "content-length: 1\r\nUpload-Draft-Interop-Version: 8\r\n";
        for (begin, fields, is_held) in [
            ("PUT /a%20b?c HTTP/1.1", &*long, true),
            ("PATCH /a%20b?c HTTP/1.1", &long, true),
            ("PUT /a%20b?c HTTP/1.1", awaits, true),
            ("PUT /a%20b?c HTTP/1.0", &long, false),
            ("GET /a%20b?c HTTP/1.1", &long, false),
            ("PUT / HTTP/1.1", "Content-Length: 262143\r\n", false),
            ("PUT / HTTP/1.1", "Transfer-Encoding: chunked\r\n", false),
        ] {
            let head = format!("{begin}\r\nCookie: no\r\nHost:  t \r\n{fields}\r\n");
            let mut bytes = [before, &head, "body"].concat().into_bytes();
            let fed = Framing::new(OptionalFields::default()).feed(&mut bytes);
            assert_eq!(fed.stop == Some(StopReason::Upload), is_held, "{head}");
            if is_held {
                assert_eq!(&bytes[..fed.passed], before.as_bytes());
                assert_eq!(&bytes[fed.at..], b"body");
                let kept = &bytes[fed.passed..fed.kept];
                let (request, len) = request(kept).expect("a request");
                assert_eq!(len, kept.len());
                assert_eq!(request.uri(), "/a%20b?c");
                assert_eq!(request.headers()["host"], "t");
                assert!(!request.headers().contains_key("cookie"));
            }
        }
    }

    #[test]
    fn a_field_that_says_no_more_than_its_absence_is_taken_out() {
        let whole = |fields: &str, version| format!("GET / HTTP/1.{version}|{fields}|");
        for (version, fields, kept) in [
            (1, "Accept: */*|", ""),
            (1, "Via: a|ACCEPT:*/* |Host: t|", "Host: t|"),
            (1, "Accept: */*|Accept: a/b|", "Accept: */*|Accept: a/b|"),
            (1, "Accept: a/b|Accept: */*|", "Accept: a/b|Accept: */*|"),
            (1, "Accept: */*|accept: */*|", "Accept: */*|accept: */*|"),
            (1, "Accept: */*;q=0.1|", "Accept: */*;q=0.1|"),
            (1, "Connection: Keep-Alive|Host: t|", "Host: t|"),
            (
                1,
                "Connection: keep-alive, a|",
                "Connection: keep-alive, a|",
            ),
            (0, "Connection: keep-alive|", "Connection: keep-alive|"),
            (1, "Forwarded: for=a|X-Forwarded-For: a|traceparent: b|", ""),
            (1, "DNT: \x7f|", "DNT: \x7f|"),
            (
                1,
                "User-Agent: 16 bytes and a \x01|A: b|",
                "User-Agent: 16 bytes and a \x01|A: b|",
            ),
        ] {
            let [sent, kept] = [fields, kept].map(|f| whole(f, version).replace('|', "\r\n"));
            for cut in 0..sent.len() {
                let (mut framing, mut bytes) = (Framing::default(), sent.clone().into_bytes());
                assert_eq!(framing.pass(&mut bytes[..cut]), Ok(Passed::default()));
                let passed = framing.pass(&mut bytes).expect("a head");
                assert_eq!(passed.len, sent.len());
                let found = str::from_utf8(&bytes[..passed.kept]);
                assert_eq!(found, Ok(&*kept), "{fields}");
            }
        }
    }

    #[test]
    fn a_request_that_is_none_is_refused() {
        for head in [
            "PUT / HTTP/1.2\r\n\r\n",
            "PUT  / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1 \r\n\r\n",
            "PUT /\x7f HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nA: \x01\r\n\r\n",
            "P(T / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\n",
        ] {
            assert!(request(head.as_bytes()).is_err(), "{head:?}");
        }
    }
}
