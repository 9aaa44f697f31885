//! Proves `data-server health`: its exit code says whether a server is well, and one line why not.

use crate::support::prelude::*;

fn health(words: &[&str]) -> Launch {
    Launch::new(&[&["health"], words].concat()).bare()
}

#[track_caller]
fn assert_well(ended: &Ended) {
    assert_eq!(ended.printed(), "");
}

#[track_caller]
fn assert_unwell(ended: &Ended, why: &str) {
    ended.says(1, why);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_server_that_answers_is_well() {
    clear_only!("its URL is of http");
    let server = TestServer::start(&[]);
    let url = format!("http://{}", server.addr);
    for path in ["", "/", "/-/healthz", "/-/ready"] {
        assert_well(&health(&[&format!("{url}{path}")]).run());
    }
    let missing = format!("{url}/missing");
    let why = format!("data-server: {missing}: it answers 404 Not Found");
    assert_unwell(&health(&[&missing]).run(), &why);
}

#[test]
fn without_a_url_the_server_with_the_same_options_is_asked() {
    clear_only!("its URL is of http");
    let server = TestServer::start(&["--admin", "127.0.0.1:0"]);
    let (address, admin) = (server.addr.to_string(), server.admin().to_string());
    let by = |name: &str, value: &str| health(&[]).env(name, value);
    assert_well(&by("DATA_SERVER_ADMIN", &admin).run());
    assert_well(&by("DATA_SERVER_LISTEN", &address).run());
    // A descriptor names no place.
    let inherited = by("DATA_SERVER_LISTEN", &address).env("DATA_SERVER_ADMIN", "fd:4");
    assert_well(&inherited.run());
    let both = by("DATA_SERVER_LISTEN", &address).env("DATA_SERVER_ADMIN", &admin);
    assert_well(&both.run());
    let any_port = by("DATA_SERVER_LISTEN", "127.0.0.1:0").run();
    assert_eq!(any_port.code, Some(2), "{}", any_port.stderr);
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

/// A server that listens over TLS alone.
fn sealed(own: &Issued, options: &[&str]) -> TestServer {
    let options = [&own.options()[..], options].concat();
    Launch::new(&options).listen("https://127.0.0.1:0").start()
}

#[test]
fn over_tls_the_certificate_decides_too() {
    let authority = Authority::new();
    let file = authority.file();
    let ca = ["--ca", file.to_str().expect("text")];
    let issued = "invalid peer certificate: UnknownIssuer; --ca FILE";
    let server = sealed(&authority.issue("own", &["127.0.0.1", "localhost"]), &[]);
    let port = server.addr.port();
    for host in ["127.0.0.1", "localhost"] {
        assert_well(&health(&[&*format!("https://{host}:{port}"), ca[0], ca[1]]).run());
    }
    let url = &*format!("https://127.0.0.1:{port}");
    assert_well(&health(&[url, "--insecure"]).run());
    assert_well(&health(&[url]).env("SSL_CERT_FILE", &file).run());
    assert_unwell(&health(&[url]).run(), issued);
    let missing = health(&[&format!("{url}/missing"), ca[0], ca[1]]).run();
    assert_unwell(&missing, "404");
    let none = health(&[url, "--ca", "/nonexistent/ca.pem"]).run();
    assert_unwell(&none, "--ca /nonexistent/ca.pem: ");
    health(&[url, ca[0], ca[1], "--insecure"]).run().says(2, "");
    assert_unwell(&health(&[&format!("http://127.0.0.1:{port}")]).run(), "");
    let here = ["127.0.0.1"];
    let named = authority.issue("named", &["other.example"]);
    let expired = authority.issue_until("expired", &here, 2020);
    let other = Authority::new();
    let foreign = other.issue("foreign", &here);
    for (own, why) in [
        (named, "certificate not valid for name"),
        (expired, "certificate expired"),
        (foreign, "invalid peer certificate: "),
    ] {
        let server = sealed(&own, &[]);
        let url = &*format!("https://{}", server.addr);
        assert_unwell(&health(&[url, ca[0], ca[1]]).run(), why);
        assert_well(&health(&[url, "--insecure"]).run());
    }
    let wary = ["--tls-client-ca", ca[1]];
    let server = sealed(&authority.issue("own", &["127.0.0.1"]), &wary);
    let url = &*format!("https://{}", server.addr);
    // Whether the alert arrives is a race with the request.
    assert_unwell(&health(&[url, "--insecure"]).run(), "");
}

#[test]
fn a_certificate_that_stands_in_the_file_itself_is_trusted_for_its_names() {
    let dir = DataDir::temporary();
    let own = Issued::by_openssl(dir.path(), "own", "IP:127.0.0.1");
    let ca = ["--ca", own.certificate.to_str().expect("text")];
    let server = sealed(&own, &[]);
    let url = |host: &str| format!("https://{host}:{}", server.addr.port());
    assert_well(&health(&[&url("127.0.0.1"), ca[0], ca[1]]).run());
    let other = health(&[&url("localhost"), ca[0], ca[1]]).run();
    assert_unwell(&other, "certificate not valid for name");
    assert_unwell(&health(&[&url("127.0.0.1")]).run(), "; --ca FILE");
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("its address")
}

#[test]
fn a_server_over_tls_alone_is_asked_without_a_url() {
    let authority = Authority::new();
    let own = authority.issue("own", &["store.example"]);
    let server = sealed(&own, &[]);
    let asked = |place: &str, options: &[&str]| {
        health(options)
            .env("DATA_SERVER_LISTEN", place)
            .env("DATA_SERVER_TLS_CERT", &own.certificate)
            .env("DATA_SERVER_TLS_KEY", &own.key)
            .run()
    };
    let place = format!("https://{}", server.addr);
    assert_well(&asked(&place, &[]));
    let everywhere = format!("https://0.0.0.0:{}", server.addr.port());
    assert_well(&asked(&everywhere, &[]));
    let strictly = asked(&place, &["--ca", authority.file().to_str().expect("text")]);
    assert_unwell(&strictly, "certificate not valid for name");
    // What is in the clear is asked first.
    let gone = nobody();
    let both = asked(&format!("{place},{gone}"), &[]);
    assert_unwell(&both, &format!("http://{gone}: "));
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
    let moved = "HTTP/1.1 302 Found\r\nLocation: /-/healthz\r\n\r\n";
    for (answer, why) in [
        ("", "no answer within 300ms"),
        ("HTTP/1.1 200 O", "no answer within 300ms"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "invalid HTTP version"),
        ("HTTP/1.1 503 Busy\r\n\r\n", "503 "),
        ("HTTP/1.1 204 No Content\r\n\r\n", "204 No Content"),
        (moved, "302 Found"),
    ] {
        let url = format!("http://{}", stub(answer));
        assert_unwell(&health(&[&url, "--timeout", "300ms"]).run(), why);
    }
    let ended = health(&[&format!("http://{}", nobody())]).run();
    assert_unwell(&ended, "Connection refused");
    // A URL of another kind is asked nothing.
    for url in words("ftp://127.0.0.1 https:// 127.0.0.1:8080 unix: http://") {
        assert_unwell(&health(&[url]).run(), "give a URL");
    }
}
