//! Proves that a value keeps the time of its bytes for people, whatever way it comes in, moves and goes out, and that
//! its version has a later one all the same.

mod archives;

use crate::support::form::{BOUNDARY, FORM};
use crate::support::prelude::*;
use crate::support::s3::Stub;

/// A second of 2001, and lines of a head with it and with a part of it.
const THEN: u64 = 981_173_106;
const DATED: &str = "X-OC-Mtime: 981173106\r\n";
const EXACT: &str = "X-OC-Mtime: 981173106.25\r\n";

/// What the answers with the value of `key`, and the listing, say of its date; they agree.
#[track_caller]
fn date(server: &TestServer, key: &str) -> Option<String> {
    let got = server.get(key);
    assert_eq!(got.status, 200, "{key}");
    let head = server.ask("HEAD", key);
    assert_eq!(got.header("x-oc-mtime"), head.header("x-oc-mtime"));
    let date = got.header("x-oc-mtime").map(str::to_owned);
    if !is_s3() {
        let listing = server.ask("GET", "?format=json").json();
        let mut keys = listing["keys"].as_array().expect("keys").iter();
        let listed = &keys.find(|it| it["key"] == key).expect("it is listed")["date"];
        let exactly = date.as_deref().map(exactly);
        assert_eq!(listed.as_str(), exactly.as_deref(), "{key}");
    }
    date
}

/// The date that these seconds are, in nanoseconds.
fn exactly(seconds: &str) -> String {
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let format = format!("+%FT%T.{fraction:0<9}Z");
    let mut date = Command::new("date");
    let date = date.args(["-u", "-d", &format!("@{seconds}"), &format]);
    let mut date = date.output().expect("date").stdout;
    date.pop();
    String::from_utf8(date).expect("text")
}

