//! Proves that no listing and no watch names a key without right, and that each key with it is told once.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::{bearer, reread, rule, serve, subject, write};
use crate::support::prelude::*;

/// The items of a listing, and where the next page begins.
fn items(answer: &Response) -> (Vec<String>, Option<String>) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.text();
    let next = answer.header("link").map(|link| {
        let end = link.find('>').expect("a link");
        format!("/{}", &link[1..end])
    });
    (text.lines().map(str::to_owned).collect(), next)
}

/// All pages from `target` on.
fn listed(connection: &mut Raw, target: &str, lines: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut target = target.to_owned();
    loop {
        let (more, next) = items(&ask(connection, "GET", &target, lines, b""));
        all.extend(more);
        match next {
            Some(next) => target = next,
            None => return all,
        }
    }
}

#[test]
fn no_listing_names_a_key_without_right() {
    let dir = DataDir::temporary();
    let keys: BTreeSet<String> = [
        "a", "a-", "a/b", "a/b/c", "a/c", "ab", "b/a/x", "b/b/x", "b/b/y", "b0", "c/d/e/f",
    ]
    .map(str::to_owned)
    .into_iter()
    .collect();
    let keys: BTreeSet<String> = keys
        .into_iter()
        .filter(|key| key != "a" && key != "a/b")
        .collect();
    for key in &keys {
        dir.place(key, "v");
    }
    let server = serve(&dir, &subject("ann"), &[]);
    let mut connection = server.connect();
    let ann = bearer("ann") + "Accept: text/plain\r\n";
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
        write(&dir, &(subject("ann") + &rules));
        reread(&server);
        let may = |key: &&String| {
            prefixes
                .iter()
                .any(|prefix| key.starts_with(prefix.as_str()))
        };
        let visible: Vec<String> = keys.iter().filter(may).cloned().collect();
        let expected: Vec<String> = if by_folder {
            let items = visible.iter().map(|key| match key.split_once('/') {
                Some((folder, _)) => format!("{folder}/"),
                None => key.clone(),
            });
            items.collect::<BTreeSet<_>>().into_iter().collect()
        } else {
            visible
        };
        let folders = if by_folder { "&delimiter=/" } else { "" };
        let found = listed(&mut connection, &format!("/?limit={limit}{folders}"), &ann);
        assert_eq!(found, expected, "{prefixes:?} {limit} {by_folder}");
        pages += 1 + expected.len() / limit;
    }
    say(&format!("{pages} pages"));
}

#[test]
fn no_watch_tells_of_a_key_without_right() {
    directory_only!("changes are told");
    let dir = DataDir::temporary();
    let text = [
        subject("ann"),
        subject("bob"),
        rule("ann", "in/", &["watch"]),
        rule("bob", "", &["write", "delete", "watch"]),
    ]
    .concat();
    let server = serve(&dir, &text, &[]);
    let mut events = Events::open(&server, "", &bearer("ann"));
    let mut connection = server.connect();
    let mut change = |method, key| {
        let body: &[u8] = if method == "PUT" { b"v" } else { b"" };
        let answer = ask(&mut connection, method, key, &bearer("bob"), body);
        assert_eq!(answer.status, 200, "{method} {key}");
    };
    drop(Events::open(&server, "", &bearer("bob")));
    for key in ["/in/1", "/out/1", "/in/2", "/inner", "/out/2", "/in/3"] {
        change("PUT", key);
    }
    change("DELETE", "/out/1");
    change("DELETE", "/in/1");
    let told = (0..4).map(|_| events.next().expect("an event").key);
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["in/1", "in/2", "in/3", "in/1"]);
    // From the beginning again: what is hidden stays so.
    let since = format!("?since={}", events.last_id - 8);
    let mut again = Events::open(&server, &since, &bearer("ann"));
    let told = (0..4).map(|_| again.next().expect("an event").key);
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["in/1", "in/2", "in/3", "in/1"]);
}

