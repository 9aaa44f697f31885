//! The port of TLS against random bytes: sound beginnings of a handshake and sound frames within a session, changed at
//! random, and records that no session has made.
//!
//! Held against them: each connection ends with its client, nothing panics, memory stays as it was, and a sound client
//! is served. The seed is printed.

use std::net::Shutdown;
use std::ops::Range;

use super::wire::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW, PADDED, field,
    frame, id, opening, ping, request, request_fields, reset, settings, window_update,
};
use super::{assert_no_panics, choosing, sealed_server};
use crate::mutator::mutate;
use crate::prelude::*;

/// What is put in: bytes at edges.
const EDGES: [&[u8]; 5] = [&[0], &[1], &[0x7f], &[0x80], &[0xff]];

/// How much memory may grow, in KiB.
const GROWTH: u64 = 8 << 10;

/// Frames of these types, and one that is unknown.
const KINDS: [u8; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xbe];

/// The port, and its clients.
struct Port {
    server: TestServer,
    client: TlsClient,
    /// One that speaks HTTP/2.
    by_http2: TlsClient,
    /// What a sound client begins with.
    hello: Vec<u8>,
}

impl Port {
    fn open() -> Self {
        let (authority, server) = sealed_server(&[]);
        server.dir.place("sound", "sound");
        let client = authority.client();
        let hello = Raw::connect_tls(server.addr, &client).look(|tls| {
            let mut hello = Vec::new();
            tls.write_tls(&mut hello).expect("room");
            hello
        });
        Self {
            by_http2: choosing(&client, b"h2"),
            server,
            client,
            hello,
        }
    }

    /// That a sound client is served, and nothing has panicked.
    #[track_caller]
    fn assert_well(&self) {
        let mut raw = Raw::connect_tls(self.server.addr, &self.client);
        let head = "HEAD /sound HTTP/1.1\r\nHost: t\r\n\r\n";
        assert_eq!(raw.ask(head).status, 200);
        assert_no_panics(&Scrape::over(&mut raw, ""));
    }

    /// Sends inputs of these numbers, each on a connection of its own; how many were answered.
    fn attack(&self, seed: u64, inputs: Range<u64>, by: fn(&Self, &mut Random) -> bool) -> u64 {
        let input = |number| u64::from(by(self, &mut nth(seed, number)));
        let answered = inputs.map(input).sum();
        eventually("all are closed", || self.server.connections() == 0);
        self.assert_well();
        answered
    }

    /// The same in two parts: the second leaves memory as it was.
    fn withstands(&self, what: &str, inputs: u64, by: fn(&Self, &mut Random) -> bool) {
        let (seed, start) = (seed("http2::port"), Instant::now());
        let warm_up = inputs / 4;
        let answered = self.attack(seed, 0..warm_up, by);
        let before = self.server.proc().rss_kib();
        let answered = answered + self.attack(seed, warm_up..inputs, by);
        let growth = self.server.proc().rss_kib().saturating_sub(before);
        let (took, seed) = (start.elapsed(), format!("seed {seed}"));
        let cost = format!("{growth} KiB more memory, {took:.1?}; {seed}");
        let counts = format!("{what}: {inputs} inputs, {answered} answered, {cost}");
        counted!("http2: {counts}");
        assert!(growth <= GROWTH, "{counts}");
        assert!(answered > 0, "{counts}: too tame, or too wild, to tell");
    }

    /// Sends the beginning of a handshake, changed, or nothing like it.
    fn handshake(&self, random: &mut Random) -> bool {
        let mut hello = self.hello.clone();
        if random.u64(..10) == 0 {
            hello = (0..random.u64(..600)).map(|_| random.u8(..)).collect();
        }
        for _ in 0..random.u64(..6) {
            mutate(random, &mut hello, &EDGES);
        }
        let mut raw = Raw::connect_clear(self.server.addr);
        // A server that has heard enough closes.
        let _ = raw.offer(&hello);
        raw.shut(Shutdown::Write);
        !raw.rest().is_empty()
    }

    /// Sends frames in a session, changed.
    fn frames(&self, random: &mut Random) -> bool {
        let mut raw = Raw::connect_tls(self.server.addr, &self.by_http2);
        let mut bytes = frames(random);
        for _ in 0..random.u64(..6) {
            mutate(random, &mut bytes, &EDGES);
        }
        if raw.offer(&bytes).is_err() {
            return false;
        }
        raw.finish();
        !raw.rest().is_empty()
    }

