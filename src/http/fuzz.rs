//! What `tests/fuzz` feeds with inputs: each function takes any bytes, and panics where a promise about them is broken.
//!
//! Compiled for tests, where every seed of the corpora and inputs made up by proptest are run through them, and for
//! fuzzing.
#![allow(clippy::missing_panics_doc, reason = "to panic is how they tell")]

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::request::framing::Framing;
use crate::http::request::head::MAX_HEAD;
use crate::http::request::path;
use crate::http::semantics::conditional::{Current, Preconditions, if_range};
use crate::http::semantics::digest_fields::{Algorithm, CONTENT_DIGEST, Expected, REPR_DIGEST};
use crate::http::semantics::listing::{next_link, page};
use crate::http::semantics::range::{MAX_PARTS, Ranges, ranges};
use crate::store::{Key, Listing};

/// A path names at most one key, which obeys the rules and comes back from any encoding of it.
pub fn key(data: &[u8]) {
    let Ok(segment) = std::str::from_utf8(data) else {
        return;
    };
    let path = format!("/{segment}");
    let Ok(key) = path::key(&path) else {
        return;
    };
    let name = key.as_str();
    assert!((1..=255).contains(&name.len()) && !name.contains(['/', '\0']));
    assert!(name != "." && name != ".." && !name.starts_with(".data-server"));
    let encoded = format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
    assert_eq!(
        path::key(&encoded).expect("the same key, encoded"),
        Key::new(name).expect("a key")
    );
}

/// A target that hyper takes names a key by its path alone.
pub fn target(data: &[u8]) {
    let Ok(uri) = Uri::try_from(data) else {
        return;
    };
    let Ok(key) = path::key(uri.path()) else {
        return;
    };
    let segment = uri.path().trim_start_matches('/');
    assert!(!segment.contains(['/', '?', '#']), "{uri}");
    assert!(key.as_str().len() <= segment.len(), "{uri}");
}

/// Every range lies within the value, parts are few, and together no longer than twice the value.
pub fn range(data: &[u8]) {
    let Some((len, field)) = data.split_first_chunk() else {
        return;
    };
    let (len, headers) = (u64::from_le_bytes(*len), fields(&[RANGE], field));
    let asked = match ranges(&headers, len) {
        Ranges::Whole | Ranges::Unsatisfiable => return,
        Ranges::Single(range) => vec![range],
        Ranges::Multi(parts) => {
            assert!((2..=MAX_PARTS).contains(&parts.len()));
            parts
        }
    };
    for part in &asked {
        assert!(
            part.start < part.end && part.end <= len,
            "{part:?} of {len}"
        );
    }
}

/// A precondition that names a version never holds where there is none, and one that wants none never where there is one.
pub fn preconditions(data: &[u8]) {
    let names = [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
        IF_RANGE,
    ];
    let headers = fields(&names, data);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let current = Current {
        etag: "\"18ea04c1e2788651\"",
        variants: &[],
        modified: SystemTime::UNIX_EPOCH,
    };
    if_range(&headers, current, now);
    let Some(preconditions) = Preconditions::of(&headers) else {
        return;
    };
    preconditions.for_read(Some(current));
    preconditions.for_read(None);
    if headers.contains_key(IF_MATCH) {
        assert!(!preconditions.for_write(None), "{headers:?}");
    }
    let wants_none = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|value| value.as_bytes().trim_ascii() == b"*");
    if wants_none {
        assert!(!preconditions.for_write(Some(current)), "{headers:?}");
    }
}

/// A digest that is understood is the same when it is written and understood again.
pub fn digest_fields(data: &[u8]) {
    let content_md5 = HeaderName::from_static("content-md5");
    let headers = fields(&[CONTENT_DIGEST, REPR_DIGEST, content_md5], data);
    let Ok(expected) = Expected::of(&headers) else {
        return;
    };
    if let Some(digest) = expected.sha256 {
        let field = Algorithm::Sha256.field(&digest);
        let again = fields(&[CONTENT_DIGEST], field.as_bytes());
        assert_eq!(Expected::of(&again).map(|e| e.sha256), Ok(Some(digest)));
    }
    assert_eq!(expected.and(expected), Ok(expected));
}

/// The cursor of a page leads to where the page ended.
pub fn cursor(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(first) = page(query) else {
        return;
    };
    assert!((1..=10_000).contains(&first.limit));
    let listing = Listing {
        keys: Vec::new(),
        next: Some(first.after.clone()),
    };
    let link = next_link(&first, &listing).expect("a link to the next page");
    assert!(HeaderValue::try_from(&link).is_ok(), "{link}");
    let query = link
        .strip_prefix("</?")
        .and_then(|rest| rest.split_once('>'));
    let second = page(query.expect("an address").0).expect("a page");
    assert_eq!(
        (&second.prefix, &second.after, second.limit),
        (&first.prefix, &first.after, first.limit)
    );
}

/// The values of `names`, one a line.
fn fields(names: &[HeaderName], data: &[u8]) -> HeaderMap {
    let lines = data.split(|&b| b == b'\n');
    let values = lines.map(|line| HeaderValue::from_bytes(line).ok());
    let fields = names.iter().cycle().zip(values);
    fields
        .filter_map(|(name, value)| Some((name.clone(), value?)))
        .take(100)
        .collect()
}

