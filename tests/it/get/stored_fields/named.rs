//! The fields of `--keep-field`: what of them is kept and answered, and which are refused.

use std::collections::BTreeSet;

use super::{get, put};
use crate::support::prelude::*;

const TAG: &str = "x-artifact-tag";
const DIGEST: &str = "docker-content-digest";
const OPTIONS: [&str; 2] = ["--keep-field", "X-Artifact-Tag,docker-content-digest"];

fn lines(tag: &str) -> String {
    format!("X-Artifact-Tag: {tag}\r\nDocker-Content-Digest: sha256:00\r\nX-Other: o\r\n")
}

#[test]
fn named_fields_are_kept_with_a_value_and_answered_with_it() {
    let dir = DataDir::temporary();
    for args in taken(&[&[], &["--cache", "0"], &["--durability", "disk"]]) {
        let args = [&OPTIONS[..], args].concat();
        let mut server = Launch::new(&args).on(&dir).start();
        for length in LENGTHS {
            let value = pattern(1, length);
            let stored = put(&server, &format!("k{length}"), &lines("a=, b"), &value);
            assert_eq!((stored.status, stored.header(TAG)), (200, None));
        }
        for _ in 0..2 {
            let mut raw = server.connect();
            for length in LENGTHS {
                let target = format!("/k{length}");
                for (method, range) in [("GET", ""), ("HEAD", ""), ("GET", "Range: bytes=0-0\r\n")]
                {
                    let got = ask(&mut raw, method, &target, range, b"");
                    let found = [TAG, DIGEST, "x-other"].map(|name| got.header(name));
                    let expected = [Some("a=, b"), Some("sha256:00"), None];
                    let expected = if got.status == 416 {
                        [None; 3]
                    } else {
                        expected
                    };
                    assert_eq!(found, expected, "{method} {target} {range}");
                }
                let known = get(&mut raw, &target[1..], "If-None-Match: *\r\n");
                assert_eq!((known.status, known.header(TAG)), (304, None));
            }
            drop(raw);
            server.stop();
            server = Launch::new(&args).on(&dir).start();
        }
        // The next PUT replaces all, and an empty field is none.
        for length in LENGTHS {
            let key = format!("k{length}");
            assert_eq!(put(&server, &key, "X-Artifact-Tag:\r\n", b"v").status, 200);
            let got = server.get(&key);
            assert_eq!([got.header(TAG), got.header(DIGEST)], [None; 2]);
        }
    }
}

#[test]
fn a_field_that_is_not_named_is_neither_kept_nor_answered() {
    let dir = DataDir::temporary();
    let with = |names: &str| Launch::new(&["--keep-field", names]).on(&dir).start();
    let server = Launch::new(&[]).on(&dir).start();
    assert_eq!(put(&server, "k", &lines("one"), b"v").status, 200);
    drop(server);
    let server = with(TAG);
    assert_eq!(server.get("k").header(TAG), None, "it was not kept");
    assert_eq!(put(&server, "k", &lines("two"), b"v").status, 200);
    assert_eq!(server.get("k").header(TAG), Some("two"));
    drop(server);
    let server = with(DIGEST);
    let got = server.get("k");
    assert_eq!([got.header(TAG), got.header(DIGEST)], [None; 2]);
    drop(server);
    assert_eq!(with(TAG).get("k").header(TAG), Some("two"));
}

#[test]
fn a_page_of_another_origin_may_read_them() {
    let origin = ["--cors-origin", "https://app.example"];
    let server = TestServer::start(&[OPTIONS, origin].concat());
    assert_eq!(put(&server, "k", &lines("t"), b"v").status, 200);
    let got = server.request("GET", "/k", "Origin: https://app.example\r\n", b"");
    assert_eq!(got.must(TAG), "t");
    let exposed = got.all("access-control-expose-headers");
    for name in [TAG, DIGEST, "etag"] {
        assert!(exposed.contains(name), "{name}: {exposed}");
    }
    let other = server.request("GET", "/k", "Origin: https://evil.example\r\n", b"");
    assert_eq!(other.header("access-control-expose-headers"), None);
}

