//! What of a PUT is kept, how long, and what is refused.

use super::{FIELDS, all_lines, assert_fields, attribute, get, media_type, put};
use crate::support::prelude::*;

/// Directories on several file systems, if the machine can mount them, each with its mount, which the caller keeps.
fn directories() -> Vec<(DataDir, Option<Mount>)> {
    let mut all = vec![(DataDir::temporary(), None)];
    if is_s3() {
        return all;
    }
    let left_out = "fields of values on this file system";
    all.extend(Mount::tmpfs("size=64m", left_out).map(|mount| (mount.dir(), Some(mount))));
    all.extend(Mount::ext4(left_out).map(|mount| (mount.dir(), Some(mount))));
    all
}

/// A media type for each of the lengths.
const KINDS: [&str; 4] = [
    "text/html; charset=\"utf-8\"",
    "Image/PNG",
    "application/x.y-z+json;a=b",
    "a/b",
];

#[test]
fn fields_are_answered_as_sent_at_every_size_also_after_a_restart() {
    for (dir, mount) in directories() {
        let ways = taken(&[&[], &["--cache", "0"], &["--durability", "disk"]]);
        // Another file system is another way to keep them, not to take or to answer them.
        let ways = ways.into_iter().take(if mount.is_some() { 1 } else { 3 });
        for args in ways {
            let mut server = Launch::new(args).on(&dir).start();
            for (length, kind) in LENGTHS.into_iter().zip(KINDS) {
                let value = pattern(1, length);
                let lines = format!("{}Content-Type: {kind}\r\n", all_lines());
                let stored = put(&server, &format!("k{length}"), &lines, &value);
                assert_eq!(stored.status, 200);
                let seen = stored.header("content-encoding");
                assert_eq!(seen, None, "the answer to a PUT has none");
            }
            for restarted in [false, true] {
                let mut raw = server.connect();
                for (length, kind) in LENGTHS.into_iter().zip(KINDS) {
                    let key = format!("k{length}");
                    let on_disk = media_type(&dir, &key);
                    assert_eq!(on_disk.as_deref(), Some(kind.as_bytes()), "{key} on disk");
                    for method in ["GET", "HEAD", "GET"] {
                        let got = ask(&mut raw, method, &format!("/{key}"), "", b"");
                        assert_eq!((got.status, got.length()), (200, length), "{method}");
                        assert!(method == "HEAD" || got.body == pattern(1, length));
                        assert_fields(&got, &FIELDS);
                        assert_eq!(got.must("content-type"), kind, "{method} /{key}");
                    }
                    let text = FIELDS.map(|(name, value)| format!("{name}: {value}\n"));
                    assert_eq!(attribute(&dir, &key), Some(text.concat()));
                }
                drop(raw);
                server.stop();
                if !restarted {
                    server = Launch::new(args).on(&dir).start();
                }
            }
        }
    }
}

#[test]
fn uploads_of_every_framing_keep_their_fields() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for length in [0, 100, 100_000, 700_000] {
        let value = pattern(2, length);
        let chunks = [&chunked(value.chunks(50_000))[..], b"0\r\n\r\n"].concat();
        let framed = format!("{}Transfer-Encoding: chunked\r\n", all_lines());
        let expecting = format!("{}Expect: 100-continue\r\n", all_lines());
        for (lines, body) in [(framed, &chunks), (expecting, &value)] {
            assert_eq!(put(&server, "k", "", b"").status, 200);
            assert_eq!(ask(&mut raw, "PUT", "/k", &lines, body).status, 200);
            let got = get(&mut raw, "k", "");
            assert!(got.body == value);
            assert_fields(&got, &FIELDS);
        }
    }
}

#[test]
fn each_put_replaces_and_removes_the_fields() {
    let server = TestServer::start(&[]);
    for length in LENGTHS {
        let value = pattern(3, length);
        let mut raw = server.connect();
        for (name, field) in FIELDS {
            for kind in ["text/html", "text/css"] {
                let lines = format!("{}Content-Type: {kind}\r\n", all_lines());
                assert_eq!(put(&server, "k", &lines, &value).status, 200);
                let got = get(&mut raw, "k", "");
                assert_fields(&got, &FIELDS);
                assert_eq!(got.must("content-type"), kind);
            }
            // One of them replaces all: the others are removed.
            let status = put(&server, "k", &format!("{name}: {field}\r\n"), &value).status;
            assert_eq!(status, 200);
            let mut expected = vec![(name, field)];
            if name != "cache-control" {
                expected.push(("cache-control", "no-cache"));
            }
            assert_fields(&get(&mut raw, "k", ""), &expected);
            // An empty field, and a coding that is none, are as good as no field.
            for nothing in ["", "Content-Language:\r\nContent-Encoding: Identity\r\n"] {
                assert_eq!(put(&server, "k", nothing, &value).status, 200);
                let got = get(&mut raw, "k", "");
                assert_fields(&got, &[("cache-control", "no-cache")]);
                assert_eq!(attribute(&server.dir, "k"), None);
                // An object always has a type: it is the one that the name suggests.
                let guess = "application/octet-stream";
                assert_eq!(got.must("content-type"), guess);
                let kept = media_type(&server.dir, "k");
                assert_eq!(kept, by_engine(None, Some(guess.into())));
            }
        }
    }
}

