//! Locks: who is refused, through which door, and for how long.

use super::{lock, lockinfo, send, start};
use crate::support::prelude::*;

#[test]
fn what_is_locked_changes_with_the_token_alone() {
    directory_only!("locks");
    let server = start(&[]);
    for (name, value) in [("a", "1"), ("f/b", "1"), ("f/g/c", "1"), ("to", "1")] {
        server.dir.place(name, value);
    }
    for (target, of_lock, refused) in [
        (
            "/a",
            "",
            "PUT /a\nDELETE /a\nMOVE /a /n\nMOVE /to /a\nCOPY /to /a\nLOCK /a\nPROPPATCH /a",
        ),
        (
            "/f",
            "",
            "PUT /f/b\nPUT /f/new\nDELETE /f\nDELETE /f/g/\nMKCOL /f/n\nMOVE /f /n\nCOPY /to /f/b\nLOCK /f/b\nLOCK /",
        ),
        (
            "/f/",
            "Depth: 0\r\n",
            "PUT /f/new\nDELETE /f/b\nDELETE /f\nMKCOL /f/n\nMOVE /to /f/n\nLOCK /f",
        ),
        (
            "/f/g/c",
            "",
            "PUT /f/g/c\nDELETE /f\nDELETE /f/g\nMOVE /f /n\nLOCK /f",
        ),
    ] {
        let shown = lock(&server, target, of_lock);
        let before = server.dir.names();
        for row in refused.lines() {
            let words: Vec<_> = row.split(' ').collect();
            let xml = lockinfo(if words[0] == "LOCK" { "exclusive" } else { "" });
            let xml = if matches!(words[0], "LOCK" | "PUT") {
                &*xml
            } else {
                ""
            };
            let to = words
                .get(2)
                .map_or(String::new(), |to| format!("Destination: {to}\r\n"));
            let got = send(&server, words[0], words[1], &to, xml);
            assert_eq!(got.status, 423, "{target}: {row}: {got:?}");
            let wrong = format!("{to}If: (<urn:uuid:0>)\r\n");
            assert_eq!(
                send(&server, words[0], words[1], &wrong, xml).status,
                412,
                "{row}"
            );
            let no_lock = format!("{to}If: (Not <DAV:no-lock>)\r\n");
            assert_eq!(
                send(&server, words[0], words[1], &no_lock, xml).status,
                423,
                "{row}"
            );
        }
        assert_eq!(server.dir.names(), before);
        assert_eq!(server.get("a").status, 200);
        // Beside it nothing is locked.
        assert_eq!(send(&server, "PUT", "/to", "", "2").status, 204);
        assert_eq!(send(&server, "UNLOCK", target, &shown, "").status, 204);
        assert_eq!(send(&server, "UNLOCK", target, &shown, "").status, 409);
    }
    let shown = lock(&server, "/f", "");
    let tagged = shown.replace("If: ", "If: </f> ");
    assert_eq!(send(&server, "PUT", "/f/b", &tagged, "2").status, 204);
    assert_eq!(send(&server, "DELETE", "/f", &shown, "").status, 204);
    // The lock went with the folder.
    assert_eq!(send(&server, "MKCOL", "/f", "", "").status, 201);
}

/// davfs2 and cadaver name what a token is of by its address, which is that of the proxy.
#[test]
fn a_token_is_shown_by_the_address_at_a_proxy() {
    directory_only!("locks");
    let server = start(&["--trusted-proxy", "127.0.0.1"]);
    let shown = lock(&server, "/a%20b", "");
    for (path, status) in [
        ("http://t/files/a%20b", 204),
        ("/files/a%20b", 204),
        ("http://t/filesa%20b", 412),
        ("http://t/files/other", 412),
    ] {
        let lines = format!("X-Forwarded-Prefix: /files\r\n{shown}");
        let lines = lines.replace("If: ", &format!("If: <{path}> "));
        let got = send(&server, "PUT", "/a%20b", &lines, "x");
        assert_eq!(got.status, status, "{path}: {got:?}");
    }
}

#[test]
fn a_lock_holds_against_the_plain_door() {
    directory_only!("locks");
    let plain = Launch::new(&["--listen", "http://127.0.0.1:0"]);
    let server = plain.listen("dav+http://127.0.0.1:0").start();
    let other = || {
        let printed = server.stdout_so_far().into_iter();
        let mut places = printed.filter_map(|line| {
            let place = line.strip_prefix("listening on dav+http://")?;
            place.parse().ok()
        });
        places.next()
    };
    eventually("it listens at both", || other().is_some());
    let dav: SocketAddr = other().expect("an address");
    server.put("a", "1");
    server.put("f/b", "1");
    let ask_dav = |method: &str, target: &str, lines: &str, xml: &str| {
        let lines = format!("Content-Length: {}\r\n{lines}", xml.len());
        ask(
            &mut Raw::connect(dav),
            method,
            target,
            &lines,
            xml.as_bytes(),
        )
    };
    let got = ask_dav("LOCK", "/a", "", &lockinfo("exclusive"));
    let token = got.must("lock-token").to_owned();
    assert_eq!(
        ask_dav("LOCK", "/f", "", &lockinfo("exclusive")).status,
        200
    );
    server.talk(
        "
        GET /a ; 200
        PUT /a 2 ; 423 ; ; locked
        DELETE /a ; 423
        MOVE /a /c ; 423
        COPY /f/b /a ; 423
        COPY /a /c ; 201
        PUT /f/n x ; 423
        PUT /f/n x ; 423 ; Upload-Complete: ?1
        DELETE /f/ ; 423 ; Depth: infinity
        MOVE /f/ /n/ ; 423
        COPY /f/ /n/ ; 200
        COPY /n/ /f/ ; 423
        MKCOL /f/n ; 423
        holds a c f/b n/b
        ",
    );
    let shown = format!("If: ({token})\r\n");
    assert_eq!(ask_dav("PUT", "/a", &shown, "2").status, 204);
    assert_eq!(
        ask_dav("UNLOCK", "/a", &format!("Lock-Token: {token}\r\n"), "").status,
        204
    );
    assert_eq!(server.put("a", "3").status, 200);
}

