//! Proves media types (RFC 9110, section 8.3): kept with the value in the usual attribute, guessed only if none was given,
//! and no way to inject a header. No stored page can act as this origin.

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::support::prelude::*;

const NAME: &str = "user.mime_type";

/// An opaque origin: no script, no form, no resource of other servers.
const SANDBOX: &str =
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'";

/// The media type attribute of this key's file, or the type of its object in a store.
fn kept(dir: &DataDir, key: &str) -> Option<Vec<u8>> {
    if let Some(bucket) = dir.bucket() {
        let head = bucket.ask("HEAD", key, "", b"");
        return head.header("content-type").map(Into::into);
    }
    let mut buf = [0; 1024];
    let file = File::open(dir.file(key)).expect("the value");
    let len = fgetxattr(&file, NAME, &mut buf).ok()?;
    Some(buf[..len].to_vec())
}

fn set(dir: &DataDir, key: &str, value: &[u8]) {
    let file = File::open(dir.file(key)).expect("the value");
    fsetxattr(&file, NAME, value, XattrFlags::empty()).expect("an attribute by hand");
}

fn put(server: &TestServer, key: &str, kind: &str, value: &[u8]) -> u16 {
    let line = format!("Content-Type: {kind}\r\n");
    server
        .request("PUT", &format!("/{key}"), &line, value)
        .status
}

/// Directories on ext4 and in memory, if the machine can mount them, each with its mount, which the caller keeps.
fn directories() -> Vec<(DataDir, Option<Mount>)> {
    let mut all = vec![(DataDir::temporary(), None)];
    if is_s3() {
        return all;
    }
    let left_out = "media types on this file system";
    all.extend(Mount::tmpfs("size=64m", left_out).map(|mount| (mount.dir(), Some(mount))));
    all.extend(Mount::ext4(left_out).map(|mount| (mount.dir(), Some(mount))));
    all
}

#[test]
fn a_content_type_survives_a_restart_at_every_size() {
    for (dir, _mount) in directories() {
        let mut server = Launch::new(&[]).on(&dir).start();
        let json = "application/x.y-z+json;a=b";
        let kinds = ["text/html; charset=\"utf-8\"", "Image/PNG", json, "a/b"];
        for (length, kind) in LENGTHS.into_iter().zip(kinds) {
            let key = format!("k{length}.txt");
            assert_eq!(put(&server, &key, kind, &pattern(1, length)), 200);
        }
        for _ in 0..2 {
            for (length, kind) in LENGTHS.into_iter().zip(kinds) {
                let key = format!("k{length}.txt");
                for method in ["GET", "HEAD"] {
                    let got = server.request(method, &format!("/{key}"), "", b"");
                    assert_eq!(got.must("content-type"), kind, "{method} /{key}");
                }
                let on_disk = kept(&dir, &key).expect("a type");
                assert_eq!(on_disk, kind.as_bytes(), "{key} on disk");
            }
            server.stop();
            server = Launch::new(&[]).on(&dir).start();
        }
    }
}

#[test]
fn without_a_content_type_it_is_guessed_by_the_extension() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let html = by_engine("text/html; charset=utf-8", "text/html");
    let plain = by_engine("text/plain; charset=utf-8", "text/plain");
    let (css, other) = (
        by_engine("text/css; charset=utf-8", "text/css"),
        "application/octet-stream",
    );
    for (key, kind) in [
        ("a.html", html),
        ("a.HTML", html),
        ("a.b.c.txt", plain),
        ("a.tar.gz", "application/gzip"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("%C3%A9.png", "image/png"),
        ("a", other),
        ("html", other),
        (".html", other),
        ("a.", other),
        ("...", other),
        ("a.html%0a", other),
        ("a.html;x", other),
        ("a.no-such-thing", other),
    ] {
        if !takes_key(&key.replace("%0a", "\n")) {
            continue;
        }
        let path = format!("/{key}");
        // A malformed media type counts as absent (RFC 9110, section 5.3, leaves that to the recipient).
        for given in [
            "X: y",
            "Content-Type: nonsense",
            "Content-Type: text/",
            "Content-Type: */*",
        ] {
            let lines = format!("{given}\r\n");
            assert_eq!(ask(&mut raw, "PUT", &path, &lines, b"x").status, 200);
            let got = ask(&mut raw, "GET", &path, "", b"");
            assert_eq!(got.must("content-type"), kind, "{path} {given}");
        }
        ask(&mut raw, "DELETE", &path, "", b"");
    }
    server.dir.place("by-hand.css", "x");
    assert_eq!(server.get("by-hand.css").must("content-type"), css);
}

