//! DELETE of a folder: with all that is below it, and what stays.

use super::{DEEP, is_there, make, remove, report};
use crate::support::policy::{bearer, one_who_may, revise, rule, serve_on};
use crate::support::prelude::*;

#[test]
fn a_folder_goes_with_what_is_below_it_if_depth_says_so() {
    directory_only!("the real store of the tests deletes under no condition");
    let server = TestServer::start(&[]);
    server.store_each("a/1 a/b/2 a/b/c/3 a-b ab", "v");
    server.talk(
        "
        DELETE /a/ ; 409 ; ; the 3 values below it: repeat it with Depth: infinity
        DELETE /a/ ; 409 ; Depth: 0 ; the 3 values below it: repeat it with Depth: infinity
        DELETE /a/ ; 409 ; Depth: 1 ; the 3 values below it: repeat it with Depth: infinity
        DELETE /a/ ; 400 ; Depth: infinit ; Depth is infinity, 0 or 1, once
        DELETE /a/ ; 400 ; Depth: infinity | Depth: 0 ; Depth is infinity, 0 or 1, once
        DELETE /a/ ; 400 ; Depth: 0 | Depth: infinity ; Depth is infinity, 0 or 1, once
        DELETE /a/ ; 400 ; Depth: infinity | If-Match: * ; takes no precondition
        DELETE /a/ ; 400 ; Depth: infinity | If-None-Match: \"x\" ; takes no precondition
        holds a/1 a/b/2 a/b/c/3 a-b ab",
    );
    let removed = remove(&server, "a/");
    assert_eq!((removed.status, report(&removed)), (200, (3, 0, vec![])));
    server.talk(
        "
        holds a-b ab
        DELETE /a%2F ; 404 ; ; there is no folder of this name
        DELETE /a%2F ; 404 ; Depth: infinity ; there is no folder of this name
        DELETE / ; 404 ; Depth: infinity ; the root is not removed
        DELETE // ; 400 ; Depth: infinity
        DELETE /-/ ; 404 ; Depth: infinity
        DELETE /.data-server/ ; 400 ; Depth: infinity
        DELETE /a ; 404 ; ; the path of a folder ends with '/'
        DELETE /a-b ; 200 ; Depth: infinity",
    );
}

/// It would be ignored, and more would go than was asked.
#[test]
fn a_change_of_a_folder_with_a_query_is_refused() {
    let server = TestServer::start(&[]);
    server.store_each("a/1 a/2", "v");
    server.talk(
        "
        MOVE,COPY /a/?prefix=1 /b/ ; 400 ; ; copied and removed whole
        MOVE,COPY /a/?archive=tar&files=1 /b/ ; 400 ; ; copied and removed whole
        MOVE,COPY /a/?files=1 /b/ ; 400 ; ; copied and removed whole
        MOVE,COPY /a/?1 /b/ ; 400 ; ; copied and removed whole
        DELETE,MKCOL /a/?prefix=1 ; 400 ; Depth: infinity ; copied and removed whole
        DELETE,MKCOL /a/?archive=tar&files=1 ; 400 ; Depth: infinity ; copied and removed whole
        DELETE,MKCOL /a/?files=1 ; 400 ; Depth: infinity ; copied and removed whole
        DELETE,MKCOL /a/?1 ; 400 ; Depth: infinity ; copied and removed whole
        COPY /a/? /b/ ; 200",
    );
}

#[test]
fn folders_that_stay_and_empty_ones_go_with_it() {
    directory_only!("folders of the directory");
    let server = Launch::new(&[]).on(&DataDir::in_memory()).start();
    for folder in ["x", "x/a", "x/a/b", "x/c"] {
        assert_eq!(make(&server, folder), 201);
    }
    server.store_each("x/a/b/k x/put/k", "v");
    server
        .request("DELETE", "/x/c/", "", b"")
        .says(409, "the 0 values below it");
    let removed = remove(&server, "x/");
    assert_eq!((removed.status, report(&removed)), (200, (2, 0, vec![])));
    server.dir.assert_holds(&[]);
    // More folders than are remembered at once.
    for n in 0..2_500 {
        fs::create_dir_all(server.dir.file(format!("many/{n}/x"))).expect("folders");
    }
    assert_eq!(report(&remove(&server, "many/")), (0, 0, vec![]));
    // As deep as a key can be.
    let deep = ["d"; 500].join("/");
    fs::create_dir_all(server.dir.file(&deep)).expect("folders");
    assert_eq!(report(&remove(&server, "d/")), (0, 0, vec![]));
}

