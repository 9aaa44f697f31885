//! Proves the events that subscribers get over Server-Sent Events: every acknowledged change and no other, from the
//! response on, again from where they left off, and a resync when changes are missing.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{burst, start};
use crate::support::prelude::*;

/// More changes than the server keeps.
const MANY: usize = 4200;

fn open(server: &TestServer, query: &str) -> Events {
    Events::open(server, query, "")
}

#[test]
fn events_match_a_get_for_every_acknowledged_change() {
    directory_only!("watching");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--durability", durability, "--threads", "2"]);
        let mut events = open(&server, "");
        let tell = |method, key, lines, body: &[u8]| server.request(method, key, lines, body);
        let first = tell("PUT", "/k", "", b"12345");
        let second = tell("PUT", "/k", "", b"");
        assert_eq!(tell("PUT", "/k", "If-Match: \"x\"\r\n", b"no").status, 412);
        assert_eq!(tell("DELETE", "/gone", "", b"").status, 404);
        assert_eq!(tell("DELETE", "/k", "", b"").status, 200);
        let large = tell("PUT", "/large", "", &vec![7; 700_000]);
        let chunks = "Transfer-Encoding: chunked\r\n";
        let piped = tell("PUT", "/piped", chunks, b"3\r\nabc\r\n0\r\n\r\n");

        let told = events.until("piped");
        let seen = told
            .iter()
            .map(|t| (&*t.op, &*t.key, t.size, t.etag.as_deref()));
        let seen: Vec<_> = seen.collect();
        let expected = [
            ("put", "k", Some(5), first.header("etag")),
            ("put", "k", Some(0), second.header("etag")),
            ("delete", "k", None, None),
            ("put", "large", Some(700_000), large.header("etag")),
            ("put", "piped", Some(3), piped.header("etag")),
        ];
        assert_eq!(seen, expected, "{durability}");
        for pair in told.windows(2) {
            assert_eq!(pair[1].seq, pair[0].seq + 1);
        }
    }
}

#[test]
fn the_answer_is_an_event_stream_for_pages_of_allowed_origins_that_begins_with_its_position() {
    directory_only!("watching");
    let server = TestServer::start(&["--cors-origin", "https://app.example"]);
    let page = |origin: &str| Events::open(&server, "", &format!("Origin: {origin}\r\n"));
    let denied = page("https://evil.example");
    assert_eq!(denied.head.header("access-control-allow-origin"), None);
    let mut events = page("https://app.example");
    let allowed = events.head.must("access-control-allow-origin");
    assert_eq!(allowed, "https://app.example");
    assert_eq!(events.head.must("content-type"), "text/event-stream");
    assert_eq!(events.head.must("cache-control"), "no-store");
    assert_eq!(events.head.must("x-content-type-options"), "nosniff");
    let block = events.block().expect("a block");
    let id = block.strip_prefix(": watching\nid: ").expect("a position");
    server.store("k", "v");
    let told = events.next().expect("an event");
    assert_eq!(told.seq, id.parse::<u64>().expect("a number") + 1);
    let is_right = told.seq < 1 << 53;
    assert!(is_right, "{} is no exact number in JavaScript", told.seq);
}

#[test]
fn events_have_any_key_unchanged_and_filter_by_prefix() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    let mut all = open(&server, "");
    let mut some = open(&server, "?prefix=%D0%BA%20%22");
    let mut folder = open(&server, "?prefix=a/b/");
    let keys = "a\nb\rc|\u{1}\u{7f}\"\\|к|к \"x|data: y|\u{2028}|a/b/к \"";
    for key in keys.split('|') {
        server.store(&utf8_percent_encode(key, NON_ALPHANUMERIC).to_string(), "v");
    }
    for key in keys.split('|') {
        assert_eq!(all.next().expect("an event").key, key);
    }
    assert_eq!(some.next().expect("an event").key, "к \"x");
    assert_eq!(folder.next().expect("an event").key, "a/b/к \"");
    server.store("a/b-c", "v");
    assert_eq!(server.ask("DELETE", "a/b/%D0%BA%20%22").status, 200);
    let told = folder.next().expect("an event");
    assert_eq!((&*told.op, &*told.key), ("delete", "a/b/к \""));
    server.store("%D0%BA%20%22end", "v");
    assert_eq!(some.next().expect("an event").key, "к \"end");
}

