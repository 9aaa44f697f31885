//! Proves that no listing and no watch names a key without right, and that each key with it is told once.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::{bearer, revise, rule, serve, subject};
use crate::http::forms::{TEXT, walk};
use crate::support::prelude::*;

#[test]
fn no_listing_names_a_key_without_right() {
    let keys = words("a- a/b/c a/c ab b/a/x b/b/x b/b/y b0 c/d/e/f");
    let server = serve(&subject("ann"), &[]);
    for key in &keys {
        server.dir.place(key, "v");
    }
    let mut connection = server.connect();
    let ann = bearer("ann") + TEXT;
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let prefix = "(a|b|c|a/|a/b|b/|b/b/|b/b/y|c/d/|a-|x)";
    let strategy = (
        prop::collection::vec(prefix, 1..4),
        1_usize..4,
        prop::bool::ANY,
    );
    let mut pages = 0;
    for _ in 0..40 {
        let (prefixes, limit, by_folder) =
            strategy.new_tree(&mut runner).expect("a case").current();
        let rules = prefixes.iter().map(|prefix| rule("ann", prefix, &["list"]));
        let rules: String = rules.collect();
        revise(&server, &(subject("ann") + &rules));
        let may = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix));
        let visible = keys
            .iter()
            .copied()
            .filter(|key| may(key))
            .map(str::to_owned);
        let shown = visible.map(|key| match key.split_once('/') {
            Some((folder, _)) if by_folder => format!("{folder}/"),
            _ => key,
        });
        let expected: BTreeSet<_> = shown.collect();
        let folders = if by_folder { "&delimiter=/" } else { "" };
        let found = walk(&mut connection, &format!("/?limit={limit}{folders}"), &ann).concat();
        let is_right = found.iter().eq(&expected);
        assert!(is_right, "{prefixes:?} {limit} {by_folder}: {found:?}");
        pages += 1 + expected.len() / limit;
    }
    say(&format!("{pages} pages"));
}

#[test]
fn a_watch_follows_the_rules_as_they_are_replaced_and_ends_with_the_right() {
    directory_only!("changes are told");
    let policy = |prefix: &str, has_ann: bool| {
        let ann = if has_ann {
            subject("ann")
        } else {
            String::new()
        };
        let rules = rule("*", prefix, &["watch"]) + &rule("bob", "", &["write"]);
        [ann, subject("bob"), rules].concat()
    };
    let server = serve(&policy("a/", true), &[]);
    let mut events = Events::open(&server, "", &bearer("ann"));
    let put = |key: &str| {
        assert_eq!(server.request("PUT", key, &bearer("bob"), b"v").status, 200);
    };
    put("/b/1");
    put("/a/1");
    assert_eq!(events.next().expect("an event").key, "a/1");
    revise(&server, &policy("b/", true));
    put("/a/2");
    put("/b/2");
    assert_eq!(events.next().expect("an event").key, "b/2");
    // Nothing happens, and the subscription ends all the same.
    revise(&server, &policy("b/", false));
    assert_eq!(events.next(), None);
}

/// What the kernel holds for a subscriber is little, and was so for what came next on its connection.
#[test]
fn a_feed_of_each_kind_ends_with_the_right_and_an_event_stream_with_its_connection() {
    directory_only!("changes are told");
    let policy = |who: &str| subject("ann") + &subject("bob") + &rule(who, "", &["watch"]);
    let server = serve(&policy("ann"), &["--idle-timeout", "1h"]);
    let ann = bearer("ann");
    let value = ann.trim_start_matches("Authorization: ").trim_end();
    let mut socket = Socket::open_with(&server, "", &[("Authorization", value)]);
    // A stream of HTTP/2 has no buffer of the kernel.
    let mut raw = (!is_http2()).then(|| server.connect());
    if let Some(raw) = &mut raw {
        raw.send(format!("GET /-/watch HTTP/1.1\r\nHost: t\r\n{ann}\r\n"));
        let head = raw.head();
        assert_eq!((head.status, head.closes()), (200, true), "{head:?}");
    }
    revise(&server, &policy("bob"));
    let (code, reason) = socket.closed();
    assert_eq!(code, 1008, "{reason}");
    if let Some(mut raw) = raw {
        raw.rest();
    }
}

#[test]
fn the_page_offers_what_its_client_may_do_and_names_no_other_prefix() {
    let text = [
        subject("ann"),
        rule("ann", "in/", &["list", "create"]),
        rule("ann", "out/", &["list", "read", "watch"]),
        rule("ann", "out/own-", &["delete"]),
        rule("ann", "box/5e1f/", &["write", "delete"]),
    ];
    let server = serve(&text.concat(), &[]);
    server.dir.place("in/1", "v");
    server.dir.place("out/1", "v");
    let json = r#"{"list":["in/","out/"],"read":["out/"],"create":["in/"],"write":[],"delete":["out/own-"],"watch":["out/"],"metrics":false,"share":[],"name":"ann"}"#;
    let rights = format!("data-rights=\"{}\"", json.replace('"', "&quot;"));
    for (target, has_form) in [("/", false), ("/in/", true), ("/out/", false)] {
        let lines = bearer("ann") + "Accept: text/html\r\n";
        let page = server.request("GET", target, &lines, b"");
        assert_eq!(page.status, 200, "{target}");
        let page = page.text();
        assert_eq!(page.contains("id=\"send\""), has_form, "{target}");
        assert!(page.contains(&rights), "{target}: no {rights}");
        assert!(!page.contains("5e1f"), "{target}");
    }
}
