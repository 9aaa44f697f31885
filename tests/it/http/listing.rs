//! Proves the listing: every key once, in byte order, page by page, in both formats, for all names and during changes;
//! with an index and without. Without one its memory is bounded by the page. It does not run on reactors.

use super::ODD_NAMES;
use super::forms::{FORMS, JSON, encode, in_form, listed, walk};
use crate::support::prelude::*;

/// The keys of the first page.
fn keys(server: &TestServer, query: &str) -> Vec<String> {
    let (paths, _) = listed(&mut server.connect(), &format!("/{query}"), JSON);
    paths
}

/// Follows each form of listing from the root down, as a mirror does: what has no `/` at the end is a value.
fn mirror(raw: &mut Raw, form: &str) -> BTreeMap<String, Vec<u8>> {
    let (mut values, mut folders) = (BTreeMap::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        let path = format!("/{folder}");
        let mut query = Some(in_form("?delimiter=/&limit=3", form));
        while let Some(here) = query {
            let (paths, next) = listed(raw, &format!("{path}{here}"), form);
            for path in paths {
                if path.ends_with('/') {
                    folders.push(path);
                    continue;
                }
                assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
                let got = ask(raw, "GET", &format!("/{path}"), "", b"");
                assert_eq!(got.status, 200, "{path}");
                let key = percent_encoding::percent_decode_str(&path).decode_utf8();
                let key = key.expect("UTF-8").into_owned();
                assert_eq!(values.insert(key, got.body), None, "{path} twice");
            }
            query = next;
        }
    }
    values
}

#[test]
fn who_follows_a_listing_of_any_form_finds_every_key_and_no_forged_one() {
    let server = TestServer::start(&[]);
    let mut keys = BTreeMap::new();
    for (at, name) in ODD_NAMES.split('|').enumerate() {
        let (below, beside) = (format!("in/{name}"), format!("{name}-/x"));
        for key in [
            name.to_owned(),
            below,
            beside,
            format!("deep/{name}/{name}/x"),
        ] {
            // `-` names the server's own pages in front.
            if key == "-" || key.starts_with("-/") || !takes_key(&key) {
                continue;
            }
            let value = vec![b'x'; at + key.len()];
            server.dir.place(&key, &value);
            keys.insert(key, value);
        }
    }
    let mut raw = server.connect();
    for form in FORMS {
        let found = mirror(&mut raw, form);
        assert!(found.keys().eq(keys.keys()), "{form}: {:?}", found.keys());
        assert_eq!(found, keys, "{form}");
        let walked = walk(&mut raw, "/?limit=7", form).concat();
        let walked: BTreeSet<_> = walked.iter().collect();
        assert!(walked.into_iter().eq(keys.keys()), "{form}");
    }
    for key in keys.keys() {
        let found = walk(&mut raw, &format!("/?prefix={}", encode(key)), JSON);
        assert!(found.concat().contains(key), "{key:?}");
    }
}

#[test]
fn the_limit_has_bounds_and_a_default() {
    let server = TestServer::start(&[]);
    for n in 0..1_100 {
        server.dir.place(&format!("k{n:05}"), "");
    }
    assert_eq!(keys(&server, "?format=json").len(), 1_000);
    for (limit, count) in [("1", 1), ("1000", 1000), ("1100", 1100), ("10000", 1100)] {
        let found = keys(&server, &format!("?limit={limit}")).len();
        assert_eq!(found, count, "limit={limit}");
    }
    let bad = "0 10001 -1 ten 1e3 99999999999999999999999 1.5 %31%00";
    for limit in words(bad).into_iter().chain([""]) {
        let status = server.get(&format!("?limit={limit}")).status;
        assert_eq!(status, 400, "limit={limit}");
    }
}

