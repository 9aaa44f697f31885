//! Proves the feed over WebSocket: the handshake and the pages that may make it, the messages, and the answers to
//! clients that break the protocol.

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::{burst, long_key, start};
use crate::support::prelude::*;

/// The handshake of RFC 6455, section 1.3, but for Host and what a test adds.
const SHAKE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Asks for a WebSocket with these additional header lines, and reads only the head of the response.
fn shake(server: &TestServer, lines: &str) -> (Raw, Response) {
    let mut raw = server.connect();
    let host = server.addr;
    let head = format!("GET /-/watch HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
    raw.send(head);
    let head = raw.head();
    (raw, head)
}

/// A frame as a client sends it, masked with zeros.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short payload");
    let mut frame = vec![first];
    if length < 126 {
        frame.push(0x80 | u8::try_from(length).expect("short"));
    } else {
        frame.push(0xfe);
        frame.extend(length.to_be_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// Reads one short frame of the server: its first byte and its payload.
fn frame(raw: &mut Raw) -> (u8, Vec<u8>) {
    let head = raw.take(2);
    assert!(head[1] < 126, "a short frame, not masked: {head:?}");
    (head[0], raw.take(usize::from(head[1])))
}

#[test]
fn a_websocket_gets_the_same_changes_as_an_event_stream() {
    let server = needed!(TestServer::of_directory("watching", &["--threads", "2"]));
    let mut socket = Socket::open(&server, "?prefix=a");
    let mut events = Events::open(&server, "?prefix=a", "");
    for key in ["a1", "b", "a2"] {
        server.store(key, "value");
    }
    server.ask("DELETE", "a1");
    server.store("a-last", "");
    let told = socket.until("a-last");
    assert_eq!(told, events.until("a-last"));
    let ops = told.iter().map(|t| format!("{} {}", t.op, t.key));
    let ops: Vec<_> = ops.collect();
    assert_eq!(ops, ["put a1", "put a2", "delete a1", "put a-last"]);
    let since = told[0].seq;
    let mut again = Socket::open(&server, &format!("?since={since}"));
    assert_eq!(again.next().expect("a message").key, "b");
    let told = Socket::open(&server, "?since=1").next().expect("a message");
    assert!(told.is_resync());
}

#[test]
fn the_handshake_follows_rfc_6455() {
    let allowed = ["--cors-origin", "https://app.example"];
    let server = needed!(TestServer::of_directory("watching", &allowed));
    // The connection serves requests before it is upgraded.
    let mut raw = server.connect();
    assert_eq!(raw.put("k", "v").status, 200);
    raw.send(format!("GET /-/watch HTTP/1.1\r\nHost: t\r\n{SHAKE}\r\n"));
    let head = raw.head();
    assert_eq!(head.status, 101);
    server.store("later", "v");
    assert_eq!(frame(&mut raw).0, 0x81, "a message");
    let found = head.must("sec-websocket-accept");
    assert_eq!(found, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(head.must("upgrade").eq_ignore_ascii_case("websocket"));
    assert!(head.must("connection").eq_ignore_ascii_case("upgrade"));
    assert_eq!(head.header("content-length"), None);
    assert_eq!(head.header("transfer-encoding"), None);
    // No compression, also when the client offers it: RFC 6455, section 9.1.
    let deflate = format!("{SHAKE}Sec-WebSocket-Extensions: permessage-deflate\r\n");
    let (_, head) = shake(&server, &deflate);
    let found = (head.status, head.header("sec-websocket-extensions"));
    assert_eq!(found, (101, None));

    let (_, head) = shake(&server, &SHAKE.replace("Version: 13", "Version: 8"));
    let found = (head.status, head.must("sec-websocket-version"));
    assert_eq!(found, (426, "13"));
    assert!(head.must("upgrade").eq_ignore_ascii_case("websocket"));
    // Any page can have its visitor's browser open a WebSocket.
    let own = format!("{}://{}", scheme(), server.addr);
    for (origin, status) in [
        (&*own, 101),
        ("https://app.example", 101),
        ("http://evil.example", 403),
        ("null", 403),
        (&format!("{own}\r\nOrigin: http://evil.example"), 403),
        ("https://app.example\r\nOrigin: http://evil.example", 403),
    ] {
        let lines = format!("{SHAKE}Origin: {origin}\r\n");
        assert_eq!(shake(&server, &lines).1.status, status, "{origin:?}");
    }
    // Of each kind one: src/http/watch/request.rs has the others.
    assert_eq!(shake(&server, &SHAKE.replace("dGhl", "dGh")).1.status, 400);
    let other = SHAKE.replace("Upgrade: websocket", "Upgrade: h2c");
    let (_, head) = shake(&server, &other);
    let kind = head.must("content-type");
    assert_eq!((head.status, kind), (200, "text/event-stream"));
}

#[test]
fn a_client_that_breaks_the_protocol_is_closed_with_a_code() {
    let server = needed!(TestServer::of_directory("watching", &["--threads", "1"]));
    let mut other = Socket::open(&server, "");
    let fragments = [masked(0x01, &[b'x'; 4000]), masked(0x80, &[b'x'; 4000])];
    let many = [masked(0x01, b"x"), masked(0x00, &[b'x'; 4096])];
    let endless = [&[0x82, 0xff, 0x7f][..], &[0xff; 7], &[0; 4]].concat();
    let parts = [masked(0x01, b"a"), masked(0x89, b""), masked(0x80, b"b")];
    for (what, code, bytes) in [
        ("an unmasked frame", 1002, vec![0x81, 1, b'x']),
        // As compression sets it.
        ("a reserved bit", 1002, masked(0xc1, b"x")),
        ("a reserved opcode", 1002, masked(0x83, b"x")),
        ("a reserved control opcode", 1002, masked(0x8b, b"")),
        ("a fragmented ping", 1002, masked(0x09, b"x")),
        ("a long ping", 1002, masked(0x89, &[0; 126])),
        ("a continuation of nothing", 1002, masked(0x80, b"x")),
        ("a close of one byte", 1002, masked(0x88, b"x")),
        ("a long message", 1009, masked(0x81, &[b'x'; 4097])),
        ("a message without end", 1009, endless),
        ("a long message in parts", 1009, fragments.concat()),
        ("a message one byte too long in parts", 1009, many.concat()),
        ("text that is no UTF-8", 1007, masked(0x81, &[0xff])),
        ("text", 1003, masked(0x81, b"hello")),
        ("bytes", 1003, masked(0x82, b"hello")),
        ("text in parts", 1003, parts.concat()),
    ] {
        let (mut raw, head) = shake(&server, SHAKE);
        assert_eq!(head.status, 101);
        raw.send(bytes);
        let (mut kind, mut payload) = frame(&mut raw);
        if kind == 0x8a {
            (kind, payload) = frame(&mut raw);
        }
        assert_eq!(kind, 0x88, "{what}: {payload:?}");
        assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), code, "{what}");
        raw.finish();
        raw.assert_closed();
        server.store("k", "v");
        assert_eq!(other.next().expect("a message").key, "k", "{what}");
    }
}

#[test]
fn pings_and_close_frames_are_answered() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    let mut socket = Socket::open(&server, "");
    let payload = Bytes::from_static(b"are you there");
    socket.0.send(Message::Ping(payload.clone())).expect("sent");
    assert_eq!(socket.0.read().expect("a message"), Message::Pong(payload));
    let frame = CloseFrame {
        code: 1000.into(),
        reason: "done".into(),
    };
    socket.0.close(Some(frame)).expect("sent");
    assert_eq!(socket.closed(), (1000, "done".into()));
    assert!(socket.0.read().is_err(), "the connection is still open");
}

/// Bytes before the response could be HTTP or frames, so the server processes them as neither.
#[test]
fn bytes_around_the_handshake_are_never_a_request() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    let put = put_head("smuggled", 1) + "x";
    let early = [masked(0x89, b"ping"), b"G".to_vec(), put.into_bytes()];
    for early in early {
        let mut raw = server.connect();
        let head = format!("GET /-/watch HTTP/1.1\r\nHost: t\r\n{SHAKE}\r\n");
        raw.send([head.as_bytes(), &early].concat());
        assert_eq!(raw.head().status, 101);
        let (kind, reason) = frame(&mut raw);
        assert_eq!((kind, &reason[..2]), (0x88, &1002_u16.to_be_bytes()[..]));
        raw.assert_closed();
    }
    // After the handshake the framing of HTTP no longer applies: frames may hold any bytes, and a request is not a
    // frame.
    let shake = || shake(&server, SHAKE).0;
    let put = put_head("smuggled", 1) + "x";
    let mut raw = shake();
    for _ in 0..3 {
        raw.send(masked(0x89, put.as_bytes()));
        assert_eq!(frame(&mut raw), (0x8a, put.clone().into_bytes()));
        // Bytes that are malformed in a head are valid here, and are not held back as an incomplete head.
        raw.send(masked(0x89, b"\0\n G"));
        assert_eq!(frame(&mut raw), (0x8a, b"\0\n G".to_vec()));
    }
    // Read as a frame, it has 85 bytes, the value of `U`.
    let mut raw = shake();
    raw.send(put.repeat(2));
    let (kind, reason) = frame(&mut raw);
    assert_eq!((kind, &reason[..2]), (0x88, &1002_u16.to_be_bytes()[..]));
    raw.assert_closed();
    server.dir.assert_holds(&[]);
}

