//! A guessed text type named no charset, so browsers showed UTF-8 as windows-1252. Proves which values get the charset,
//! on every path of a value to the socket. The test with Chromium is in `tests/browser`.

use crate::support::prelude::*;

/// How much of a value the server checks.
const LOOKED_AT: usize = 64 << 10;

/// So many bytes of UTF-8, in which a character crosses every even offset.
fn utf8(len: usize) -> Vec<u8> {
    let mut text = "a".to_owned();
    text.extend(std::iter::repeat_n('\u{e9}', (len - 1) / 2));
    text.push_str(&"a".repeat(len - text.len()));
    text.into_bytes()
}

/// The Content-Type of a value, which must be the same in every form of the response.
#[track_caller]
fn kind(server: &TestServer, key: &str) -> String {
    let mut raw = server.connect();
    let mut told = |method: &str, lines: &str| {
        let got = ask(&mut raw, method, &format!("/{key}"), lines, b"");
        got.must("content-type").to_owned()
    };
    let kind = told("GET", "");
    assert_eq!(told("HEAD", ""), kind, "HEAD /{key}");
    assert_eq!(told("GET", "X-Any: 1\r\n"), kind, "by hyper, /{key}");
    // An empty value has no part.
    let what = "Range: bytes=0-9\r\n";
    let part = ask(&mut raw, "GET", &format!("/{key}"), what, b"");
    if part.status == 206 {
        assert_eq!(part.must("content-type"), kind, "a part of /{key}");
    }
    let what = "Range: bytes=0-9,1000-1009\r\n";
    let several = ask(&mut raw, "GET", &format!("/{key}"), what, b"");
    if several.must("content-type").starts_with("multipart/") {
        let parts = String::from_utf8_lossy(&several.body).to_lowercase();
        let line = format!("content-type: {kind}\r\n");
        assert_eq!(parts.matches(&line).count(), 2, "/{key}: {parts}");
    }
    kind
}

/// Runs `test` with a cache, and without one.
fn each(test: impl Fn(&TestServer)) {
    for cache in ["64MiB", "0"] {
        test(&TestServer::start(&["--cache", cache]));
    }
}

#[test]
fn guessed_utf8_text_gets_the_charset_at_every_size() {
    directory_only!("a charset for guessed text");
    each(|server| {
        for length in LENGTHS.into_iter().chain([0, 1, LOOKED_AT, LOOKED_AT + 1]) {
            let value = if length == 0 { vec![] } else { utf8(length) };
            for (key, expected) in [
                ("k.txt", "text/plain; charset=utf-8"),
                ("k.html", "text/html; charset=utf-8"),
                ("k.css", "text/css; charset=utf-8"),
                ("k.js", "text/javascript; charset=utf-8"),
                ("k.mjs", "text/javascript; charset=utf-8"),
                ("k.csv", "text/csv; charset=utf-8"),
                ("k.md", "text/markdown; charset=utf-8"),
                ("k.json", "application/json"),
                ("k.svg", "image/svg+xml"),
                ("k.otf", "font/otf"),
                // Its own declaration decides.
                ("k.xml", "text/xml"),
                ("k.XSL", "text/xml"),
                ("k.rss", "application/rss+xml"),
                ("k", "application/octet-stream"),
            ] {
                // HEAD comes first: it must have the same type as GET.
                server.store(key, &value);
                let head = server.request("HEAD", &format!("/{key}"), "", b"");
                assert_eq!(head.must("content-type"), expected, "{key}, {length} bytes");
                assert_eq!(kind(server, key), expected, "{key}, {length} bytes");
            }
        }
    });
}

#[test]
fn other_text_and_stored_types_get_no_charset() {
    directory_only!("a charset for guessed text");
    each(|server| {
        for length in LENGTHS {
            let mut latin = utf8(length);
            for (at, byte) in [(0, 0xe9), (100, 0xe9), (100, 0)] {
                latin[at] = byte;
                server.store("k.txt", &latin);
                assert_eq!(kind(server, "k.txt"), "text/plain", "{length} bytes");
                latin = utf8(length);
            }
            for given in ["text/plain", "text/plain; charset=iso-8859-1", "text/html"] {
                let line = format!("Content-Type: {given}\r\n");
                assert_eq!(server.request("PUT", "/k.txt", &line, &latin).status, 200);
                assert_eq!(kind(server, "k.txt"), given, "{length} bytes");
            }
            // A character that is cut off at the end of the value is not UTF-8.
            server.store("k.txt", [&latin[..], b"\xc3"].concat());
            let is_seen = length < LOOKED_AT;
            let found = kind(server, "k.txt") == "text/plain";
            assert_eq!(found, is_seen, "{length} bytes");
        }
    });
}

#[test]
fn an_edit_by_hand_changes_the_charset() {
    let server = needed!(TestServer::of_directory("a charset for guessed text", &[]));
    for length in LENGTHS {
        let (text, mut latin) = (utf8(length), utf8(length));
        latin[10] = 0xe9;
        for _ in 0..2 {
            server.dir.place("k.txt", &text);
            eventually("the value is kept", || {
                assert_eq!(kind(&server, "k.txt"), "text/plain; charset=utf-8");
                server.proc().has_open(&server.dir.file("k.txt"))
            });
            server.dir.place("k.txt", &latin);
            assert_eq!(kind(&server, "k.txt"), "text/plain", "{length} bytes");
        }
        fs::remove_file(server.dir.file("k.txt")).expect("a removal");
    }
}

/// A write whose precondition fails opened and cached the value, for which later reads had no charset. It opens nothing
/// now.
#[test]
fn a_value_that_a_refused_write_asked_for_gets_the_charset() {
    directory_only!("a charset for guessed text");
    for length in LENGTHS {
        let server = Launch::new(&["--threads", "1"]).start();
        server.dir.place("k.txt", utf8(length));
        let mut raw = server.connect();
        let refused = ask(&mut raw, "PUT", "/k.txt", "If-None-Match: *\r\n", b"new");
        assert_eq!(refused.status, 412);
        assert!(!server.proc().has_open(&server.dir.file("k.txt")));
        assert_eq!(kind(&server, "k.txt"), "text/plain; charset=utf-8");
    }
}
