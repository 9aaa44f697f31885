//! Clients of HTTP/2 whose first bytes come when the server is ending, frame by frame: they are served at once while it
//! still takes requests, and learn that their requests were not read when it takes none.

use crate::support::frames::{END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, SETTINGS, frame};
use crate::support::prelude::*;

/// The first bytes of a client.
fn preface() -> Vec<u8> {
    let settings = frame(SETTINGS, 0, 0, b"");
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*settings].concat()
}

/// A GET of `/k`.
fn get(stream: u32) -> Vec<u8> {
    let fields = b"\x82\x86\x04\x02/k\x01\x01t";
    frame(HEADERS, END_STREAM | END_HEADERS, stream, fields)
}

fn next_frame(client: &mut Raw) -> Frame {
    let mut bytes = client.take(9);
    let len = usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
    bytes.extend(client.take(len));
    Frame::first_of(&mut bytes).expect("a frame")
}

/// How many GETs are answered, one after the other, on a connection that begins HTTP/2 when a drain has begun, until the
/// server closes idle connections; and whether the client has learned of the end by then.
fn answered_in_a_drain() -> (usize, bool) {
    let server = Launch::new(&["--http2-clear", "--threads", "1"])
        .in_the_clear()
        .start();
    server.dir.place("k", "value");
    let mut clients = [(); 3].map(|()| Raw::connect_clear(server.addr));
    eventually("all are accepted", || server.connections() >= 3);
    let [client, told, idle] = &mut clients;
    server.signal(Signal::TERM);
    while !told.get("k").closes() {}
    client.send(preface());
    let (mut answered, mut is_told) = (0, false);
    for stream in (1..100).step_by(2) {
        client.send(get(stream));
        loop {
            let next = next_frame(client);
            is_told |= next.kind == GOAWAY;
            if next.ends_stream() {
                break;
            }
        }
        if idle.silent_for(Duration::from_millis(1)).is_err() {
            break;
        }
        answered += 1;
    }
    (answered, is_told)
}

/// Each write was held back for 200 ms, in which the kernel hoped for more, and no GOAWAY came before the end: three
/// requests in the half second.
#[test]
fn http_2_that_begins_in_a_drain_is_served_at_once_and_learns_of_the_end() {
    let tries = (0..5).map(|_| answered_in_a_drain()).collect::<Vec<_>>();
    let is_served = |&(answered, is_told): &(usize, bool)| answered >= 10 && is_told;
    assert!(tries.iter().any(is_served), "{tries:?}");
}

/// By a FIN alone, most programs do not send a request again that changes something.
#[test]
fn a_client_that_has_only_agreed_on_http_2_learns_that_none_of_its_requests_was_read() {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    for (options, stops) in [(&[][..], true), (&["--header-timeout", "200ms"], false)] {
        let launch = Launch::new(&[&own.options()[..], options].concat());
        let mut server = launch.listen("https://127.0.0.1:0").start();
        let mut client = authority.client();
        Arc::make_mut(&mut client.config).alpn_protocols = vec![b"h2".to_vec()];
        let mut late = Raw::connect_tls(server.addr, &client);
        late.handshake().expect("a handshake");
        if stops {
            server.signal(Signal::TERM);
        }
        assert_eq!(next_frame(&mut late).kind, SETTINGS);
        let goaway = next_frame(&mut late);
        let told = (goaway.kind, goaway.number(0), goaway.number(4));
        assert_eq!(told, (GOAWAY, 0, 0), "no stream was read, and no error");
        // What crosses this is dropped, and resets nothing.
        late.send(preface());
        late.send(get(1));
        late.assert_closed();
        drop(late);
        if stops {
            assert_eq!(server.exit(), Some(0));
        }
    }
}
