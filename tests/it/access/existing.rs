//! Proves `existing` of a rule: what a client that may create and not write is answered where there is a value, by
//! every way that a value arrives, and whenever the other value appears.

use super::{bearer, one_who_may, rule, serve, subject};
use crate::support::form::{REPLACE, file};
use crate::support::prelude::*;

/// A policy whose subject `ann` may create everything, with this line in the rule, and `bob` everything.
fn policy(existing: &str) -> String {
    let create = rule("ann", "", &["create"]) + existing;
    let write = rule("bob", "", &["read", "write", "delete"]);
    subject("ann") + &subject("bob") + &create + &write
}

/// The lines of rules, with the status and the name of the problem that are answered.
const ANSWERS: [(&str, u16, &str); 4] = [
    ("", 403, "not-allowed"),
    ("existing = 403\n", 403, "not-allowed"),
    ("existing = 409\n", 409, "exists"),
    ("existing = 412\n", 412, "exists"),
];

#[test]
fn a_key_that_has_a_value_is_answered_as_the_rule_says() {
    for (existing, status, name) in ANSWERS {
        let mut server = serve(&policy(existing), &["--audit-log"]);
        let ann = bearer("ann") + "Accept: application/problem+json\r\n";
        let put = |key: &str, lines: &str, value: &[u8]| {
            server.request("PUT", &format!("/{key}"), &format!("{ann}{lines}"), value)
        };
        assert_eq!(put("k", "", b"first").status, 200);
        for length in [5, 300_000] {
            let refused = put("k", "", &pattern(1, length));
            assert_eq!(refused.status, status, "{existing}{refused:?}");
            let problem = format!("urn:data-server:problem:{name}");
            assert_eq!(refused.json()["type"], problem, "{existing}");
        }
        // The client that says so itself gets the answer to that.
        let own = put("k", "If-None-Match: *\r\n", b"second");
        let problem = "urn:data-server:problem:precondition-failed";
        assert_eq!((own.status, &own.json()["type"]), (412, &problem.into()));
        let parts: [(&str, &[u8]); 2] = [(REPLACE, b"1"), (&file("k"), b"second")];
        let posted = server.post(&ann, &parts);
        assert_eq!(posted.status, status, "{existing}");
        assert_eq!(server.dir.read("k"), b"first", "{existing}");
        server.dir.assert_holds(&["k"]);
        server.stop();
        let mut told = server.audited("problem");
        told.retain(|problem| problem == name);
        assert_eq!(told.len(), 3, "each is audited");
    }
}

/// The publisher decides, however long before the upload has begun.
#[test]
fn a_value_that_appears_during_the_upload_is_answered_in_the_same_way() {
    directory_only!("the file is read beside the rights");
    for (existing, status, _) in ANSWERS {
        let server = serve(&policy(existing), &[]);
        for length in [5, 300_000] {
            let value = pattern(1, length);
            let mut raw = server.connect();
            let lines = format!("\r\n{}\r\n", bearer("ann"));
            raw.send(put_head("k", length).replace("\r\n\r\n", &lines));
            raw.send(&value[1..]);
            if length > 100_000 {
                eventually("it is received", || server.receiving() > 0);
            }
            let other = server.request("PUT", "/k", &bearer("bob"), b"other");
            assert_eq!(other.status, 200);
            assert_eq!(raw.ask(&value[..1]).status, status, "{existing}{length}");
            assert_eq!(server.dir.read("k"), b"other", "{existing}");
            let gone = server.request("DELETE", "/k", &bearer("bob"), b"");
            assert_eq!(gone.status, 200);
        }
    }
}

#[test]
fn a_resumable_upload_is_answered_in_the_same_way() {
    directory_only!("keeps unfinished uploads");
    for (existing, status, _) in ANSWERS {
        let server = serve(&policy(existing), &[]);
        let (mut raw, ann) = (server.connect(), bearer("ann"));
        let upload = Resumable::create(&mut raw, "k", &ann, b"first ");
        let other = server.request("PUT", "/k", &bearer("bob"), b"other");
        assert_eq!(other.status, 200);
        let last = upload.append_with(&mut raw, 6, true, &ann, b"part");
        assert_eq!(last.status, status, "{existing}");
        for complete in ["?0", "?1"] {
            let lines = format!("{ann}Upload-Complete: {complete}\r\n");
            let begun = Resumable::ask_to_create(&mut server.connect(), "k", &lines, b"first");
            assert_eq!(begun.status, status, "{existing}{complete}");
        }
        assert_eq!(server.dir.read("k"), b"other", "{existing}");
    }
}

#[test]
fn a_destination_is_answered_in_the_same_way() {
    directory_only!("moves");
    let rules = rule("ann", "from/", &["read", "delete"]) + &rule("ann", "to/", &["create"]);
    let policy = subject("ann") + &rules + "existing = 409\n";
    let server = serve(&policy, &[]);
    server.dir.place("from/k", "v");
    server.dir.place("to/k", "old");
    let ask = |method, to: &str| {
        let lines = format!("Destination: {to}\r\n{}", bearer("ann"));
        server.request(method, "/from/k", &lines, b"").status
    };
    for method in ["COPY", "MOVE"] {
        assert_eq!(ask(method, "/to/k"), 409, "{method}");
    }
    assert_eq!(ask("MOVE", "/to/new"), 201);
    assert_eq!(server.dir.read("to/k"), b"old");
}

#[test]
fn the_first_rule_that_says_it_counts_and_an_anonymous_client_is_told_too() {
    let text = subject("ann")
        + &rule("ann", "a", &["create"])
        + &rule("*", "a/", &["create"])
        + "existing = 409\n"
        + &rule("ann", "a/b/", &["create"])
        + "existing = 412\n"
        + &rule("anonymous", "open/", &["create"])
        + "existing = 409\n"
        + &rule("anonymous", "shut/", &["create"]);
    serve(&text, &[]).talk(
        "
        PUT /a v ; 200 ; as ann
        PUT /a v ; 403 ; as ann
        clear
        PUT /a/k v ; 200 ; as ann
        PUT /a/k v ; 409 ; as ann
        PUT /a/b/k v ; 200 ; as ann
        PUT /a/b/k v ; 409 ; as ann
        PUT /open/k v ; 200
        PUT /open/k v ; 409
        PUT /shut/k v ; 200
        PUT /shut/k v ; 401",
    );
}

#[test]
fn a_rule_that_it_has_no_effect_in_is_refused_with_the_line() {
    let dir = DataDir::temporary();
    for (may, existing, why) in [
        (&["read"][..], "409", "existing needs create"),
        (
            &["create", "write"],
            "409",
            "existing has no effect beside write",
        ),
        (&["create"], "200", "existing is 403, 409 or 412"),
        (&["create"], "'409'", "invalid type: string"),
    ] {
        let text = one_who_may("ann", may) + &format!("existing = {existing}\n");
        let path = super::write(&dir, &text);
        let checked = Launch::new(&["access", "check", &path]).bare().run();
        checked.says(1, &format!("access.toml:8: {why}"));
    }
}
