//! What is answered of the fields that are kept, and with which body.

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{FIELDS, MEDIA_TYPE, NAME, all_lines, assert_fields, get, put, set};
use crate::get::compression::decoded;
use crate::support::prelude::*;

#[test]
fn a_304_has_the_fields_of_its_cache_entry_alone() {
    let compress = by_engine(&["--compress"][..], &[]);
    let server = TestServer::start(&[compress, &["--cache-control", "max-age=1"]].concat());
    for length in LENGTHS {
        let mut raw = server.connect();
        let value = vec![b'a'; length];
        let lines = format!("{}Content-Type: text/html\r\n", all_lines());
        let tag = put(&server, "k", &lines, &value).must("etag").to_owned();
        for method in ["GET", "HEAD"] {
            let lines = format!("If-None-Match: {tag}\r\n");
            let got = ask(&mut raw, method, "/k", &lines, b"");
            assert_eq!((got.status, got.must("etag")), (304, &tag[..]));
            assert_fields(&got, &FIELDS[..1]);
            for name in ["date", "last-modified", "content-security-policy"] {
                got.must(name);
            }
            // The answer does not depend on it: the value has one coding.
            assert_eq!(got.header("vary"), None);
        }
    }
}

#[test]
fn a_range_is_of_the_stored_bytes_and_several_are_answered_whole_in_a_coding() {
    let server = TestServer::start(&[]);
    for length in LENGTHS {
        let value = pattern(5, length);
        let mut raw = server.connect();
        assert_eq!(put(&server, "k", &all_lines(), &value).status, 200);
        let part = get(&mut raw, "k", "Range: bytes=10-1009\r\n");
        assert_eq!(part.status, 206);
        assert!(part.body == value[10..1010]);
        let found = part.must("content-range");
        assert_eq!(found, format!("bytes 10-1009/{length}"));
        assert_fields(&part, &FIELDS);
        let several = "Range: bytes=0-9,1000-1009\r\n";
        let whole = get(&mut raw, "k", several);
        assert_eq!(whole.status, 200);
        assert!(whole.body == value);
        assert_fields(&whole, &FIELDS);
        // Without a coding the parts are sent, and the other fields are those of the value.
        let language = "Content-Language: de\r\nCache-Control: max-age=9\r\n";
        assert_eq!(put(&server, "k", language, &value).status, 200);
        let parts = get(&mut raw, "k", several);
        assert_eq!(parts.status, 206);
        let kind = parts.must("content-type");
        assert!(kind.starts_with("multipart/byteranges"), "{kind}");
        let own = [("content-language", "de"), ("cache-control", "max-age=9")];
        assert_fields(&parts, &own);
        let none = get(&mut raw, "k", "Range: bytes=9000000-\r\n");
        assert_eq!((none.status, none.must("cache-control")), (416, "no-store"));
        assert_fields(&none, &[("cache-control", "no-store")]);
    }
}

#[test]
fn a_stored_coding_is_not_coded_again_and_digests_are_of_the_stored_bytes() {
    let server = TestServer::start(by_engine(&["--compress"], &[]));
    for length in LENGTHS {
        let text = vec![b'a'; 100 * length];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&text).expect("gzip");
        let coded = encoder.finish().expect("gzip");
        let digest = sha256(&coded);
        let lines = format!("Content-Encoding: gzip\r\nRepr-Digest: {digest}\r\n");
        let stored = put(&server, "k.txt", &lines, &coded);
        assert_eq!(stored.status, 200);
        let mut raw = server.connect();
        for coding in
            "X: y|Accept-Encoding: gzip|Accept-Encoding: gzip|Accept-Encoding: identity".split('|')
        {
            let accept = format!("{coding}\r\n");
            let got = get(&mut raw, "k.txt", &accept);
            assert_eq!(got.all("content-encoding"), "gzip", "{accept}");
            assert!(got.body == coded, "{accept}");
            assert_eq!(got.must("etag"), stored.must("etag"));
            let found = got.header("vary");
            assert_eq!(found, None, "the answer does not depend on the request");
            assert_eq!(got.must("accept-ranges"), "bytes");
            let found = got.must("content-type");
            assert_eq!(found, "text/plain", "a charset is guessed of text alone");
        }
        let got = get(&mut raw, "k.txt", "Want-Repr-Digest: sha-256=1\r\n");
        assert_eq!(got.must("repr-digest"), digest);
        assert!(decoded(&got) == text);
        // Only a stored coding prevents the server's own.
        let lines = "Content-Language: de\r\nCache-Control: max-age=9\r\n";
        assert_eq!(put(&server, "k.txt", lines, &text[..length]).status, 200);
        let got = get(&mut raw, "k.txt", "Accept-Encoding: gzip\r\n");
        let gzip = ("content-encoding", by_engine("gzip", ""));
        let own = [("content-language", "de"), ("cache-control", "max-age=9")];
        assert_fields(&got, &[gzip, own[0], own[1]]);
    }
}