#[test]
fn framing_stays_strict_after_a_refused_or_ignored_upgrade() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    server.store("k", "v");
    let foreign = format!("{SHAKE}Origin: http://evil.example\r\n");
    let fault = "PUT /smuggled HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for (target, lines, status) in [
        ("/-/watch", &*foreign, 403),
        ("/-/watch?since=x", SHAKE, 400),
        ("/k", SHAKE, 200),
        ("/k", "Upgrade: h2c\r\nConnection: Upgrade\r\n", 200),
    ] {
        let mut raw = server.connect();
        assert_eq!(ask(&mut raw, "GET", target, lines, b"").status, status);
        assert_eq!(ask(&mut raw, "GET", "/k", "", b"").body, b"v", "{target}");
        raw.send(fault);
        assert_eq!(raw.answer().status, 400, "{target}");
        raw.assert_closed();
        // The same requests in one write.
        let mut raw = server.connect();
        raw.send(format!(
            "GET {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n{fault}"
        ));
        assert_eq!([raw.answer().status, raw.answer().status], [status, 400]);
        raw.assert_closed();
    }
    server.dir.assert_holds(&["k"]);
}

/// One subscriber of each kind does not read, and has more changes than its socket buffer holds.
#[test]
fn a_drain_ends_feeds_without_delay_and_websockets_with_1001() {
    directory_only!("watching");
    // Nothing but the drain itself ends a subscriber that does not read.
    let args = "--threads 2 --grace-period 1h --min-rate 0 --body-timeout 0s";
    let mut server = start(&words(args));
    let mut streams: Vec<_> = (0..4).map(|_| Events::open(&server, "", "")).collect();
    let sockets = (0..6).map(|_| Socket::open(&server, "?prefix=none"));
    let mut sockets: Vec<_> = sockets.collect();
    let _stalled = Events::over(Raw::connect_narrow(server.addr), "", "");
    let mut stalled = Raw::connect_narrow(server.addr);
    stalled.send(format!("GET /-/watch HTTP/1.1\r\nHost: t\r\n{SHAKE}\r\n"));
    assert_eq!(stalled.head().status, 101);
    burst(&server, &long_key(), 400);
    server.store("last", "v");
    for events in &mut streams {
        events.until("last");
    }
    server.signal(Signal::TERM);
    for events in &mut streams {
        events.assert_ended();
    }
    for socket in &mut sockets {
        assert_eq!(socket.closed(), (1001, "the server is going away".into()));
    }
    assert_eq!(server.exit(), Some(0));
}

/// For any request with `Upgrade`, hyper leaves closing the connection to the server.
#[test]
fn a_refused_upload_with_an_upgrade_offer_gets_its_answer() {
    directory_only!("watching");
    let server = TestServer::start(&["--max-body", "1000"]);
    let offer = "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA\r\n";
    for _ in 0..10 {
        let mut raw = server.connect();
        raw.send(put_head("k", 4 << 20).replace("Host: t\r\n", &format!("Host: t\r\n{offer}")));
        // The bytes that are on their way when the answer comes must not reset the connection.
        let _may_fail = raw.offer(vec![0; 4 << 20]);
        assert_eq!(raw.answer().status, 413);
    }
}
