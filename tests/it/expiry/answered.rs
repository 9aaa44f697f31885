//! What of a PUT is taken for an end, how long it is kept, and how it is told.

use super::{NOTE, now, put};
use crate::support::form::file;
use crate::support::prelude::*;
use crate::support::s3::Stub;

fn end_of(got: &Response) -> u64 {
    assert_eq!(got.status, 200);
    got.must("x-delete-at").parse().expect("seconds")
}

#[test]
fn the_end_of_a_value_is_told_by_every_answer_with_it_also_after_a_restart() {
    directory_only!("an end");
    for durability in ["os", "disk"] {
        let dir = DataDir::temporary();
        let launch = || Launch::new(&["--durability", durability]).on(&dir).start();
        let mut server = launch();
        assert!(!dir.own(NOTE).exists());
        let before = now();
        for length in LENGTHS {
            put(&server, &format!("k{length}"), &pattern(1, length));
        }
        assert!(dir.own(NOTE).exists());
        let at = now() + 5000;
        server.store_as("at", &format!("X-Delete-At: {at}\r\n"), b"v");
        let both = format!("X-Delete-At: {at}\r\nX-Delete-After: 1000\r\n");
        server.store_as("both", &both, b"v");
        server.store("none", b"v");
        for _ in 0..2 {
            let after = before + 1000..=now() + 1001;
            let keys = LENGTHS.map(|length| format!("k{length}"));
            for key in keys.iter().map(String::as_str).chain(["both"]) {
                for method in ["GET", "HEAD", "GET"] {
                    let got = server.request(method, &format!("/{key}"), "", b"");
                    let end = end_of(&got);
                    assert!(after.contains(&end), "{method} {key}: {end}, {after:?}");
                }
            }
            assert_eq!(end_of(&server.get("at")), at);
            assert_eq!(server.get("none").header("x-delete-at"), None);
            let listing = server.ask("GET", "?format=json").json();
            let listed = listing["keys"].as_array().expect("keys");
            let expires = |key: &str| {
                let listed = listed.iter().find(|it| it["key"] == key);
                listed.expect("it is listed")["expires"].clone()
            };
            let date = Command::new("date")
                .args(["-u", "-d", &format!("@{at}"), "+%FT%TZ"])
                .output();
            let date = String::from_utf8(date.expect("date").stdout).expect("text");
            assert_eq!(expires("at"), date.trim());
            assert_eq!(expires("none"), serde_json::Value::Null);
            server.stop();
            server = launch();
        }
    }
}

#[test]
fn a_put_without_an_end_ends_the_end() {
    let server = needed!(TestServer::of_directory("an end", &[]));
    for length in LENGTHS {
        put(&server, "k", &pattern(1, length));
        end_of(&server.get("k"));
        server.store("k", pattern(2, length));
        let got = server.get("k");
        assert_eq!(got.header("x-delete-at"), None);
        assert!(got.body == pattern(2, length));
    }
}

#[test]
fn an_end_that_no_value_can_have_is_refused_before_the_body() {
    let server = needed!(TestServer::of_directory("an end", &[]));
    server.store("k", "as it was");
    let past = now();
    for (lines, why) in [
        (
            format!("X-Delete-At: {past}"),
            "bad x-delete-at: a value ends in the future",
        ),
        (
            "X-Delete-At: 1".to_owned(),
            "bad x-delete-at: a value ends in the future",
        ),
        (
            "X-Delete-After: 0".to_owned(),
            "bad x-delete-after: a value ends in the future",
        ),
        (
            "X-Delete-After: 253402300799".to_owned(),
            "before the year 10000",
        ),
        (
            "X-Delete-At: 253402300800".to_owned(),
            "bad x-delete-at: its value",
        ),
        (
            "X-Delete-After: -60".to_owned(),
            "bad x-delete-after: its value",
        ),
        (
            "X-Delete-After: 1.5".to_owned(),
            "bad x-delete-after: its value",
        ),
        (
            "X-Delete-After: soon".to_owned(),
            "bad x-delete-after: its value",
        ),
        (
            "X-Delete-After: 60\r\nX-Delete-After: 60".to_owned(),
            "once",
        ),
        (
            format!("X-Delete-After: 0\r\nX-Delete-At: {}", past + 1000),
            "bad x-delete-after",
        ),
    ] {
        let lines = format!("Accept: application/problem+json\r\n{lines}\r\n");
        let mut raw = server.ask_to_put("k", 500_000, &lines);
        let got = raw.answer();
        got.says(400, why);
        got.says(400, "bad-field");
    }
    assert_eq!(server.get("k").body, b"as it was");
    assert!(!server.dir.own(NOTE).exists());
    let end = "X-Delete-After: 60\r\n";
    for (of_form, of_part) in [(end, ""), ("", end), ("", "x-delete-at: 9000000000\r\n")] {
        let head = format!("{}\r\n{}", file("x"), of_part.trim_end());
        let got = server.post(of_form, &[(head.trim_end(), b"x")]);
        got.says(400, "the files of a form have no end");
        server.dir.assert_holds(&["k"]);
    }
}

#[test]
fn an_upload_in_parts_has_the_end_that_its_first_part_tells() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let raw = &mut server.connect();
    let before = now();
    let upload = Resumable::create(raw, "k", "X-Delete-After: 1000\r\n", b"a");
    let after = before + 1000..=now() + 1001;
    eventually("a second has passed", || now() > *after.end() - 1000 + 1);
    assert_eq!(upload.append(raw, 1, true, b"b").status, 200);
    let got = server.get("k");
    assert_eq!(got.body, b"ab");
    assert!(after.contains(&end_of(&got)), "{got:?}, {after:?}");
    // One that comes to its end only later than the value would.
    let lines = format!("X-Delete-At: {}\r\n", now() + 1);
    let upload = Resumable::create(raw, "late", &lines, b"a");
    eventually("its end has come", || {
        lines < format!("X-Delete-At: {}\r\n", now())
    });
    upload.append(raw, 1, true, b"b").says(400, "x-delete-at");
    server.dir.assert_holds(&["k"]);
}

#[test]
fn a_value_whose_end_cannot_be_kept_is_refused() {
    directory_only!("system calls on files");
    let without = "inject=fsetxattr,fgetxattr:error=EOPNOTSUPP";
    let options = ["-e", "trace=fsetxattr,fgetxattr", "-e", without];
    let left_out = "the end of a value without extended attributes";
    let trace = needed!(Trace::with(&options, left_out));
    let server = trace.around(Launch::new(&[])).start();
    server.store("k", "as it was");
    for length in LENGTHS {
        let value = pattern(1, length);
        let got = server.request("PUT", "/k", "X-Delete-After: 60\r\n", &value);
        got.says(501, "keeps no extended attributes");
        assert_eq!(server.get("k").body, b"as it was");
    }
}

#[test]
fn a_store_that_keeps_no_end_is_said_to_have_lifecycle_rules() {
    let stub = Stub::start();
    let server = Launch::new(&[]).on_bucket(&stub.bucket).start();
    for field in [
        "X-Delete-After: 60".to_owned(),
        format!("X-Delete-At: {}", now() + 60),
    ] {
        let got = server.request("PUT", "/k", &format!("{field}\r\n"), b"v");
        got.says(501, "lifecycle rule");
    }
    assert_eq!(server.get("k").status, 404);
}
