//! Proves `[[site]]`: a folder is opened as its index and still listed for those who ask, stored pages run scripts
//! where an operator says so, and siblings answer clients that take them.

mod siblings;
mod stand_ins;

use crate::support::prelude::*;

/// What a browser sends to open an address.
const BROWSER: &str =
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\n";

/// What a guessed type of text has behind it.
const UTF8: &str = "; charset=utf-8";

const DOCS: &str = "prefix = \"docs/\"";

/// A server with a site for each of these tables.
fn serve(tables: &[&str]) -> TestServer {
    let args: Vec<&str> = tables.iter().flat_map(|table| ["--site", *table]).collect();
    TestServer::start(&args)
}

/// The headers of an answer that say something of it.
fn headers(of: &Response) -> BTreeSet<(String, String)> {
    let kept = |name: &str| !["date", "transfer-encoding", "connection"].contains(&name);
    let headers = of.headers.iter().filter(|(name, _)| kept(name));
    headers.cloned().collect()
}

#[test]
fn a_folder_is_opened_as_its_index() {
    let server = serve(&[DOCS]);
    for folder in ["docs/", "docs/guide/", "other/"] {
        server.store(&format!("{folder}index.html"), format!("index of {folder}"));
    }
    server.store("docs/bare/x", "v");
    let mut raw = server.connect();
    for lines in ["", BROWSER, "Accept: */*\r\n", "Accept: image/png\r\n"] {
        for folder in ["docs/", "docs/guide/"] {
            for query in ["", "?", "?v=1", "?path=/story/a--b"] {
                let at = format!("/{folder}{query}");
                let index = ask(&mut raw, "GET", &format!("/{folder}index.html"), "", b"");
                let got = ask(&mut raw, "GET", &at, lines, b"");
                let found = (got.status, got.text());
                assert_eq!(found, (200, format!("index of {folder}")));
                // The address has a listing too.
                let mut expected = headers(&index);
                expected.remove(&("vary".to_owned(), "accept-encoding".to_owned()));
                expected.insert(("vary".to_owned(), "accept, accept-encoding".to_owned()));
                assert_eq!(headers(&got), expected, "{at} {lines}");
                let head = ask(&mut raw, "HEAD", &at, lines, b"");
                assert_eq!(head.status, 200, "{at} {lines}");
                assert_eq!(headers(&head), expected, "{at} {lines}");
                let known = format!("{lines}If-None-Match: {}\r\n", index.must("etag"));
                let known = ask(&mut raw, "GET", &at, &known, b"");
                let varies = known.all("vary");
                assert_eq!((known.status, &*varies), (304, "accept, accept-encoding"));
                let part = ask(&mut raw, "GET", &at, "Range: bytes=0-4\r\n", b"");
                assert_eq!((part.status, part.text()), (206, "index".to_owned()));
            }
        }
        for folder in ["docs/bare/", "docs/none/", "other/", ""] {
            let got = ask(&mut raw, "GET", &format!("/{folder}"), lines, b"");
            let (status, text) = (got.status, got.text());
            // The page of a folder that is not there says so.
            let is_absent = (folder, lines) == ("docs/none/", BROWSER);
            let is_right =
                status == if is_absent { 404 } else { 200 } && !text.contains("index of");
            assert!(is_right, "{folder}: {status} {text}");
        }
    }
    // An index that is no text varies by nothing else.
    let server = serve(&["prefix = \"docs/\", index = \"i.png\""]);
    server.store("docs/i.png", "v");
    assert_eq!(server.get("docs/").must("vary"), "accept");
    assert_eq!(server.get("docs/i.png").header("vary"), None);
}

#[test]
fn an_index_is_the_value_that_it_is_now() {
    serve(&[DOCS]).talk(
        "
        PUT /docs/guide/x v ; 200
        PUT /docs/index.html one ; 200
        GET /docs/ ; 200 ; ; =one
        PUT /docs/index.html another ; 200
        GET /docs/ ; 200 ; ; =another
        DELETE /docs/index.html ; 200
        GET /docs/ ; 200 ; ; guide",
    );
}

