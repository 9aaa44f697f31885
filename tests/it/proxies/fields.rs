//! Proves that the requests of a trusted proxy count as those of the client that Forwarded or X-Forwarded-For names, in
//! the logs, in the failures and in what one client may have, and that the fields of anybody else count for nothing.

use super::{ANN, BOB, LOGGED, audited, fails_alone, peers, policy};
use crate::support::prelude::*;

const TRUST: [&str; 2] = ["--trusted-proxy", "127.0.0.0/8"];

/// The line of a proxy that asks for `client`.
fn line(client: &str) -> String {
    format!("X-Forwarded-For: {client}\r\n")
}

/// Those that the log has, which the peer is among as itself.
fn clients(server: &mut TestServer) -> Vec<String> {
    let peers = peers(server).into_iter();
    let named = peers.map(|peer| match peer.strip_prefix("127.0.0.1:") {
        Some(_port) => "itself".to_owned(),
        None => peer,
    });
    named.collect()
}

fn get(raw: &mut Raw, lines: &str) -> u16 {
    ask(raw, "GET", "/k", lines, b"").status
}

#[test]
fn each_request_of_a_connection_has_the_client_that_its_fields_name() {
    for trusts in [true, false] {
        let trust: &[&str] = if trusts { &TRUST } else { &[] };
        let mut server = TestServer::start(&[trust, &LOGGED].concat());
        let mut raw = server.connect();
        let mut expected = Vec::new();
        for (lines, client) in [
            (line(ANN), Some(ANN)),
            (line("192.0.2.2:4711"), Some("192.0.2.2:4711")),
            (String::new(), None),
            (line("203.0.113.9, 192.0.2.1, 127.0.0.9"), Some(ANN)),
            // src/http/client.rs has the others.
            ("Forwarded: for=192.0.2.1\r\n".to_owned(), Some(ANN)),
            (line(ANN) + "Forwarded: for=192.0.2.2\r\n", None),
            (line("unknown"), None),
            (line(ANN) + &line(BOB), Some(BOB)),
        ] {
            assert_eq!(get(&mut raw, &lines), 404, "{lines}");
            expected.push(client);
        }
        // A long value, and an upload, which the connection moves itself.
        let value = vec![b'v'; 300_000];
        assert_eq!(ask(&mut raw, "PUT", "/k", &line(ANN), &value).status, 200);
        assert!(ask(&mut raw, "GET", "/k", &line(BOB), b"").body == value);
        expected.extend([ANN, BOB].map(Some));
        let expected = expected.into_iter().map(|client| client.filter(|_| trusts));
        let expected: Vec<_> = expected.map(|client| client.unwrap_or("itself")).collect();
        assert_eq!(clients(&mut server), expected);
    }
}

#[test]
fn streams_of_one_connection_may_be_of_several_clients() {
    clear_only!("its connection is in the clear");
    let args = [&TRUST[..], &LOGGED, &["--http2-clear"]].concat();
    let mut server = Launch::new(&args).in_the_clear().start();
    let mut http2 = Http2::connect(server.addr);
    for client in [ANN, BOB] {
        let asked = http2.ask("GET", "http://t/k", &[("x-forwarded-for", client)], true);
        let answer = asked.expect("a request").answer().expect("a response");
        assert_eq!(answer.status, 404);
    }
    assert_eq!(peers(&mut server), [ANN, BOB]);
}

#[test]
fn a_proxy_on_a_unix_socket_is_trusted_by_that_name() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("socket");
    let place = format!("unix:{}", path.display());
    let args = ["--listen", &place, "--trusted-proxy", "unix"];
    let mut server = TestServer::start(&[&args[..], &LOGGED].concat());
    let mut raw = Raw::connect_unix(&path);
    assert_eq!(get(&mut raw, &line(ANN)), 404);
    assert_eq!(get(&mut server.connect(), &line(ANN)), 404);
    assert_eq!(clients(&mut server), [ANN, "itself"]);
}

