//! Proves what a MOVE and a COPY make of values, their attributes and their folders, and what watchers are told.

use super::{etag, send};
use crate::support::Http2;
use crate::support::prelude::*;

/// Lengths on both sides of what is answered from memory, and of what goes to a file at once.
const LENGTHS: [usize; 5] = [0, 5, 20_000, 70_000, 5_000_000];

const MODES: [&[&str]; 3] = [
    &[],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

#[test]
fn a_value_moves_with_its_bytes_and_attributes_and_has_a_new_tag() {
    directory_only!("moves");
    for args in MODES {
        let server = Launch::new(args).start();
        let mut raw = server.connect();
        for (n, length) in (0..).zip(LENGTHS) {
            let (value, put) = store(&mut raw, "/from/k", n, length);
            let moved = send(&mut raw, "MOVE", "/from/k", "/to/deep/k", "");
            assert_eq!((moved.status, moved.body.len()), (201, 0), "{moved:?}");
            assert_has(&mut raw, "to/deep/k", &value, &moved);
            assert_ne!(moved.header("etag"), put.header("etag"));
            assert_eq!(raw.get("from/k").status, 404);
            server.dir.assert_holds(&["to/deep/k"]);
            assert!(!server.dir.file("from").exists(), "its folder is gone");
            let back = send(&mut raw, "MOVE", "/to/deep/k", "/k", "");
            assert_eq!(back.status, 201);
            assert!(!server.dir.file("to").exists());
            assert_eq!(ask(&mut raw, "DELETE", "/k", "", b"").status, 200);
        }
    }
}

#[test]
fn a_copy_has_the_bytes_and_attributes_and_leaves_the_source() {
    directory_only!("moves");
    for args in MODES {
        let server = Launch::new(args).start();
        let mut raw = server.connect();
        for (n, length) in (0..).zip(LENGTHS) {
            let (value, put) = store(&mut raw, "/k", n, length);
            let copied = send(&mut raw, "COPY", "/k", "/in/copy", "");
            assert_eq!(copied.status, if n == 0 { 201 } else { 204 }, "{copied:?}");
            assert_has(&mut raw, "in/copy", &value, &copied);
            assert_has(&mut raw, "k", &value, &put);
            server.dir.assert_holds(&["in/copy", "k"]);
        }
    }
}

/// Stores a value of this length with attributes of its own; the value, and the answer.
fn store(raw: &mut Raw, path: &str, n: u64, length: usize) -> (Vec<u8>, Response) {
    let value = pattern(n, length);
    let lines = "Content-Type: text/x-own\r\nContent-Language: eo\r\n";
    let put = ask(raw, "PUT", path, lines, &value);
    assert_eq!(put.status, 200);
    (value, put)
}

/// Asserts that `key` has this value with those attributes, and the validators that are `told`.
#[track_caller]
fn assert_has(raw: &mut Raw, key: &str, value: &[u8], told: &Response) {
    let found = raw.get(key);
    assert_eq!(found.status, 200);
    assert!(found.body == value, "{} bytes", found.body.len());
    assert_eq!(found.header("content-type"), Some("text/x-own"));
    assert_eq!(found.header("content-language"), Some("eo"));
    for field in ["etag", "last-modified"] {
        assert_eq!(found.must(field), told.must(field), "{field}");
    }
}

#[test]
fn a_value_that_is_replaced_is_replaced_at_once() {
    directory_only!("moves");
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    raw.put("a", "new");
    raw.put("b", "old");
    // Both are in the cache.
    for key in ["a", "b"] {
        assert_eq!(raw.get(key).status, 200);
    }
    let moved = send(&mut raw, "MOVE", "/a", "/b", "");
    assert_eq!(moved.status, 204, "{moved:?}");
    assert_eq!(moved.header("content-length"), None);
    let seen = (raw.get("b").body, raw.get("a").status);
    assert_eq!(seen, (b"new".to_vec(), 404));
    server.dir.assert_holds(&["b"]);
}

/// The old name never lacks its value before the new one has it, and never has it afterwards.
#[test]
fn a_reader_finds_the_value_under_one_of_its_names() {
    directory_only!("moves");
    for args in [&[][..], &["--durability", "disk"]] {
        let server = Launch::new(args).start();
        let (small, large) = (pattern(1, 100), pattern(2, 200_000));
        for value in [&small, &large] {
            server.connect().put("a", value);
            let done = AtomicBool::new(false);
            let (mut both, mut reads) = (0, 0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut raw = server.connect();
                    for n in 0..200 {
                        let (from, to) = [("/a", "/f/b"), ("/f/b", "/a")][n % 2];
                        assert_eq!(send(&mut raw, "MOVE", from, to, "").status, 201);
                    }
                    done.store(true, Ordering::SeqCst);
                });
                let mut raw = server.connect();
                while !done.load(Ordering::SeqCst) {
                    let found = [raw.get("a"), raw.get("f/b"), raw.get("a")];
                    for found in &found {
                        let is_right = found.status == 404 || found.body == *value;
                        assert!(is_right, "{}", found.status);
                    }
                    reads += 1;
                    both += usize::from(found.iter().all(|found| found.status == 404));
                }
            });
            assert!(reads > 0, "nothing was read");
            say(&format!("{reads} readings, {both} between two moves"));
        }
    }
}

