//! Proves HTTP/1 as clients use it: keep-alive, pipelining, HTTP/1.0, chunked bodies, `Expect: 100-continue`.

use crate::support::prelude::*;

fn server_with_here() -> TestServer {
    let server = TestServer::start(&[]);
    server.dir.place("here", "value");
    server
}

/// The last answer waits to leave together with the end of the connection. A reset, which unread bytes cause, must not
/// lose it.
#[test]
fn the_last_answer_arrives_whole_despite_bytes_behind_its_request() {
    let server = TestServer::start(&[]);
    for size in [0, 1, 5000, 40_000, 3_000_000] {
        let value = pattern(1, size);
        server.store("k", &value);
        for behind in [
            &b""[..],
            b"\r\n",
            b"GET /k HTTP/1.1\r\nHost: t\r\n\r\n",
            &[b'x'; 9000],
        ] {
            let mut connection = server.connect();
            let request = b"GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
            connection.send([request, behind].concat());
            let got = connection.answer();
            assert!(got.status == 200 && got.body == value, "{size} bytes");
        }
    }
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let server = server_with_here();
    let mut connection = server.connect();
    let got = connection.ask("GET /here HTTP/1.0\r\n\r\n");
    assert_eq!((got.status, got.body.as_slice()), (200, &b"value"[..]));
    connection.assert_closed();

    let mut connection = server.connect();
    for _ in 0..2 {
        let got = connection.ask("GET /here HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let seen = (got.status, got.header("connection"));
        assert_eq!(seen, (200, Some("keep-alive")));
    }
    assert_eq!(connection.ask("GET /here HTTP/1.0\r\n\r\n").status, 200);
    connection.assert_closed();
}

#[test]
fn an_accepted_upload_gets_100_continue_before_it_is_read() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect();
    for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let lines = format!("{framing}\r\nExpect: 100-continue\r\n");
        connection.begin("PUT", "/k", &lines);
        assert_eq!(connection.head().status, 100, "{framing}");
        connection.send(if framing.starts_with('C') {
            "value"
        } else {
            "5\r\nvalue\r\n0\r\n\r\n"
        });
        assert_eq!(connection.answer().status, 200, "{framing}");
    }
    assert_eq!(server.dir.read("k"), b"value");
}

/// RFC 9110, section 15.2.
#[test]
fn no_interim_response_goes_to_a_client_of_http_1_0() {
    let server = TestServer::start(&[]);
    for length in [5, 300_000] {
        let mut connection = server.connect();
        connection.send(format!(
            "PUT /k HTTP/1.0\r\nHost: t\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\
             Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n\r\n"
        ));
        let told = connection.silent_for(Duration::from_millis(200));
        assert_eq!(told, Ok(()), "{length}");
        connection.send(vec![b'x'; length]);
        assert_eq!(connection.answer().status, 200, "{length}");
    }
}

#[test]
fn discard_reads_the_whole_body_before_it_answers() {
    let server = TestServer::start(&["--discard"]);
    let mut connection = server.connect();
    let body = vec![b'x'; 3_000_000];
    for _ in 0..3 {
        connection.send(put_head("k", body.len()));
        connection.send(&body[1..]);
        let unanswered = connection.silent_for(Duration::from_millis(100));
        unanswered.expect("no answer before the last byte");
        connection.send(b"x");
        assert_eq!(connection.answer().status, 200);
    }
    server.dir.assert_holds(&[]);
}

#[test]
fn a_silent_client_does_not_delay_others() {
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("here", "value");
    let _silent: Vec<Raw> = (0..50).map(|_| server.connect()).collect();
    let mut half = server.connect();
    half.send("GET /he");
    assert_eq!(server.get("here").body, b"value");
    half.send("re HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(half.answer().body, b"value");
}

#[test]
fn http2_in_the_clear_that_is_off_is_told_in_http1() {
    let server = Launch::new(&[]).in_the_clear().start();
    for request in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /k HTTP/2.0\r\nHost: t\r\n\r\n",
    ] {
        let mut raw = server.connect();
        raw.send(request);
        let answer = raw.answer();
        assert_eq!(answer.status, 505, "{answer:?}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(text.contains("--http2-clear"), "{text}");
        raw.assert_closed();
    }
}
