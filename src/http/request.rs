//! From method, target and headers to an [`Operation`], or a [`Refusal`].
//!
//! The only room that reads request headers. Everything that can be refused without touching the store is refused
//! here, before a byte of the body is read. Which status a refusal has is not known here.

use std::borrow::Cow;

use hyper::header::{EXPECT, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use percent_encoding::percent_decode_str;

use super::listing::{self, BadQuery};
use super::service::Rules;
use crate::store::{BadKey, Key, Page};

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    /// Answer the value; HEAD is the same, whose body hyper leaves out.
    Get(Key<'a>),
    /// Store the body, of `len` bytes where the head tells.
    Put {
        key: Key<'a>,
        len: Option<u64>,
    },
    Delete(Key<'a>),
    List(Page),
}

impl Operation<'_> {
    /// The same operation, borrowing nothing.
    pub(super) fn into_owned(self) -> Operation<'static> {
        match self {
            Self::Get(key) => Operation::Get(key.into_owned()),
            Self::Put { key, len } => Operation::Put {
                key: key.into_owned(),
                len,
            },
            Self::Delete(key) => Operation::Delete(key.into_owned()),
            Self::List(page) => Operation::List(page),
        }
    }
}

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("nothing has this path: a key is one path segment")]
    NoSuchPath,
    #[error("PUT needs a key: one path segment, as in PUT /key")]
    NoKey,
    #[error("nothing was stored: PUT needs a Content-Length above 0")]
    NothingToStore,
    #[error("bad key: {0}")]
    BadKey(#[from] BadKey),
    #[error("bad key: '%' must be followed by two hexadecimal digits")]
    BadEscape,
    #[error("{0}")]
    BadQuery(#[from] BadQuery),
    #[error("a request needs exactly one valid Host header")]
    BadHost,
    #[error("the only transfer coding understood is chunked, once")]
    TransferCoding,
    #[error("PUT over HTTP/1.0 needs a Content-Length")]
    LengthRequired,
    #[error("the only expectation met is 100-continue")]
    Expectation,
    #[error("this server knows GET, HEAD, PUT and DELETE")]
    Method,
    #[error("this server is read-only")]
    ReadOnly,
    #[error("the value is larger than this server takes ({limit} bytes)")]
    TooLarge { limit: u64 },
    #[error("the request's body was cut off or malformed")]
    CutOff,
}

/// Understands `head`; `len` is the body's length where the framing tells it.
pub(super) fn understand<'a>(
    head: &'a Parts,
    len: Option<u64>,
    rules: &Rules,
) -> Result<Operation<'a>, Refusal> {
    check_host(head)?;
    check_framing(&head.headers)?;
    match head.method {
        Method::GET | Method::HEAD => get(head, rules),
        Method::PUT => put(head, len, rules),
        Method::DELETE => {
            let key = key(head.uri.path())?;
            if rules.read_only {
                Err(Refusal::ReadOnly)
            } else {
                Ok(Operation::Delete(key))
            }
        }
        _ => Err(Refusal::Method),
    }
}

fn get<'a>(head: &'a Parts, rules: &Rules) -> Result<Operation<'a>, Refusal> {
    match head.uri.path() {
        "/" if rules.compat => Err(Refusal::NoSuchPath),
        "/" => Ok(Operation::List(listing::page(
            head.uri.query().unwrap_or_default(),
        )?)),
        path => key(path).map(Operation::Get),
    }
}

fn put<'a>(head: &'a Parts, len: Option<u64>, rules: &Rules) -> Result<Operation<'a>, Refusal> {
    let key = key(head.uri.path()).map_err(|refusal| match refusal {
        Refusal::NoSuchPath => Refusal::NoKey,
        other => other,
    })?;
    if rules.read_only {
        return Err(Refusal::ReadOnly);
    }
    if rules.compat && len.is_none_or(|len| len == 0) {
        return Err(Refusal::NothingToStore);
    }
    // An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
    if head.version < Version::HTTP_11 && !head.headers.contains_key(hyper::header::CONTENT_LENGTH)
    {
        return Err(Refusal::LengthRequired);
    }
    if len.is_some_and(|len| len > rules.max_body) {
        return Err(Refusal::TooLarge {
            limit: rules.max_body,
        });
    }
    Ok(Operation::Put { key, len })
}