#[test]
fn what_is_no_value_keeps_its_folder_and_is_told() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    server.store_each("a/k a/b/k a/c/d/k a/e/k", "v");
    symlink("nowhere", server.dir.file("a/c/d/link")).expect("a link");
    fs::write(server.dir.file(b"a/b/\xff"), "no key").expect("a file");
    let removed = remove(&server, "a/");
    assert_eq!(removed.status, 409);
    let (values, stayed, mut names) = report(&removed);
    names.sort();
    assert_eq!((values, stayed), (4, 2));
    assert_eq!(names, ["a/b/", "a/c/d/"]);
    assert_eq!(server.get("a/k").status, 404);
    assert!(is_there(&server, "a/c/d") && !is_there(&server, "a/e"));
}

#[test]
fn the_audit_log_tells_of_folders_that_went_though_another_stays() {
    directory_only!("folders of the directory");
    let mut server = TestServer::start(&["--audit-log"]);
    for folder in ["x/a", "x/b", "only/link", "put"] {
        fs::create_dir_all(server.dir.file(folder)).expect("folders");
    }
    for link in ["x/link", "only/link/link"] {
        symlink("nowhere", server.dir.file(link)).expect("a link");
    }
    for folder in ["x/", "only/"] {
        assert_eq!(remove(&server, folder).status, 409);
    }
    assert!(!is_there(&server, "x/a") && is_there(&server, "only/link"));
    // That a folder stays from now on is a change, once.
    server.store("goes/k", "v");
    for _ in 0..2 {
        assert_eq!(make(&server, "goes"), 405);
    }
    server.stop();
    // A line is written when its response has ended: those of two connections come in either order.
    let mut told = server.audited("method result key");
    told.sort_unstable();
    let expected = [
        "DELETE changed /x/",
        "MKCOL changed /goes",
        "PUT changed /goes/k",
    ];
    assert_eq!(told, expected);
}

#[test]
fn of_many_folders_each_is_tried_and_all_that_stay_are_counted() {
    directory_only!("folders of the directory");
    let server = Launch::new(&[]).on(&DataDir::in_memory()).start();
    for n in 0..3_000 {
        let folder = server.dir.file(format!("many/{n}/x"));
        fs::create_dir_all(&folder).expect("folders");
        if n % 2 == 0 {
            symlink("nowhere", folder.join("link")).expect("a link");
        }
    }
    let removed = remove(&server, "many/");
    let (_, stayed, names) = report(&removed);
    assert_eq!((removed.status, stayed, names.len()), (409, 1_500, 100));
    let left = fs::read_dir(server.dir.file("many")).expect("the folder");
    assert_eq!(left.count(), 1_500);
}

/// As long as their names may be.
#[test]
fn of_many_folders_few_are_in_memory() {
    directory_only!("folders of the directory");
    // The allocator gives what is free back at once: what it keeps for each thread is not measured.
    let server = Launch::new(&["--listing-index", "0"])
        .env("MIMALLOC_PURGE_DELAY", "0")
        .on(&DataDir::in_memory())
        .start();
    let above = ["a", "b", "c"].map(|name| name.repeat(250)).join("/");
    for n in 0..8_000 {
        let folder = format!("{above}/{n:0200}");
        fs::create_dir_all(server.dir.file(folder)).expect("folders");
    }
    assert_eq!(remove(&server, "none/").status, 404);
    let before = server.proc().peak_rss_kib();
    let first = format!("{}/", "a".repeat(250));
    assert_eq!(remove(&server, &first).status, 200);
    let more = server.proc().peak_rss_kib() - before;
    // Their names together are 7.6 MB.
    assert!(more < 4 << 10, "{more} KiB");
    server.dir.assert_holds(&[]);
}

