//! A value that has ended is absent: so no request is refused because its file is there.

use super::{end, put, removed};
use crate::support::form::{FOLDER, file};
use crate::support::prelude::*;

const WAYS: [&[&str]; 3] = [
    &["--durability", "os"],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

/// Asks by each door for a name that a value which has ended keeps from it, and asserts the status of each.
#[test]
fn each_door_opens_where_a_value_has_ended() {
    directory_only!("an end");
    let tar = crate::archives::tar([("x", &b"v"[..]), ("f/y", b"v")]);
    for way in WAYS {
        let server = TestServer::start(way);
        server.store_each("folder/a/v folder/b moved1/v moved2/v value", "v");
        let to = |method, from: &str, to: &str| {
            let lines = format!("Destination: {to}\r\n");
            server.request(method, from, &lines, b"")
        };
        let resumable = |key: &str, body: &[u8]| {
            let lines = "Upload-Complete: ?1\r\n";
            Resumable::ask_to_create(&mut server.connect(), key, lines, body)
        };
        let large = pattern(3, 1_200_000);
        // The name of what has ended, which the door has too, and what is there afterwards, but for folders.
        let doors: [(&str, u16, &str, &dyn Fn() -> Response); 16] = [
            ("put", 200, "put/x", &|| server.put("put/x", "v")),
            ("deep", 200, "deep/a/b/x", &|| server.put("deep/a/b/x", "v")),
            ("up/name", 200, "up/name/x", &|| {
                server.put("up/name/x", "v")
            }),
            ("new", 200, "new/x", &|| {
                server.request("PUT", "/new/x", "If-None-Match: *\r\n", b"v")
            }),
            ("large", 200, "large/x", &|| server.put("large/x", &large)),
            ("chunked", 200, "chunked/x", &|| {
                server.put_chunked("chunked/x", &large)
            }),
            ("resumed", 200, "resumed/x", &|| {
                resumable("resumed/x", &large)
            }),
            ("copy", 201, "copy/x", &|| to("COPY", "/value", "/copy/x")),
            ("move", 201, "move/x", &|| to("MOVE", "/copy/x", "/move/x")),
            ("made", 201, "", &|| {
                server.request("MKCOL", "/made/", "", b"")
            }),
            ("copied", 200, "copied/a/v", &|| {
                to("COPY", "/folder/", "/copied/")
            }),
            ("below", 200, "below/c/b", &|| {
                to("COPY", "/folder/", "/below/c/")
            }),
            ("renamed", 201, "renamed/v", &|| {
                to("MOVE", "/moved1/", "/renamed/")
            }),
            ("hidden", 201, "hidden/c/v", &|| {
                to("MOVE", "/moved2/", "/hidden/c/")
            }),
            ("tar", 200, "tar/f/y", &|| {
                server.request("PUT", "/tar/?archive=tar", "", &tar)
            }),
            ("form/a", 200, "form/a/x", &|| {
                server.post("", &[(FOLDER, b"form"), (&file("a/x"), b"v")])
            }),
        ];
        for (name, ..) in &doors {
            put(&server, name, b"ends");
        }
        for (n, (name, status, stored, door)) in doors.iter().enumerate() {
            end(&server.dir, name);
            let answer = door();
            assert_eq!(answer.status, *status, "{way:?}: {name}: {answer:?}");
            if !stored.is_empty() {
                assert_eq!(server.get(stored).status, 200, "{way:?}: {name}");
            }
            assert!(server.dir.file(name).is_dir(), "{way:?}: {name}");
            eventually("its removal is counted", || {
                removed(&server) == n as u64 + 1
            });
        }
        // A folder is made only in one that is there, and what has ended is none.
        put(&server, "none", b"ends");
        end(&server.dir, "none");
        let made = server.request("MKCOL", "/none/below/", "", b"");
        assert_eq!(made.status, 409, "{way:?}: {}", made.text());
        assert!(made.text().contains("make it first"), "{}", made.text());
    }
}

#[test]
fn watchers_are_told_of_it_before_what_takes_its_place() {
    directory_only!("an end");
    for way in WAYS {
        let server = TestServer::start(way);
        let mut events = Events::open(&server, "", "");
        put(&server, "k", b"ends");
        events.until("k");
        end(&server.dir, "k");
        server.store("k/below", "v");
        let told = events.next().expect("an event");
        assert_eq!((&*told.op, &*told.key), ("delete", "k"));
        assert_eq!(told.reason.as_deref(), Some("expired"));
        assert_eq!(events.next().expect("an event").key, "k/below");
    }
}

/// Of many at once each is made, and the removal once.
#[test]
fn many_at_once_take_its_place() {
    directory_only!("an end");
    for way in WAYS {
        let server = &TestServer::start(way);
        for round in 0..scaled(10, 100) {
            put(server, "k", b"ends");
            end(&server.dir, "k");
            thread::scope(|scope| {
                for n in 0..8 {
                    scope.spawn(move || server.store(&format!("k/{round}/{n}"), "v"));
                }
            });
            eventually("its removal is counted", || {
                removed(server) == u64::try_from(round).expect("few") + 1
            });
            assert_eq!(
                server
                    .request("DELETE", "/k/", "Depth: infinity\r\n", b"")
                    .status,
                200
            );
        }
    }
}

/// A living value keeps its name, and so does one that has ended and cannot be removed.
#[test]
fn what_stays_is_in_the_way() {
    directory_only!("an end");
    for way in WAYS {
        let dir = DataDir::temporary();
        dir.place("fixed/k", b"ends");
        end(&dir, "fixed/k");
        let fixed = dir.file("fixed");
        let server = Launch::new(way)
            .on(&dir)
            .env("DATA_SERVER_EXPIRY", "6000000");
        let mounted = Mounted::by(&["mount", "--bind", text(&fixed)], &fixed);
        let _mounted = needed!(available("a read-only mount", mounted));
        run("mount", &["-o", "remount,bind,ro", text(&fixed)]).expect("a read-only mount");
        let server = server.start();
        put(&server, "lives", b"v");
        for name in ["lives", "fixed/k"] {
            let below = format!("{name}/x");
            assert_eq!(server.put(&below, "v").status, 409, "{way:?}: {name}");
            let large = pattern(3, 1_200_000);
            let refused = server.put_chunked(&below, &large).status;
            assert!(matches!(refused, 403 | 409), "{way:?}: {name}: {refused}");
            let made = server.request("MKCOL", &format!("/{name}/"), "", b"");
            assert_eq!(made.status, 405, "{way:?}: {name}");
        }
        assert_eq!(server.get("lives").body, b"v");
    }
}
