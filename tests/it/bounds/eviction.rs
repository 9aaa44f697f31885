//! A bound that evicts: the value used longest ago goes, whole and in order, and is told of.

use super::{BLOCK, assert_has, each_way, start, store_all, tick};
use crate::support::form::{FORM, file, form};
use crate::support::prelude::*;

/// Room for six values of one block.
const SIX: [&str; 2] = ["--max-size", "24KiB"];

#[test]
fn the_value_used_longest_ago_goes_whatever_the_use() {
    directory_only!("bounds");
    each_way(&SIX, |server| {
        store_all(server, "a b c d e f");
        let uses = [
            ("GET", "a", ""),
            ("HEAD", "b", ""),
            ("PUT", "c", ""),
            ("GET", "d", "Range: bytes=1-2\r\n"),
            ("GET", "e", "If-None-Match: *\r\n"),
        ];
        for (method, key, lines) in uses {
            let path = format!("/{key}");
            let answer = server.request(method, &path, lines, &BLOCK);
            assert!(matches!(answer.status, 200 | 206 | 304), "{method} {key}");
            tick();
        }
        store_all(server, "g");
        assert_has(server, "a b c d e g");
        store_all(server, "h i");
        assert_has(server, "c d e g h i");
        // What a client was refused or a listing showed is not used.
        let refused = server.request("PUT", "/c", "If-Match: \"x\"\r\n", &BLOCK);
        assert_eq!(refused.status, 412);
        assert_eq!(server.get("").status, 200);
        store_all(server, "j k l");
        assert_has(server, "g h i j k l");
    });
}

/// Whoever is told that a value is there relies on it, as build caches do.
#[test]
fn a_value_that_a_client_is_told_to_be_there_counts_as_used() {
    directory_only!("bounds");
    let header = |name: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).expect("a name");
        header.set_size(4096);
        header.set_cksum();
        header
    };
    let packed = [header("e").as_bytes(), &BLOCK[..], &[0; 1024]].concat();
    let form = form(&[(&file("f"), b"v")]);
    each_way(&["--max-size", "36KiB"], |server| {
        store_all(server, "a b c d e f g h i");
        let ways: [(&str, &str, &str, &[u8], u16); 7] = [
            ("PUT", "/a", "If-None-Match: *\r\n", &BLOCK, 412),
            (
                "COPY",
                "/h",
                "Destination: /b\r\nOverwrite: F\r\n",
                b"",
                412,
            ),
            (
                "MOVE",
                "/h",
                "Destination: /c\r\nOverwrite: F\r\n",
                b"",
                412,
            ),
            (
                "PUT",
                "/d",
                "If-None-Match: *\r\nUpload-Complete: ?0\r\n",
                b"v",
                412,
            ),
            ("PUT", "/?archive=tar", "If-None-Match: *\r\n", &packed, 200),
            ("POST", "/-/upload", FORM, &form, 412),
            ("HEAD", "/g", "", b"", 200),
        ];
        for (method, path, lines, body, status) in ways {
            let answer = server.request(method, path, lines, body);
            assert_eq!(answer.status, status, "{method} {path} {}", answer.text());
            tick();
        }
        store_all(server, "j");
        assert_has(server, "a b c d e f g h j");
    });
}

#[test]
fn an_archive_or_a_copy_of_a_folder_uses_no_value() {
    directory_only!("bounds");
    each_way(&["--max-size", "48KiB"], |server| {
        store_all(server, "f/a f/b c d e");
        for archive in ["tar", "zip"] {
            let path = format!("/f/?archive={archive}");
            assert_eq!(server.request("GET", &path, "", b"").status, 200);
        }
        let copied = server.request("COPY", "/f/", "Destination: /g/\r\n", b"");
        assert_eq!(copied.status, 200);
        // What is copied by itself is used.
        let copied = server.request("COPY", "/f/b", "Destination: /h\r\n", b"");
        assert_eq!(copied.status, 201);
        tick();
        store_all(server, "i j k l m n");
        assert_has(server, "d e f/b g/a g/b h i j k l m n");
    });
}

#[test]
fn a_value_served_from_memory_counts_as_used() {
    directory_only!("bounds");
    let server = start(&SIX);
    store_all(&server, "a b c d e f");
    let hits = || Scrape::of(server.addr).count("data_server_cache_hits_total", &[]);
    eventually("the value is in memory", || {
        let before = hits();
        server.get("a");
        hits() > before
    });
    store_all(&server, "b c d e f");
    let before = hits();
    assert_eq!(server.get("a").body, BLOCK);
    assert!(hits() > before, "not from memory");
    tick();
    store_all(&server, "g h");
    assert_has(&server, "a d e f g h");
    assert_eq!(server.get("b").status, 404);
}

#[test]
fn a_value_larger_than_the_bound_is_refused_at_its_head() {
    directory_only!("bounds");
    let server = start(&SIX);
    store_all(&server, "a b");
    let mut raw = server.connect();
    let head = put_head("large", 24 * 1024 + 1);
    let expects = head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    raw.send(expects);
    raw.answer().says(507, "the bound of all values is full");
    // Of an unknown length, it is refused at its end; nothing goes for what cannot be had.
    let large = vec![1; 24 * 1024 + 1];
    assert_eq!(server.put_chunked("large", &large).status, 507);
    assert_has(&server, "a b");
    server.store("fits", &large[1..]);
    assert_has(&server, "fits");
}

