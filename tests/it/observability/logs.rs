//! Proves the output for operators: one access event per request with all its fields, lines that clients cannot forge,
//! and exactly one line on standard output.

use crate::support::form::file;
use crate::support::prelude::*;

/// Requests of one connection: the method, the key, the length of the body, and the status.
const TRAFFIC: &str = "
PUT ; large ; 700000 ; 200
PUT ; k%20y ; 5 ; 200
GET ; k%20y ; 0 ; 200
GET ; large ; 0 ; 200
GET ; large ; 0 ; 200
HEAD ; k%20y ; 0 ; 200
GET ; gone ; 0 ; 404
DELETE ; gone ; 0 ; 404
DELETE ; large ; 0 ; 200
OPTIONS ; k%20y ; 0 ; 204
BREW ; k%20y ; 0 ; 405
PROPFIND ; k%20y ; 0 ; 405
POST ; k%20y ; 0 ; 405
";

/// Sends them, and checks the counts, which are exact with one reactor and one connection after the other.
fn known_traffic_is_counted(server: &TestServer) {
    let mut raw = server.connect();
    let (mut sent, mut received) = (0, 0);
    for [method, key, length, status] in table(TRAFFIC) {
        let length = length.parse().expect("a length");
        let head = match method {
            "PUT" => put_head(key, length),
            _ => format!("{method} /{key} HTTP/1.1\r\nHost: t\r\n\r\n"),
        };
        let request = [head.into_bytes(), pattern(1, length)].concat();
        let answer = raw.ask(&request);
        assert_eq!(answer.status.to_string(), status, "{method} {key}");
        sent += request.len() as u64;
        received += answer_length(&answer, method == "HEAD") as u64;
    }
    let scrape = Scrape::of(server.addr);
    let of = |name: &str| scrape.count(&format!("data_server_{name}"), &[]);
    let mut expected = BTreeMap::new();
    for [method, _, _, status] in table(TRAFFIC) {
        let is_known = !matches!(method, "BREW" | "PROPFIND");
        let method = if is_known { method } else { "other" };
        *expected
            .entry((method, format!("{}xx", &status[..1])))
            .or_default() += 1;
    }
    for ((method, status), count) in &expected {
        let labels = [("method", *method), ("status", status)];
        let found = scrape.count("data_server_requests_total", &labels);
        assert_eq!(found, *count, "{labels:?}");
    }
    let all = expected.values().sum::<u64>();
    for name in [
        "requests_total",
        "request_duration_seconds_count",
        "time_to_first_byte_seconds_count",
    ] {
        assert_eq!(of(name), all, "{name}");
    }
    if is_http2() {
        // What is beside the bodies: frames, and fields that were sent before are short.
        assert!((700_005..705_005).contains(&of("received_bytes_total")));
        assert!((1_400_005..1_420_005).contains(&of("sent_bytes_total")));
    } else {
        // The request of the scrape itself has been received, and is not answered yet.
        let own = "GET /-/metrics HTTP/1.1\r\nHost: t\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(of("received_bytes_total"), sent + own.len() as u64);
        assert_eq!(of("sent_bytes_total"), received);
    }
    let connections = ["accepted_total", "active"].map(|what| of(&format!("connections_{what}")));
    assert_eq!(connections, [2, 2]);
    if !is_s3() {
        assert_eq!(of("cache_hits_total") + of("cache_misses_total"), 5);
        assert_eq!(of("publish_batch_size_sum"), 4);
        assert_eq!(of("sync_duration_seconds_count"), 0);
    }
}

/// The bytes of an answer as they came over the socket.
fn answer_length(answer: &Response, is_head: bool) -> usize {
    let reason = match answer.status {
        200 => "OK",
        204 => "No Content",
        404 => "Not Found",
        405 => "Method Not Allowed",
        other => panic!("{other}"),
    };
    let first = format!("HTTP/1.1 200 {reason}\r\n\r\n").len();
    let fields = answer.headers.iter();
    let fields = fields.map(|(name, value)| format!("{name}: {value}\r\n").len());
    let body = if is_head { 0 } else { answer.body.len() };
    first + fields.sum::<usize>() + body
}

