//! Proves versions and preconditions (RFC 9110, sections 8.8 and 13): every write has an entity tag of its own, which
//! all answers agree on. Conditions are evaluated in the order of section 13.2.2, before the body is read where
//! possible, and again at the moment of publishing.

use httpdate::{fmt_http_date, parse_http_date};

use crate::support::policy::{bearer, one_who_may, serve_on};
use crate::support::prelude::*;

/// RFC 9110, sections 13.1.3 and 13.1.4: to a change they are as absent, whoever asks, at every door.
#[test]
fn what_is_no_condition_of_a_change_takes_no_right_and_refuses_none() {
    directory_only!("the real store of the tests deletes under no condition");
    let dir = DataDir::temporary();
    let lines = [
        "If-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT",
        "If-Unmodified-Since: garbage",
    ];
    let lines = lines.map(|line| format!("{line}\r\n{}", bearer("ann")));
    let mut server = serve_on(&dir, &one_who_may("ann", &["write", "delete"]), &[]);
    for lines in &lines {
        dir.place("k", "old");
        let put = server.request("PUT", "/k", lines, b"new");
        let found = (put.status, dir.read("k"));
        assert_eq!(found, (200, b"new".to_vec()), "{lines}");
        let seen = server.request("DELETE", "/k", lines, b"").status;
        assert_eq!(seen, 200, "{lines}");
    }
    server.stop();
    let all = one_who_may("ann", &["read", "list", "write", "delete"]);
    let server = serve_on(&dir, &all, &[]);
    for lines in &lines {
        dir.place("a/k", "v");
        for (method, lines) in [
            ("COPY", &format!("Destination: /b/\r\n{lines}")),
            ("MOVE", &format!("Destination: /c/\r\n{lines}")),
        ] {
            let answer = server.request(method, "/a/", lines, b"");
            assert!(answer.status < 300, "{method} {lines}: {answer:?}");
        }
        for folder in ["/b/", "/c/"] {
            let lines = format!("Depth: infinity\r\n{lines}");
            assert_eq!(server.request("DELETE", folder, &lines, b"").status, 200);
        }
    }
}

const PAST: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn get(raw: &mut Raw, lines: &str) -> Response {
    ask(raw, "GET", "/k", lines, b"")
}

fn etag(response: &Response) -> String {
    let etag = response.must("etag").to_owned();
    let strong = etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"');
    assert!(strong, "a strong entity tag: {etag}");
    etag
}

/// A server with `/k`, a connection to it, and the entity tag of the value.
fn stored() -> (TestServer, Raw, String) {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let tag = etag(&ask(&mut raw, "PUT", "/k", "", b"value"));
    (server, raw, tag)
}

/// The grammar and the order of conditions are tested beside the parser (src/http/values/conditional.rs); here is what
/// each kind does. The expected status of a read by the lines of its head, with `E` for the tag of the value and `M`
/// for its date.
const READS: &[(&str, u16)] = &[
    ("If-Match: E", 200),
    ("If-Match: *", 200),
    ("If-Match: \"x\"", 412),
    ("If-Match: \"x\"\r\nIf-Match: E", 200),
    ("If-Match: W/E", 412), // 13.1.1: compared strongly
    ("If-None-Match: E", 304),
    ("If-None-Match: W/E", 304), // 13.1.2: compared weakly
    ("If-None-Match: *", 304),
    ("If-None-Match: \"x\"\r\nIf-None-Match: E", 304),
    ("If-None-Match: \"x\"", 200),
    ("If-Modified-Since: M", 304),
    ("If-Modified-Since: PAST", 200),
    ("If-Unmodified-Since: M", 200),
    ("If-Unmodified-Since: PAST", 412),
    // 13.2.2: If-Match overrides If-Unmodified-Since, If-None-Match overrides If-Modified-Since; the former come first.
    ("If-Match: E\r\nIf-Unmodified-Since: PAST", 200),
    ("If-Match: \"x\"\r\nIf-Unmodified-Since: M", 412),
    ("If-None-Match: \"x\"\r\nIf-Modified-Since: M", 200),
    ("If-None-Match: bad\r\nIf-Modified-Since: M", 200),
    ("If-Match: \"x\"\r\nIf-None-Match: E", 412),
    ("If-Match: E\r\nIf-None-Match: E", 304),
    ("If-Match: E\r\nIf-Modified-Since: M", 304),
    ("If-None-Match: E\r\nIf-Modified-Since: PAST", 304),
    ("If-Unmodified-Since: PAST\r\nIf-None-Match: E", 412),
    // 13.2.2: a range is evaluated last.
    ("If-None-Match: E\r\nRange: bytes=0-1", 304),
    ("If-Match: E\r\nRange: bytes=0-1", 206),
    ("If-Match: \"x\"\r\nRange: bytes=0-1", 412),
];

