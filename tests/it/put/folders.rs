//! Proves that the folders that a PUT makes come with the keys in them and go with the last: what PUT makes and DELETE
//! removes, what is left alone, what is refused and leaves nothing, what is on the disk before the answer, and what all
//! of that costs.

use crate::support::prelude::*;

#[track_caller]
fn assert_refused(got: &Response, status: u16, text: &str) {
    let body = String::from_utf8_lossy(&got.body);
    assert_eq!((got.status, body.trim_end()), (status, text));
}

#[test]
fn put_makes_what_is_missing_and_delete_removes_what_it_leaves_empty() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    for size in [10, 300_000] {
        let value = pattern(1, size);
        for lines in ["If-Match: *\r\n", "If-Match: \"x\"\r\n"] {
            server.request("PUT", "/a/b/k", lines, &value).says(412, "");
            server.dir.assert_holds(&[]);
        }
        server.store("a/b/c/one", &value);
        server.store("a/b/two", &value);
        server.store("top", &value);
        server.dir.assert_holds(&["a/b/c/one", "a/b/two", "top"]);
        assert!(server.dir.read("a/b/c/one") == value);
        server.store("a/b/c/one", pattern(2, size));
        assert!(server.get("a/b/c/one").body == pattern(2, size));

        assert_eq!(server.ask("DELETE", "a/b/c/one").status, 200);
        server.dir.assert_holds(&["a/b/two", "top"]);
        assert_eq!(server.ask("DELETE", "a/b/c/one").status, 404);
        assert_eq!(server.ask("DELETE", "a/b/two").status, 200);
        server.dir.assert_holds(&["top"]);
        assert_eq!(server.ask("DELETE", "a/b/two").status, 404);
        server.store("a", &value);
        assert_eq!(server.ask("DELETE", "a").status, 200);
        assert_eq!(server.ask("DELETE", "top").status, 200);
        server.dir.assert_holds(&[]);
    }
}

#[test]
fn what_others_have_put_in_a_folder_keeps_it() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    for (name, make) in [
        ("link", (|at| symlink("x", at)) as fn(_) -> _),
        ("folder", |at| fs::create_dir(at)),
        ("\u{1}", |at| fs::write(at, "x")),
    ] {
        server.store("a/b/k", "v");
        make(server.dir.file(format!("a/{name}"))).expect("something by hand");
        assert_eq!(server.ask("DELETE", "a/b/k").status, 200);
        server.dir.assert_holds(&[&format!("a/{name}")]);
        server.dir.clear();
    }
    // A folder made by hand is its owner's, and stays.
    fs::create_dir(server.dir.file("by-hand")).expect("a folder");
    assert_eq!(server.ask("DELETE", "by-hand/k").status, 404);
    server.dir.assert_holds(&["by-hand"]);
    server.store("by-hand/k", "v");
    assert_eq!(server.ask("DELETE", "by-hand/k").status, 200);
    server.dir.assert_holds(&["by-hand"]);
}

