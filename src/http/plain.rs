//! The plainest of requests, understood from their bytes: GET of a path, and PUT with a length, with nothing in their heads
//! that could make a difference.
//!
//! Pure. Knows the few fields that most clients send and that change nothing of the answer; a head with anything else in it,
//! or with anything unusual, is not plain: `head`, hyper and `request` read it, who know all of HTTP. Promises that what is
//! plain means the same to them (a property test and a fuzz target hold it against both).

use memchr::memchr;

use super::head::{number, trim};

/// More fields than a plain request has.
const MANY_FIELDS: usize = 16;

/// A request whose head is all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain<'a> {
    /// As it was sent, without a query; it has no escapes.
    pub(super) path: &'a str,
    /// What its one Host names.
    pub(super) host: &'a [u8],
    /// Of a PUT: bytes of its body, and what its Content-Type says.
    pub(super) put: Option<(u64, Option<&'a [u8]>)>,
    /// There is an Accept-Encoding.
    pub(super) codings_accepted: bool,
    /// The connection ends with the answer.
    pub(super) closes: bool,
    /// Bytes of its head.
    pub(super) len: usize,
}

impl<'a> Plain<'a> {
    /// The request that `bytes` begin with, if all of it is there and it is plain.
    pub(super) fn at(bytes: &'a [u8]) -> Option<Self> {
        let is_put = bytes.starts_with(b"PUT ");
        let target = bytes.strip_prefix(if is_put { b"PUT " } else { b"GET " });
        let target = target.filter(|target| target.starts_with(b"/"))?;
        let end = target.iter().position(|&b| !PATH[usize::from(b)])?;
        let (path, mut rest) = (
            &target[..end],
            target[end..].strip_prefix(b" HTTP/1.1\r\n")?,
        );
        let mut plain = Self {
            path: str::from_utf8(path).ok()?,
            host: b"",
            put: None,
            codings_accepted: false,
            closes: false,
            len: 0,
        };
        let mut seen = Seen {
            is_put,
            ..Seen::default()
        };
        for _ in 0..MANY_FIELDS {
            let end = memchr(b'\r', rest)?;
            let (line, after) = (&rest[..end], rest[end..].strip_prefix(b"\r\n")?);
            rest = after;
            if line.is_empty() {
                plain.len = bytes.len() - rest.len();
                if is_put {
                    plain.put = Some((seen.length?, seen.media_type));
                }
                return (seen.hosts == 1).then_some(plain);
            }
            plain.field(line, &mut seen)?;
        }
        None
    }

    /// Notes what a line says; none of the fields that are known here has a list that several lines could share.
    fn field(&mut self, line: &'a [u8], seen: &mut Seen<'a>) -> Option<()> {
        let (name, value) = line.split_at(memchr(b':', line)?);
        let value = trim(&value[1..]);
        if !value.iter().all(|&b| matches!(b, b' '..=b'~')) {
            return None;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            4 if is("host") => {
                seen.hosts += 1;
                self.host = value;
            }
            // It may ask for errors in another form, of which a PUT may have some.
            6 if is("accept") && (!seen.is_put || value == b"*/*") => {}
            10 if is("user-agent") => {}
            10 if is("connection") && value.eq_ignore_ascii_case(b"keep-alive") => {}
            10 if is("connection") && value.eq_ignore_ascii_case(b"close") => self.closes = true,
            12 if is("content-type") && seen.is_put && seen.media_type.is_none() => {
                seen.media_type = Some(value);
            }
            13 if is("cache-control") => {}
            14 if is("content-length") && seen.is_put && seen.length.is_none() => {
                seen.length = Some(number(value)?);
            }
            15 if is("accept-encoding") => self.codings_accepted = true,
            15 if is("accept-language") => {}
            _ => return None,
        }
        Some(())
    }
}

/// What was seen of a head so far.
#[derive(Default)]
struct Seen<'a> {
    is_put: bool,
    hosts: usize,
    length: Option<u64>,
    media_type: Option<&'a [u8]>,
}

