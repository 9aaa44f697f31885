//! Long values that go from the store's socket to the client's inside the kernel.

use super::{serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Stub, VersityGw};

const MIB: usize = 1 << 20;

/// How many responses `server` has sent past hyper by now.
fn sent(server: &TestServer) -> String {
    let labels = [("direction", "send")];
    let all = Scrape::of(server.addr).sum("data_server_takeovers_total", &labels);
    all.to_string()
}

/// The value of this metric by now.
fn now(server: &TestServer, name: &str) -> String {
    Scrape::of(server.addr).only(name).to_string()
}

#[test]
fn long_values_are_moved_and_the_client_keeps_its_connection() {
    let store = needed!(VersityGw::shared());
    let server = serve(&store.bucket.beneath("moved"), &[]);
    let value = pattern(1, 9 * MIB + 7);
    server.store("key", &value);
    server.store("short", &value[..MIB - 1]);
    let raw = &mut server.connect();
    let end = value.len() - MIB;
    for (lines, expected, moved) in [
        ("", 0..value.len(), "1"),
        ("Range: bytes=5-\r\n", 5..value.len(), "2"),
        ("Range: bytes=-1048576\r\n", end..value.len(), "3"),
        ("Range: bytes=3-1048577\r\n", 3..MIB + 2, "3"),
    ] {
        let found = raw.ask(format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
        assert!(found.body == value[expected], "{lines}");
        assert_eq!(sent(&server), moved, "{lines}");
    }
    let short = raw.ask("GET /short HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(short.body == value[..MIB - 1]);
    let mut old = server.connect();
    let found = old.ask("GET /key HTTP/1.0\r\n\r\n");
    assert!(found.body == value, "HTTP/1.0");
    assert_eq!(sent(&server), "4");
}

#[test]
fn a_connection_that_was_lent_is_closed_behind_the_value() {
    let stub = Stub::start();
    let args = ["--threads", "1"];
    let server = serve_plainly(&stub.bucket, &args);
    let value = pattern(1, 3 * MIB);
    server.store("key", &value);
    let open = || now(&server, "data_server_store_connections_open");
    eventually("one connection waits", || open() == "1");
    for _ in 0..3 {
        assert!(server.get("key").body == value);
    }
    eventually("none is left", || open() == "0");
}

#[test]
fn a_client_that_goes_costs_no_more_of_the_value_and_what_it_sent_is_done() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &[]);
    stub.bucket.place("key", pattern(1, 64 * MIB));
    let mut raw = Raw::connect_narrow(server.addr);
    raw.send("GET /key HTTP/1.1\r\nHost: t\r\n\r\n");
    raw.send([put_head("behind", 5).as_bytes(), b"value"].concat());
    assert_eq!(raw.head().status, 200);
    drop(raw);
    let comes = || server.get("behind").body == b"value";
    eventually("the request behind is performed", comes);
    let comes = || now(&server, "data_server_store_requests_active") == "0";
    eventually("nothing is under way", comes);
}

#[test]
fn a_client_by_tls_gets_what_the_pipe_holds_sealed() {
    let stub = Stub::start();
    let (authority, value) = (Authority::new(), pattern(1, 3 * MIB + 5));
    stub.bucket.place("key", &value);
    let own = authority.issue("own", &["127.0.0.1"]);
    let args = [&own.options()[..], &["--s3-conditions", "off"]].concat();
    let launch = Launch::new(&args).listen("https://127.0.0.1:0");
    let server = launch.on_bucket(&stub.bucket).start();
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    for _ in 0..2 {
        let found = raw.ask("GET /key HTTP/1.1\r\nHost: t\r\n\r\n");
        assert!(found.body == value, "{} bytes", found.body.len());
    }
}
