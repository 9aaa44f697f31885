//! Proves that peers which do not keep to the protocol are closed in time, cost nothing that stays, and make no upload
//! whole.

use std::iter;

use super::{is_served, started};
use crate::support::prelude::*;

/// The beginning of a `ClientHello`: a record of 512 bytes, of which few come.
const BEGUN: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// And no connection has panicked.
fn assert_serves(server: &TestServer, client: &TlsClient) {
    let mut raw = Raw::connect_tls(server.addr, client);
    let metrics = Scrape::over(&mut raw, "");
    assert_eq!(metrics.count("data_server_panics_total", &[]), 0);
    assert!(is_served(raw));
}

#[test]
fn a_stalled_handshake_is_closed_at_the_limit_for_heads_and_delays_nobody() {
    for (limit, is_short) in [("1s", true), ("10m", false)] {
        let (authority, _own, server) = started(&["--header-timeout", limit, "--threads", "1"]);
        let client = authority.client();
        let start = Instant::now();
        let mut stalled: Vec<Raw> = [&b""[..], b"\x16", BEGUN]
            .into_iter()
            .map(|begun| {
                let mut raw = Raw::connect_clear(server.addr);
                raw.send(begun);
                raw
            })
            .collect();
        // One that is through, and asks nothing.
        let silent = Raw::connect_tls(server.addr, &client);
        silent.handshake().expect("a handshake");
        // With a long limit it would wait for them for ever.
        assert_serves(&server, &client);
        stalled.push(silent);
        for mut raw in stalled.into_iter().filter(|_| is_short) {
            raw.rest();
            let after = start.elapsed();
            assert!(after > Duration::from_millis(700), "{after:?} is too early");
        }
    }
}

/// What cannot be opened before all of it has come is held until then: so much and no more. After a refused record the
/// library was once asked once more, and went through it again: a second alert, and a panic of a debug build.
#[test]
fn what_is_no_tls_is_closed_with_one_alert_at_most() {
    let (authority, _own, server) = started(&["--header-timeout", "5m"]);
    // A ClientHello of 60,000 bytes, one in each record.
    let hello = [1, 0, 0xea, 0x60].into_iter();
    let hello = hello.chain(iter::repeat_n(0, 50_000));
    let fragments: Vec<u8> = hello.flat_map(|byte| [0x16, 3, 1, 0, 1, byte]).collect();
    let (decode_error, unexpected_message) = (Some(50), Some(10));
    for (sent, alert) in [
        (get_head("k").as_bytes(), None),
        (b"\r\n\r\n", None),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
        (b"\x80\x2e\x01\x00\x02", None),
        (b"\x17\x03\x03\x00\x10aaaaaaaaaaaaaaaa", None),
        (&pattern(7, 100_000), None),
        (&fragments, None),
        // A record longer than there are, a ClientHello without anything in it, and a Finished before all else.
        (b"\x16\x03\x01\xff\xff", decode_error),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", decode_error),
        (
            b"\x16\x03\x01\x00\x05\x14\x00\x00\x01\x00",
            unexpected_message,
        ),
    ] {
        let mut raw = Raw::connect_clear(server.addr);
        let _ = raw.offer(sent);
        let answer = raw.rest();
        assert!(answer.len() < 8, "an alert at most: {answer:?}");
        if let Some(description) = alert {
            assert_eq!(answer, [0x15, 3, 3, 0, 2, 2, description], "{sent:?}");
        }
    }
    assert_serves(&server, &authority.client());
}

#[test]
fn handshakes_that_are_begun_and_left_leave_nothing() {
    let (authority, _own, server) = started(&["--threads", "2"]);
    let client = authority.client();
    let round = |count: usize| {
        for begun in [BEGUN, b"\x16\x03"].into_iter().cycle().take(count) {
            let begin = |raw: &mut Raw| drop(raw.offer(begun));
            let mut left = [(); 50].map(|()| Raw::connect_clear(server.addr));
            left.iter_mut().for_each(begin);
        }
        eventually("all are closed", || server.connections() == 0);
        assert_serves(&server, &client);
        server.proc().rss_kib()
    };
    let (before, after) = (round(20), round(scaled(40, 200)));
    assert!(after < before + 2048, "{before} KiB, and then {after} KiB");
}

#[test]
fn garbage_in_a_session_ends_it() {
    let (authority, _own, server) = started(&[]);
    let client = authority.client();
    let no_record = pattern(3, 2000);
    let sealed_by_nobody = [b"\x17\x03\x03\x00\x20", &[9; 32][..]].concat();
    for garbage in [no_record, sealed_by_nobody] {
        let mut raw = Raw::connect_tls(server.addr, &client);
        assert_eq!(raw.get("k").status, 404);
        raw.send_clear(garbage);
        raw.rest();
        assert_serves(&server, &client);
    }
}

#[test]
fn an_upload_that_is_cut_is_never_whole() {
    let (authority, _own, server) = started(&[]);
    let client = authority.client();
    let value = pattern(5, 1 << 20);
    let head = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n";
    let connections = server.connections();
    for begun in [
        [put_head("k", 1 << 20).as_bytes(), &value[..1 << 19]].concat(),
        [put_head("k", 1000).as_bytes(), &value[..999]].concat(),
        [head.as_bytes(), &value[..1 << 18]].concat(),
        [head.as_bytes(), &value[..1 << 19]].concat(),
        [head.as_bytes(), &value[..1 << 19], b"\r\n"].concat(),
        b"PUT /k HTTP/1.0\r\n\r\nno length".to_vec(),
    ] {
        for is_announced in [false, true] {
            let mut raw = Raw::connect_tls(server.addr, &client);
            raw.send(&begun);
            if is_announced {
                raw.finish();
            } else {
                raw.truncate();
            }
            raw.rest();
            eventually("it is over", || server.connections() == connections);
            let mut raw = Raw::connect_tls(server.addr, &client);
            let status = raw.get("k").status;
            if begun.starts_with(b"PUT /k HTTP/1.0") {
                // Refused, or a value without bytes, as in the clear: none of what followed.
                assert!(status == 404 || raw.get("k").body.is_empty());
                raw.ask("DELETE /k HTTP/1.1\r\nHost: t\r\n\r\n");
            } else {
                assert_eq!(status, 404, "{is_announced}: {:?}", &begun[..60]);
            }
        }
    }
    // What came whole is stored, however the connection ends.
    let mut raw = Raw::connect_tls(server.addr, &client);
    raw.send([put_head("k", 1000).as_bytes(), &value[..1000]].concat());
    raw.truncate();
    let comes = || Raw::connect_tls(server.addr, &client).get("k").status == 200;
    eventually("it is stored", comes);
}
