//! Proves which clients get the page at `/` and at a folder, and its policy. tests/browser has the tests in a browser.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};

use crate::get::compression::decoded;
use crate::support::prelude::*;

const CHROMIUM: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n";

fn page(server: &TestServer, method: &str, lines: &str) -> Response {
    server.request(method, "/", lines, b"")
}

/// The text between the tags of every element of this name.
fn inside<'a>(document: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let parts = document.split(&open).skip(1);
    parts
        .map(|part| part.split_once(&close).expect("a closing tag").0)
        .collect()
}

/// A folder without its slash was a 404 without a hint. Other clients keep that, as those of the C server know it.
/// Links are relative to the one address that a page has; that is relative too, for a proxy may have a path in front.
#[test]
fn a_folder_has_the_page_and_a_browser_is_led_to_its_address() {
    let server = TestServer::start(&[]);
    for key in words("album/one a/deep%20album/one value named named-/x index.html") {
        server.store(key, "v");
    }
    let get = |path: &str, accept: &str| server.request("GET", path, accept, b"");
    // Once more, as they are found by then.
    for path in ["/a/", "/a/deep%20album/", "/%61/", "/a/"] {
        let got = get(path, CHROMIUM);
        let media_type = got.must("content-type");
        assert_eq!((got.status, media_type), (200, "text/html; charset=utf-8"));
    }
    for (path, address, otherwise) in [
        ("/a%2Fb/", "../a/b/", 200),
        ("/a/b%2f?limit=1&x=%2F", "../a/b/?limit=1&x=%2F", 200),
        ("/a/b%2Fc/d%2f", "../../a/b/c/d/", 200),
        ("/%5Cevil.example%2F", "%5Cevil.example/", 200),
        ("/http:%2F", "http%3A/", 200),
        ("/album", "album/", 404),
        ("/a/deep%20album", "../a/deep%20album/", 404),
        ("/a%2Fdeep%20album", "a/deep%20album/", 404),
        ("/album", "album/", 404),
    ] {
        let got = get(path, CHROMIUM);
        assert_eq!((got.status, got.must("location")), (302, address));
        let seen = (got.must("vary"), got.must("cache-control"));
        let is_right = otherwise == 404 || seen == ("accept", "no-cache");
        assert!(is_right, "{seen:?}");
        for accept in ["Accept: text/plain\r\n", "Accept: application/json\r\n"] {
            let got = get(path, accept);
            assert_eq!((got.status, got.header("location")), (otherwise, None));
        }
    }
    // A value named like a page is a value; and nobody else gets the page by accident.
    let rows = "
        GET // ; 400 ; CHROMIUM
        GET /a// ; 400 ; CHROMIUM
        GET /.data-server/ ; 400 ; CHROMIUM
        GET /%ff/ ; 400 ; CHROMIUM
        GET /-/ ; 404 ; CHROMIUM
        GET /none ; 404 ; CHROMIUM
        GET /alb ; 404 ; CHROMIUM
        GET /value ; 200 ; CHROMIUM ; =v
        GET /named ; 200 ; CHROMIUM ; =v
        GET /index.html ; 200 ; CHROMIUM ; =v
        GET /album ; 404
        GET /album ; 404 ; Accept:
        GET /album ; 404 ; Accept: */*
        GET /album ; 404 ; Accept: text/*
        GET /album ; 404 ; Accept: text/plain
        GET /album ; 404 ; Accept: image/png
        GET /album ; 404 ; Accept: application/json, text/html;q=0.9";
    server.talk(&rows.replace("CHROMIUM", &CHROMIUM.trim_end().replace("\r\n", " | ")));
    directory_only!("--compat");
    let compat = TestServer::start(&["--compat"]);
    assert_eq!(compat.request("GET", "/album", CHROMIUM, b"").status, 404);
}

#[test]
fn read_only_has_the_page_and_offers_no_change() {
    let rights = |args: &[&str]| {
        let got = page(&TestServer::start(args), "GET", CHROMIUM);
        assert_eq!(got.status, 200);
        let page = got.text();
        let (_, rights) = page.split_once("data-rights=\"").expect("rights");
        let (rights, _) = rights.split_once('"').expect("their end");
        (rights.replace("&quot;", "\""), page.contains("id=\"send\""))
    };
    let all = r#"{"list":[""],"read":[""],"create":[""],"write":[""],"delete":[""],"watch":[""],"metrics":true,"share":[]}"#.to_owned();
    assert_eq!(rights(&[]), (all, true));
    let reads =
        r#"{"list":[""],"read":[""],"create":[],"write":[],"delete":[],"watch":[],"metrics":true,"share":[]}"#
            .to_owned();
    assert_eq!(rights(&["--read-only"]), (reads, false));
}

#[test]
fn the_policy_allows_only_the_scripts_of_the_page() {
    let server = TestServer::start(&[]);
    let got = page(&server, "GET", CHROMIUM);
    let document = std::str::from_utf8(&got.body).expect("UTF-8");
    let policy = got.must("content-security-policy");
    let directive = |name: &str| {
        let found = policy.split("; ").find_map(|d| d.strip_prefix(name));
        found
            .unwrap_or_else(|| panic!("no {name} in {policy}"))
            .trim()
    };
    let digests = |tag: &str| {
        let texts = inside(document, tag);
        assert!(!texts.is_empty(), "no {tag}");
        let digests = texts
            .iter()
            .map(|text| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text))));
        digests.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(directive("script-src"), digests("script"));
    assert_eq!(directive("style-src"), digests("style"));
    for name in ["default-src", "base-uri", "frame-ancestors"] {
        assert_eq!(directive(name), "'none'");
    }
    assert_eq!(directive("form-action"), "'self'");
    assert_eq!(directive("connect-src"), "'self'");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(got.must("x-content-type-options"), "nosniff");
    // With `no-referrer` the form would come from the origin `null`.
    assert_eq!(got.must("referrer-policy"), "same-origin");
}

/// Browsers write an error into their console where they ignore it: of an origin that they do not trust.
#[test]
fn the_opener_policy_is_sent_where_browsers_heed_it() {
    let args = [
        "--allowed-host",
        "files.example",
        "--trusted-proxy",
        "127.0.0.1",
    ];
    let server = TestServer::start(&args);
    for (fields, is_sent) in [
        ("Host: files.example\r\n", false),
        ("Host: localhost:8080\r\n", true),
        ("Host: [::1]\r\n", true),
        ("Host: files.example\r\nX-Forwarded-Proto: https\r\n", true),
    ] {
        let mut raw = server.connect();
        let got = raw.ask(format!(
            "GET / HTTP/1.1\r\n{fields}Accept: text/html\r\n\r\n"
        ));
        assert_eq!(got.status, 200);
        let sent = got.header("cross-origin-opener-policy").is_some();
        assert_eq!(sent, is_sent || is_tls(), "{fields}");
    }
}

#[test]
fn the_page_has_the_name_that_the_operator_gives_it() {
    let name = |args: &[&str]| {
        let got = page(&TestServer::start(args), "GET", CHROMIUM);
        let found = HtmlPage::parse(&got.body);
        let title = found.named("title").next().map(|it| it.text.clone());
        (
            found.element("page-name").text.clone(),
            title.expect("a title"),
        )
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(name(&[]), both("data-server"));
    assert_eq!(name(&["--title", "A <b> & \"co\""]), both("A <b> & \"co\""));
    let dir = DataDir::temporary();
    let rules = "realm = \"The archive\"\n[[rule]]\nwho = [\"anonymous\"]\nprefix = \"\"\nmay = [\"list\"]\n";
    let rules = dir.write_private("access.toml", rules);
    assert_eq!(name(&["--access", &rules]), both("The archive"));
}

/// Keys and errors are text: the page never parses markup, evaluates text, or has a handler in an attribute.
#[test]
fn the_page_never_parses_text_as_markup() {
    let server = TestServer::start(&[]);
    let got = page(&server, "GET", CHROMIUM);
    let document = got.text();
    for banned in words(
        "innerHTML outerHTML insertAdjacentHTML document.write DOMParser setHTML srcdoc createContextualFragment eval( \
         Function( javascript: http://www.w3.org/1999/xhtml",
    ) {
        assert!(!document.contains(banned), "{banned} in the page");
    }
    let frame = inside(&document, "script")
        .iter()
        .fold(document.clone(), |rest, script| rest.replace(script, ""));
    let mut handler = frame.split(|c: char| c.is_ascii_whitespace());
    let handler = handler.find(|word| word.starts_with("on") && word.contains('='));
    assert_eq!(handler, None, "a handler in an attribute");
    assert!(!frame.contains(" style="), "a style in an attribute");
    // Pictures of kinds of files are in the style itself.
    let document = document.replace("url(\"data:image/svg+xml,", "");
    for external in ["src=\"http", "href=\"http", "url(", "@import"] {
        let is_right = !document.contains(external);
        assert!(is_right, "{external}: it loads nothing from elsewhere");
    }
}

#[test]
fn an_entity_tag_avoids_sending_the_document() {
    let server = TestServer::start(&[]);
    let got = page(&server, "GET", CHROMIUM);
    assert_eq!(got.must("cache-control"), "no-cache");
    let known = format!("{CHROMIUM}If-None-Match: {}\r\n", got.must("etag"));
    let again = page(&server, "GET", &known);
    assert_eq!((again.status, again.body.len()), (304, 0));
    for name in ["etag", "cache-control", "vary", "content-security-policy"] {
        assert_eq!(again.must(name), got.must(name), "{name}");
    }
    let line = format!("{CHROMIUM}If-None-Match: \"other\"\r\n");
    let other = page(&server, "GET", &line);
    assert_eq!((other.status, other.body == got.body), (200, true));
    // The page has no date, so If-Modified-Since has no effect.
    let line = format!("{CHROMIUM}If-Modified-Since: Sat, 21 Nov 2020 00:00:00 GMT\r\n");
    assert_eq!(page(&server, "GET", &line).status, 200);
}

#[test]
fn the_page_comes_in_gzip_to_those_that_take_it() {
    let server = TestServer::start(&[]);
    server.store("k", "x");
    let get = |lines: &str| server.request("GET", "/", &format!("{CHROMIUM}{lines}"), b"");
    let plain = get("");
    assert_eq!(plain.header("content-encoding"), None);
    let coded = get("Accept-Encoding: gzip, br\r\n");
    assert_eq!(coded.must("content-encoding"), "gzip");
    assert!(decoded(&coded) == plain.body, "another page");
    // All that the page is made of comes in one answer, and is small.
    assert!(coded.body.len() < 60 << 10, "{} bytes", coded.body.len());
    let etag = coded.must("etag");
    assert_ne!(etag, plain.must("etag"));
    let again = get(&format!(
        "Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n"
    ));
    assert_eq!((again.status, again.must("etag")), (304, etag));
    let refused = get("Accept-Encoding: gzip;q=0\r\n");
    assert_eq!(refused.header("content-encoding"), None);
}
