//! Proves service under load: thousands of PUTs and GETs from 32 connections without an error. The numbers of connections
//! of any two reactors differ by at most one.

use crate::support::prelude::*;

const CONNECTIONS: usize = 32;

fn keys() -> usize {
    scaled(2_000, 10_000)
}

#[test]
fn thousands_of_puts_and_gets_from_32_connections_without_an_error() {
    let launch = Launch::new(&["--threads", "4"]).on(&DataDir::in_memory());
    let mut server = launch.start();
    thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            let server = &server;
            scope.spawn(move || put_and_get(server, (first..keys()).step_by(CONNECTIONS)));
        }
    });
    assert_eq!(server.dir.names().len(), keys());
    server.dir.assert_nothing_staged();
    server.stop();

    let drained = server.events("reactor drained");
    let reactors = drained.iter().map(|event| event.number("reactor"));
    let mut reactors: Vec<u64> = reactors.collect();
    reactors.sort_unstable();
    assert_eq!(reactors, [0, 1, 2, 3]);
    let connections = drained.iter().map(|event| event.number("connections"));
    let connections: Vec<u64> = connections.collect();
    let requests: u64 = drained.iter().map(|event| event.number("requests")).sum();
    // Each of them counts once, and they are taken in turn.
    assert_eq!(connections, [8; 4]);
    assert_eq!(requests, 2 * keys() as u64);
}

/// Stores each of these keys and reads it back, all on one connection.
fn put_and_get(server: &TestServer, keys: impl Iterator<Item = usize>) {
    let mut connection = server.connect();
    for n in keys {
        let value = pattern(n as u64, n % 5000);
        let head = put_head(&format!("key-{n}"), value.len());
        let request = [head.as_bytes(), &value].concat();
        assert_eq!(connection.ask(request).status, 200, "PUT /key-{n}");
        let got = connection.ask(format!("GET /key-{n} HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(got.status, 200, "GET /key-{n}");
        let (found, all) = (got.body.len(), value.len());
        assert!(got.body == value, "GET /key-{n}: {found} bytes of {all}");
    }
}
