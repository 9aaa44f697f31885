//! What stands around the values: digests that are asked for, forms, the page, metrics, and the options.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

use super::{each, send, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub};

#[test]
fn a_digest_that_is_asked_for_is_that_of_the_value() {
    each("wanted", |server, bucket| {
        for (n, len) in [0, 100, 100_000, 2_500_000].into_iter().enumerate() {
            let value = pattern(1, len);
            let [sha256, sha512] = [
                STANDARD.encode(Sha256::digest(&value)),
                STANDARD.encode(Sha512::digest(&value)),
            ];
            let [own, theirs] = ["own", "theirs"].map(|by| format!("{by}-{n}"));
            server.store(&own, &value);
            bucket.place(&theirs, &value);
            for key in [own, theirs] {
                for (wish, expected) in [
                    ("sha-256=1", format!("sha-256=:{sha256}:")),
                    ("sha-512=1", format!("sha-512=:{sha512}:")),
                ] {
                    for method in ["GET", "HEAD"] {
                        let lines = format!("Want-Repr-Digest: {wish}\r\n");
                        let answer = send(server, method, &key, &lines, b"");
                        let found = (answer.status, answer.must("repr-digest"));
                        assert_eq!(found, (200, &*expected), "{method} {key} {len}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_form_stores_its_files() {
    each("form", |server, bucket| {
        let large = pattern(1, 1_500_000);
        let part = |name: &str, data: &[u8]| {
            let head = format!("form-data; name=\"file\"; filename=\"{name}\"");
            let head = format!("--xyz\r\nContent-Disposition: {head}\r\n\r\n");
            [head.as_bytes(), data, b"\r\n"].concat()
        };
        let (small, large_part) = (part("small.txt", b"small"), part("large", &large));
        let body = [&small[..], &large_part, b"--xyz--\r\n"].concat();
        let length = format!("Content-Length: {}\r\n", body.len());
        let lines = format!("Content-Type: multipart/form-data; boundary=xyz\r\n{length}");
        let answer = server.request("POST", "/-/upload", &lines, &body);
        let status = answer.status;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(bucket.read("small.txt").as_deref(), Some(&b"small"[..]));
        assert!(bucket.read("large").as_deref() == Some(&large));
    });
}

#[test]
fn browsers_get_the_page_with_the_keys() {
    each("page", |server, _| {
        server.store("a-key.txt", "value");
        let page = server.request("GET", "/", "Accept: text/html\r\n", b"");
        assert_eq!(page.status, 200);
        assert!(page.must("content-type").starts_with("text/html"));
        assert!(String::from_utf8_lossy(&page.body).contains("a-key.txt"));
    });
}

#[test]
fn metrics_tell_how_the_store_does() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "1s"]);
    server.store("key", "value");
    stub.fail("GET", "key", Fault::Refuse(503, "SlowDown", Some(0)), 1);
    assert_eq!(server.get("key").status, 200);
    stub.fail("PUT", "key", Fault::LoseDone, 1);
    server.store("key", "again");
    stub.fail("PUT", "key", Fault::LoseUndone, 1);
    assert_eq!(server.put("key", "never").status, 502);
    let text = String::from_utf8(server.get("-/metrics").body).expect("text");
    let sum = |name: &str| -> f64 {
        let is_of = |line: &&str| line.split([' ', '{']).next() == Some(name);
        let values = text.lines().filter(is_of);
        let values = values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    };
    assert!(sum("data_server_store_retries_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_unknown_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_resolved_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_requests_total") >= 5.0, "{text}");
    let is_right = sum("data_server_store_time_to_head_seconds_count") >= 5.0;
    assert!(is_right, "{text}");
    assert!(text.contains("data_server_store_requests_active"), "{text}");
}

#[test]
fn the_connections_to_the_store_are_counted() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--threads", "1"]);
    let connections = || {
        let text = String::from_utf8(server.get("-/metrics").body).expect("text");
        ["open", "idle"].map(|which| -> u64 {
            let name = format!("data_server_store_connections_{which} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            value.expect("a gauge").parse().expect("a number")
        })
    };
    assert_eq!(connections(), [0, 0]);
    server.store("key", "value");
    eventually("one connection waits", || connections() == [1, 1]);
    stub.fail("GET", "key", Fault::StallUndone, 2);
    let mut waiting = [(); 2].map(|()| server.connect());
    for one in &mut waiting {
        one.send("GET /key HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    eventually("two are in use", || connections() == [2, 0]);
    drop(waiting);
    let comes = || connections() == [0, 0];
    eventually("they are closed with their requests", comes);
}

#[test]
fn a_store_that_does_not_answer_is_not_ready() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "1s"]);
    assert_eq!(server.get("-/ready").status, 200);
    stub.fail("HEAD", "", Fault::Refuse(403, "AccessDenied", None), 1000);
    let ready = || String::from_utf8_lossy(&server.get("-/ready").body).into_owned();
    let refused = "not ready: the store refuses the server's requests\n";
    eventually("it is not ready", || ready() == refused);
    let event = server.event("not ready");
    assert!(
        event.field("error").contains("403"),
        "{}",
        event.field("error")
    );
    stub.heal();
    for method in ["GET", "HEAD"] {
        stub.fail(method, "", Fault::StallUndone, 1000);
    }
    let silent = "not ready: the store did not answer in time\n";
    eventually("it says that it waits", || ready() == silent);
    let status = server.get("-/healthz").status;
    assert_eq!(status, 200, "a restart would change nothing");
    stub.heal();
    eventually("it is ready again", || server.get("-/ready").status == 200);
}

#[test]
fn options_of_a_directory_are_refused_with_a_reason() {
    let stub = Stub::start();
    for (option, value) in [
        ("--dir", "/tmp"),
        ("--cache", "1MiB"),
        ("--durability", "os"),
        ("--min-free", "1MiB"),
        ("--listing-index", "1MiB"),
        ("--compress", ""),
        ("--compat", ""),
    ] {
        let args = [option, value].into_iter().filter(|word| !word.is_empty());
        let args: Vec<&str> = args.collect();
        let ended = Launch::new(&args).on_bucket(&stub.bucket).run();
        assert_eq!(ended.code, Some(2), "{option}: {}", ended.stderr);
        let line = format!("{option} cannot be had with --store: ");
        assert!(ended.stderr.contains(&line), "{option}: {}", ended.stderr);
    }
    assert_eq!(stub.asked().len(), 0, "the store is not asked");
    for store in ["http://bucket", "s3://", "s3://b", "s3://bucket/../x"] {
        let ended = Launch::new(&["--store", store, "--listen", "127.0.0.1:0"])
            .bare()
            .run();
        assert_eq!(ended.code, Some(2), "{store}: {}", ended.stderr);
        let is_right = ended.stderr.contains("--store");
        assert!(is_right, "{store}: {}", ended.stderr);
    }
}