#[test]
fn locks_are_shared_refreshed_and_end() {
    directory_only!("locks");
    let server = start(&[]);
    let got = send(
        &server,
        "LOCK",
        "/a",
        "Timeout: Infinite, Second-5\r\n",
        &lockinfo("shared"),
    );
    assert_eq!(got.status, 201, "an empty value: {got:?}");
    assert!(got.text().contains("<D:timeout>Second-3600</D:timeout>"));
    assert_eq!(server.get("a").must("content-length"), "0");
    assert_eq!(
        send(&server, "LOCK", "/a", "", &lockinfo("exclusive")).status,
        423
    );
    let other = send(&server, "LOCK", "/a", "", &lockinfo("shared"));
    assert_eq!(other.status, 200);
    assert_eq!(send(&server, "PUT", "/a", "", "x").status, 423);
    for lock in [&got, &other] {
        let shown = format!("If: ({})\r\n", lock.must("lock-token"));
        assert_eq!(send(&server, "PUT", "/a", &shown, "x").status, 204);
        let refreshed = send(
            &server,
            "LOCK",
            "/a",
            &format!("{shown}Timeout: Second-1\r\n"),
            "",
        );
        assert_eq!(
            (refreshed.status, refreshed.header("lock-token")),
            (200, None)
        );
        assert!(refreshed.text().contains("<D:timeout>Second-1</D:timeout>"));
    }
    eventually("both end", || {
        send(&server, "PUT", "/a", "", "y").status == 204
    });
    let shown = format!("If: ({})\r\n", got.must("lock-token"));
    assert_eq!(send(&server, "LOCK", "/a", &shown, "").status, 412);
    for xml in [
        "<a/>",
        "<lockinfo xmlns='DAV:'/>",
        &lockinfo("other"),
        "<",
        "<!DOCTYPE a><a/>",
    ] {
        let got = send(&server, "LOCK", "/new", "", xml);
        assert_eq!(got.status, 400, "{xml}: {got:?}");
    }
    assert_eq!(
        send(&server, "LOCK", "/none/a", "", &lockinfo("exclusive")).status,
        409
    );
    assert_eq!(send(&server, "UNLOCK", "/a", "", "").status, 400);
    server.dir.assert_holds(&["a"]);
}

#[test]
fn while_a_name_is_locked_no_other_change_is_seen() {
    directory_only!("locks");
    let server = start(&[]);
    server.dir.place("a", "0");
    let (has_ended, stored) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for writer in 0..3 {
            let (server, has_ended, stored) = (&server, &has_ended, &stored);
            scope.spawn(move || {
                let mut raw = server.connect();
                for n in 0.. {
                    if has_ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let value = format!("{writer}.{n}");
                    let got = ask(&mut raw, "PUT", "/a", "", value.as_bytes());
                    if got.closes() {
                        raw = server.connect();
                    }
                    assert!(matches!(got.status, 204 | 423), "{got:?}");
                    stored.fetch_add(usize::from(got.status == 204), Ordering::Relaxed);
                }
            });
        }
        let (mut granted, mut tries) = (0, 0);
        while granted < 200 {
            tries += 1;
            assert!(tries < 100_000, "{granted} locks were granted");
            let got = send(&server, "LOCK", "/a", "", &lockinfo("exclusive"));
            if got.status == 423 {
                continue;
            }
            assert_eq!(got.status, 200, "{got:?}");
            let token = got.must("lock-token");
            let tag = server.get("a").must("etag").to_owned();
            assert_eq!(server.get("a").must("etag"), tag);
            let shown = format!("If: ({token} [{tag}])\r\n");
            assert_eq!(send(&server, "PUT", "/a", &shown, "locked").status, 204);
            assert_eq!(server.get("a").body, b"locked");
            let shown = format!("Lock-Token: {token}\r\n");
            assert_eq!(send(&server, "UNLOCK", "/a", &shown, "").status, 204);
            granted += 1;
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    let stored = stored.into_inner();
    assert!(stored > 0);
    eprintln!("200 locks beside {stored} other changes");
}
