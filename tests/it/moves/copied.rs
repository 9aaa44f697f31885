//! COPY of a folder: value by value, after the rights to all.

use super::send;
use crate::support::policy::{bearer, one_who_may, revise, rule, serve_on, subject};
use crate::support::prelude::*;

fn copy(server: &TestServer, from: &str, to: &str, lines: &str) -> Response {
    send(&mut server.connect(), "COPY", from, to, lines)
}

/// What a report says: how many were copied, and which not.
fn report(answer: &Response) -> (u64, u64, Vec<String>) {
    let report = answer.json();
    let number = |name: &str| report[name].as_u64().expect("a number");
    let why = report["why"].as_array().expect("a list").iter();
    let why = why.map(|left| left["name"].as_str().expect("a name").to_owned());
    (number("copied"), number("stayed"), why.collect())
}

#[test]
fn each_value_is_copied_with_its_attributes() {
    let server = TestServer::start(&[]);
    let lines = "Content-Type: text/x-own\r\nContent-Language: eo\r\n";
    let values = [("1", 5), ("b/2", 200_000), ("b/c/3", 0)];
    for (n, (name, length)) in (0..).zip(values) {
        server.store_as(&format!("a/{name}"), lines, pattern(n, length));
    }
    server.store("a-b", "v");
    let copied = copy(&server, "/a/", "/x/y/", "Depth: infinity\r\n");
    assert_eq!((copied.status, report(&copied)), (200, (3, 0, vec![])));
    for (n, (name, length)) in (0..).zip(values) {
        for folder in ["a", "x/y"] {
            let found = server.get(&format!("{folder}/{name}"));
            assert!(found.body == pattern(n, length), "{folder}/{name}");
            assert_eq!(found.must("content-type"), "text/x-own");
            assert_eq!(found.must("content-language"), "eo");
        }
    }
    let all = words("a-b a/1 a/b/2 a/b/c/3 x/y/1 x/y/b/2 x/y/b/c/3");
    server.dir.assert_holds(&all);
    copy(&server, "/none/", "/b/", "").says(404, "no folder of this name");
    let moved = send(&mut server.connect(), "MOVE", "/a/", "/b/", "");
    if is_s3() {
        moved.says(501, "COPY it, then DELETE it");
    } else {
        assert_eq!(moved.status, 201);
    }
}

#[test]
fn values_in_the_way_are_replaced_unless_overwrite_says_no() {
    directory_only!("the real store of the tests copies long values under no condition");
    let server = TestServer::start(&[]);
    for key in ["a/1", "a/2", "a/3"] {
        server.store(key, key);
    }
    server.store_each("b/2 b/own", "old");
    let kept = copy(&server, "/a/", "/b/", "Overwrite: F\r\n");
    kept.says(
        409,
        "the destination has a value, which is not to be replaced",
    );
    let left = vec!["a/2".to_owned()];
    assert_eq!((kept.status, report(&kept)), (409, (2, 1, left)));
    assert_eq!(server.get("b/2").body, b"old");
    let replaced = copy(&server, "/a/", "/b/", "");
    assert_eq!((replaced.status, report(&replaced).0), (200, 3));
    assert_eq!(server.get("b/2").body, b"a/2");
    assert_eq!(server.get("b/own").body, b"old", "nothing else is touched");
    // A name that cannot be had costs its value alone.
    server.store_each("a/4/k c/4", "v");
    let partly = copy(&server, "/a/", "/c/", "");
    let left = vec!["a/4/k".to_owned()];
    assert_eq!((partly.status, report(&partly)), (409, (3, 1, left)));
    assert_eq!(server.ask("MKCOL", "empty").status, 201);
    let none = copy(&server, "/empty/", "/d/", "");
    assert_eq!((none.status, report(&none)), (200, (0, 0, vec![])));
    assert!(!server.dir.file("d").exists());
}

