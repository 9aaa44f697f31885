//! Values whose end has come fill no quota, are in nobody's way, and go before any that a client can still see.

use super::{BLOCK, assert_has, each_way, store_all};
use crate::support::prelude::*;

const ENDS: &str = "X-Delete-After: 1\r\n";

/// Waits until none of these is served any more; the walk that removes them comes every ten minutes.
fn have_ended(server: &TestServer, keys: &str) {
    for key in words(keys) {
        eventually("it has ended", || server.get(key).status == 404);
    }
}

#[test]
fn what_has_ended_fills_no_quota() {
    directory_only!("bounds");
    let size = r#"prefix = "size/{name}/", max-size = "16KiB", full = "refuse""#;
    let keys = r#"prefix = "keys/", max-keys = 3, full = "refuse""#;
    each_way(&["--bound", size, "--bound", keys], |server| {
        // Made by a client, the folder stays when the last of its values goes.
        assert_eq!(server.request("MKCOL", "/keys/", "", b"").status, 201);
        let fill = |ends| {
            server.store_as("size/a/1", ends, vec![1; 16 << 10]);
            for n in 0..3 {
                server.store_as(&format!("keys/{n}"), ends, "v");
            }
        };
        fill("");
        assert_eq!(server.put("size/a/2", "v").status, 507);
        assert_eq!(server.put("keys/more", "v").status, 507);
        fill(ENDS);
        have_ended(server, "size/a/1 keys/0 keys/1 keys/2");
        server.store("size/a/2", vec![2; 16 << 10]);
        let made = server.request("MKCOL", "/keys/folder/", "", b"");
        assert_eq!(made.status, 201);
        for n in 4..7 {
            server.store(&format!("keys/{n}"), "v");
        }
        assert_eq!(server.put("keys/more", "v").status, 507);
        assert_eq!(server.put("size/a/3", "v").status, 507);
        assert_eq!(server.get("size/a/2").body, [2; 16 << 10]);
    });
}

/// By each door that asks a quota.
#[test]
fn what_has_ended_is_in_no_doors_way() {
    directory_only!("bounds");
    let quota = r#"prefix = "q/", max-keys = 1, full = "refuse""#;
    let server = TestServer::start(&["--bound", quota]);
    server.store("from", BLOCK);
    let tar = crate::archives::tar([("x", &b"v"[..])]);
    let doors: [&dyn Fn() -> Response; 6] = [
        &|| server.put("q/x", "v"),
        &|| server.put_chunked("q/x", b"v"),
        &|| server.request("COPY", "/from", "Destination: /q/x\r\n", b""),
        &|| server.request("MOVE", "/from", "Destination: /q/x\r\n", b""),
        &|| server.request("PUT", "/q/?archive=tar", "", &tar),
        &|| {
            Resumable::ask_to_create(
                &mut server.connect(),
                "q/x",
                "Upload-Complete: ?1\r\n",
                b"v",
            )
        },
    ];
    for (n, door) in doors.into_iter().enumerate() {
        server.store_as("q/ends", ENDS, "v");
        have_ended(&server, "q/ends");
        let answer = door();
        assert!(matches!(answer.status, 200 | 201), "door {n}: {answer:?}");
        assert_eq!(server.ask("DELETE", "q/x").status, 200, "door {n}");
    }
}

#[test]
fn what_has_ended_goes_before_what_is_used() {
    directory_only!("bounds");
    each_way(&["--max-size", "24KiB"], |server| {
        store_all(server, "a b c");
        for key in ["d", "e", "f"] {
            server.store_as(key, ENDS, BLOCK);
        }
        have_ended(server, "d e f");
        store_all(server, "g h i");
        assert_has(server, "a b c g h i");
        store_all(server, "j");
        assert_has(server, "b c g h i j");
    });
}

/// Its key is free for others: a folder of its name, and a value below it.
#[test]
fn what_has_ended_does_not_take_its_name() {
    directory_only!("bounds");
    each_way(&[], |server| {
        for key in ["a", "b", "c"] {
            server.store_as(key, ENDS, "v");
        }
        have_ended(server, "a b c");
        assert_eq!(server.request("MKCOL", "/a/", "", b"").status, 201);
        server.store("b/below", "v");
        let moved = server.request("MOVE", "/b/", "Destination: /c/\r\n", b"");
        assert_eq!(moved.status, 201);
        assert_eq!(server.get("c/below").body, b"v");
    });
}

/// The ends are known after a restart too, before any walk has looked at them.
#[test]
fn what_has_ended_fills_no_quota_after_a_restart() {
    directory_only!("bounds");
    let dir = DataDir::temporary();
    let quota = r#"max-keys = 2, full = "refuse""#;
    // The first walk comes at the start otherwise.
    let launch = || {
        let launch = Launch::new(&["--bound", quota]).on(&dir);
        launch.env("DATA_SERVER_EXPIRY", "6000000").start()
    };
    let mut server = launch();
    for key in ["a", "b"] {
        server.store_as(key, "X-Delete-After: 2\r\n", "v");
    }
    server.stop();
    let server = launch();
    have_ended(&server, "a b");
    server.store_each("c d", "v");
    assert_eq!(server.put("e", "v").status, 507);
}
