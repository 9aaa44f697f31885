//! Proves that what each subject may do is what the rules say, for each right, each operation and each kind of key, by an
//! oracle that knows the rules alone.

use super::{bearer, rule, serve, subject};
use crate::support::prelude::*;

const RIGHTS: [&str; 8] = [
    "read", "create", "write", "delete", "list", "watch", "link", "metrics",
];

/// Who asks in these tests: each has one right to the keys that begin with `in/`.
fn policy() -> String {
    policy_of("in/")
}

/// The same, where `prefix` is what the keys begin with.
fn policy_of(prefix: &str) -> String {
    let mut text = String::from("realm = \"tests\"\n");
    for right in RIGHTS {
        text += &subject(right);
    }
    text += &subject("nothing");
    for right in RIGHTS {
        text += &rule(right, prefix, &[right]);
    }
    text += &rule("anonymous", &format!("{prefix}open/"), &["read"]);
    text
}

/// One request, and the right that it takes on its key, if it takes one.
struct Case {
    method: &'static str,
    target: &'static str,
    lines: &'static str,
    /// Any of these is enough; none is needed where there are none.
    needs: &'static [&'static str],
    /// What it is answered when it is allowed.
    good: u16,
    body: &'static [u8],
}

const fn case(
    method: &'static str,
    target: &'static str,
    lines: &'static str,
    needs: &'static [&'static str],
    good: u16,
) -> Case {
    let body: &[u8] = match method.as_bytes() {
        b"PUT" => b"w",
        _ => b"",
    };
    Case {
        method,
        target,
        lines,
        needs,
        good,
        body,
    }
}

impl Case {
    const fn empty(self) -> Self {
        Self { body: b"", ..self }
    }
}

const FORM: &str = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 0\r\n";

const CREATES: &str = "If-None-Match: *\r\n";
const SWAPS: &str = "If-Match: \"x\"\r\n";
const WAITS: &str = "Expect: 100-continue\r\n";

const CASES: &[Case] = &[
    case("GET", "/in/there", "", &["read"], 200),
    case("GET", "/in/absent", "", &["read"], 404),
    case("GET", "/in%2Fthere", "", &["read"], 200),
    case("GET", "/out/there", "", &["never"], 200),
    case("GET", "/out/absent", "", &["never"], 404),
    case("HEAD", "/in/there", "", &["read"], 200),
    case("HEAD", "/out/absent", "", &["never"], 404),
    case("GET", "/in/there", "Range: bytes=0-0\r\n", &["read"], 206),
    case("GET", "/in/there", CREATES, &["read"], 304),
    case("PUT", "/in/new", "", &["create", "write"], 200),
    case("PUT", "/in/there", "", &["write"], 200),
    case("PUT", "/in/there", CREATES, &["create", "write"], 412),
    case("PUT", "/in/there", "If-Match: *\r\n", &["never"], 200),
    case("PUT", "/out/new", "", &["never"], 200),
    case("PUT", "/out/there", WAITS, &["never"], 200),
    case("DELETE", "/in/gone", "", &["delete"], 404),
    case("DELETE", "/in/there", SWAPS, &["never"], 412),
    case("DELETE", "/out/gone", "", &["never"], 404),
    case("GET", "/?prefix=in/", "", &["list"], 200),
    case("GET", "/", "", &["list"], 200),
    case("GET", "/in/", "", &["list"], 200),
    case("GET", "/in/", "Accept: text/html\r\n", &["list"], 200),
    case("GET", "/?prefix=out/", "", &["never"], 200),
    case("GET", "/out/", "", &["never"], 200),
    case("GET", "/-/watch?prefix=out", "", &["never"], 200),
    case("GET", "/-/metrics", "", &["metrics"], 200),
    case("GET", "/-/healthz", "", &[], 200),
    case("GET", "/-/ready", "", &[], 200),
    case("OPTIONS", "/in/there", "", &[], 204),
    case("POST", "/-/upload", FORM, &[], 400),
    case("GET", "/-/none", "", &[], 404),
    case("PATCH", "/in/there", "Content-Length: 0\r\n", &[], 405),
];

