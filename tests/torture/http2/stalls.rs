//! Connections that stop in the middle of something, or between requests: each is ended in its time, and not before.

use super::server;
use super::wire::{
    ACK, END_STREAM, GOAWAY, HEADERS, Peer, SETTINGS, frame, opening, ping, request, request_fields,
};
use crate::prelude::*;

/// Allowed over a limit, for a tick of the server and a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// How long the server keeps a connection that has sent this, after a request if it was `used`; and whether it says so.
fn kept(sent: &[u8], was_used: bool, limits: &[&str]) -> (Duration, bool) {
    let server = server(limits);
    let mut peer = Peer(Raw::connect_clear(server.addr));
    if was_used {
        peer.send([opening(&[]), request(1, "GET", "/here", true)].concat());
        peer.until(|frame| frame.stream == 1 && frame.ends_stream())
            .expect("a response");
    }
    let start = Instant::now();
    peer.send(sent);
    let is_told = peer.until(|frame| frame.kind == GOAWAY).is_some();
    while peer.next().is_some() {}
    (start.elapsed(), is_told)
}

#[test]
fn what_is_half_sent_and_what_rests_is_ended_at_its_limit() {
    let whole = request(1, "GET", "/here", true);
    let fields = request_fields("GET", "/here");
    let all = opening(&[]);
    let behind = |bytes: &[u8]| [&all, bytes].concat();
    let half_a_head = |stream| frame(HEADERS, END_STREAM, stream, &fields);
    let (ping, ack) = (ping(*b"8 bytes."), frame(SETTINGS, ACK, 0, b""));
    // What is sent, and whether behind a request that was answered.
    let half_sent = [
        ("nothing", vec![], false),
        ("a part of the preface", all[..10].to_vec(), false),
        ("the preface alone", all[..24].to_vec(), false),
        ("a part of SETTINGS", all[..28].to_vec(), false),
        ("a part of a frame's head", behind(&whole[..5]), false),
        ("a part of a frame", behind(&whole[..20]), false),
        ("a head without its end", behind(&half_a_head(1)), false),
        ("a part of PING, after a request", ping[..12].to_vec(), true),
        ("half a head, after a request", half_a_head(3), true),
    ];
    let rest = [
        ("SETTINGS", all.clone(), false),
        ("SETTINGS and its ACK", behind(&ack), false),
        ("a request", vec![], true),
        ("a request, and ACK of SETTINGS", ack.clone(), true),
        ("a request, and PING", ping.clone(), true),
    ];
    let half_sent = half_sent.iter().map(|case| (case, false));
    let cases = half_sent.chain(rest.iter().map(|case| (case, true)));
    thread::scope(|scope| {
        for ((what, sent, was_used), rests) in cases {
            scope.spawn(move || {
                let idle = if rests { "4s" } else { "60s" };
                let limits = ["--header-timeout", "1s", "--idle-timeout", idle];
                let (after, is_told) = kept(sent, *was_used, &limits);
                counted!("http2: stalls: {what}: {after:?}, {is_told}");
                let limit = Duration::from_secs(if rests { 4 } else { 1 });
                let least = Duration::from_millis(if rests { 3500 } else { 700 });
                assert!(after > least, "{what}: {after:?} is early");
                assert!(after < limit + SLACK, "{what}: {after:?} is late");
                assert!(is_told || !rests, "{what}: no GOAWAY");
            });
        }
    });
}

#[test]
fn a_client_that_ends_a_connection_may_go_on_for_a_while() {
    let server = server(&[]);
    // In order, for a reason that is unknown, and by a fault that the server names in a GOAWAY of its own.
    let unknown = [&[0; 7][..], &[0xff]].concat();
    for end in [
        frame(GOAWAY, 0, 0, &[0; 8]),
        frame(GOAWAY, 0, 0, &unknown),
        frame(HEADERS, 0, 0, b""),
    ] {
        goes_on_behind(&server, &end);
    }
}

fn goes_on_behind(server: &TestServer, end: &[u8]) {
    let mut peer = Peer::open(server.addr, &[]);
    peer.send(request(1, "GET", "/here", true));
    let response = peer.until(|frame| frame.stream == 1 && frame.ends_stream());
    assert!(response.is_some(), "no response");
    peer.send(end);
    while peer.next().is_some() {}
    // A reset comes at once, and what is sent after it fails.
    for _ in 0..3 {
        peer.send(ping(*b"8 bytes."));
    }
    drop(peer);
    eventually("it is closed", || server.connections() == 0);
}