fn lines(template: &str, tag: &str, modified: &str) -> String {
    let future = fmt_http_date(SystemTime::now() + Duration::from_secs(4_000));
    let filled = template.replace(": M", &format!(": {modified}"));
    let filled = filled.replace("FUTURE", &future).replace("PAST", PAST);
    let filled = filled.replace('E', tag);
    filled + "\r\n"
}

#[test]
fn preconditions_of_reads_by_rfc_9110_13_2_2() {
    Classes::each(&[], "", |classes| {
        let mut raw = classes.server.connect();
        for (key, value) in &classes.values {
            let path = format!("/{key}");
            let plain = ask(&mut raw, "GET", &path, "", b"");
            let (tag, modified) = (etag(&plain), plain.must("last-modified").to_owned());
            for (template, status) in READS {
                for method in ["GET", "HEAD"] {
                    // 14.2: only GET has ranges.
                    let is_whole = *status == 206 && method == "HEAD";
                    let status = if is_whole { 200 } else { *status };
                    let lines = lines(template, &tag, &modified);
                    let got = ask(&mut raw, method, &path, &lines, b"");
                    assert_eq!(got.status, status, "{method} {path} {template}");
                    if (status, method) == (200, "GET") {
                        assert!(got.body == *value, "{path} {template}");
                    }
                    if matches!(status, 200 | 206 | 304) {
                        assert_eq!(etag(&got), tag, "{method} {path} {template}");
                        assert_eq!(got.must("last-modified"), modified, "{path} {template}");
                    }
                }
            }
        }
    });
}

#[test]
fn reads_of_a_missing_key_ignore_preconditions_by_13_2_1() {
    let (_server, mut raw, tag) = stored();
    let unmodified = "If-Unmodified-Since: PAST";
    for template in ["If-Match: *", "If-Match: E", "If-None-Match: *", unmodified] {
        for method in ["GET", "HEAD"] {
            let got = ask(&mut raw, method, "/gone", &lines(template, &tag, PAST), b"");
            assert_eq!(got.status, 404, "{method} {template}");
        }
    }
}

/// Condition, and the answers to PUT and DELETE with a value, and without one. 13.1.3: If-Modified-Since is for GET and
/// HEAD alone.
const WRITES: &str = r#"
    ; 200 200 200 404
    If-Match: E ; 200 200 412 404
    If-Match: * ; 200 200 412 404
    If-Match: "x" ; 412 412 412 404
    If-Match: W/E ; 412 412 412 404
    If-Match: "x", E ; 200 200 412 404
    If-None-Match: * ; 412 412 200 404
    If-None-Match: E ; 412 412 200 404
    If-None-Match: W/E ; 412 412 200 404
    If-None-Match: *|If-None-Match: E ; 412 412 412 404
    If-None-Match: "x" ; 200 200 200 404
    If-Unmodified-Since: M ; 200 200 200 404
    If-Unmodified-Since: PAST ; 412 412 200 404
    If-Modified-Since: M ; 200 200 200 404
    If-Match: E|If-Unmodified-Since: PAST ; 200 200 412 404
    If-Match: E|If-None-Match: * ; 412 412 412 404
    If-Match: E|If-None-Match: "x" ; 200 200 412 404"#;