/// hyper finds every head where the framing found it, and nothing else; and cutting the bytes anywhere changes nothing.
/// The first byte says where they are cut.
pub fn framing(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let whole = Heads::of(bytes, usize::MAX);
    let pieces = Heads::of(bytes, usize::from(cut) + 1);
    // How much of a broken body comes before the fault depends on how it arrives.
    assert_eq!(
        (&whole.targets, whole.is_faulty),
        (&pieces.targets, pieces.is_faulty),
        "{}",
        bytes.escape_ascii()
    );
    let served = serve(&bytes[..whole.end]);
    assert!(
        served.len() <= whole.targets.len(),
        "{served:?} in {}",
        bytes.escape_ascii()
    );
    for (served, sent) in served.iter().zip(&whole.targets) {
        // hyper writes other forms of a target in its own way.
        let is_same = served == sent || !sent.contains(" /");
        assert!(is_same, "{served} is {sent}: {}", bytes.escape_ascii());
    }
}

/// What the framing says of a stream of requests.
#[derive(Debug, Default)]
struct Heads {
    /// The first two words of each head.
    targets: Vec<String>,
    /// Where it gives nothing on any more, or has no whole head.
    end: usize,
    is_faulty: bool,
}

impl Heads {
    /// Of `bytes` that arrive in pieces of `size`.
    fn of(bytes: &[u8], size: usize) -> Self {
        let (mut heads, mut framing, mut there) = (Self::default(), Framing::default(), 0);
        while there < bytes.len() && !heads.is_faulty {
            there = bytes.len().min(there.saturating_add(size));
            loop {
                let heads_before = framing.heads();
                let rest = &bytes[heads.end..there];
                let Ok(len) = framing.pass(rest) else {
                    heads.is_faulty = true;
                    break;
                };
                if framing.heads() > heads_before {
                    heads.targets.push(target_of(&rest[..len]));
                }
                heads.end += len;
                if len == 0 {
                    break;
                }
            }
        }
        heads
    }
}

fn target_of(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let words: Vec<&str> = text.trim_start().splitn(3, ' ').take(2).collect();
    words.join(" ")
}

/// Method and target of each request that hyper finds in `bytes`, whose bodies it reads whole.
fn serve(bytes: &[u8]) -> Vec<String> {
    let served = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let served = Arc::clone(&served);
        async move {
            // No 2xx: that to CONNECT would turn the connection over.
            let response = Response::builder().status(404).body(Empty::<Bytes>::new());
            let (head, body) = request.into_parts();
            let line = format!("{} {}", head.method, head.uri);
            served.lock().expect("no panic under the lock").push(line);
            let _may_be_cut_off = body.collect().await;
            response
        }
    });
    let mut protocol = http1::Builder::new();
    protocol
        .half_close(true)
        .header_read_timeout(None)
        .max_header_size(MAX_HEAD);
    let mut connection = pin!(protocol.serve_connection(Script(bytes), service));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if connection.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    let served = served.lock().expect("no panic under the lock");
    served.clone()
}

/// A client that sends these bytes and takes every answer.
struct Script<'a>(&'a [u8]);

impl Read for Script<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(buf.remaining()));
        buf.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Script<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::http::fuzz::*;

    type Target = (&'static str, fn(&[u8]));

    const TARGETS: [Target; 7] = [
        ("key", key),
        ("target", target),
        ("range", range),
        ("preconditions", preconditions),
        ("digest_fields", digest_fields),
        ("cursor", cursor),
        ("framing", framing),
    ];

    #[test]
    fn every_seed_of_the_corpora_passes() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
        for (name, run) in TARGETS {
            let seeds = std::fs::read_dir(corpora.join(name)).expect("a corpus");
            let seeds: Vec<_> = seeds.map(|seed| seed.expect("a seed").path()).collect();
            assert!(!seeds.is_empty(), "no seeds of {name}");
            for seed in seeds {
                run(&std::fs::read(&seed).expect("a seed"));
            }
        }
    }

    #[test]
    fn the_harness_of_framing_finds_what_hyper_hides() {
        // hyper takes this for one request, and says nothing of the length that it drops.
        let smuggled = b"PUT /a HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(serve(smuggled), ["PUT /a"]);
        let heads = Heads::of(smuggled, usize::MAX);
        assert!(heads.is_faulty && heads.targets.is_empty());
        let two = b"GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n";
        assert_eq!(serve(two), ["GET /a", "GET /b"]);
        assert_eq!(Heads::of(two, 1).targets, ["GET /a", "GET /b"]);
    }

    /// Pieces that requests are made of, sound and not.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known: Vec<&[u8]> = vec![
            b"GET /a HTTP/1.1\r\n",
            b"PUT /b HTTP/1.1\r\n",
            b"PUT /c HTTP/1.0\r\n",
            b"HEAD / HTTP/1.1\r\n",
            b"Host: t\r\n",
            b"Content-Length: 5\r\n",
            b"Content-Length:\t11 \r\n",
            b"content-length: 0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"transfer-encoding:CHUNKED\r\n",
            b"Transfer-Encoding: gzip, chunked\r\n",
            b"Expect: 100-continue\r\n",
            b"Connection: close\r\n",
            b"Connection: keep-alive\r\n",
            b"X-Y: z\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"\n",
            b"\r",
            b" ",
            b":",
            b"5\r\nabcde\r\n",
            b"abcde",
            b"0\r\n\r\n",
            b"00\r\nX: y\r\n\r\n",
            b"1;a=\"b\"\r\nx\r\n",
            b"GET /smug HTTP/1.1\r\nHost: t\r\n\r\n",
            b"PUT /d HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nvalue",
            b"PUT /e HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ];
        prop_oneof![
            20 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
            1 => vec(any::<u8>(), 1..4),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn hyper_finds_requests_where_the_framing_found_them(cut in 0..40_u8, pieces in vec(piece(), 1..16)) {
            framing(&[&[cut][..], &pieces.concat()].concat());
        }

        #[test]
        fn nothing_panics_whatever_it_is_given(data in vec(any::<u8>(), 0..200)) {
            for (_, run) in TARGETS {
                run(&data);
            }
        }
    }
}
