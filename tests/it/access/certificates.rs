//! Proves that a client certificate proves who asks.

use super::{bearer, rule, subject, write};
use crate::support::prelude::*;

#[test]
fn a_client_is_who_its_certificate_names() {
    let dir = DataDir::temporary();
    let (authority, clients) = (Authority::new(), Authority::new());
    let own = authority.issue("own", &["localhost", "127.0.0.1"]);
    let text = [
        "[[subject]]\nname = \"ann\"\ncertificate = \"Ann.example\"\n",
        "[[subject]]\nname = \"old\"\ncertificate = \"old.example\"\nnot-after = 2020-01-01T00:00:00Z\n",
        &subject("bob"),
        &rule("ann", "", &["read"]),
        &rule("old", "", &["read"]),
    ]
    .concat();
    let (access, ca) = (write(&dir, &text), clients.file());
    let options = [
        "--access",
        access.to_str().expect("text"),
        "--tls-client-ca",
        ca.to_str().expect("text"),
    ];
    let options = [
        &own.options()[..],
        &options,
        &["--tls-client-auth", "allow"],
    ]
    .concat();
    let launch = Launch::new(&options).on(&dir).listen("https://127.0.0.1:0");
    let server = launch.start();
    let get = |client: &TlsClient, lines: &str| {
        let mut raw = Raw::connect_tls(server.addr, client);
        raw.ask(format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n"))
            .status
    };
    let issued = |name: &str| {
        authority
            .client()
            .with(&clients.issue(name, &[&format!("{name}.example")]))
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
