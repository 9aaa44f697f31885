//! Proves that certificates are replaced while the server runs: no handshake fails, and what cannot be used changes
//! nothing.

use rustls::HandshakeKind;

use super::{NAMES, is_served, start, started};
use crate::support::prelude::*;

/// The certificate that is shown to a client that holds no session.
fn shown(server: &TestServer, client: &TlsClient) -> Vec<u8> {
    let raw = Raw::connect_tls(server.addr, &client.versions(rustls::ALL_VERSIONS));
    raw.handshake().expect("a handshake");
    raw.look(|tls| tls.peer_certificates().expect("a certificate")[0].to_vec())
}

fn replace(own: &Issued, by: &Issued) {
    fs::copy(&by.certificate, &own.certificate).expect("a copy");
    fs::copy(&by.key, &own.key).expect("a copy");
}

#[test]
fn hanging_up_rereads_certificates_and_a_bad_pair_is_refused() {
    let (authority, own, server) = started(&[]);
    let client = authority.client();
    let next = authority.issue("next", &NAMES);
    assert_eq!(shown(&server, &client), own.der().to_vec());
    assert!(is_served(Raw::connect_tls(server.addr, &client)));
    let mut open = Raw::connect_tls(server.addr, &client);
    assert_eq!(open.get("k").status, 404);

    // Of another key: half of a replacement.
    fs::copy(&next.key, &own.key).expect("a copy");
    server.signal(Signal::HUP);
    let event = server.event("reload: certificates not reread: the old ones stay");
    assert!(event.field("error").contains("own.pem"), "{event:?}");
    assert_eq!(shown(&server, &client), own.der().to_vec());

    replace(&own, &next);
    server.signal(Signal::HUP);
    server.event("reload: certificates reread");
    assert_eq!(shown(&server, &client), next.der().to_vec());
    let status = open.get("k").status;
    assert_eq!(status, 404, "a connection from before goes on");
    let mut resumed = Raw::connect_tls(server.addr, &client);
    assert_eq!(resumed.get("k").status, 404);
    let kind = resumed.look(|tls| tls.handshake_kind());
    assert_eq!(kind, Some(HandshakeKind::Resumed), "so does a session");
}

#[test]
fn no_handshake_fails_while_certificates_are_replaced() {
    let (authority, own, server) = started(&["--threads", "2"]);
    let pair = [authority.issue("a", &NAMES), authority.issue("b", &NAMES)];
    let done = Done::default();
    std::thread::scope(|scope| {
        let connecting: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let all = (0..250).filter(|_| {
                        let client = authority.client();
                        is_served(Raw::connect_tls(server.addr, &client))
                    });
                    all.count()
                })
            })
            .collect();
        scope.spawn(|| {
            let mut rounds = 0;
            while !done.is_said() {
                replace(&own, &pair[rounds % 2]);
                let before = server.events("reload: certificates reread").len();
                server.signal(Signal::HUP);
                let comes = || server.events("reload: certificates reread").len() > before;
                eventually("they are reread", comes);
                rounds += 1;
            }
            assert!(rounds > 5, "{rounds} rounds");
        });
        let _over = done.when_dropped();
        let answered = connecting.into_iter();
        let answered: usize = answered.map(|all| all.join().expect("no panic")).sum();
        assert_eq!(answered, 1000);
    });
}

#[test]
fn other_clients_are_served_after_their_authority_is_replaced() {
    let (authority, first, second) = (Authority::new(), Authority::new(), Authority::new());
    let own = authority.issue("own", &NAMES);
    let file = first.file();
    let server = start(&own, &["--tls-client-ca", file.to_str().expect("text")]);
    let of = |issuer: &Authority| {
        let certificate = issuer.issue("client", &["alice.example"]);
        authority.client().with(&certificate)
    };
    let (old, new) = (of(&first), of(&second));
    let is_served = |client: &TlsClient| is_served(Raw::connect_tls(server.addr, client));
    assert!(is_served(&old) && !is_served(&new));
    fs::copy(second.file(), &file).expect("a copy");
    server.signal(Signal::HUP);
    server.event("reload: certificates reread");
    assert!(is_served(&new));
    assert!(!is_served(&old), "nor is its session resumed");
}