#[test]
fn coded_bytes_that_look_like_text_get_no_charset() {
    let server = needed!(TestServer::of_directory("a charset for guessed text", &[]));
    let status = put(&server, "k.txt", "Content-Encoding: x-own\r\n", b"text").status;
    assert_eq!(status, 200);
    assert_eq!(server.get("k.txt").must("content-type"), "text/plain");
    assert_eq!(put(&server, "k.txt", "", b"text").status, 200);
    let plain = "text/plain; charset=utf-8";
    assert_eq!(server.get("k.txt").must("content-type"), plain);
}

#[test]
fn the_cache_control_of_a_value_wins() {
    for (option, otherwise) in [("max-age=5", "max-age=5"), ("", "")] {
        let server = TestServer::start(&["--cache-control", option]);
        let mut raw = server.connect();
        for length in LENGTHS {
            let value = pattern(6, length);
            let lines = "Cache-Control: private\r\nCache-Control: max-age=7\r\n";
            assert_eq!(put(&server, "k", lines, &value).status, 200);
            let own = [("cache-control", "private, max-age=7")];
            assert_fields(&get(&mut raw, "k", ""), &own);
            assert_eq!(put(&server, "k", "", &value).status, 200);
            assert_eq!(get(&mut raw, "k", "").all("cache-control"), otherwise);
        }
    }
}

#[test]
fn an_attribute_set_by_hand_never_injects_a_header() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let mut raw = server.connect();
    for length in [10, 30_000, 200_000] {
        server.store("k", pattern(8, length));
        let mut sees = |text: &[u8], expected: &[(&str, &str)]| {
            set(&server.dir, "k", NAME, text);
            let got = get(&mut raw, "k", "");
            assert_eq!(got.status, 200, "{}", text.escape_ascii());
            assert!(got.body == pattern(8, length), "{}", text.escape_ascii());
            let default = [("cache-control", "no-cache")];
            let own = expected.iter().any(|(name, _)| *name == "cache-control");
            let default = if own { &[] } else { &default[..] };
            assert_fields(&got, &[expected, default].concat());
            for name in ["x-evil", "set-cookie", "transfer-encoding"] {
                assert_eq!(got.header(name), None, "{}", text.escape_ascii());
            }
            assert_eq!(got.must("content-type"), "application/octet-stream");
        };
        sees(b"content-language: de", &[("content-language", "de")]);
        let both = [("cache-control", "max-age=3"), ("content-encoding", "br")];
        sees(b"Cache-Control:max-age=3\nContent-Encoding: br\n", &both);
        // src/http/values has the others, by any bytes.
        for evil in [
            &b"x-evil: 1"[..],
            b"set-cookie: a=b\ntransfer-encoding: chunked\ncontent-length: 1\ncontent-type: text/html",
            b"content-language: de\rx-evil: 1",
            b"content-disposition: inline\0",
            b"\n\n\r\n\r\n<script>x-evil: 1</script>",
            b"",
        ] {
            sees(evil, &[]);
        }
        let own = [("content-language", "en")];
        sees(b"x-evil: 1\ncontent-language: en", &own);
        // The same of the media type, of which the name has another.
        server.store("k.css", pattern(3, length));
        let mut sees = |kind: &[u8], expected: &str| {
            set(&server.dir, "k.css", MEDIA_TYPE, kind);
            let got = get(&mut raw, "k.css", "");
            let told = (got.status, got.must("content-type"), got.header("x-evil"));
            assert_eq!(told, (200, expected, None), "{}", kind.escape_ascii());
            let part = get(&mut raw, "k.css", "Range: bytes=0-0,-1\r\n");
            let shown = String::from_utf8_lossy(&part.body).to_lowercase();
            assert!(!shown.contains("x-evil"), "in a part: {shown}");
        };
        for kind in ["text/html", "image/png", "text/csv"] {
            sees(kind.as_bytes(), kind);
        }
        for evil in [
            &b"text/html\r\nX-Evil: 1"[..],
            b"\r\n\r\n<script>X-Evil: 1</script>",
            b"text/html; a=\"\r\nX-Evil: 1\"",
            b"text/h\xff",
        ] {
            sees(evil, "text/css");
        }
    }
}

