//! Proves what a handshake settles: the version, the certificate by name, the protocol, that sessions are resumed by
//! any reactor, and how handshakes are counted.

use rustls::{HandshakeKind, ProtocolVersion, version};

use super::{NAMES, start, started};
use crate::support::prelude::*;

#[test]
fn both_versions_are_spoken() {
    let (authority, _own, server) = started(&[]);
    for (versions, expected) in [
        (&[&version::TLS13][..], ProtocolVersion::TLSv1_3),
        (&[&version::TLS12], ProtocolVersion::TLSv1_2),
        (rustls::ALL_VERSIONS, ProtocolVersion::TLSv1_3),
    ] {
        let mut raw = Raw::connect_tls(server.addr, &authority.client().versions(versions));
        assert_eq!(raw.get("k").status, 404);
        assert_eq!(raw.look(|tls| tls.protocol_version()), Some(expected));
    }
}

#[test]
fn http_2_is_chosen_where_the_client_offers_it() {
    let (authority, _own, server) = started(&[]);
    for (offered, expected) in [
        (&["http/1.1", "h2"][..], Some("h2")),
        (&["http/1.1", "spdy/3"], Some("http/1.1")),
        (&[], None),
    ] {
        let mut client = authority.client();
        let config = Arc::make_mut(&mut client.config);
        config.alpn_protocols = offered
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let raw = Raw::connect_tls(server.addr, &client);
        raw.handshake().expect("a handshake");
        let chosen = raw.look(|tls| tls.alpn_protocol().map(<[u8]>::to_vec));
        let found = chosen.as_deref();
        assert_eq!(found, expected.map(str::as_bytes), "{offered:?}");
    }
}

#[test]
fn the_certificate_with_the_name_is_shown_and_the_first_for_no_match() {
    let authority = Authority::new();
    let first = authority.issue("first", &NAMES);
    let second = authority.issue("second", &["two.example", "127.0.0.1"]);
    let third = authority.issue("third", &["*.three.example"]);
    let (two, three) = (second.options(), third.options());
    let server = start(&first, &[two, three].concat());
    for (name, expected) in [
        ("localhost", &first),
        ("two.example", &second),
        ("TWO.example", &second),
        ("a.three.example", &third),
    ] {
        let raw = Raw::connect_tls(server.addr, &authority.client().asking_for(name));
        raw.handshake().expect("a certificate of that name");
        let shown = raw.look(|tls| tls.peer_certificates().map(|chain| chain[0].clone()));
        assert_eq!(shown.as_ref(), Some(expected.der()), "{name}");
    }
    // Without a name, by an address, the first is shown: it has that address.
    let raw = Raw::connect_tls(server.addr, &authority.client());
    raw.handshake().expect("the first certificate");
    let shown = raw.look(|tls| tls.peer_certificates().map(|chain| chain[0].clone()));
    assert_eq!(shown.as_ref(), Some(first.der()));
    let other = Raw::connect_tls(server.addr, &authority.client().asking_for("a.b.example"));
    assert!(other.handshake().is_err(), "the first is not of that name");
}

#[test]
fn sessions_are_resumed_by_any_of_four_reactors() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let (authority, _own, server) = started(&["--threads", "4"]);
        let client = authority.client().versions(versions);
        let mut resumed = 0;
        for _ in 0..60 {
            let mut raw = Raw::connect_tls(server.addr, &client);
            assert_eq!(raw.get("k").status, 404);
            let kind = raw.look(|tls| tls.handshake_kind());
            resumed += usize::from(kind == Some(HandshakeKind::Resumed));
        }
        assert_eq!(resumed, 59, "all but the first");
    }
}

#[test]
fn handshakes_are_counted_by_how_they_end() {
    let (authority, _own, server) = started(&["--threads", "2"]);
    let mut watching = Raw::connect_tls(server.addr, &authority.client());
    let mut counts = || {
        let scrape = Scrape::over(&mut watching, "");
        ["full", "resumed", "failed"]
            .map(|result| scrape.count("data_server_tls_handshakes_total", &[("result", result)]))
    };
    assert_eq!(counts(), [1, 0, 0]);
    for versions in [&[&version::TLS13], &[&version::TLS12]] {
        let client = authority.client().versions(versions);
        for _ in 0..3 {
            assert_eq!(Raw::connect_tls(server.addr, &client).get("k").status, 404);
        }
    }
    assert_eq!(counts(), [3, 4, 0]);
    // One that takes the certificate for a wrong one, one that speaks no TLS, and one that says nothing.
    let wary = Raw::connect_tls(server.addr, &Authority::new().client());
    assert!(wary.handshake().is_err());
    drop(wary);
    let mut plain = Raw::connect_clear(server.addr);
    let _ = plain.offer(get_head("k"));
    plain.rest();
    drop(Raw::connect_clear(server.addr));
    eventually("the failed ones are counted", || counts() == [3, 4, 3]);
    // A session is counted before its first request.
    let rests = Raw::connect_tls(server.addr, &authority.client());
    rests.handshake().expect("a session");
    eventually("it is counted", || counts() == [4, 4, 3]);
}

#[test]
fn a_page_of_http_is_of_another_origin() {
    let (authority, _own, server) = started(&[]);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    let mut put = |origin: String| {
        let lines = format!("Host: store.example\r\nOrigin: {origin}\r\n");
        let request = format!("PUT /k HTTP/1.1\r\n{lines}Content-Length: 1\r\n\r\nv");
        raw.ask(request).status
    };
    assert_eq!(put("https://store.example".to_owned()), 200);
    assert_eq!(put("http://store.example".to_owned()), 403);
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    let mut watch = |origin: &str| {
        let lines = format!(
            "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: {origin}\r\n"
        );
        raw.send(format!(
            "GET /-/watch HTTP/1.1\r\nHost: store.example\r\n{lines}\r\n"
        ));
        raw.head().status
    };
    assert_eq!(watch("http://store.example"), 403);
}
