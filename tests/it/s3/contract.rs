//! The contract of keys and values, on a real store and on the one in memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::Digest;

use super::{each, reason, send, serve};
use crate::support::prelude::*;
use crate::support::s3::{VersityGw, hex};

/// What tests over the store in memory show, they show of a real one too.
#[test]
fn both_keep_objects_and_decide_conditions() {
    each("both", |_, bucket| {
        let ask = |method, lines: &str, value| bucket.ask(method, "folder/a key", lines, value);
        assert_eq!(ask("PUT", "If-Match: \"x\"\r\n", b"none").status, 404);
        let lines = "If-None-Match: *\r\nx-amz-meta-one: 1\r\nContent-Type: text/plain\r\n";
        let first = ask("PUT", lines, b"first");
        let found = (first.status, first.must("etag"));
        assert_eq!(found, (200, "\"8b04d5e3775d298e78455efc5ca404d5\""));
        let head = ask("HEAD", "", b"");
        let found = ["x-amz-meta-one", "content-type"].map(|name| head.must(name));
        assert_eq!((head.status, found), (200, ["1", "text/plain"]));
        let same = format!("If-Match: {}\r\n", first.must("etag"));
        for (method, lines, status) in [
            ("PUT", "If-None-Match: *\r\n", 412),
            ("PUT", "If-Match: \"x\"\r\n", 412),
            ("GET", "Range: bytes=1-2\r\n", 206),
            ("GET", "Range: bytes=9-\r\n", 416),
            ("PUT", &same, 200),
            ("DELETE", &same, 412),
            ("DELETE", "", 204),
        ] {
            assert_eq!(ask(method, lines, b"").status, status, "{method} {lines}");
        }
        assert_eq!(bucket.read("folder/a key"), None);
    });
}

/// In memory; in one piece of an upload; in several.
const LENGTHS: [usize; 5] = [0, 1_000, 100_000, 1 << 20, 2_500_000];

#[test]
fn a_value_of_any_length_is_stored_read_and_removed() {
    each("lengths", |server, bucket| {
        for (seed, len) in (1..).zip(LENGTHS) {
            let (key, value) = (format!("v{len}.bin"), pattern(seed, len));
            let put = server.put(&key, &value);
            put.says(200, "");
            let tag = put.must("etag").to_owned();
            let hex = hex(&Md5::digest(&value));
            assert_eq!(tag, format!("\"{hex}\""));
            let is_right = bucket.read(&key).as_deref() == Some(&value);
            assert!(is_right, "{len}: as the store has it");
            let got = server.get(&key);
            let is_right = got.status == 200 && got.body == value;
            assert!(is_right, "{len}: {}", got.status);
            let head = server.ask("HEAD", &key);
            for answer in [&got, &head] {
                assert_eq!(answer.must("etag"), tag);
                assert_eq!(answer.must("content-length"), len.to_string());
                assert_eq!(answer.must("content-type"), "application/octet-stream");
                assert!(answer.header("content-encoding").is_none());
                answer.must("last-modified");
            }
            // The rest of the contract is tested over a real store with tests/it; once here, for machines without one.
            let path = format!("/{key}");
            let (beyond, part) = if len == 0 { (200, 200) } else { (416, 206) };
            let (md5, kept) = (Md5::digest("other"), "Cache-Control: max-age=60");
            for (method, lines, status) in [
                ("PUT", "If-None-Match: *".to_owned(), 412),
                ("PUT", "If-Match: \"x\"".to_owned(), 412),
                ("PUT", "Repr-Digest: sha-256=:AA==:".to_owned(), 400),
                ("PUT", format!("Content-MD5: {}", STANDARD.encode(md5)), 400),
                ("GET", format!("If-None-Match: {tag}"), 304),
                ("HEAD", "If-Match: \"x\"".to_owned(), 412),
                ("GET", format!("Range: bytes={len}-"), beyond),
                ("GET", "Range: bytes=-7".to_owned(), part),
                ("PUT", format!("If-Match: {tag}\r\n{kept}"), 200),
            ] {
                let sent = if method == "PUT" { &value[..] } else { b"" };
                let answer = server.request(method, &path, &format!("{lines}\r\n"), sent);
                assert_eq!(answer.status, status, "{len}: {method} {lines}");
                if status == 206 {
                    assert!(answer.body == value[len - 7..], "{len}");
                }
                assert!(server.get(&key).body == value, "{len}: {method} {lines}");
            }
            assert_eq!(server.get(&key).must("cache-control"), "max-age=60");
            let in_chunks = server.put_chunked(&key, &value);
            assert_eq!(in_chunks.status, 200, "{len} in chunks");
            let is_there = bucket.read(&key).as_deref() == Some(&value);
            assert!(is_there, "{len} in chunks");
            let other = pattern(seed + 10, len + 1);
            server.store(&key, &other);
            let stale = server.request("PUT", &path, &format!("If-Match: {tag}\r\n"), &value);
            assert_eq!(stale.status, 412, "{len}: a tag of before");
            assert!(server.get(&key).body == other, "{len}");
            assert_eq!(server.ask("DELETE", &key).status, 200);
            assert_eq!(server.ask("DELETE", &key).status, 404);
            assert_eq!(server.get(&key).status, 404);
        }
        assert_eq!(bucket.objects(), []);
        assert_eq!(bucket.multipart_uploads(), 0);
        // By other tools, without a type.
        bucket.place("theirs.json", "{}");
        let theirs = server.get("theirs.json");
        let found = (theirs.status, theirs.must("content-type"));
        assert_eq!(found, (200, "application/json"));
    });
}

