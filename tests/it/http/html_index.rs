//! Proves which form a listing has when the client asks for none, and that the HTML index for programs that follow
//! links has links to keys and folders alone. tests/clients has the programs.

use super::forms::INDEX as ANYTHING;
use crate::support::prelude::*;

const BROWSER: &str =
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\n";
/// Which of the four it is: the page has scripts, the index has none.
fn form(got: &Response) -> &'static str {
    match got.must("content-type") {
        "application/json" => "json",
        "text/plain; charset=utf-8" => "text",
        "text/html; charset=utf-8" if HtmlPage::parse(&got.body).named("script").count() > 0 => {
            "page"
        }
        "text/html; charset=utf-8" => "index",
        other => panic!("{other}"),
    }
}

#[test]
fn who_asks_for_nothing_gets_an_index_of_links() {
    let server = TestServer::start(&[]);
    server.store("a/k", "v");
    let mut raw = server.connect();
    // The query, what is accepted, and the form. One of the parameters of a listing is asked by a program that reads
    // JSON; `format` wins over Accept. src/http/head/accept.rs has the others.
    let asked = "
        ; ; index
        ; */* ; index
        ? ; */* ; index
        ; image/png, */*;q=0.1 ; index
        ; image/png ; index
        ; text/html, */*;q=0.8 ; page
        ; application/json, text/html;q=0.9 ; json
        ; */*, text/html;q=0 ; json
        ; text/plain, */* ; text
        ?limit=1 ; text/* ; text
        ; BROWSER ; page
        ; text/html ; page
        ; application/json ; json
        ; application/json, text/plain, */* ; json
        ; text/plain ; text
        ?prefix= ; ; json
        ?limit=1 ; */* ; json
        ?after=a ; */* ; json
        ?delimiter=/ ; */* ; json
        ?limit=1 ; BROWSER ; page
        ?limit=1 ; text/plain ; text
        ?limit=1 ; text/plain;q=0.5, application/json ; json
        ?format=text ; */* ; text
        ?format=text ; BROWSER ; text
        ?format=json ; ; json
        ?format=json&limit=1 ; BROWSER ; json
        ?format=html ; ; index
        ?format=html ; BROWSER ; page";
    for [query, accept, expected] in table(asked) {
        let accept = &match accept {
            "" => String::new(),
            "BROWSER" => BROWSER.to_owned(),
            accept => format!("Accept: {accept}\r\n"),
        };
        for folder in ["/", "/a/"] {
            let target = format!("{folder}{query}");
            let got = ask(&mut raw, "GET", &target, accept, b"");
            assert_eq!(got.status, 200, "{target} {accept}");
            assert_eq!(form(&got), expected, "{target} {accept}");
            let vary = if expected == "page" {
                "accept, accept-encoding"
            } else {
                "accept"
            };
            assert_eq!(got.must("vary"), vary, "{target} {accept}");
            let head = ask(&mut raw, "HEAD", &target, accept, b"");
            let seen = (head.must("content-type"), head.length());
            assert_eq!(seen, (got.must("content-type"), got.body.len()));
        }
    }
    for bad in ["?format=xml", "?format=", "?format=HTML"] {
        for accept in [ANYTHING, BROWSER] {
            let got = ask(&mut raw, "GET", &format!("/{bad}"), accept, b"");
            assert_eq!(got.status, 400, "{bad}");
        }
    }
}

/// That its links are to keys and folders alone is proved for each form in `folders`.
#[test]
fn an_index_has_a_title_a_way_up_and_nothing_else_that_looks_like_an_address() {
    let server = TestServer::start(&[]);
    server.store("f/a&b", "");
    for (target, title, expected) in [
        ("/", "Index of /", &["f/"][..]),
        ("/f/", "Index of /f", &["../", "a%26b"]),
        ("/nothing/", "Index of /nothing", &["../"]),
    ] {
        let got = server.request("GET", target, ANYTHING, b"");
        let index = HtmlPage::parse(&got.body);
        let links = index.named("a").map(|link| link.attribute("href"));
        assert!(links.eq(expected.iter().copied().map(Some)), "{target}");
        assert!(index.named("title").map(|it| &*it.text).eq([title]));
        // Some programs take what looks like an address anywhere for a link.
        let text = got.text();
        assert!(!text.contains("://"), "{text}");
        assert!(text.len() < 1024, "{} bytes", text.len());
        let policy = got.must("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert_eq!(got.must("x-content-type-options"), "nosniff");
        assert_eq!(got.must("cache-control"), "no-cache");
    }
}

/// As nginx and Apache write them, so that programs that compare times and lengths read them.
#[test]
fn a_line_of_an_index_has_time_and_length() {
    let server = TestServer::start(&[]);
    server.store("f/k", "12345");
    let modified = httpdate::parse_http_date(server.get("f/k").must("last-modified"));
    let modified = humantime::format_rfc3339_seconds(modified.expect("a date")).to_string();
    let body = ask(&mut server.connect(), "GET", "/f/", "", b"").text();
    let line = body.lines().find(|line| line.contains("\"k\""));
    let line: Vec<&str> = line.expect("a line").split_whitespace().collect();
    let ["<a", "href=\"k\">k</a>", date, clock, "5"] = line[..] else {
        panic!("{line:?}")
    };
    assert_eq!(clock, &modified[11..16]);
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = 3 * (modified[5..7].parse::<usize>().expect("a month") - 1);
    let month = &months[month..month + 3];
    let expected = format!("{}-{month}-{}", &modified[8..10], &modified[..4]);
    assert_eq!(date, expected);
}