    /// Sends records past a session, sound in their heads; whether there was a session.
    fn records(&self, random: &mut Random) -> bool {
        let mut raw = Raw::connect_tls(self.server.addr, &self.by_http2);
        let is_session = raw.handshake().is_ok();
        let payload: Vec<u8> = (0..random.u64(..300)).map(|_| random.u8(..)).collect();
        let len = u16::try_from(payload.len()).expect("a short record");
        let kind = one_of(random, &[20, 21, 22, 23, 24, 0x80]);
        let mut bytes = [&[kind, 3, 3][..], &len.to_be_bytes(), &payload].concat();
        if random.u64(..3) == 0 {
            mutate(random, &mut bytes, &EDGES);
        }
        raw.send_clear(&bytes);
        raw.finish();
        raw.rest();
        is_session
    }
}

/// A connection of sound frames, and some that are not.
fn frames(random: &mut Random) -> Vec<u8> {
    let window = one_of(random, &[0, 1, 65_535, (1 << 31) - 1, u32::MAX]);
    let mut bytes = opening(&[(INITIAL_WINDOW, window)]);
    for _ in 0..=random.u64(..12) {
        let stream = id(u32::try_from(random.u64(..6)).expect("a few"));
        let more = one_of(random, &[0, 1, 1 << 20, (1 << 31) - 1]);
        let next = match random.u64(..12) {
            0 | 1 => {
                let method = one_of(random, &["GET", "HEAD", "DELETE"]);
                request(stream, method, "/large", true)
            }
            2 | 3 => request(stream, one_of(random, &["PUT", "POST", "GET"]), "/k", false),
            4 => {
                let flags = one_of(random, &[0, END_STREAM, PADDED]);
                frame(DATA, flags, stream, &[3; 100])
            }
            5 => window_update(one_of(random, &[0, stream]), more),
            6 => reset(stream),
            7 => ping([random.u8(..); 8]),
            8 => settings(&[(u16::from(random.u8(..) % 8), more)]),
            9 => {
                let fields = [request_fields("PUT", "/k"), field("content-length", "5")].concat();
                let at = random.usize(..fields.len());
                let head = frame(HEADERS, 0, stream, &fields[..at]);
                let rest = frame(CONTINUATION, END_HEADERS, stream, &fields[at..]);
                [head, rest].concat()
            }
            _ => {
                let payload: Vec<u8> = (0..random.u64(..60)).map(|_| random.u8(..)).collect();
                frame(one_of(random, &KINDS), random.u8(..), stream, &payload)
            }
        };
        bytes.extend(next);
    }
    bytes
}

#[test]
fn random_handshakes_do_no_harm() {
    Port::open().withstands("handshakes", scaled(10_000, 100_000), Port::handshake);
}

#[test]
fn random_frames_in_a_session_do_no_harm() {
    Port::open().withstands("frames in sessions", scaled(1_500, 50_000), Port::frames);
}

#[test]
fn random_records_in_a_session_do_no_harm() {
    Port::open().withstands("records in sessions", scaled(500, 20_000), Port::records);
}

/// How a client leaves.
type End = fn(&mut Raw);

#[test]
fn an_upload_that_is_cut_is_never_whole() {
    let port = Port::open();
    let addr = port.server.addr;
    let ends: [(&str, End); 4] = [
        ("the end of the session", |raw| raw.finish()),
        ("the end of the connection", |raw| raw.truncate()),
        ("RST_STREAM", |raw| {
            raw.send(reset(1));
            raw.finish();
        }),
        ("GOAWAY", |raw| {
            raw.send(frame(GOAWAY, 0, 0, &[0; 8]));
            raw.truncate();
        }),
    ];
    for (what, end) in ends {
        for length in [None, Some("20000")] {
            let length = length.map(|length| field("content-length", length));
            let fields = [request_fields("PUT", "/cut"), length.unwrap_or_default()].concat();
            let begun = [
                opening(&[]),
                frame(HEADERS, END_HEADERS, 1, &fields),
                frame(DATA, 0, 1, &[7; 10_000]),
                // The last byte is missing.
                frame(DATA, 0, 1, &[7; 9_999]),
            ];
            let mut raw = Raw::connect_tls(addr, &port.by_http2);
            raw.send(begun.concat());
            end(&mut raw);
            raw.rest();
            eventually("it is over", || port.server.connections() == 0);
            let mut raw = Raw::connect_tls(addr, &port.client);
            let head = raw.ask("HEAD /cut HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
            let status = head.status;
            assert_eq!(status, 404, "{what}, {length:?}", length = fields.len());
            raw.rest();
        }
    }
    port.server.dir.assert_nothing_staged();
}