/// With `--compat`, where keys have one segment and nothing is listed.
const COMPAT: &[Case] = &[
    case("GET", "/in-there", "", &["read"], 200),
    case("GET", "/in-absent", "", &["read"], 404),
    case("GET", "/out-there", "", &["never"], 200),
    case("GET", "/out-absent", "", &["never"], 404),
    case("HEAD", "/in-there", "", &["read"], 200),
    case("GET", "/in-there", "Range: bytes=0-0\r\n", &["read"], 206),
    case("PUT", "/in-new", "", &["create", "write"], 200),
    case("PUT", "/in-there", "", &["write"], 200),
    case("PUT", "/out-new", "", &["never"], 200),
    case("PUT", "/out-there", "", &["never"], 200),
    case("DELETE", "/in-gone", "", &["delete"], 404),
    case("DELETE", "/out-gone", "", &["never"], 404),
    case("GET", "/-/metrics", "", &["metrics"], 200),
    case("GET", "/-/watch?prefix=out", "", &["never"], 200),
    case("GET", "/-/healthz", "", &[], 200),
    // What is no key, or no request, takes no right.
    case("GET", "/", "", &[], 404),
    case("GET", "/in-there/", "", &[], 404),
    case("GET", "/in-there/x", "", &[], 404),
    case("PUT", "/in-new/x", "", &[], 204),
    case("PUT", "/", "", &[], 204),
    case("PUT", "/in-there", "", &[], 304).empty(),
    case("PUT", "/out-there", "", &[], 304).empty(),
    case("OPTIONS", "/in-there", "", &[], 404),
    case("POST", "/-/upload", FORM, &[], 404),
    case("PATCH", "/in-there", "Content-Length: 0\r\n", &[], 404),
];

/// What the rules say of `case`, for the client of this name, or one that proves nothing.
fn expected(case: &Case, who: Option<&str>) -> u16 {
    let is_allowed = match who {
        Some(name) => case.needs.contains(&name),
        None => false,
    };
    match who {
        _ if is_allowed || case.needs.is_empty() => case.good,
        Some(_) => 403,
        None => 401,
    }
}

#[test]
fn each_subject_may_do_what_the_rules_say_and_nothing_else() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &policy(), &[]);
    obeys(&server, &dir, "in/", "out/", CASES);
}

/// The older server's answers come after the same decisions.
#[test]
fn with_compat_the_rules_say_the_same() {
    directory_only!("the mode of the C server");
    let dir = DataDir::temporary();
    let server = serve(&dir, &policy_of("in-"), &["--compat"]);
    obeys(&server, &dir, "in-", "out-", COMPAT);
}

/// Asks all `cases` as each subject. Keys that begin with `inside` are those that there is a right to.
fn obeys(server: &TestServer, dir: &DataDir, inside: &str, outside: &str, cases: &[Case]) {
    let there = format!("{inside}there");
    let beyond = format!("{outside}there");
    for key in [&there, &beyond] {
        dir.place(key, "v");
    }
    let mut asked = 0;
    let mut who = RIGHTS.map(Some).to_vec();
    who.extend([Some("nothing"), None]);
    for who in who {
        // One connection for all: what it proved once is not what it may do.
        let mut connection = server.connect();
        for case in cases {
            let lines = who.map_or(String::new(), bearer) + case.lines;
            let answer = ask(&mut connection, case.method, case.target, &lines, case.body);
            let asks = format!(
                "{} {} {:?} by {who:?}",
                case.method, case.target, case.lines
            );
            assert_eq!(answer.status, expected(case, who), "{asks}");
            let challenged = answer.header("www-authenticate").is_some();
            assert_eq!(challenged, answer.status == 401, "{asks}");
            if answer.closes() {
                connection = server.connect();
            }
            asked += 1;
            dir.remove(&format!("{inside}new"));
            dir.place(&there, "v");
        }
    }
    assert_eq!(dir.read(&beyond), b"v");
    say(&format!("{asked} requests answered as the rules say"));
}

#[test]
fn anonymous_clients_have_the_rights_of_anonymous_alone() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &policy(), &[]);
    dir.place("in/open/key", "v");
    dir.place("in/key", "v");
    let mut connection = server.connect();
    let mut get = |target, lines: &str| ask(&mut connection, "GET", target, lines, b"").status;
    assert_eq!(get("/in/open/key", ""), 200);
    assert_eq!(get("/in/key", ""), 401);
    // Another subject has them only where a rule says so; one that fails to prove itself has none.
    assert_eq!(get("/in/open/key", &bearer("list")), 403);
    assert_eq!(get("/in/open/key", &bearer("unknown")), 401);
    assert_eq!(get("/in/open/key", ""), 200);
    assert_eq!(get("/in/key", &bearer("read")), 200);
}

