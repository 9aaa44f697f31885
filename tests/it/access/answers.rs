//! Proves how clients are told: challenges, the order of refusals, what caches may keep, and what pages of others may
//! see.

use super::{basic, bearer, rule, serve, serve_on, subject, token};
use crate::security::browsers::WRITES;
use crate::support::prelude::*;

fn policy() -> String {
    let rules = rule("ann", "", &["read", "write", "delete", "list", "watch"])
        + &rule("anonymous", "public/", &["read"]);
    format!("realm = \"a realm\"\n{}{rules}", subject("ann"))
}

#[test]
fn a_client_is_asked_who_it_is_in_the_two_ways_that_are_understood() {
    let server = serve(&policy(), &[]);
    let raw = &mut server.connect();
    let accept = "Accept: application/problem+json\r\n";
    let answer = ask(raw, "GET", "/key", accept, b"");
    assert_eq!(answer.status, 401);
    let challenges = answer.all("www-authenticate");
    let both = r#"Basic realm="a realm", charset="UTF-8", Bearer realm="a realm""#;
    assert_eq!(challenges, both);
    let problem = answer.text();
    let is_right = problem.contains("urn:data-server:problem:unauthenticated");
    assert!(is_right, "{problem}");
    let denied = ask(raw, "GET", "/-/metrics", &bearer("ann"), b"");
    assert_eq!(denied.status, 403);
    let denied = denied.text();
    assert!(denied.contains("the right to metrics"), "{denied}");
}

/// What a browser shows of the prompt that is given up. It comes before anything is looked up, so it is the same
/// whatever is there.
#[test]
fn a_browser_is_asked_with_a_page_that_leads_to_the_prompt_again() {
    let server = serve(&policy(), &[]);
    server.dir.place("folder/key", "v");
    let lines = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: none\r\n";
    let mut pages = Vec::new();
    for target in ["/", "/folder/", "/folder/key", "/folder/none", "/-/metrics"] {
        let answer = server.request("GET", target, lines, b"");
        assert_eq!(answer.status, 401, "{target}");
        assert_eq!(answer.must("content-type"), "text/html; charset=utf-8");
        assert_eq!(answer.must("x-content-type-options"), "nosniff");
        assert_eq!(answer.must("cache-control"), "no-store");
        let text = answer.text();
        let up = "../".repeat(target.matches('/').count() - 1);
        let root = if up.is_empty() { "./" } else { &up };
        let sign_in = format!("<a href=\"{root}?sign-in\">Sign in</a>");
        assert!(text.contains(&sign_in), "{target}: {text}");
        pages.push(text);
    }
    assert_eq!(pages[2], pages[3], "what is there and what is not");
    // Others get a line.
    for lines in ["", "Accept: */*\r\n", "Accept: application/json\r\n"] {
        let answer = server.request("GET", "/folder/key", lines, b"");
        let line = "authentication required: send a valid token, or name and password\n";
        assert_eq!(answer.body, line.as_bytes());
    }
}

#[test]
fn a_token_is_taken_as_bearer_and_as_the_password_of_any_name() {
    let server = serve(&policy(), &[]);
    server.dir.place("key", "v");
    let mut connection = server.connect();
    let mut get = |lines: &str| ask(&mut connection, "GET", "/key", lines, b"").status;
    assert_eq!(get(&bearer("ann")), 200);
    assert_eq!(get(&basic("ann", &token("ann"))), 200);
    assert_eq!(get(&basic("", &token("ann"))), 200);
    assert_eq!(get(&basic("bob", &token("ann"))), 200);
    assert_eq!(get(&basic("ann", "wrong")), 401);
    assert_eq!(get(&basic(&token("ann"), "")), 401);
    assert_eq!(get("Authorization: Negotiate abc\r\n"), 401);
    // Two fields say nothing together, also where both are right.
    assert_eq!(get(&(bearer("ann") + &bearer("ann"))), 401);
}

#[test]
fn what_one_may_not_read_is_answered_in_the_same_bytes_whether_it_is_there_or_not() {
    let text = subject("bob") + &rule("bob", "mine/", &["read", "write", "delete"]);
    let server = serve(&text, &[]);
    server.dir.place("hidden", "v");
    let mut connection = server.connect();
    for (method, lines) in [
        ("GET", ""),
        ("HEAD", ""),
        ("PUT", ""),
        ("PUT", "If-Match: *\r\n"),
        ("DELETE", ""),
        ("GET", "Want-Repr-Digest: sha-256=1\r\n"),
        ("GET", "If-None-Match: *\r\n"),
    ] {
        let lines = bearer("bob") + lines;
        let mut answer = |target| {
            let mut answer = ask(&mut connection, method, target, &lines, b"");
            answer.headers.retain(|(name, _)| name != "date");
            (answer.status, answer.headers, answer.body)
        };
        let there = answer("/hidden");
        assert_eq!(there.0, 403, "{method} {lines}");
        assert_eq!(there, answer("/absent"), "{method} {lines}");
    }
}

