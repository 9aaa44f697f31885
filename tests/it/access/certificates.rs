//! Proves that a client certificate proves who asks.

use rustls::{HandshakeKind, version};

use super::{bearer, rule, subject, write};
use crate::support::prelude::*;

#[test]
fn a_client_is_who_its_certificate_names() {
    let dir = DataDir::temporary();
    let (authority, clients) = (Authority::new(), Authority::new());
    let text = [
        "[[subject]]\nname = \"ann\"\ncertificate = \"Ann.example\"\n",
        "[[subject]]\nname = \"old\"\ncertificate = \"old.example\"\nnot-after = 2020-01-01T00:00:00Z\n",
        &subject("bob"),
        &rule("ann", "", &["read"]),
        &rule("old", "", &["read"]),
    ];
    let server = start(&dir, &authority, &clients, &text.concat());
    let get = |client: &TlsClient, lines: &str| {
        let mut raw = Raw::connect_tls(server.addr, client);
        raw.ask(format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n"))
            .status
    };
    let issued = |name: &str| {
        let issued = clients.issue(name, &[&format!("{name}.example")]);
        authority.client().with(&issued)
    };
    assert_eq!(get(&authority.client(), ""), 401);
    assert_eq!(get(&issued("ann"), ""), 404);
    assert_eq!(get(&issued("other"), ""), 401);
    assert_eq!(get(&issued("old"), ""), 401, "the subject has ended");
    // What a request says counts more than what its connection shows.
    assert_eq!(get(&issued("ann"), &bearer("bob")), 403);
    assert_eq!(get(&issued("ann"), &bearer("unknown")), 401);
    // A browser shows it for any page that asks.
    assert_eq!(get(&issued("ann"), "Sec-Fetch-Site: cross-site\r\n"), 403);
}

/// In an archive each member asks anew who the client is.
#[test]
fn a_client_whose_subject_has_ended_gets_the_archives_of_anonymous_ones() {
    let dir = DataDir::temporary();
    let (authority, clients) = (Authority::new(), Authority::new());
    let text = "[[subject]]\nname = \"old\"\ncertificate = \"old.example\"\nnot-after = 2020-01-01T00:00:00Z\n";
    let text = text.to_owned() + &rule("anonymous", "", &["read", "list"]);
    let server = start(&dir, &authority, &clients, &text);
    dir.place("d/a", "v");
    let old = clients.issue("old", &["old.example"]);
    for client in [authority.client(), authority.client().with(&old)] {
        let mut raw = Raw::connect_tls(server.addr, &client);
        raw.send("GET /d/?archive=tar HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(raw.head().status, 200);
    }
}

/// A server with these rules, which asks for certificates of clients and requires none.
fn start(dir: &DataDir, authority: &Authority, clients: &Authority, text: &str) -> TestServer {
    let own = authority.issue("own", &["localhost", "127.0.0.1"]);
    let (access, ca) = (&*write(dir, text), clients.file());
    let ca = ca.to_str().expect("text");
    let options = format!("--access {access} --tls-client-ca {ca} --tls-client-auth allow");
    let launch = Launch::new(&[&own.options()[..], &words(&options)].concat());
    launch.on(dir).listen("https://127.0.0.1:0").start()
}

/// One that lets the subject of a certificate of ann read, and all others who prove nothing not.
fn for_ann(dir: &DataDir, authority: &Authority, clients: &Authority) -> TestServer {
    let text = "[[subject]]\nname = \"ann\"\ncertificate = \"ann.example\"\n".to_owned();
    start(
        dir,
        authority,
        clients,
        &(text + &rule("ann", "", &["read"])),
    )
}

#[test]
fn a_certificate_ends_with_its_date_on_a_kept_connection() {
    let dir = DataDir::temporary();
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = for_ann(&dir, &authority, &clients);
    // Long enough for a first request on a machine that others use, too.
    let short = clients.issue_for("short", &["ann.example"], Duration::from_secs(15));
    let mut kept = Raw::connect_tls(server.addr, &authority.client().with(&short));
    assert_eq!(kept.get("key").status, 404);
    let mut refused = None;
    eventually("it has ended", || {
        let answer = kept.get("key");
        let has_ended = answer.status != 404;
        refused = has_ended.then_some(answer);
        has_ended
    });
    let refused = refused.expect("an answer");
    assert_eq!(refused.status, 403, "{refused:?}");
    // HTTP/2 says so by GOAWAY.
    assert!(refused.closes() || is_http2(), "{refused:?}");
    // With another one the same client is served.
    let next = clients.issue("next", &["ann.example"]);
    let mut next = Raw::connect_tls(server.addr, &authority.client().with(&next));
    assert_eq!(next.get("key").status, 404);
}

#[test]
fn a_certificate_is_proved_anew_by_each_connection() {
    let dir = DataDir::temporary();
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = for_ann(&dir, &authority, &clients);
    let ann = clients.issue("ann", &["ann.example"]);
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let client = authority.client().versions(versions).with(&ann);
        for _ in 0..3 {
            let mut raw = Raw::connect_tls(server.addr, &client);
            assert_eq!(raw.get("key").status, 404);
            let kind = raw.look(|tls| tls.handshake_kind());
            assert_eq!(kind, Some(HandshakeKind::Full));
        }
    }
}
