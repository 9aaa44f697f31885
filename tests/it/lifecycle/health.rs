//! Proves `data-server health`: its exit code says whether a server is well, and one line why not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use tempfile::TempDir;

use crate::support::{Ended, Launch, TestServer};

fn health(words: &[&str]) -> Launch {
    Launch::new(&[&["health"], words].concat()).bare()
}

#[track_caller]
fn assert_well(ended: &Ended) {
    let said = (ended.code, ended.stdout.as_str(), ended.stderr.as_str());
    assert_eq!(said, (Some(0), "", ""));
}

#[track_caller]
fn assert_unwell(ended: &Ended, why: &str) {
    let said = ended.stderr.trim_end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains(why), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_server_that_answers_is_well() {
    let server = TestServer::start(&[]);
    let url = format!("http://{}", server.addr);
    for path in ["", "/", "/-/healthz", "/-/ready"] {
        assert_well(&health(&[&format!("{url}{path}")]).run());
    }
    assert_unwell(&health(&[&format!("{url}/missing")]).run(), "404 Not Found");
}

#[test]
fn without_a_url_the_server_with_the_same_options_is_asked() {
    let server = TestServer::start(&["--admin", "127.0.0.1:0"]);
    let (address, admin) = (server.addr.to_string(), server.admin().to_string());
    let by = |name: &str, value: &str| health(&[]).env(name, value);
    // Its own pages are there only, and a key of that name cannot be.
    assert_well(&by("DATA_SERVER_ADMIN", &admin).run());
    assert_unwell(&by("DATA_SERVER_LISTEN", &address).run(), "404 Not Found");
    let both = by("DATA_SERVER_LISTEN", &address).env("DATA_SERVER_ADMIN", &admin);
    assert_well(&both.run());
    let any_port = by("DATA_SERVER_LISTEN", "127.0.0.1:0").run();
    assert_eq!(any_port.code, Some(2), "{}", any_port.stderr);
}

#[test]
fn a_server_on_all_addresses_is_asked_on_loopback() {
    let server = TestServer::start(&["--admin", ":0"]);
    let admin = format!(":{}", server.admin().port());
    assert_well(&health(&[]).env("DATA_SERVER_ADMIN", admin).run());
}

#[test]
fn a_server_on_a_unix_socket_is_asked_there() {
    let place = TempDir::new().expect("a directory");
    let at = format!("unix:{}", place.path().join("socket").display());
    assert_unwell(&health(&[&at]).run(), "No such file");
    let _server = TestServer::start(&["--listen", &at]);
    assert_well(&health(&[&at]).run());
    // A descriptor names no place: the next one is asked.
    let places = format!("fd:3,{at}");
    assert_well(&health(&[]).env("DATA_SERVER_LISTEN", places).run());
}

#[test]
fn a_port_where_nobody_listens_is_unwell() {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port");
    assert_unwell(
        &health(&[&format!("http://{address}")]).run(),
        "Connection refused",
    );
}

/// Answers the first request of one connection with `answer`, and keeps it open.
fn stub(answer: &'static str) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    thread::spawn(move || {
        let (mut connection, _) = socket.accept().expect("a connection");
        let _ = connection.read(&mut [0; 1024]).expect("a request");
        connection.write_all(answer.as_bytes()).expect("an answer");
        // Until the other side ends it.
        let _ = connection.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn what_does_not_answer_rightly_is_unwell() {
    for (answer, why) in [
        ("", "no answer within 300ms"),
        ("HTTP/1.1 200 O", "no answer within 300ms"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "invalid HTTP version"),
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "503 Service Unavailable",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "204 No Content"),
        (
            "HTTP/1.1 302 Found\r\nLocation: /-/healthz\r\n\r\n",
            "302 Found",
        ),
    ] {
        let url = format!("http://{}", stub(answer));
        assert_unwell(&health(&[&url, "--timeout", "300ms"]).run(), why);
    }
}

#[test]
fn a_url_of_another_kind_is_refused() {
    for url in [
        "https://127.0.0.1:8443",
        "127.0.0.1:8080",
        "unix:",
        "http://",
    ] {
        assert_unwell(&health(&[url]).run(), "give a URL");
    }
}