#[test]
fn a_key_that_no_list_could_name_is_refused() {
    each("names", |server, bucket| {
        for key in ["%01", "a%0Ab", "a%7F", "%EF%BF%BE", "x%EF%BF%BF"] {
            for method in ["PUT", "GET", "DELETE"] {
                let answer = send(server, method, key, "", b"");
                let found = (answer.status, &*reason(&answer));
                assert_eq!(found, (400, "bad-key"), "{method} {key}");
            }
        }
        let keys = "a%20b %C3%A9+%26=~!$'()*,;:@ %E2%82%AC/%F0%9F%98%80/x.txt a%22b%3C%3E%5C";
        for key in words(keys) {
            send(server, "PUT", key, "", key.as_bytes()).says(200, "");
            assert_eq!(server.get(key).body, key.as_bytes());
        }
        assert_eq!(bucket.objects().len(), 4);
    });
}

#[test]
fn changes_cannot_be_watched_and_the_reason_is_said() {
    each("watch", |server, _| {
        let lines = "Accept: text/event-stream\r\n";
        send(server, "GET", "-/watch", lines, b"").says(501, "");
    });
}

#[test]
fn two_servers_over_two_gateways_are_one_store() {
    let store = needed!(VersityGw::start(2));
    let endpoints = &store.bucket.endpoints;
    let servers = [0, 1].map(|n| serve(&store.bucket.at(&endpoints[n..=n]), &[]));
    servers[0].store("count", "0");
    let increment = |server, times| {
        for _ in 0..times {
            loop {
                let now = send(server, "GET", "count", "", b"");
                let count = String::from_utf8_lossy(&now.body).parse();
                let count: u32 = count.expect("a number");
                // VersityGW 1.8.0 now and then answers the entity tag of another version than it sends.
                let swap = format!("If-Match: \"{}\"\r\n", hex(&Md5::digest(&now.body)));
                let next = (count + 1).to_string();
                match send(server, "PUT", "count", &swap, next.as_bytes()).status {
                    200 => break,
                    412 => {}
                    status => panic!("a swap is answered {status}"),
                }
            }
        }
    };
    thread::scope(|scope| {
        for n in 0..8 {
            let server = &servers[n % 2];
            scope.spawn(move || increment(server, 10));
        }
    });
    for server in &servers {
        let body = server.get("count").body;
        assert_eq!(body, b"80", "each increment is made once");
    }
}