#[test]
fn watchers_are_told_once_with_both_names() {
    directory_only!("the feed");
    let server = TestServer::start(&[]);
    let open = |query| Events::open(&server, query, "");
    let (mut all, mut of_old, mut of_new) = (open(""), open("?prefix=old/"), open("?prefix=new/"));
    let mut raw = server.connect();
    raw.put("old/k", "v");
    let moved = send(&mut raw, "MOVE", "/old/k", "/new/k", "");
    send(&mut raw, "MOVE", "/new/k", "/old/k", "");
    send(&mut raw, "COPY", "/old/k", "/old/copy", "");
    let told = |events: Vec<Told>| {
        let line = |told: Told| format!("{} {} {:?}", told.op, told.key, told.from);
        events.into_iter().map(line).collect::<Vec<_>>()
    };
    let of_all = all.until("old/copy");
    assert_eq!(of_all[1].etag.as_deref(), moved.header("etag"));
    assert_eq!(
        told(of_all),
        [
            "put old/k None",
            "put new/k Some(\"old/k\")",
            "put old/k Some(\"new/k\")",
            "put old/copy None"
        ]
    );
    // Each of the others is told what it asked for, and no other name.
    let expected = [
        "put old/k None",
        "delete old/k None",
        "put old/k None",
        "put old/copy None",
    ];
    assert_eq!(told(of_old.until("old/copy")), expected);
    let first = of_new.next().expect("an event");
    let second = of_new.next().expect("an event");
    let seen = told(vec![first, second]);
    assert_eq!(seen, ["put new/k None", "delete new/k None"]);
}

#[test]
fn the_end_of_a_value_goes_with_it() {
    directory_only!("ends");
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let line = "X-Delete-At: 32503680000\r\n";
    assert_eq!(ask(&mut raw, "PUT", "/a", line, b"v").status, 200);
    for (method, from, to) in [("MOVE", "/a", "/b"), ("COPY", "/b", "/c")] {
        assert_eq!(send(&mut raw, method, from, to, "").status, 201);
        let found = raw.get(to.trim_start_matches('/'));
        assert_eq!(found.header("x-delete-at"), Some("32503680000"), "{method}");
    }
}

#[test]
fn an_unfinished_upload_to_either_key_goes_on() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for key in ["a", "b"] {
        raw.put("a", "moved");
        let upload = Resumable::create(&mut raw, key, "", b"first ");
        assert!([201, 204].contains(&send(&mut raw, "MOVE", "/a", "/b", "").status));
        assert_eq!(raw.get("b").body, b"moved");
        assert_eq!(upload.append(&mut raw, 6, true, b"last").status, 200);
        assert_eq!(raw.get(key).body, b"first last", "{key}");
    }
}