#[test]
fn a_value_that_is_evicted_while_it_is_sent_is_sent_to_its_end() {
    directory_only!("bounds");
    let server = start(&["--max-size", "12MiB"]);
    let value = pattern(1, 8 << 20);
    server.store("sent", &value);
    let mut raw = Raw::connect_narrow(server.addr);
    raw.send(get_head("sent"));
    let head = raw.head();
    server.store("next", pattern(2, 8 << 20));
    assert_has(&server, "next");
    assert_eq!(server.get("sent").status, 404);
    assert!(raw.take(head.length()) == value, "all of it");
}

#[test]
fn folders_follow_and_watchers_are_told_the_reason_in_the_order_of_the_changes() {
    directory_only!("bounds");
    each_way(&["--bound", r#"prefix = "c/", max-keys = 2"#], |server| {
        let mut events = Events::open(server, "?prefix=c/", "");
        store_all(server, "d/e c/a/b/1 c/2 c/a/b/3 c/4");
        assert_has(server, "c/a/b/3 c/4 d/e");
        assert_eq!(server.ask("DELETE", "c/4").status, 200);
        store_all(server, "c/5 c/6");
        assert_has(server, "c/5 c/6 d/e");
        assert!(!server.dir.file("c/a").exists(), "a folder of nothing");
        let mut told = Vec::new();
        while told.len() < 10 {
            let block = events.block().expect("more events");
            let json = block.lines().find_map(|line| line.strip_prefix("data: "));
            let Some(json) = json else { continue };
            let event: serde_json::Value = serde_json::from_str(json).expect("JSON");
            let text = |name: &str| event[name].as_str().unwrap_or("").to_owned();
            told.push([text("op"), text("key"), text("reason")].join(" "));
        }
        let expected = "put c/a/b/1 |put c/2 |delete c/a/b/1 evicted|put c/a/b/3 |delete c/2 evicted|put c/4 \
                        |delete c/4 |put c/5 |delete c/a/b/3 evicted|put c/6 ";
        assert_eq!(told.join("|"), expected);
        let removed = Scrape::of(server.addr);
        let removed = removed.count("data_server_removed_total", &[("reason", "evicted")]);
        assert_eq!(removed, 3);
    });
}

#[test]
fn a_value_is_not_evicted_for_its_own_sake() {
    directory_only!("bounds");
    each_way(&SIX, |server| {
        store_all(server, "a b c d e f");
        let tag = server.ask("HEAD", "f").must("etag").to_owned();
        let oldest = server
            .request("HEAD", "/a", "", b"")
            .must("etag")
            .to_owned();
        // Now `b` is the oldest of those that are not named.
        let over = |key: &str, tag: &str, value: &[u8]| {
            let lines = format!("If-Match: {tag}\r\n");
            server
                .request("PUT", &format!("/{key}"), &lines, value)
                .status
        };
        let second = server.ask("HEAD", "b").must("etag").to_owned();
        tick();
        store_all(server, "c d e f a");
        assert_eq!(over("a", &oldest, &BLOCK), 412, "it was replaced");
        assert_eq!(over("b", &second, &[9; 8192]), 200);
        assert_has(server, "a b d e f");
        assert_eq!(over("f", &tag, &BLOCK), 412);
        assert_eq!(server.get("b").body, [9; 8192]);
    });
}

/// More are in flight than there is room for: each is taken all the same.
#[test]
fn writers_at_once_are_never_refused_where_values_can_be_evicted() {
    directory_only!("bounds");
    each_way(&["--max-size", "24KiB", "--threads", "2"], |server| {
        let write = |writer: usize| {
            let mut client = Client::new(server.addr);
            for n in 0..40 {
                let answer = client.put(&format!("{writer}/{}", n % 3), BLOCK);
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        };
        thread::scope(|scope| {
            for writer in 0..16 {
                scope.spawn(move || write(writer));
            }
        });
        assert_eq!(server.dir.names().len(), 6);
    });
}

/// So that a client does not wait for the eviction, also where all values are new. With a sync for each, it would wait
/// for that.
#[test]
fn a_large_bound_has_room_for_the_next_value_before_it_comes() {
    directory_only!("bounds");
    let value = vec![7; 1 << 20];
    let store = |server: &TestServer, key: u32| server.store(&format!("{key:02}"), &value);
    let has = |server: &TestServer, keys: std::ops::RangeInclusive<u32>| {
        let keys: Vec<_> = keys.map(|key| format!("{key:02}").into_bytes()).collect();
        server.dir.names() == keys
    };
    let fill = |args: &[&str]| {
        let server = start(args);
        for key in 1..=64 {
            store(&server, key);
            tick();
        }
        server
    };
    let server = fill(&["--max-size", "64MiB"]);
    eventually("one has gone", || has(&server, 2..=64));
    store(&server, 65);
    eventually("another has gone", || has(&server, 3..=65));
    server.store("small", "small");
    assert_eq!(server.dir.names().len(), 64, "there is room");

    let quota = [
        "--bound",
        "prefix = '', max-size = '64MiB', full = 'refuse'",
    ];
    let server = fill(&quota);
    assert_eq!(server.put("small", "small").status, 507);
    assert!(has(&server, 1..=64), "a quota");

    let server = fill(&["--max-size", "64MiB", "--durability", "disk"]);
    for (key, names) in [("a", 64), ("b", 65)] {
        server.store(key, "small");
        assert_eq!(server.dir.names().len(), names, "no more than it needs");
    }
}