#[test]
fn known_traffic_is_counted_logged_and_audited_once() {
    let mut server = TestServer::start(&["--access-log", "--audit-log", "--threads", "1"]);
    known_traffic_is_counted(&server);
    let parts: [(&str, &[u8]); 2] = [(&file("x"), b"x"), (&file("y"), b"y")];
    let got = server.post("X-Request-Id: of-a-form\r\n", &parts);
    assert_eq!((got.status, got.must("x-request-id")), (200, "of-a-form"));
    let mut expected: Vec<_> = table(TRAFFIC)
        .map(|[method, key, length, status]| (method, key, length, status))
        .collect();
    expected.push(("POST", "-/upload", "", "200"));
    // A store has no resumable uploads.
    if !is_s3() {
        let mut raw = server.connect();
        let upload = Resumable::create(&mut raw, "parts", "", b"x");
        assert_eq!(upload.append(&mut raw, 1, false, b"y").status, 204);
        assert_eq!(upload.append(&mut raw, 1, true, b"z").status, 409);
        drop(raw); // a drain waits for the other end of what it closes
        let ended = upload.append(&mut server.connect(), 2, true, b"z");
        assert_eq!(ended.status, 200);
        let part = |status| ("PATCH", "", "", status);
        expected.extend([
            ("PUT", "parts", "", "201"),
            part("204"),
            part("409"),
            part("200"),
        ]);
    }
    let is_write = |method| matches!(method, "PUT" | "POST" | "PATCH");
    let writes = expected
        .iter()
        .filter(|(method, ..)| is_write(method))
        .count();
    eventually("each is counted once", || {
        let scrape = Scrape::of(server.addr);
        let of = |method| scrape.count("data_server_requests_total", &[("method", method)]);
        ["PUT", "POST", "PATCH"].map(of).iter().sum::<u64>() == writes as u64
    });
    let in_flight = "data_server_uploads_in_flight";
    assert_eq!(Scrape::of(server.addr).count(in_flight, &[]), 0);
    server.stop();

    let mut access = server.logged("access");
    access.retain(|event| event.field("key") != "/-/metrics");
    assert_eq!(access.len(), expected.len(), "{access:#?}");
    for (event, (method, key, length, status)) in access.iter().zip(expected) {
        let seen = (event.field("method"), event.number("status").to_string());
        assert_eq!(seen, (method.to_owned(), status.to_owned()), "{event:?}");
        let logged = event.field("key").replace(' ', "%20");
        assert!(logged.contains(key), "{event:?}");
        // What uploads brought stands in the line.
        let is_right = length.is_empty() || event.field("received") == length;
        assert!(is_right, "{event:?}");
        let is_right = method != "GET" || key != "k%20y" || event.number("bytes") == 5;
        assert!(is_right, "{event:?}");
        assert!(key != "-/upload" || event.field("request_id") == "of-a-form");
        assert_eq!((&*event.level, event.number("reactor")), ("INFO", 0));
        assert!(event.field("peer").starts_with("127.0.0.1:"), "{event:?}");
        let time = event.field("ms").parse::<f64>().expect("a number");
        assert!((0.0..30_000.0).contains(&time), "{event:?}");
    }
    let audited = server.logged("audit");
    let received = audited.iter().map(|event| event.number("received"));
    assert_eq!(received.take(2).collect::<Vec<_>>(), [700_000, 5]);
}

/// A key of line ends and terminal escapes stays inside its one line, in both formats, and an id with quotes and braces
/// ends no field.
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
fn requests_are_logged_by_the_option_where_the_level_lets_them() {
    for (level, option, expected) in [
        ("off", "--access-log", 0),
        ("error", "--access-log", 0),
        ("info", "--access-log", 1),
        ("info", "--server-timing", 0),
    ] {
        let mut server = TestServer::start(&["--log-level", level, option]);
        server.store("k", "v");
        server.stop();
        let log = server.log();
        let access = log.iter().filter(|line| line.contains("PUT")).count();
        assert_eq!(access, expected, "{level} {option}: {log:#?}");
        assert!(level == "info" || log.is_empty(), "{level}: {log:#?}");
    }
}
