//! Proves compliance with the RFCs: problem details (RFC 9457), OPTIONS, CORS, Allow and Date, the answers to requests
//! that are too long or too many, unexpected bodies, all forms of a target, and dates far in the past and the future.

use std::time::UNIX_EPOCH;

use httpdate::parse_http_date;

use crate::support::prelude::*;

const PROBLEM: &str = "application/problem+json";
const TEXT: &str = "text/plain; charset=utf-8";
const METHODS: &str = "GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS";

/// Requests that fail by default: the name of the problem, the status, and the request, whose lines begin with `|`.
const FAULTS: &str = "
no-such-key ; 404 ; GET /gone
no-such-key ; 404 ; DELETE /gone
no-such-path ; 404 ; GET /-/a
no-key ; 400 ; PUT /
bad-key ; 400 ; GET /%00
bad-key ; 400 ; GET /%zz
bad-key ; 400 ; GET /a//b
bad-query ; 400 ; GET /?delimiter=-
bad-query ; 400 ; GET /?limit=0
bad-target ; 400 ; GET *
cross-site ; 403 ; PUT /k|Sec-Fetch-Site: cross-site
partial-put ; 400 ; PUT /k|Content-Range: bytes 0-0/2
content-coding ; 415 ; PUT /k|Content-Encoding: aws-chunked
bad-field ; 400 ; PUT /k|Content-Disposition: a|Content-Disposition: b
bad-digest ; 400 ; PUT /k|Repr-Digest: sha-256=1
digest-mismatch ; 400 ; PUT /k|Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==
precondition-failed ; 412 ; PUT /here|If-None-Match: *
precondition-failed ; 412 ; PUT /no/folder/k|If-Match: *
precondition-failed ; 412 ; GET /here|If-Match: \"x\"
transfer-coding ; 501 ; PUT /k|Transfer-Encoding: gzip, chunked
expectation ; 417 ; GET /here|Expect: more
method ; 405 ; POST /here
occupied ; 409 ; PUT /directory
occupied ; 409 ; PUT /here/below
bad-host ; 400 ; GET /here|Host: u
bad-head ; 400 ; GET /here|X : y
bad-framing ; 400 ; GET /here|Content-Length: x
";

const PAGE: &str = "text/html; charset=utf-8";
const HTML: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// Asserts that the failure of a request is told to each kind of client as it reads: as a problem of this name, as a
/// page, or in a line.
#[track_caller]
fn assert_told(server: &TestServer, name: &str, status: u16, request: &str, body: &[u8]) {
    let (first, lines) = request.split_once('|').unwrap_or((request, ""));
    let (method, target) = first.split_once(' ').expect("a target");
    let lines = lines
        .split_terminator('|')
        .map(|line| format!("{line}\r\n"));
    let lines: String = lines.collect();
    // What a head says it accepts is not known where the head is refused as one.
    let is_framing = ["transfer-coding", "bad-head", "bad-framing"].contains(&name);
    let page = if is_framing { TEXT } else { PAGE };
    for (accept, kind) in [
        (PROBLEM, PROBLEM),
        ("application/problem+json, text/plain;q=0.5", PROBLEM),
        (HTML, page),
        ("text/plain, application/problem+json;q=0.5", TEXT),
        ("application/json, text/html;q=0.5", TEXT),
        ("*/*", TEXT),
        ("application/json", TEXT),
        ("", TEXT),
    ] {
        let lines = format!("{lines}Accept: {accept}\r\n");
        let got = server.request(method, target, &lines, body);
        assert_eq!(got.status, status, "{name}: {method} {target} {lines}");
        assert_eq!(got.must("content-type"), kind, "{name}: {accept}");
        assert_eq!(got.all("x-content-type-options"), "nosniff", "{name}");
        match kind {
            PROBLEM => {
                let problem = got.json();
                assert_eq!(problem["type"], format!("urn:data-server:problem:{name}"));
                assert_eq!(problem["status"], status, "{name}");
                assert!(!problem["title"].as_str().expect("a title").is_empty());
                assert!(!problem["detail"].as_str().expect("a detail").is_empty());
            }
            TEXT => {
                let text = got.text();
                let is_right = text.ends_with('\n') && text.lines().count() == 1;
                assert!(is_right, "{name}: {text:?}");
            }
            _ => assert_is_page_of_failure(&got),
        }
    }
}

/// Its title says what failed, it has a way back, and its policy lets no script run.
#[track_caller]
fn assert_is_page_of_failure(got: &Response) {
    let title = match got.status {
        403 => "This is not allowed",
        404 => "There is no such file",
        409 => "Something is in the way",
        412 => "It has changed meanwhile",
        413 | 414 => "This is too large",
        501 => "Something failed at the server",
        _ => "The server does not understand this",
    };
    let page = HtmlPage::parse(&got.body);
    assert!(page.named("h1").map(|it| &*it.text).eq([title]), "{title}");
    assert!(page.named("a").count() > 0, "{title}: no way back");
    assert_eq!(page.named("script").count(), 0);
    assert_eq!(got.must("cache-control"), "no-store", "{title}");
    let policy = got.must("content-security-policy");
    let is_right = policy.starts_with("default-src 'none'; style-src 'sha256-");
    assert!(is_right, "{policy}");
}