#[test]
fn one_who_may_create_never_replaces() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &policy(), &[]);
    let create = bearer("create");
    // A refused upload is not read: its connection ends.
    let put = |target, lines: &str, body: &[u8]| {
        let lines = create.clone() + lines;
        server.request("PUT", target, &lines, body).status
    };
    assert_eq!(put("/in/a", "", b"first"), 200);
    assert_eq!(put("/in/a", "", b"second"), 403);
    assert_eq!(put("/in/a", "If-None-Match: *\r\n", b"second"), 412);
    assert_eq!(put("/in/a", "If-None-Match: \"x\"\r\n", b"second"), 403);
    assert_eq!(put("/in/a", "If-Match: *\r\n", b"second"), 403);
    assert_eq!(put("/in/b", "If-None-Match: *\r\n", b"first"), 200);
    let long = vec![b'x'; 3_000_000];
    assert_eq!(put("/in/c", "", &long), 200);
    assert_eq!(dir.read("in/a"), b"first");
    assert_eq!(dir.read("in/c"), long);
}

/// Two writers of a key that is not there, of which neither may replace: one of them stores it.
#[test]
fn of_two_who_may_create_one_does() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &policy(), &[]);
    let begin = |body: &str| {
        let mut raw: Raw = server.connect();
        let create = bearer("create");
        raw.send(format!(
            "PUT /in/one HTTP/1.1\r\nHost: t\r\n{create}Content-Length: 2\r\n\r\n{body}"
        ));
        raw
    };
    let (mut first, mut second) = (begin("a"), begin("b"));
    first.send("a");
    second.send("b");
    let mut answers = [first.answer().status, second.answer().status];
    answers.sort_unstable();
    assert_eq!(answers, [200, 403]);
    let stored = dir.read("in/one");
    assert!(stored == b"aa" || stored == b"bb", "{stored:?}");
}

/// The request was refused, and ended the one under way all the same.
#[test]
fn a_request_that_is_refused_does_not_end_anothers_upload() {
    directory_only!("resumable uploads");
    let dir = DataDir::temporary();
    let policy = subject("ann")
        + &subject("bob")
        + &rule("ann", "ann/", &["write"])
        + &rule("ann", "", &["metrics"]);
    let server = serve(&dir, &policy, &[]);
    let ann = bearer("ann");
    let upload = Resumable::create(&mut server.connect(), "ann/k", &ann, b"x");
    let mut under_way = server.connect();
    let head = upload.append_head(1, true, 4);
    under_way.send(head.replace("\r\n\r\n", &format!("\r\n{ann}\r\n")));
    under_way.send("ab");
    eventually("it is received", || {
        let scrape = Scrape::over(&mut server.connect(), &ann);
        scrape.only("data_server_uploads_in_flight") > 0.0
    });
    for method in ["HEAD", "DELETE"] {
        let mut raw = server.connect();
        let status = ask(&mut raw, method, &upload.path, &bearer("bob"), b"").status;
        assert_eq!(status, 403);
        assert_eq!(ask(&mut raw, method, &upload.path, "", b"").status, 401);
    }
    let refused = upload.append_with(&mut server.connect(), 1, true, &bearer("bob"), b"evil");
    assert_eq!(refused.status, 403);
    under_way.send("cd");
    assert_eq!(under_way.answer().status, 200);
    assert_eq!(server.dir.read("ann/k"), b"xabcd");
}

#[test]
fn a_query_whose_parameter_only_ends_like_a_links_is_ignored() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &(subject("ann") + &rule("ann", "", &["read"])), &[]);
    server.dir.place("k", "v");
    let mut raw = server.connect();
    for query in ["my_signature=abc", "a=signature=b"] {
        let answer = ask(&mut raw, "GET", &format!("/k?{query}"), &bearer("ann"), b"");
        assert_eq!(answer.status, 200, "{query}");
    }
    let answer = ask(&mut raw, "GET", "/k?signature=abc", &bearer("ann"), b"");
    assert_eq!(answer.status, 403);
}
