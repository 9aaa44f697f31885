//! Proves which clients are served where certificates of clients are asked for.

use super::{NAMES, is_served, start};
use crate::support::prelude::*;
use rustls::version;
use std::path::Path;

fn server(own: &Issued, clients: &Authority, auth: &str) -> TestServer {
    let file = clients.file();
    let file = file.to_str().expect("text");
    start(own, &["--tls-client-ca", file, "--tls-client-auth", auth])
}

#[test]
fn a_client_is_served_by_its_certificate() {
    let (authority, clients, foreign) = (Authority::new(), Authority::new(), Authority::new());
    let own = authority.issue("own", &NAMES);
    let good = clients.issue("good", &["alice.example"]);
    let expired = clients.issue_until("expired", &["alice.example"], 2020);
    let foreign = foreign.issue("foreign", &["alice.example"]);
    for auth in ["require", "allow"] {
        let server = server(&own, &clients, auth);
        let client = authority.client();
        let is_served = |client: &TlsClient| is_served(Raw::connect_tls(server.addr, client));
        assert!(is_served(&client.with(&good)), "{auth}");
        assert!(!is_served(&client.with(&expired)), "{auth}: expired");
        let is_right = !is_served(&client.with(&foreign));
        assert!(is_right, "{auth}: of another authority");
        assert_eq!(is_served(&client), auth == "allow", "{auth}: none");
        let old = client.versions(&[&version::TLS12]);
        assert_eq!(is_served(&old), auth == "allow", "{auth}: none, by TLS 1.2");
        // One that was served is served again.
        let good = client.with(&good);
        assert!((0..3).all(|_| is_served(&good)), "{auth}");
    }
}

#[test]
fn a_certificate_in_the_file_is_its_own_authority_and_no_other_s() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let own = authority.issue("own", &NAMES);
    let issued = clients.issue("issued", &["carol.example"]);
    let dir = DataDir::temporary();
    let made = |name: &str, by: &str| {
        let what = format!("DNS:{name}.example -addext basicConstraints=critical,CA:FALSE {by}");
        Issued::by_openssl(dir.path(), name, &what)
    };
    let [alice, other] = ["alice", "other"].map(|name| made(name, ""));
    let bob = made("bob", "-CA alice.pem -CAkey alice.key");
    let read = |file: &Path| std::fs::read_to_string(file).expect("a certificate");
    let (alone, all) = (read(&alice.certificate), read(&clients.file()));
    for (listed, has_authority) in [(alone.clone(), false), (alone + &all, true)] {
        let file = dir.path().join("clients.pem");
        std::fs::write(&file, listed).expect("a file");
        let server = start(&own, &["--tls-client-ca", file.to_str().expect("text")]);
        let is_served = |client: &Issued| {
            let client = authority.client().with(client);
            is_served(Raw::connect_tls(server.addr, &client))
        };
        assert!(is_served(&alice));
        assert!(!is_served(&bob) && !is_served(&other));
        let event = server.event("certificate of a client refused");
        let (peer, error) = (event.field("peer"), event.field("error"));
        assert!(peer.starts_with("127.0.0.1:"), "{peer}");
        assert!(error.contains("invalid peer certificate"), "{error}");
        assert_eq!(is_served(&issued), has_authority);
    }
}