#[test]
fn a_folder_with_an_index_is_listed_for_those_who_ask() {
    let server = serve(&[DOCS]);
    server.store("docs/index.html", "the index");
    for (query, lines) in [
        ("", "Accept: application/json\r\n"),
        ("", "Accept: text/plain\r\n"),
        ("?format=json", BROWSER),
        ("?format=html", ""),
        ("?format=html", BROWSER),
        ("?format=text", ""),
        ("?limit=1", ""),
        ("?prefix=i", ""),
        ("?prefix=i", BROWSER),
        ("?after=a", ""),
        ("?delimiter=/", ""),
    ] {
        let got = server.request("GET", &format!("/docs/{query}"), lines, b"");
        let text = got.text();
        assert_eq!(got.status, 200, "{query} {lines}");
        let is_listing = text.contains("index.html") && !text.contains("the index");
        assert!(is_listing, "{query} {lines}: {text}");
    }
    let listed = server.request("GET", "/?prefix=docs/&format=text", "", b"");
    assert_eq!(listed.text(), "docs/index.html\n");
    assert_eq!(server.get("docs/?limit=x").status, 400);
}

#[test]
fn the_name_of_a_folder_leads_to_its_index() {
    let server = serve(&[DOCS]);
    server.store("docs/index.html", "v");
    server.store_each("docs/a%20b/index.html docs/bare/x other/index.html", "v");
    server.talk(
        "
        GET,HEAD /docs ; 302 ; ; ; location: docs/
        GET,HEAD /docs?path=/story/a--b ; 302 ; ; ; location: docs/?path=/story/a--b
        GET,HEAD /docs/a%20b ; 302 ; ; ; location: ../docs/a%20b/
        GET,HEAD /docs%2Fa%20b ; 302 ; ; ; location: docs/a%20b/
        GET,HEAD /docs/bare ; 404 ; ; ; location: -
        GET,HEAD /docs/none ; 404 ; ; ; location: -
        GET,HEAD /doc ; 404 ; ; ; location: -
        GET,HEAD /other ; 404 ; ; ; location: -
        GET /docs%2F ; 302 ; ; ; location: docs/
        GET /docs/bare ; 302 ; Accept: text/html
        GET /other ; 302 ; Accept: text/html",
    );
}

/// Else relative scripts, styles and links of the page would come from outside of its folder, where others may write.
#[test]
fn a_value_of_a_site_has_one_address_in_which_no_slash_is_encoded() {
    let server = serve(&["prefix = \"docs/\", scripts = true", "prefix = \"plain/\""]);
    server.store_each(
        "docs/index.html docs/a/b.html docs/a/b.html.gz plain/x.svg other/x",
        "v",
    );
    for lines in [
        "",
        BROWSER.trim_end(),
        "Range: bytes=0-0",
        "Accept-Encoding: gzip",
    ] {
        let rows = "
            GET,HEAD /docs%2Findex.html ; 302 ; LINES ; ; location: docs/index.html
            GET,HEAD /docs%2findex.html?v=1 ; 302 ; LINES ; ; location: docs/index.html?v=1
            GET,HEAD /docs%2Fa/b.html ; 302 ; LINES ; ; location: ../docs/a/b.html
            GET,HEAD /docs/a%2Fb.html ; 302 ; LINES ; ; location: ../docs/a/b.html
            GET,HEAD /docs%2Fa%2Fb.html ; 302 ; LINES ; ; location: docs/a/b.html
            GET,HEAD /docs%2Fa%2Fb.html.gz ; 302 ; LINES ; ; location: docs/a/b.html.gz
            GET,HEAD /plain%2Fx.svg ; 302 ; LINES ; ; location: plain/x.svg";
        server.talk(&rows.replace("LINES", lines));
    }
    server.talk(
        "
        GET,HEAD /docs%2Fnone.html ; 404
        GET,HEAD /other%2Fx ; 200
        GET,HEAD /docs/a/b.html ; 200
        GET,HEAD /d%6Fcs/a/b%2Ehtml ; 200",
    );
}

