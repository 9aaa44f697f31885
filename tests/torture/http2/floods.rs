//! Floods of frames: each is ended by GOAWAY, or costs next to nothing.

use super::server;
use super::strike::{Attack, Cost, Ends};
use super::wire::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS,
    INITIAL_WINDOW, PADDED, PING, PRIORITY, PROTOCOL_ERROR, SETTINGS, field, frame, id, ping,
    request, request_fields, reset, settings, window_update,
};
use crate::scale::{counted, scaled};
use crate::support::prelude::*;

/// For too much of what may be sent.
const CALM: Ends = Ends::GoAway(ENHANCE_YOUR_CALM);

/// For what may not be sent at all.
const BROKEN: Ends = Ends::GoAway(PROTOCOL_ERROR);

/// Streams that each connection may have at once.
const STREAMS: u32 = 100;

fn attack(
    name: &'static str,
    opening: Vec<u8>,
    ends: Ends,
    repeated: impl Fn(u32) -> Vec<u8> + Sync + 'static,
) -> Attack {
    Attack {
        name,
        settings: Vec::new(),
        opening,
        repeated: Box::new(repeated),
        ends,
    }
}

/// So many requests for a value that their client takes nothing of.
fn stuck() -> Vec<u8> {
    let nothing = settings(&[(INITIAL_WINDOW, 0)]);
    let requests = (0..STREAMS).flat_map(|n| request(id(n), "GET", "/large", true));
    nothing.into_iter().chain(requests).collect()
}

/// An upload that goes on.
fn upload() -> Vec<u8> {
    request(1, "PUT", "/upload", false)
}

/// A request with a body that nothing reads, for its client does not take the response.
fn unread() -> Vec<u8> {
    let nothing = settings(&[(INITIAL_WINDOW, 0)]);
    [nothing, request(1, "GET", "/large", false)].concat()
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
            "reset by a window too large",
            stuck_window(),
            CALM,
            move |n| {
                let most = window_update(id(n), (1 << 31) - 1);
                [requests(n), most.clone(), most].concat()
            },
        ),
        attack(
            "reset by DATA behind the end",
            stuck_window(),
            BROKEN,
            move |n| [requests(n), frame(DATA, 0, id(n), b"x")].concat(),
        ),
        attack("reset by a malformed name", vec![], BROKEN, |n| {
            let fields = [request_fields("GET", "/here"), field("Upper", "x")].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, id(n), &fields)
        }),
        attack("reset by a head without a path", vec![], CALM, |n| {
            frame(HEADERS, END_HEADERS | END_STREAM, id(n), &[0x82, 0x86])
        }),
        attack("reset by a length that is wrong", vec![], CALM, |n| {
            let fields = [
                request_fields("PUT", "/upload"),
                field("content-length", "1"),
            ]
            .concat();
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
    vec![
        attack("CONTINUATION without end", begun(b""), CALM, move |_| {
            frame(CONTINUATION, 0, 1, &long)
        }),
        attack("empty CONTINUATION", begun(b""), CALM, |_| {
            frame(CONTINUATION, 0, 1, b"")
        }),
        attack(
            "CONTINUATION of one byte",
            begun(&[0, 0x7f, 0xa1, 0x1e]),
            CALM,
            |_| frame(CONTINUATION, 0, 1, b"x"),
        ),
        attack("HPACK bomb", planted, CALM, |n| {
            let fields = [request_fields("GET", "/here"), vec![0xbe; 16_000]].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, id(n + 1), &fields)
        }),
        attack(
            "more requests than streams, and tables resized",
            vec![],
            CALM,
            |n| {
                let sizes = [0x20, 0x3f, 0xe1, 0x1f];
                let fields = [&sizes[..], &request_fields("GET", "/here")].concat();
                frame(HEADERS, END_HEADERS | END_STREAM, id(n), &fields)
            },
        ),
    ]
}

/// Frames of the connection, and those that a stream may get any number of.
fn frames() -> Vec<Attack> {
    vec![
        attack("PING", vec![], Ends::Flat, |n| {
            ping(
                [n.to_be_bytes(), [0; 4]]
                    .concat()
                    .try_into()
                    .expect("8 bytes"),
            )
        }),
        attack("PING ACK", vec![], Ends::Flat, |_| {
            frame(PING, ACK, 0, b"8 bytes.")
        }),
        attack("SETTINGS", vec![], Ends::Flat, |_| settings(&[])),
        attack("SETTINGS ACK", vec![], BROKEN, |_| {
            frame(SETTINGS, ACK, 0, b"")
        }),
        attack(
            "SETTINGS of windows, with 100 streams",
            stuck(),
            Ends::Flat,
            |n| settings(&[(INITIAL_WINDOW, n % 2)]),
        ),
        attack("SETTINGS of tables", vec![], Ends::Flat, |n| {
            settings(&[(1, n % 2 * 4096)])
        }),
        attack("PRIORITY", vec![], Ends::Flat, |n| {
            frame(PRIORITY, 0, id(n), &[0, 0, 0, 0, 16])
        }),
        attack(
            "WINDOW_UPDATE of the connection",
            vec![],
            Ends::Flat,
            |_| window_update(0, 1),
        ),
        attack("WINDOW_UPDATE of a stream", stuck(), Ends::Flat, |_| {
            window_update(1, 1)
        }),
        attack(
            "RST_STREAM of one stream",
            request(1, "GET", "/here", true),
            Ends::Flat,
            |_| reset(1),
        ),
        attack("GOAWAY", stuck(), Ends::Flat, |_| {
            frame(GOAWAY, 0, 0, &[0; 8])
        }),
        attack("unknown frames", vec![], Ends::Flat, |_| {
            frame(0xbe, 0xff, 0, &[7; 100])
        }),
        attack("empty DATA", upload(), CALM, |_| frame(DATA, 0, 1, b"")),
        attack("padded DATA", upload(), CALM, |_| {
            frame(DATA, PADDED, 1, &[&[255][..], &[0; 255]].concat())
        }),
        attack("DATA of one byte", upload(), Ends::Flat, |_| {
            frame(DATA, 0, 1, b"x")
        }),
        attack(
            "DATA of one byte that nothing reads",
            unread(),
            CALM,
            |_| frame(DATA, 0, 1, b"x").repeat(4),
        ),
    ]
}

/// What each may cost: memory in KiB, CPU time, and how long another client waits. The debug build takes ten times as long,
/// and runs beside other tests.
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
        counted!("http2", "{counts}");
    }
    let panics = Scrape::of(server.addr).count("data_server_panics_total", &[]);
    assert_eq!(panics, 0);
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
