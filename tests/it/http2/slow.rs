//! What one stream does on a connection, or how often it asks, gives no other more time: each has its own, and so has
//! the connection.

use super::{ask, server};
use crate::support::prelude::*;

const LARGE: usize = 8 << 20;

/// More than a client receives while this test is not scheduled: one that has all of it waits for nothing.
const HUGE: u64 = 256 << 20;

/// How long a client may pause in these tests.
const PAUSE: Duration = Duration::from_secs(2);

fn start() -> TestServer {
    let server = server(&["--threads", "1", "--body-timeout", "2s"]);
    server.dir.place("small", "value");
    server.dir.place("large", pattern(1, LARGE));
    server
}

/// How often this limit was exceeded.
fn exceeded(server: &TestServer, limit: &str) -> u64 {
    let scrape = Scrape::of(server.addr);
    scrape.count("data_server_time_limits_total", &[("limit", limit)])
}

/// Waits for the time to ask for something else, which comes more often than any limit.
#[track_caller]
fn pace(start: Instant) {
    assert!(start.elapsed() < DEADLINE, "it goes on");
    thread::sleep(PAUSE / 4); // the pace of the client
}

#[test]
fn requests_now_and_then_keep_no_stream_that_takes_nothing() {
    let server = start();
    let mut client = Http2::connect(server.addr);
    let mut large = ask(&mut client, "GET", "/large", true);
    assert_eq!(large.head().expect("a head").status, 200);
    let start = Instant::now();
    while exceeded(&server, "body-timeout") == 0 {
        let head = ask(&mut client, "HEAD", "/small", true).answer();
        assert_eq!(head.expect("an answer").status, 200);
        assert_eq!(client.get("small").body, b"value");
        pace(start);
    }
    assert!(start.elapsed() >= PAUSE * 9 / 10, "{:?}", start.elapsed());
    let end = loop {
        match large.data() {
            Ok(data) => assert!(data.is_some(), "it is whole"),
            Err(error) => break error,
        }
    };
    assert!(end.is_reset(), "{end}");
    assert_eq!(client.get("small").body, b"value", "the others go on");
}

/// Each request gave such a connection its whole time again.
#[test]
fn requests_now_and_then_keep_no_connection_that_takes_nothing() {
    directory_only!("its value is a file of holes");
    let server = start();
    let huge = fs::File::create(server.dir.file("huge")).expect("a file");
    huge.set_len(HUGE).expect("a length");
    let mut client = Http2::with_wide_windows(server.addr);
    let large = [(); 4].map(|()| {
        let mut large = ask(&mut client, "GET", "/huge", true);
        assert_eq!(large.head().expect("a head").status, 200);
        large
    });
    // From here on it reads nothing.
    let mut socket = client.leave(Leave::Silence).expect("a socket");
    let start = Instant::now();
    let mut streams = (9..).step_by(2);
    while server.connections() > 0 {
        let stream = streams.next().expect("few");
        // At a hundred streams that wait the server reads no more: it is to be closed before.
        assert!(stream < 150, "each request gave it more time");
        // It may be closed already.
        let _ = socket.write(&head_of_small(stream));
        pace(start);
    }
    assert!(start.elapsed() >= PAUSE * 9 / 10, "{:?}", start.elapsed());
    assert!(exceeded(&server, "body-timeout") > 0);
    drop(large);
}

#[test]
fn what_others_do_keeps_no_upload_that_crawls_and_none_that_pauses() {
    for (limit, piece) in [("min-rate", "x"), ("body-timeout", "")] {
        let server = start();
        let mut client = Http2::connect(server.addr);
        let mut slow = ask(&mut client, "PUT", "/slow", false);
        let mut steady = ask(&mut client, "PUT", "/steady", false);
        let (start, mut sent) = (Instant::now(), 0);
        while exceeded(&server, limit) == 0 {
            if !piece.is_empty() {
                let _ = slow.send(piece, false);
            }
            steady.send(vec![b'x'; 4_000], false).expect("room");
            sent += 4_000;
            assert_eq!(client.get("small").body, b"value");
            pace(start);
        }
        assert!(start.elapsed() >= PAUSE * 9 / 10, "{:?}", start.elapsed());
        let refused = slow.answer().expect("an answer");
        assert_eq!(refused.status, 408, "{limit}: {refused:?}");
        assert!(server.dir.get("slow").is_none());
        steady.send("end", true).expect("room");
        assert_eq!(steady.answer().expect("an answer").status, 200, "{limit}");
        assert_eq!(server.dir.read("steady").len(), sent + 3);
    }
}

/// The frame of a HEAD of `/small` on this stream.
fn head_of_small(stream: u16) -> Vec<u8> {
    // :method and :path as literals, :scheme http, :authority as a literal (RFC 7541, section 6).
    let block = b"\x02\x04HEAD\x04\x06/small\x86\x01\x01t";
    let head = [0, 0, u8::try_from(block.len()).expect("short"), 1, 5, 0, 0];
    [&head[..], &stream.to_be_bytes(), block].concat()
}