#[test]
fn sites_lie_in_sites_and_have_indexes_of_their_own() {
    let server = serve(&[
        "prefix = \"\", index = \"home\"",
        "prefix = \"a/b/\", index = \"start.htm\"",
    ]);
    for key in words("home a/home a/b/start.htm a/b/home a/b/c/start.htm") {
        server.store(key, key);
    }
    server.talk(
        "
        GET / ; 200 ; ; =home
        GET /a/ ; 200 ; ; =a/home
        GET /a/b/ ; 200 ; ; =a/b/start.htm
        GET /a/b/c/ ; 200 ; ; =a/b/c/start.htm
        GET /a ; 302 ; ; ; location: a/
        GET /a/b ; 302 ; ; ; location: ../a/b/
        GET /a/b/c ; 302 ; ; ; location: ../../a/b/c/",
    );
}

#[test]
fn stored_pages_run_scripts_where_an_operator_says_so() {
    let server = serve(&[
        "prefix = \"docs/\", scripts = true",
        "prefix = \"docs/safe/\"",
        "prefix = \"plain/\"",
    ]);
    for (folder, runs) in [
        ("docs/", true),
        ("docs/a/b/", true),
        ("docs/safe/", false),
        ("plain/", false),
        ("docs", false),
        ("", false),
    ] {
        for name in ["index.html", "x.svg", "x.xml", "x.xhtml"] {
            let at = if folder == "docs" {
                format!("docs{name}")
            } else {
                format!("{folder}{name}")
            };
            server.store(&at, "v");
            let of_page = server.get(&at);
            let known = format!("If-None-Match: {}\r\n", of_page.must("etag"));
            let known = server.request("GET", &format!("/{at}"), &known, b"");
            assert_eq!(known.status, 304, "/{at}");
            for got in [of_page, server.ask("HEAD", &at), known] {
                let policy = got.header("content-security-policy");
                let is_boxed = policy.is_some_and(|policy| policy.starts_with("sandbox;"));
                assert_eq!((policy.is_none(), is_boxed), (runs, !runs), "/{at}");
            }
            assert_eq!(server.get(&at).must("x-content-type-options"), "nosniff");
        }
    }
    // A listing is the server's own page.
    let listing = server.request("GET", "/docs/a/", BROWSER, b"");
    assert!(listing.header("content-security-policy").is_some());
}

/// Browsers run a module, compile a wasm and take a font only with the right type.
#[test]
fn the_values_of_a_site_have_the_types_that_browsers_want() {
    let server = serve(&[DOCS]);
    for (name, media_type) in [
        ("index.html", "text/html; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "application/javascript; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.ttf", "font/ttf"),
        ("A.OTF", "font/otf"),
        ("a.xml", "text/xml"),
        ("a.svg", "image/svg+xml"),
        ("a.webmanifest", "application/manifest+json"),
    ] {
        server.store(&format!("docs/{name}"), "v");
        let got = server.get(&format!("docs/{name}"));
        // An S3 store does not say whether a text is UTF-8.
        let media_type = by_engine(media_type, media_type.trim_end_matches(UTF8));
        assert_eq!(got.must("content-type"), media_type, "{name}");
    }
}

#[test]
fn without_a_table_there_is_no_site_and_with_compat_none_either() {
    let server = TestServer::start(&[]);
    server.store("index.html", "the index");
    server.store("index.html.br", "coded");
    let got = server.get("");
    assert!(!got.text().contains("the index"), "{}", got.text());
    server.talk("GET /index.html ; 200 ; Accept-Encoding: br ; =the index ; vary: -");
    directory_only!("the mode of the C server");
    let server = TestServer::start(&["--compat", "--site", "prefix = \"\", scripts = true"]);
    server.store("index.html", "v");
    server.store("index.html.br", "coded");
    let fields = "vary: - | content-security-policy";
    let rows = "GET / ; 404\nGET /index.html ; 200 ; Accept-Encoding: br ; =v ;";
    server.talk(&format!("{rows} {fields}"));
}
