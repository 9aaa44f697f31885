//! Proves that slow clients cannot hold a connection: slow heads, idle connections and stalled bodies end at their
//! limits, and other clients are not affected.

use crate::support::prelude::*;

const LARGE: usize = 32 * 1024 * 1024;

/// Longer than any test waits: a connection that ends has met the other limit.
const NEVER: &str = "1h";

#[test]
fn a_slow_head_ends_at_its_limit_and_an_idle_connection_at_its_own() {
    let start = |heads, idle| {
        let server = TestServer::start(&["--header-timeout", heads, "--idle-timeout", idle]);
        server.dir.place("here", "value");
        server
    };
    let (server, idle) = (start("1s", NEVER), start(NEVER, "1s"));
    let limit = Duration::from_secs(1);
    let half = "GET /here HTTP/1.1\r\nHost:";
    let whole = &*get_head("here");
    thread::scope(|scope| {
        // Over HTTP/2 half a head is nothing: the connection rests.
        let behind = by_protocol(Some((&server, whole, half)), None);
        let stops = [(&server, "", ""), (&server, "", half), (&idle, whole, "")];
        for (server, whole, begun) in stops.into_iter().chain(behind) {
            let mut raw = server.connect();
            scope.spawn(move || {
                raw.send([whole, begun].concat());
                if !whole.is_empty() {
                    assert_eq!(raw.answer().body, b"value");
                }
                ends_after(limit, &format!("{whole:?} and {begun:?}"), &mut raw);
            });
        }
        scope.spawn(|| ends_while_dribbling(limit, server.connect()));
        scope.spawn(|| {
            let mut used = server.connect();
            for _ in 0..2 {
                assert_eq!(used.get("here").body, b"value");
                let open = used.silent_for(limit * 2);
                open.expect("between requests the limit of heads does not count");
            }
        });
    });
}

/// Asserts that the server ends this connection, and not before the limit.
#[track_caller]
fn ends_after(limit: Duration, what: &str, connection: &mut Raw) {
    let start = Instant::now();
    let answer = connection.rest();
    let is_right = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408");
    assert!(is_right, "{what}: {}", answer.escape_ascii());
    assert_not_before(limit, what, start.elapsed());
}

#[track_caller]
fn assert_not_before(limit: Duration, what: &str, took: Duration) {
    assert!(
        took >= limit * 9 / 10,
        "{what}: ended after {took:?}, before its limit of {limit:?}"
    );
}

/// Sends a head without end, a byte at a time: this progress does not extend the limit.
fn ends_while_dribbling(limit: Duration, mut connection: Raw) {
    let start = Instant::now();
    connection.send("GET /here HTTP/1.1\r\nX: ");
    while connection.silent_for(Duration::from_millis(100)).is_ok() && start.elapsed() < DEADLINE {
        if connection.offer("x").is_err() {
            break;
        }
    }
    assert!(start.elapsed() < DEADLINE, "a dribbled head is waited for");
    assert_not_before(limit, "a dribbled head", start.elapsed());
}

/// How long the clients of these tests may pause.
const PAUSE: Duration = Duration::from_secs(2);

/// What [`PAUSE`] is as an option.
const SHORT: [&str; 2] = ["--body-timeout", "2s"];

/// All tests of slow bodies run side by side, because they take as long as the limits that they test.
#[test]
fn a_body_below_min_rate_is_cut_and_one_above_is_not() {
    let server = TestServer::start(&SHORT);
    let patient = TestServer::start(&["--min-rate", "0"]);
    let strict = [&SHORT[..], &["--min-rate", "2000000000000000000"]].concat();
    let strict = TestServer::start(&strict);
    // A slow reader's kernel makes room in steps of some seconds.
    let usual = TestServer::start(&[]);
    let large = pattern(1, LARGE);
    usual.dir.place("large", &large);
    server.dir.place("large", &large);
    server.dir.place("k", "old");
    let at_rest = server.in_flight();
    thread::scope(|scope| {
        let head = put_head("k", 10_000);
        let (begun, dribbled) = (head.clone() + "beginning", head);
        let chunk = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc";
        scope.spawn(|| is_cut("a stalled upload", &server, begun, 0));
        let long = put_head("k", LARGE) + &"x".repeat(1 << 20);
        scope.spawn(|| is_cut("a stalled long upload", &server, long, 0));
        let below = dribbled.clone();
        scope.spawn(|| is_cut("an upload below any rate", &strict, below, 20));
        scope.spawn(|| is_cut("a dribbled upload", &server, dribbled, 20));
        scope.spawn(|| is_cut("a stalled chunk", &server, chunk.to_owned(), 0));
        let form = "POST /-/upload HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\
                    Content-Type: multipart/form-data; boundary=x\r\n\r\n\
                    --x\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\nabc";
        scope.spawn(|| is_cut("a stalled form", &server, form.to_owned(), 0));
        scope.spawn(|| is_cut_unread(&large));
        scope.spawn(|| slow_upload(server.addr, scaled(12, 22), 4096));
        scope.spawn(|| slow_download(usual.addr, &large));
        scope.spawn(|| slow_upload(patient.addr, scaled(12, 22), 10));
    });
    assert_eq!(server.dir.read("k"), b"old");
    let comes = || server.in_flight() == at_rest;
    eventually("nothing is left of what was cut", comes);
    server.dir.assert_holds(&["k", "large", "slow"]);
}

/// A connection, and the value that is on its way there.
type Transfer = (Raw, Vec<u8>);

