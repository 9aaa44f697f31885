//! Proves that a request with ambiguous framing or Host is refused and ends its connection, so that nothing behind it is
//! read as a request.

use crate::support::prelude::*;

const GET_HERE: &str = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";

fn server_with_here() -> TestServer {
    let server = TestServer::start(&[]);
    server.dir.place("here", "value");
    server
}

/// The body of a refused upload is dropped or ends the connection; it is never read as a request.
#[test]
fn bytes_behind_a_refused_head_are_not_a_request() {
    let server = server_with_here();
    for body in [GET_HERE.to_owned(), GET_HERE.repeat(3000)] {
        let mut connection = server.connect();
        connection.send(put_head("%2e%2e", body.len()));
        let sent = connection.offer(&body);
        let _may_be_cut = sent.and_then(|()| connection.offer(GET_HERE));
        assert_eq!(connection.answer().status, 400);
        connection.finish();
        let rest = connection.rest();
        let answers = count(&rest, b"HTTP/1.1 ");
        let is_right = answers <= 1;
        let len = body.len();
        assert!(is_right, "{answers} more answers to {len} bytes of body");
    }
}

/// Closing on unread bytes resets a connection, and a reset can overtake the answer.
#[test]
fn a_refused_client_that_sends_everything_first_gets_the_answer() {
    http1_only!("a stream of HTTP/2 is ended, and its client knows");
    let server = TestServer::start(&["--read-only"]);
    // Far more than the buffers of sockets hold, and with a pause longer than the server once waited.
    let body = vec![b'x'; 20 << 20];
    std::thread::scope(|scope| {
        for pause in [0, 0, 3] {
            let (server, body) = (&server, &body);
            scope.spawn(move || {
                let mut connection = server.connect();
                connection.send(put_head("k", body.len()));
                connection.send(&body[..10 << 20]);
                std::thread::sleep(Duration::from_secs(pause)); // a pause is what is tested
                connection.send(&body[10 << 20..]);
                assert_eq!(connection.answer().status, 403);
            });
        }
    });
}

/// The body is far longer than the server reads.
#[test]
fn a_refused_client_that_reads_while_it_sends_gets_the_answer() {
    let server = TestServer::start(&["--read-only"]);
    let body = vec![b'x'; 100_000_000];
    let mut connection = server.connect();
    connection.send(put_head("k", body.len()));
    let mut sending = connection.twin();
    std::thread::scope(|scope| {
        // Ends with an error when the server closes.
        scope.spawn(move || sending.offer(&body));
        assert_eq!(connection.answer().status, 403);
    });
}

/// The answers before it come in order, and it is the last.
#[test]
fn a_malformed_request_is_answered_after_those_before_it() {
    let server = server_with_here();
    let faulty =
        "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nvalue";
    let put =
        "PUT /first HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let requests = [GET_HERE, put, GET_HERE, faulty, GET_HERE].concat();
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

#[test]
fn malformed_hosts_are_refused_and_good_ones_are_not() {
    let server = server_with_here();
    let ask = |host: &str| {
        let mut connection = server.connect();
        let answer = connection.ask(format!("GET /here HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        if answer.status == 400 && !is_http2() {
            connection.assert_closed();
        }
        answer.status
    };
    let good = words("t localhost:8080 127.0.0.1 [::1] [::1]:80 a-b.example.org. x:");
    let bad = [
        "a b",
        "a/b",
        "a:b",
        "a:80:80",
        "[::1",
        "[::1]x",
        "user@host",
        "a?b",
        "a#b",
        "\u{e9}",
    ];
    let refused: Vec<_> = good.into_iter().filter(|host| ask(host) != 200).collect();
    let taken: Vec<_> = bad.into_iter().filter(|host| ask(host) != 400).collect();
    let is_right = refused.is_empty() && taken.is_empty();
    assert!(is_right, "refused: {refused:?}; taken: {taken:?}");
}

#[test]
fn an_absurd_length_is_refused_at_once() {
    let server = TestServer::start(&[]);
    for length in words("9223372036854775807 9223372036854775808 18446744073709551613") {
        let mut connection = server.connect();
        let answer = connection.ask(format!(
            "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n"
        ));
        let is_right = matches!(answer.status, 400 | 413 | 507);
        assert!(is_right, "Content-Length: {length}: {answer:?}");
    }
    server.dir.assert_holds(&[]);
    server.store("k", "still serving");
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    let all = haystack.windows(needle.len());
    all.filter(|window| *window == needle).count()
}

/// What nothing reads is taken out of a head: the rest of it means the same, however it arrives, and so does what follows.
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
    for bad in [
        "User-Agent: a\u{1}",
        "User-Agent : a",
        "Cookie: a\u{7f}",
        " Cookie: a",
    ] {
        let head = format!("GET /k HTTP/1.1\r\nHost: t\r\n{bad}\r\n\r\n");
        assert_eq!(server.connect().ask(head).status, 400, "{bad:?}");
    }
    // And each counts.
    let many = "DNT: 1\r\n".repeat(100);
    let head = format!("GET /k HTTP/1.1\r\nHost: t\r\n{many}\r\n");
    assert_eq!(server.connect().ask(head).status, 431);
}
