//! Clients with many requests at once: those that take nothing cost little and are cut by `--min-rate`, and those that
//! take or send all get and store what they should, in bounded memory.

use std::sync::mpsc;

use super::wire::{
    DATA, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW, Peer, RST_STREAM, WINDOW_UPDATE,
    frame, id, opening, request, window_update,
};
use super::{LONG, assert_no_panics, sealed_server, server};
use crate::prelude::*;

/// Requests of a connection at once.
const STREAMS: u32 = 100;

/// Requests of all streams for `path`, of which the client takes one byte each.
fn besiege(server: &TestServer, path: &str) -> Peer {
    let mut peer = Peer::open(server.addr, &[(INITIAL_WINDOW, 1)]);
    let requests = (0..STREAMS).flat_map(|n| request(id(n), "GET", path, true));
    peer.send(requests.collect::<Vec<u8>>());
    let mut begun = 0;
    peer.until(|frame| {
        begun += u32::from(frame.kind == DATA && frame.payload.len() == 1);
        begun == STREAMS
    })
    .expect("one byte of each");
    peer
}

/// Streams that are reset until the connection ends, and whether it says why.
fn ended(mut peer: Peer) -> (u32, bool) {
    let (mut reset, mut is_told) = (0, false);
    while let Some(frame) = peer.next() {
        reset += u32::from(frame.kind == RST_STREAM);
        is_told |= frame.kind == GOAWAY;
    }
    (reset, is_told)
}

/// For values that are read from a file, and for those in memory.
fn streams_that_take_a_byte(path: &str, connections: u32) {
    const MOST: u64 = 64 << 10;
    let server = server(&["--idle-timeout", "1s", "--body-timeout", "10s"]);
    let before = server.proc().rss_kib();
    let start = Instant::now();
    let peers: Vec<Peer> = (0..connections).map(|_| besiege(&server, path)).collect();
    let growth = server.proc().rss_kib().saturating_sub(before);
    let each = growth * 1024 / u64::from(connections * STREAMS);
    thread::scope(|scope| {
        for peer in peers {
            scope.spawn(|| {
                let (reset, is_told) = ended(peer);
                assert_eq!(reset, STREAMS, "streams that were cut");
                assert!(is_told, "no GOAWAY");
                // The connection itself ends when it has been idle, and its end has not been answered. How late that
                // may be, no clock of the test says: of a look that comes late the server counts one interval, here
                // 125 ms, so that its limits are longer on a busy machine.
                let after = start.elapsed();
                assert!(after > Duration::from_secs(9), "{after:?} is early");
            });
        }
    });
    let peak = server.proc().peak_rss_kib();
    counted!(
        "http2: {connections} connections of {STREAMS} streams that take a byte of {path}: {growth} KiB more memory, {each} bytes each, peak {peak} KiB; all cut after {:.1?}",
        start.elapsed()
    );
    assert!(peak <= MOST, "{peak} KiB in all");
    eventually("all are closed", || server.connections() == 0);
    assert_no_panics(&Scrape::of(server.addr));
}

#[test]
fn streams_that_take_a_byte_are_cut_and_cost_little() {
    let connections = scaled(20, 100);
    thread::scope(|scope| {
        for path in ["/long", "/here"] {
            scope.spawn(move || streams_that_take_a_byte(path, connections));
        }
    });
}

#[test]
fn uploads_at_once_on_one_connection_are_all_stored() {
    const UPLOADS: u32 = 64;
    const PIECE: u32 = 16 << 10;
    let pieces: u32 = scaled(8, 64);
    let server = server(&[]);
    let before = server.proc().rss_kib();
    let mut peer = Peer::open(server.addr, &[]);
    let mut twin = peer.0.twin();
    let value = |n: u32| pattern(u64::from(n) + 7, (pieces * PIECE) as usize);
    thread::scope(|scope| {
        // The windows of all are more than what is sent by then; the connection's is made larger as the server takes.
        let (opened, windows) = mpsc::channel::<u32>();
        scope.spawn(move || {
            let mut window: u32 = 65_535;
            let values: Vec<_> = (0..UPLOADS).map(value).collect();
            for n in 0..UPLOADS {
                twin.send(request(id(n), "PUT", &format!("/upload-{n}"), false));
            }
            for piece in 0..pieces {
                for n in 0..UPLOADS {
                    let bytes = &values[n as usize][(piece * PIECE) as usize..][..PIECE as usize];
                    while window < PIECE {
                        window += windows.recv().expect("room");
                    }
                    window -= PIECE;
                    let is_last = piece + 1 == pieces;
                    let flags = if is_last { END_STREAM } else { 0 };
                    twin.send(frame(DATA, flags, id(n), bytes));
                }
            }
        });
        let mut stored = 0;
        peer.until(|frame: &Frame| {
            if frame.kind == WINDOW_UPDATE && frame.stream == 0 {
                let _ = opened.send(frame.number(0));
            }
            if frame.kind == HEADERS {
                assert_eq!(frame.payload[0], 0x88, "status 200");
            }
            stored += u32::from(frame.ends_stream());
            stored == UPLOADS
        })
        .expect("an answer to each");
    });
    for n in 0..UPLOADS {
        let stored = server.get(&format!("upload-{n}")).body;
        assert!(stored == value(n), "upload-{n} differs");
    }
    let growth = server.proc().peak_rss_kib().saturating_sub(before);
    let size = (pieces * PIECE) >> 10;
    counted!(
        "http2: {UPLOADS} uploads of {size} KiB at once on one connection: all whole, {growth} KiB more memory at most"
    );
    assert!(growth < 32 << 10, "{growth} KiB");
    assert_no_panics(&Scrape::of(server.addr));
}

/// Half of them by HTTP/1.1, and half by HTTP/2.
#[test]
fn downloads_at_once_over_tls_are_whole_and_cost_little() {
    const DOWNLOADS: usize = 64;
    const MOST: u64 = 128 << 10;
    let (authority, server) = sealed_server(&[]);
    let client = authority.client();
    let by_http2 = super::choosing(&client, b"h2");
    let size = scaled(4_000_000, LONG);
    server.dir.place("download", pattern(9, size));
    let begun = [
        opening(&[(INITIAL_WINDOW, (1 << 31) - 1)]),
        window_update(0, 1 << 30),
        request(1, "GET", "/download", true),
    ];
    let begun = begun.concat();
    thread::scope(|scope| {
        for n in 0..DOWNLOADS {
            let (client, by_http2, begun, addr) = (&client, &by_http2, &begun, server.addr);
            scope.spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                let got = if n % 2 == 0 {
                    let mut raw = Raw::connect_tls(addr, client);
                    raw.send("GET /download HTTP/1.1\r\nHost: t\r\n\r\n");
                    assert_eq!(raw.head().status, 200);
                    raw.stream_to(size, &mut buffer, |_| {})
                } else {
                    let mut raw = Raw::connect_tls(addr, by_http2);
                    raw.send(begun);
                    // The heads of frames are in the count.
                    raw.stream_to(size, &mut buffer, |_| {})
                };
                assert_eq!(got, size);
            });
        }
    });
    let peak = server.proc().peak_rss_kib();
    let counts = format!("{DOWNLOADS} downloads of {size} bytes at once over TLS: peak {peak} KiB");
    counted!("http2: {counts}");
    assert!(peak <= MOST, "{counts}");
}
