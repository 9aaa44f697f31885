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

/// How many GETs are answered, one after the other, on a connection that begins HTTP/2 when a drain has begun, until
/// the server closes idle connections; and whether the client has learned of the end by then.
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

/// Which of the protocols it is, only the fourth byte tells.
#[test]
fn a_first_head_of_which_a_part_has_arrived_is_waited_for_at_the_end() {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    for (is_sealed, part) in [(false, 1), (false, 5), (false, 23), (true, 1), (true, 23)] {
        let own = if is_sealed { own.options() } else { Vec::new() };
        let options = [&own[..], &["--http2-clear", "--threads", "1"]].concat();
        let mut server = launched(&options, is_sealed);
        server.dir.place("k", "value");
        let mut late = begin(&server, &authority, is_sealed);
        let whole = preface();
        late.send(&whole[..part]);
        eventually("its kernel has it", || late.is_taken());
        // One reactor has looked at both.
        let mut idle = Raw::connect_clear(server.addr);
        eventually("all are accepted", || server.connections() >= 2);
        server.signal(Signal::TERM);
        idle.assert_closed();
        late.send(&whole[part..]);
        late.send(get(1));
        while next_frame(&mut late).kind != HEADERS {}
        drop((late, idle));
        assert_eq!(server.exit(), Some(0));
    }
}

#[test]
fn what_begins_like_a_preface_and_is_none_is_a_request_of_http_1() {
    let server = launched(&["--http2-clear"], false);
    let mut client = Raw::connect_clear(server.addr);
    client.send("PRI / HTTP/1.1\r\n");
    eventually("its kernel has it", || client.is_taken());
    client.send("Host: t\r\n\r\n");
    assert!(client.head().status >= 400);
}

fn launched(options: &[&str], is_sealed: bool) -> TestServer {
    let scheme = if is_sealed { "https" } else { "http" };
    let launch = Launch::new(options).in_the_clear();
    launch.listen(&format!("{scheme}://127.0.0.1:0")).start()
}

/// A client of HTTP/2 that has sent nothing, but for a handshake.
fn begin(server: &TestServer, authority: &Authority, is_sealed: bool) -> Raw {
    if !is_sealed {
        return Raw::connect_clear(server.addr);
    }
    let mut client = authority.client();
    Arc::make_mut(&mut client.config).alpn_protocols = vec![b"h2".to_vec()];
    let late = Raw::connect_tls(server.addr, &client);
    late.handshake().expect("a handshake");
    late
}

/// What the kernel of the server had taken was dropped with an idle connection, if its reactor did not know of it.
#[test]
fn a_request_that_has_arrived_when_idle_connections_close_is_answered() {
    tracing_only!("a reactor that learns late of what arrives");
    let mut server = launched(&["--threads", "1"], false);
    server.dir.place("k", "value");
    let mut clients = [(); 60].map(|()| Raw::connect_clear(server.addr));
    for used in &mut clients[30..] {
        assert_eq!(used.get("k").status, 200);
    }
    eventually("all are accepted", || server.connections() >= 60);
    let late = "-e trace=epoll_wait -e inject=epoll_wait:delay_exit=60000";
    let _tracer = Attached::to_thread(&server, "reactor-0", &words(late));
    server.signal(Signal::TERM);
    // Of those that have had a request, and of those that have not.
    let (unused, used) = clients.split_at_mut(30);
    let mut sent = Vec::new();
    for client in unused.iter_mut().zip(used).flat_map(|(a, b)| [a, b]) {
        if client.silent_for(Duration::from_millis(10)).is_ok() {
            let is_sent = client.offer("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
            sent.push((client, is_sent.is_ok()));
        }
    }
    let count = sent.len();
    for (n, (client, is_sent)) in sent.into_iter().enumerate() {
        let is_answered = client.try_head().is_some_and(|head| head.status == 200);
        // Of one that was closed just before, the kernel has said that it takes nothing.
        let mut is_refused = || !is_sent || client.offer("G").is_err();
        assert!(is_answered || is_refused(), "{n} of {count} is dropped");
    }
    assert!(count > 20, "{count}");
    assert_eq!(server.exit(), Some(0));
}

/// By a FIN alone, most programs do not send a request again that changes something.
#[test]
fn a_client_that_has_only_agreed_on_http_2_learns_that_none_of_its_requests_was_read() {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let late_head = ["--http2-clear", "--header-timeout", "200ms"];
    let in_time = &late_head[..0];
    for (options, is_sealed, part) in [
        (in_time, true, 0),
        (&late_head[..], true, 0),
        (&late_head[..], true, 23),
        (&late_head[..], false, 5),
    ] {
        let stops = options.is_empty();
        let own = if is_sealed { own.options() } else { Vec::new() };
        let mut server = launched(&[&own[..], options].concat(), is_sealed);
        let mut late = begin(&server, &authority, is_sealed);
        late.send(&preface()[..part]);
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