/// The date of `/k`, which was written with this answer: a store tells it to who asks for the value.
fn modified(raw: &mut Raw, put: &Response) -> String {
    let got = get(raw, "");
    let told = got.must("last-modified");
    assert_eq!(put.header("last-modified"), by_engine(Some(told), None));
    told.to_owned()
}

#[test]
fn preconditions_of_writes_by_rfc_9110_13_1() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for [template, statuses] in table(WRITES) {
        let template = &*template.replace('|', "\r\n");
        let statuses = statuses.split(' ').map(str::parse::<u16>);
        let statuses: Vec<_> = statuses.map(|status| status.expect("a status")).collect();
        // The store of the tests has no DELETE with conditions.
        let methods = by_engine(&["PUT", "DELETE"][..], &["PUT"]);
        for (place, method) in methods.iter().enumerate() {
            for (exists, status) in [(true, statuses[place]), (false, statuses[2 + place])] {
                let shown = format!("{method} {template:?}, exists: {exists}");
                let first = ask(&mut raw, "PUT", "/k", "", b"old");
                let modified = modified(&mut raw, &first);
                let condition = match template {
                    "" => String::new(),
                    template => lines(template, &etag(&first), &modified),
                };
                if !exists {
                    assert_eq!(ask(&mut raw, "DELETE", "/k", "", b"").status, 200);
                }
                let body: &[u8] = if *method == "PUT" { b"new" } else { b"" };
                let got = ask(&mut raw, method, "/k", &condition, body);
                assert_eq!(got.status, status, "{shown}");
                if got.closes() {
                    raw = server.connect();
                }
                let now = get(&mut raw, "");
                let expected: Option<&[u8]> = match (*method, status) {
                    ("PUT", 200) => Some(b"new"),
                    ("DELETE", 200) => None,
                    _ => exists.then_some(b"old"),
                };
                let found = (now.status == 200).then_some(&now.body[..]);
                assert_eq!(found, expected, "{shown}");
                server.dir.assert_nothing_staged();
            }
        }
    }
}

#[test]
fn a_failed_condition_is_412_before_the_body_is_read() {
    let (server, _, tag) = stored();
    for condition in [
        "If-None-Match: *",
        "If-Match: \"x\"",
        &format!("If-None-Match: {tag}"),
    ] {
        for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
            let lines = format!("{framing}\r\nExpect: 100-continue\r\n{condition}\r\n");
            let mut raw = server.begin("PUT", "/k", &lines);
            let got = raw.answer();
            assert_eq!(got.status, 412, "{condition} {framing}: no 100 Continue");
            raw.assert_closed();
        }
    }
    server.dir.assert_holds(&["k"]);
    assert_eq!(server.dir.read("k"), b"value");
}

type Change<'a> = &'a dyn Fn(&mut Raw);