#[test]
fn a_key_that_is_a_folder_or_below_a_value_is_refused_with_what_is_there() {
    let server = needed!(TestServer::of_directory("folders of the directory", &[]));
    server.store_each("value a/value folder/k", "v");
    symlink("folder", server.dir.file("link")).expect("a link");
    symlink("../folder", server.dir.file("a/link")).expect("a link");
    symlink("nowhere", server.dir.file("a/broken")).expect("a link");
    let below =
        |level: &str, what: &str| format!("\"{level}\" is {what}, so nothing lies below it");
    let cases = [
        ("folder", "a folder has this name".to_owned()),
        ("a", "a folder has this name".to_owned()),
        ("link", "a link or device has this name".to_owned()),
        ("a/broken", "a link or device has this name".to_owned()),
        ("value/k", below("value", "a value")),
        ("value/a/b/k", below("value", "a value")),
        ("a/value/k", below("a/value", "a value")),
        ("link/k", below("link", "a link or device")),
        ("link/a/k", below("link", "a link or device")),
        ("a/link/k", below("a/link", "a link or device")),
        ("a/broken/k", below("a/broken", "a link or device")),
    ];
    let before = server.dir.names();
    // With a value that is kept in memory, and one that has a file; and after many new names in a row.
    for size in [10, 300_000] {
        for (key, text) in &cases {
            assert_refused(&server.put(key, pattern(1, size)), 409, text);
            assert_eq!(server.dir.names(), before, "PUT /{key}");
            // A folder without its slash is named to who removes it.
            let is_folder = text.starts_with("a folder");
            let of_delete = if is_folder { 409 } else { 404 };
            for (method, status) in [("GET", 404), ("HEAD", 404), ("DELETE", of_delete)] {
                assert_eq!(server.ask(method, key).status, status, "{method} /{key}");
            }
        }
        for n in 0..40 {
            server.store(&format!("row/{size}-{n}"), "v");
        }
        for (key, text) in &cases {
            assert_refused(&server.put(key, pattern(1, size)), 409, text);
        }
        for n in 0..40 {
            assert_eq!(server.ask("DELETE", &format!("row/{size}-{n}")).status, 200);
        }
    }
    server.dir.assert_nothing_staged();
    // A name that clients chose is no markup and no second line.
    server.store("x%0Ay", "v");
    let text = "\"x\\ny\" is a value, so nothing lies below it";
    assert_refused(&server.put("x%0Ay/k", "v"), 409, text);
}

#[test]
fn a_put_that_fails_leaves_no_folder() {
    file_calls_only!("failures of calls");
    let fail = |call: &str| {
        let server = TestServer::start(&["--threads", "1"]);
        server.store("kept/k", "v");
        let tracer = Attached::to(&server, &["-e", &format!("inject={call}")]);
        let status = server.put("a/b/c/k", "v").status;
        let again = server.put("kept/a/b/k", "v").status;
        assert!(tracer.has_injected(), "{call}");
        drop(tracer);
        server.dir.assert_holds(&["kept/k"]);
        server.store("a/b/c/k", "v");
        assert!(matches!(again, 500 | 507), "{call}: {again}");
        status
    };
    assert_eq!(fail("linkat:error=ENOSPC"), 507);
    assert_eq!(fail("linkat:error=EIO"), 500);
    assert_eq!(fail("mkdirat:error=ENOSPC"), 507);
    assert_eq!(fail("mkdirat:error=EIO:when=2+"), 500);
    assert_eq!(fail("utimensat:error=EIO"), 500);
}

/// Alone, and beside a hand that removes and makes it, which can hide that the server does not.
#[test]
fn clients_that_write_and_remove_in_one_folder_never_miss_it() {
    const CLIENTS: usize = 4;
    directory_only!("folders of the directory");
    for has_hand in [false, true] {
        let dir = DataDir::in_memory();
        let server = Launch::new(&["--threads", "2"]).on(&dir).start();
        let done = Done::default();
        thread::scope(|scope| {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let folder = server.dir.file("a/b");
                while has_hand && !done.is_said() {
                    let _ = fs::remove_dir(&folder);
                    let _ = fs::remove_dir(server.dir.file("a"));
                    let _ = fs::create_dir_all(&folder);
                    let _ = fs::remove_dir(&folder);
                }
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    scope.spawn(move || {
                        let mut session = Client::new(server.addr);
                        let key = format!("a/b/{client}");
                        for round in 0..scaled(60, 400) {
                            let value = pattern(round, 20);
                            assert_eq!(session.put(&key, &value).status, 200, "PUT /{key}");
                            let got = session.ask("GET", &key);
                            assert!(got.status == 200 && got.body == value, "{got:?}");
                            assert_eq!(session.ask("DELETE", &key).status, 200, "DELETE /{key}");
                            assert_eq!(session.ask("GET", &key).status, 404);
                        }
                    })
                })
                .collect();
            let _saying = done.when_dropped();
            for client in clients {
                client.join().expect("a client");
            }
        });
        // The hand may have been the last.
        for folder in ["a/b", "a"].iter().filter(|_| has_hand) {
            let _ = fs::remove_dir(dir.file(folder));
        }
        dir.assert_holds(&[]);
    }
}

