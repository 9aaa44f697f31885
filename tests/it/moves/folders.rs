//! MOVE of a folder: what goes with it, what is in its way, what it takes, and what others see.

use super::{etag, send};
use crate::support::prelude::*;

const MODES: [&[&str]; 3] = [
    &[],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

fn shift(server: &TestServer, from: &str, to: &str, lines: &str) -> Response {
    send(&mut server.connect(), "MOVE", from, to, lines)
}

#[test]
fn a_folder_moves_with_all_that_is_below_it() {
    directory_only!("moves of folders");
    for args in MODES {
        let dir = DataDir::temporary();
        let mut server = Launch::new(args).on(&dir).start();
        let lines = "Content-Type: text/x-own\r\nContent-Language: eo\r\n";
        let values = [("1", 5), ("b/2", 200_000), ("b/c/3", 0), ("b/4", 20_000)];
        for (n, (name, length)) in (0..).zip(values) {
            server.store_as(&format!("in/a/{name}"), lines, pattern(n, length));
        }
        assert_eq!(server.ask("MKCOL", "in/a/empty").status, 201);
        symlink("nowhere", dir.file("in/a/link")).expect("a link");
        fs::write(dir.file(b"in/a/\xff"), "no key").expect("a file");
        chmod(dir.file("in/a/b"), 0o751);
        let tags = values.map(|(name, _)| etag(&server, &format!("in/a/{name}")));
        let moved = shift(&server, "/in/a/", "/x/y/z/", "Depth: infinity\r\n");
        assert_eq!((moved.status, moved.body.len()), (201, 0), "{moved:?}");
        let is_there = |server: &TestServer, at: &str| {
            for ((n, (name, length)), tag) in (0..).zip(values).zip(&tags) {
                let found = server.get(&format!("{at}/{name}"));
                assert!(found.body == pattern(n, length), "{at}/{name}");
                assert_eq!(found.must("etag"), tag);
                assert_eq!(found.must("content-type"), "text/x-own");
                assert_eq!(found.must("content-language"), "eo");
            }
            let mode = fs::metadata(dir.file(format!("{at}/b"))).expect("a folder");
            assert_eq!(mode.mode() & 0o777, 0o751);
            assert!(dir.file(format!("{at}/empty")).is_dir());
            assert!(dir.file(format!("{at}/link")).is_symlink());
            assert!(dir.file([at.as_bytes(), b"/\xff"].concat()).is_file());
        };
        is_there(&server, "x/y/z");
        assert_eq!(server.get("in/a/1").status, 404);
        assert!(!dir.file("in").exists(), "it was made for the folder below");
        server.kill();
        let server = Launch::new(args).on(&dir).start();
        is_there(&server, "x/y/z");
        // What was made for it goes, and what is its own stays.
        assert_eq!(shift(&server, "/x/y/z/", "/x/", "").status, 403);
        assert_eq!(shift(&server, "/x/y/z%2F", "http://t/a%2F", "").status, 201);
        is_there(&server, "a");
        assert!(!dir.file("x").exists());
    }
}

#[test]
fn a_folder_that_a_put_made_goes_with_its_last_value_under_its_new_name_too() {
    directory_only!("moves of folders");
    TestServer::start(&[]).talk(
        "
        MKCOL /stays ; 201
        PUT /stays/k v ; 200
        PUT /goes/k v ; 200
        MOVE /stays/ /a/ ; 201
        MOVE /goes/ /b/ ; 201
        DELETE /a/k ; 200
        DELETE /b/k ; 200
        holds a
        MOVE /a/ /c/ ; 201
        holds c",
    );
}

#[test]
fn nothing_is_replaced_or_merged() {
    directory_only!("moves of folders");
    for args in MODES {
        let server = Launch::new(args).start();
        server.store_each("a/k full/k value", "v");
        server.talk("mkdir empty\nlink link nowhere");
        for (to, what) in [
            ("/full/", "a folder has"),
            ("/empty/", "a folder has"),
            ("/value/", "a value has"),
            ("/link/", "a link or device has"),
        ] {
            let rows = "
                MOVE /a/ TO ; 409 ; ; WHAT
                MOVE /a/ TO ; 409 ; Overwrite: T ; WHAT
                MOVE /a/ TO ; 412 ; Overwrite: F ; WHAT";
            server.talk(&rows.replace("TO", to).replace("WHAT", what));
        }
        server.talk(
            "
            MOVE /a/ /value/b/c/ ; 409 ; ; \"value\" is a value
            MOVE /none/ /new/deep/ ; 404 ; ; no folder of this name
            MOVE /none/at/all/ /new/deep/ ; 404 ; ; no folder of this name
            MOVE /value/ /new/deep/ ; 404 ; ; no folder of this name
            MOVE /value/b/ /new/deep/ ; 404 ; ; no folder of this name
            MOVE /link/ /new/deep/ ; 404 ; ; no folder of this name
            holds a/k empty full/k link value",
        );
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    directory_only!("moves of folders");
    let server = TestServer::start(&[]);
    server.store_each("a/b/k k", "v");
    server.talk(
        "
        MOVE,COPY /a/ /a/ ; 403 ; ; one of the two folders
        MOVE,COPY /a/ /a/x/ ; 403 ; ; one of the two folders
        MOVE,COPY /a/ /%61/b/ ; 403 ; ; one of the two folders
        MOVE,COPY /a/b/ /a/ ; 403 ; ; one of the two folders
        MOVE,COPY /a/ /b ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /k /b/ ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /a/ / ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY / /b/ ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /k / ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /a/ /b/ ; 400 ; Depth: 0 ; Depth is infinity
        MOVE,COPY /a/ /b/ ; 400 ; Depth: 1 ; Depth is infinity
        MOVE,COPY /a/ /b/ ; 400 ; Depth: deep ; Depth is infinity, 0 or 1, once
        MOVE,COPY /a/ /b/ ; 400 ; If-Match: * ; takes no precondition
        MOVE,COPY /a/ /b/ ; 400 ; If-None-Match: \"x\" ; takes no precondition
        MOVE,COPY /a/ /b/ ; 400 ; Destination-If-Match: * ; takes no precondition
        MOVE,COPY /a/ /b/ ; 400 ; X-Delete-After: 60 ; take no x-delete-after
        MOVE,COPY /a/ /b/ ; 400 ; Overwrite: f ; Overwrite is T or F
        MOVE,COPY /a/ /b/ ; 501 ; If: (<urn:x>) ; locks
        MOVE,COPY /a/ http://elsewhere.example/b/ ; 502 ; ; of this server
        MOVE,COPY /a/ /-/ ; 400 ; ; Destination
        MOVE,COPY /a/ /.data-server/ ; 400 ; ; the server's own
        holds a/b/k k",
    );
    TestServer::start(&["--read-only"]).talk("place a/k v\nMOVE,COPY /a/ /b/ ; 403");
    TestServer::start(&["--compat"]).talk("place a/k v\nMOVE,COPY /a/ /b/ ; 404");
}

#[test]
fn of_two_folders_the_name_that_is_wrong_is_told() {
    TestServer::start(&[]).talk(
        "
        PUT /a/k v ; 200
        MOVE,COPY /{n300}/ /g/ ; 414 ; ; 255 bytes
        MOVE,COPY /a/ /{n300}/ ; 414 ; ; 255 bytes
        MOVE,COPY /a/ /b// ; 400 ; ; empty
        MOVE,COPY /-/x /g ; 404 ; ; nothing has this path
        MOVE,COPY /-/x/ /g/ ; 404 ; ; nothing has this path
        MOVE,COPY /a/k /-/x ; 400 ; ; Destination",
    );
}

#[test]
fn no_key_gets_too_long_or_too_deep() {
    directory_only!("moves of folders");
    TestServer::start(&["--max-key-depth", "6"]).talk(
        "
        PUT /a/{k250}/{k250}/{k250}/{k200} v ; 200
        PUT /b/1/2/3/4/5 v ; 200
        MOVE,COPY /a/ /{x71}/ ; 414 ; ; at most 1024 bytes
        MOVE,COPY /b/ /c/d/ ; 400 ; ; more segments than
        holds a/{k250}/{k250}/{k250}/{k200} b/1/2/3/4/5
        MOVE /a/ /{x70}/ ; 201
        GET /{x70}/{k250}/{k250}/{k250}/{k200} ; 200 ; ; =v
        MOVE /{x70}/ /a/ ; 201
        MOVE /b/1/2/ /c/d/e/f/ ; 400
        MOVE /b/1/2/ /c/d/ ; 201
        GET /c/d/3/4/5 ; 200 ; ; =v",
    );
}

/// What MKCOL refuses no move makes: below each folder there may be a key.
#[test]
fn no_folder_without_a_value_gets_too_long_or_too_deep() {
    directory_only!("moves of folders");
    TestServer::start(&["--max-key-depth", "6"]).talk(
        "
        MKCOL /e ; 201
        MOVE /e/ /1/2/3/4/5/e/ ; 400 ; ; more segments than
        MOVE /e/ /1/2/3/4/e/ ; 201
        MOVE /1/ /0/1/ ; 400 ; ; more segments than
        holds 1/2/3/4/e
        MKCOL /a ; 201
        MKCOL /a/{k250} ; 201
        MKCOL /a/{k250}/{k250} ; 201
        MKCOL /a/{k250}/{k250}/{k250} ; 201
        MKCOL /a/{k250}/{k250}/{k250}/{k200} ; 201
        MOVE /a/ /{x69}/ ; 414 ; ; at most 1024 bytes
        MOVE /a/ /{x68}/ ; 201
        PUT /{x68}/{k250}/{k250}/{k250}/{k200}/k v ; 200",
    );
}

#[test]
fn between_other_bounds_or_rules_of_names_no_folder_moves() {
    directory_only!("bounds");
    let dir = DataDir::temporary();
    let config = dir.outside("config.toml");
    fs::write(
        &config,
        "[[content]]\nprefix = \"cas/\"\nname = \"sha256\"\n",
    )
    .unwrap();
    let bounds = [
        r#"prefix = "", max-keys = 100, full = "refuse""#,
        r#"prefix = "q/", max-keys = 4, full = "refuse""#,
        r#"prefix = "home/{name}/", max-keys = 2, full = "refuse""#,
        r#"prefix = "part/of/", max-keys = 2, full = "refuse""#,
        r#"prefix = "tmp/{name}/cache/", max-keys = 2, full = "refuse""#,
    ];
    let bounds: Vec<_> = bounds.iter().flat_map(|bound| ["--bound", bound]).collect();
    for way in MODES {
        let args = [&["--config", config.to_str().unwrap()], way, &bounds].concat();
        let server = Launch::new(&args).on(&dir).start();
        let digits = "4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080";
        for key in
            "a/k q/a/1 q/a/2 q/a/3 home/ann/a/1 home/ann/a/2 part/k tmp/ann/docs/k".split(' ')
        {
            server.store(key, "v");
        }
        server.store(&format!("cas/a/{digits}"), "v");
        for (from, to) in [
            ("/a/", "/q/b/"),
            ("/q/a/", "/b/"),
            ("/q/", "/b/"),
            ("/home/ann/", "/home/bob/"),
            ("/home/ann/a/", "/home/bob/a/"),
            ("/home/", "/b/"),
            ("/part/", "/b/"),
            ("/a/", "/part/"),
            ("/a/", "/cas/b/"),
            ("/cas/a/", "/b/"),
            ("/cas/", "/b/"),
            ("/tmp/ann/", "/tmp/bob/"),
            ("/tmp/ann/docs/", "/tmp/ann/cache/"),
        ] {
            shift(&server, from, to, "").says(409, "not the same bounds");
        }
        for (from, to) in [
            ("/a/", "/b/"),
            ("/q/a/", "/q/x/b/"),
            ("/home/ann/a/", "/home/ann/b/"),
            ("/cas/a/", "/cas/b/"),
            ("/tmp/ann/docs/", "/tmp/bob/papers/"),
        ] {
            assert_eq!(shift(&server, from, to, "").status, 201, "{from}");
        }
        // The account has each value once, under its new name.
        server.store("q/more", "v");
        assert_eq!(server.put("q/too-many", "v").status, 507);
        assert_eq!(server.put("home/ann/c", "v").status, 507);
        server.store("q/x/b/1", "replaced");
        assert_eq!(server.ask("DELETE", "q/x/b/1").status, 200);
        server.store("q/again", "v");
        assert_eq!(server.put("q/too-many", "v").status, 507);
        drop(server);
        dir.clear();
    }
}

/// Values keep their uses: what is evicted next is what was used longest ago.
#[test]
fn a_move_within_a_bound_evicts_nothing() {
    directory_only!("bounds");
    for way in MODES {
        let args = [&["--bound", r#"prefix = "c/", max-keys = 4"#], way].concat();
        let server = TestServer::start(&args);
        for key in ["c/a/1", "c/a/2", "c/b/1", "c/b/2"] {
            server.store(key, "v");
            pass(Duration::from_millis(12));
        }
        assert_eq!(server.get("c/a/1").status, 200);
        assert_eq!(shift(&server, "/c/a/", "/c/x/", "").status, 201);
        server
            .dir
            .assert_holds(&["c/b/1", "c/b/2", "c/x/1", "c/x/2"]);
        server.store("c/new/1", "v");
        server
            .dir
            .assert_holds(&["c/b/1", "c/b/2", "c/new/1", "c/x/1"]);
    }
}

/// The index meets the values under their new names while they are counted under the old ones.
#[test]
fn listings_beside_a_move_make_no_bound_forget_a_use_nor_count_a_value_twice() {
    const VALUES: usize = 100;
    directory_only!("bounds");
    tracing_only!("a rename that takes long");
    let dir = DataDir::in_memory();
    let now = SystemTime::now();
    let date = |key: &str, days: u64| {
        let then = now - Duration::from_secs(days * 86_400);
        let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
        let file = File::options().write(true).open(dir.file(key));
        file.and_then(|file| file.set_times(times)).expect("times");
    };
    let keys: Vec<_> = (0..VALUES).map(|n| format!("a/{n}")).collect();
    for key in &keys {
        dir.place(key, "v");
        date(key, 60);
    }
    dir.place("b", "v");
    date("b", 1);
    // More is evicted ahead of need, but what was used within an hour.
    let bound = format!("prefix = \"\", max-keys = {}", VALUES * 20 / 19 + 2);
    let args = ["--bound", &bound, "--evict-existing", "--threads", "2"];
    let server = Launch::new(&args).on(&dir).start();
    let mut session = Client::new(server.addr);
    for key in &keys {
        assert_eq!(session.ask("GET", key).status, 200);
        // The account alone knows of this use.
        date(key, 60);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = Client::new(server.addr);
                while !done.load(Ordering::SeqCst) {
                    assert_eq!(session.ask("GET", "?limit=1").status, 200);
                }
            });
        }
        // The rename is made, and the account does not know it yet.
        let tracer = Attached::injecting(&server, "renameat2", "delay_exit=300000");
        for n in 0..scaled(6, 40) {
            let (from, to) = [("/a/", "/c/"), ("/c/", "/a/")][n % 2];
            assert_eq!(shift(&server, from, to, "").status, 201);
        }
        drop(tracer);
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(dir.names().len(), VALUES + 1);
    for n in 0..5 {
        server.store(&format!("new/{n}"), "v");
    }
    let has_b = || dir.names().contains(&b"b".to_vec());
    eventually("what was used a day ago is evicted", || !has_b());
    assert_eq!(dir.names().len(), VALUES + 5, "and nothing else");
}

#[test]
fn watchers_are_told_to_look_anew_and_audited_are_both_names() {
    directory_only!("the feed");
    let mut server = TestServer::start(&["--audit-log"]);
    let mut events = Events::open(&server, "", "");
    server.store("a/k", "v");
    assert_eq!(events.next().expect("an event").key, "a/k");
    shift(&server, "/a/", "/a/b/", "").says(403, "");
    shift(&server, "/none/", "/b/", "").says(404, "");
    assert_eq!(shift(&server, "/a/", "/b c/", "").status, 400);
    assert_eq!(shift(&server, "/a/", "/b%20c/", "").status, 201);
    assert!(events.next().expect("an event").is_resync());
    server.store("b%20c/k", "v");
    assert_eq!(events.next().expect("an event").key, "b c/k");
    server.stop();
    let mut told = server.audited("method key");
    told.retain(|line| line.starts_with("MOVE"));
    told.sort();
    assert_eq!(told, ["MOVE /a/", "MOVE /b%20c/"]);
}

/// No name is changed before what the journal has of what lies below it is on the disk.
#[test]
fn nothing_moves_while_files_cannot_be_put_on_the_disk() {
    journal_only!("a sync of all files that fails");
    let dir = DataDir::temporary();
    let server = Launch::new(MODES[1]).on(&dir).start();
    server.store("a/k", "v");
    let fails = "inject=syncfs:error=EIO";
    let tracer = Attached::to(&server, &["-e", "trace=syncfs", "-e", fails]);
    let failed = shift(&server, "/a/", "/b/c/", "");
    assert!(tracer.has_injected());
    assert_eq!(failed.status, 500, "{failed:?}");
    dir.assert_holds(&["a/k"]);
    drop(tracer);
    let moved = || shift(&server, "/a/", "/b/c/", "").status == 201;
    eventually("it is moved", moved);
    assert_eq!(server.get("b/c/k").body, b"v");
}

/// A name that waits for its sync is synced where it is: under its new path nothing would find it.
#[test]
fn a_folder_moves_once_the_names_in_it_are_synced() {
    journal_only!("syncs of names");
    for args in &MODES[1..] {
        let server = Launch::new(args).start();
        assert_eq!(server.ask("MKCOL", "a").status, 201);
        let calls = "trace=fsync,linkat,renameat2";
        let slow = "inject=fsync:delay_enter=200000";
        let tracer = Attached::to(&server, &["-e", calls, "-e", slow]);
        thread::scope(|scope| {
            for n in 0..4 {
                let server = &server;
                scope.spawn(move || server.store(&format!("a/{n}"), pattern(n, 100_000)));
            }
            eventually("one is linked", || tracer.seen("linkat(") > 0);
            assert_eq!(shift(&server, "/a/", "/b/", "").status, 201);
        });
        let calls = tracer.detach();
        let renamed = calls.iter().find(|call| call.name == "renameat2");
        let renamed = renamed.expect("a rename").began;
        let linked = calls.iter().filter(|call| {
            call.name == "linkat" && call.args.contains("/a>, ") && call.ended < renamed
        });
        let linked = linked.map(|call| call.ended).max().expect("a link");
        let is_synced = |call: &Call| {
            let is_folder = call.name == "fsync" && call.args.ends_with("/a>");
            is_folder && call.began > linked && call.ended < renamed
        };
        assert!(calls.iter().any(is_synced), "{args:?}: {calls:#?}");
    }
}

/// It was refused as if there was no folder of the old name.
#[test]
fn a_folder_of_the_new_name_that_a_hand_removes_meanwhile_is_made_again() {
    directory_only!("moves of folders");
    let server = TestServer::start(&[]);
    server.store("a/k", "v");
    let above = server.dir.file("x/y");
    let removed = thread::scope(|threads| {
        let moves = threads.spawn(|| {
            for round in 0..300 {
                for (from, to) in [("/a/", "/x/y/a/"), ("/x/y/a/", "/a/")] {
                    assert_eq!(shift(&server, from, to, "").status, 201, "{round}");
                }
            }
        });
        // One that never rests, or always as long, wins a thousand times in a row.
        let tries = std::iter::repeat_with(|| {
            (0..fastrand::u32(..20_000)).for_each(|_| std::hint::spin_loop());
            fs::remove_dir(&above)
        });
        let tries = tries.take_while(|_| !moves.is_finished());
        tries.flatten().count()
    });
    println!("{removed} folders were removed by hand");
    assert_eq!(server.get("a/k").body, b"v");
}

/// A record of the new name could be replayed beside the old one.
#[test]
fn nothing_is_journaled_before_the_name_of_a_moved_folder_is_on_the_disk() {
    journal_only!("a sync that fails");
    let server = Launch::new(MODES[1]).start();
    assert_eq!(server.ask("MKCOL", "a").status, 201);
    let tracer = Attached::injecting(&server, "fsync,syncfs", "error=EIO");
    let failed = shift(&server, "/a/", "/b/", "");
    assert_eq!(failed.status, 500, "{failed:?}");
    assert_eq!(server.put("b/1", "v").status, 500);
    assert_eq!(shift(&server, "/b/", "/c/", "").status, 500);
    drop(tracer);
    server.dir.assert_holds(&["b"]);
    let stored = || server.put("b/1", "v").status == 200;
    eventually("it is stored", stored);

    // Not of the journal's own directory.
    let root = server.dir.path().canonicalize().expect("the directory");
    let paths = ["", "/c"].map(|name| format!("{}{name}", root.display()));
    let options = words("-e trace=fsync,syncfs,linkat -e inject=fsync:error=EIO");
    let options = [&options[..], &["-P", &paths[0], "-P", &paths[1]]].concat();
    let tracer = Attached::to(&server, &options);
    assert_eq!(shift(&server, "/b/", "/c/", "").status, 500);
    server.store("c/2", "v");
    let calls = tracer.detach();
    let failed = calls.iter().find(|call| call.is_injected());
    let failed = failed.expect("a sync that fails").ended;
    let is_link = |call: &&Call| call.name == "linkat" && call.args.contains("/c>, ");
    let linked = calls.iter().find(is_link).expect("a link").began;
    let is_synced = |call: &Call| {
        let is_whole = call.name == "syncfs" && call.result == "0";
        is_whole && failed < call.began && call.ended < linked
    };
    assert!(calls.iter().any(is_synced), "{calls:#?}");
    server.dir.assert_holds(&["c/1", "c/2"]);
}

/// What is refused stops no writes, and what the disk has is not synced again.
#[test]
fn the_names_of_a_moved_folder_are_synced_once_and_all_files_where_the_journal_has_any() {
    journal_only!("syncs of all files");
    for (args, ahead) in MODES.into_iter().zip([0, 1, 0]) {
        let server = Launch::new(args).start();
        for folder in ["a", "b"] {
            assert_eq!(server.ask("MKCOL", folder).status, 201);
        }
        let tracer = Attached::to(&server, &["-e", "trace=syncfs,fsync,renameat2"]);
        assert_eq!(shift(&server, "/none/", "/c/", "").status, 404);
        assert_eq!(shift(&server, "/a/", "/b/", "").status, 409);
        assert_eq!(tracer.seen("sync("), 0, "{args:?}");
        assert_eq!(shift(&server, "/a/", "/x/c/", "").status, 201);
        // On a disk thread.
        assert_eq!(tracer.seen("syncfs("), ahead, "{args:?}");
        let calls = tracer.detach();
        let renamed = calls.iter().find(|call| call.name == "renameat2");
        let renamed = renamed.expect("a rename").ended;
        let synced = calls.iter().filter(|call| call.name == "fsync");
        let synced: Vec<_> = synced.collect();
        let is_right = synced.iter().all(|call| call.began > renamed);
        assert!(is_right, "{synced:#?}");
        let path = server.dir.path().canonicalize().expect("the directory");
        let expected = ["/x/c", "/x", ""].map(|name| format!("<{}{name}>", path.display()));
        let expected = if args.is_empty() { &[] } else { &expected[..] };
        assert_eq!(synced.len(), expected.len(), "{args:?}: {synced:#?}");
        for name in expected {
            let is_synced = synced.iter().any(|call| call.args.ends_with(name));
            assert!(is_synced, "{name}: {synced:#?}");
        }
    }
}

/// Of a value in memory neither name lies.
#[test]
fn what_was_read_from_memory_is_found_under_its_new_name_alone() {
    directory_only!("moves of folders");
    let server = TestServer::start(&[]);
    for (key, value) in [("a/k", "of a"), ("b/k", "of b")] {
        server.store(key, value);
    }
    let hot = |key: &str, expected: Option<&str>| {
        for _ in 0..20 {
            let found = server.get(key);
            let value = expected.map_or(&b""[..], str::as_bytes);
            let status = if expected.is_some() { 200 } else { 404 };
            assert_eq!(found.status, status, "{key}");
            assert!(status == 404 || found.body == value, "{key}");
        }
    };
    hot("a/k", Some("of a"));
    hot("b/k", Some("of b"));
    for (from, to) in [("/a/", "/c/"), ("/b/", "/a/"), ("/c/", "/b/")] {
        assert_eq!(shift(&server, from, to, "").status, 201);
    }
    hot("a/k", Some("of b"));
    hot("b/k", Some("of a"));
    hot("c/k", None);
}

/// A reader meets each value whole, under a name that it had, or none; a writer to either name is heard.
#[test]
fn readers_and_writers_beside_it_meet_no_value_of_another_key() {
    directory_only!("moves of folders");
    for args in MODES {
        let server = Launch::new(&[&["--threads", "2"], args].concat()).start();
        let value = |n: usize| pattern(n as u64, [10, 3_000, 80_000][n % 3]);
        for n in 0..6 {
            server.store(&format!("a/{n}/k"), value(n));
        }
        let done = AtomicBool::new(false);
        let (mut met, mut written) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..scaled(60, 1_000) {
                    let (from, to) = [("/a/", "/x/b/"), ("/x/b/", "/a/")][n % 2];
                    assert_eq!(shift(&server, from, to, "").status, 201);
                }
                done.store(true, Ordering::SeqCst);
            });
            let writes = scope.spawn(|| {
                let mut written = 0;
                let mut session = Client::new(server.addr);
                while !done.load(Ordering::SeqCst) {
                    // Of a folder that is neither.
                    let key = format!("other/{written}");
                    assert_eq!(session.put(&key, "v").status, 200);
                    assert_eq!(session.ask("DELETE", &key).status, 200);
                    written += 1;
                }
                written
            });
            let mut session = Client::new(server.addr);
            while !done.load(Ordering::SeqCst) {
                for n in 0..6 {
                    for folder in ["a", "x/b"] {
                        let found = session.ask("GET", &format!("{folder}/{n}/k"));
                        let is_right = found.status == 404 || found.body == value(n);
                        assert!(is_right, "{folder}/{n}/k: {}", found.status);
                        met += usize::from(found.status == 200);
                    }
                }
                let listed = session.ask("GET", "?format=text");
                for key in String::from_utf8(listed.body).expect("text").lines() {
                    let is_known = ["a/", "x/b/", "other/"]
                        .iter()
                        .any(|it| key.starts_with(it));
                    assert!(is_known, "{key}");
                }
            }
            written = writes.join().expect("a writer");
        });
        let holds = met > 0 && written > 0;
        assert!(holds, "{met} values met, {written} written");
        say(&format!("{met} values met, {written} written beside moves"));
    }
}

