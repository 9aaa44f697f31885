//! `--redirect-from`: long values are read from the store itself, by a link that works for a while.

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Keys, Stub, VersityGw};

use super::{send, serve_plainly};

/// What is long here.
const FROM: &[&str] = &["--redirect-from", "64KiB"];
const LONG: usize = 64 << 10;

/// A server over a prefix of its own in a real store, where there is one.
fn real(name: &str) -> Option<(TestServer, Bucket)> {
    let bucket = VersityGw::shared()?.bucket.beneath(name);
    Some((serve_plainly(&bucket, FROM), bucket))
}

/// The address in an answer that sends its client to the store.
#[track_caller]
fn link(answer: &Response) -> &str {
    assert_eq!(answer.status, 307);
    assert_eq!(answer.must("cache-control"), "no-store");
    assert!(answer.header("etag").is_none(), "{:?}", answer.headers);
    answer.must("location")
}

/// Sends `method` to `link`, as a client that knows nothing of stores does.
#[track_caller]
fn follow(method: &str, link: &str, lines: &str) -> Response {
    let rest = link.strip_prefix("http://").expect("a link");
    let (host, target) = rest.split_once('/').expect("a path");
    let mut store = Raw::connect(host.parse().expect("an address"));
    store.ask(format!(
        "{method} /{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n"
    ))
}

#[test]
fn long_values_are_read_from_the_store() {
    let (server, bucket) = needed!(real("redirected"));
    let (long, short) = (pattern(1, LONG), pattern(2, LONG - 1));
    let key = "a%20folder/%C3%BC+&.bin";
    server.store(key, &long);
    bucket.place("theirs", &long);
    server.store("short", &short);
    for key in [key, "theirs"] {
        let answer = send(&server, "GET", key, "", b"");
        assert!(String::from_utf8_lossy(&answer.body).contains("Location"));
        let read = follow("GET", link(&answer), "");
        assert!(read.status == 200 && read.body == long, "{}", read.status);
        let answer = send(&server, "HEAD", key, "", b"");
        let read = follow("HEAD", link(&answer), "");
        assert_eq!((read.status, read.must("content-length")), (200, "65536"));
    }
    for lines in ["", "Range: bytes=0-\r\n"] {
        let answer = send(&server, "GET", "short", lines, b"");
        assert!(answer.body == short, "{lines}: {}", answer.status);
    }
    assert_eq!(send(&server, "HEAD", "short", "", b"").status, 200);
}

#[test]
fn a_range_is_asked_of_the_store_and_several_are_not() {
    let (server, _) = needed!(real("redirected-ranges"));
    let long = pattern(1, LONG);
    server.store("key", &long);
    let range = "Range: bytes=7-1006\r\n";
    let answer = send(&server, "GET", "key", range, b"");
    let read = follow("GET", link(&answer), range);
    assert!(read.status == 206 && read.body == long[7..1007]);
    let several = "Range: bytes=0-9,60000-60009\r\n";
    assert_eq!(send(&server, "GET", "key", several, b"").status, 206);
    let beyond = send(&server, "GET", "key", "Range: bytes=65536-\r\n", b"");
    assert_eq!(beyond.status, 416);
}

#[test]
fn a_link_is_for_one_object_one_method_and_some_minutes() {
    let (server, bucket) = needed!(real("redirected-links"));
    server.store("key", pattern(1, LONG));
    bucket.place("other", "a secret");
    let answer = send(&server, "GET", "key", "", b"");
    let link = link(&answer);
    assert!(link.contains("&X-Amz-Expires=300&"), "{link}");
    assert_eq!(follow("GET", link, "").status, 200);
    for (method, link) in [
        ("GET", link.replace("/key?", "/other?")),
        ("GET", link.replace("-Expires=300&", "-Expires=301&")),
        ("GET", format!("{}x", &link[..link.len() - 1])),
        ("PUT", link.to_owned()),
        ("DELETE", link.to_owned()),
    ] {
        let answer = follow(method, &link, "Content-Length: 0\r\n");
        assert_eq!(answer.status, 403, "{method} {link}");
    }
    assert!(bucket.read("key").is_some_and(|value| value.len() == LONG));
}

#[test]
fn conditions_are_decided_before_a_client_is_sent_on() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, FROM);
    server.store("key", pattern(1, LONG));
    assert_eq!(send(&server, "GET", "absent", "", b"").status, 404);
    let etag = stub.bucket.ask("HEAD", "key", "", b"");
    let etag = etag.must("etag");
    for method in ["GET", "HEAD"] {
        for (condition, tag, status) in [
            ("If-None-Match", etag, 304),
            ("If-None-Match", "\"other\"", 307),
            ("If-Match", etag, 307),
            ("If-Match", "\"other\"", 412),
        ] {
            let lines = format!("{condition}: {tag}\r\n");
            let answer = send(&server, method, "key", &lines, b"");
            assert_eq!(answer.status, status, "{method} {lines}");
        }
    }
    let all = stub.asked_for("GET", "key");
    assert!(all.is_empty(), "{} GETs of a value for nothing", all.len());
}

#[test]
fn writes_pages_and_listings_are_not_sent_on() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--redirect-from", "0"]);
    let long = pattern(1, LONG);
    for value in [&long[..], b"", &long] {
        assert_eq!(send(&server, "PUT", "key", "", value).status, 200);
        assert_eq!(send(&server, "GET", "key", "", b"").status, 307);
    }
    for path in ["", "-/healthz", "-/metrics"] {
        assert_eq!(send(&server, "GET", path, "", b"").status, 200, "/{path}");
    }
    assert_eq!(send(&server, "OPTIONS", "key", "", b"").status, 204);
    assert_eq!(send(&server, "DELETE", "key", "", b"").status, 200);
    assert_eq!(stub.bucket.read("key"), None);
}

#[test]
fn it_is_off_unless_it_is_asked_for() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &[]);
    let long = pattern(1, 5 << 20);
    server.store("key", &long);
    assert!(server.get("key").body == long);
    assert_eq!(stub.asked_for("HEAD", "key").len(), 0);
    Launch::new(FROM).run().says(2, "--store");
}

#[test]
fn a_link_has_the_token_of_the_session_and_no_log_has_it() {
    let stub = Stub::start();
    let keys = Keys::new("id", "the secret").with_token("a/token+=");
    stub.accept(std::slice::from_ref(&keys));
    let bucket = Bucket {
        keys,
        ..stub.bucket.clone()
    };
    let mut server = serve_plainly(&bucket, &[FROM, &["--access-log"]].concat());
    server.store("key", pattern(1, LONG));
    let answer = send(&server, "GET", "key", "", b"");
    let link = link(&answer);
    let is_right = link.contains("&X-Amz-Security-Token=a%2Ftoken%2B%3D&");
    assert!(is_right, "{link}");
    eventually("the redirect is counted", || {
        let labels = [("status", "3xx")];
        Scrape::of(server.addr).count("data_server_requests_total", &labels) > 0
    });
    server.stop();
    let log = server.log().join("\n");
    assert!(log.contains("\"status\":307"), "{log}");
    assert!(!log.contains("X-Amz-"), "{log}");
}
