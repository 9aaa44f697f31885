//! Proves that a refused request has its answer, whatever else is sent, and that a head means the same however it
//! arrives. That ambiguous framing is refused, and what is behind it is no request, is proved by `security::attacks`.

use crate::support::prelude::*;

/// Closing on unread bytes resets a connection, and a reset can overtake the answer. The bodies are far longer than the
/// buffers of sockets, one pause is longer than the server once waited, and one client sends more than the server
/// reads.
#[test]
fn a_refused_client_gets_the_answer_while_it_sends_and_after_that() {
    let server = TestServer::start(&["--read-only"]);
    thread::scope(|scope| {
        // A stream of HTTP/2 is ended, and its client knows.
        for pause in by_protocol(&[0, 0, 3][..], &[]).iter().copied() {
            let mut connection = server.connect();
            scope.spawn(move || {
                let half = vec![b'x'; 10 << 20];
                connection.send(put_head("k", 2 * half.len()));
                connection.send(&half);
                thread::sleep(Duration::from_secs(pause)); // a pause is what is tested
                connection.send(&half);
                assert_eq!(connection.answer().status, 403);
            });
        }
        let body = vec![b'x'; 100_000_000];
        let mut connection = server.connect();
        connection.send(put_head("k", body.len()));
        let mut sending = connection.twin();
        // Ends with an error when the server closes.
        scope.spawn(move || sending.offer(&body));
        assert_eq!(connection.answer().status, 403);
    });
}

/// The answers before it come in order, and it is the last.
#[test]
fn a_malformed_request_is_answered_after_those_before_it() {
    let server = TestServer::start(&[]);
    server.dir.place("here", "value");
    let faulty =
        "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nvalue";
    let put =
        "PUT /first HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let get = get_head("here");
    let requests = [&get, put, &get, faulty, &get].concat();
    for size in [1, 7, 50, 1000] {
        let mut connection = server.connect();
        for piece in requests.as_bytes().chunks(size) {
            let _closed_after_the_fault = connection.offer(piece);
        }
        assert_eq!(connection.answer().body, b"value", "pieces of {size}");
        assert_eq!(connection.answer().status, 200, "pieces of {size}");
        assert_eq!(connection.answer().body, b"value", "pieces of {size}");
        assert_eq!(connection.answer().status, 400, "pieces of {size}");
        connection.finish();
        connection.assert_closed();
        server.dir.assert_holds(&["first", "here"]);
    }
}

/// What nothing reads is taken out of a head: the rest of it means the same, however it arrives, and so does what
/// follows.
#[test]
fn fields_that_nothing_reads_change_nothing() {
    http1_only!("heads of HTTP/1");
    let server = TestServer::start(&[]);
    let fields = "User-Agent: curl\r\nHost: t\r\nCOOKIE: a=\t\u{e9}\r\nsec-ch-ua:\r\n";
    let put = format!("PUT /k HTTP/1.1\r\n{fields}Content-Length: 5\r\nReferer: x\r\n\r\nvalue");
    let get =
        format!("GET /k HTTP/1.1\r\n{fields}Via: x\r\nIf-None-Match: \"x\"\r\nDNT: 1\r\n\r\n");
    let both = [put, get].concat();
    for size in [1, 7, 50, both.len()] {
        let mut connection = server.connect();
        for piece in both.as_bytes().chunks(size) {
            connection.send(piece);
        }
        assert_eq!(connection.answer().status, 200, "pieces of {size}");
        assert_eq!(connection.answer().body, b"value", "pieces of {size}");
    }
    // None is taken out that may not be there at all.
    for bad in "User-Agent: a\u{1}|User-Agent : a|Cookie: a\u{7f}| Cookie: a".split('|') {
        let head = format!("GET /k HTTP/1.1\r\nHost: t\r\n{bad}\r\n\r\n");
        assert_eq!(server.connect().ask(head).status, 400, "{bad:?}");
    }
    // And each counts.
    let many = "DNT: 1\r\n".repeat(100);
    let head = format!("GET /k HTTP/1.1\r\nHost: t\r\n{many}\r\n");
    assert_eq!(server.connect().ask(head).status, 431);
}

/// What a client sends of a body that is not read is no request, also where the head of a long upload waits behind it.
#[test]
fn an_unread_body_before_a_long_upload_is_never_a_request() {
    http1_only!("bodies have a frame of their own");
    let server = TestServer::start(&[]);
    server.store("here", "v");
    let evil = "PUT /evil HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx";
    let padded = "\r\n".repeat(8192) + evil;
    let chunks = format!("1\r\na\r\n{:x}\r\n{evil}\r\n0\r\n\r\n", evil.len());
    let of_length = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let bodies = [
        of_length(evil),
        of_length(&padded),
        format!("Transfer-Encoding: chunked\r\n\r\n{chunks}"),
    ];
    let long = put_head("long", 300_000);
    for begin in [
        "GET /none HTTP/1.1",
        "GET /here HTTP/1.1\r\nExpect: 100-continue",
        "DELETE /none HTTP/1.1\r\nExpect: 100-continue",
        "PUT /-/none HTTP/1.1\r\nExpect: 100-continue",
        "PUT /here HTTP/1.1\r\nIf-None-Match: *\r\nExpect: 100-continue",
    ] {
        for body in &bodies {
            let mut client = server.connect();
            client.send(format!("{begin}\r\nHost: t\r\n{body}{long}"));
            let first = client.answer();
            client.finish();
            client.rest();
            assert_eq!(server.get("evil").status, 404, "behind {begin}: {first:?}");
        }
    }
}
