//! The framing of a connection: where each request begins and ends, from the first byte that a client sends to its last.
//!
//! Promises that no request can be smuggled in a body, and that no request behind an error is seen. hyper is lenient where two
//! recipients could disagree on the end of a request: it folds equal Content-Lengths, drops one beside Transfer-Encoding, and takes a
//! bare LF for the end of a line. All of that is invalid here, and so is a line with a bare CR or NUL, with a space at its beginning
//! (RFC 9112, section 5.2) or before the colon (5.1). hyper, which parses the bytes after it, then sees the same message boundaries.
//! Fields that clients send and this server never reads are taken out of the head: a browser sends ten of them, and each costs hyper
//! more than the search for its end. The head of an upload whose body the connection receives itself is not for hyper: it is held
//! back. Reads no byte of a body's data.

use hyper::Request;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use memchr::memchr;

use crate::failpoint;
use crate::http::head::chunks::{Chunks, at_hand};
use crate::http::head::syntax::{
    FramingError, MAX_FIELDS, MAX_HEAD, is_token_byte, line, number, trim,
};

/// The framing of one connection, from the first byte of a request on.
#[derive(Debug, Default)]
pub struct Framing {
    section: Section,
    heads: u64,
    /// A log has the client's program, and the page that led to a request.
    keeps_client_fields: bool,
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
    /// The framing of a new connection, whose long uploads are held back. Fields that only a log reads are kept if the log
    /// `keeps_client_fields`.
    pub fn new(keeps_client_fields: bool) -> Self {
        Self {
            keeps_client_fields,
            holds_uploads: failpoint::takes_over(),
            ..Self::default()
        }
    }

    /// Follows the framing through `bytes`, and moves the bytes that are kept to their beginning. Bytes that were not passed are the
    /// beginning of a head, or of a line of a chunked body: they come again, with more behind them, at the next call. Behind a [`Stop`]
    /// there is none.
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
                        fed.stop = Some(Stop::Upload);
                    } else {
                        fed.passed = fed.kept;
                    }
                }
                Err(error) => fed.stop = Some(Stop::Error(error)),
            }
        }
        fed
    }

    /// The number of whole heads that were passed.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Passes one head, or the bytes that there are of one body; none where there is neither.
    pub fn pass(&mut self, bytes: &mut [u8]) -> Result<Passed, FramingError> {
        let len = match &mut self.section {
            Section::Head(scan) => {
                let Some((passed, body)) = scan.feed(bytes, self.keeps_client_fields)? else {
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

/// True for a field that clients send and nothing in this server reads; a test finds code that names one.
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

/// True for an unread field that the access log may have.
fn is_client_field(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"user-agent") || name.eq_ignore_ascii_case(b"referer")
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
    pub stop: Option<Stop>,
}

/// The end of what hyper may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The head of a long upload.
    Upload,
    /// An error.
    Error(FramingError),
}

/// The field by which a client says that it understands an interim response to its upload (draft-ietf-httpbis-resumable-upload).
const INTEROP_VERSION: &[u8] = b"upload-draft-interop-version";

/// The shortest body of an upload that is taken from the socket, in bytes: for shorter ones it costs more than it saves.
const LONG_UPLOAD: u64 = 256 << 10;

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
    length: Option<u64>,
    chunked: bool,
}

impl Scan {
    /// Reads on in `bytes`, which begin where the head does. Returns the passed head and the framing of its body once the head is
    /// whole.
    fn feed(
        &mut self,
        bytes: &mut [u8],
        keeps_client_fields: bool,
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
                (line, _) => (false, self.field(line, keeps_client_fields)?),
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

    /// RFC 9112, section 3.2: no form of the target has a fragment, and hyper would drop it. On HTTP/2 it would close without a word.
    fn request_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        if line.ends_with(b" HTTP/2.0") {
            return Err(FramingError::Http2);
        }
        self.is_1_0 = line.ends_with(b"HTTP/1.0");
        self.is_upload = line.starts_with(b"PUT ") || line.starts_with(b"PATCH ");
        memchr(b'#', line).map_or(Ok(()), |_| Err(FramingError::Line))
    }

    /// Checks a field; false where it is taken out of the head. hyper refuses one that is invalid.
    fn field(&mut self, line: &[u8], keeps_client_fields: bool) -> Result<bool, FramingError> {
        let colon = memchr(b':', line).ok_or(FramingError::Line)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if is_unread(name) && !(keeps_client_fields && is_client_field(name)) {
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
        } else if name.eq_ignore_ascii_case(INTEROP_VERSION) {
            self.wants_interim = true;
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

/// True for a field's value with a byte that none may have (RFC 9110, section 5.5). Without a branch: compiles to vector code.
fn has_control(value: &[u8]) -> bool {
    let is_control = |b: u8| u8::from(b < b' ') & u8::from(b != b'\t') | u8::from(b == 0x7F);
    value.iter().fold(0, |has, &b| has | is_control(b)) != 0
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
            let fed = Framing::new(false).feed(&mut bytes);
            assert_eq!(fed.stop == Some(Stop::Upload), is_held, "{head}");
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
