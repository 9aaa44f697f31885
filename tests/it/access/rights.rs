//! Proves that what each subject may do is what the rules say, for each right, each operation and each kind of key, by
//! an oracle that knows the rules alone.

use super::{bearer, rule, serve, subject};
use crate::support::policy::in_set;
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

/// One request: its method, target and lines, the rights of which any is enough on its key, where it takes one, and
/// what it is answered when it is allowed.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    u16,
);

const FORM: &str = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 0\r\n";

const CREATES: &str = "If-None-Match: *\r\n";
const OTHERS: &str = "If-None-Match: \"x\"\r\n";
const SWAPS: &str = "If-Match: \"x\"\r\n";
const WAITS: &str = "Expect: 100-continue\r\n";

const CASES: &[Case] = &[
    ("GET", "/in/there", "", &["read"], 200),
    ("GET", "/in/open/there", "", &["read", "anonymous"], 200),
    ("GET", "/in/absent", "", &["read"], 404),
    ("GET", "/in%2Fthere", "", &["read"], 200),
    ("GET", "/out/there", "", &["never"], 200),
    ("GET", "/out/absent", "", &["never"], 404),
    ("HEAD", "/in/there", "", &["read"], 200),
    ("HEAD", "/out/absent", "", &["never"], 404),
    ("GET", "/in/there", "Range: bytes=0-0\r\n", &["read"], 206),
    ("GET", "/in/there", CREATES, &["read"], 304),
    ("PUT", "/in/new", "", &["create", "write"], 200),
    ("PUT", "/in/there", "", &["write"], 200),
    ("PUT", "/in/there", CREATES, &["create", "write"], 412),
    ("PUT", "/in/there", "If-Match: *\r\n", &["never"], 200),
    ("PUT", "/in/there", OTHERS, &["never"], 200),
    ("PUT", "/out/new", "", &["never"], 200),
    ("PUT", "/out/there", WAITS, &["never"], 200),
    ("DELETE", "/in/gone", "", &["delete"], 404),
    ("DELETE", "/in/there", SWAPS, &["never"], 412),
    ("DELETE", "/out/gone", "", &["never"], 404),
    ("GET", "/?prefix=in/", "", &["list"], 200),
    ("GET", "/?prefix=i", "", &["list"], 200),
    ("GET", "/?prefix=in/x", "", &["list"], 200),
    ("GET", "/", "", &["list"], 200),
    ("GET", "/in/", "", &["list"], 200),
    ("GET", "/in/", "Accept: text/html\r\n", &["list"], 200),
    ("GET", "/?prefix=out/", "", &["never"], 200),
    ("GET", "/out/", "", &["never"], 200),
    ("GET", "/-/watch?prefix=out", "", &["never"], 200),
    ("GET", "/-/metrics", "", &["metrics"], 200),
    ("GET", "/-/healthz", "", &[], 200),
    ("GET", "/-/ready", "", &[], 200),
    ("OPTIONS", "/in/there", "", &[], 204),
    ("POST", "/-/upload", FORM, &[], 400),
    // It takes two rights, and a subject with `shares`.
    ("POST", "/in/there?share", "", &["never"], 200),
    ("POST", "/out/there?share", "", &["never"], 200),
    ("GET", "/-/none", "", &[], 404),
    ("PATCH", "/in/there", "Content-Length: 0\r\n", &[], 405),
];

/// With `--compat`, where keys have one segment and nothing is listed.
const COMPAT: &[Case] = &[
    ("GET", "/in-there", "", &["read"], 200),
    ("GET", "/in-absent", "", &["read"], 404),
    ("GET", "/out-there", "", &["never"], 200),
    ("GET", "/out-absent", "", &["never"], 404),
    ("HEAD", "/in-there", "", &["read"], 200),
    ("GET", "/in-there", "Range: bytes=0-0\r\n", &["read"], 206),
    ("PUT", "/in-new", "", &["create", "write"], 200),
    ("PUT", "/in-there", "", &["write"], 200),
    ("PUT", "/out-new", "", &["never"], 200),
    ("PUT", "/out-there", "", &["never"], 200),
    ("DELETE", "/in-gone", "", &["delete"], 404),
    ("DELETE", "/out-gone", "", &["never"], 404),
    ("GET", "/-/metrics", "", &["metrics"], 200),
    ("GET", "/-/watch?prefix=out", "", &["never"], 200),
    ("GET", "/-/healthz", "", &[], 200),
    // What is no key, or no request, takes no right.
    ("GET", "/", "", &[], 404),
    ("GET", "/in-there/", "", &[], 404),
    ("GET", "/in-there/x", "", &[], 404),
    ("PUT", "/in-new/x", "", &[], 204),
    ("PUT", "/", "", &[], 204),
    ("PUT", "/in-there", "", &[], 304),
    ("PUT", "/out-there", "", &[], 304),
    ("OPTIONS", "/in-there", "", &[], 404),
    ("POST", "/-/upload", FORM, &[], 404),
    ("POST", "/in-there?share", "", &[], 404),
    ("PATCH", "/in-there", "Content-Length: 0\r\n", &[], 404),
];

/// What the rules say of `case`, for the client of this name, or one that proves nothing.
fn expected(case: &Case, who: Option<&str>) -> u16 {
    let (_, _, _, needs, good) = case;
    match who {
        _ if needs.is_empty() || needs.contains(&who.unwrap_or("anonymous")) => *good,
        None => 401,
        Some(_) => 403,
    }
}

#[test]
fn each_subject_may_do_what_the_rules_say_and_nothing_else() {
    let server = serve(&policy(), &[]);
    server.dir.place("in/open/there", "v");
    obeys(&server, "in/", "out/", CASES);
    // One that fails to prove itself has not even the rights of anonymous clients.
    let unknown = server.request("GET", "/in/open/there", &bearer("unknown"), b"");
    assert_eq!(unknown.status, 401);
}