#[test]
fn where_one_right_to_one_key_is_missing_nothing_is_copied() {
    // What each subject lacks.
    let subjects = [
        ("none", ""),
        ("read", "from/2"),
        ("create", "to/2"),
        ("list", "from/"),
    ];
    let mut policy = String::new();
    for (name, lacks) in subjects {
        policy += &subject(name);
        let mut allow = |prefix: &str, right: &str| {
            if (right, prefix) != (name, lacks) {
                policy += &rule(name, prefix, &[right]);
            }
        };
        allow("from/", "list");
        for key in ["1", "2", "3"] {
            allow(&format!("from/{key}"), "read");
            allow(&format!("to/{key}"), "create");
        }
    }
    let dir = DataDir::temporary();
    let server = serve_on(&dir, &policy, &[]);
    dir.place_each("from/1 from/2 from/3", "v");
    for name in ["read", "create", "list"] {
        let copied = copy(&server, "/from/", "/to/", &bearer(name));
        assert_eq!(copied.status, 403, "{name}");
        dir.assert_holds(&["from/1", "from/2", "from/3"]);
    }
    assert_eq!(copy(&server, "/from/", "/to/", "").status, 401);
    dir.place("to/3", "old");
    let copied = copy(&server, "/from/", "/to/", &bearer("none"));
    // Who may create and not replace leaves what is there.
    let left = vec!["from/3".to_owned()];
    assert_eq!((copied.status, report(&copied)), (409, (2, 1, left)));
    assert_eq!(server.dir.read("to/3"), b"old");
    assert_eq!(server.dir.read("to/2"), b"v");
}

/// Several at once take no more room than there is.
#[test]
fn a_copy_of_a_folder_finds_the_room_that_each_of_its_values_finds() {
    for (most, length) in [("1MiB", 200_000), ("256KiB", 90_000), ("256KiB", 262_144)] {
        let server = TestServer::start(&["--max-staged-per-client", most]);
        for n in 0..20 {
            server.dir.place(&format!("a/{n:02}"), pattern(n, length));
        }
        let copied = copy(&server, "/a/", "/b/", "");
        assert_eq!((copied.status, report(&copied)), (200, (20, 0, vec![])));
        assert!(server.get("b/19").body == pattern(19, length));
    }
}

/// A folder that the server may not read, or not search, is no folder without values.
#[test]
fn a_folder_that_cannot_be_read_is_told_as_one_that_stays() {
    directory_only!("rights of folders");
    for index in ["0", "64MiB"] {
        let dir = DataDir::in_memory();
        dir.place_each("m/a m/sub/b m/z other/k", "v");
        // Enough for an index.
        for n in 0..1_100 {
            dir.place(&format!("many/{n}"), "");
        }
        chmod(dir.file("m/sub"), 0o700);
        let args = ["--listing-index", index];
        let server = served_by_nobody_with(&dir, &args, "folders without permission");
        let server = needed!(server);
        let left = vec!["m/sub/".to_owned()];
        for mode in [0o700, 0o744] {
            chmod(dir.file("m/sub"), mode);
            for _ in 0..2 {
                let copied = copy(&server, "/m/", "/copy/", "");
                let found = (copied.status, report(&copied));
                assert_eq!(found, (409, (2, 1, left.clone())));
                let copied = copy(&server, "/m/sub/", "/below/", "");
                let seen = (copied.status, report(&copied));
                assert_eq!(seen, (409, (0, 1, left.clone())));
            }
            assert_eq!(copy(&server, "/other/", "/copy/", "").status, 200);
        }
        chmod(dir.file("m/sub"), 0o755);
        let copied = copy(&server, "/m/", "/copy/", "");
        assert_eq!((copied.status, report(&copied)), (200, (3, 0, vec![])));
    }
}

#[test]
fn a_name_at_or_below_a_value_is_refused_before_the_first_is_copied() {
    directory_only!("an S3 store may have a value below a value");
    let server = TestServer::start(&[]);
    server.store_each("a/1 a/2 value", "v");
    symlink("nowhere", server.dir.file("link")).expect("a link");
    for to in ["/value/", "/value/b/c/"] {
        copy(&server, "/a/", to, "").says(409, "\"value\" is a value, so nothing lies below it");
    }
    copy(&server, "/a/", "/link/", "").says(409, "\"link\" is a link or device");
    server.dir.assert_holds(&["a/1", "a/2", "link", "value"]);
}

#[test]
fn the_audit_log_tells_of_each_value_that_may_not_be_replaced() {
    let dir = DataDir::temporary();
    let policy = one_who_may("ann", &["list", "read", "create"]);
    let mut server = serve_on(&dir, &policy, &["--audit-log", "--threads", "1"]);
    for key in ["a/1", "a/2 x", "b/2 x"] {
        dir.place(key, key);
    }
    let copied = copy(&server, "/a/", "/b/", &bearer("ann"));
    assert_eq!((copied.status, report(&copied).0), (409, 1));
    server.stop();
    let mut told = server.audited("result key");
    told.sort();
    assert_eq!(told, ["changed /b/1", "refused /a/2%20x"]);
}