#[test]
fn a_folder_that_always_vanishes_ends_in_an_answer() {
    file_calls_only!("a folder that vanishes each time");
    let server = TestServer::start(&["--threads", "1"]);
    let tracer = Attached::to(&server, &["-e", "inject=linkat:error=ENOENT"]);
    let mut raw = server.connect();
    raw.send(put_head("a/b/k", 1) + "v");
    let silent = raw.silent_for(4 * DEADLINE); // a thousand calls, each of them traced
    silent.expect_err("an answer");
    assert_eq!(raw.answer().status, 500);
    let links = tracer.detach();
    assert_eq!(links.iter().filter(|call| call.is_injected()).count(), 1024);
    server.dir.assert_holds(&[]);
    // A flat key has no folder that could.
    let tracer = Attached::to(&server, &["-e", "inject=linkat:error=ENOENT"]);
    assert_eq!(server.put("k", "v").status, 500);
    let links = tracer.detach();
    assert_eq!(links.iter().filter(|call| call.is_injected()).count(), 1);
}

#[test]
fn a_folder_on_another_file_system_is_read_and_not_written() {
    directory_only!("the file system");
    let mount = needed!(Mount::tmpfs("size=1m", A_MOUNT));
    let server = TestServer::start(&[]);
    assert_read_and_not_written(&server, mount.dir().path());
}

/// The kernel renames nothing into a mount, although the device is one.
#[test]
fn a_mount_of_the_same_file_system_is_read_and_not_written() {
    directory_only!("the file system");
    let server = TestServer::start(&[]);
    assert_read_and_not_written(&server, &server.dir.outside("other"));
}

const A_MOUNT: &str = "a mount within the directory";

/// With the folder `from` mounted as `a`.
#[track_caller]
fn assert_read_and_not_written(server: &TestServer, from: &Path) {
    fs::create_dir_all(from).expect("a folder there");
    let bound = Mounted::by(&["mount", "--bind", text(from)], &server.dir.file("a"));
    let bound = needed!(available(A_MOUNT, bound));
    fs::write(server.dir.file("a/k"), "there").expect("a value by hand");
    let (got, put) = (server.get("a/k"), server.put("a/new", "v"));
    let (replaced, deep) = (server.put("a/k", "v"), server.put("a/b/c", "v"));
    let large = server.connect().ask(put_head("a/large", 5_000_000));
    let lines = "Upload-Complete: ?0\r\nUpload-Length: 5000000\r\n";
    let resumable = Resumable::ask_to_create(&mut server.connect(), "a/large", lines, b"");
    let before = fs::metadata(server.dir.file("a/k")).expect("the file");
    let moved = server.request("MOVE", "/a/k", "Destination: /k\r\n", b"");
    let after = fs::metadata(server.dir.file("a/k")).expect("the file");
    let deleted = server.ask("DELETE", "a/k").status;
    let names = server.dir.names();
    bound.end();
    moved.says(409, "between which no value is moved");
    let changed = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    assert_eq!(changed(&before), changed(&after), "no tag of the move");
    assert_eq!(got.body, b"there");
    let why =
        "the folder \"a\" lies on another file system or mount, where no value can be moved to";
    // The large ones before they are received.
    for refused in [&put, &replaced, &large, &resumable] {
        assert_refused(refused, 409, why);
    }
    assert_refused(&deep, 409, &why.replace("\"a\"", "\"a/b\""));
    assert_eq!(deleted, 200);
    assert_eq!(names, [b"a".to_vec()]);
}

