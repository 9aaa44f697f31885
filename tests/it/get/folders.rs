//! Proves that values in folders are read as fresh as others: a folder that is moved, replaced or removed by hand takes the
//! values in it along, though their files stay as they are, and also when they are kept in memory.

use std::os::unix::fs::symlink;

use crate::support::prelude::*;

const GET: &str = "GET /a/b/k HTTP/1.1\r\nHost: t\r\n\r\n";
const CACHED: &str = "data_server_cache_values";

type Change = fn(&TestServer);

/// What a hand may do to the folders of `a/b/k`, which holds `old`; and what it is then.
const CHANGES: &[(&str, Option<&[u8]>, Change)] = &[
    ("its folder renamed", None, |s| s.dir.rename("a/b", "a/c")),
    ("the folder above renamed", None, |s| s.dir.rename("a", "c")),
    ("the folder above moved out of the directory", None, |s| {
        fs::rename(s.dir.file("a"), s.dir.outside("a")).expect("a rename");
    }),
    ("removed with all of it", None, |s| {
        fs::remove_dir_all(s.dir.file("a")).expect("rm -r");
    }),
    ("its folder replaced by another", Some(b"new"), |s| {
        s.dir.place("new/k", "new");
        s.dir.rename("a/b", "a/c");
        s.dir.rename("new", "a/b");
    }),
    ("the folder above replaced by another", Some(b"new"), |s| {
        s.dir.place("new/b/k", "new");
        s.dir.rename("a", "c");
        s.dir.rename("new", "a");
    }),
    ("the one above exchanged with another", Some(b"new"), |s| {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        s.dir.place("new/b/k", "new");
        let (a, new) = (s.dir.file("a"), s.dir.file("new"));
        renameat_with(CWD, a, CWD, new, RenameFlags::EXCHANGE).expect("an exchange");
    }),
    ("its folder renamed, a link in its place", None, |s| {
        s.dir.rename("a/b", "a/c");
        symlink("c", s.dir.file("a/b")).expect("a link");
    }),
    ("the one above moved out, a link in its place", None, |s| {
        fs::rename(s.dir.file("a"), s.dir.outside("a")).expect("a rename");
        symlink("../a", s.dir.file("a")).expect("a link");
    }),
    ("its folder made a value", None, |s| {
        s.dir.rename("a/b", "a/c");
        s.dir.place("a/b", "a value");
    }),
    ("its folder renamed and back", Some(b"old"), |s| {
        s.dir.rename("a", "c");
        s.dir.rename("c", "a");
    }),
    ("replaced over the wire", Some(b"new"), |s| {
        s.store("a/b/k", "new");
    }),
    ("deleted over the wire", None, |s| {
        assert_eq!(s.ask("DELETE", "a/b/k").status, 200);
    }),
];

/// Reads `a/b/k` on every connection until the server keeps it.
fn heat(server: &TestServer, readers: &mut [Raw], value: &[u8]) {
    eventually("the value is kept", || {
        let read = |reader: &mut Raw| reader.ask(GET).body == value;
        readers.iter_mut().all(read) && Scrape::of(server.addr).count(CACHED, &[]) == 1
    });
}

#[test]
fn a_value_that_is_kept_goes_and_changes_with_its_folders() {
    directory_only!("the cache");
    for size in [3, 40_000] {
        let server = TestServer::start(&["--threads", "2"]);
        let mut readers = [server.connect(), server.connect()];
        for (what, then, change) in CHANGES {
            let fill = |value: &[u8]| value.iter().cycle().take(size).copied().collect::<Vec<_>>();
            server.dir.place("a/b/k", fill(b"old"));
            heat(&server, &mut readers, &fill(b"old"));
            change(&server);
            for reader in &mut readers {
                let got = reader.ask(GET);
                match then {
                    None => assert_eq!(got.status, 404, "{what}"),
                    // What a change wrote is short.
                    Some(b"old") => assert!(got.body == fill(b"old"), "{what}"),
                    Some(value) => assert_eq!(got.body, *value, "{what}"),
                }
            }
            server.dir.clear();
            let _ = fs::remove_dir_all(server.dir.outside("a"));
        }
    }
}

#[test]
fn a_hot_value_in_a_folder_costs_a_walk_to_it_and_no_read() {
    const REQUESTS: usize = 200;
    http1_only!("its system calls");
    clear_only!("its system calls");
    directory_only!("the cache");
    let calls = ["-e", "trace=openat2,fstat,close,pread64,preadv2,sendto"];
    let trace = needed!(Trace::with(&calls, "what a hot value in a folder costs"));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    server.dir.place("a/b/k", pattern(1, 1000));
    let mut readers = [server.connect()];
    heat(&server, &mut readers, &pattern(1, 1000));
    let first = readers[0].ask("GET /first HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(first.status, 404);
    for _ in 0..REQUESTS {
        readers[0].ask(GET);
    }
    server.stop();
    let calls = trace.calls();
    let is_mark = |call: &&Call| call.args.contains("404 Not Found");
    let mark = calls.iter().find(is_mark).expect("a mark");
    let is_after = |call: &&Call| call.thread == mark.thread && call.began > mark.ended;
    let after = calls.iter().filter(is_after);
    let of_requests: Vec<&str> = after.map(|call| call.name.as_str()).collect();
    let requests = of_requests.split(|call| *call == "sendto").take(REQUESTS);
    let others = requests.filter(|calls| *calls != ["openat2", "fstat", "close"]);
    let others: Vec<_> = others.collect();
    // The first use after a sweep of the cache, which comes every 10 seconds, also compares the bytes.
    assert!(others.len() <= 3, "{others:?}");
}