/// A folder that a PUT made, and that no listing has without a value.
#[test]
fn a_folder_that_goes_with_its_last_value_is_there_without_one() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    for (folder, deep) in [("stays", 409), ("goes", 200)] {
        server.store(&format!("{folder}/k"), "v");
        let value = server.dir.file(format!("{folder}/k"));
        fs::rename(value, server.dir.file("k")).expect("a move by hand");
        if deep == 409 {
            fs::create_dir(server.dir.file("stays/below")).expect("a folder");
            symlink("nowhere", server.dir.file("stays/link")).expect("a link");
        }
        let target = format!("/{folder}/");
        let refused = server.request("DELETE", &target, "", b"");
        refused.says(409, "the 0 values below it");
        let removed = remove(&server, &target[1..]);
        assert_eq!(removed.status, deep, "{removed:?}");
        let names = if deep == 409 {
            vec![target[1..].to_owned()]
        } else {
            vec![]
        };
        assert_eq!(report(&removed), (0, names.len() as u64, names));
        assert_eq!(is_there(&server, folder), deep == 409);
    }
    assert!(!is_there(&server, "stays/below"));
}

/// Values that the server's user may not remove.
#[test]
fn a_value_that_may_not_be_removed_stays_and_is_told() {
    directory_only!("the file system");
    let dir = DataDir::temporary();
    let server = needed!(served_by_nobody(&dir, "folders without permission"));
    server.store("a/open/k", "v");
    dir.place("a/closed/k", "v");
    chmod(dir.file("a/closed"), 0o755);
    let removed = remove(&server, "a/");
    assert_eq!(removed.status, 409);
    let (values, _, names) = report(&removed);
    assert_eq!((values, names), (1, vec!["a/closed/k".to_owned()]));
    assert_eq!(server.get("a/closed/k").body, b"v");
}

/// Of what others store meanwhile nothing goes that was not listed, and no change of theirs is lost.
#[test]
fn a_value_that_is_stored_meanwhile_stays() {
    directory_only!("the real store of the tests deletes under no condition");
    let server = TestServer::start(&["--threads", "2"]);
    let (rounds, mut kept) = (by_engine(scaled(20, 200), 3), 0);
    for _ in 0..rounds {
        for n in 0..200 {
            server.dir.place(&format!("f/{n:03}"), "old");
        }
        let (removed, stored) = thread::scope(|scope| {
            let removing = scope.spawn(|| remove(&server, "f/"));
            let mut stored = Vec::new();
            let mut writer = Client::new(server.addr);
            while !removing.is_finished() {
                let key = format!("f/{:03}", 199 - stored.len() % 200);
                assert_eq!(writer.put(&key, "new").status, 200);
                stored.push(key);
            }
            (removing.join().expect("an answer"), stored)
        });
        let (went, stayed, names) = report(&removed);
        assert_eq!(removed.status, if stayed == 0 { 200 } else { 409 });
        assert!(names.len() as u64 == stayed.min(100), "{names:?}");
        let left = server.dir.values();
        let is_right = left.values().all(|value| value == b"new");
        assert!(is_right, "an old value stays");
        // The folder itself is told where a value came when all others had gone.
        for name in names.iter().filter(|name| !name.ends_with('/')) {
            assert!(left.contains_key(name.as_bytes()), "{name} is gone");
        }
        assert!(went + stored.len() as u64 >= 200);
        kept += stayed;
        server.dir.clear();
    }
    assert!(kept > 0 || is_s3(), "none was stored in time");
}

