//! Proves that uploads that are cut off or malformed leave the old value in place and nothing behind.

use crate::support::prelude::*;

const MIB: usize = 1024 * 1024;
const CHUNKED_HEAD: &str = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    Fin,
    Rst,
}

/// Cut at every sixteenth of a body of 1 MiB, and at its first and last byte.
#[test]
fn an_upload_cut_off_leaves_the_old_value_and_nothing_else() {
    let server = TestServer::start(&[]);
    let at_rest = server.in_flight();
    let body = pattern(2, MIB);
    for at in (0..16).map(|n| n * MIB / 16).chain([1, MIB - 1]) {
        let fixed = [put_head("k", MIB).as_bytes(), &body[..at]].concat();
        let chunked = [CHUNKED_HEAD.as_bytes(), &half_chunk(&body[..at])].concat();
        for (framing, request) in [("fixed length", fixed), ("chunked", chunked)] {
            for (cut, old) in [
                (Cut::Fin, None),
                (Cut::Fin, Some("old")),
                (Cut::Rst, None),
                (Cut::Rst, Some("old")),
            ] {
                let shown = format!("{framing}, {cut:?} after {at} bytes, old value {old:?}");
                server.dir.clear();
                if let Some(old) = old {
                    server.dir.place("k", old);
                }
                cut_off(&server, &request, at > MIB / 2, cut, &shown);
                let comes = || server.in_flight() == at_rest;
                eventually(&format!("the upload is forgotten: {shown}"), comes);
                let expected = old.into_iter().map(|old| (b"k".into(), old.into()));
                let expected: Vec<_> = expected.collect();
                assert!(server.dir.values().into_iter().eq(expected), "{shown}");
                server.dir.assert_nothing_staged();
            }
        }
    }
}

/// Sends the beginning of an upload, waits until it reaches the disk if it is `large` enough, and cuts it off.
fn cut_off(server: &TestServer, request: &[u8], large: bool, cut: Cut, shown: &str) {
    let mut connection = server.connect();
    connection.send(request);
    if large {
        let comes = || server.receiving() > 0;
        eventually(&format!("the upload reaches the disk: {shown}"), comes);
    }
    match cut {
        Cut::Rst => connection.reset(),
        Cut::Fin => {
            connection.finish();
            assert_refused(&mut connection, shown);
        }
    }
}

/// These bytes as the beginning of a longer chunk.
fn half_chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{MIB:x}\r\n").as_bytes(), bytes].concat()
}

/// A failed upload gets an error or no answer, and its connection ends.
#[track_caller]
fn assert_refused(connection: &mut Raw, shown: &str) {
    let answer = connection.rest();
    let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 4");
    assert!(refused, "{shown}: {}", answer.escape_ascii());
}

#[test]
fn chunks_that_are_malformed_or_without_the_last_one_store_nothing() {
    http1_only!("chunks");
    let server = TestServer::start(&[]);
    server.dir.place("k", "old");
    let bodies: [&[u8]; 10] = [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcdef\r\n0\r\n\r\n",
        b"3\r\nabcX\r\n0\r\n\r\n",
        b"10000000000000000\r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\nnot a trailer\r\n\r\n",
        b"5\r\nwhole\r\n6\r\nchunks\r\n",
    ];
    for body in bodies {
        let shown = body.escape_ascii().to_string();
        let mut connection = server.connect();
        connection.send([CHUNKED_HEAD.as_bytes(), body].concat());
        connection.finish();
        assert_refused(&mut connection, &shown);
        assert_eq!(server.dir.read("k"), b"old", "{shown}");
        server.dir.assert_holds(&["k"]);
    }
    assert_eq!(server.get("k").body, b"old");
}