/// The older server's answers come after the same decisions.
#[test]
fn with_compat_the_rules_say_the_same() {
    directory_only!("the mode of the C server");
    let server = serve(&policy_of("in-"), &["--compat"]);
    obeys(&server, "in-", "out-", COMPAT);
}

/// Asks all `cases` as each subject. Keys that begin with `inside` are those that there is a right to.
fn obeys(server: &TestServer, inside: &str, outside: &str, cases: &[Case]) {
    let (dir, there) = (&server.dir, format!("{inside}there"));
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
            let (method, target, lines, _, good) = *case;
            let body: &[u8] = if method == "PUT" && good != 304 {
                b"w"
            } else {
                b""
            };
            let proof = who.map_or(String::new(), bearer);
            let answer = ask(&mut connection, method, target, &(proof + lines), body);
            let asks = format!("{method} {target} {lines:?} by {who:?}");
            assert_eq!(answer.status, expected(case, who), "{asks}");
            assert!(dir.read(&there) == b"v" || answer.status == 200, "{asks}");
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
fn one_who_may_create_stores_a_long_value() {
    let server = serve(&policy(), &[]);
    let long = vec![b'x'; 3_000_000];
    let put = server.request("PUT", "/in/c", &bearer("create"), &long);
    assert_eq!(put.status, 200);
    assert_eq!(server.dir.read("in/c"), long);
}

/// Two writers of a key that is not there, of which neither may replace: one of them stores it.
#[test]
fn of_two_who_may_create_one_does() {
    let server = serve(&policy(), &[]);
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
    let stored = server.dir.read("in/one");
    assert!(stored == b"aa" || stored == b"bb", "{stored:?}");
}

/// The request was refused, and ended the one under way all the same.
#[test]
fn a_request_that_is_refused_does_not_end_anothers_upload() {
    directory_only!("resumable uploads");
    let policy = subject("ann")
        + &subject("bob")
        + &rule("ann", "ann/", &["write"])
        + &rule("ann", "", &["metrics"]);
    let server = serve(&policy, &[]);
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
    let server = serve(&(subject("ann") + &rule("ann", "", &["read"])), &[]);
    server.dir.place("k", "v");
    let mut raw = server.connect();
    for query in ["my_signature=abc", "a=signature=b"] {
        let answer = ask(&mut raw, "GET", &format!("/k?{query}"), &bearer("ann"), b"");
        assert_eq!(answer.status, 200, "{query}");
    }
    let answer = ask(&mut raw, "GET", "/k?signature=abc", &bearer("ann"), b"");
    assert_eq!(answer.status, 403);
}

/// For each set of rights to what begins with `in/`, and for folders in, above and beside it.
#[test]
fn folders_are_made_and_removed_as_the_rules_say() {
    const SET: [&str; 5] = ["read", "create", "write", "delete", "list"];
    directory_only!("folders of the directory");
    let name = |set: usize| format!("set{set}");
    let mut policy = String::from("realm = \"tests\"\n");
    for set in 0..1 << SET.len() {
        policy += &subject(&name(set));
        policy += &rule(&name(set), "in/", &in_set(&SET, set));
    }
    let server = serve(&policy, &[]);
    let (dir, mut asked) = (&server.dir, 0);
    for set in 0..1 << SET.len() {
        let rights = in_set(&SET, set);
        let may_make = rights.contains(&"create") || rights.contains(&"write");
        let may_remove = rights.contains(&"delete") && rights.contains(&"list");
        for (method, target, lines, is_in, good) in [
            ("MKCOL", "/in/f", "", true, 201),
            ("MKCOL", "/in/f/g/", "", true, 409),
            ("MKCOL", "/in/there/", "", true, 405),
            ("MKCOL", "/in", "", true, 405),
            ("MKCOL", "/i", "", false, 201),
            ("MKCOL", "/in-", "", false, 201),
            ("MKCOL", "/out/f", "", false, 201),
            ("MKCOL", "/out/there/", "", false, 405),
            ("DELETE", "/in/there/", "", true, 409),
            ("DELETE", "/in/there/", "Depth: infinity\r\n", true, 200),
            ("DELETE", "/in/gone/", "Depth: infinity\r\n", true, 404),
            ("DELETE", "/in/", "Depth: infinity\r\n", true, 200),
            ("DELETE", "/out/there/", "Depth: infinity\r\n", false, 200),
            ("DELETE", "/out/there/", "", false, 409),
        ] {
            dir.place("in/there/k", "v");
            dir.place("out/there/k", "v");
            let proof = bearer(&name(set));
            let answer = server.request(method, target, &(proof + lines), b"");
            let may = if method == "MKCOL" {
                may_make
            } else {
                may_remove
            };
            let expected = if is_in && may { good } else { 403 };
            assert_eq!(
                answer.status, expected,
                "{method} {target} {lines:?} by {rights:?}"
            );
            let removed = method == "DELETE" && expected == 200;
            assert_eq!(dir.file("in/there/k").exists(), !removed);
            assert_eq!(
                dir.file("in/f").exists(),
                method == "MKCOL" && expected == 201
            );
            assert!(dir.file("out/there/k").exists());
            assert!(!dir.file("i").exists() && !dir.file("in-").exists());
            let _ = fs::remove_dir(dir.file("in/f"));
            asked += 1;
        }
        let nobody = server.request("MKCOL", "/in/f", "", b"");
        assert_eq!(nobody.status, 401);
        let nobody = server.request("DELETE", "/in/", "Depth: infinity\r\n", b"");
        assert_eq!(nobody.status, 401);
    }
    say(&format!(
        "{asked} requests for folders answered as the rules say"
    ));
}
