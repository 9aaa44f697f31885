//! 421 and 403 named neither the refused value nor the option that allows it, and left no line in the log. A value that
//! the server may not read was a 500. Proves the text of the response and the line of the log.

use crate::support::prelude::*;

/// A server with the default rules for Host. Other tests run with a variable that allows any name.
fn start(args: &[&str]) -> TestServer {
    let server = Launch::new(args).env("DATA_SERVER_ALLOWED_HOST", "");
    let server = server.start();
    server.dir.place("here", "value");
    server
}

fn get(server: &TestServer, host: &str) -> Response {
    let head = format!("GET /here HTTP/1.1\r\nHost: {host}\r\n\r\n");
    server.connect().ask(head)
}

/// A PUT of `/new` with these lines, Host among them.
fn put(server: &TestServer, lines: &str) -> Response {
    let head = format!("PUT /new HTTP/1.1\r\nContent-Length: 1\r\n{lines}\r\nx");
    server.connect().ask(head)
}

fn said(answer: &Response) -> String {
    let text = answer.text();
    let is_right = text.ends_with('\n') && text.lines().count() == 1;
    assert!(is_right, "{text:?}");
    text
}

const LOGGED: &str = "refused a host or an origin";

const APP: &str = "https://app.example";

const SHAKE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A refusal names the value and the option that allows it in one line, and so does the log.
#[track_caller]
fn assert_told(server: &TestServer, got: &Response, status: u16, value: &str, option: &str) {
    assert_eq!(got.status, status);
    let (text, event) = (said(got), server.event(LOGGED));
    assert_eq!(event.level, "WARN");
    assert!(event.field("peer").starts_with("127.0.0.1:"), "{event:?}");
    for told in [text, event.field("cause")] {
        let is_named = told.contains(&format!("\"{value}\"")) && told.contains(option);
        assert!(is_named, "{told}");
    }
}

#[test]
fn a_421_and_the_log_name_the_host_and_the_option() {
    let server = start(&[]);
    let host = format!("store.example:{}", server.addr.port());
    let option = "--allowed-host store.example ";
    assert_told(&server, &get(&server, &host), 421, &host, option);
    // The option from the message helps.
    let server = start(&["--threads", "1", "--allowed-host", "store.example"]);
    assert_eq!(get(&server, &host).status, 200);
    // Many refusals make few lines with their number: one at once, and one for each second since.
    let (mut asked, began) = (0, Instant::now());
    let told = || -> u64 {
        let lines = server.events(LOGGED).into_iter();
        lines.map(|line| 1 + line.number("left_out")).sum()
    };
    eventually("lines tell of all", || {
        (0..10).for_each(|_| assert_eq!(get(&server, "evil.example").status, 421));
        asked += 10;
        told() >= 200
    });
    let (told, lines) = (told(), server.events(LOGGED).len() as u64);
    let is_right = told <= asked && lines <= began.elapsed().as_secs() + 1;
    assert!(
        is_right,
        "{lines} lines tell of {told} refusals, of {asked}"
    );
}

#[test]
fn a_403_and_the_log_name_the_origin_and_the_option() {
    let option = format!("--cors-origin {APP} ");
    let page = |server: &TestServer| format!("Host: {}\r\nOrigin: {APP}\r\n", server.addr);
    let server = start(&[]);
    assert_told(&server, &put(&server, &page(&server)), 403, APP, &option);
    // Browsers that send only Sec-Fetch-Site.
    let own = format!("Host: {}\r\n", server.addr);
    let text = said(&put(
        &server,
        &format!("{own}Sec-Fetch-Site: cross-site\r\n"),
    ));
    let is_right = text.contains("other origins") && text.contains("--cors-origin ");
    assert!(is_right, "{text}");
    // That would allow the pages of any site.
    let text = said(&put(&server, &format!("{own}Origin: null\r\n")));
    let is_right = text.contains("\"null\"") && !text.contains("--cors-origin null");
    assert!(is_right, "{text}");
    server.dir.assert_holds(&["here"]);
    let server = start(&[]);
    let watch = format!("GET /-/watch HTTP/1.1\r\n{}{SHAKE}\r\n", page(&server));
    assert_told(&server, &server.connect().ask(watch), 403, APP, &option);
    let server = start(&["--cors-origin", APP]);
    let status = put(&server, &page(&server)).status;
    assert_eq!(status, 200, "what it says to do helps");
}

/// A server that runs as a user without rights; without root, says what is left out.
fn without_rights(args: &[&str]) -> Option<TestServer> {
    served_by_nobody_with(&DataDir::temporary(), args, "what the server may not do")
}

fn allow(server: &TestServer, name: &str, mode: u32) {
    chmod(server.dir.path().join(name), mode);
}

const DENIED: &str = "the file system denies access";

/// Asserts a 403 with the reason, and no other effect.
#[track_caller]
fn assert_denied(server: &TestServer, method: &str, target: &str) {
    let got = server.request(method, target, "", b"new value");
    assert_eq!(got.status, 403, "{method} {target}: {got:?}");
    if method != "HEAD" {
        let text = said(&got);
        assert!(text.contains("permission denied"), "{text}");
    }
    assert_eq!(got.all("cache-control"), "no-store");
}

#[test]
fn a_value_that_the_server_may_not_read_is_a_403_with_a_reason() {
    directory_only!("the file system");
    let server = needed!(without_rights(&[]));
    let began = Instant::now();
    for length in [10, 300_000] {
        server.dir.place("secret", pattern(1, length));
        allow(&server, "secret", 0o600);
        for method in ["GET", "HEAD"] {
            assert_denied(&server, method, "/secret");
        }
        let event = server.event(DENIED);
        assert_eq!((&*event.level, &*event.field("doing")), ("WARN", "open"));
        let is_right = event.field("cause").contains("Permission denied");
        assert!(is_right, "{event:?}");
        assert!(server.events("the store failed").is_empty());
        // The value exists, and can be read as soon as the mode allows it.
        assert!(String::from_utf8_lossy(&server.get("").body).contains("secret"));
        allow(&server, "secret", 0o644);
        assert!(server.get("secret").body == pattern(1, length));
        fs::remove_file(server.dir.file("secret")).expect("a removal");
    }
    // Denied reads cannot flood the log.
    server.dir.place("secret", "of root");
    allow(&server, "secret", 0o600);
    for _ in 0..100 {
        assert_denied(&server, "GET", "/secret");
    }
    let lines = server.events(DENIED).len() as u64;
    assert!(lines <= began.elapsed().as_secs() + 1, "{lines}");
}

/// The C server answered 500 (a file that cannot be read, or removed), and its clients may rely on that.
#[test]
fn with_compat_a_missing_permission_is_a_500() {
    directory_only!("the file system");
    let server = needed!(without_rights(&["--compat"]));
    server.store("k", "value");
    allow(&server, "k", 0o000);
    assert_eq!(server.get("k").status, 500);
    allow(&server, "", 0o555);
    assert_eq!(server.ask("DELETE", "k").status, 500);
    assert_eq!(server.put("new", "value").status, 500);
}

#[test]
fn writes_of_an_immutable_value_are_403() {
    let server = needed!(TestServer::of_directory("the file system", &[]));
    server.store("k", "value");
    let immutable = needed!(Immutable::new(server.dir.file("k"), "an immutable value"));
    let put = server.put("k", "new value").status;
    let delete = server.ask("DELETE", "k").status;
    drop(immutable);
    assert_eq!((put, delete), (403, 403));
    assert_eq!(server.get("k").body, b"value");
}