/// One client's folder is not another's wait: a PUT is published between the parts of it.
#[test]
fn a_large_folder_does_not_hold_up_others() {
    directory_only!("folders of the directory");
    let server = Launch::new(&["--threads", "1"])
        .on(&DataDir::in_memory())
        .start();
    for n in 0..5_000 {
        server.dir.place(&format!("f/{:02}/{n:04}", n % 50), "v");
    }
    let (removed, during) = thread::scope(|scope| {
        let removing = scope.spawn(|| remove(&server, "f/"));
        let (mut during, mut writer) = (0, Client::new(server.addr));
        while !removing.is_finished() {
            assert_eq!(writer.put("other", "v").status, 200);
            during += 1;
        }
        (removing.join().expect("an answer"), during)
    });
    assert_eq!(report(&removed), (5_000, 0, vec![]));
    assert!(during > 10, "{during} values were stored meanwhile");
    server.dir.assert_holds(&["other"]);
}

/// Asserts that what is `left` stays so for some time, and is not nothing.
fn assert_it_ends(left: impl Fn() -> usize) {
    let mut before = left();
    eventually("no more goes", || {
        thread::sleep(Duration::from_millis(100)); // a time without a change is what is tested
        let now = left();
        std::mem::replace(&mut before, now) == now
    });
    assert!(before > 0, "all of it went");
}

