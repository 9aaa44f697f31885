//! What a request is, by its fields and pseudo-fields.

use super::server;
use crate::support::{Http2, Response, TestServer};

fn ask(server: &TestServer, method: &str, uri: &str, fields: &[(&str, &str)]) -> Response {
    let mut client = Http2::connect(server.addr);
    let asked = client.ask(method, uri, fields, true);
    asked.expect("a request").answer().expect("a response")
}

/// They were taken where they were equal; over HTTP/1.1 they never were.
#[test]
fn a_second_content_length_is_refused() {
    let server = server(&[]);
    for lengths in [["0", "0"], ["0", "1"]] {
        let fields = lengths.map(|len| ("content-length", len));
        let mut client = Http2::connect(server.addr);
        let asked = client.ask("PUT", "http://t/k", &fields, true);
        match asked.expect("a request").answer() {
            Ok(answer) => assert_eq!(answer.status, 400, "{lengths:?}"),
            Err(error) => assert!(error.is_reset(), "{lengths:?}: {error}"),
        }
    }
    assert!(server.dir.get("k").is_none());
}

#[test]
fn the_authority_is_the_host_and_another_host_is_refused() {
    let server = server(&[]);
    server.dir.place("k", "value");
    for (host, status) in [
        (None, 200),
        (Some("store.example:80"), 200),
        (Some("STORE.example:80"), 200),
        (Some("store.example"), 400),
        (Some("other.example:80"), 400),
        (Some(""), 400),
    ] {
        let fields: Vec<_> = host.into_iter().map(|host| ("host", host)).collect();
        let got = ask(&server, "GET", "http://store.example:80/k", &fields);
        assert_eq!(got.status, status, "Host: {host:?}");
    }
}

#[test]
fn a_421_names_the_authority_with_its_port() {
    let server = server(&["--allowed-host", "store.example"]);
    let found = ask(&server, "GET", "http://store.example/", &[]).status;
    assert_eq!(found, 200);
    let got = ask(&server, "GET", "http://other.example:81/", &[]);
    let text = got.text();
    assert_eq!(got.status, 421, "{text}");
    assert!(text.contains("\"other.example:81\""), "{text}");
    assert!(text.contains("--allowed-host other.example "), "{text}");
}

/// Pairs of a cookie count as one field: Chromium with 120 cookies of localhost was refused, whose cookies over
/// HTTP/1.1 are one line.
#[test]
fn more_than_a_hundred_fields_are_431_and_the_connection_goes_on() {
    let server = server(&[]);
    server.dir.place("k", "value");
    let mut client = Http2::connect(server.addr);
    for (name, count, status) in [
        ("x-field", 100, 200),
        ("x-field", 101, 431),
        ("x-field", 300, 431),
        ("cookie", 120, 200),
    ] {
        let fields = vec![(name, "a=b"); count];
        let asked = client.ask("GET", "http://t/k", &fields, true);
        let got = asked.expect("a request").answer().expect("a response");
        assert_eq!(got.status, status, "{count} fields {name}");
    }
    assert_eq!(client.get("k").body, b"value");
}