/// Two uploads of which half is sent, and a download that is read no further than its head, with what they are of.
fn half_way(server: &TestServer) -> ([Transfer; 2], Transfer) {
    let large = pattern(1, LARGE);
    server.dir.place("large", &large);
    let writers = [2_000, 2_000_000].map(|len| {
        let (mut writer, value) = (server.connect(), pattern(2, len));
        writer.send(put_head(&format!("k{len}"), len));
        writer.send(&value[..len / 2]);
        (writer, value)
    });
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(get_head("large"));
    assert_eq!(reader.head().length(), LARGE);
    (writers, (reader, large))
}

/// Sends and reads the rest, on a machine that may be busy.
#[track_caller]
fn go_on(server: &TestServer, writers: [Transfer; 2], reader: Transfer) {
    // The long value comes last: a writer that waits for it may be over its own limit.
    for (mut writer, value) in writers {
        let len = value.len();
        writer.send(&value[len / 2..]);
        assert_eq!(writer.answer().status, 200, "{len}");
        assert!(server.get(&format!("k{len}")).body == value, "{len}");
    }
    let (mut reader, large) = reader;
    assert!(reader.take(LARGE) == large, "a reader got another value");
}

/// `pg_dump | curl -T -`, or a player on hold, was cut after 10 s, and nothing said so.
#[test]
fn a_client_that_pauses_for_less_than_body_timeout_is_served() {
    let server = TestServer::start(&[]);
    let (mut writers, reader) = half_way(&server);
    thread::sleep(LONGER_THAN_A_WINDOW); // a pause is what is tested
    for (writer, value) in &mut writers {
        let unanswered = writer.silent_for(Duration::from_millis(1));
        assert_eq!(unanswered, Ok(()), "{}", value.len());
    }
    go_on(&server, writers, reader);
}

/// A machine that is suspended, or a virtual one that is moved, is no pause of the clients.
#[test]
fn a_server_that_was_stopped_for_a_while_cuts_nobody() {
    let server = TestServer::start(&SHORT);
    let (mut writers, reader) = half_way(&server);
    eventually("an upload is received", || server.receiving() > 0);
    server.signal(Signal::STOP);
    thread::sleep(3 * PAUSE); // what is tested
    server.signal(Signal::CONT);
    assert_eq!(writers[0].0.silent_for(PAUSE / 4), Ok(()));
    go_on(&server, writers, reader);
}

/// Twice as long as it took to be cut.
const LONGER_THAN_A_WINDOW: Duration = Duration::from_secs(21);

#[test]
fn who_is_cut_for_a_limit_is_told_logged_and_counted() {
    let server = TestServer::start(&["--body-timeout", "1s", "--header-timeout", "1s"]);
    let mut client = server.connect();
    client.send(put_head("k", 10) + "half");
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (408, true), "{answer:?}");
    let logged = server.event("a client was too slow");
    assert_eq!(logged.field("limit"), "body-timeout");
    let count = |limit| {
        let scrape = Scrape::of(server.addr);
        scrape.count("data_server_time_limits_total", &[("limit", limit)])
    };
    assert_eq!(count("body-timeout"), 1);
    assert_eq!((count("header-timeout"), count("min-rate")), (0, 0));
}

/// Who pauses may do so for as long as `--body-timeout` says, but not while others wait for its place.
#[test]
fn a_client_that_pauses_makes_room_for_one_that_waits() {
    let options = "--threads 2 --max-connections 3 --body-timeout 1h";
    let server = TestServer::start(&words(options));
    server.dir.place("here", "value");
    let mut paused: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut paused {
        client.send(put_head("k", 10) + "half");
    }
    let start = Instant::now();
    let mut waiting = server.connect();
    assert_eq!(waiting.get("here").body, b"value");
    let took = start.elapsed();
    assert!(took < DEADLINE, "it waited for {took:?}");
}

/// Sends a head and `dribble` bytes a second; the connection must end, and not before its limit.
fn is_cut(what: &str, server: &TestServer, head: String, dribble: usize) {
    let mut connection = server.connect();
    connection.send(head);
    let start = Instant::now();
    while connection.silent_for(Duration::from_secs(1)).is_ok() && start.elapsed() < 2 * DEADLINE {
        if connection.offer(vec![b'x'; dribble]).is_err() {
            break;
        }
    }
    let took = start.elapsed();
    assert!(took < 2 * DEADLINE, "{what}: not cut");
    assert_not_before(PAUSE, what, took);
    let answer = connection.rest();
    let is_right = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408");
    assert!(is_right, "{what}: {}", answer.escape_ascii());
}

/// Asks for a large value and reads none of it.
fn is_cut_unread(large: &[u8]) {
    let server = TestServer::start(&SHORT);
    server.dir.place("large", large);
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(get_head("large"));
    assert_eq!(reader.head().length(), large.len());
    let is_cut = within(2 * DEADLINE, || server.connections() == 0);
    assert!(is_cut, "a reader that stands still is waited for");
    assert!(reader.rest().len() < large.len());
}

/// Sends `per_second` bytes each second for longer than a window: slow, and allowed to finish.
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
    assert!(connection.get("slow").body == value, "{per_second} bytes/s");
}

/// Reads 16 KiB each second for longer than a window, then the rest.
fn slow_download(addr: SocketAddr, value: &[u8]) {
    let mut reader = Raw::connect_narrow(addr);
    reader.send(get_head("large"));
    assert_eq!(reader.head().length(), value.len());
    let mut got = Vec::new();
    for _ in 0..scaled(12, 22) {
        thread::sleep(Duration::from_secs(1)); // the pace of the reader
        got.extend(reader.take(16 * 1024));
    }
    got.extend(reader.take(value.len() - got.len()));
    assert!(got == value, "a slow reader got another value");
}
