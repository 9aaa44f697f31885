//! Proves ids, traces and protocols in the access log, that clients cannot forge lines, sampling, and Server-Timing.

use rustls::version;

use crate::support::Http2;
use crate::support::prelude::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn access(server: &mut TestServer) -> Vec<Event> {
    server.stop();
    server.logged("access")
}

fn get(server: &TestServer, lines: &str) -> Response {
    let lines = format!("{lines}Connection: close\r\n");
    server.request("GET", "/k", &lines, b"")
}

#[test]
fn a_request_id_is_logged_and_sent_back() {
    let mut server = TestServer::start(&["--access-log", "--threads", "1"]);
    let mut own = vec!["a", "550e8400-e29b-41d4-a716-446655440000", "q=\"x\";y\\z"];
    for id in own.clone() {
        let answer = get(&server, &format!("X-Request-Id: {id}\r\n"));
        assert_eq!(answer.must("x-request-id"), id);
    }
    let made = get(&server, "").must("x-request-id").to_owned();
    let bad = get(&server, "X-Request-Id: two words\r\n");
    let given = bad.must("x-request-id");
    assert!(given != "two words" && given != made, "{given}");
    let events = access(&mut server);
    let ids = events.iter().map(|event| event.field("request_id"));
    let ids: Vec<String> = ids.collect();
    own.push(&made);
    assert_eq!(ids[..4], own);
    assert_eq!(ids.len(), 5);
}

#[test]
fn without_the_log_only_a_request_with_an_id_gets_one() {
    let server = TestServer::start(&[]);
    let trace = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    for lines in ["", &trace] {
        assert_eq!(get(&server, lines).header("x-request-id"), None);
    }
    let made = get(&server, "X-Request-Id: not mine\r\n");
    assert!(made.must("x-request-id").len() > 16);
    let refused = server.request("BREW", "/k", "X-Request-Id: tea\r\n", b"");
    assert_eq!((refused.status, refused.must("x-request-id")), (405, "tea"));
}

#[test]
fn a_line_of_text_has_every_field() {
    let server = Launch::new(&["--access-log", "--threads", "1"]).text_log();
    let mut server = server.start();
    server.store("k", "value");
    let told = format!("X-Request-Id: mine\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n");
    get(&server, &told);
    server.stop();
    let log = server.log();
    let line = log.iter().find(|line| line.contains("GET"));
    let line = line.expect("a line");
    let time = line.split(' ').next().expect("a time");
    assert!(time.ends_with('Z') && time.contains('T'), "{line}");
    for field in [
        "peer=127.0.0.1:",
        "method=\"GET\"",
        "key=\"/k\"",
        by_protocol("protocol=\"HTTP/1.1\"", "protocol=\"HTTP/2.0\""),
        "status=200",
        "bytes=5",
        "ms=",
        "reactor=0",
        "request_id=\"mine\"",
        &format!("trace_id=\"{TRACE}\""),
        &format!("span_id=\"{SPAN}\""),
        if is_tls() { "tls=\"TLSv1.3\"" } else { "" },
    ] {
        assert!(line.contains(field), "no {field} in {line}");
    }
}

/// The protocol and the version of TLS, as lines of a JSON log have them.
fn protocols(server: &mut TestServer) -> Vec<(String, Option<String>)> {
    let events = access(server);
    let tls = |event: &Event| event.has("tls").then(|| event.field("tls"));
    let both = |event| (Event::field(event, "protocol"), tls(event));
    events.iter().map(both).collect()
}

