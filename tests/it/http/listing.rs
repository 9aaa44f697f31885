//! Proves the listing: every key once, in byte order, page by page, in both formats, for all names and during changes; with
//! an index and without. Without one its memory is bounded by the page. It does not run on reactors.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use super::ODD_NAMES;
use crate::support::prelude::*;

fn list(raw: &mut Raw, query: &str, lines: &str) -> Response {
    ask(raw, "GET", &format!("/{query}"), lines, b"")
}

fn json(got: &Response) -> Value {
    let found = (got.status, got.must("content-type"));
    assert_eq!(found, (200, "application/json"));
    got.json()
}

fn keys(page: &Value) -> Vec<String> {
    let keys = page["keys"].as_array().expect("an array of keys").iter();
    keys.map(|entry| entry["key"].as_str().expect("a key").to_owned())
        .collect()
}

/// The target of the next page, from the Link field.
fn next(got: &Response) -> Option<String> {
    let link = got.header("link")?;
    let target = link.strip_prefix("<");
    let target = target.and_then(|l| l.strip_suffix(">; rel=\"next\""));
    Some(target.unwrap_or_else(|| panic!("Link: {link}")).to_owned())
}

/// All pages from this one on, found by their links.
fn walk(raw: &mut Raw, first: &str) -> Vec<Vec<String>> {
    let (mut target, mut pages) = (Some(first.to_owned()), Vec::new());
    while let Some(query) = target {
        let got = list(raw, &query, "");
        let page = json(&got);
        pages.push(keys(&page));
        target = next(&got);
        assert_eq!(page["next"].is_null(), target.is_none());
        if let Some(after) = page["next"].as_str() {
            let found = pages.last().and_then(|keys| keys.last());
            assert_eq!(found.map(String::as_str), Some(after));
        }
        assert!(pages.len() < 10_000, "no end");
    }
    pages
}

fn encode(text: &str) -> String {
    percent_encoding::percent_encode(text.as_bytes(), percent_encoding::NON_ALPHANUMERIC)
        .to_string()
}

#[test]
fn the_shape_of_the_json() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let found = json(&list(&mut raw, "?format=json", ""));
    assert_eq!(found, serde_json::json!({"keys": [], "next": null}));
    server.store("b", "12345");
    server.dir.place("a", "");
    let page = json(&list(&mut raw, "?format=json", ""));
    assert_eq!(keys(&page), ["a", "b"]);
    for (entry, size) in page["keys"].as_array().expect("keys").iter().zip([0, 5]) {
        let entry = entry.as_object().expect("an object");
        let names: Vec<&String> = entry.keys().collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert_eq!(entry["size"], size);
        let got = server.get(entry["key"].as_str().expect("a key"));
        assert_eq!(entry["etag"], got.must("etag"));
        let modified = entry["modified"].as_str().expect("a date");
        let modified = humantime::parse_rfc3339(modified).expect("RFC 3339");
        assert_eq!(httpdate::fmt_http_date(modified), got.must("last-modified"));
    }
}

#[test]
fn prefix_after_and_limit_in_byte_order() {
    let server = TestServer::start(&[]);
    let sorted = "B|a|a b|a+b|ab|abc|ab~|ab\u{e9}|b|ba".split('|');
    let sorted: Vec<&str> = sorted.collect();
    for key in sorted.iter().rev() {
        server.dir.place(key, "");
    }
    let mut raw = server.connect();
    for (query, expected, more) in [
        ("?format=json", sorted.clone(), false),
        ("?prefix=ab", vec!["ab", "abc", "ab~", "ab\u{e9}"], false),
        ("?prefix=ab&after=abc", vec!["ab~", "ab\u{e9}"], false),
        ("?after=b", vec!["ba"], false),
        ("?limit=2", vec!["B", "a"], true),
        ("?limit=9", sorted[..9].to_vec(), true),
        ("?prefix=ab&limit=3", vec!["ab", "abc", "ab~"], true),
        ("?prefix=a+&limit=3", vec!["a b"], false),
        ("?prefix=a%2B", vec!["a+b"], false),
        ("?prefix=%61b", sorted[4..8].to_vec(), false),
        ("?prefix=ab%C3%A9", vec!["ab\u{e9}"], false),
    ] {
        let got = list(&mut raw, query, "");
        let page = json(&got);
        assert_eq!(keys(&page), expected, "{query}");
        assert_eq!(page["next"].is_string(), more, "{query}");
        assert_eq!(next(&got).is_some(), more, "{query}");
    }
}

#[test]
fn the_limit_has_bounds_and_a_default() {
    let server = TestServer::start(&[]);
    for n in 0..1_100 {
        server.dir.place(&format!("k{n:05}"), "");
    }
    let mut raw = server.connect();
    assert_eq!(
        keys(&json(&list(&mut raw, "?format=json", ""))).len(),
        1_000
    );
    for (limit, count) in [("1", 1), ("1000", 1000), ("1100", 1100), ("10000", 1100)] {
        let page = json(&list(&mut raw, &format!("?limit={limit}"), ""));
        assert_eq!(keys(&page).len(), count, "limit={limit}");
    }
    let bad = "0 10001 -1 ten 1e3 99999999999999999999999 1.5 %31%00";
    for limit in words(bad).into_iter().chain([""]) {
        let got = list(&mut raw, &format!("?limit={limit}"), "");
        assert_eq!(got.status, 400, "limit={limit}");
    }
}