#[test]
fn a_client_that_reconnects_gets_the_missed_changes() {
    let server = needed!(TestServer::of_directory("watching", &["--threads", "3"]));
    let mut events = open(&server, "");
    server.store("a", "1");
    let seen = events.next().expect("an event");
    drop(events);
    server.store_each("b other c", "1");
    let id = format!("Last-Event-ID: {}\r\n", seen.seq);
    for (query, lines) in [
        (String::new(), id.as_str()),
        (format!("?since={}", seen.seq), ""),
        ("?since=1".to_owned(), &id),
    ] {
        let mut again = Events::open(&server, &query, lines);
        let keys: Vec<_> = again.until("c").into_iter().map(|told| told.key).collect();
        assert_eq!(keys, ["b", "other", "c"], "{query} {lines}");
        drop(again);
    }
    // A client can also resume from the position before the first event.
    let mut quiet = open(&server, "?prefix=none");
    quiet.block().expect("a position");
    server.store("d", "1");
    let lines = ": watching\nid: ";
    let mut again = Events::open(&server, "", &format!("Last-Event-ID: {}\r\n", seen.seq + 3));
    assert!(again.block().expect("a position").starts_with(lines));
    assert_eq!(again.next().expect("an event").key, "d");
}

#[test]
fn a_client_that_reconnects_too_late_gets_a_resync() {
    directory_only!("watching");
    let server = start(&[]);
    let mut events = open(&server, "");
    server.store("a", "1");
    let seen = events.next().expect("an event").seq;
    drop(events);
    burst(&server, "b", MANY);
    let latest = seen + MANY as u64;
    for since in [seen, 0, latest + 1, u64::MAX] {
        let mut again = open(&server, &format!("?since={since}"));
        let told = again.next().expect("an event");
        assert_eq!((told.op.as_str(), told.seq), ("resync", latest), "{since}");
        let found = (told.key, told.etag, told.size);
        assert_eq!(found, (String::new(), None, None));
    }
    let mut again = Events::open(&server, "", "Last-Event-ID: nonsense\r\n");
    assert!(again.next().expect("an event").is_resync());
    // After the resync, and within the kept changes, the client gets every change.
    server.store("c", "1");
    assert_eq!(again.next().expect("an event").key, "c");
    let mut kept = open(&server, &format!("?since={}", latest - 4000));
    assert_eq!(kept.until("c").len(), 4001);
}

#[test]
fn a_restart_is_a_gap_and_the_order_continues() {
    directory_only!("watching");
    let dir = DataDir::temporary();
    let mut server = Launch::default().on(&dir).start();
    let mut events = open(&server, "");
    server.store("a", "1");
    let before = events.next().expect("an event").seq;
    server.stop();
    let server = Launch::default().on(&dir).start();
    let mut again = open(&server, &format!("?since={before}"));
    let told = again.next().expect("an event");
    let is_right = told.is_resync() && told.seq > before;
    assert!(is_right, "{told:?} after {before}");
    server.store("b", "1");
    assert_eq!(again.next().expect("an event").key, "b");
}

#[test]
fn a_listing_after_the_answer_plus_the_events_miss_no_key() {
    const KEYS: usize = 200;
    directory_only!("watching");
    let server = start(&["--threads", "2"]);
    let mut told_early = 0;
    // On a busy machine a listing may come before the first write, or after the last.
    for round in 0..100 {
        if told_early == 3 {
            return;
        }
        let prefix = format!("r{round}-");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::new(server.addr);
                for nth in 0..KEYS {
                    assert_eq!(client.put(&format!("{prefix}{nth}"), "v").status, 200);
                }
            });
            // In the middle of the writes.
            let mut events = open(&server, &format!("?prefix={prefix}"));
            let listing = server.ask("GET", &format!("?prefix={prefix}")).body;
            let listing: serde_json::Value = serde_json::from_slice(&listing).expect("JSON");
            let keys = listing["keys"].as_array().expect("keys").iter();
            let keys = keys.map(|key| key["key"].as_str().expect("a key").to_owned());
            let mut keys: HashSet<String> = keys.collect();
            let listed = keys.len();
            told_early += usize::from(listed > 0 && listed < KEYS);
            while keys.len() < KEYS {
                keys.insert(events.next().expect("an event").key);
            }
        });
    }
    panic!("of 100 listings {told_early} were made amid the writing");
}

