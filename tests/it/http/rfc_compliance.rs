//! Proves compliance with the RFCs: problem details (RFC 9457), OPTIONS, CORS, Allow and Date, the answers to requests that
//! are too long or too many, unexpected bodies, all forms of a target, and dates far in the past and the future.

use std::time::UNIX_EPOCH;

use httpdate::parse_http_date;

use crate::support::prelude::*;

const PROBLEM: &str = "application/problem+json";
const METHODS: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

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

#[test]
fn problem_details_have_stable_names_and_the_status_of_the_text() {
    let server = TestServer::start(&[]);
    server.store("here", "value");
    server.store("directory/below", "value");
    let long = format!("/{}", "x".repeat(300));
    let faults = format!("{FAULTS}key-too-long ; 414 ; GET {long}");
    for [name, status, request] in table(&faults) {
        let status: u16 = status.parse().expect("a status");
        let (first, lines) = request.split_once('|').unwrap_or((request, ""));
        let (method, target) = first.split_once(' ').expect("a target");
        let lines = lines
            .split_terminator('|')
            .map(|line| format!("{line}\r\n"));
        let lines: String = lines.collect();
        let has_chunks = lines.contains("Transfer");
        let body = if has_chunks { "0\r\n\r\n" } else { "" };
        for (accept, json) in [
            (PROBLEM, true),
            ("application/problem+json, text/plain;q=0.5", true),
            ("text/plain, application/problem+json;q=0.5", false),
            ("*/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let lines = format!("{lines}Accept: {accept}\r\n");
            let got = server.request(method, target, &lines, body.as_bytes());
            assert_eq!(got.status, status, "{name}: {method} {target} {lines}");
            let text = "text/plain; charset=utf-8";
            let kind = if json { PROBLEM } else { text };
            assert_eq!(got.must("content-type"), kind, "{name}: {accept}");
            assert_eq!(got.all("x-content-type-options"), "nosniff", "{name}");
            if json {
                let problem = got.json();
                assert_eq!(problem["type"], format!("urn:data-server:problem:{name}"));
                assert_eq!(problem["status"], status, "{name}");
                assert!(!problem["title"].as_str().expect("a title").is_empty());
                assert!(!problem["detail"].as_str().expect("a detail").is_empty());
            } else {
                let text = got.text();
                let is_right = text.ends_with('\n') && text.lines().count() == 1;
                assert!(is_right, "{name}: {text:?}");
            }
        }
    }
}

#[test]
fn problems_of_the_options_have_names_too() {
    for (args, name, status) in [
        (&["--read-only"][..], "read-only", 403),
        (&["--max-body", "3"], "too-large", 413),
        // On the command line, which wins over the tests' own variable.
        (&["--allowed-host", "a.example"], "wrong-host", 421),
    ] {
        let server = TestServer::start(args);
        let lines = format!("Accept: {PROBLEM}\r\n");
        let got = server.request("PUT", "/k", &lines, b"value");
        let problem = got.json();
        assert_eq!(got.status, status, "{name}");
        assert_eq!(problem["type"], format!("urn:data-server:problem:{name}"));
    }
}

#[test]
fn options_and_405_carry_allow_by_9_3_7_and_15_5_6() {
    let server = TestServer::start(&[]);
    for target in words("/k / * /a/b http://example.org/k http://example.org") {
        let mut raw = server.connect();
        let got = ask(&mut raw, "OPTIONS", target, "", b"");
        assert_eq!((got.status, got.must("allow")), (204, METHODS), "{target}");
        let seen = got.header("content-length");
        assert_eq!(seen, None, "RFC 9110, 8.6: none with 204");
        assert_eq!(got.header("access-control-allow-methods"), None);
        let found = ask(&mut raw, "GET", "/gone", "", b"").status;
        assert_eq!(found, 404, "in step after {target}");
    }
    for method in ["POST", "PATCH", "TRACE", "PROPFIND", "get"] {
        let got = server.request(method, "/k", "", b"");
        assert_eq!((got.status, got.must("allow")), (405, METHODS), "{method}");
    }
}

const APP: &str = "https://app.example";

fn from_page(server: &TestServer, method: &str, origin: &str, lines: &str) -> Response {
    let lines = format!("Origin: {origin}\r\n{lines}");
    server.request(method, "/k", &lines, b"")
}

#[test]
fn pages_of_allowed_origins_may_use_it_and_others_may_not() {
    let two = format!("https://other.example,{APP}");
    let again = two.replace(',', " --cors-origin ");
    for (option, origin, allowed) in [
        (APP, APP, true),
        (APP, "https://evil.example", false),
        (APP, "https://app.example.evil.example", false),
        (APP, "http://app.example", false),
        (APP, "https://app.example:8443", false),
        (APP, "null", false),
        (&again, APP, true),
        (&two, APP, true),
        ("*", APP, true),
        ("*", "null", true),
        ("*", "https://evil.example", true),
        ("null", "null", true),
        ("http://localhost:3000", "http://localhost:3000", true),
        ("chrome-extension://abc", "chrome-extension://abc", true),
        ("", APP, false),
    ] {
        let args = format!("--cors-origin {option}");
        let args = words(if option.is_empty() { "" } else { &args });
        let server = TestServer::start(&args);
        let sites = [
            "",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
        ];
        let asked = [
            ("GET", 200),
            ("HEAD", 200),
            ("PUT", 200),
            ("POST", 405),
            ("DELETE", 200),
            ("GET", if allowed { 404 } else { 200 }),
        ];
        for (site, (method, status)) in sites
            .iter()
            .flat_map(|site| asked.map(|asked| (site, asked)))
        {
            if (method, status) == ("GET", 200) {
                server.store("k", "value");
            }
            let got = from_page(&server, method, origin, site);
            let status = match method {
                "GET" | "HEAD" => status,
                _ if allowed => status,
                _ => 403,
            };
            let found = got.status;
            assert_eq!(found, status, "{method}: others read, and do not write");
            let shown = format!("{args:?} {method} from {origin}");
            let told = got.header("access-control-allow-origin");
            if allowed {
                let is_right = told == Some(origin) || told == Some("*");
                assert!(is_right, "{shown}: {told:?}");
                let exposed = got.must("access-control-expose-headers").to_lowercase();
                for name in ["etag", "content-range", "repr-digest", "link"] {
                    assert!(exposed.contains(name), "{shown}: {exposed}");
                }
                let holds = told == Some("*") || got.all("vary").to_lowercase().contains("origin");
                assert!(holds, "{shown}");
            } else {
                assert_eq!(told, None, "{shown}");
            }
            let seen = got.header("access-control-allow-credentials");
            assert_eq!(seen, None, "{shown}");
        }
    }
}

#[test]
fn a_preflight_tells_methods_and_headers() {
    let server = TestServer::start(&["--cors-origin", APP]);
    // A library sends fields of its own, which mean nothing here.
    let fields = "baggage,content-type,if-match,traceparent,tracestate,x-amz-checksum-crc32,x-requested-with";
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

/// Fetch, "CORS protocol and HTTP caches": a response that depends on Origin carries Vary also for requests without Origin.
/// Otherwise a cache could give it to a page that may not read it.
#[test]
fn with_cors_origins_every_answer_varies_by_origin_by_12_5_5() {
    directory_only!("compression");
    let server = TestServer::start(&["--compress", "--cors-origin", APP]);
    server.store("k", "value");
    server.store("t.txt", "value");
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

#[test]
fn requests_over_a_limit_get_its_status() {
    let server = TestServer::start(&["--max-body", "1000"]);
    let refusal = |request: String| {
        let mut raw = server.connect();
        let _ = raw.offer(request);
        raw.try_head().map_or(0, |got| got.status)
    };
    let get =
        |target: &str, lines: &str| format!("GET {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
    assert_eq!(refusal(get(&format!("/{}", "x".repeat(256)), "")), 414);
    let found = refusal(get(&format!("/{}", "x/".repeat(512) + "x"), ""));
    assert_eq!(found, 414);
    assert_eq!(refusal(get(&format!("/{}", "x".repeat(60_000)), "")), 414);
    // Beyond the limit of a head the server cannot know that the target is too long.
    assert_eq!(refusal(get(&format!("/{}", "x".repeat(70_000)), "")), 431);
    assert_eq!(refusal(get("/k", &"X: y\r\n".repeat(200))), 431);
    // HTTP/2 ends a connection whose client does not stop.
    let found = refusal(get("/k", &format!("X: {}\r\n", "y".repeat(2_000_000))));
    assert_eq!(found, by_protocol(431, 0));
    assert_eq!(refusal(get("/k", "Expect: 200-ok\r\n")), 417);
    assert_eq!(refusal(put_head("k", 1001)), 413);
    let waits = "\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(refusal(put_head("k", 1001).replace("\r\n\r\n", waits)), 413);
    let chunk = format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001));
    let head = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(format!("{head}{chunk}")), 413);
    assert_eq!(refusal(get("/k", "")), 404, "it still serves");
    server.dir.assert_holds(&[]);
}

/// RFC 9110, 9.3.1 and 9.3.5: a body with these methods has no meaning, and must not become the next request.
#[test]
fn a_body_with_get_head_or_delete_is_never_a_request() {
    let smuggled = "DELETE /victim HTTP/1.1\r\nHost: t\r\n\r\n";
    let server = TestServer::start(&[]);
    for round in 0..2 {
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST"] {
            for target in ["/k", "/gone", "/%00", "/"] {
                server.store("victim", "alive");
                server.store("k", "value");
                if round == 1 {
                    server.get("k");
                }
                let framings = [
                    format!("Content-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
                    format!(
                        "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
                        smuggled.len()
                    ),
                ];
                for framing in framings {
                    let mut raw = server.connect();
                    raw.send(format!(
                        "{method} {target} HTTP/1.1\r\nHost: t\r\n{framing}"
                    ));
                    // The next request; the server may have closed by then.
                    let _ =
                        raw.offer("GET /victim HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
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
    }
}

#[test]
fn every_form_of_a_target_by_rfc_9112_3_2() {
    let server = TestServer::start(&[]);
    server.store("k", "value");
    for (method, target, status) in [
        ("GET", "/k", 200),
        ("GET", "/k?query", 200),
        ("GET", "http://example.org/k", 200),
        ("GET", "HTTP://user@example.org:81/k?q", 200),
        ("GET", "https://example.org/k", 200),
        ("GET", "http://example.org", 200),
        ("GET", "http://example.org/", 200),
        ("GET", "http://example.org/%2e%2e", 400),
        ("GET", "example.org:80", 400),
        ("GET", "k", 400),
        ("GET", "*", 400),
        ("DELETE", "*", 400),
        ("PUT", "example.org:80", 400),
        ("CONNECT", "example.org:80", 405),
        ("CONNECT", "/k", 405),
        ("OPTIONS", "*", 204),
        ("OPTIONS", "example.org:80", 400),
        ("GET", "//k", 400),
        ("GET", "", 400),
    ] {
        let mut raw = server.connect();
        raw.send(format!("{method} {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let got = raw.head();
        assert_eq!(got.status, status, "{method} {target}");
        if status == 200 && target.contains("/k") {
            assert_eq!(raw.take(5), b"value", "{target}");
        }
    }
    assert_eq!(server.get("k").body, b"value");
}

#[test]
fn head_equals_get_header_for_header_also_for_listings_and_errors() {
    let server = TestServer::start(&["--cors-origin", "*"]);
    server.store("k.html", "value");
    server.store("directory/below", "value");
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
    let year = Duration::from_secs(31_556_952);
    let mut raw = server.connect();
    for (key, time) in [
        ("y1960", UNIX_EPOCH - year * 10),
        (
            "y1960-fraction",
            UNIX_EPOCH - year * 10 + Duration::from_nanos(1),
        ),
        ("y1969", UNIX_EPOCH - Duration::from_nanos(1)),
        ("y1700", UNIX_EPOCH - year * 270),
        ("y1970", UNIX_EPOCH),
        ("y2038", UNIX_EPOCH + Duration::from_secs(1 << 31)),
        ("y2200", UNIX_EPOCH + year * 230),
        ("y2500", UNIX_EPOCH + year * 530),
        ("y2600", UNIX_EPOCH + year * 630),
        ("y12000", UNIX_EPOCH + year * 10_030),
    ] {
        dir.place(key, "value");
        let file = File::options()
            .write(true)
            .open(dir.file(key))
            .expect("the value");
        file.set_modified(time).expect("a date");
        drop(file);
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
        let part = ask(&mut raw, "GET", &path, &what, b"");
        assert_eq!(part.body, b"al", "{key}");
    }
    listed(&mut raw, 10);
    // The other two have a date in the future, so Last-Modified is always now (8.8.2.1), and no later condition holds.
    let old = ask(&mut raw, "GET", "/y1960", "", b"");
    // The condition holds with the date of the response (13.1.4).
    let told = format!("If-Unmodified-Since: {}\r\n", old.must("last-modified"));
    let got = ask(&mut raw, "PUT", "/y1960", &told, b"new");
    assert_eq!(got.status, 200, "{told}");
    assert_ne!(got.must("etag"), old.must("etag"));
    assert_eq!(ask(&mut raw, "GET", "/y1960", "", b"").body, b"new");
    listed(&mut raw, 10);
}

fn listed(raw: &mut Raw, count: usize) {
    let listing = ask(raw, "GET", "/?format=json", "", b"");
    let page = listing.json();
    let keys = page["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), count);
    for key in keys {
        let modified = key["modified"].as_str().expect("a date");
        assert!(humantime::parse_rfc3339(modified).is_ok(), "{key}");
    }
}