/// The key that `path` names: its one segment, percent-decoded once.
fn key(path: &str) -> Result<Key<'_>, Refusal> {
    let segment = path.strip_prefix('/').unwrap_or(path);
    if segment.is_empty() || segment.contains('/') {
        return Err(Refusal::NoSuchPath);
    }
    if !segment.contains('%') {
        return Ok(Key::new(segment)?);
    }
    if has_bad_escape(segment) {
        return Err(Refusal::BadEscape);
    }
    let decoded: Cow<'_, [u8]> = percent_decode_str(segment).into();
    Ok(Key::from_bytes(decoded)?)
}

fn has_bad_escape(segment: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = segment.as_bytes();
    let bad = |(i, &b): (usize, &u8)| {
        b == b'%' && !(is_hex(bytes.get(i + 1)) && is_hex(bytes.get(i + 2)))
    };
    bytes.iter().enumerate().any(bad)
}

/// RFC 9112, section 3.2: an HTTP/1.1 request has exactly one Host, and it is a valid authority or empty.
fn check_host(head: &Parts) -> Result<(), Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if head.version < Version::HTTP_11 => Ok(()),
        (Some(host), None) if host.is_empty() || is_authority(host.as_bytes()) => Ok(()),
        _ => Err(Refusal::BadHost),
    }
}

/// `uri-host [ ":" port ]` (RFC 3986, section 3.2), the host by its bytes alone.
fn is_authority(host: &[u8]) -> bool {
    let (name, port) = match host.strip_prefix(b"[") {
        Some(literal) => match literal.iter().position(|&b| b == b']') {
            Some(end) => (&literal[..end], &literal[end + 1..]),
            None => return false,
        },
        None => host.split_at(host.iter().position(|&b| b == b':').unwrap_or(host.len())),
    };
    let is_literal = host.starts_with(b"[");
    let is_name = |b: &u8| {
        b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(b) || (is_literal && *b == b':')
    };
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    !name.is_empty() && name.iter().all(is_name) && is_port
}

/// What of RFC 9112, section 6 hyper leaves to us: it undoes the chunking of `gzip, chunked` and would hand us the rest.
fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
        _ => return Err(Refusal::TransferCoding),
    }
    let met = |expect: &hyper::header::HeaderValue| {
        expect.as_bytes().eq_ignore_ascii_case(b"100-continue")
    };
    if headers.get_all(EXPECT).iter().all(met) {
        Ok(())
    } else {
        Err(Refusal::Expectation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    #[test]
    fn a_path_is_decoded_once_and_strictly() {
        for (path, name) in [
            ("/a", "a"),
            ("/a%20b", "a b"),
            ("/a+b", "a+b"),
            ("/%252e%252e", "%2e%2e"),
            ("/...", "..."),
        ] {
            assert_eq!(key(path).unwrap().as_str(), name, "{path}");
        }
        for path in ["/%", "/%2", "/%zz", "/a%+1", "/%2%"] {
            assert_eq!(key(path), Err(Refusal::BadEscape), "{path}");
        }
        for path in ["/", "", "/a/b", "/a/", "//a", "//"] {
            assert_eq!(key(path), Err(Refusal::NoSuchPath), "{path}");
        }
        for path in [
            "/%2e%2E",
            "/.",
            "/%2F",
            "/a%00",
            "/%ff",
            "/%c0%ae",
            "/.data%2Dserver",
        ] {
            assert!(matches!(key(path), Err(Refusal::BadKey(_))), "{path}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_a_literal_with_an_optional_port() {
        for good in [
            "a",
            "a:80",
            "a:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "xn--e1a",
            "a_b",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            ":80", "a:80:80", "[::1", "[::1]x", "[]", "a b", "a/b", "u@a", "a:b", "\u{e9}",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(name in ".{1,80}") {
            let path = format!("/{}", utf8_percent_encode(&name, NON_ALPHANUMERIC));
            prop_assert_eq!(key(&path), Key::new(name).map_err(Refusal::from));
        }

        #[test]
        fn no_path_panics_or_names_more_than_one_segment(path in "/[ -~]{0,40}") {
            if let Ok(key) = key(&path) {
                prop_assert!(!key.as_str().contains('/'));
            }
        }
    }
}
