//! A value that has ended is absent at each request, before its file is removed.

use super::{end, now, put};
use crate::support::prelude::*;

/// Asserts that `key` has no value for any request that does not change it.
fn assert_absent(server: &TestServer, key: &str) {
    for lines in [
        "",
        "Range: bytes=0-1\r\n",
        "If-None-Match: *\r\n",
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
        "Want-Repr-Digest: sha-256=1\r\n",
    ] {
        for method in ["GET", "HEAD"] {
            let got = server.request(method, &format!("/{key}"), lines, b"");
            assert_eq!(got.status, 404, "{method} {key} {lines}");
        }
    }
}

/// The items of a listing as lines.
fn listed(server: &TestServer, query: &str) -> Vec<String> {
    let got = server.ask("GET", &format!("?format=text{query}"));
    assert_eq!(got.status, 200);
    let text = String::from_utf8(got.body).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_value_that_has_ended_is_absent_to_every_request() {
    directory_only!("an end");
    for args in taken(&[&[], &["--cache", "0"], &["--durability", "disk"]]) {
        let server = Launch::new(args).start();
        for length in LENGTHS {
            let value = pattern(1, length);
            for is_known in [false, true] {
                put(&server, "k", &value);
                let etag = server.get("k").must("etag").to_owned();
                end(&server.dir, "k");
                if is_known {
                    assert_absent(&server, "k");
                }
                let ask = |method, lines: &str| server.request(method, "/k", lines, b"new");
                let put = |lines: &str| ask("PUT", lines).status;
                assert_eq!(put("If-Match: *\r\n"), 412);
                assert_eq!(put(&format!("If-Match: {etag}\r\n")), 412);
                assert_eq!(ask("DELETE", "Content-Length: 3\r\n").status, 404);
                let lines = format!("Content-Length: 3\r\nIf-Match: {etag}\r\n");
                assert_eq!(ask("DELETE", &lines).status, 404);
                assert_eq!(listed(&server, ""), [""; 0]);
                assert_eq!(put("If-None-Match: *\r\n"), 200, "{args:?} {length}");
                assert_eq!(server.get("k").body, b"new");
                assert_eq!(put("If-None-Match: *\r\n"), 412);
                // It ends also without a condition.
                end(&server.dir, "k");
                assert_eq!(put(""), 200);
                assert_eq!(server.get("k").body, b"new");
            }
        }
    }
}

/// The clock brings the end of a value in the cache, and of one that is being sent.
#[test]
fn a_value_ends_in_the_cache_and_a_reader_that_has_begun_goes_on() {
    let server = needed!(TestServer::of_directory("an end", &[]));
    let large = pattern(1, 20_000_000);
    let lines = format!("X-Delete-At: {}\r\n", now() + 3);
    server.store_as("large", &lines, &large);
    server.store_as("small", &lines, b"v");
    let mut slow = server.begin("GET", "/large", "");
    let head = slow.head();
    assert_eq!((head.status, head.length()), (200, large.len()));
    let mut raw = server.connect();
    let mut seen = 0;
    eventually("the end comes", || {
        let got = ask(&mut raw, "GET", "/small", "", b"");
        seen += usize::from(got.status == 200);
        got.status == 404
    });
    assert!(seen > 0, "it was never there");
    assert!(format!("X-Delete-At: {}\r\n", now()) >= lines);
    assert_absent(&server, "small");
    assert_absent(&server, "large");
    assert!(slow.take(large.len()) == large);
}

#[test]
fn listings_lack_what_has_ended_and_folders_of_nothing_else() {
    directory_only!("an end");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&[]).on(&dir).start();
    let live = ["a/2", "b", "d/e/f"];
    let ended = ["a/1", "a/3", "c/1", "c/d/2", "d/e/g", "k"];
    for key in live.iter().chain(&ended) {
        put(&server, key, b"v");
    }
    for key in ended {
        end(&dir, key);
    }
    let assert_listed = |server: &TestServer| {
        assert_eq!(listed(server, ""), live);
        assert_eq!(listed(server, "&delimiter=/"), ["a/", "b", "d/"]);
        assert_eq!(listed(server, "&prefix=c/"), [""; 0]);
        // Pages are full, and there is no page after the last.
        let page = server.ask("GET", "?format=json&limit=1").json();
        assert_eq!(page["keys"].as_array().map(Vec::len), Some(1));
        let page = server.ask("GET", "?format=json&limit=2&after=a/2").json();
        assert_eq!(page["keys"].as_array().map(Vec::len), Some(2));
        assert_eq!(page["next"], serde_json::Value::Null);
        let html = "Accept: text/html\r\n";
        let page = server.request("GET", "/", html, b"");
        let rows = HtmlPage::parse(&page.body).rows();
        let rows: Vec<_> = rows.into_iter().map(|row| row.text).collect();
        assert_eq!(rows, ["a/", "d/", "b"]);
        // A folder that has none is none, and one whose first key has ended is one.
        let found = |key: &str| server.request("GET", key, html, b"").status;
        assert_eq!((found("/c"), found("/a")), (404, 302));
    };
    assert_listed(&server);
    let read_only = Launch::new(&["--read-only"]).on(&dir).start();
    assert_listed(&read_only);
    assert_absent(&read_only, "k");
    assert_eq!(read_only.get("b").body, b"v");
    server.stop();
    drop(server);
    read_only.dir.assert_holds(&[&live[..], &ended].concat());
}

/// The first value with an end comes while a server that only reads looks at the directory.
#[test]
fn a_server_that_only_reads_learns_of_ends() {
    directory_only!("an end");
    let dir = DataDir::temporary();
    let server = Launch::new(&[]).on(&dir).start();
    server.store("b", "v");
    let read_only = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(listed(&read_only, ""), ["b"]);
    put(&server, "k", b"v");
    end(&dir, "k");
    assert_eq!(listed(&read_only, ""), ["b"]);
    assert_absent(&read_only, "k");
}

#[test]
fn ends_cost_no_call_where_no_value_has_one() {
    directory_only!("system calls on files");
    let trace = Trace::with(
        &["-e", "trace=openat2,fgetxattr,newfstatat"],
        "calls for ends",
    );
    let trace = needed!(trace);
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    server.store("k", "v");
    for lines in ["If-Match: *\r\n", "If-None-Match: *\r\n"] {
        server.request("PUT", "/k", lines, b"v");
    }
    assert_eq!(listed(&server, ""), ["k"]);
    server.stop();
    let calls = trace.calls();
    let asks = |call: &&Call| call.name == "fgetxattr" && call.args.contains("server.fields");
    assert_eq!(calls.iter().filter(asks).count(), 0);
    let notes = calls.iter().filter(|call| call.args.contains("expiring"));
    assert_eq!(notes.count(), 1, "the start looks for the note");
}