/// A later sync of a folder says nothing of the name of a folder that a change before it made.
#[test]
fn no_name_is_acknowledged_while_that_of_a_folder_may_not_be_on_the_disk() {
    journal_only!("a sync that fails");
    for args in &MODES[1..] {
        let server = Launch::new(args).start();
        let tracer = Attached::injecting(&server, "fsync,syncfs", "error=EIO");
        assert_eq!(server.ask("MKCOL", "a").status, 500);
        assert_eq!(server.put("a/1", "v").status, 500, "{args:?}");
        assert!(tracer.has_injected());
        drop(tracer);
        let stored = || server.put("a/1", "v").status == 200;
        eventually("it is stored", stored);
        let calls = Attached::to(&server, &["-e", "trace=syncfs,linkat"]);
        server.store("a/2", "v");
        assert_eq!(calls.seen("syncfs("), 0, "{args:?}");
    }
}

/// Without a journal a later sync of a folder says nothing of the rename.
#[test]
fn no_name_is_acknowledged_while_that_of_a_moved_folder_may_not_be_on_the_disk() {
    journal_only!("a sync that fails");
    let server = Launch::new(MODES[2]).start();
    assert_eq!(server.ask("MKCOL", "a").status, 201);
    let tracer = Attached::injecting(&server, "fsync,syncfs", "error=EIO");
    let failed = shift(&server, "/a/", "/b/", "");
    assert_eq!(failed.status, 500, "{failed:?}");
    drop(tracer);
    let tracer = Attached::injecting(&server, "syncfs", "error=EIO");
    assert_eq!(server.put("b/1", "v").status, 500);
    assert_eq!(server.ask("MKCOL", "c").status, 500);
    assert_eq!(shift(&server, "/b/", "/c/", "").status, 500);
    assert!(tracer.has_injected());
    drop(tracer);
    server.dir.assert_holds(&["b"]);
    let tracer = Attached::to(&server, &["-e", "trace=syncfs,linkat"]);
    server.store_each("b/1 b/2", "v");
    let calls = tracer.detach();
    let synced = calls.iter().filter(|call| call.name == "syncfs");
    let synced: Vec<_> = synced.map(|call| call.ended).collect();
    let linked = calls.iter().find(|call| call.name == "linkat");
    let linked = linked.expect("a link").began;
    let is_right = matches!(synced[..], [ended] if ended < linked);
    assert!(is_right, "{calls:#?}");
}