#[test]
fn copies_that_a_bound_has_no_room_for_are_refused_before_the_first() {
    directory_only!("bounds");
    let quota = r#"prefix = "q/{name}/", max-keys = 20, full = "refuse""#;
    let cache = r#"prefix = "c/", max-size = "120KiB""#;
    let mut server = TestServer::start(&["--bound", quota, "--bound", cache, "--audit-log"]);
    for n in 0..20 {
        for folder in ["a", "c/a"] {
            server.store(&format!("{folder}/{n:02}"), [1; 4096]);
        }
    }
    server.store("q/b/other", "v");
    let before = server.dir.names();
    let why = "the bound of \"q/b/\" is full (max-keys 20): all of this has no room in it";
    copy(&server, "/a/", "/q/b/", "").says(507, why);
    // The copies and what they are made of have no room beside each other.
    let why = "the bound of \"c/\" is full (max-size 120.0 KiB): all of this";
    copy(&server, "/c/a/", "/c/b/", "").says(507, why);
    assert_eq!(server.dir.names(), before, "nothing was copied or evicted");
    // What replaces values of the same size takes no room, and what stays is not copied.
    let copied = copy(&server, "/a/", "/q/full/", "");
    assert_eq!((copied.status, report(&copied).0), (200, 20));
    let copied = copy(&server, "/a/", "/q/full/", "");
    assert_eq!((copied.status, report(&copied).0), (200, 20));
    let kept = copy(&server, "/a/", "/q/full/", "Overwrite: F\r\n");
    assert_eq!((kept.status, report(&kept).1), (409, 20));
    server.stop();
    let mut told = server.audited("method result");
    told.retain(|line| line == "COPY changed");
    assert_eq!(told.len(), 20 + 20);
}

/// Those go that are not copied, though the copied ones were used before them.
#[test]
fn copies_evict_none_of_the_values_that_they_are_made_of() {
    directory_only!("bounds");
    let server = TestServer::start(&["--max-size", "400KiB"]);
    for (folder, count) in [("a", 30), ("other", 70)] {
        for n in 0..count {
            server.store(&format!("{folder}/{n:02}"), [1; 4096]);
        }
        pass(Duration::from_millis(20)); // a tick of the clock of uses
    }
    let copied = copy(&server, "/a/", "/b/", "");
    assert_eq!((copied.status, report(&copied)), (200, (30, 0, vec![])));
    for n in 0..30 {
        for folder in ["a", "b"] {
            let is_right = server.dir.file(format!("{folder}/{n:02}")).exists();
            assert!(is_right, "{folder}/{n}");
        }
    }
}

#[test]
fn copies_that_the_disk_has_no_room_for_are_refused_before_the_first() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs("size=32m", "copies on a disk that fills up"));
    let server = Launch::new(&["--min-free", "4MiB"])
        .on(&mount.dir())
        .start();
    for n in 0..15 {
        server.store(&format!("a/{n:02}"), pattern(n, 1 << 20));
    }
    let before = server.dir.names();
    copy(&server, "/a/", "/b/", "").says(507, "no more than --min-free is left");
    assert_eq!(server.dir.names(), before, "nothing was copied");
    // In place of others they take no more.
    for n in 0..10 {
        server.store(&format!("b/{n:02}"), pattern(n + 20, 1 << 20));
    }
    let copied = copy(&server, "/a/", "/b/", "");
    assert_eq!(copied.status, 507, "five more than there is room for");
    assert_eq!(server.ask("DELETE", "a/10").status, 200);
    for n in 11..15 {
        assert_eq!(server.ask("DELETE", &format!("a/{n}")).status, 200);
    }
    let copied = copy(&server, "/a/", "/b/", "");
    assert_eq!((copied.status, report(&copied)), (200, (10, 0, vec![])));
}

#[test]
fn a_value_that_has_gone_meanwhile_counts_as_one_that_stays() {
    directory_only!("many values");
    let server = TestServer::start(&["--threads", "1"]);
    for n in 0..10_000 {
        server.dir.place(&format!("f/{n:05}"), "v");
    }
    let copied = thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&server, "/f/", "/g/", ""));
        eventually("some of it is copied", || server.dir.file("g").exists());
        let removed = server.ask("DELETE", "f/09999").status;
        assert_eq!(removed, 200);
        copying.join().expect("an answer")
    });
    let (made, stayed, _) = report(&copied);
    assert_eq!((copied.status, made, stayed), (409, 9_999, 1));
    copied.says(409, "gone meanwhile");
}

