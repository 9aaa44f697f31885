//! Proves that `--audit-log` tells of each change and of each refusal of who asks, once, and that no secret is in any
//! output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{basic, bearer, rule, sign, subject, token, with_password, write};
use crate::support::form::{FOLDER, REPLACE, file};
use crate::support::prelude::*;

/// What signs links here.
const SECRET: &str = "planted-secret-of-links-0123456789abcdef";

const PASSWORD: &str = "planted password";

fn policy() -> String {
    let hash = bcrypt::hash(PASSWORD, 4).expect("a hash");
    let all = ["read", "write", "delete", "list", "metrics"];
    [
        subject("ann"),
        subject("carl"),
        with_password("bob", &hash),
        rule("ann", "", &all),
        rule("carl", "in/a", &["write"]),
        rule("carl", "in/c", &["write"]),
        rule("carl", "in/up", &["write"]),
        rule("bob", "", &["read"]),
        "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n".to_owned(),
    ]
    .concat()
}

fn start(dir: &DataDir, args: &[&str]) -> TestServer {
    dir.write_private("k1.key", SECRET);
    let path = &*write(dir, &policy());
    Launch::new(&[&["--access", path, "--threads", "1"], args].concat())
        .env("DATA_SERVER_PANIC", "work:/boom")
        .on(dir)
        .start()
}

/// The status of a request on a connection of its own.
fn status(server: &TestServer, method: &str, target: &str, lines: &str, body: &[u8]) -> u16 {
    server.request(method, target, lines, body).status
}

/// Posts a form with two files, and these besides.
fn post(server: &TestServer, who: &str, others: &[&str]) -> u16 {
    let names = ["a b", "c"].iter().chain(others).map(|name| file(name));
    let names: Vec<_> = names.collect();
    let parts = [(FOLDER, &b"in/"[..]), (REPLACE, b"1")];
    let files = names.iter().map(|name| (&**name, &b"value"[..]));
    let parts: Vec<_> = parts.into_iter().chain(files).collect();
    server.post(&bearer(who), &parts).status
}

/// The events of the audit log for requests, each in a line.
fn told(server: &TestServer) -> Vec<String> {
    let audit = server.logged("audit").into_iter();
    audit
        .filter(|event| event.has("peer"))
        .map(|event| {
            assert!(!event.field("request_id").is_empty(), "{event:?}");
            assert!(event.field("peer").starts_with("127.0.0."), "{event:?}");
            let names = ["subject", "by", "result", "method", "key", "status"];
            let mut said = names.map(|name| event.field(name)).join(" ");
            if event.has("problem") {
                said = format!("{said} {}", event.field("problem"));
            }
            said
        })
        .collect()
}