#[test]
fn a_refused_put_leaves_value_and_fields() {
    let server = TestServer::start(&[]);
    for length in LENGTHS {
        let mut raw = server.connect();
        let found = put(&server, "k", &all_lines(), &pattern(4, length)).status;
        assert_eq!(found, 200);
        let language = "Content-Language: fr\r\n";
        let failing = format!("{language}If-None-Match: *\r\n");
        assert_eq!(put(&server, "k", &failing, b"other").status, 412);
        let failing = format!("{language}Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n");
        assert_eq!(put(&server, "k", &failing, b"other").status, 400);
        let got = get(&mut raw, "k", "");
        assert!(got.body == pattern(4, length));
        assert_fields(&got, &FIELDS);
    }
}

#[test]
fn what_cannot_be_kept_is_refused_before_the_body_with_a_reason() {
    let server = TestServer::start(&[]);
    server.store("k", "as it was");
    for [field, status, reason] in table(
        "
        Content-Encoding: gzip;q=1 ; 400 ; bad content-encoding
        Content-Encoding: gzip,,br ; 400 ; bad content-encoding
        Content-Language: de_CH ; 400 ; bad content-language
        Content-Disposition: filename=a ; 400 ; bad content-disposition
        Content-Disposition: inline|Content-Disposition: inline ; 400 ; once
        Cache-Control: max-age: 60 ; 400 ; bad cache-control
        Content-Encoding: LONG ; 400 ; longer than 255 bytes
        Content-Language: LONG ; 400 ; longer than 255 bytes
        Cache-Control: LONG ; 400 ; longer than 255 bytes
        Content-Disposition: LONG ; 400 ; longer than 1088 bytes
        Content-Encoding: aws-chunked ; 415 ; aws-chunked
        Content-Encoding: gzip|Content-Encoding: aws-chunked ; 415 ; aws-chunked
        ",
    ) {
        // One byte more than is allowed.
        let is_long = field.starts_with("Content-Disposition");
        let lines = field.replace("LONG", &"a".repeat(if is_long { 1088 } else { 255 } + 1));
        let lines = lines.replace('|', "\r\n");
        let (status, name) = match status {
            "400" => (400, "bad-field"),
            _ => (415, "content-coding"),
        };
        // The value is not sent: the answer comes without it.
        let lines = format!("Accept: application/problem+json\r\n{lines}\r\n");
        let mut raw = server.ask_to_put("k", 500_000, &lines);
        let got = raw.answer();
        got.says(status, reason);
        got.says(status, name);
        assert_eq!(server.get("k").body, b"as it was");
    }
}

