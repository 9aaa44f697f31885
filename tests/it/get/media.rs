//! Proves media types (RFC 9110, section 8.3): guessed only if none was given, and that no stored page can act as this
//! origin. `stored_fields` proves that they are kept, and are no way to inject a header.

use crate::support::prelude::*;

/// An opaque origin: no script, no form, no resource of other servers.
const SANDBOX: &str =
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'";

fn put(server: &TestServer, key: &str, kind: &str, value: &[u8]) -> u16 {
    let line = format!("Content-Type: {kind}\r\n");
    let path = format!("/{key}");
    server.request("PUT", &path, &line, value).status
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
        ("a.b.c.txt", plain),
        ("a.TXT", plain),
        ("a.tar.gz", "application/gzip"),
        ("%C3%A9.png", "image/png"),
        ("a", other),
        ("html", other),
        (".html", other),
        ("a.", other),
        ("...", other),
        ("a.html;x", other),
        ("a.unheard-of", other),
    ] {
        let path = format!("/{key}");
        // A malformed media type counts as absent (RFC 9110, section 5.3, leaves that to the recipient).
        for given in [
            "X: y",
            "Content-Type: nonsense",
            "Content-Type: text/",
            "Content-Type: */*",
            // curl gives each body this type by itself.
            "Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8",
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
fn pages_are_sandboxed_and_no_answer_is_sniffed_or_kept_unasked() {
    let server = TestServer::start(by_engine(&["--compress"], &[]));
    let cases: [(&str, bool); 4] = [
        ("text/html", true),
        ("TEXT/HTML; charset=utf-8", true),
        ("application/xml; a=b", true),
        ("text/plain", false),
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
                    let found = got.all("cache-control");
                    assert_eq!(found, "no-cache", "{method} {kind} {lines}");
                }
            }
        }
    }
    let active = "text/html;a=b;c=d|TEXT/HTML ; charset=utf-8|application/xhtml+xml|image/svg+xml|\
        IMAGE/SVG+XML;a=b|text/xml|application/xml|text/rdf|application/rss+xml; charset=utf-8|\
        multipart/x-mixed-replace; boundary=a";
    let passive = "application/octet-stream|text/plain; a=text/html|application/json|application/pdf|\
        text/javascript|image/png|text/htmlx";
    for (kinds, policy) in [(active, Some(SANDBOX)), (passive, None)] {
        for kind in kinds.split('|') {
            assert_eq!(put(&server, "k", kind, b"v"), 200);
            let got = server.get("k");
            assert_eq!(got.must("content-type"), kind);
            assert_eq!(got.header("content-security-policy"), policy, "{kind}");
        }
    }
    server.store("guessed.html", "<script>");
    let guessed = server.get("guessed.html");
    assert_eq!(guessed.must("content-security-policy"), SANDBOX);
    for request in "GET /gone|GET /%00|POST /k|GET /|OPTIONS /k|DELETE /k".split('|') {
        let (method, target) = request.split_once(' ').expect("both");
        let got = server.request(method, target, "", b"");
        let found = got.all("x-content-type-options");
        assert_eq!(found, "nosniff", "{request} {}", got.status);
    }
}