/// The value changes during the upload: another client replaces it, a program edits it, it is deleted, or it is the
/// first of its key.
#[test]
fn a_condition_that_fails_during_the_upload_is_412_at_commit() {
    // A store that refuses a long upload and hangs up may take its refusal along.
    let of_long: &[u16] = by_engine(&[412], &[412, 502]);
    for (length, refused) in [(100, &[412][..]), (1_000_000, of_long)] {
        let (server, mut other, tag) = stored();
        let changes: [(&str, Change<'_>); 4] = [
            ("replaced", &|other| {
                assert_eq!(ask(other, "PUT", "/k", "", b"newer").status, 200);
            }),
            ("replaced by hand", &|_| {
                server.dir.place("k", "by hand");
            }),
            ("deleted", &|other| {
                assert_eq!(ask(other, "DELETE", "/k", "", b"").status, 200);
            }),
            ("created", &|other| {
                assert_eq!(ask(other, "PUT", "/k", "", b"first").status, 200);
            }),
        ];
        let mut tag = tag;
        for (what, change) in changes {
            let condition = match &*tag {
                "" => "If-None-Match: *".to_owned(),
                tag => format!("If-Match: {tag}"),
            };
            let mut raw = server.ask_to_put("k", length, &format!("{condition}\r\n"));
            assert_eq!(raw.head().status, 100, "{what}: holds at the head");
            raw.send(vec![b'x'; length - 1]);
            change(&mut other);
            let after = get(&mut other, "");
            raw.send("x");
            let status = raw.answer().status;
            let is_right = refused.contains(&status);
            assert!(is_right, "{what}, {length} bytes: {status}");
            let now = get(&mut other, "");
            let found = (now.status, &now.body);
            assert_eq!(found, (after.status, &after.body), "{what}");
            server.dir.assert_nothing_staged();
            tag = now.header("etag").unwrap_or_default().to_owned();
        }
    }
}

#[test]
fn no_two_writes_share_a_tag_also_across_a_restart() {
    directory_only!("entity tags of single writes");
    let mut server = TestServer::start(&[]);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let mut raw = server.connect();
        for round in 0..100 {
            if round % 7 == 0 {
                ask(&mut raw, "DELETE", "/k", "", b"");
            }
            let put = etag(&ask(&mut raw, "PUT", "/k", "", b"same"));
            assert!(seen.insert(put.clone()), "{put} was another write's");
            if round % 5 == 0 {
                server.dir.place("k", "by a hand");
                let placed = etag(&get(&mut raw, ""));
                assert!(seen.insert(placed.clone()), "{placed} was another write's");
                // The same value has the same tag.
                assert_eq!(etag(&ask(&mut raw, "HEAD", "/k", "", b"")), placed);
            }
        }
        let dir = server.dir.clone();
        server.stop();
        server = Launch::new(&[]).on(&dir).start();
        let kept = etag(&server.get("k"));
        assert!(seen.contains(&kept), "a restart is no write");
    }
}

#[test]
fn put_get_head_and_the_listing_agree_on_tag_and_date() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for length in [0, 10, 30_000, 2_000_000] {
        let put = ask(&mut raw, "PUT", "/k", "", &vec![b'x'; length]);
        let (tag, modified) = (etag(&put), modified(&mut raw, &put));
        assert!(parse_http_date(&modified).expect("a date") <= SystemTime::now());
        for method in ["GET", "HEAD"] {
            let got = ask(&mut raw, method, "/k", "", b"");
            let found = (etag(&got), got.must("last-modified"));
            assert_eq!(found, (tag.clone(), &modified[..]));
            assert_eq!(got.length(), length);
        }
        let json = ask(&mut raw, "GET", "/?format=json", "", b"").json();
        let entry = json["keys"][0].as_object().expect("an object");
        assert_eq!(entry.len(), 4, "{entry:?}");
        assert_eq!(json["keys"][0]["etag"], tag.as_str());
        assert_eq!(json["keys"][0]["size"], length);
        let listed = json["keys"][0]["modified"].as_str().expect("a date");
        let listed = humantime::parse_rfc3339(listed).expect("a date of RFC 3339");
        assert_eq!(fmt_http_date(listed), modified);
    }
}

/// A precondition was refused where the server could not read the value, though the publisher decides it by the file's
/// name alone.
#[test]
fn a_precondition_takes_no_right_to_read() {
    directory_only!("a file without rights");
    let dir = DataDir::temporary();
    let server = needed!(served_by_nobody(&dir, "values that cannot be read"));
    let raw = || server.connect();
    let tag = etag(&ask(&mut raw(), "PUT", "/k", "", b"value"));
    let mode = fs::Permissions::from_mode(0o000);
    fs::set_permissions(dir.file("k"), mode).expect("a mode");
    assert_eq!(get(&mut raw(), "").status, 403);
    for (condition, status) in [
        ("If-None-Match: *\r\n", 412),
        ("If-Match: \"x\"\r\n", 412),
        (&format!("If-Match: {tag}\r\n"), 200),
    ] {
        let resumable = format!("{condition}Upload-Complete: ?0\r\n");
        let begun = Resumable::ask_to_create(&mut raw(), "k", &resumable, b"new").status;
        let expected = if status == 200 { 201 } else { status };
        assert_eq!(begun, expected, "{condition}");
        let put = ask(&mut raw(), "PUT", "/k", condition, b"other").status;
        assert_eq!(put, status, "{condition}");
    }
}