#[test]
fn moved_values_are_as_they_were_after_a_restart_and_after_a_kill() {
    directory_only!("moves");
    for args in MODES {
        let dir = DataDir::temporary();
        let mut server = Launch::new(args).on(&dir).start();
        let mut raw = server.connect();
        let values: Vec<_> = LENGTHS
            .iter()
            .map(|&length| pattern(length as u64, length))
            .collect();
        let mut tags = Vec::new();
        for (n, value) in values.iter().enumerate() {
            raw.put(&format!("a/{n}"), value);
            let (from, to) = (format!("/a/{n}"), format!("/b/{n}"));
            let moved = send(&mut raw, "MOVE", &from, &to, "");
            tags.push(moved.header("etag").unwrap().to_owned());
        }
        server.kill();
        let server = Launch::new(args).on(&dir).start();
        for (n, value) in values.iter().enumerate() {
            let key = format!("b/{n}");
            assert_eq!(server.connect().get(&key).body, *value, "{key}");
            assert_eq!(etag(&server, &key), tags[n]);
            assert_eq!(server.connect().get(&format!("a/{n}")).status, 404);
        }
    }
}

#[test]
fn both_methods_work_over_http2_and_are_counted_and_logged() {
    directory_only!("moves");
    let launch = Launch::new(&["--access-log", "--audit-log", "--http2-clear"]);
    let mut server = launch.in_the_clear().start();
    server.dir.place("a", "v");
    let mut client = Http2::connect(server.addr);
    for (method, from, to, status) in [("COPY", "/a", "/b", 201), ("MOVE", "/a", "/b", 204)] {
        let target = format!("http://t{from}");
        let asked = client.ask(method, &target, &[("destination", to)], true);
        let answer = asked.expect("a request").answer().expect("an answer");
        assert_eq!(answer.status, status, "{method}");
    }
    let scrape = Scrape::of(server.addr);
    for method in ["COPY", "MOVE"] {
        let of = [("method", method)];
        let found = scrape.count("data_server_requests_total", &of);
        assert_eq!(found, 1, "{method}");
    }
    server.stop();
    let told = server.audited("method key");
    assert_eq!(told, ["COPY /b", "MOVE /a", "MOVE /b"]);
}

/// A rename of a file to another name of it does nothing, and a new version would be that of its other names.
#[test]
fn a_file_with_two_names_is_copied_and_not_moved() {
    directory_only!("moves");
    for args in MODES {
        let server = Launch::new(args).start();
        let mut raw = server.connect();
        for length in [5, 200_000] {
            let value = pattern(1, length);
            raw.put("a", &value);
            fs::hard_link(server.dir.file("a"), server.dir.file("b")).expect("a link");
            let tag = etag(&server, "a");
            for to in ["/b", "/c"] {
                let refused = send(&mut raw, "MOVE", "/a", to, "");
                refused.says(409, "copy it, and delete it");
            }
            assert_eq!(etag(&server, "a"), tag);
            server.dir.assert_holds(&["a", "b"]);
            assert_eq!(send(&mut raw, "COPY", "/a", "/b", "").status, 204);
            assert_eq!(send(&mut raw, "MOVE", "/a", "/b", "").status, 204);
            assert_eq!(raw.get("b").body, value);
            server.dir.assert_holds(&["b"]);
            server.dir.remove("b");
        }
    }
}

#[test]
fn group_and_others_get_no_right_that_they_lacked_on_the_replaced_file() {
    directory_only!("moves");
    for args in MODES {
        let server = Launch::new(args).start();
        let mut raw = server.connect();
        let mode_of = |key| {
            let file = fs::metadata(server.dir.file(key)).expect("a file");
            file.mode() & 0o777
        };
        for length in [5, 200_000] {
            for (of_source, of_replaced, left) in [
                (0o664, 0o600, 0o600),
                (0o640, 0o646, 0o640),
                (0o644, 0o660, 0o640),
            ] {
                for (key, mode) in [("a", of_source), ("b", of_replaced)] {
                    raw.put(key, pattern(1, length));
                    chmod(server.dir.file(key), mode);
                }
                assert_eq!(send(&mut raw, "MOVE", "/a", "/b", "").status, 204);
                let moved = mode_of("b");
                assert_eq!(moved, left, "{of_source:o} over {of_replaced:o}");
            }
            raw.put("a", "v");
            chmod(server.dir.file("a"), 0o640);
            assert_eq!(send(&mut raw, "MOVE", "/a", "/new", "").status, 201);
            assert_eq!(mode_of("new"), 0o640);
            server.dir.remove("new");
        }
    }
}