/// Which bytes a plain path may have: those that stand for themselves in a path (RFC 3986, section 3.3).
const PATH: [bool; 256] = {
    let mut path = [false; 256];
    let mut b = 0;
    while b < 256 {
        path[b] = matches!(b, 0x30..=0x39 | 0x41..=0x5a | 0x61..=0x7a);
        b += 1;
    }
    let others = b"/-._~!$&'()*+,;=:@";
    let mut i = 0;
    while i < others.len() {
        path[others[i] as usize] = true;
        i += 1;
    }
    path
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "GET /a-key HTTP/1.1\r\nHost: here:80\r\nAccept: */*\r\n\r\n";

    #[test]
    fn a_plain_request_ends_with_its_head() {
        let bytes = [HEAD, "GET /next"].concat();
        let plain = Plain::at(bytes.as_bytes()).unwrap();
        assert_eq!((plain.path, plain.host), ("/a-key", &b"here:80"[..]));
        assert_eq!(plain.len, HEAD.len());
        for len in 0..HEAD.len() {
            assert_eq!(Plain::at(&HEAD.as_bytes()[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn whatever_could_make_a_difference_is_not_plain() {
        for (there, instead) in [
            ("GET", "HEAD"),
            ("GET", "get"),
            ("GET", "\r\nGET"),
            ("GET ", "GET  "),
            ("/a-key", "/a%2dkey"),
            ("/a-key", "/a-key?"),
            ("/a-key", "a-key"),
            ("/a-key", "http://here/a-key"),
            ("/a-key", "/a-\u{e9}"),
            ("1.1", "1.0"),
            ("1.1\r\n", "1.1\n"),
            ("Host: here:80\r\n", ""),
            ("Host", "Host "),
            ("Host", " Host"),
            ("Accept:", "Host: there\r\nAccept:"),
            ("*/*", "a\tb"),
            ("*/*", "a\rb"),
            ("*/*", "a\nb"),
            ("*/*", "\u{7f}"),
            ("Accept:", "Accept"),
            ("Accept", "Range"),
            ("Accept", "If-None-Match"),
            ("Accept", "X-Request-Id"),
            ("Accept", "Origin"),
            ("Accept: */*", "Content-Length: 0"),
            ("Accept: */*", "Content-Type: a/b"),
            ("GET", "PUT"),
            ("Accept: */*", "Transfer-Encoding: chunked"),
            ("Accept: */*", "Connection: upgrade"),
            ("Accept: */*", "Connection: close, x"),
        ] {
            let head = HEAD.replacen(there, instead, 1);
            assert_eq!(Plain::at(head.as_bytes()), None, "{head:?}");
        }
    }

    #[test]
    fn a_plain_upload_has_a_length_and_perhaps_a_type() {
        let of = |fields: &str| {
            let head = format!("PUT /k HTTP/1.1\r\nHost: t\r\n{fields}\r\nbody");
            let plain = Plain::at(head.as_bytes());
            plain.map(|plain| (plain.len == head.len() - 4, format!("{:?}", plain.put)))
        };
        let put = |length: u64, media_type: Option<&[u8]>| {
            Some((true, format!("{:?}", Some((length, media_type)))))
        };
        assert_eq!(of("Content-Length: 4\r\n"), put(4, None));
        let typed = "content-type: a/b\r\ncontent-length:4\r\nAccept: */*\r\n";
        assert_eq!(of(typed), put(4, Some(b"a/b")));
        for fields in [
            "",
            "Content-Length: 4\r\nContent-Length: 4\r\n",
            "Content-Length: 4, 4\r\n",
            "Content-Length: +4\r\n",
            "Content-Length:\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 4\r\nExpect: 100-continue\r\n",
            "Content-Length: 4\r\nContent-Type: a/b\r\nContent-Type: a/b\r\n",
            "Content-Length: 4\r\nAccept: application/problem+json\r\n",
            "Content-Length: 4\r\nIf-None-Match: *\r\n",
            "Content-Length: 4\r\nContent-Encoding: gzip\r\n",
            "Content-Length: 4\r\nContent-Range: bytes 0-3/4\r\n",
            "Content-Length: 4\r\nContent-MD5: x\r\n",
            "Content-Length: 4\r\nOrigin: http://t\r\n",
            "Content-Length: 4\r\nSec-Fetch-Site: cross-site\r\n",
        ] {
            assert_eq!(of(fields), None, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_plain_is_so_to_all_who_read_it(bytes in "(GET|PUT) /[a-z]{0,3} HTTP/1\\.[01]\r\n((Host|Accept|Range|connection|Content-Length):[ \t]?[ -~]{0,9}\r?\n){0,3}\r\n") {
            super::super::fuzz::plain(bytes.as_bytes());
        }
    }
}