/// Lines of the longest fields and of the longest type, and what is answered of them.
fn longest() -> (String, Vec<(&'static str, String)>) {
    let list = format!("{}a", "a,".repeat(127));
    let name = format!("attachment;{}", "x".repeat(1088 - 11));
    let fields = vec![
        ("cache-control", list.clone()),
        ("content-disposition", name),
        ("content-encoding", list.clone()),
        ("content-language", list),
        ("content-type", format!("a/{}", "b".repeat(253))),
    ];
    let line = |(name, value): &(&str, String)| format!("{name}: {value}\r\n");
    (fields.iter().map(line).collect(), fields)
}

#[test]
fn the_longest_fields_are_kept_beside_all_other_attributes() {
    directory_only!("the file system");
    let mount = Mount::tmpfs("size=64m", "the longest fields in memory");
    let in_memory = mount.as_ref().map(Mount::dir);
    for dir in std::iter::once(DataDir::temporary()).chain(in_memory) {
        let mut server = Launch::new(&[]).on(&dir).start();
        let (lines, fields) = longest();
        let value = pattern(1, 70_000);
        assert_eq!(put(&server, "k", &lines, &value).status, 200);
        for algorithm in ["sha-256", "sha-512"] {
            let wanted = format!("Want-Repr-Digest: {algorithm}=1\r\n");
            get(&mut server.connect(), "k", &wanted).must("repr-digest");
            let mut room = [0; 128];
            let attribute = format!("user.data-server.{algorithm}");
            let digest = rustix::fs::getxattr(dir.file("k"), attribute, &mut room);
            assert!(digest.is_ok(), "{algorithm}: {digest:?}");
        }
        server.stop();
        let got = Launch::new(&[]).on(&dir).start().get("k");
        for (name, value) in fields {
            assert_eq!(got.all(name), value);
        }
    }
}

/// ext4 keeps the attributes of a file in one block, and the file system of the test has blocks of 1 KiB.
#[test]
fn fields_for_which_the_file_system_has_no_room_fail_the_put() {
    directory_only!("the file system");
    let mount = needed!(Mount::ext4("fields without room"));
    let server = Launch::new(&[]).on(&mount.dir()).start();
    let found = put(&server, "k", "Content-Language: de\r\n", b"old").status;
    assert_eq!(found, 200);
    for length in LENGTHS {
        let refused = put(&server, "k", &longest().0, &pattern(1, length));
        assert_eq!(refused.status, 507);
        let got = server.get("k");
        let seen = (&got.body[..], got.must("content-language"));
        assert_eq!(seen, (&b"old"[..], "de"));
    }
    server.dir.assert_holds(&["k"]);
}

#[test]
fn with_compat_fields_are_ignored_as_the_c_server_ignored_them() {
    directory_only!("the mode of the C server");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&["--compat"]).on(&dir).start();
    for lines in [
        &all_lines()[..],
        "Content-Encoding: aws-chunked\r\n",
        "Cache-Control: ,\r\n",
    ] {
        for length in LENGTHS {
            let value = pattern(7, length);
            assert_eq!(put(&server, "k", lines, &value).status, 200);
            let got = server.get("k");
            assert!(got.body == value);
            assert_fields(&got, &[("cache-control", "no-cache")]);
            assert_eq!(attribute(&dir, "k"), None);
        }
    }
    // What another server has stored is the value's own.
    server.stop();
    let mut server = Launch::new(&[]).on(&dir).start();
    assert_eq!(put(&server, "k", &all_lines(), b"value").status, 200);
    server.stop();
    let server = Launch::new(&["--compat"]).on(&dir).start();
    assert_fields(&server.get("k"), &FIELDS);
}

/// The attribute calls of a server that does `work`, by name and attribute.
fn attribute_calls(work: impl Fn(&TestServer)) -> Option<Vec<Call>> {
    let calls = ["-e", "trace=fgetxattr,fsetxattr"];
    let trace = Trace::with(&calls, "the attribute calls of a server")?;
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    work(&server);
    server.stop();
    let mut calls = trace.calls();
    // The start tries whether attributes are kept. What is made aside is asked of its folder: whether that has a
    // default ACL.
    let others = ["\"text/plain\"", "posix_acl_default"];
    calls.retain(|call| !others.iter().any(|other| call.args.contains(other)));
    Some(calls)
}

#[test]
fn an_attribute_costs_nothing_unless_it_is_set_or_a_value_is_opened() {
    directory_only!("system calls on files");
    let of = |calls: &[Call], name: &str| calls.iter().filter(|call| call.name == name).count();
    // Of bytes in memory, and of a file.
    for length in [LENGTHS[0], LENGTHS[2]] {
        let value = pattern(9, length);
        let calls = needed!(attribute_calls(|server| server.store("k", &value)));
        assert_eq!(calls.len(), 0, "a PUT without fields: {calls:?}");
        let all = all_lines();
        let calls =
            attribute_calls(|server| assert_eq!(put(server, "k", &all, &value).status, 200));
        let calls = calls.expect("a trace");
        assert_eq!((of(&calls, "fsetxattr"), calls.len()), (1, 1), "{calls:?}");
        // A value that is opened: one read for its type and one for all else.
        let calls = attribute_calls(|server| {
            server.dir.place("k", &value);
            server.get("k");
        });
        let calls = calls.expect("a trace");
        assert_eq!((of(&calls, "fgetxattr"), calls.len()), (2, 2), "{calls:?}");
    }
}

#[test]
fn without_extended_attributes_values_are_stored_without_their_fields() {
    directory_only!("system calls on files");
    let without = "inject=fsetxattr,fgetxattr:error=EOPNOTSUPP";
    let options = ["-e", "trace=fsetxattr,fgetxattr", "-e", without];
    let left_out = "a file system without extended attributes";
    let trace = needed!(Trace::with(&options, left_out));
    let mut server = trace.around(Launch::new(&[])).start();
    for length in LENGTHS {
        let value = pattern(1, length);
        assert_eq!(put(&server, "k", &all_lines(), &value).status, 200);
        let got = server.get("k");
        assert!(got.body == value);
        assert_fields(&got, &[("cache-control", "no-cache")]);
    }
    server.stop();
    let is_said = |line: &String| line.contains("the file system keeps no extended attributes");
    assert!(server.log().iter().any(is_said), "the start says so");
}