#[test]
fn the_protocol_is_logged() {
    let launch = Launch::new(&["--access-log", "--http2-clear", "--threads", "1"]);
    let mut server = launch.in_the_clear().start();
    let ask = |head: &str| Raw::connect_clear(server.addr).ask(head).status;
    assert_eq!(ask("GET /k HTTP/1.1\r\nHost: t\r\n\r\n"), 404);
    assert_eq!(ask("GET /k HTTP/1.0\r\n\r\n"), 404);
    assert_eq!(Http2::connect(server.addr).get("k").status, 404);
    assert_eq!(ask("GET /k\0 HTTP/1.1\r\nHost: t\r\n\r\n"), 400);
    let named = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "-"];
    let expected = named.map(|protocol| (protocol.to_owned(), None));
    assert_eq!(protocols(&mut server), expected);
    // Of a head that is malformed the line has the status, and nothing that it said.
    let malformed = server.logged("access").pop().expect("a line");
    let told = ["method", "key", "status"].map(|name| malformed.field(name));
    assert_eq!(told, ["-", "-", "400"]);
}

#[test]
fn the_version_of_tls_is_logged() {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let options = [&own.options()[..], &["--access-log", "--threads", "1"]].concat();
    let mut server = Launch::new(&options).listen("https://127.0.0.1:0").start();
    for versions in [&[&version::TLS12], &[&version::TLS13]] {
        let mut raw = Raw::connect_tls(server.addr, &authority.client().versions(versions));
        assert_eq!(raw.get("k").status, 404);
    }
    let expected = ["TLSv1.2", "TLSv1.3"];
    let expected = expected.map(|tls| ("HTTP/1.1".to_owned(), Some(tls.to_owned())));
    assert_eq!(protocols(&mut server), expected);
}

#[test]
fn server_timing_is_sent_with_the_option() {
    let server = TestServer::start(&[]);
    server.store("k", "v");
    assert_eq!(get(&server, "").header("server-timing"), None);
    let server = TestServer::start(&["--server-timing"]);
    let part = |field: &str, name: &str| -> f64 {
        let parts = field.split(", ");
        let found = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix(";dur="));
        let found: Vec<_> = found.collect();
        assert_eq!(found.len(), 1, "{name} in {field}");
        found[0].parse().expect("a number")
    };
    let mut put = server.begin("PUT", "/k", "Content-Length: 4\r\nExpect: 100-continue\r\n");
    assert_eq!(put.head().status, 100, "the request has begun");
    put.send("va");
    // The wait for a slow client does not count as time in the store.
    pass(Duration::from_millis(201));
    put.send("l.");
    let field = put.answer().must("server-timing").to_owned();
    let (store, total) = (part(&field, "store"), part(&field, "total"));
    assert!(total >= 200.0 && store <= total - 190.0, "{field}");
    let answer = get(&server, "");
    let field = answer.must("server-timing");
    assert!(part(field, "store") <= part(field, "total"), "{field}");
}

/// To wake the log's thread for each line would cost a request more than all else that it takes.
#[test]
fn lines_that_come_without_rest_are_written_together() {
    http1_only!("requests that come at once: this client of HTTP/2 sends one after the other");
    are_written_together(Launch::new(&LOGGED), |server| {
        let mut connection = server.connect();
        let (target, status) = fast();
        let many = format!("GET /{target} HTTP/1.1\r\nHost: t\r\n\r\n").repeat(AT_ONCE);
        for _ in 0..LINES / AT_ONCE {
            connection.send(&many);
            for _ in 0..AT_ONCE {
                assert_eq!(connection.answer().status, status);
            }
        }
    });
}

#[test]
fn lines_of_streams_that_come_without_rest_are_written_together() {
    let launch = Launch::new(&[&LOGGED[..], &["--http2-clear"]].concat());
    are_written_together(launch.in_the_clear(), |server| {
        let mut client = Http2::connect(server.addr);
        let (target, status) = fast();
        let uri = format!("http://t/{target}");
        for _ in 0..LINES / AT_ONCE {
            let ask = |_| client.ask("GET", &uri, &[], true).expect("a request");
            let asked: Vec<_> = (0..AT_ONCE).map(ask).collect();
            for asked in asked {
                assert_eq!(asked.answer().expect("a response").status, status);
            }
        }
    });
}

const LOGGED: [&str; 3] = ["--threads", "1", "--access-log"];