#[test]
fn the_next_put_replaces_or_removes_the_content_type() {
    let server = TestServer::start(&[]);
    for length in LENGTHS {
        let value = pattern(2, length);
        assert_eq!(put(&server, "k", "text/html", &value), 200);
        assert_eq!(server.get("k").must("content-type"), "text/html");
        assert_eq!(put(&server, "k", "text/css", &value), 200);
        assert_eq!(server.get("k").must("content-type"), "text/css");
        server.store("k", &value);
        let guess = "application/octet-stream";
        assert_eq!(server.get("k").must("content-type"), guess);
        // An object always has a type: it is the one that the name suggests.
        let guess = Some(guess.as_bytes().to_vec());
        assert_eq!(kept(&server.dir, "k"), by_engine(None, guess));
    }
}

#[test]
fn pages_are_sandboxed_and_no_answer_is_sniffed() {
    let server = TestServer::start(by_engine(&["--compress"], &[]));
    let cases: [(&str, bool); 9] = [
        ("text/html", true),
        ("TEXT/HTML; charset=utf-8", true),
        ("application/xhtml+xml", true),
        ("image/svg+xml", true),
        ("text/xml", true),
        ("application/xml; a=b", true),
        ("application/atom+xml", true),
        ("text/plain", false),
        ("image/png", false),
    ];
    let mut raw = server.connect();
    for length in LENGTHS {
        for (kind, active) in cases {
            assert_eq!(put(&server, "k", kind, &vec![b'a'; length]), 200);
            for lines in [
                "",
                "Range: bytes=0-9\r\n",
                "Range: bytes=0-9,1000-1009\r\n",
                "Accept-Encoding: gzip\r\n",
                // 304.
                "If-None-Match: *\r\n",
            ] {
                for method in ["GET", "HEAD"] {
                    let got = ask(&mut raw, method, "/k", lines, b"");
                    let policy = got.header("content-security-policy");
                    assert_eq!(policy, active.then_some(SANDBOX), "{method} {kind} {lines}");
                    let found = got.all("x-content-type-options");
                    assert_eq!(found, "nosniff", "{method} {kind} {lines}");
                }
            }
        }
    }
    server.store("guessed.html", "<script>");
    let guessed = server.get("guessed.html");
    assert_eq!(guessed.must("content-security-policy"), SANDBOX);
    for request in [
        "GET /gone",
        "GET /%00",
        "POST /k",
        "GET /",
        "OPTIONS /k",
        "DELETE /k",
    ] {
        let (method, target) = request.split_once(' ').expect("both");
        let got = server.request(method, target, "", b"");
        let found = got.all("x-content-type-options");
        assert_eq!(found, "nosniff", "{request} {}", got.status);
    }
}

#[test]
fn an_attribute_set_by_hand_never_injects_a_header() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for length in [10, 30_000, 200_000] {
        server.store("k.css", pattern(3, length));
        let mut sees = |kind: &[u8], expected: &str| {
            set(&server.dir, "k.css", kind);
            let got = ask(&mut raw, "GET", "/k.css", "", b"");
            assert_eq!(got.status, 200, "{}", kind.escape_ascii());
            let found = got.must("content-type");
            assert_eq!(found, expected, "{}", kind.escape_ascii());
            assert_eq!(got.header("x-evil"), None, "{}", kind.escape_ascii());
            let part = ask(&mut raw, "GET", "/k.css", "Range: bytes=0-0,-1\r\n", b"");
            let shown = String::from_utf8_lossy(&part.body).to_lowercase();
            let is_right = !shown.contains("x-evil");
            assert!(is_right, "in a part: {}", kind.escape_ascii());
        };
        sees(b"text/html", "text/html");
        sees(b"image/png", "image/png");
        for evil in [
            &b"text/html\r\nX-Evil: 1"[..],
            b"text/html\nX-Evil: 1",
            b"text/html\rX-Evil: 1",
            b"text/html\0",
            b"text/html\x7f",
            b"\r\n\r\n<script>X-Evil: 1</script>",
            b"text/html; a=\"\r\nX-Evil: 1\"",
            b"text/h\xff",
            "text/h\u{e9}ml".as_bytes(),
            b"",
            b"text",
            &[b"text/html; a=".to_vec(), vec![b'x'; 900]].concat(),
        ] {
            sees(evil, "text/css");
        }
        sees(b"text/csv", "text/csv");
    }
}
