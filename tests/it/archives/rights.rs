//! Who may have which members of an archive, by an oracle that knows the rules alone; and what the audit log tells of
//! them.

use super::{names_in, read, tar};
use crate::support::policy::{self, in_set, revise, rule, serve_on, subject};
use crate::support::prelude::*;

const RIGHTS: [&str; 4] = ["read", "list", "create", "write"];
const KEYS: [&str; 4] = ["d/a", "d/in/b", "d/in/old", "d/out/c"];

/// A subject for each set of rights, which has them to what begins with `d/in/`, and the first two to what begins with
/// `d/a`.
fn policy() -> String {
    let of = |set| {
        let name = format!("s{set}");
        let rules = rule(&name, "d/in/", &in_set(&RIGHTS, set));
        subject(&name) + &rules + &rule(&name, "d/a", &in_set(&RIGHTS[..2], set))
    };
    (0..16).map(of).collect()
}

fn bearer(set: usize) -> String {
    policy::bearer(&format!("s{set}"))
}

fn serve(dir: &DataDir, args: &[&str]) -> TestServer {
    serve_on(dir, &policy(), args)
}

/// Of a folder a client learns by its archive what it does by a listing.
#[test]
fn an_archive_does_not_tell_of_a_folder_that_the_client_may_not_list() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &[]);
    let status = |target: &str| {
        let target = format!("/{target}?archive=tar");
        server.request("GET", &target, &bearer(3), b"").status
    };
    dir.place("d/out/c", "v");
    // Some keys of both may be listed, and none is there.
    assert_eq!((status("d/"), status("d/in/")), (404, 404));
    dir.place("d/in/a", "v");
    assert_eq!((status("d/"), status("d/in/")), (200, 200));
}

#[test]
fn an_archive_has_the_keys_that_a_client_may_list_and_read() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &[]);
    for key in KEYS {
        dir.place(key, key);
    }
    let mut asked = 0;
    for set in 0..16 {
        for folder in ["", "d/", "d/in/", "d/out/"] {
            let target = format!("/{folder}?archive=tar");
            let may = in_set(&RIGHTS, set);
            let may_see = may.contains(&"read") && may.contains(&"list");
            let seen = KEYS
                .iter()
                .filter(|key| !key.starts_with("d/out/") && key.starts_with(folder));
            let seen: Vec<_> = seen
                .map(|key| (key[folder.len()..].to_owned(), key.as_bytes().to_vec()))
                .collect();
            let got = server.request("GET", &target, &bearer(set), b"");
            let says = format!("{may:?} {target}");
            if may_see && !seen.is_empty() {
                assert_eq!(got.status, 200, "{says}");
                assert_eq!(read(&got.body), seen, "{says}");
            } else {
                assert_eq!(got.status, 403, "{says}");
            }
            assert_eq!(server.request("GET", &target, "", b"").status, 401);
            let zip = server.request("GET", &target.replace("tar", "zip"), &bearer(set), b"");
            assert_eq!(zip.status, got.status, "{says}");
            if zip.status == 200 {
                let names = names_in(&zip.body);
                assert!(names.iter().eq(seen.iter().map(|(name, _)| name)), "{says}");
            }
            // Of all of them selected by name, and of their folder.
            let names = KEYS.iter().filter_map(|key| key.strip_prefix(folder));
            let names = names.map(|name| format!("&files={name}"));
            let names = names.collect::<Vec<_>>().concat();
            for names in [&names, "&files=in/&files=out/&files=a&files=d/"] {
                let got = server.request("GET", &(target.clone() + names), &bearer(set), b"");
                let is_seen = |(name, _): &&(String, _)| {
                    let folder = name.split_inclusive('/').next();
                    let folder = folder.map(|first| format!("&files={first}"));
                    names.contains(&format!("&files={name}"))
                        || folder.is_some_and(|it| names.contains(&it))
                };
                let seen: Vec<_> = seen.iter().filter(is_seen).cloned().collect();
                let may_ask = may_see && folder != "d/out/";
                match got.status {
                    200 => assert_eq!(read(&got.body), seen, "{says} {names}"),
                    404 => assert!(may_ask && seen.is_empty(), "{says} {names}"),
                    status => assert!(status == 403 && !may_ask, "{says} {names}"),
                }
            }
            asked += 4;
        }
    }
    say(&format!("{asked} archives have what the rules say"));
}