/// The files of values that were read stayed open for as long as nothing else took their place.
#[test]
fn a_value_that_was_read_does_not_keep_its_file_system_mounted() {
    directory_only!("the file system");
    let server = TestServer::start(&[]);
    let at = server.dir.file("a");
    let mounted = Mounted::by(&["mount", "-t", "tmpfs", "tmpfs"], &at);
    let mounted = needed!(available("a folder that is a mount point", mounted));
    server.dir.place("a/k", "there");
    eventually("the value is kept", || {
        assert_eq!(server.get("a/k").body, b"there");
        server.proc().has_open(&at.join("k"))
    });
    mounted.end();
    assert_eq!(server.get("a/k").status, 404);
}

/// As a file that is mounted into a container.
#[test]
fn a_key_that_is_a_mount_point_is_occupied() {
    directory_only!("the file system");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--durability", durability]);
        server.store("k", "below");
        let (other, at) = (server.dir.outside("other"), server.dir.file("k"));
        fs::write(&other, "mounted").expect("a file");
        let mounted = run("mount", &["--bind", text(&other), text(&at)]);
        needed!(available("a key that is a mount point", mounted));
        let answers = [server.put("k", "new"), server.ask("DELETE", "k")];
        run("umount", &[text(&at)]).expect("it is unmounted");
        let why = "a file system is mounted at this name: it cannot be replaced or removed";
        for answer in answers {
            assert_refused(&answer, 409, why);
        }
        server.store("k", "new");
        server.dir.assert_nothing_staged();
    }
}

#[test]
fn a_folder_that_the_server_may_not_use_is_its_own_affair() {
    directory_only!("the file system");
    let dir = DataDir::temporary();
    let server = needed!(served_by_nobody(&dir, "folders without permission"));
    server.store("open/k", "v");
    for (folder, mode) in [
        ("closed", 0o700),
        ("names-alone", 0o704),
        ("no-writing", 0o755),
    ] {
        dir.place(&format!("{folder}/k"), "v");
        chmod(dir.file(folder), mode);
    }
    for (folder, get, put, delete) in [
        ("closed", 403, 403, 403),
        ("names-alone", 403, 403, 403),
        ("no-writing", 200, 403, 403),
        ("open", 200, 200, 200),
    ] {
        let key = format!("{folder}/k");
        assert_eq!(server.get(&key).status, get, "GET /{key}");
        assert_eq!(server.put(&format!("{folder}/new"), "v").status, put);
        assert_eq!(server.put(&format!("{folder}/a/b"), "v").status, put);
        assert_eq!(server.ask("DELETE", &key).status, delete, "DELETE /{key}");
    }
    let listed = server.request("GET", "/", "Accept: text/plain\r\n", b"");
    assert_eq!(listed.status, 200);
    assert_eq!(listed.body, b"no-writing/k\nopen/a/b\nopen/new\n");
}

/// How strace writes the descriptor of a folder of the data directory.
fn folder(server: &TestServer, path: &str) -> String {
    let dir = server.dir.path().canonicalize().expect("the directory");
    format!("<{}{path}>", dir.display())
}

/// The calls between the one that sends the answer before, and the one that sends this.
fn calls_of(calls: &[Call], answer: usize) -> Vec<&Call> {
    let is_answer = |call: &&Call| call.name == "sendto" && call.args.contains("HTTP/1.1 ");
    let mut sent = calls.iter().filter(is_answer);
    let before = answer.checked_sub(1).and_then(|n| sent.clone().nth(n));
    let from = before.map_or(0, |call| call.ended);
    let to = sent.nth(answer).expect("an answer").began;
    let these = calls.iter();
    let these = these.filter(|call| call.began > from && call.ended < to);
    these.collect()
}

