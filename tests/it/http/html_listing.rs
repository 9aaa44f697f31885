//! Proves the listing in the page: a client that follows its links finds every key, and nothing but keys. tests/browser
//! has the tests of what its scripts make of it.

use super::forms::PAGE as HTML;
use crate::support::prelude::*;

fn get(raw: &mut Raw, target: &str) -> Response {
    ask(raw, "GET", target, HTML, b"")
}

fn page(raw: &mut Raw, target: &str) -> HtmlPage {
    let got = get(raw, target);
    let seen = (got.status, got.must("content-type"));
    assert_eq!(seen, (200, "text/html; charset=utf-8"), "{target}");
    HtmlPage::parse(&got.body)
}

fn texts(page: &HtmlPage) -> Vec<String> {
    page.rows().into_iter().map(|row| row.text).collect()
}

#[test]
fn a_page_shows_one_level_of_a_folder() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for key in ["a", "f/a", "f/b/c/d", "f/b-c", "f/b0", "g/x"] {
        server.store(key, key);
    }
    assert_eq!(texts(&page(&mut raw, "/")), ["f/", "g/", "a"]);
    let found = page(&mut raw, "/f/");
    assert_eq!(texts(&found), ["../", "b/", "a", "b-c", "b0"]);
    let got = server.get("f/a");
    let rows = found.rows();
    let seen = (rows[2].size, rows[1].size, &rows[1].time);
    assert_eq!(seen, (Some(3), None, &None));
    let time = humantime::parse_rfc3339(rows[2].time.as_deref().expect("a time"));
    let time = httpdate::fmt_http_date(time.expect("RFC 3339"));
    assert_eq!(time, got.must("last-modified"));
    // A folder that is not there is said to be none.
    assert_eq!(get(&mut raw, "/nothing/").status, 404);
    assert_eq!(texts(&page(&mut raw, "/f/?prefix=b/")), ["../", "b/c/"]);
}

/// A browser draws every row before its scripts run. A longer page is had by the address, and compute threads write it.
#[test]
fn a_page_has_a_thousand_rows_when_the_client_does_not_say() {
    let server = Launch::new(&[]).on(&crate::support::DataDir::in_memory());
    let server = server.start();
    for at in 0..10_001 {
        server.dir.place(&format!("big/{at:05}"), "");
    }
    let mut raw = server.connect();
    let cpu = |name| server.proc().cpu_of(name);
    let before = (cpu("compute-"), cpu("reactor-"));
    let found = page(&mut raw, "/big/?limit=10000");
    for _ in 0..3 {
        get(&mut raw, "/big/?limit=10000");
    }
    let compute = cpu("compute-").saturating_sub(before.0);
    let reactors = cpu("reactor-").saturating_sub(before.1);
    // Reactors send the pages, which a busy machine makes dearer. Had they written them, the compute threads would have
    // done nothing.
    let is_right = compute * 10 > reactors;
    assert!(
        is_right,
        "who writes? reactors {reactors:?}, compute threads {compute:?}"
    );
    assert_eq!(found.rows().len(), 10_001, "../ and 10,000 keys");
    let next = found.next().expect("a next page");
    let got = texts(&page(&mut raw, &format!("/big/{next}")));
    assert_eq!(got, ["../", "10000"]);
    let (mut at, mut rows) = (String::new(), 0);
    for _ in 0..11 {
        let found = page(&mut raw, &format!("/big/{at}"));
        rows += found.rows().len() - 1;
        at = found.next().unwrap_or_default();
        assert_eq!(rows % 1_000 == 0, !at.is_empty(), "{rows}");
    }
    assert_eq!(rows, 10_001);
}

#[test]
fn the_entity_tag_is_of_what_is_shown() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let mut tag = |target: &str| get(&mut raw, target).must("etag").to_owned();
    let empty = tag("/f/");
    server.store("f/a", "1");
    let one = tag("/f/");
    assert_ne!(one, empty);
    assert_eq!(tag("/f/"), one);
    server.store("g", "elsewhere");
    assert_eq!(tag("/f/"), one);
    assert_ne!(tag("/f/?limit=1000&prefix=b"), one);
    server.store("f/a", "12");
    assert_ne!(tag("/f/"), one);

    let known = format!("{HTML}If-None-Match: {}\r\n", tag("/f/"));
    let mut raw = server.connect();
    server.store("f/c", "");
    let got = ["GET", "HEAD"].map(|method| ask(&mut raw, method, "/f/", &known, b""));
    assert_eq!(got.each_ref().map(|got| got.status), [200, 200]);
    assert_eq!(got[0].must("etag"), got[1].must("etag"));
    let stale = format!("{HTML}If-Match: \"other\"\r\n");
    assert_eq!(ask(&mut raw, "GET", "/f/", &stale, b"").status, 412);
}

/// What works only with scripts is hidden until they run, and nothing else is.
#[test]
fn without_scripts_nothing_is_shown_that_does_not_work() {
    let server = TestServer::start(&[]);
    let found = page(&mut server.connect(), "/");
    let controls = ["button", "input", "dialog", "progress"];
    for control in controls.into_iter().flat_map(|name| found.named(name)) {
        let needs = ["for-script", "for-plain", "hidden", "dialog"];
        let is_right = needs.into_iter().any(|it| control.is_within(it));
        assert!(is_right, "{control:?} is shown");
    }
    for shown in ["keys", "rows", "empty"] {
        assert!(
            !found.element(shown).is_within("for-script")
                && !found.element(shown).is_within("hidden")
        );
    }
    assert_eq!(found.named("noscript").count(), 0);
}