#[test]
fn the_audit_log_tells_of_each_member() {
    let dir = DataDir::temporary();
    let mut server = serve(&dir, &["--audit-log", "--threads", "1"]);
    let list = [
        ("in/a b", &b"1"[..]),
        ("in/b", b"2"),
        ("out/c", b"3"),
        ("in/d", b"4"),
    ];
    let put = server.request("PUT", "/d/?archive=tar", &bearer(8), &tar(list));
    put.says(403, "d/out/c: not allowed: this needs the right to create here; values stored before: 2 (2 bytes)");
    server.stop();
    let mut told = server.audited("subject result key");
    // Members are published together, and in an S3 store in any order.
    told.sort();
    let wanted = [
        "s8 changed /d/in/a%20b",
        "s8 changed /d/in/b",
        "s8 refused /d/out/c",
    ];
    assert_eq!(told, wanted);
}

/// The keys of a zip are counted before its first byte.
#[test]
fn a_right_that_is_revoked_before_the_first_byte_is_refused_as_a_get() {
    directory_only!("many values");
    let dir = DataDir::temporary();
    let server = serve(&dir, &["--threads", "1"]);
    for n in 0..20_000 {
        dir.place(&format!("d/in/{:02}/{n:05}", n % 50), "v");
    }
    let without = policy().replace("\"read\", ", "");
    for (rules, expected) in [(&*without, 403), ("", 401)] {
        revise(&server, &policy());
        let mut raw = server.connect();
        let lines = bearer(3);
        raw.begin("GET", "/d/?archive=zip", &lines);
        revise(&server, rules);
        let status = raw.head().status;
        assert!(status == expected || status == 200, "{status}");
    }
}

/// The client is in the middle of the first value.
#[test]
fn an_archive_breaks_off_where_the_right_to_read_is_revoked() {
    http1_only!("the last chunk");
    let without = policy().replace("\"read\", ", "");
    for (rules, problem) in [(without, "not-allowed"), (String::new(), "unauthenticated")] {
        let dir = DataDir::temporary();
        let mut server = serve(&dir, &["--threads", "1", "--audit-log"]);
        dir.place("d/in/b", pattern(1, 40_000_000));
        dir.place("d/in/c", "of others");
        let mut raw = Raw::connect_narrow(server.addr);
        let lines = bearer(15);
        raw.begin("GET", "/d/?archive=tar", &lines);
        assert_eq!(raw.head().status, 200);
        raw.take(1_000_000);
        revise(&server, &rules);
        let rest = raw.rest();
        let end = &rest[rest.len() - 100..];
        assert!(!end.ends_with(b"0\r\n\r\n"), "an end");
        let is_told = rest.windows(9).any(|it| it == b"of others");
        assert!(rest.len() > 38_000_000 && !is_told, "{}", rest.len());
        server.stop();
        assert_eq!(server.audited("problem"), [problem]);
    }
}

#[test]
fn a_right_that_is_revoked_ends_with_the_next_member() {
    let dir = DataDir::temporary();
    let server = serve(&dir, &[]);
    let whole = tar([("in/a", &b"1"[..]), ("in/b", b"2")]);
    let send = || {
        let mut raw = server.connect();
        let (lines, len) = (bearer(15), whole.len());
        let head = format!("PUT /d/?archive=tar HTTP/1.1\r\nHost: t\r\n{lines}");
        raw.send(format!("{head}Content-Length: {len}\r\n\r\n"));
        raw.send(&whole[..1024]);
        eventually("the first is stored", || dir.get("d/in/a").is_some());
        raw
    };
    for (rules, status) in [
        (
            policy().replace("\"list\", \"create\", \"write\"", "\"list\""),
            403,
        ),
        (String::new(), 401),
    ] {
        dir.clear();
        let mut raw = send();
        revise(&server, &rules);
        raw.send(&whole[1024..]);
        assert_eq!(raw.answer().status, status);
        assert!(dir.get("d/in/b").is_none());
        revise(&server, &policy());
    }
}