#[test]
fn each_failure_is_told_by_a_stable_name_a_page_or_a_line() {
    let server = TestServer::start(&[]);
    server.store_each("here directory/below", "value");
    let long = format!("/{}", "x".repeat(300));
    let faults = format!("{FAULTS}key-too-long ; 414 ; GET {long}");
    for [name, status, request] in table(&faults) {
        let has_chunks = request.contains("|Transfer");
        let body = if has_chunks { "0\r\n\r\n" } else { "" };
        let status = status.parse().expect("a status");
        assert_told(&server, name, status, request, body.as_bytes());
    }
}

#[test]
fn failures_by_the_options_are_told_so_too() {
    for (args, name, status) in [
        (&["--read-only"][..], "read-only", 403),
        (&["--max-body", "3"], "too-large", 413),
        // On the command line, which wins over the tests' own variable.
        (&["--allowed-host", "a.example"], "wrong-host", 421),
    ] {
        assert_told(&TestServer::start(args), name, status, "PUT /k", b"value");
    }
}

const APP: &str = "https://app.example";

fn from_page(server: &TestServer, method: &str, origin: &str, lines: &str) -> Response {
    let lines = format!("Origin: {origin}\r\n{lines}");
    server.request(method, "/k", &lines, b"")
}

#[test]
fn a_preflight_tells_methods_and_headers() {
    let server = TestServer::start(&["--cors-origin", APP]);
    // A library sends fields of its own, which mean nothing here.
    let fields = "authorization,baggage,content-type,if-match,traceparent,tracestate,x-amz-checksum-crc32,x-requested-with";
    let asked = &format!(
        "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: {fields}\r\n"
    );
    let got = from_page(&server, "OPTIONS", APP, asked);
    let seen = (got.status, got.must("access-control-allow-origin"));
    assert_eq!(seen, (204, APP));
    assert_eq!(got.must("access-control-allow-methods"), METHODS);
    assert_eq!(got.must("access-control-allow-headers"), fields);
    assert!(got.must("access-control-max-age").parse::<u32>().is_ok());
    let got = from_page(&server, "OPTIONS", "https://evil.example", asked);
    for name in ["origin", "methods", "headers"] {
        assert_eq!(got.header(&format!("access-control-allow-{name}")), None);
    }
}

/// Fetch, "CORS protocol and HTTP caches": a response that depends on Origin carries Vary also for requests without
/// Origin. Otherwise a cache could give it to a page that may not read it.
#[test]
fn with_cors_origins_every_answer_varies_by_origin_by_12_5_5() {
    directory_only!("compression");
    let server = TestServer::start(&["--compress", "--cors-origin", APP]);
    server.store_each("k t.txt", "value");
    for (target, lines) in [
        ("/k", ""),
        ("/t.txt", ""),
        ("/k", "Origin: https://evil.example\r\n"),
        ("/k", "If-None-Match: *\r\n"),
        ("/", ""),
        ("/gone", ""),
    ] {
        let got = server.request("GET", target, lines, b"");
        let is_right = got.all("vary").to_lowercase().contains("origin");
        assert!(is_right, "GET {target} {lines}: {:?}", got.headers);
    }
    let open = TestServer::start(&[]);
    open.store("k", "value");
    let varies = open.get("k").all("vary");
    assert_eq!(varies, "", "nothing varies by default");
}

