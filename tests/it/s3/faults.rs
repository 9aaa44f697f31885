//! Uploads and downloads that break off, at the client's end and at the store's.

use super::{reason, send, serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub, VersityGw};

/// Several pieces of an upload.
const LEN: usize = 3 << 20;

#[test]
fn an_upload_under_way_when_the_server_is_killed_leaves_the_old_value() {
    let store = needed!(VersityGw::shared());
    let bucket = store.bucket.beneath("killed");
    let server = serve_plainly(&bucket, &[]);
    server.store("key", "old");
    let mut raw = server.connect();
    raw.send(put_head("key", LEN));
    raw.send(&pattern(1, LEN)[..LEN - 1]);
    drop(server);
    assert_eq!(bucket.read("key").as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_download_that_stalls_or_never_gets_a_byte_of_the_store_ends_behind_its_head() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "500ms"]);
    let value = pattern(1, LEN);
    for (key, fault) in [("k", Fault::StallAt(100_000)), ("l", Fault::CutAt(0))] {
        stub.bucket.place(key, &value);
        stub.fail("GET", key, fault.clone(), 100);
        let mut raw = server.begin("GET", &format!("/{key}"), "");
        assert_eq!(raw.head().status, 200);
        let mut body = Vec::new();
        raw.stream_to(LEN, &mut [0; 1 << 14], |piece| {
            body.extend_from_slice(piece);
        });
        let is_right = match fault {
            Fault::CutAt(_) => body.is_empty(),
            _ => body.len() < LEN && value.starts_with(&body),
        };
        assert!(is_right, "{fault:?}: {} bytes", body.len());
    }
}

#[test]
fn a_store_that_refuses_an_upload_under_way_is_heard() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    let value = pattern(1, LEN);
    let refuse = |status, code| Fault::Refuse(status, code, None);
    for (fault, status, expected) in [
        (refuse(507, "InsufficientStorage"), 507, "no-space"),
        (refuse(403, "AccessDenied"), 500, "store-refused"),
        (Fault::LoseUndone, 502, "outcome-unknown"),
    ] {
        stub.fail("PUT", "key", fault.clone(), 100);
        let answer = send(&server, "PUT", "key", "", &value);
        stub.heal();
        let found = (answer.status, &*reason(&answer));
        assert_eq!(found, (status, expected), "{fault:?}");
        assert_eq!(server.get("key").status, 404);
    }
}

/// A request on such a connection is sent again on another, a change too: it cannot have been made.
#[test]
fn no_client_sees_that_the_store_closes_its_idle_connections() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--threads", "1"]);
    let idle = || Scrape::of(server.addr).count("data_server_store_connections_idle", &[]);
    for n in 0..scaled(5, 50) {
        for (method, expected) in [("PUT", 200), ("GET", 200), ("HEAD", 200), ("DELETE", 200)] {
            server.store("kept", "v");
            eventually("a connection waits", || idle() > 0);
            let before = stub.asked_for(method, "key").len();
            stub.hang_up();
            let answer = send(&server, method, "key", "", b"value");
            assert_eq!(answer.status, expected, "{method} {n}: {answer:?}");
            assert!(stub.asked_for(method, "key").len() > before, "{method}");
        }
    }
}

#[test]
fn a_slow_store_is_waited_for() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "5s"]);
    for method in ["PUT", "GET", "DELETE"] {
        stub.fail(method, "key", Fault::Slow(Duration::from_millis(700)), 1);
        let status = send(&server, method, "key", "", b"value").status;
        assert_eq!(status, 200, "{method}");
    }
}
