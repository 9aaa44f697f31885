//! Proves what a site answers where a key has no value: the page at its clean address, the fallback of an application,
//! and its page for 404.

use super::{BROWSER, headers, serve};
use crate::support::prelude::*;

#[test]
fn a_page_has_an_address_without_its_html() {
    let server = serve(&["prefix = \"docs/\", clean = true", "prefix = \"other/\""]);
    for key in ["about.html", "guide.html", "guide/index.html", "v1.2.html"] {
        server.store(&format!("docs/{key}"), format!("page {key}").repeat(500));
    }
    server.store("other/about.html", "v");
    server.store("docs/text", "a value of this name");
    server.store("docs/text.html", "no page");
    for (at, key) in [
        ("about", "about.html"),
        ("guide", "guide.html"),
        ("v1.2", "v1.2.html"),
    ] {
        let page = server.get(&format!("docs/{key}"));
        let clean = server.get(&format!("docs/{at}"));
        assert_eq!((clean.status, &clean.body), (200, &page.body), "{at}");
        assert_eq!(headers(&clean), headers(&page), "{at}");
        let known = format!("If-None-Match: {}\r\n", page.must("etag"));
        let ask = |method, lines: &str| server.request(method, &format!("/docs/{at}"), lines, b"");
        assert_eq!(ask("GET", &known).status, 304);
        assert_eq!(ask("GET", "If-Match: \"x\"\r\n").status, 412);
        let part = ask("GET", "Range: bytes=0-3\r\n");
        assert_eq!((part.status, part.text()), (206, "page".to_owned()));
        let head = ask("HEAD", "");
        assert_eq!((head.status, head.must("etag")), (200, page.must("etag")));
    }
    server.talk(
        "
        GET /docs/text ; 200
        GET /docs/guide/ ; 200
        GET /docs/none ; 404
        GET /docs/about.html.html ; 404
        GET /docs/about/ ; 200
        GET /docs%2Fabout ; 302 ; ; ; location: docs/about
        GET /other/about ; 404
        DELETE /docs/about ; 404",
    );
    assert_eq!(server.get("docs/text").body, b"a value of this name");
    assert_eq!(server.put("docs/new", "v").status, 200);
}

#[test]
fn an_application_answers_the_addresses_that_it_makes_up() {
    let server = serve(&["prefix = \"app/\", fallback = \"index.html\""]);
    server.store("app/index.html", "the application");
    server.store("app/assets/app.js", "script");
    let json = "Accept: application/json\r\n";
    let image = "Accept: image/avif,image/webp,*/*;q=0.8\r\n";
    for (at, lines, is_page) in [
        ("settings/me", BROWSER, true),
        ("settings/me", "", true),
        ("settings/", BROWSER, true),
        ("settings/?tab=1", "Accept: */*\r\n", true),
        ("user/a.b", BROWSER, true),
        ("settings/me", json, false),
        // What a page loads: a page in its place would be a riddle.
        ("assets/old.js", "Accept: */*\r\n", false),
        ("assets/old.js", "", false),
        ("logo.png", image, false),
    ] {
        let got = server.request("GET", &format!("/app/{at}"), lines, b"");
        let found = (got.status, got.text() == "the application");
        let expected = if is_page { (200, true) } else { (404, false) };
        assert_eq!(found, expected, "{at} {lines}");
        assert!(!is_page || got.all("vary").contains("accept"), "{at}");
        let head = server.request("HEAD", &format!("/app/{at}"), lines, b"");
        assert_eq!(head.status, expected.0, "{at} {lines}");
    }
    let etag = server.get("app/index.html").must("etag").to_owned();
    let known = format!("{BROWSER}If-None-Match: {etag}\r\n");
    let known = server.request("GET", "/app/x/y", &known, b"");
    assert_eq!(known.status, 304);
    // A folder is what it is, and so is what changes.
    let folder = server.request("GET", "/app/assets/", BROWSER, b"");
    assert!(folder.text().contains("app.js"));
    let listed = server.request("GET", "/app/none/?format=json", "", b"");
    assert_eq!(listed.json()["keys"].as_array().map(Vec::len), Some(0));
    assert_eq!(server.ask("DELETE", "app/settings").status, 404);
    assert_eq!(server.put("app/settings", "v").status, 200);
    assert_eq!(server.get("app/settings").body, b"v");
    let led = server.request("GET", "/app%2Fx", BROWSER, b"");
    assert_eq!((led.status, led.must("location")), (302, "app/x"));
    assert_eq!(server.get("other").status, 404);
}

#[test]
fn a_site_has_a_page_for_what_is_not_there() {
    let site = "prefix = \"docs/\", not-found = \"errors/404.html\"";
    let server = serve(&[site, "prefix = \"docs/app/\", fallback = \"x.html\""]);
    let plain = server.request("GET", "/docs/none", BROWSER, b"");
    assert_eq!(plain.status, 404);
    server.store("docs/errors/404.html", "nothing here");
    server.store("docs/a/k", "v");
    let html = server.get("docs/errors/404.html");
    for (at, lines) in [
        ("none", BROWSER),
        ("none", ""),
        ("none.js", "Accept: */*\r\n"),
        ("none/", BROWSER),
        ("none", "Range: bytes=0-1\r\n"),
        ("none", "If-None-Match: *\r\n"),
        ("none", "If-Match: \"x\"\r\n"),
    ] {
        let got = server.request("GET", &format!("/docs/{at}"), lines, b"");
        let found = (got.status, got.text(), got.must("content-type"));
        let expected = (404, "nothing here".to_owned(), html.must("content-type"));
        assert_eq!(found, expected, "{at} {lines}");
        let head = server.request("HEAD", &format!("/docs/{at}"), lines, b"");
        assert_eq!(
            (head.status, head.must("content-length")),
            (404, "12"),
            "{at}"
        );
    }
    // A program gets a problem, as ever.
    for lines in ["Accept: application/json\r\n", "Accept: text/plain\r\n"] {
        let got = server.request("GET", "/docs/none", lines, b"");
        assert_eq!(got.status, 404);
        assert!(!got.text().contains("nothing here"), "{lines}");
    }
    server.talk(
        "
        GET /docs/errors/404.html ; 200
        GET /docs/a/ ; 200
        GET /docs/none/?format=json ; 200
        GET /docs/app/none ; 404
        PUT /docs/a ; 409",
    );
    let inner = server.request("GET", "/docs/app/none", BROWSER, b"");
    assert!(!inner.text().contains("nothing here"), "another site");
}

#[test]
fn a_page_of_a_site_lies_below_its_prefix() {
    for (table, why) in [
        (
            "not-found = \"/404.html\"",
            "not-found: give the name of a value",
        ),
        ("fallback = \"../x\"", "fallback: give the name of a value"),
        ("clean = \"yes\"", "clean"),
    ] {
        let table = format!("prefix = \"docs/\", {table}");
        Launch::new(&["--site", &table]).run().says(2, why);
    }
}
