//! MKCOL: what it makes and refuses, and that what it made is on the disk.

use super::{is_there, make};
use crate::support::prelude::*;

#[test]
fn mkcol_makes_a_folder_in_one_that_is_there_and_nothing_else() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    server.store_each("value of-put/k", "v");
    server.talk(
        "
        MKCOL /a/b/ ; 409
        MKCOL /a/ ; 201
        MKCOL /a ; 405 ; ; a folder has this name ; allow: GET, HEAD, PUT, DELETE, MOVE, COPY, OPTIONS
        MKCOL /a/ ; 405
        MKCOL /a/b ; 201
        MKCOL /a/b%2Fc/ ; 201
        MKCOL /value ; 405
        MKCOL /value/ ; 405
        MKCOL /value/below/ ; 409 ; ; \"value\" is a value, so nothing lies below it
        MKCOL /of-put/ ; 405
        MKCOL / ; 405
        MKCOL // ; 400
        MKCOL /a// ; 400
        MKCOL /../ ; 400
        MKCOL /.data-server/x ; 400
        MKCOL /-/x ; 404
        MKCOL /- ; 404
        MKCOL /a%zz ; 400
        MKCOL /x/y ; 409 ; ; there is no folder \"x\": make it first
        MKCOL /with-body 0 ; 415 ; Content-Length: 1 ; MKCOL takes none
        holds a/b/c of-put/k value
        PUT /a/b/c v ; 409
        PUT /a/b/c/d/k v ; 200
        OPTIONS /a ; 204 ; ; ; allow: GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
    );
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (body, status) in [("1\r\n0\r\n0\r\n\r\n", 415), ("0\r\n\r\n", 201)] {
        let got = server.request("MKCOL", "/chunked", chunked, body.as_bytes());
        assert_eq!(got.status, status, "{body}");
        assert_eq!(is_there(&server, "chunked"), status == 201);
    }
}

#[test]
fn a_precondition_that_asks_for_a_version_is_refused() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    server.talk(
        "
        MKCOL /a ; 400 ; If-Match: \"x\" ; takes no precondition
        MKCOL /a ; 400 ; If-Match: * ; takes no precondition
        MKCOL /a ; 400 ; If-None-Match: \"x\" ; takes no precondition
        MKCOL /a ; 201 ; If-None-Match: *
        MKCOL /b ; 201 ; If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    );
}

#[test]
fn a_folder_is_as_deep_as_keys_below_it_may_be() {
    directory_only!("folders of the directory");
    let rows = "MKCOL /a ; 201\nMKCOL /a/b ; 201\nMKCOL /a/b/c ; 400\nPUT /a/b/k v ; 200";
    TestServer::start(&["--max-key-depth", "3"]).talk(rows);
}

#[test]
fn with_compat_there_are_no_folders() {
    directory_only!("the mode of the C server");
    let rows = "MKCOL /b ; 404\nmkdir b\nDELETE /b/ ; 404 ; Depth: infinity\nholds b";
    TestServer::start(&["--compat"]).talk(rows);
}

#[test]
fn no_folder_is_made_where_no_value_may_be_stored() {
    directory_only!("free space");
    TestServer::start(&["--min-free", "1000TB"]).talk(
        "
        mkdir there
        MKCOL /a ; 507 ; ; no more than --min-free is left for values
        MKCOL /there ; 405
        holds there",
    );
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