#[test]
fn malformed_watch_requests_are_refused() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    server.talk(
        "
        GET /-/watch?prefix=%zz ; 400
        GET /-/watch?since=x ; 400
        HEAD,PUT,POST,DELETE,PATCH /-/watch ; 405 ; ; ; allow: GET, OPTIONS
        GET /-/watch/ ; 404",
    );
    TestServer::start(&["--compat"]).talk("HEAD,POST,DELETE /-/watch ; 404");
}

#[test]
fn http_1_0_gets_events_until_the_connection_ends() {
    let mut server = needed!(TestServer::of_directory("watching", &[]));
    let mut raw = server.connect();
    raw.send("GET /-/watch HTTP/1.0\r\n\r\n");
    let head = raw.head();
    assert_eq!((head.status, head.header("transfer-encoding")), (200, None));
    server.store("k", "v");
    server.stop();
    let text = String::from_utf8(raw.rest()).expect("UTF-8");
    let is_right = text.starts_with(": watching\n") && text.contains(r#""key":"k""#);
    assert!(is_right, "{text}");
}

#[test]
fn a_read_only_server_reports_no_changes() {
    directory_only!("watching");
    let dir = DataDir::temporary();
    dir.place("k", "v");
    let mut server = Launch::new(&["--read-only"]).on(&dir).start();
    let mut events = open(&server, "");
    let block = events.block().expect("a position");
    assert!(block.starts_with(": watching"), "{block}");
    server.signal(Signal::TERM);
    events.assert_ended();
    assert_eq!(server.exit(), Some(0));
}

/// A preflight never has credentials (Fetch, section 4.8), and one that fails keeps the page from the feed.
#[test]
fn a_page_of_an_allowed_origin_may_ask_for_the_feed_with_its_credentials() {
    let app = "https://app.example";
    let dir = DataDir::in_memory();
    let rules = "[[rule]]\nwho = [\"anonymous\"]\nprefix = \"open/\"\nmay = [\"read\"]\n";
    let path = dir.write_private("access.toml", rules);
    for args in [&[][..], &["--access", &path]] {
        let args = [&["--cors-origin", app], args].concat();
        let server = Launch::new(&args).on(&dir).start();
        for (target, methods) in [
            ("/-/watch", "GET, OPTIONS"),
            ("/-/watch?prefix=a", "GET, OPTIONS"),
            ("/-/metrics", "GET, HEAD, OPTIONS"),
            ("/-/healthz", "GET, HEAD, OPTIONS"),
        ] {
            for (origin, is_allowed) in [(app, true), ("https://evil.example", false)] {
                let lines = format!(
                    "Origin: {origin}\r\nAccess-Control-Request-Method: GET\r\n\
                     Access-Control-Request-Headers: authorization,last-event-id\r\n"
                );
                let got = server.request("OPTIONS", target, &lines, b"");
                assert_eq!((got.status, got.must("allow")), (204, methods), "{target}");
                let told = |name: &str| got.header(&format!("access-control-allow-{name}"));
                let seen = [told("origin"), told("methods"), told("headers")];
                let expected = [app, methods, "authorization,last-event-id"];
                let expected = expected.map(|it| Some(it).filter(|_| is_allowed));
                assert_eq!(seen, expected, "{target} {origin}");
            }
        }
        if args.contains(&"--access") {
            let asked = server.request("GET", "/-/watch", &format!("Origin: {app}\r\n"), b"");
            let seen = (asked.status, asked.header("access-control-allow-origin"));
            assert_eq!(seen, (401, Some(app)));
        }
    }
}
