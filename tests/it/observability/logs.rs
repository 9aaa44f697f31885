//! Proves the output for operators: one access event per request with all its fields, lines that clients cannot forge, and
//! exactly one line on standard output.

use crate::support::prelude::*;

#[test]
fn the_access_log_has_one_event_for_each_request() {
    let mut server = TestServer::start(&["--access-log", "--threads", "1"]);
    let mut connection = server.connect();
    connection.send(put_head("k%20y", 5));
    assert_eq!(connection.ask("value").status, 200);
    assert_eq!(
        connection
            .ask("GET /k%20y HTTP/1.1\r\nHost: t\r\n\r\n")
            .body,
        b"value"
    );
    let found = connection.ask("HEAD /k%20y HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(found.status, 200);
    let found = connection.ask("DELETE /gone HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(found.status, 404);
    let found = connection
        .ask("POST /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        .status;
    assert_eq!(found, 405);
    server.stop();

    let events = server.log();
    let events = events.iter().filter_map(|line| Event::parse(line));
    let events: Vec<Event> = events.collect();
    let access: Vec<&Event> = events
        .iter()
        .filter(|event| event.target == "access")
        .collect();
    let shown = access.iter();
    let shown = shown.map(|e| (e.field("method"), e.number("status")));
    let shown: Vec<_> = shown.collect();
    let expected = [
        ("PUT", 200),
        ("GET", 200),
        ("HEAD", 200),
        ("DELETE", 404),
        ("POST", 405),
    ];
    assert_eq!(
        shown,
        expected.map(|(method, status)| (method.to_owned(), status))
    );
    for event in &access {
        let got = (event.level.as_str(), event.number("reactor"));
        assert_eq!(got, ("INFO", 0), "{event:?}");
        assert!(event.field("peer").starts_with("127.0.0.1:"), "{event:?}");
        let holds = event.field("ms").parse::<f64>();
        let holds = holds.is_ok_and(|ms| (0.0..30_000.0).contains(&ms));
        assert!(holds, "{event:?}");
    }
    let count = access[1].number("bytes");
    assert_eq!(count, 5, "the bytes of the value: {:?}", access[1]);
    assert!(access[..3].iter().all(|event| event.field("key").contains("k y") || event.field("key").contains("k%20y")));
}

#[test]
fn without_the_option_no_request_is_logged() {
    let mut server = TestServer::start(&[]);
    server.store("k", "value");
    server.stop();
    let is_right = !server.log().iter().any(|line| line.contains(r#""access""#));
    assert!(is_right, "{:?}", server.log());
}

/// A key of line ends and terminal escapes stays inside its one line, in both formats.
#[test]
fn a_key_cannot_forge_a_line_of_the_log() {
    let path = "%0aINFO%20forged%1b%5b2J%0d";
    let text = Launch::new(&["--access-log"]).text_log().start();
    let json = TestServer::start(&["--access-log"]);
    for mut server in [text, json] {
        assert_eq!(server.put(path, "v").status, by_engine(200, 400));
        server.stop();
        let log = server.log();
        let naming: Vec<_> = log.iter().filter(|line| line.contains("forged")).collect();
        assert_eq!(naming.len(), 1, "{log:#?}");
        assert!(!naming[0].starts_with("INFO forged"), "{log:#?}");
        let is_right = naming[0].contains("PUT") && !log.concat().contains(['\u{1b}', '\r']);
        assert!(is_right, "{log:#?}");
    }
}

#[test]
fn the_log_level_is_a_threshold() {
    for (level, expected) in [("off", 0), ("error", 0), ("info", 1)] {
        let mut server = TestServer::start(&["--log-level", level, "--access-log"]);
        server.store("k", "v");
        server.stop();
        let access = server.log();
        let access = access.iter().filter(|line| line.contains("PUT")).count();
        assert_eq!(access, expected, "--log-level {level}: {:#?}", server.log());
        let is_right = level == "info" || server.log().is_empty();
        assert!(is_right, "--log-level {level}: {:#?}", server.log());
    }
}

#[test]
fn standard_output_is_one_line() {
    clear_only!("its line is of http");
    let mut server = TestServer::start(&["--access-log", "--log-level", "trace"]);
    server.store("k", "v");
    server.stop();
    let found = server.stdout();
    assert_eq!(found, [format!("listening on http://{}", server.addr)]);
}
