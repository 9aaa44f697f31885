//! Proves that values in folders are read as fresh as others: a folder that is moved, replaced or removed by hand takes
//! the values in it along, though their files stay as they are, and also when they are kept in memory.

use crate::support::prelude::*;

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
        let read = |reader: &mut Raw| reader.get("a/b/k").body == value;
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
                let got = reader.get("a/b/k");
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
