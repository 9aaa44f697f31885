//! Proves that of a site each value that answers is one that the client may read, by its own key: an index, a sibling,
//! and the index that the name of a folder leads to.

use super::{bearer, rule, serve, serve_on, sign, subject};
use crate::support::prelude::*;

/// What a browser sends to open an address.
const BROWSER: &str = "Accept: text/html,*/*;q=0.8\r\n";

const DOCS: [&str; 2] = ["--site", "prefix = \"docs/\""];

/// Who asks, and what each may do.
const RULES: &[(&str, &str, &[&str])] = &[
    ("all", "docs", &["read", "list"]),
    ("reader", "docs", &["read"]),
    ("lister", "docs/", &["list"]),
    ("of-guide", "docs/guide", &["read"]),
    ("of-plain", "docs/a.css", &["list"]),
    ("of-other", "other/", &["read", "list"]),
];

fn server() -> TestServer {
    let mut policy = String::from("realm = \"tests\"\n");
    for (who, prefix, may) in RULES {
        policy += &subject(who);
        policy += &rule(who, prefix, may);
    }
    policy += &rule("anonymous", "docs/open/", &["read"]);
    let server = serve(&policy, &DOCS);
    for key in [
        "docs/index.html",
        "docs/guide/index.html",
        "docs/open/index.html",
    ] {
        server.dir.place(key, "the index");
    }
    server.dir.place("docs/bare/x", "v");
    server
}

fn asked(server: &TestServer, who: &str, at: &str, lines: &str) -> (u16, bool) {
    let proof = if who.is_empty() {
        String::new()
    } else {
        bearer(who)
    };
    let got = server.request("GET", at, &(proof + lines), b"");
    (got.status, got.text() == "the index")
}

#[test]
fn an_index_is_read_by_those_who_may_read_it_and_listed_by_others_as_ever() {
    let server = server();
    for (who, at, expected) in [
        ("all", "/docs/", (200, true)),
        ("reader", "/docs/", (200, true)),
        ("lister", "/docs/", (200, false)),
        ("of-guide", "/docs/guide/", (200, true)),
        ("of-guide", "/docs/", (403, false)),
        ("of-other", "/docs/", (403, false)),
        ("", "/docs/", (401, false)),
        ("", "/docs/open/", (200, true)),
        // Where there is no index, the folder is listed by those who may.
        ("all", "/docs/bare/", (200, false)),
        ("reader", "/docs/bare/", (403, false)),
        ("lister", "/docs/bare/", (200, false)),
        ("", "/docs/open/none/", (401, false)),
        ("all", "/docs/?format=json", (200, false)),
        ("reader", "/docs/?format=json", (403, false)),
        // To be led to an index takes the right to read it.
        ("all", "/docs", (302, false)),
        ("reader", "/docs/guide", (302, false)),
        ("of-guide", "/docs/guide", (302, false)),
        ("lister", "/docs/guide", (403, false)),
        ("", "/docs/guide", (401, false)),
    ] {
        for lines in ["", BROWSER] {
            assert_eq!(
                asked(&server, who, at, lines),
                expected,
                "{who} {at} {lines}"
            );
        }
    }
}

/// Rules are by prefix, so one that allows the value allows its siblings; a signed link is for one key.
#[test]
fn a_sibling_answers_those_who_may_read_it() {
    directory_only!("an order within a second");
    let dir = DataDir::temporary();
    dir.write_private("k1.key", "0123456789abcdef0123456789abcdef");
    let policy = [
        subject("reader"),
        rule("reader", "docs/a.css", &["read"]),
        "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n".to_owned(),
    ];
    let server = serve_on(&dir, &policy.concat(), &DOCS);
    dir.place("docs/a.css", "plain");
    dir.place("docs/a.css.br", "as br");
    dir.place("docs/index.html", "the index");
    let br = "Accept-Encoding: br\r\n";
    let lines = bearer("reader") + br;
    let got = server.request("GET", "/docs/a.css", &lines, b"");
    assert_eq!(got.text(), "as br");
    assert_eq!(got.all("vary"), "accept-encoding, authorization");
    assert!(got.must("cache-control").starts_with("private"));
    for (key, text) in [("/docs/a.css", "plain"), ("/docs/index.html", "the index")] {
        let link = sign(&dir, "k1", key, &[]);
        assert_eq!(server.request("GET", &link, br, b"").text(), text);
        let (_, query) = link.split_once('?').expect("a query");
        assert_eq!(
            server
                .request("GET", &format!("/docs/?{query}"), br, b"")
                .status,
            401
        );
    }
}

/// A page in place of a value takes the right to both keys: that which was asked for, and its own.
#[test]
fn a_page_in_place_of_a_value_answers_those_who_may_read_it() {
    let policy = [
        subject("all"),
        rule("all", "docs/", &["read"]),
        subject("part"),
        rule("part", "docs/part/", &["read"]),
        rule("part", "docs/about", &["read"]),
    ];
    let site = "prefix = \"docs/\", clean = true, not-found = \"404.html\"";
    let server = serve(&policy.concat(), &["--site", site]);
    server.dir.place("docs/404.html", "the index");
    server.dir.place("docs/about.html", "the index");
    server.dir.place("docs/app.html", "the index");
    for (who, at, expected) in [
        ("all", "/docs/about", (200, true)),
        ("all", "/docs/none", (404, true)),
        // A folder that it may not list is none to it.
        ("all", "/docs/none/", (404, true)),
        ("part", "/docs/about", (200, true)),
        ("part", "/docs/part/none", (404, false)),
        ("part", "/docs/app", (403, false)),
        ("part", "/docs/none", (403, false)),
        ("", "/docs/about", (401, false)),
        ("", "/docs/none", (401, false)),
    ] {
        for lines in ["", BROWSER] {
            let found = asked(&server, who, at, lines);
            assert_eq!(found, expected, "{who} {at} {lines}");
        }
    }
}