/// The bounds to the byte are proved by `keys`, `security::attacks` and `limits::resource_limits`.
#[test]
fn a_head_over_a_limit_gets_its_status() {
    let server = TestServer::start(&[]);
    for (target, lines, status) in [
        ("x".repeat(60_000), String::new(), 414),
        // Beyond the limit of a head the server cannot know that the target is too long.
        ("x".repeat(70_000), String::new(), 431),
        ("k".to_owned(), "X: y\r\n".repeat(200), 431),
        // HTTP/2 ends a connection whose client does not stop.
        (
            "k".to_owned(),
            format!("X: {}\r\n", "y".repeat(2_000_000)),
            by_protocol(431, 0),
        ),
        ("k".to_owned(), String::new(), 404),
    ] {
        let mut raw = server.connect();
        let _ = raw.offer(format!("GET /{target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
        let got = raw.try_head().map_or(0, |got| got.status);
        assert_eq!(got, status, "{} bytes", target.len() + lines.len());
    }
}

/// RFC 9110, 9.3.1 and 9.3.5: a body with these methods has no meaning, and must not become the next request; nor must
/// that of a PUT that is refused, and is dropped or ends the connection.
#[test]
fn a_body_is_never_a_request() {
    let smuggled = "DELETE /victim HTTP/1.1\r\nHost: t\r\n\r\n";
    let server = TestServer::start(&[]);
    let methods = ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT"];
    let targets = ["/k", "/gone", "/%00", "/"].into_iter();
    let all = targets.flat_map(|target| methods.map(|method| (method, target)));
    for (is_cached, (method, target)) in all.flat_map(|asked| [(false, asked), (true, asked)]) {
        server.store("victim", "alive");
        server.store("k", "value");
        if is_cached {
            server.get("k");
        }
        let (length, long) = (smuggled.len(), smuggled.repeat(3000));
        for framing in [
            format!("Content-Length: {length}\r\n\r\n{smuggled}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{smuggled}\r\n0\r\n\r\n"),
            format!("Content-Length: {}\r\n\r\n{long}", long.len()),
        ] {
            let mut raw = server.connect();
            let sent = raw.offer(format!(
                "{method} {target} HTTP/1.1\r\nHost: t\r\n{framing}"
            ));
            // The next request; the server may have closed by then.
            let next = "GET /victim HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
            let _ = sent.and_then(|()| raw.offer(next));
            let told = String::from_utf8_lossy(&raw.rest()).into_owned();
            let answers = told.matches("HTTP/1.1 ").count();
            assert!((1..=2).contains(&answers), "{method} {target}: {told}");
            let is_right = answers == 1 || told.ends_with("alive");
            assert!(is_right, "{method} {target}: {told}");
            let body = server.get("victim").body;
            assert_eq!(body, b"alive", "{method} {target} smuggles");
        }
    }
}

#[test]
fn head_equals_get_header_for_header_also_for_listings_and_errors() {
    let server = TestServer::start(&["--cors-origin", "*"]);
    server.store_each("k.html directory/below", "value");
    server.store("empty", "");
    server.store("large", pattern(1, 1_000_000));
    for target in words(
        "/k.html /empty /large / /?format=text /?limit=1 /?limit=0 /gone /directory /%00 /a/b",
    ) {
        for lines in [
            "",
            "Origin: https://a.example\r\n",
            "If-None-Match: *\r\n",
            "If-Match: \"x\"\r\n",
            "Want-Repr-Digest: sha-256=1\r\n",
            "Accept: application/problem+json\r\n",
        ] {
            let headers = |method: &str| {
                let got = server.request(method, target, lines, b"");
                let all = got.headers.into_iter().filter(|(name, _)| name != "date");
                let all: BTreeMap<String, String> = all.collect();
                (got.status, all)
            };
            assert_eq!(headers("HEAD"), headers("GET"), "{target} {lines}");
        }
    }
}

/// Values with dates set by hand, long ago or far ahead, on a file system in memory, which accepts any date.
#[test]
fn dates_of_any_century_make_valid_headers_and_no_panic() {
    directory_only!("hands in the directory");
    let dir = DataDir::in_memory();
    let server = Launch::new(&[]).on(&dir).start();
    let (year, nanosecond) = (Duration::from_secs(31_556_952), Duration::from_nanos(1));
    let mut raw = server.connect();
    for (key, time) in [
        ("y1960", UNIX_EPOCH - year * 10),
        ("y1960-fraction", UNIX_EPOCH - year * 10 + nanosecond),
        ("y1969", UNIX_EPOCH - nanosecond),
        ("y1700", UNIX_EPOCH - year * 270),
        ("y1970", UNIX_EPOCH),
        ("y2038", UNIX_EPOCH + Duration::from_secs(1 << 31)),
        ("y2200", UNIX_EPOCH + year * 230),
        ("y2500", UNIX_EPOCH + year * 530),
        ("y2600", UNIX_EPOCH + year * 630),
        ("y12000", UNIX_EPOCH + year * 10_030),
    ] {
        dir.place(key, "value");
        dir.date(key, time);
        let path = format!("/{key}");
        let got = ask(&mut raw, "GET", &path, "", b"");
        assert_eq!((got.status, &got.body[..]), (200, &b"value"[..]), "{key}");
        let told = got.must("last-modified");
        let modified = parse_http_date(told).expect("a date");
        assert!(modified <= SystemTime::now(), "8.8.2.1: {key} is of {told}");
        let condition = format!("If-None-Match: {}\r\n", got.must("etag"));
        let found = ask(&mut raw, "GET", &path, &condition, b"").status;
        assert_eq!(found, 304, "{key}");
        let condition = format!("If-Match: {}\r\n", got.must("etag"));
        let what = format!("{condition}Range: bytes=1-2\r\n");
        assert_eq!(ask(&mut raw, "GET", &path, &what, b"").body, b"al", "{key}");
    }
    let page = ask(&mut raw, "GET", "/?format=json", "", b"").json();
    let keys = page["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 10);
    for key in keys {
        let modified = key["modified"].as_str().expect("a date");
        assert!(humantime::parse_rfc3339(modified).is_ok(), "{key}");
    }
    let old = ask(&mut raw, "GET", "/y1960", "", b"");
    // The condition holds with the date of the response (13.1.4).
    let told = format!("If-Unmodified-Since: {}\r\n", old.must("last-modified"));
    let got = ask(&mut raw, "PUT", "/y1960", &told, b"new");
    assert_eq!(got.status, 200, "{told}");
    assert_ne!(got.must("etag"), old.must("etag"));
    assert_eq!(ask(&mut raw, "GET", "/y1960", "", b"").body, b"new");
}