#[test]
fn every_folder_made_is_on_the_disk_before_the_answer() {
    plain_only!("its system calls");
    directory_only!("durability");
    let options = words("-e trace=fsync,linkat,mkdirat,unlinkat,sendto -s 300");
    let trace = needed!(Trace::with(&options, "the syncs of folders"));
    let args = ["--threads", "1", "--durability", "disk", "--journal", "off"];
    let mut server = trace.around(Launch::new(&args)).start();
    let [root, a, b] = ["", "/a", "/a/b"].map(|path| folder(&server, path));
    let mut client = Client::new(server.addr);
    assert_eq!(client.put("a/b/k", "v").status, 200);
    assert_eq!(client.put("a/b/l", "v").status, 200);
    assert_eq!(client.ask("DELETE", "a/b/k").status, 200);
    assert_eq!(client.ask("DELETE", "a/b/l").status, 200);
    assert_eq!(client.put("flat", "v").status, 200);
    server.stop();
    let calls = trace.calls();
    // What is synced after the last change of names, folders alone.
    let synced = |answer| {
        let calls = calls_of(&calls, answer);
        let is_change = |call: &&&Call| call.name != "fsync";
        let last = calls.iter().filter(is_change).map(|call| call.ended).max();
        let since = last.expect("a change of names");
        let is_sync = |call: &&&Call| call.name == "fsync" && call.began > since;
        let synced = calls.iter().filter(is_sync).map(|call| {
            assert_eq!(call.result, "0");
            let at = call.args.find('<').expect("a path");
            call.args[at..].to_owned()
        });
        synced.collect::<Vec<_>>()
    };
    for answer in 0..3 {
        let found = synced(answer);
        assert_eq!(found, [&*b, &a, &root], "up to the directory itself");
    }
    assert_eq!(synced(3), [&*root], "which has the removal of the folders");
    assert_eq!(synced(4), [&*root]);
}

#[test]
fn a_flat_key_costs_what_it_did_and_a_folder_one_open_more() {
    plain_only!("its system calls");
    directory_only!("system calls on files");
    let names = "fsetxattr,openat2,openat,newfstatat,statx,linkat,renameat,renameat2,mkdirat,unlinkat,close,utimensat,sendto";
    let options = ["-e", &format!("trace={names}"), "-s", "300"];
    let trace = needed!(Trace::with(&options, "what keys with folders cost"));
    let launch = Launch::new(&["--threads", "1", "--cache", "0"]);
    let mut server = trace.around(launch).start();
    let mut client = Client::new(server.addr);
    let requests = "PUT warm-up; PUT flat; PUT flat; GET flat; DELETE flat; PUT a/b/k; PUT a/b/l; PUT a/b/l; GET a/b/l; DELETE a/b/l; DELETE a/b/k";
    for request in requests.split("; ") {
        let (method, key) = request.split_once(' ').expect("a key");
        let got = match method {
            "PUT" => client.put(key, "v"),
            _ => client.ask(method, key),
        };
        assert_eq!(got.status, 200, "{request}");
    }
    server.stop();
    let calls = trace.calls();
    let expected = [
        // PUT of a new flat key: look, create, stamp, link.
        "newfstatat openat2 utimensat linkat close",
        // PUT over another.
        "newfstatat openat2 utimensat renameat close",
        "openat2 openat2 close close",
        "newfstatat unlinkat",
        // In folders that are made, each of which is marked.
        "openat2 openat2 utimensat openat2 openat2 mkdirat openat2 fsetxattr mkdirat openat2 fsetxattr close linkat close close",
        // In a folder that is there: it is opened, and closed.
        "openat2 newfstatat openat2 utimensat linkat close close",
        "openat2 newfstatat openat2 utimensat renameat close close",
        "openat2 openat2 close close",
        // A try to remove the folder: two levels, so one is opened.
        "openat2 newfstatat unlinkat openat2 unlinkat close close",
        "openat2 newfstatat unlinkat openat2 unlinkat unlinkat close close",
    ];
    for (answer, expected) in (1..).zip(expected) {
        let calls = calls_of(&calls, answer).into_iter();
        // The location of the directory is looked at by its path, and the first request comes while the server starts.
        let of_names =
            calls.filter(|call| call.name != "newfstatat" || !call.args.starts_with("AT_FDCWD"));
        let cost: Vec<&str> = of_names.map(|call| &*call.name).collect();
        assert_eq!(cost.join(" "), expected);
    }
}