#[test]
fn a_body_is_not_asked_for_before_it_is_known_who_sends_it() {
    let server = serve(&policy(), &[]);
    let head = |lines: &str| {
        let lines = format!("\r\nExpect: 100-continue\r\n{lines}\r\n");
        put_head("key", 5).replace("\r\n\r\n", &lines)
    };
    for lines in [String::new(), bearer("unknown")] {
        let mut connection = server.connect();
        connection.send(head(&lines));
        assert_eq!(connection.head().status, 401, "{lines}");
    }
    let mut connection = server.connect();
    connection.send(head(&bearer("ann")));
    assert_eq!(connection.head().status, 100);
    connection.send("value");
    assert_eq!(connection.answer().status, 200);
    assert_eq!(server.dir.read("key"), b"value");
}

#[test]
fn a_wrong_host_and_another_site_are_refused_before_it_is_asked_who_it_is() {
    let allowed = words("--allowed-host t --cors-origin https://app.example");
    let server = serve(&policy(), &allowed);
    server.dir.place("key", "v");
    server.dir.place("public/key", "v");
    let get = |host: &str, lines: &str, target: &str| {
        let mut connection = server.connect();
        connection.send(format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"
        ));
        connection.answer().status
    };
    let ann = basic("ann", &token("ann"));
    let foreign = "Sec-Fetch-Site: cross-site\r\n";
    let own = "Sec-Fetch-Site: same-origin\r\n";
    let friend = "Sec-Fetch-Site: cross-site\r\nOrigin: https://app.example\r\n";
    assert_eq!(get("other.example", &ann, "/key"), 421);
    assert_eq!(get("other.example", "", "/key"), 421);
    // Browsers send Basic by themselves, whichever page asks; a program sets a token.
    assert_eq!(get("t", &(ann.clone() + foreign), "/key"), 403);
    assert_eq!(get("t", &(ann.clone() + own), "/key"), 200);
    let found = get("t", &(ann.clone() + "Sec-Fetch-Site: none\r\n"), "/key");
    assert_eq!(found, 200);
    assert_eq!(get("t", &(ann.clone() + friend), "/key"), 200);
    assert_eq!(get("t", &(bearer("ann") + foreign), "/key"), 200);
    assert_eq!(get("t", foreign, "/public/key"), 200);
}

const SOCKET: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Any page could write in the name of a visitor whose browser knew a password: `*` let the pages of all origins do so.
#[test]
fn an_origin_that_is_not_named_is_not_let_to_what_the_browser_knows() {
    let server = serve(&policy(), &["--cors-origin", "*,null,https://app.example"]);
    server.dir.place("key", "v");
    server.dir.place("public/key", "v");
    let ann = basic("ann", &token("ann"));
    let from = |origin: &str| format!("Origin: {origin}\r\nSec-Fetch-Site: cross-site\r\n");
    let mut requests = vec![
        ("GET", "/key", "", ""),
        ("HEAD", "/key", "", ""),
        ("GET", "/", "", ""),
    ];
    if !is_s3() && !is_http2() {
        requests.push(("GET", "/-/watch", SOCKET, ""));
    }
    for (method, target, lines, body) in requests.into_iter().chain(WRITES) {
        let asked = |proof: &str, origin: &str| {
            let length = body.len();
            let lines = format!("{proof}{}{lines}Content-Length: {length}\r\n", from(origin));
            let mut connection = server.connect();
            connection.send(format!(
                "{method} {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n{body}"
            ));
            let head = connection.head();
            assert_eq!(head.header("access-control-allow-credentials"), None);
            head.status
        };
        for origin in ["https://evil.example", "null"] {
            let case = format!("{method} {target} of {origin}");
            assert_eq!(asked(&ann, origin), 403, "{case}");
            // A page that sends a token itself knows it.
            assert_ne!(asked(&bearer("ann"), origin), 403, "{case}");
        }
        assert_ne!(asked(&ann, "https://app.example"), 403, "{method} {target}");
    }
    let open = server.request("GET", "/public/key", &from("https://evil.example"), b"");
    let allowed = open.must("access-control-allow-origin");
    assert_eq!((open.status, allowed), (200, "https://evil.example"));
}

#[test]
fn caches_keep_what_anonymous_clients_may_read_and_nothing_else() {
    let dir = DataDir::temporary();
    let server = serve_on(&dir, &policy(), &[]);
    let mut connection = server.connect();
    let ann = bearer("ann");
    let lines = ann.clone() + "Cache-Control: public, max-age=60\r\n";
    let status = ask(&mut connection, "PUT", "/public/key", &lines, b"v").status;
    assert_eq!(status, 200);
    let mut get = |lines: &str| {
        let answer = ask(&mut connection, "GET", "/public/key", lines, b"");
        assert_eq!(answer.status, 200);
        let by_whom = answer.all("vary").contains("authorization");
        (answer.all("cache-control"), by_whom)
    };
    assert_eq!(get(""), ("public, max-age=60".to_owned(), true));
    assert_eq!(get(&ann), ("private, max-age=60".to_owned(), true));
    let open = Launch::new(&[]).on(&dir);
    drop(server);
    let answer = open.start().get("public/key");
    assert_eq!(answer.header("vary"), None, "without --access");
}