#[test]
fn a_cached_value_has_its_fields_at_every_use_and_loses_them_with_the_attribute() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let mut raw = server.connect();
    assert_eq!(put(&server, "k", &all_lines(), b"hot value").status, 200);
    eventually("the value is kept", || {
        assert_fields(&get(&mut raw, "k", ""), &FIELDS);
        server.proc().has_open(&server.dir.file("k"))
    });
    for _ in 0..10 {
        assert_fields(&get(&mut raw, "k", ""), &FIELDS);
    }
    let file = File::open(server.dir.file("k")).expect("the value");
    rustix::fs::fremovexattr(&file, NAME).expect("an attribute");
    assert_fields(&get(&mut raw, "k", ""), &[("cache-control", "no-cache")]);
}

#[test]
fn no_reader_sees_a_value_with_the_fields_of_another() {
    let server = TestServer::start(&[]);
    let languages = ["de", "en", "fr"];
    let value = |n: usize| pattern(n as u64, LENGTHS[n]);
    let store = |n: usize| {
        let lines = format!("Content-Language: {}\r\n", languages[n]);
        assert_eq!(put(&server, "k", &lines, &value(n)).status, 200);
    };
    store(0);
    let (done, reads) = (Done::default(), AtomicUsize::new(0));
    let read = || {
        let (mut seen, mut raw) = (BTreeSet::new(), server.connect());
        while !done.is_said() {
            let got = get(&mut raw, "k", "");
            let mut n = languages.iter();
            let n = n.position(|l| got.must("content-language") == *l);
            let n = n.expect("a language that was stored");
            let is_right = got.body == value(n);
            assert!(is_right, "{} bytes in {}", got.length(), languages[n]);
            seen.insert(n);
            reads.fetch_add(1, Ordering::AcqRel);
        }
        seen
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let saying = done.when_dropped();
        for round in 0..scaled(45, 150) {
            store(round % languages.len());
            if round < languages.len() {
                // Each of the two readers may be in the middle of a read.
                let enough = reads.load(Ordering::Acquire) + 3;
                eventually("readers go on", || reads.load(Ordering::Acquire) >= enough);
            }
        }
        drop(saying);
        let seen = readers.map(|reader| reader.join().expect("a reader"));
        let seen = seen.iter().flatten().collect::<BTreeSet<_>>();
        assert_eq!(seen.len(), languages.len(), "each was read");
    });
}

#[test]
fn fields_or_a_media_type_that_cannot_be_read_are_an_error_and_not_absent() {
    file_calls_only!("fields that cannot be read");
    let server = TestServer::start(&["--threads", "1", "--cache", "0"]);
    let lines = format!("{}Content-Type: text/x-kept\r\n", all_lines());
    assert_eq!(put(&server, "k", &lines, b"value").status, 200);
    // The media type is read first.
    for which in ["error=EIO:when=1+2", "error=EIO:when=2+2"] {
        let tracer = Attached::injecting(&server, "fgetxattr", which);
        assert_eq!(server.get("k").status, 500, "{which}");
        assert!(tracer.has_injected(), "{which}");
        tracer.detach();
        let got = server.get("k");
        assert_fields(&got, &FIELDS);
        assert_eq!(got.must("content-type"), "text/x-kept");
    }
}
