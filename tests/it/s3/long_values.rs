//! Values that are longer than what is held of them between the store and the client.

use super::{serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Stub, VersityGw};

const MIB: usize = 1 << 20;

/// The value of this metric by now.
fn now(server: &TestServer, name: &str) -> String {
    Scrape::of(server.addr).only(name).to_string()
}

#[test]
fn a_client_gets_long_values_and_keeps_its_connection() {
    let store = needed!(VersityGw::shared());
    let server = serve(&store.bucket.beneath("long-values"), &[]);
    let value = pattern(1, 9 * MIB + 7);
    server.store("key", &value);
    let raw = &mut server.connect();
    for (lines, expected) in [
        ("", 0..value.len()),
        ("Range: bytes=5-\r\n", 5..value.len()),
        ("Range: bytes=-1048576\r\n", value.len() - MIB..value.len()),
        ("Range: bytes=3-1048577\r\n", 3..MIB + 2),
    ] {
        let found = raw.ask(format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
        assert!(found.body == value[expected], "{lines}");
    }
    let mut old = server.connect();
    let found = old.ask("GET /key HTTP/1.0\r\n\r\n");
    assert!(found.body == value, "HTTP/1.0");
}

#[test]
fn connections_bring_one_long_value_after_the_other() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--threads", "1"]);
    let value = pattern(1, 3 * MIB);
    server.store("key", &value);
    for _ in 0..8 {
        assert!(server.get("key").body == value);
    }
    // A request may come before the connection is free again.
    let open = now(&server, "data_server_store_connections_open");
    assert!(["1", "2"].contains(&&*open), "{open} connections");
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
fn a_client_by_tls_gets_a_long_value_whole() {
    let stub = Stub::start();
    let (authority, value) = (Authority::new(), pattern(1, 3 * MIB + 5));
    stub.bucket.place("key", &value);
    let own = authority.issue("own", &["127.0.0.1"]);
    let args = [&own.options()[..], &["--s3-conditions", "off"]].concat();
    let launch = Launch::new(&args).listen("https://127.0.0.1:0");
    let server = launch.on_bucket(&stub.bucket).start();
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    for _ in 0..2 {
        let found = raw.get("key");
        assert!(found.body == value, "{} bytes", found.body.len());
    }
}
