//! Connections that stop in the middle of something, or between requests: each is ended in its time, and not before.

use super::server;
use super::wire::{
    END_STREAM, GOAWAY, HEADERS, Peer, frame, opening, ping, request, request_fields,
};
use crate::scale::counted;
use crate::support::prelude::*;

/// Allowed over a limit, for a tick of the server and a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// How long the server keeps a connection that has sent this, after a request if it was `used`; and whether it says so.
fn kept(sent: &[u8], was_used: bool, limits: &[&str]) -> (Duration, bool) {
    let server = server(limits);
    let mut peer = Peer::connect(server.addr);
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
fn what_is_half_sent_is_cut_at_the_limit_for_heads() {
    let whole = request(1, "GET", "/here", true);
    let fields = request_fields("GET", "/here");
    let behind = |bytes: &[u8]| [&opening(&[]), bytes].concat();
    let all = opening(&[]);
    let cases: [(&str, Vec<u8>, bool); 9] = [
        ("nothing", vec![], false),
        ("a part of the preface", all[..10].to_vec(), false),
        ("the preface alone", all[..24].to_vec(), false),
        ("a part of SETTINGS", all[..28].to_vec(), false),
        ("a part of a frame's head", behind(&whole[..5]), false),
        ("a part of a frame", behind(&whole[..20]), false),
        (
            "a head without its end",
            behind(&frame(HEADERS, END_STREAM, 1, &fields)),
            false,
        ),
        (
            "a part of PING, after a request",
            ping(*b"8 bytes.")[..12].to_vec(),
            true,
        ),
        (
            "a head without its end, after a request",
            frame(HEADERS, END_STREAM, 3, &fields),
            true,
        ),
    ];
    thread::scope(|scope| {
        for (what, sent, was_used) in &cases {
            scope.spawn(move || {
                let limits = ["--header-timeout", "1s", "--idle-timeout", "60s"];
                let (after, _) = kept(sent, *was_used, &limits);
                let is_right = after > Duration::from_millis(700);
                assert!(is_right, "{what}: {after:?} is early");
                let is_right = after < Duration::from_secs(1) + SLACK;
                assert!(is_right, "{what}: {after:?} is late");
                counted!("http2", "stalls: {what}: {after:?}");
            });
        }
    });
}

#[test]
fn what_rests_between_requests_is_ended_in_order_at_the_limit_for_that() {
    let all = opening(&[]);
    let cases: [(&str, Vec<u8>, bool); 5] = [
        ("SETTINGS", all.clone(), false),
        (
            "SETTINGS and its ACK",
            [all.clone(), frame(4, 1, 0, b"")].concat(),
            false,
        ),
        ("a request", vec![], true),
        ("a request, and ACK of SETTINGS", frame(4, 1, 0, b""), true),
        ("a request, and PING", ping(*b"8 bytes."), true),
    ];
    thread::scope(|scope| {
        for (what, sent, was_used) in &cases {
            scope.spawn(move || {
                let limits = ["--header-timeout", "1s", "--idle-timeout", "4s"];
                let (after, is_told) = kept(sent, *was_used, &limits);
                counted!("http2", "stalls: {what}: {after:?}, {is_told}");
                let is_right = after > Duration::from_millis(3500);
                assert!(is_right, "{what}: {after:?} is early");
                let is_right = after < Duration::from_secs(4) + SLACK;
                assert!(is_right, "{what}: {after:?} is late");
                assert!(is_told, "{what}: no GOAWAY");
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