const LINES: usize = 2_000;

/// Requests sent at once: on a busy machine the thread of the log rests between single ones.
const AT_ONCE: usize = 100;

/// What needs no store, which would give each line the rest of a round trip, and its status.
fn fast() -> (&'static str, u16) {
    by_engine(("none", 404), ("%00", 400))
}

/// A server that `ask` asks for so many lines counts each once, and writes them by less than half as many calls.
fn are_written_together(launch: Launch, ask: impl FnOnce(&TestServer)) {
    let trace = needed!(Trace::with(
        &["-e", "trace=write"],
        "how often the log is written"
    ));
    let mut server = trace.around(launch).start();
    ask(&server);
    let counted = Scrape::of(server.addr).count("data_server_requests_total", &[]);
    assert_eq!(counted, LINES as u64);
    // The last is the scrape.
    assert_eq!(access(&mut server).len(), LINES + 1);
    let calls = trace.calls();
    let writes = calls.iter().filter(|call| call.args.starts_with("2<"));
    let writes = writes.count();
    eprintln!("{LINES} lines in {writes} writes");
    assert!(writes < LINES / 2, "{writes} writes of {LINES} lines");
}

const TOLD: [&str; 4] = ["query", "range", "agent", "referrer"];

const SAID: &str = "User-Agent: a \"b\"\r\nReferer: http://t/page\r\nRange: bytes=0-1\r\n";

/// With the formats that have it; the audit log also where there is no access log.
#[test]
fn the_access_log_and_the_audit_log_have_what_the_client_said() {
    for (log, format, has_it) in [
        ("access", "full", true),
        ("audit", "fields", false),
        ("audit", "full", true),
        ("audit", "combined", true),
    ] {
        let args = [&*format!("--{log}-log"), "--access-log-format", format];
        let mut server = TestServer::start(&args);
        let head = format!(
            "PUT /k?a=b&token=planted HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n{SAID}\r\nvalue"
        );
        let status = server.connect().ask(head).status;
        server.stop();
        let events = server.logged(log);
        assert_eq!((status, events.len()), (200, 1), "{format}: {events:#?}");
        assert_eq!(events[0].number("received"), 5);
        let told = TOLD.map(|name| events[0].has(name).then(|| events[0].field(name)));
        let said = ["a=b&token=***", "bytes=0-1", "a \"b\"", "http://t/page"];
        let expected = said.map(|text| has_it.then(|| text.to_owned()));
        assert_eq!(told, expected, "{format}");
    }
}

#[test]
fn the_combined_format_is_that_of_nginx_and_has_a_dash_for_a_client_without_a_name() {
    let dir = DataDir::temporary();
    let rule = "[[rule]]\nwho = ['anonymous']\nmay = ['read']\n";
    let rules = ["--access", &*dir.write_private("access.toml", rule)];
    for rules in [&[][..], &rules] {
        let options = ["--access-log", "--access-log-format", "combined"];
        let mut server = Launch::new(&[&options, rules].concat()).on(&dir).start();
        dir.place("k", "value");
        let head = format!("GET /k?a=b HTTP/1.1\r\nHost: t\r\n{SAID}\r\n");
        assert_eq!(server.connect().ask(head).status, 206);
        server.stop();
        let log = server.log();
        let line = log.iter().find(|line| line.contains("GET"));
        let (before, after) = line.and_then(|it| it.split_once('[')).expect("a time");
        let (time, after) = after.split_once("] ").expect("a request");
        assert_eq!(before, "127.0.0.1 - - ");
        assert!(time.ends_with(" +0000") && time.len() == 26, "{time}");
        let protocol = by_protocol("HTTP/1.1", "HTTP/2.0");
        let request = format!("\"GET /k?a=b {protocol}\"");
        let expected = format!(r#"{request} 206 2 "http://t/page" "a \x22b\x22""#);
        assert_eq!(after.trim_end(), expected);
    }
}