#[test]
fn listing_50000_keys_takes_little_memory_and_no_reactor() {
    const KEYS: usize = 50_000;
    directory_only!("the index of listings");
    let dir = DataDir::in_memory();
    // Without an index, each page is a walk.
    let args = ["--threads", "1", "--listing-index", "0"];
    let server = Launch::new(&args).on(&dir).start();
    let long = "x".repeat(90);
    for n in 0..KEYS {
        fs::File::create(dir.file(format!("{n:06}{long}"))).expect("a value by hand");
    }
    keys(&server, "?limit=1000");
    let before = server.proc().peak_rss_kib();
    let page = |page: usize| {
        let target = format!("/?after={:06}&limit=1000", page * 15_000);
        let (paths, _) = listed(&mut server.connect(), &target, JSON);
        assert_eq!(paths.len(), 1000);
    };
    let cpu = || ["reactor-", "disk-"].map(|names| server.proc().cpu_of(names));
    let idle = cpu();
    page(0);
    let used = cpu();
    let [reactors, disk] = [0, 1].map(|names| used[names].saturating_sub(idle[names]));
    assert!(disk > reactors, "{reactors:?} {disk:?}: who walks?");
    (1..3).for_each(page);
    let grown = server.proc().peak_rss_kib().saturating_sub(before); // the kernel counts by the batch
    let is_right = grown < 4 * 1024;
    assert!(is_right, "{grown} KiB for pages of 1000 keys of 96 bytes");
    let names = server.proc().threads().into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.collect();
    let is_right = names.iter().any(|name| name.starts_with("disk-list-"));
    assert!(is_right, "{names:?}");
}

/// A script puts it behind `after=` or `files=`, and into a path.
#[test]
fn a_line_of_a_listing_is_the_same_key_in_a_path_and_in_a_query() {
    let server = TestServer::start(&[]);
    let names = "!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~ ".chars();
    let mut keys: Vec<String> = names.map(|c| format!("d/x{c}y")).collect();
    keys.sort_unstable();
    for key in &keys {
        server.dir.place(key, key);
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    while seen.len() <= keys.len() {
        let target = format!("/?format=text&limit=1&after={after}");
        let line = server.request("GET", &target, "", b"").text();
        if line.is_empty() {
            break;
        }
        line.trim_end().clone_into(&mut after);
        seen.push(server.get(&after).text());
        let name = after.strip_prefix("d/").expect("below the folder");
        let target = format!("/d/?archive=tar&files={name}");
        let archive = server.request("GET", &target, "", b"");
        assert_eq!(archive.status, 200, "{name}");
    }
    assert_eq!(seen, keys);
}

/// One who looks again and again, as the page does, gets a list only when it is another.
#[test]
fn a_listing_has_an_entity_tag_and_is_304_while_it_is_the_same() {
    let server = TestServer::start(&[]);
    server.store("a/k", "x");
    for (at, query) in [
        "/?delimiter=/",
        "/?format=text",
        "/?format=html",
        "/a/?limit=1",
    ]
    .into_iter()
    .enumerate()
    {
        let get = |lines: &str| server.request("GET", query, lines, b"");
        let first = get("");
        let etag = first.must("etag").to_owned();
        let known = format!("If-None-Match: {etag}\r\n");
        let again = get(&known);
        assert_eq!((again.status, again.must("etag")), (304, &*etag), "{query}");
        assert_eq!(again.body, b"");
        assert_eq!(get("If-None-Match: \"other\"\r\n").status, 200);
        // It has no date: wget asks by that of its copy.
        for field in ["If-Modified-Since", "If-Unmodified-Since"] {
            for year in [1994, 2094] {
                let line = format!("{field}: Sat, 06 Nov {year} 08:49:37 GMT\r\n");
                assert_eq!(get(&line).status, 200, "{query} {line}");
            }
        }
        // Another value in a folder that is one name in the list changes nothing.
        server.store("a/k", format!("of {query}"));
        let is_known = query.contains("delimiter") || query.contains("text");
        let is_known = is_known || query.contains("html");
        assert_eq!(get(&known).status == 304, is_known, "{query}");
        server.store(&format!("new{at}"), "x");
        assert_eq!(get(&known).status, 200, "{query}");
    }
}
