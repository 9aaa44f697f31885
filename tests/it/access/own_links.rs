//! Proves that `--links` signs with a key of the server's own, which outlives it, and whose removal ends all links.

use super::{bearer, rule, subject, write};
use crate::support::prelude::*;

/// The path of the link that was signed.
#[track_caller]
fn link(server: &TestServer, target: &str, lines: &str) -> String {
    let signed = server.request("POST", target, lines, b"");
    assert_eq!(signed.status, 200, "{signed:?}");
    let text = signed.text();
    let at = text.find("/-/link/").expect("a link to a folder");
    text[at..].trim_end().to_owned()
}

#[test]
fn the_key_of_links_outlives_the_server_and_ends_all_when_it_is_removed() {
    directory_only!("a key in the directory");
    let dir = DataDir::temporary();
    let launch = || Launch::new(&["--links", "--access-log"]).on(&dir).start();
    let mut server = launch();
    let key = dir.own("links");
    assert_eq!(fs::metadata(&key).expect("a key").mode() & 0o777, 0o600);
    dir.place("in/a", "v");
    let read = link(&server, "/in/?share=1h", "");
    let hand_in = link(&server, "/in/?share&hand-in", "");
    let too_long = server.request("POST", "/in/?share=31d", "", b"");
    too_long.says(400, "a link lasts at most 30d here");
    for _ in 0..2 {
        assert_eq!(
            server.request("GET", &format!("{read}a"), "", b"").body,
            b"v"
        );
        let put = server.request("PUT", &format!("{read}b"), "", b"v");
        assert_eq!(put.status, 403);
        server.stop();
        server = launch();
    }
    let put = |key: &str| {
        server
            .request("PUT", &format!("{hand_in}{key}"), "", b"w")
            .status
    };
    assert_eq!([put("new"), put("a")], [200, 403]);
    assert_eq!(dir.read("in/a"), b"v");
    // A file of one value has one, too.
    let of_key = server.request("POST", "/in/a?share=1h", "", b"").text();
    let at = of_key.find("/in/a?").expect("a link");
    assert_eq!(
        server.request("GET", of_key[at..].trim_end(), "", b"").body,
        b"v"
    );
    let read_only = Launch::new(&["--links", "--read-only"]).on(&dir).start();
    assert_eq!(
        read_only.request("GET", &format!("{read}a"), "", b"").body,
        b"v"
    );
    server.stop();
    let secret = fs::read_to_string(&key).expect("a key");
    assert!(!server.log().join("\n").contains(secret.trim()));
    fs::remove_file(&key).expect("the key");
    let server = launch();
    for gone in [read, hand_in] {
        server
            .request("GET", &gone, "", b"")
            .says(403, "this link is not valid");
    }
}

#[test]
fn a_server_that_stores_nothing_makes_no_key() {
    directory_only!("a key in the directory");
    let dir = DataDir::temporary();
    let ended = Launch::new(&["--links", "--read-only"]).on(&dir).run();
    ended.says(1, "start once without --read-only");
    assert!(!dir.own("links").exists());
}

#[test]
fn with_rules_those_share_who_have_the_right_to() {
    directory_only!("a key in the directory");
    let dir = DataDir::temporary();
    dir.place("in/a", "v");
    let rules = [
        subject("ann"),
        subject("bob"),
        rule("ann", "in/", &["read", "list", "link"]),
        rule("bob", "", &["read", "list"]),
    ];
    let path = write(&dir, &rules.concat());
    let server = Launch::new(&["--links", "--access", &path])
        .on(&dir)
        .start();
    let read = link(&server, "/in/?share=1h", &bearer("ann"));
    assert_eq!(
        server.request("GET", &format!("{read}a"), "", b"").body,
        b"v"
    );
    for (who, target, status) in [
        (bearer("ann"), "/in/?share=1h&hand-in", 403),
        (bearer("ann"), "/?share=1h", 403),
        (bearer("bob"), "/in/?share=1h", 403),
        (String::new(), "/in/?share=1h", 401),
    ] {
        let refused = server.request("POST", target, &who, b"");
        assert_eq!(refused.status, status, "{target}");
    }
    // Also by rules that were read anew.
    crate::support::policy::reread(&server);
    assert_eq!(
        server.request("GET", &format!("{read}a"), "", b"").body,
        b"v"
    );
    link(&server, "/in/?share=1h", &bearer("ann"));
}