#[test]
fn each_change_and_each_refusal_is_told_once() {
    let dir = DataDir::temporary();
    let mut server = start(&dir, &["--audit-log", "--access-log"]);
    let (ann, carl) = (bearer("ann"), bearer("carl"));
    let by_token = basic("x", &token("ann"));
    let by_password = basic("bob", PASSWORD);
    let did =
        |method, target: &str, lines: &str, body| status(&server, method, target, lines, body);
    assert_eq!(did("PUT", "/a?x=planted", &ann, b"v"), 200);
    // As its client writes it.
    assert_eq!(did("PUT", "/%61", &by_token, b"v"), 200);
    assert_eq!(did("GET", "/a", &ann, b""), 200);
    let found = did("PUT", "/a", &(ann.clone() + "If-None-Match: *\r\n"), b"v");
    assert_eq!(found, 412);
    assert_eq!(did("DELETE", "/a", &ann, b""), 200);
    assert_eq!(did("DELETE", "/a", &ann, b""), 404);
    assert_eq!(did("GET", "/a", "", b""), 401);
    assert_eq!(did("GET", "/a", &bearer("unknown"), b""), 401);
    assert_eq!(did("GET", "/a", &by_password, b""), 404);
    assert_eq!(did("PUT", "/b%20b", &by_password, b"v"), 403);
    let found = did("PUT", &sign(&dir, "k1", "/b", &["--put"]), "", b"v");
    assert_eq!(found, 200);
    let found = did("GET", &(sign(&dir, "k1", "/b", &[]) + "x"), "", b"");
    assert_eq!(found, 403);
    let foreign = format!("{ann}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(did("PUT", "/b", &foreign, b"v"), 403);
    assert_eq!(did("PUT", "/boom", &ann, b"v"), 500);
    assert_eq!(did("GET", "/boom", &ann, b""), 500);
    assert_eq!(post(&server, "carl", &[]), 200);
    assert_eq!(post(&server, "carl", &["d"]), 403);
    // A store has no resumable uploads.
    for ends in by_engine(&["PATCH", "DELETE"][..], &[]).iter().copied() {
        let lines = format!("{carl}Upload-Complete: ?0\r\n");
        let made = server.request("PUT", "/in/up%20", &lines, b"1");
        assert_eq!(made.status, 201);
        let upload = Resumable::of_key(&made, "in/up%20").path;
        let part = "Content-Type: application/partial-upload\r\nUpload-Offset: 1\r\nUpload-Complete: ?1\r\nContent-Length: 1\r\n";
        let (lines, body): (_, &[u8]) = match ends {
            "PATCH" => (carl.clone() + part, b"2"),
            _ => (carl.clone(), b""),
        };
        assert!(did(ends, &upload, &lines, body) < 300);
    }
    server.signal(Signal::HUP);
    assert_eq!(server.event("reload: access reread").target, "audit");
    server.stop();
    let mut expected = vec![
        "ann token changed PUT /a 200",
        "ann token changed PUT /%61 200",
        "ann token changed DELETE /a 200",
        "anonymous nothing refused GET /a 401 unauthenticated",
        "- nothing refused GET /a 401 unauthenticated",
        "bob password refused PUT /b%20b 403 not-allowed",
        "link:k1 link changed PUT /b 200",
        "- nothing refused GET /b 403 bad-link",
        "- nothing refused PUT /b 403 cross-site",
        "ann token unknown PUT /boom 500",
        "carl token changed POST /in/a%20b 200",
        "carl token changed POST /in/c 200",
        "carl token changed POST /in/a%20b 403",
        "carl token changed POST /in/c 403",
        "carl token refused POST /in/d 403 not-allowed",
        "carl token changed PATCH /in/up%20 200",
        "carl token changed DELETE /in/up%20 204",
    ];
    if is_s3() {
        expected.truncate(expected.len() - 2);
    }
    let said = told(&server);
    let is_complete = |at: &usize| said.get(*at).map(String::as_str) == expected.get(*at).copied();
    let first = (0..said.len().max(expected.len())).find(|at| !is_complete(at));
    assert_eq!(first, None, "{said:#?}");
    // The access log has the subject of each request that proves one.
    let lines = server.logged("access").into_iter();
    let subjects = lines.map(|line| line.has("subject").then(|| line.field("subject")));
    let expected = words("ann ann ann ann ann ann anonymous - bob bob link:k1");
    let expected = expected
        .into_iter()
        .map(|who| (who != "-").then(|| who.to_owned()));
    let seen: Vec<_> = subjects.take(11).collect();
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn a_subject_whose_password_is_tried_is_told_and_no_other_name() {
    let dir = DataDir::temporary();
    let mut server = start(&dir, &["--audit-log"]);
    // A password in the place of the name is no rare mistake.
    for (name, password) in [("bob", "wrong"), (PASSWORD, "x"), ("bob", PASSWORD)] {
        status(&server, "GET", "/none", &basic(name, password), b"");
    }
    status(&server, "PUT", "/none", &basic("bob", PASSWORD), b"v");
    server.stop();
    let log = server.log();
    let tried = server.audited("tried");
    assert_eq!(tried, ["bob", "-", "-"]);
    assert!(!log.iter().any(|line| line.contains(PASSWORD)), "{log:#?}");
}

#[test]
fn who_has_to_wait_is_told_and_a_password_that_no_subject_has() {
    let dir = DataDir::temporary();
    let text = subject("ann") + &rule("ann", "", &["read"]);
    let path = &*write(&dir, &text);
    let mut server = Launch::new(&["--access", path, "--audit-log", "--threads", "1"])
        .on(&dir)
        .start();
    let pair = basic("ann", "none");
    let answers = (0..15).map(|_| status(&server, "GET", "/a", &pair, b""));
    let answers: Vec<_> = answers.collect();
    server.stop();
    assert!(
        answers.contains(&429),
        "a wrong password is a failure also where there are none: {answers:?}"
    );
    let problem = |status| match status {
        401 => "unauthenticated",
        429 => "too-many-failures",
        _ => panic!("{answers:?}"),
    };
    let answered = answers.iter().copied();
    let expected: Vec<_> = answered
        .map(|status| format!("- nothing refused GET /a {status} {}", problem(status)))
        .collect();
    assert_eq!(told(&server), expected);
}

#[test]
fn changes_are_told_without_rules_and_without_an_access_log() {
    let mut server = TestServer::start(&["--audit-log"]);
    for at in 0..5 {
        assert_eq!(status(&server, "PUT", &format!("/{at}"), "", b"v"), 200);
        assert_eq!(status(&server, "GET", &format!("/{at}"), "", b""), 200);
    }
    server.stop();
    let expected = (0..5).map(|at| format!("- nothing changed PUT /{at} 200"));
    let expected: Vec<_> = expected.collect();
    assert_eq!(told(&server), expected);
    assert_eq!(server.logged("access").len(), 0);
}

#[test]
fn no_output_has_a_secret() {
    for format in ["fields", "full", "combined"] {
        assert_has_no_secret(format);
    }
}

/// The output with this format of the access log.
fn assert_has_no_secret(format: &str) {
    let dir = DataDir::temporary();
    let args = format!(
        "--audit-log --access-log --access-log-format {format} --log-level trace --server-timing"
    );
    let mut server = start(&dir, &words(&args));
    let link = sign(&dir, "k1", "/a", &[]);
    let signature = link.split_once("signature=").expect("a signature").1;
    let signature = signature.to_owned();
    let bad_link = format!("{link}x");
    let (wrong_token, wrong_password) = (token("planted"), "planted guess");
    let fields = [
        String::new(),
        bearer("ann"),
        bearer("planted"),
        basic("x", &token("ann")),
        basic("bob", PASSWORD),
        basic("bob", wrong_password),
        basic("planted", PASSWORD),
        // Malformed, several, of another scheme.
        format!("Authorization: Bearer {wrong_token} {PASSWORD}\r\n"),
        format!("Authorization: {wrong_token}\r\n"),
        format!("Authorization: Digest {wrong_token}\r\n"),
        bearer("ann") + &basic("bob", PASSWORD),
        bearer("ann") + "Host: t\r\n",
        bearer("ann") + "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n",
        bearer("ann") + "Content-Length: x\r\n",
        bearer("ann") + "Accept: application/problem+json\r\n",
        bearer("ann") + &format!("Referer: http://t{link}\r\n"),
    ];
    let mut statuses = Vec::new();
    for lines in &fields {
        for method in ["GET", "PUT", "DELETE", "POST", "BREW"] {
            let query = format!("/a?token={wrong_token}");
            for target in ["/a", "/boom", "/-/metrics", "/", &query, &link, &bad_link] {
                // By hand: some are refused before they are read whole.
                let mut connection = server.begin(method, target, lines);
                statuses.push(connection.answer().status);
            }
        }
    }
    for status in [200, 400, 401, 403, 404, 405, 429, 500] {
        assert!(statuses.contains(&status), "none was answered {status}");
    }
    // A bad file: it has a password in place of a hash, and a token in place of its digest.
    write(&dir, &with_password("a", PASSWORD));
    server.signal(Signal::HUP);
    server.event("reload: access not reread: the old rules stay");
    let metrics = Scrape::over(&mut server.connect(), &bearer("ann"));
    server.stop();
    let outputs = [
        server.log().join("\n"),
        server.stdout().join("\n"),
        metrics.text,
    ];
    assert!(outputs[0].contains("a request panicked"));
    let pair = |name: &str, password: &str| STANDARD.encode(format!("{name}:{password}"));
    for secret in [
        token("ann"),
        wrong_token,
        PASSWORD.to_owned(),
        wrong_password.to_owned(),
        SECRET.to_owned(),
        pair("x", &token("ann")),
        pair("bob", PASSWORD),
        pair("bob", wrong_password),
        pair("planted", PASSWORD),
        signature,
    ] {
        for output in &outputs {
            let found = output.lines().find(|line| line.contains(&secret));
            assert_eq!(found, None, "{secret}");
        }
    }
}

/// Ends a server by a signal that has the kernel write a core, in a directory where it may be written; whether there is
/// one.
fn leaves_a_core(args: &[&str]) -> bool {
    let (dir, place) = (DataDir::temporary(), DataDir::temporary());
    let at = place.path().to_str().expect("text");
    // Landlock would refuse the file of a core, too.
    let args = [args, &["--sandbox", "off"]].concat();
    let mut server = Launch::new(&args)
        .on(&dir)
        .through(&["env", "-C", at, "prlimit", "--core=unlimited"])
        .start();
    server.signal(Signal::ABORT);
    assert_eq!(server.exit(), None, "the signal ends it");
    let mut files = fs::read_dir(at).expect("the directory");
    files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("core")))
}

#[test]
fn no_core_has_a_secret() {
    if !leaves_a_core(&[]) {
        left_out("cores", "this system writes none where a process is");
        return;
    }
    let place = DataDir::temporary();
    let path = &*write(&place, &(subject("ann") + &rule("ann", "", &["read"])));
    assert!(!leaves_a_core(&["--access", path]));
}