#[test]
fn hostile_names_forge_no_line_and_no_link() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let keys_of_it = || ODD_NAMES.split('|').filter(|key| takes_key(key));
    for key in keys_of_it() {
        server.store(&encode(key), key);
    }
    let mut sorted: Vec<&str> = keys_of_it().collect();
    sorted.sort_by_key(|key| key.as_bytes());
    assert_eq!(keys(&json(&list(&mut raw, "?format=json", ""))), sorted);
    assert_eq!(walk(&mut raw, "?limit=1").concat(), sorted);
    let text = list(&mut raw, "", "Accept: text/plain\r\n");
    assert_eq!(text.must("content-type"), "text/plain; charset=utf-8");
    let text = text.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), sorted.len(), "{text}");
    for (line, key) in lines.iter().zip(sorted) {
        assert!(line.bytes().all(|b| b.is_ascii_graphic()), "{line:?}");
        let body = ask(&mut raw, "GET", &format!("/{line}"), "", b"").body;
        assert_eq!(body, key.as_bytes(), "{line}");
        let page = list(&mut raw, &format!("?prefix={}", encode(key)), "");
        assert!(keys(&json(&page)).contains(&key.to_owned()), "{key:?}");
    }
}

#[test]
fn only_values_are_listed() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&[]);
    server.store("value", "x");
    let dir = &server.dir;
    fs::create_dir(dir.file("directory")).expect("a directory");
    fs::write(dir.file("directory").join("inside"), "x").expect("a file");
    fs::create_dir_all(dir.file("empty/empty")).expect("a folder without a key");
    symlink("value", dir.file("link")).expect("a link");
    symlink("directory", dir.file("linked-directory")).expect("a link");
    symlink("/nowhere", dir.file("broken")).expect("a link");
    mknodat(CWD, dir.file("fifo"), FileType::Fifo, Mode::RWXU, 0).expect("a fifo");
    std::os::unix::net::UnixListener::bind(dir.file("socket")).expect("a socket");
    fs::write(dir.file(b"\xff\xfe"), "x").expect("a name that is no text");
    fs::write(dir.file(".data-server-old"), "x").expect("a name of the server");
    fs::hard_link(dir.file("value"), dir.file("second")).expect("a hard link");
    let mut raw = server.connect();
    let expected = ["directory/inside", "second", "value"];
    assert_eq!(keys(&json(&list(&mut raw, "?format=json", ""))), expected);
    assert_eq!(walk(&mut raw, "?limit=1").concat(), expected);
    assert_eq!(keys(&json(&list(&mut raw, "?prefix=.data", ""))), [""; 0]);
}

#[test]
fn listing_50000_keys_takes_little_memory_and_no_reactor() {
    const KEYS: usize = 50_000;
    directory_only!("the index of listings");
    let dir = DataDir::in_memory();
    // Without an index, each page is a walk.
    let args = ["--threads", "1", "--listing-index", "0"];
    let server = Launch::new(&args).on(&dir).start();
    server.store("small", "x");
    let long = "x".repeat(90);
    for n in 0..KEYS {
        fs::File::create(dir.file(format!("{n:06}{long}"))).expect("a value by hand");
    }
    let mut raw = server.connect();
    list(&mut raw, "?limit=1000", "");
    let before = server.proc().peak_rss_kib();
    assert_walks_on_other_threads(&server, |raw, page| {
        let after = page * 15_000;
        let got = list(raw, &format!("?after={after:06}&limit=1000"), "");
        assert_eq!(keys(&json(&got)).len(), 1000);
    });
    let grown = server.proc().peak_rss_kib().saturating_sub(before); // the kernel counts by the batch
    let is_right = grown < 4 * 1024;
    assert!(is_right, "{grown} KiB for pages of 1000 keys of 96 bytes");
    let names = server.proc().threads().into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.collect();
    let is_right = names.iter().any(|name| name.starts_with("disk-list-"));
    assert!(is_right, "{names:?}");
}

/// The disk threads take more time for a page than the one reactor, which answers GETs while the second and third page are made.
fn assert_walks_on_other_threads(server: &TestServer, work: impl Fn(&mut Raw, usize)) {
    let done = Done::default();
    let cpu = || ["reactor-", "disk-"].map(|names| server.proc().cpu_of(names));
    let before = cpu();
    // Alone: how many GETs there are beside it, the load of the machine decides.
    work(&mut server.connect(), 0);
    let after = cpu();
    let gets = thread::scope(|scope| {
        let getter = scope.spawn(|| {
            let (mut raw, mut gets) = (server.connect(), 0);
            while !done.is_said() {
                assert_eq!(ask(&mut raw, "GET", "/small", "", b"").body, b"x");
                gets += 1;
                thread::sleep(Duration::from_millis(5)); // a pause in the load: leaves the processors to the walk
            }
            gets
        });
        let saying = done.when_dropped();
        (1..3).for_each(|page| work(&mut server.connect(), page));
        drop(saying);
        getter.join().expect("the reader")
    });
    let [reactors, disk] = [0, 1].map(|names| after[names].saturating_sub(before[names]));
    let is_right = disk > reactors;
    assert!(
        is_right,
        "who walks? reactors {reactors:?}, disk threads {disk:?}"
    );
    assert!(gets > 3, "the reactor answered no GET meanwhile");
}

#[test]
fn a_listing_after_writes_shows_them_at_once() {
    let server = TestServer::start(&["--threads", "2"]);
    let mut raw = server.connect();
    for round in 0..50 {
        let key = format!("k{round}");
        server.store(&key, "x");
        assert!(keys(&json(&list(&mut raw, "?prefix=k", ""))).contains(&key));
        assert_eq!(server.ask("DELETE", &key).status, 200);
        assert!(!keys(&json(&list(&mut raw, "?prefix=k", ""))).contains(&key));
    }
    eventually("nothing is left", || server.dir.names().is_empty());
}