/// The seconds with a fraction that a file was modified at.
fn modified(dir: &DataDir, key: &str) -> String {
    let since = dir.modified(key).duration_since(SystemTime::UNIX_EPOCH);
    let since = since.expect("a time after 1970");
    let text = format!("{}.{:09}", since.as_secs(), since.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[test]
fn the_date_of_a_value_is_told_by_every_answer_with_it_and_is_not_that_of_its_version() {
    let server = TestServer::start(&[]);
    for length in LENGTHS {
        server.store("k", "old");
        let put = server.request("PUT", "/k", EXACT, &pattern(1, length));
        assert_eq!((put.status, put.must("x-oc-mtime")), (200, "accepted"));
        let got = server.get("k");
        assert_eq!(date(&server, "k").as_deref(), Some("981173106.25"));
        assert!(!got.must("last-modified").contains("2001"), "{got:?}");
        assert!(got.body == pattern(1, length));
        server.store("k", pattern(2, length));
        assert_eq!(date(&server, "k"), None);
    }
    assert_eq!(server.put("k", "v").header("x-oc-mtime"), None);
}

#[test]
fn a_date_is_shown_in_the_listings_for_people_and_outlives_the_server() {
    directory_only!("a listing with dates");
    for durability in ["os", "disk"] {
        let dir = DataDir::temporary();
        let launch = || Launch::new(&["--durability", durability]).on(&dir).start();
        let mut server = launch();
        let read_only = Launch::new(&["--read-only"]).on(&dir).start();
        server.store("new", "v");
        assert_eq!(date(&read_only, "new"), None);
        assert!(!dir.own("dated").exists());
        server.store_as("old", DATED, "v");
        assert!(dir.own("dated").exists());
        for _ in 0..2 {
            for server in [&server, &read_only] {
                assert_eq!(date(server, "old").as_deref(), Some("981173106"));
                assert_eq!(date(server, "new"), None);
                for (accept, seen) in [
                    ("text/html", "<time datetime=\"2001-02-03T04:05:06Z\">"),
                    (
                        "",
                        ">old</a>                                                03-Feb-2001 04:05",
                    ),
                ] {
                    let lines = format!("Accept: {accept}\r\n");
                    let page = server.request("GET", "/", &lines, b"").text();
                    assert_eq!(page.matches(seen).count(), 1, "{page}");
                }
            }
            server.kill();
            server = launch();
        }
    }
}

#[test]
fn what_is_no_date_is_refused_before_the_body() {
    let server = TestServer::start(&[]);
    server.store_as("k", DATED, "as it was");
    for lines in [
        "X-OC-Mtime: yesterday",
        "X-OC-Mtime: -1",
        "X-OC-Mtime: 1e9",
        "X-OC-Mtime: 9223372036",
        "X-OC-Mtime: Sat, 03 Feb 2001 04:05:06 GMT",
        "X-OC-Mtime: 1\r\nX-OC-Mtime: 1",
    ] {
        let refused = server.request("PUT", "/k", &format!("{lines}\r\n"), b"v");
        refused.says(400, "bad x-oc-mtime: a date is seconds since 1970");
    }
    assert_eq!(server.get("k").body, b"as it was");
    assert_eq!(date(&server, "k").as_deref(), Some("981173106"));
    // As an empty field of any kind.
    server.store_as("k", "X-OC-Mtime: \r\n", "v");
    assert_eq!(date(&server, "k"), None);
}

#[test]
fn a_value_that_moves_or_is_copied_keeps_its_date_and_gets_a_version() {
    directory_only!("the time of a file");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--durability", durability]);
        for length in LENGTHS {
            let lines = format!("{EXACT}Content-Language: eo\r\n");
            server.store_as("dated", &lines, pattern(1, length));
            server.store("plain", pattern(2, length));
            let plain = modified(&server.dir, "plain");
            let tags = ["dated", "plain"].map(|key| server.get(key).must("etag").to_owned());
            server.talk(
                "
                COPY /dated /copy/dated ; 201
                COPY /plain /copy/plain ; 201
                MOVE /dated /in/dated ; 201
                MOVE /plain /in/plain ; 201
                MOVE /in/dated /in/again ; 201
                MOVE /in/again /in/dated ; 201",
            );
            for folder in ["copy", "in"] {
                let [kept, made] = ["dated", "plain"].map(|name| format!("{folder}/{name}"));
                assert_eq!(date(&server, &kept).as_deref(), Some("981173106.25"));
                assert_eq!(date(&server, &made).as_ref(), Some(&plain));
                let got = server.get(&kept);
                assert_eq!(got.must("content-language"), "eo");
                assert_ne!(got.must("etag"), tags[0]);
                assert_ne!(server.get(&made).must("etag"), tags[1]);
                assert!(!got.must("last-modified").contains("2001"));
            }
            server.talk("MOVE /in/ /all/ ; 201\nCOPY /all/ /both/ ; 200");
            for folder in ["all", "both"] {
                let kept = date(&server, &format!("{folder}/dated"));
                assert_eq!(kept.as_deref(), Some("981173106.25"));
                assert_eq!(
                    date(&server, &format!("{folder}/plain")).as_ref(),
                    Some(&plain)
                );
            }
            server.talk("DELETE /all/ ; 200 ; Depth: infinity\nDELETE /both/ ; 200 ; Depth: infinity\nDELETE /copy/ ; 200 ; Depth: infinity");
        }
    }
}

/// Its attributes are the file's, and stay with it.
#[test]
fn a_hand_that_edits_or_dates_a_file_gives_its_value_another_date() {
    directory_only!("files");
    let server = TestServer::start(&[]);
    for key in ["edited", "touched", "renamed", "moved"] {
        server.store_as(key, DATED, "value");
    }
    server.talk("MOVE /moved /there ; 201");
    let before = SystemTime::now() - Duration::from_secs(5);
    server.dir.edit("edited", "VALUE");
    server.dir.date("edited", before);
    server.dir.date("touched", before);
    server.dir.date("there", before);
    server.dir.rename("renamed", "kept");
    for key in ["edited", "touched", "there"] {
        assert_eq!(date(&server, key), None, "{key}");
    }
    assert_eq!(date(&server, "kept").as_deref(), Some("981173106"));
    // From then on it is the date that a move keeps.
    let touched = modified(&server.dir, "touched");
    server.talk("MOVE /touched /again ; 201");
    assert_eq!(date(&server, "again"), Some(touched));
}

#[test]
fn an_upload_in_parts_and_a_file_of_a_form_have_dates() {
    let server = TestServer::start(&[]);
    if !is_s3() {
        let mut raw = server.connect();
        let upload = Resumable::create(&mut raw, "parts", DATED, b"first");
        assert_eq!(upload.append(&mut raw, 5, true, b"last").status, 200);
        assert_eq!(date(&server, "parts").as_deref(), Some("981173106"));
    }
    let whole = format!("Upload-Complete: ?1\r\n{DATED}");
    let put = server.request("PUT", "/whole", &whole, b"v");
    assert_eq!((put.status, put.must("x-oc-mtime")), (200, "accepted"));
    assert_eq!(date(&server, "whole").as_deref(), Some("981173106"));
    for (line, status) in [(DATED, 200), ("X-OC-Mtime: soon\r\n", 400)] {
        let form = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f{status}\"\r\n{line}\r\n\
             v\r\n--{BOUNDARY}--\r\n"
        );
        let stored = server.request("POST", "/-/upload", FORM, form.as_bytes());
        assert_eq!(stored.status, status, "{stored:?}");
    }
    assert_eq!(date(&server, "f200").as_deref(), Some("981173106"));
    assert_eq!(server.get("f400").status, 404);
}

#[test]
fn a_date_in_a_store_is_the_one_that_rclone_keeps_there() {
    let stub = Stub::start();
    let server = Launch::new(&[]).on_bucket(&stub.bucket).start();
    server.store_as("k", EXACT, "v");
    let object = stub.bucket.ask("HEAD", "k", "", b"");
    assert_eq!(object.header("x-amz-meta-mtime"), Some("981173106.25"));
    let lines = "x-amz-meta-mtime: 1.000000001\r\nx-amz-meta-x-oc-mtime: 7\r\n";
    assert_eq!(stub.bucket.ask("PUT", "theirs", lines, b"v").status, 200);
    for (key, date) in [("k", "981173106.25"), ("theirs", "1.000000001")] {
        assert_eq!(server.get(key).header("x-oc-mtime"), Some(date));
        server.talk(&format!("COPY /{key} /to/{key} ; 201"));
        let copied = server.get(&format!("to/{key}"));
        assert_eq!(copied.header("x-oc-mtime"), Some(date));
    }
    // Of a value without a date the store tells the second.
    server.store("plain", "v");
    server.talk("COPY /plain /to/plain ; 201");
    let copied = server.get("to/plain");
    let seconds = copied.must("x-oc-mtime").parse::<u64>();
    assert!(seconds.is_ok_and(|it| it > THEN), "{copied:?}");
}
