//! Proves the output for operators: one access event per request with all its fields, lines that clients cannot forge, and
//! exactly one line on standard output.

use crate::support::prelude::*;

#[test]
fn the_access_log_has_one_event_for_each_request() {
    let mut server = TestServer::start(&["--access-log", "--audit-log", "--threads", "1"]);
    let mut connection = server.connect();
    connection.send(put_head("large", 700_000));
    assert_eq!(connection.ask(pattern(1, 700_000)).status, 200);
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
    let form = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\nx\r\n\
                --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"y\"\r\n\r\ny\r\n--B--\r\n";
    let lines = format!(
        "X-Request-Id: of-a-form\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: {}\r\n",
        form.len()
    );
    let got = server.request("POST", "/-/upload", &lines, form.as_bytes());
    assert_eq!((got.status, got.must("x-request-id")), (200, "of-a-form"));
    let mut expected = vec![
        ("PUT", 200),
        ("PUT", 200),
        ("GET", 200),
        ("HEAD", 200),
        ("DELETE", 404),
        ("POST", 405),
        ("POST", 200),
    ];
    // A store has no resumable uploads.
    if !is_s3() {
        let mut raw = server.connect();
        let upload = Resumable::create(&mut raw, "parts", "", b"x");
        assert_eq!(upload.append(&mut raw, 1, false, b"y").status, 204);
        assert_eq!(upload.append(&mut raw, 1, true, b"z").status, 409);
        drop(raw); // a drain waits for the other end of what it closes
        let ended = upload.append(&mut server.connect(), 2, true, b"z");
        assert_eq!(ended.status, 200);
        expected.extend([("PUT", 201), ("PATCH", 204), ("PATCH", 409), ("PATCH", 200)]);
    }
    let of = |methods: &[&str], name| {
        let scrape = Scrape::of(server.addr);
        let counts = methods
            .iter()
            .map(|method| scrape.count(name, &[("method", method)]));
        counts.sum::<u64>()
    };
    let writes = ["PUT", "POST", "PATCH"];
    let all = expected
        .iter()
        .filter(|(method, _)| writes.contains(method))
        .count();
    let comes = || of(&writes, "data_server_requests_total") == all as u64;
    eventually("each is counted once", comes);
    assert_eq!(
        Scrape::of(server.addr).count("data_server_uploads_in_flight", &[]),
        0
    );
    server.stop();

    let events = server.log();
    let events = events.iter().filter_map(|line| Event::parse(line));
    let events: Vec<Event> = events.collect();
    let access: Vec<&Event> = events
        .iter()
        .filter(|event| event.target == "access" && event.field("key") != "/-/metrics")
        .collect();
    let shown = access.iter();
    let shown = shown.map(|e| (e.field("method"), e.number("status")));
    let shown: Vec<_> = shown.collect();
    assert_eq!(
        shown,
        expected
            .iter()
            .map(|(method, status)| ((*method).to_owned(), *status))
            .collect::<Vec<_>>()
    );
    assert_eq!(access[6].field("request_id"), "of-a-form");
    assert_eq!(access[6].field("key"), "/-/upload");
    for event in &access {
        let got = (event.level.as_str(), event.number("reactor"));
        assert_eq!(got, ("INFO", 0), "{event:?}");
        assert!(event.field("peer").starts_with("127.0.0.1:"), "{event:?}");
        let holds = event.field("ms").parse::<f64>();
        let holds = holds.is_ok_and(|ms| (0.0..30_000.0).contains(&ms));
        assert!(holds, "{event:?}");
    }
    assert_eq!(access[2].number("bytes"), 5, "{:?}", access[2]);
    // What uploads brought stands in both logs.
    let received = access.iter().take(6).map(|event| event.number("received"));
    assert_eq!(received.collect::<Vec<_>>(), [700_000, 5, 0, 0, 0, 0]);
    let audit = events.iter().filter(|event| event.target == "audit");
    let received = audit.map(|event| event.number("received"));
    assert_eq!(received.take(2).collect::<Vec<_>>(), [700_000, 5]);
    assert!(access[1..4].iter().all(|event| event.field("key").contains("k y") || event.field("key").contains("k%20y")));
}

#[test]
fn without_the_option_no_request_is_logged() {
    let mut server = TestServer::start(&[]);
    server.store("k", "value");
    server.stop();
    let is_right = !server.log().iter().any(|line| line.contains(r#""access""#));
    assert!(is_right, "{:?}", server.log());
}

/// A key of line ends and terminal escapes stays inside its one line, in both formats, and an id with quotes and braces ends no field.
#[test]
fn neither_a_key_nor_an_id_can_forge_a_line_or_a_field() {
    let (path, id) = ("%0aINFO%20forged%1b%5b2J%0d", r#""}status=500,"x":{"y"#);
    let text = Launch::new(&["--access-log"]).text_log().start();
    let json = TestServer::start(&["--access-log"]);
    for mut server in [text, json] {
        assert_eq!(server.put(path, "v").status, by_engine(200, 400));
        let answer = server.request("GET", "/k", &format!("X-Request-Id: {id}\r\n"), b"");
        assert_eq!(answer.must("x-request-id"), id);
        server.stop();
        let log = server.log();
        let naming = log.iter().filter(|line| line.contains("status=500"));
        let naming: Vec<_> = naming.collect();
        assert_eq!(naming.len(), 1, "{log:#?}");
        if let Some(event) = Event::parse(naming[0]) {
            assert_eq!(event.number("status"), 404);
            assert_eq!(event.field("request_id"), id);
        } else {
            let is_quoted = naming[0].contains(r#"request_id="\"}status=500"#);
            assert!(is_quoted, "{}", naming[0]);
        }
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
