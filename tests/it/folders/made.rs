//! MKCOL: what it makes and refuses, and that what it made is on the disk.

use super::{is_there, make};
use crate::support::prelude::*;

#[test]
fn mkcol_makes_a_folder_in_one_that_is_there_and_nothing_else() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    server.store("value", "v");
    server.store("of-put/k", "v");
    for (folder, status) in [
        ("a/b/", 409),
        ("a/", 201),
        ("a", 405),
        ("a/", 405),
        ("a/b", 201),
        ("a/b%2Fc/", 201),
        ("value", 405),
        ("value/", 405),
        ("value/below/", 409),
        ("of-put/", 405),
        ("", 405),
        ("/", 400),
        ("a//", 400),
        ("../", 400),
        (".data-server/x", 400),
        ("-/x", 404),
        ("-", 404),
        ("a%zz", 400),
    ] {
        assert_eq!(make(&server, folder), status, "MKCOL /{folder}");
    }
    assert!(is_there(&server, "a/b/c"));
    let refused = server.request("MKCOL", "/a", "", b"");
    refused.says(405, "a folder has this name");
    assert!(!refused.must("allow").contains("MKCOL"), "it is there");
    let nowhere = server.request("MKCOL", "/x/y", "", b"");
    nowhere.says(409, "there is no folder \"x\": make it first");
    let below = server.request("MKCOL", "/value/below", "", b"");
    below.says(409, "\"value\" is a value, so nothing lies below it");
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (lines, body) in [
        ("Content-Length: 1\r\n", "0"),
        (chunked, "1\r\n0\r\n0\r\n\r\n"),
    ] {
        let refused = server.request("MKCOL", "/with-body", lines, body.as_bytes());
        refused.says(415, "MKCOL takes none");
    }
    assert!(!is_there(&server, "with-body"));
    let made = server.request("MKCOL", "/empty-body", chunked, b"0\r\n\r\n");
    assert_eq!(made.status, 201);
    assert_eq!(server.put("a/b/c", "v").status, 409);
    server.store("a/b/c/d/k", "v");
    assert!(
        server
            .request("OPTIONS", "/a", "", b"")
            .must("allow")
            .contains("MKCOL")
    );
}

#[test]
fn a_precondition_that_asks_for_a_version_is_refused() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    for lines in ["If-Match: \"x\"", "If-Match: *", "If-None-Match: \"x\""] {
        let refused = server.request("MKCOL", "/a", &format!("{lines}\r\n"), b"");
        refused.says(400, "takes no precondition");
    }
    assert!(!is_there(&server, "a"));
    let made = |folder: &str, lines: &str| server.request("MKCOL", folder, lines, b"").status;
    assert_eq!(made("/a", "If-None-Match: *\r\n"), 201);
    let past = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(made("/b", past), 201);
}

#[test]
fn a_folder_is_as_deep_as_keys_below_it_may_be() {
    directory_only!("folders of the directory");
    let server = TestServer::start(&["--max-key-depth", "3"]);
    let found = [
        make(&server, "a"),
        make(&server, "a/b"),
        make(&server, "a/b/c"),
    ];
    assert_eq!(found, [201, 201, 400]);
    server.store("a/b/k", "v");
}

#[test]
fn a_server_that_only_reads_makes_and_removes_no_folder() {
    directory_only!("folders of the directory");
    let dir = DataDir::temporary();
    dir.place("a/k", "v");
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(make(&server, "b"), 403);
    assert_eq!(super::remove(&server, "a/").status, 403);
    assert!(is_there(&server, "a"));
}

#[test]
fn with_compat_there_are_no_folders() {
    directory_only!("the mode of the C server");
    let server = TestServer::start(&["--compat"]);
    assert_eq!(make(&server, "b"), 404);
    fs::create_dir(server.dir.file("b")).expect("a folder");
    assert_eq!(super::remove(&server, "b/").status, 404);
    assert!(is_there(&server, "b"));
}

#[test]
fn no_folder_is_made_where_no_value_may_be_stored() {
    directory_only!("free space");
    let server = TestServer::start(&["--min-free", "1000TB"]);
    fs::create_dir(server.dir.file("there")).expect("a folder");
    let refused = server.request("MKCOL", "/a", "", b"");
    refused.says(507, "no more than --min-free is left for values");
    assert_eq!(make(&server, "there"), 405);
    server.dir.assert_holds(&["there"]);
}

/// Beside a PUT and a DELETE of the same name, which each have an answer as if they came one after the other.
#[test]
fn a_name_is_a_folder_or_a_value_whoever_is_first() {
    directory_only!("folders of the directory");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--threads", "2", "--durability", durability]);
        for round in 0..scaled(30, 300) {
            let name = format!("n{round}");
            let (made, put) = thread::scope(|scope| {
                let made = scope.spawn(|| make(&server, &name));
                let put = scope.spawn(|| server.put(&name, "v").status);
                (
                    made.join().expect("an answer"),
                    put.join().expect("an answer"),
                )
            });
            let expected = if is_there(&server, &name) {
                (201, 409)
            } else {
                (405, 200)
            };
            assert_eq!((made, put), expected, "{durability} {name}");
        }
    }
}

#[test]
fn a_folder_is_on_the_disk_before_the_answer() {
    plain_only!("its system calls");
    directory_only!("durability");
    for journal in ["off", "on"] {
        let options = words("-e trace=fsync,mkdirat,unlinkat,fremovexattr,sendto -s 300 -y");
        let trace = needed!(Trace::with(&options, "the syncs of folders"));
        let mut args = words("--threads 1 --durability disk");
        if journal == "off" {
            args.extend(["--journal", "off"]);
        }
        let mut server = trace.around(Launch::new(&args)).start();
        let root = server.dir.path().canonicalize().expect("the directory");
        assert_eq!(make(&server, "a"), 201);
        assert_eq!(make(&server, "a/b"), 201);
        assert_eq!(super::remove(&server, "a/b/").status, 200);
        server.store("put/k", "v");
        assert_eq!(make(&server, "put"), 405);
        server.stop();
        let calls = trace.calls();
        let at = |path: &str| format!("<{}{path}>", root.display());
        // Each of these, after the change that comes first.
        for (change, name, folders) in [
            ("mkdirat", "\"a\"", vec![at(""), at("/a")]),
            ("mkdirat", "\"b\"", vec![at("/a/b"), at("/a"), at("")]),
            ("unlinkat", "\"b\"", vec![at("/a"), at("")]),
            ("fremovexattr", "implicit", vec![at("/put")]),
        ] {
            let of = |call: &&Call| call.name == change && call.args.contains(name);
            let changed = calls.iter().find(of).expect("the change").ended;
            let answer = |call: &&Call| {
                call.name == "sendto" && call.args.contains("HTTP/1.1 ") && call.began > changed
            };
            let answered = calls.iter().find(answer).expect("an answer").began;
            for folder in folders {
                let is_sync = |call: &Call| {
                    call.name == "fsync"
                        && call.args.contains(&folder)
                        && call.began > changed
                        && call.ended < answered
                };
                let is_right = calls.iter().any(is_sync);
                assert!(is_right, "{journal}: {change} {name}: {folder}");
            }
        }
    }
}
