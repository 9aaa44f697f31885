//! Proves that `--proxy-user-header` names who asks where a trusted proxy sends it and there is no other proof, and
//! means nothing from others.

use crate::support::policy::{bearer, revise, rule, serve_on, subject, token};
use crate::support::prelude::*;

const ARGS: [&str; 4] = [
    "--trusted-proxy",
    "127.0.0.2",
    "--proxy-user-header",
    "Remote-User",
];

/// Ann has a token; the others have nothing but a name.
fn policy(names: &[&str]) -> String {
    let subject_of = |name: &&str| {
        format!("[[subject]]\nname = \"{name}\"\n") + &rule(name, "", &["read", "write", "list"])
    };
    let old = "[[subject]]\nname = \"old\"\nnot-after = 2020-01-01T00:00:00Z\n";
    let others = names.iter().map(subject_of).collect::<String>();
    subject("ann") + &rule("ann", "", &["read"]) + old + &rule("old", "", &["read"]) + &others
}

fn user(name: &str) -> String {
    format!("Remote-User: {name}\r\n")
}

#[test]
fn only_a_trusted_proxy_says_who_asks_and_beside_no_other_proof() {
    let server = serve_on(
        &DataDir::temporary(),
        &policy(&["bob", "b.o+b@x-y_1"]),
        &ARGS,
    );
    let [mut proxy, mut other] =
        [[127, 0, 0, 2], [127, 0, 0, 1]].map(|source| Raw::connect_from(source, server.addr));
    let is_token = user(&format!("Bearer {}", token("ann")));
    let cross_site = "Sec-Fetch-Site: cross-site\r\n";
    for (lines, by_proxy, by_other) in [
        (String::new(), 401, 401),
        (user("bob"), 404, 401),
        // What the connection has proved is not proved by another field of the same text.
        ("Authorization: bob\r\n".to_owned(), 401, 401),
        (user("b.o+b@x-y_1"), 404, 401),
        (user("bob").to_lowercase(), 404, 401),
        (String::new(), 401, 401),
        (user("Bob"), 403, 401),
        (user("nobody"), 403, 401),
        (user("anonymous"), 403, 401),
        (user("*"), 403, 401),
        (user("bob, ann"), 403, 401),
        (user("\u{e9}"), 403, 401),
        (user(&"b".repeat(5000)), 403, 401),
        (user("old"), 403, 401),
        (user(""), 401, 401),
        (user("bob") + &user("bob"), 400, 401),
        (user("bob") + &user(""), 400, 401),
        (bearer("ann"), 404, 404),
        (is_token, 403, 401),
        (user("") + &bearer("ann"), 404, 404),
        (user("bob") + &bearer("ann"), 400, 404),
        (user("bob") + &bearer("nobody"), 400, 401),
        (format!("X-{}", user("bob")), 401, 401),
        // A browser is known to the proxy for any page that asks.
        (user("bob") + cross_site, 403, 401),
    ] {
        let of = |raw: &mut Raw| ask(raw, "GET", "/k", &lines, b"").status;
        assert_eq!(
            [of(&mut proxy), of(&mut other)],
            [by_proxy, by_other],
            "{lines}"
        );
    }
    revise(&server, &policy(&[]));
    assert_eq!(ask(&mut proxy, "GET", "/k", &user("bob"), b"").status, 403);
}

#[test]
fn streams_of_one_connection_may_be_of_several_users() {
    clear_only!("its connection is in the clear");
    let args = [
        "--trusted-proxy",
        "127.0.0.0/8",
        "--proxy-user-header",
        "remote-user",
        "--http2-clear",
    ];
    let server = serve_on(&DataDir::temporary(), &policy(&["bob"]), &args);
    let mut http2 = Http2::connect(server.addr);
    for (name, method, status) in [
        ("bob", "PUT", 200),
        ("ann", "PUT", 403),
        ("eve", "GET", 403),
    ] {
        let fields = [("remote-user", name)];
        let asked = http2
            .ask(method, "http://t/k", &fields, true)
            .expect("a request");
        assert_eq!(asked.answer().expect("a response").status, status, "{name}");
    }
}

#[test]
fn who_was_signed_on_is_audited() {
    let args = [
        &ARGS[..],
        &["--audit-log", "--admin", "127.0.0.1:0", "--threads", "1"],
    ]
    .concat();
    let mut server = serve_on(&DataDir::temporary(), &policy(&["bob"]), &args);
    let from = |source, addr| {
        move |method, target, lines: &str| {
            ask(
                &mut Raw::connect_from(source, addr),
                method,
                target,
                lines,
                b"",
            )
            .status
        }
    };
    let ([proxy, other], admin) = ([[127, 0, 0, 2], [127, 0, 0, 1]], server.admin());
    // That listener asks nobody.
    for (source, name) in [(proxy, "bob"), (proxy, "eve"), (other, "bob")] {
        assert_eq!(from(source, admin)("GET", "/-/metrics", &user(name)), 200);
    }
    let ask = from(proxy, server.addr);
    assert_eq!(ask("PUT", "/k", &user("bob")), 200);
    assert_eq!(ask("PUT", "/k", &user("ann")), 403);
    assert_eq!(ask("PUT", "/k", &user("eve")), 403);
    assert_eq!(ask("PUT", "/k", &(user("bob") + &bearer("ann"))), 400);
    server.stop();
    assert_eq!(
        server.audited("subject by result problem"),
        [
            "bob proxy changed -",
            "ann proxy refused not-allowed",
            "- nothing refused unknown-user",
            "- nothing refused two-proofs",
        ]
    );
}

#[test]
fn a_header_without_proxies_or_a_name_is_refused_at_the_start() {
    let header = ["--proxy-user-header", "Remote-User"];
    Launch::new(&header).run().says(2, "--access");
    let args = [
        "--access",
        "x",
        "--trusted-proxy",
        "::1",
        "--proxy-user-header",
        "a b",
    ];
    Launch::new(&args).run().says(2, "--proxy-user-header");
}