#[test]
fn a_resumable_upload_keeps_them() {
    directory_only!("keeps unfinished uploads");
    let server = TestServer::start(&OPTIONS);
    let mut raw = server.connect();
    let upload = Resumable::create(&mut raw, "k", &lines("t"), b"first ");
    assert_eq!(upload.append(&mut raw, 6, true, b"last").status, 200);
    let got = server.get("k");
    let found = (got.header(TAG), &got.body[..]);
    assert_eq!(found, (Some("t"), &b"first last"[..]));
}

#[test]
fn what_cannot_be_kept_is_refused_before_the_body() {
    directory_only!("a store has a limit of its own");
    let server = TestServer::start(&OPTIONS);
    server.store("k", "as it was");
    // Names, colons, spaces and ends of lines count.
    let room = 2048 - "x-artifact-tag: \n".len();
    let long = format!("X-Artifact-Tag: {}\r\n", "t".repeat(room));
    assert_eq!(put(&server, "k", &long, b"as it was").status, 200);
    assert_eq!(server.get("k").must(TAG).len(), room);
    let language = format!("{long}Content-Language: de\r\n");
    let longer = long.replace("\r\n", "t\r\n");
    for (lines, why) in [
        (
            "X-Artifact-Tag: a\r\nX-Artifact-Tag: b\r\n",
            "bad x-artifact-tag: it may stand in a request once",
        ),
        ("X-Artifact-Tag: \u{e9}\r\n", "bad x-artifact-tag"),
        ("X-Artifact-Tag: a\tb\r\n", "bad x-artifact-tag"),
        (&language, "longer than 2048 bytes together"),
        (&longer, "longer than 2048 bytes together"),
    ] {
        let mut raw = server.ask_to_put("k", 1, lines);
        let answer = raw.answer();
        assert_eq!(answer.status, 400, "{lines}");
        assert!(answer.text().contains(why), "{}", answer.text());
        assert_eq!(server.dir.read("k"), b"as it was");
    }
}

/// Whoever stores a value says nothing in the server's name, or with more power than a value has.
#[test]
fn fields_of_the_server_and_of_connections_and_browsers_are_refused_at_the_start() {
    directory_only!("--compress");
    let server = TestServer::start(&words(
        "--cors-origin https://a.example --compress --server-timing",
    ));
    server.store_as(
        "k.html",
        "Cache-Control: no-cache\r\nContent-Language: de\r\n",
        "v",
    );
    let mut names = BTreeSet::new();
    let foreign = "Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n";
    for (method, target, lines) in [
        ("GET", "/k.html", "Want-Repr-Digest: sha-256=1\r\n"),
        ("GET", "/k.html", "Range: bytes=5-\r\n"),
        ("GET", "/", "Accept: text/html\r\n"),
        ("GET", "/?limit=1", foreign),
        (
            "PUT",
            "/k.html",
            "Upload-Complete: ?1\r\nX-Request-Id: i\r\n",
        ),
        ("OPTIONS", "/k.html", foreign),
        ("POST", "/k.html", ""),
    ] {
        let answer = server.request(method, target, lines, b"");
        names.extend(answer.headers.into_iter().map(|(name, _)| name));
    }
    assert!(names.len() > 20, "{names:?}");
    let more = "Set-Cookie Cookie Transfer-Encoding Keep-Alive Host Strict-Transport-Security X-Frame-Options Location Refresh \
        X-Amz-Meta-Tag X-Accel-Redirect WWW-Authenticate Accept-Language User-Agent";
    for name in names.iter().map(String::as_str).chain(words(more)) {
        let ended = Launch::new(&["--keep-field", &format!("x-good,{name}")]).run();
        ended.says(2, &format!("--keep-field {name}: "));
    }
    let ended = Launch::new(&["--keep-field", "a b"]).run();
    ended.says(2, "--keep-field a b: no name of a field");
}
