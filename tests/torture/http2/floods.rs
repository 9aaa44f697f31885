//! Floods of frames: each is ended by GOAWAY, or costs next to nothing.

use super::strike::{Attack, Cost, Ends};
use super::wire::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS,
    INITIAL_WINDOW, PADDED, PING, PRIORITY, PROTOCOL_ERROR, SETTINGS, field, frame, id, request,
    request_fields, reset, settings, window_update,
};
use super::{assert_no_panics, server};
use crate::prelude::*;

/// For too much of what may be sent.
const CALM: Ends = Ends::GoAway(ENHANCE_YOUR_CALM);

/// For what costs next to nothing.
const FLAT: Ends = Ends::Flat;

/// For what may not be sent at all.
const BROKEN: Ends = Ends::GoAway(PROTOCOL_ERROR);

/// Streams that each connection may have at once.
const STREAMS: u32 = 100;

/// An attack that sends what its number makes of it, again and again.
fn attack(
    name: &'static str,
    opening: Vec<u8>,
    ends: Ends,
    repeated: impl Fn(u32) -> Vec<u8> + Sync + 'static,
) -> Attack {
    Attack {
        name,
        opening,
        repeated: Box::new(repeated),
        ends,
    }
}

/// An attack that sends the same bytes again and again.
fn same(name: &'static str, opening: Vec<u8>, ends: Ends, bytes: Vec<u8>) -> Attack {
    attack(name, opening, ends, move |_| bytes.clone())
}

/// So many requests for a value that their client takes nothing of.
fn stuck() -> Vec<u8> {
    let requests = (0..STREAMS).flat_map(|n| request(id(n), "GET", "/large", true));
    stuck_window().into_iter().chain(requests).collect()
}

/// An upload that goes on.
fn upload() -> Vec<u8> {
    request(1, "PUT", "/upload", false)
}

/// A request with a body that nothing reads, for its client does not take the response.
fn unread() -> Vec<u8> {
    [stuck_window(), request(1, "GET", "/large", false)].concat()
}

/// Requests that are reset.
fn resets() -> Vec<Attack> {
    let requests = |n| request(id(n), "GET", "/large", true);
    vec![
        attack("rapid reset", vec![], CALM, move |n| {
            [requests(n), reset(id(n))].concat()
        }),
        attack("reset by a window of 0", stuck_window(), BROKEN, move |n| {
            [requests(n), window_update(id(n), 0)].concat()
        }),
        attack(
            "reset by too large a window",
            stuck_window(),
            CALM,
            move |n| {
                let most = window_update(id(n), (1 << 31) - 1);
                [requests(n), most.clone(), most].concat()
            },
        ),
        attack("reset by late DATA", stuck_window(), BROKEN, move |n| {
            [requests(n), frame(DATA, 0, id(n), b"x")].concat()
        }),
        attack("reset by a malformed name", vec![], BROKEN, |n| {
            let fields = [request_fields("GET", "/here"), field("Upper", "x")].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, id(n), &fields)
        }),
        attack("reset by a head without a path", vec![], CALM, |n| {
            frame(HEADERS, END_HEADERS | END_STREAM, id(n), &[0x82, 0x86])
        }),
        attack("reset by a length that is wrong", vec![], CALM, |n| {
            let length = field("content-length", "1");
            let fields = [request_fields("PUT", "/upload"), length].concat();
            let head = frame(HEADERS, END_HEADERS, id(n), &fields);
            [head, frame(DATA, END_STREAM, id(n), b"two")].concat()
        }),
    ]
}

fn stuck_window() -> Vec<u8> {
    settings(&[(INITIAL_WINDOW, 0)])
}

/// Heads that do not end, or unfold.
fn heads() -> Vec<Attack> {
    let begun = |rest: &[u8]| {
        let fields = [&request_fields("GET", "/here"), rest].concat();
        frame(HEADERS, END_STREAM, 1, &fields)
    };
    let long = field("x-long", &"v".repeat(100)).repeat(150);
    // A field of 4,000 bytes that goes into the table, as number 62.
    let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.extend([b'v'; 4000]);
    let fields = [request_fields("GET", "/here"), bomb].concat();
    let planted = frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields);
    let more = |bytes: &[u8]| frame(CONTINUATION, 0, 1, bytes);
    let begun_field = begun(&[0, 0x7f, 0xa1, 0x1e]);
    vec![
        same("CONTINUATION without end", begun(b""), CALM, more(&long)),
        same("empty CONTINUATION", begun(b""), CALM, more(b"")),
        same("CONTINUATION of one byte", begun_field, CALM, more(b"x")),
        attack("HPACK bomb", planted, CALM, |n| {
            let fields = [request_fields("GET", "/here"), vec![0xbe; 16_000]].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, id(n + 1), &fields)
        }),
        attack("too many requests, and tables resized", vec![], CALM, |n| {
            let sizes = [0x20, 0x3f, 0xe1, 0x1f];
            let fields = [&sizes[..], &request_fields("GET", "/here")].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, id(n), &fields)
        }),
    ]
}