/// Its body is of no use, and is waited for all the same.
#[test]
fn a_right_that_is_revoked_while_the_body_is_on_the_way_is_gone() {
    directory_only!("folders of the directory");
    let dir = DataDir::temporary();
    let all = one_who_may("ann", &["read", "write", "create", "list", "delete"]);
    let server = serve_on(&dir, &all, &[]);
    dir.place_each("a/k k", "v");
    let requests = [
        "DELETE /a/",
        "DELETE /k",
        "MOVE /a/",
        "MOVE /k",
        "COPY /a/",
        "MKCOL /b/",
    ];
    for request in requests {
        let to = if request.ends_with('/') { "/c/" } else { "/c" };
        let mut raw = server.connect();
        let lines = format!("{DEEP}Destination: {to}\r\n{}", bearer("ann"));
        let len = if request.starts_with("MKCOL") {
            "Transfer-Encoding: chunked"
        } else {
            "Content-Length: 5"
        };
        raw.send(format!(
            "{request} HTTP/1.1\r\nHost: t\r\n{lines}{len}\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(raw.head().status, 100, "{request}");
        revise(&server, &one_who_may("ann", &["metrics"]));
        assert_eq!(raw.ask("0\r\n\r\n").status, 403, "{request}");
        dir.assert_holds(&["a/k", "k"]);
        revise(&server, &all);
    }
}

#[test]
fn a_client_that_leaves_ends_it() {
    directory_only!("folders of the directory");
    let server = Launch::new(&["--threads", "1"])
        .on(&DataDir::in_memory())
        .start();
    let count = scaled(8_000, 20_000);
    for n in 0..count {
        server.dir.place(&format!("f/{:02}/{n:05}", n % 50), "v");
    }
    let raw = server.begin("DELETE", "/f/", DEEP);
    let left = || server.dir.names().len();
    eventually("some of it went", || left() < count);
    raw.reset();
    assert_it_ends(left);
}

/// What is left stays, and the answer says what had gone.
#[test]
fn a_right_that_is_revoked_ends_it() {
    directory_only!("folders of the directory");
    let dir = DataDir::in_memory();
    let policy = one_who_may("ann", &["list", "delete"]);
    let server = serve_on(&dir, &policy, &["--threads", "1"]);
    let count = scaled(8_000, 20_000);
    for n in 0..count {
        dir.place(&format!("f/{:02}/{n:05}", n % 50), "v");
    }
    let lines = format!("{DEEP}{}", bearer("ann"));
    let refused = thread::scope(|scope| {
        let removing = scope.spawn(|| server.request("DELETE", "/f/", &lines, b""));
        eventually("some of it went", || dir.names().len() < count);
        revise(&server, &one_who_may("ann", &["list"]));
        removing.join().expect("an answer")
    });
    let left = dir.names().len();
    refused.says(403, " values were removed before");
    assert!(left > 0, "all of it went");
}

#[test]
fn a_client_that_leaves_ends_the_removal_of_folders_too() {
    directory_only!("folders of the directory");
    // An index would first read each folder that is made by hand.
    let server = Launch::new(&["--threads", "1", "--listing-index", "0"])
        .on(&DataDir::in_memory())
        .start();
    let count = scaled(8_000, 20_000);
    for n in 0..count {
        fs::create_dir_all(server.dir.file(format!("f/{n}/x"))).expect("folders");
    }
    let raw = server.begin("DELETE", "/f/", DEEP);
    let left = || fs::read_dir(server.dir.file("f")).map_or(0, Iterator::count);
    eventually("some of it went", || left() < count);
    raw.reset();
    assert_it_ends(left);
}

#[test]
fn a_kill_leaves_values_whole_or_gone_and_the_folder_is_removed_by_the_next() {
    directory_only!("folders of the directory");
    for way in [&[][..], &["--durability", "disk"]] {
        let dir = DataDir::temporary();
        let mut kills = 0;
        for _ in 0..scaled(3, 20) {
            let mut server = Launch::new(way).on(&dir).start();
            let value = pattern(1, 3_000);
            for n in 0..300 {
                dir.place(&format!("f/{:02}/{n:03}", n % 7), &value);
            }
            assert!(matches!(make(&server, "f/stays"), 201 | 405));
            let _removing = server.begin("DELETE", "/f/", DEEP);
            eventually("some of it went", || dir.names().len() < 300);
            server.kill();
            let server = Launch::new(way).on(&dir).start();
            for key in dir.names() {
                let key = String::from_utf8(key).expect("text");
                if dir.file(&key).is_file() {
                    assert!(server.get(&key).body == value, "{key} is torn");
                }
            }
            kills += usize::from(!dir.names().is_empty());
            let removed = remove(&server, "f/");
            assert!(matches!(removed.status, 200 | 404), "{removed:?}");
            dir.assert_holds(&[]);
        }
        assert!(kills > 0, "each was over before the kill");
    }
}

#[test]
fn watchers_are_told_of_each_value() {
    directory_only!("the feed of changes");
    let server = TestServer::start(&[]);
    let mut events = Events::open(&server, "?prefix=f/", "");
    for n in 0..3 {
        server.store(&format!("f/{n}"), "v");
    }
    assert_eq!(make(&server, "f/folder"), 201);
    assert_eq!(report(&remove(&server, "f/")), (3, 0, vec![]));
    for (op, n) in [
        ("put", 0),
        ("put", 1),
        ("put", 2),
        ("delete", 0),
        ("delete", 1),
        ("delete", 2),
    ] {
        let told = events.next().expect("an event");
        assert_eq!((&*told.op, &*told.key), (op, &*format!("f/{n}")));
    }
}

/// `WebDAV` clients leave it out, and take 404 for gone already.
#[test]
fn a_folder_that_is_named_without_its_slash_is_not_said_to_be_gone() {
    directory_only!("folders without values");
    let dir = DataDir::temporary();
    dir.place("team/a", "v");
    let all = ["read", "write", "delete"];
    let blind = rule("anonymous", "", &all);
    let listing = blind.clone() + &rule("anonymous", "", &["list"]);
    // Whoever may list nothing is not told what is there.
    for (rules, status) in [
        (None, "409"),
        (Some(&listing), "409"),
        (Some(&blind), "404"),
    ] {
        let server = match rules {
            Some(rules) => serve_on(&dir, rules, &[]),
            None => Launch::new(&[]).on(&dir).start(),
        };
        let rows = "
            DELETE /NAME ; STATUS
            DELETE /NAME ; STATUS ; If-Match: *
            DELETE /NAME ; STATUS ; Depth: infinity
            MOVE,COPY /NAME /new ; STATUS";
        server.talk(&rows.replace("NAME", "team").replace("STATUS", status));
        server.talk(&rows.replace("NAME", "none").replace("STATUS", "404"));
    }
    let server = Launch::new(&["--compat"]).on(&dir).start();
    server.talk("DELETE /team ; 404\nholds team/a");
}
