//! Proves that a browser gets a page for each failure, with a way back, and everyone else a line; and that the page for browsers
//! comes in gzip to those that take it.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::support::prelude::*;

const HTML: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

#[test]
fn a_browser_gets_a_page_for_each_failure_and_others_a_line() {
    let server = TestServer::start(&["--max-body", "1KiB"]);
    server.store("a/b", "x");
    let unclear = "The server does not understand this";
    let failures = format!(
        "
        GET /a/none ; 0 ;  ; 404 ; There is no such file
        GET /a/b ; 0 ; If-Match: \"0\" ; 412 ; It has changed meanwhile
        PUT /a ; 1 ;  ; 409 ; Something is in the way
        PUT /large ; 2000 ;  ; 413 ; This is too large
        GET /a/%zz ; 0 ;  ; 400 ; {unclear}
        GET /?limit=0 ; 0 ;  ; 400 ; {unclear}
        PUT /c ; 1 ; Sec-Fetch-Site: cross-site ; 403 ; This is not allowed
        BREW /a/b ; 0 ;  ; 405 ; {unclear}"
    );
    for [request, length, line, status, title] in table(&failures) {
        let (method, target) = request.split_once(' ').expect("both");
        let (body, status) = (
            vec![0; length.parse().expect("a length")],
            status.parse().expect("a status"),
        );
        let lines = if line.is_empty() {
            String::new()
        } else {
            format!("{line}\r\n")
        };
        let body = &body[..];
        let got = server.request(method, target, &format!("{HTML}{lines}"), body);
        let seen = (got.status, got.must("content-type"));
        assert_eq!(seen, (status, "text/html; charset=utf-8"), "{target}");
        assert_eq!(got.must("cache-control"), "no-store", "{target}");
        let policy = got.must("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        let page = HtmlPage::parse(&got.body);
        let heads: Vec<_> = page.named("h1").map(|it| it.text.clone()).collect();
        assert_eq!(heads, [title], "{method} {target}");
        assert!(page.named("a").count() > 0, "{target}: no way back");
        assert_eq!(page.named("script").count(), 0);
        for accept in [
            "",
            "Accept: */*\r\n",
            "Accept: application/json, text/html;q=0.5\r\n",
        ] {
            let got = server.request(method, target, &format!("{accept}{lines}"), body);
            assert_eq!(
                (got.status, got.must("content-type")),
                (status, "text/plain; charset=utf-8")
            );
        }
    }
}

#[test]
fn the_page_comes_in_gzip_to_those_that_take_it() {
    let server = TestServer::start(&[]);
    server.store("k", "x");
    let get = |lines: &str| server.request("GET", "/", &format!("{HTML}{lines}"), b"");
    let plain = get("");
    assert_eq!(plain.header("content-encoding"), None);
    let coded = get("Accept-Encoding: gzip, br\r\n");
    assert_eq!(coded.must("content-encoding"), "gzip");
    let mut decoded = Vec::new();
    GzDecoder::new(&coded.body[..])
        .read_to_end(&mut decoded)
        .expect("gzip");
    assert!(decoded == plain.body, "another page");
    // All that the page is made of comes in one answer, and is small.
    assert!(coded.body.len() < 60 << 10, "{} bytes", coded.body.len());
    let etag = coded.must("etag");
    assert_ne!(etag, plain.must("etag"));
    let again = get(&format!(
        "Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n"
    ));
    assert_eq!((again.status, again.must("etag")), (304, etag));
    assert_eq!(
        get("Accept-Encoding: gzip;q=0\r\n").header("content-encoding"),
        None
    );
}