#[test]
fn a_watch_follows_the_rules_as_they_are_replaced_and_ends_with_the_right() {
    directory_only!("changes are told");
    let dir = DataDir::temporary();
    let policy = |prefix: &str, has_ann: bool| {
        let ann = if has_ann {
            subject("ann")
        } else {
            String::new()
        };
        let rules = rule("*", prefix, &["watch"]) + &rule("bob", "", &["write"]);
        [ann, subject("bob"), rules].concat()
    };
    let server = serve(&dir, &policy("a/", true), &[]);
    let mut events = Events::open(&server, "", &bearer("ann"));
    let put = |key: &str| {
        assert_eq!(server.request("PUT", key, &bearer("bob"), b"v").status, 200);
    };
    put("/b/1");
    put("/a/1");
    assert_eq!(events.next().expect("an event").key, "a/1");
    write(&dir, &policy("b/", true));
    reread(&server);
    put("/a/2");
    put("/b/2");
    assert_eq!(events.next().expect("an event").key, "b/2");
    // Nothing happens, and the subscription ends all the same.
    write(&dir, &policy("b/", false));
    reread(&server);
    assert_eq!(events.next(), None);
}

/// What the kernel holds for a subscriber is little, and was so for what came next on its connection.
#[test]
fn the_connection_ends_with_its_event_stream() {
    directory_only!("changes are told");
    http1_only!("a stream has no buffer of the kernel");
    let dir = DataDir::temporary();
    let policy = |who: &str| subject("ann") + &rule(who, "", &["watch"]);
    let server = serve(&dir, &policy("ann"), &["--idle-timeout", "1h"]);
    let mut raw = server.connect();
    raw.send(format!(
        "GET /-/watch HTTP/1.1\r\nHost: t\r\n{}\r\n",
        bearer("ann")
    ));
    let head = raw.head();
    assert_eq!((head.status, head.closes()), (200, true), "{head:?}");
    write(&dir, &policy("anonymous"));
    reread(&server);
    raw.rest();
}

#[test]
fn a_websocket_is_closed_with_the_right() {
    directory_only!("changes are told");
    let dir = DataDir::temporary();
    let policy = |who: &str| subject("ann") + &rule(who, "", &["watch"]);
    let server = serve(&dir, &policy("ann"), &[]);
    let token = bearer("ann");
    let token = token.trim_start_matches("Authorization: ").trim_end();
    let mut socket = crate::support::Socket::open_with(&server, "", &[("Authorization", token)]);
    write(&dir, &policy("anonymous"));
    reread(&server);
    let (code, reason) = socket.closed();
    assert_eq!(code, 1008, "{reason}");
}

#[test]
fn without_a_right_to_any_key_a_listing_is_refused() {
    let dir = DataDir::temporary();
    let path = write(&dir, &(subject("ann") + &rule("ann", "in/", &["list"])));
    let path = path.to_str().expect("text");
    let server = Launch::new(&["--access", path]).on(&dir).start();
    let list = |target| server.request("GET", target, &bearer("ann"), b"").status;
    assert_eq!(list("/?prefix=out"), 403);
    assert_eq!(list("/?prefix=i"), 200);
    assert_eq!(list("/?prefix=in/x"), 200);
}

#[test]
fn the_page_offers_what_its_client_may_do_and_names_no_other_prefix() {
    let dir = DataDir::temporary();
    let text = [
        subject("ann"),
        rule("ann", "in/", &["list", "create"]),
        rule("ann", "out/", &["list", "read", "watch"]),
        rule("ann", "out/own-", &["delete"]),
        rule("ann", "box/5e1f/", &["write", "delete"]),
    ];
    let server = serve(&dir, &text.concat(), &[]);
    dir.place("in/1", "v");
    dir.place("out/1", "v");
    let json = r#"{"list":["in/","out/"],"read":["out/"],"create":["in/"],"write":[],"delete":["out/own-"],"watch":["out/"],"metrics":false,"name":"ann"}"#;
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