#[test]
fn failures_are_counted_and_audited_by_the_client_that_the_proxy_names() {
    let dir = DataDir::temporary();
    let mut server = policy(&dir, &[&TRUST[..], &["--audit-log"]].concat()).start();
    let mut raw = server.connect();
    fails_alone(&mut |client, lines| get(&mut raw, &(line(client) + lines)));
    // A client in front of the proxy cannot be another one each time.
    let mut raw = Raw::connect_from([127, 0, 0, 2], server.addr);
    let wrong = "Authorization: Bearer wrong\r\n";
    let statuses =
        (0..100u8).map(|at| get(&mut raw, &(line(&format!("203.0.113.{at}, {BOB}")) + wrong)));
    assert!(statuses.filter(|&status| status == 401).count() < 60);
    drop(raw);
    assert_eq!(audited(&mut server)[0], ANN);
}

#[test]
fn who_is_not_trusted_fails_as_itself_whatever_it_says() {
    let dir = DataDir::temporary();
    let server = policy(&dir, &["--trusted-proxy", "10.0.0.0/8"]).start();
    let mut raw = server.connect();
    let wrong = "Authorization: Bearer wrong\r\n";
    let statuses = (0..30u8).map(|at| get(&mut raw, &(line(&format!("192.0.2.{at}")) + wrong)));
    assert!(statuses.filter(|&status| status == 429).count() >= 10);
}

#[test]
fn unfinished_uploads_are_counted_by_the_client_that_the_proxy_names() {
    directory_only!("the files of uploads");
    let server = TestServer::start(&[&TRUST[..], &["--max-uploads-per-client", "1"]].concat());
    let create = |client: &str| {
        let raw = &mut server.connect();
        let lines = line(client) + "Upload-Complete: ?0\r\nUpload-Draft-Interop-Version: 8\r\n";
        Resumable::ask_to_create(raw, "k", &lines, b"x").status
    };
    let statuses = [ANN, ANN, BOB, BOB, "203.0.113.9, 192.0.2.3"].map(create);
    assert_eq!(statuses, [201, 503, 201, 503, 201]);
}

/// A page whose name was made to lead here could send these fields itself.
#[test]
fn a_field_does_not_take_a_connection_from_the_loopback_network() {
    let launch = Launch::new(&TRUST).env("DATA_SERVER_ALLOWED_HOST", "");
    let server = launch.start();
    let mut raw = server.connect();
    let answer = raw.ask(format!(
        "GET /k HTTP/1.1\r\nHost: evil.example\r\n{}\r\n",
        line(ANN)
    ));
    assert_eq!(answer.status, 421);
}

#[test]
fn what_is_no_network_is_refused_at_the_start() {
    let ended = Launch::new(&["--trusted-proxy", "unix:/run/socket"]).run();
    ended.says(2, "--trusted-proxy unix:/run/socket: no network");
    let launch = Launch::new(&[]).env("DATA_SERVER_TRUSTED_PROXY", "");
    assert_eq!(launch.start().get("k").status, 404);
    let launch = Launch::new(&["--access-log"]);
    let mut server = launch
        .env("DATA_SERVER_TRUSTED_PROXY", "10.0.0.0/8,127.0.0.1")
        .start();
    assert_eq!(get(&mut server.connect(), &line(ANN)), 404);
    assert_eq!(peers(&mut server), [ANN]);
}

/// A page of http may come from any machine between the browser and the proxy.
#[test]
fn behind_a_proxy_with_tls_a_page_of_http_is_one_of_another_origin() {
    let websocket = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for trusts in [true, false] {
        let trust: &[&str] = if trusts { &TRUST } else { &[] };
        // Over its own TLS a page of `http` is never its own.
        let server = Launch::new(trust).in_the_clear().start();
        for (proto, origin, is_own) in [
            ("https", "http", false),
            ("HTTPS", "http", false),
            ("https", "https", true),
            ("http", "http", true),
            // A second proxy may stand before the one that was asked by http.
            ("http", "https", true),
        ] {
            let is_own = is_own || !trusts;
            let lines = format!("X-Forwarded-Proto: {proto}\r\nOrigin: {origin}://t\r\n");
            for (method, target) in [("PUT", "/k"), ("DELETE", "/k"), ("MKCOL", "/d/")] {
                server.dir.place("k", "v");
                let status = server.request(method, target, &lines, b"").status;
                assert_eq!(status != 403, is_own, "{method} {lines}: {status}");
            }
            if !is_http2() && !is_s3() {
                let mut raw = server.connect();
                raw.send(format!(
                    "GET /-/watch HTTP/1.1\r\nHost: t\r\n{lines}{websocket}\r\n"
                ));
                assert_eq!(raw.head().status, if is_own { 101 } else { 403 }, "{lines}");
            }
        }
    }
}
