//! Clients of HTTP/2 whose first bytes come when the server is ending, frame by frame: they are served at once while it
//! still takes requests, and learn that their requests were not read when it takes none.

use crate::support::prelude::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;

/// A GET of `/k`: one frame of HEADERS, which ends the head and the stream.
fn get(stream: u8) -> Vec<u8> {
    let fields = b"\x82\x86\x04\x02/k\x01\x01t";
    let len = u8::try_from(fields.len()).expect("a short head");
    [&[0, 0, len, 1, 5, 0, 0, 0, stream], &fields[..]].concat()
}

/// The next frame: its type, its flags, and its payload.
fn frame(client: &mut Raw) -> (u8, u8, Vec<u8>) {
    let head = client.take(9);
    let len = usize::from(head[1]) << 8 | usize::from(head[2]);
    (head[3], head[4], client.take(len))
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
    client.send(PREFACE);
    let (mut answered, mut is_told) = (0, false);
    for stream in (1..100).step_by(2) {
        client.send(get(stream));
        loop {
            let (kind, flags, _) = frame(client);
            is_told |= kind == GOAWAY;
            if kind <= 1 && flags & END_STREAM > 0 {
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
        assert_eq!(frame(&mut late), (SETTINGS, 0, Vec::new()));
        assert_eq!(
            frame(&mut late),
            (GOAWAY, 0, vec![0; 8]),
            "none, without error"
        );
        // What crosses this is dropped, and resets nothing.
        late.send(PREFACE);
        late.send(get(1));
        late.assert_closed();
        drop(late);
        if stops {
            assert_eq!(server.exit(), Some(0));
        }
    }
}
