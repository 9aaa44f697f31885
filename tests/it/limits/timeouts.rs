//! Proves that slow clients cannot hold a connection: slow heads, idle connections and stalled bodies end at their limits,
//! and other clients are not affected.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Raw, TestServer, eventually, pattern, put_head};

const LARGE: usize = 32 * 1024 * 1024;
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: t\r\n\r\n";

#[test]
fn a_slow_head_and_an_idle_connection_end_at_their_limits() {
    let server = TestServer::start(&["--header-timeout", "1s", "--idle-timeout", "8s"]);
    server.dir.place("here", "value");
    let (header, idle) = (Duration::from_secs(1), Duration::from_secs(8));
    thread::scope(|scope| {
        scope.spawn(|| ends_after(header, "nothing sent", &mut server.connect()));
        scope.spawn(|| {
            let mut half = server.connect();
            half.send("GET /here HTTP/1.1\r\nHost:");
            ends_after(header, "half a head", &mut half);
        });
        scope.spawn(|| {
            let mut half = server.connect();
            half.send("GET /here HTTP/1.1\r\nHost: t\r\n\r\nGET /here HTTP/1.1\r\nHos");
            assert_eq!(half.answer().body, b"value");
            ends_after(header, "half a head behind a whole request", &mut half);
        });
        scope.spawn(|| ends_while_dribbling(header, server.connect()));
        scope.spawn(|| {
            let mut used = server.connect();
            assert_eq!(
                used.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n").status,
                200
            );
            ends_after(idle, "idle after a request", &mut used);
        });
        scope.spawn(|| {
            let mut used = server.connect();
            for _ in 0..2 {
                assert_eq!(
                    used.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n").body,
                    b"value"
                );
                let open = used.silent_for(header * 3);
                open.expect("between requests the limit of heads does not count");
            }
        });
    });
}

/// Asserts that the server ends this connection after the limit and soon after it.
#[track_caller]
fn ends_after(limit: Duration, what: &str, connection: &mut Raw) {
    let start = Instant::now();
    let answer = connection.rest();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"),
        "{what}: {}",
        answer.escape_ascii()
    );
    assert_soon_after(limit, what, start.elapsed());
}

#[track_caller]
fn assert_soon_after(limit: Duration, what: &str, took: Duration) {
    assert!(
        took >= limit * 9 / 10,
        "{what}: ended after {took:?}, before its limit of {limit:?}"
    );
    assert!(
        took < limit + Duration::from_secs(8),
        "{what}: ended only after {took:?}"
    );
}

/// Sends a head without end, a byte at a time: this progress does not extend the limit.
fn ends_while_dribbling(limit: Duration, mut connection: Raw) {
    let start = Instant::now();
    connection.send("GET /here HTTP/1.1\r\nX: ");
    while connection.silent_for(Duration::from_millis(100)).is_ok() && start.elapsed() < limit * 20
    {
        if connection.offer("x").is_err() {
            break;
        }
    }
    assert_soon_after(limit, "a dribbled head", start.elapsed());
}

/// All tests of slow bodies run side by side, because they take as long as the limits that they test.
#[test]
fn a_body_below_min_rate_is_cut_and_one_above_is_not() {
    let server = TestServer::start(&[]);
    let patient = TestServer::start(&["--min-rate", "0"]);
    let large = pattern(1, LARGE);
    server.dir.place("large", &large);
    server.dir.place("k", "old");
    let at_rest = server.in_flight();
    thread::scope(|scope| {
        let head = put_head("k", 10_000);
        let (begun, dribbled) = (head.clone() + "beginning", head);
        let chunk = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc";
        scope.spawn(|| is_cut("a stalled upload", &server, begun, 0));
        scope.spawn(|| is_cut("a dribbled upload", &server, dribbled, 20));
        scope.spawn(|| is_cut("a stalled chunk", &server, chunk.to_owned(), 0));
        let form = "POST /-/upload HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\
                    Content-Type: multipart/form-data; boundary=x\r\n\r\n\
                    --x\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\nabc";
        scope.spawn(|| is_cut("a stalled form", &server, form.to_owned(), 0));
        scope.spawn(|| is_cut_unread(&server));
        scope.spawn(|| slow_upload(server.addr, 20, 4096));
        scope.spawn(|| slow_download(server.addr, &large));
        scope.spawn(|| slow_upload(patient.addr, 20, 10));
    });
    assert_eq!(server.dir.read("k"), b"old");
    eventually("nothing is left of what was cut", || {
        server.in_flight() == at_rest
    });
    server.dir.assert_holds(&["k", "large", "slow"]);
}

/// Sends a head and `dribble` bytes a second; the connection must end between 10 s and about 21 s.
fn is_cut(what: &str, server: &TestServer, head: String, dribble: usize) {
    let mut connection = server.connect();
    connection.send(head);
    let start = Instant::now();
    while connection.silent_for(Duration::from_secs(1)).is_ok()
        && start.elapsed() < Duration::from_secs(40)
    {
        if connection.offer(vec![b'x'; dribble]).is_err() {
            break;
        }
    }
    assert_cut_in_time(what, start.elapsed());
    let answer = connection.rest();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"),
        "{what}: {}",
        answer.escape_ascii()
    );
}

#[track_caller]
fn assert_cut_in_time(what: &str, took: Duration) {
    assert!(
        took > Duration::from_secs(9),
        "{what}: cut after {took:?}, before 10 s had passed"
    );
    assert!(
        took < Duration::from_secs(28),
        "{what}: cut only after {took:?}"
    );
}

/// Asks for a large value and reads none of it; the server must close the file.
fn is_cut_unread(server: &TestServer) {
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(GET_LARGE);
    let length = reader.head().length();
    let start = Instant::now();
    thread::sleep(Duration::from_secs(22)); // longer than two windows: the time is what is tested
    let got = reader.rest();
    assert!(
        got.len() < length,
        "a reader that stood still for {:?} was waited for",
        start.elapsed()
    );
}

/// Sends `per_second` bytes each second for longer than two windows: slow, and allowed to finish.
fn slow_upload(addr: SocketAddr, seconds: usize, per_second: usize) {
    let value = pattern(2, seconds * per_second);
    let mut connection = Raw::connect(addr);
    connection.send(put_head("slow", value.len()));
    for piece in value.chunks(per_second) {
        let unanswered = connection.silent_for(Duration::from_secs(1));
        assert_eq!(unanswered, Ok(()), "{per_second} bytes/s");
        connection.send(piece);
    }
    assert_eq!(connection.answer().status, 200, "{per_second} bytes/s");
    assert!(
        connection.ask("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n").body == value,
        "{per_second} bytes/s"
    );
}

/// Reads 16 KiB each second for longer than two windows, then the rest.
fn slow_download(addr: SocketAddr, value: &[u8]) {
    let mut reader = Raw::connect_narrow(addr);
    reader.send(GET_LARGE);
    assert_eq!(reader.head().length(), value.len());
    let mut got = Vec::new();
    for _ in 0..22 {
        thread::sleep(Duration::from_secs(1)); // the pace of the reader
        got.extend(reader.take(16 * 1024));
    }
    got.extend(reader.take(value.len() - got.len()));
    assert!(got == value, "a slow reader got another value");
}