/// A sibling is one only if it is later than its value.
#[test]
fn siblings_are_siblings_in_the_copy_too() {
    directory_only!("times in nanoseconds");
    for durability in ["os", "disk"] {
        let args = ["--durability", durability, "--site", "prefix = \"\""];
        let server = TestServer::start(&args);
        for n in 0..40 {
            for ending in ["", ".br", ".gz", ".gz.br"] {
                server.store(&format!("a/{n:02}.js{ending}"), "v");
            }
        }
        let copied = copy(&server, "/a/", "/b/", "");
        assert_eq!((copied.status, report(&copied).0), (200, 160));
        for n in 0..40 {
            for coding in ["br", "gzip"] {
                let lines = format!("Accept-Encoding: {coding}\r\n");
                let got = server.request("GET", &format!("/b/{n:02}.js"), &lines, b"");
                let found = got.header("content-encoding");
                assert_eq!(found, Some(coding), "{durability} {n}");
            }
            let times =
                [".gz", ".gz.br"].map(|it| server.dir.modified(&format!("b/{n:02}.js{it}")));
            assert!(times[0] < times[1], "a sibling of a sibling");
        }
    }
}

/// What is copied stays, and the answer says how much that is.
#[test]
fn a_right_that_is_revoked_ends_it() {
    directory_only!("many values");
    let dir = DataDir::temporary();
    let all = one_who_may("ann", &["list", "read", "create"]);
    let server = serve_on(&dir, &all, &["--threads", "1"]);
    let count = scaled(8_000, 20_000);
    for n in 0..count {
        dir.place(&format!("f/{:02}/{n:05}", n % 50), "v");
    }
    let line = bearer("ann");
    let without_create = all.replace(", \"create\"", "");
    for (to, rules, status) in [("g", &*without_create, 403), ("h", "", 401)] {
        revise(&server, &all);
        let copied = || {
            let names = dir.names();
            let begins = |name: &&Vec<u8>| name.starts_with(to.as_bytes());
            names.iter().filter(begins).count()
        };
        let refused = thread::scope(|scope| {
            let to = format!("/{to}/");
            let line = &line;
            let server = &server;
            let copying = scope.spawn(move || copy(server, "/f/", &to, line));
            eventually("some of it is copied", || copied() > 0);
            revise(server, rules);
            copying.join().expect("an answer")
        });
        let copied = copied();
        refused.says(status, &format!("{copied} values were copied before"));
        assert!(copied < count, "all of it was copied");
    }
}

#[test]
fn a_client_that_leaves_ends_it() {
    directory_only!("moves of folders");
    http1_only!("a client that resets its connection");
    let server = TestServer::start(&["--threads", "1"]);
    let count = scaled(8_000, 20_000);
    for n in 0..count {
        server.dir.place(&format!("f/{:02}/{n:05}", n % 50), "v");
    }
    let raw = server.begin("COPY", "/f/", "Destination: /g/\r\n");
    let copied = || server.dir.names().len() - count;
    eventually("some of it is copied", || copied() > 0);
    raw.reset();
    let mut before = copied();
    eventually("no more is copied", || {
        thread::sleep(Duration::from_millis(100)); // a time without a change is what is tested
        let now = copied();
        std::mem::replace(&mut before, now) == now
    });
    assert!(before < count, "all of it was copied");
}

/// One client's folder is not another's wait.
#[test]
fn others_have_their_turn_and_are_found_in_the_feed() {
    directory_only!("the feed of changes");
    let server = TestServer::start(&["--threads", "1"]);
    for n in 0..2_500 {
        server.dir.place(&format!("f/{n:04}"), "v");
    }
    let mut events = Events::open(&server, "?prefix=g/", "");
    let (copied, during) = thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&server, "/f/", "/g/", ""));
        let (mut during, mut writer) = (0, Client::new(server.addr));
        while !copying.is_finished() {
            assert_eq!(writer.put("other", "v").status, 200);
            during += 1;
        }
        (copying.join().expect("an answer"), during)
    });
    assert_eq!(report(&copied), (2_500, 0, vec![]));
    assert!(during > 10, "{during} values were stored meanwhile");
    let told = (0..2_500).map(|_| events.next().expect("an event").key);
    assert_eq!(told.collect::<BTreeSet<_>>().len(), 2_500);
}