/// Two paths of one file are no hard links: to remove one of them would remove the value.
#[test]
fn nothing_moves_between_two_paths_of_one_file() {
    directory_only!("moves");
    let left_out = "a folder that is mounted twice";
    for args in MODES {
        let server = Launch::new(args).start();
        let mut raw = server.connect();
        for length in [5, 200_000] {
            raw.put("a/k", pattern(1, length));
            fs::create_dir_all(server.dir.file("b")).expect("a folder");
            let [a, b] = ["a", "b"].map(|name| server.dir.file(name));
            let mounted = Mounted::by(&["mount", "--bind", text(&a)], &b);
            let mounted = needed!(available(left_out, mounted));
            let tag = etag(&server, "a/k");
            let refused = send(&mut raw, "MOVE", "/a/k", "/b/k", "");
            refused.says(409, "both keys lead to the same file");
            assert_eq!(etag(&server, "a/k"), tag);
            mounted.end();
            assert_eq!(raw.get("a/k").body, pattern(1, length));
        }
    }
}

/// As FUSE and NFS: the file has both names for a moment. A move that fails then leaves it the old one alone.
#[test]
fn without_a_rename_that_replaces_nothing_a_value_moves_or_stays_as_it_was() {
    directory_only!("moves");
    tracing_only!("a file system without such a rename");
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    raw.put("a", "v");
    let tag = etag(&server, "a");
    let lacks = "inject=renameat2:error=EINVAL";
    let fails = "inject=unlinkat:error=EPERM:when=1";
    let trace = "trace=renameat2,unlinkat";
    let tracer = Attached::to(&server, &["-e", trace, "-e", lacks, "-e", fails]);
    assert_eq!(send(&mut raw, "MOVE", "/a", "/b", "").status, 403);
    server.dir.assert_holds(&["a"]);
    assert_eq!(etag(&server, "a"), tag);
    assert_eq!(send(&mut raw, "MOVE", "/a", "/b", "").status, 201);
    drop(tracer.detach());
    server.dir.assert_holds(&["b"]);
    assert_eq!(raw.get("b").body, b"v");
}

/// A value has the tag of its move just before its new name: what asks for it by the old tag then may be 412, and what
/// asks for it without may take it with the new one. None of it loses the value or has it twice.
#[test]
fn a_change_by_the_tag_of_before_a_move_that_is_under_way_changes_nothing() {
    directory_only!("moves");
    tracing_only!("a move that takes its time");
    for args in MODES {
        for method in ["COPY", "MOVE", "DELETE"] {
            let server = Launch::new(args).start();
            let mut raw = server.connect();
            raw.put("a", "v");
            let old = etag(&server, "a");
            let slow = "inject=renameat2:delay_enter=300000";
            let tracer = Attached::to(&server, &["-e", "trace=renameat2", "-e", slow]);
            let mut mover = server.begin("MOVE", "/a", "Destination: /b\r\nContent-Length: 0\r\n");
            eventually("it has the tag of its move", || etag(&server, "a") != old);
            let by_old = format!("If-Match: {old}\r\n");
            let late = send(&mut raw, method, "/a", "/c", &by_old);
            assert!(matches!(late.status, 404 | 412), "{method}: {late:?}");
            assert_eq!(mover.answer().status, 201);
            drop(tracer);
            server.dir.assert_holds(&["b"]);
            assert_eq!(raw.get("b").body, b"v");
        }
    }
}