/// Frames of the connection, and those that a stream may get any number of.
fn frames() -> Vec<Attack> {
    let none = Vec::new;
    let conn = |kind, flags, bytes: &[u8]| frame(kind, flags, 0, bytes);
    let data = |flags, bytes: &[u8]| frame(DATA, flags, 1, bytes);
    let padded = data(PADDED, &[&[255][..], &[0; 255]].concat());
    let once = request(1, "GET", "/here", true);
    let pinged = |n: u32| [n.to_be_bytes(), [0; 4]].concat();
    vec![
        attack("PING", none(), FLAT, move |n| frame(PING, 0, 0, &pinged(n))),
        same("PING ACK", none(), FLAT, conn(PING, ACK, b"8 bytes.")),
        same("SETTINGS", none(), FLAT, settings(&[])),
        same("SETTINGS ACK", none(), BROKEN, conn(SETTINGS, ACK, b"")),
        attack("SETTINGS of windows", stuck(), FLAT, |n| {
            settings(&[(INITIAL_WINDOW, n % 2)])
        }),
        attack("SETTINGS of tables", none(), FLAT, |n| {
            settings(&[(1, n % 2 * 4096)])
        }),
        attack("PRIORITY", none(), FLAT, |n| {
            frame(PRIORITY, 0, id(n), &[0, 0, 0, 0, 16])
        }),
        same("WINDOW_UPDATE of all", none(), FLAT, window_update(0, 1)),
        same("WINDOW_UPDATE of one", stuck(), FLAT, window_update(1, 1)),
        same("RST_STREAM of one stream", once, FLAT, reset(1)),
        same("GOAWAY", stuck(), FLAT, conn(GOAWAY, 0, &[0; 8])),
        same("unknown frames", none(), FLAT, conn(0xbe, 0xff, &[7; 100])),
        same("empty DATA", upload(), CALM, data(0, b"")),
        same("padded DATA", upload(), CALM, padded),
        same("DATA of one byte", upload(), FLAT, data(0, b"x")),
        same(
            "DATA that none reads",
            unread(),
            CALM,
            data(0, b"x").repeat(4),
        ),
    ]
}

/// What each may cost: memory in KiB, CPU time, and how long another client waits. The debug build takes ten times as
/// long, and runs beside other tests.
const MOST_GROWTH: u64 = 200;
const MOST_CPU: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });
const MOST_P99: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 50 });

impl Cost {
    fn is_low(&self) -> bool {
        self.growth <= MOST_GROWTH && self.cpu <= MOST_CPU && self.p99 <= MOST_P99
    }
}

fn all_are_withstood(kind: &str, attacks: &[Attack]) {
    const TRIES: usize = 6;
    let mut server = server(&[]);
    let count = scaled(5_000, 20_000);
    for attack in attacks {
        // What is done for the first time takes memory that stays.
        attack.strike(&server, count);
        // Other jobs of the machine cost time now and then; what is dear is dear each time.
        let mut strikes = (0..TRIES).map(|_| attack.strike(&server, count));
        let cost = strikes.find(|cost| cost.is_low() || cost.ends != attack.ends);
        let cost = cost.unwrap_or_else(|| panic!("{}: dear each time", attack.name));
        let counts = format!("{kind}: {}, {count} times at most: {cost}", attack.name);
        assert_eq!(cost.ends, attack.ends, "{counts}");
        counted!("http2: {counts}");
    }
    assert_no_panics(&Scrape::of(server.addr));
    server.stop();
    let lines = server.log().len();
    assert!(lines < 10, "{lines} lines in the log");
}

#[test]
fn requests_that_are_reset() {
    all_are_withstood("resets", &resets());
}

#[test]
fn heads_that_do_not_end_or_unfold() {
    all_are_withstood("heads", &heads());
}

#[test]
fn frames_that_cost_their_sender_nothing() {
    all_are_withstood("frames", &frames());
}
