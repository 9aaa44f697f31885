//! Proves that a cached value is never stale: the next GET on every reactor sees each change, over the wire or by hand.
//! The cache is bounded and can be turned off.

use std::io;

use crate::support::prelude::*;

/// Reads `/k`, which is `value`, on every connection until it is old enough for the server to keep it.
fn read_until_kept(server: &TestServer, readers: &mut [Raw], value: &[u8]) {
    eventually("the value is kept", || {
        let read = |reader: &mut Raw| reader.get("k").body == value;
        readers.iter_mut().all(read) && server.proc().has_open(&server.dir.file("k"))
    });
}

/// What `/k` is after a change.
#[derive(Clone, Copy)]
enum After {
    /// What it was.
    Same,
    /// [`new`].
    New,
    /// So many bytes of what it was.
    Cut(usize),
    Gone,
}

/// A value of the length of `/k`, and another one than it.
fn new(server: &TestServer) -> Vec<u8> {
    pattern(2, server.dir.read("k").len())
}

fn outside_to_k(server: &TestServer, name: &str) {
    fs::rename(server.dir.outside(name), server.dir.file("k")).expect("a rename");
}

fn k_to_outside(server: &TestServer, name: &str) {
    fs::rename(server.dir.file("k"), server.dir.outside(name)).expect("a rename");
}

fn link_outside(server: &TestServer, name: &str) {
    let _ = fs::remove_file(server.dir.outside(name));
    fs::hard_link(server.dir.file("k"), server.dir.outside(name)).expect("a link");
}

type Change = (&'static str, After, fn(&TestServer));

/// Ways to change `/k`.
const CHANGES: &[Change] = &[
    ("replaced over the wire", After::New, |s| {
        s.store("k", new(s));
    }),
    ("deleted over the wire", After::Gone, |s| {
        assert_eq!(s.ask("DELETE", "k").status, 200);
    }),
    ("edited to the same size", After::New, |s| {
        s.dir.edit("k", new(s));
    }),
    ("edited in place, its time set back", After::New, |s| {
        let modified = s.dir.modified("k");
        s.dir.edit("k", new(s));
        s.dir.date("k", modified);
    }),
    ("edited through another name", After::New, |s| {
        link_outside(s, "link");
        let link = File::options().write(true).open(s.dir.outside("link"));
        let edit = |mut file| io::Write::write_all(&mut file, &new(s));
        link.and_then(edit).expect("an edit");
    }),
    ("cut", After::Cut(3), |s| s.dir.set_len("k", 3)),
    ("emptied", After::Cut(0), |s| s.dir.set_len("k", 0)),
    ("removed", After::Gone, |s| s.dir.remove("k")),
    ("removed with another name left", After::Gone, |s| {
        link_outside(s, "kept");
        s.dir.remove("k");
    }),
    ("renamed away", After::Gone, |s| s.dir.rename("k", "moved")),
    ("replaced by mv", After::New, |s| {
        fs::write(s.dir.outside("new"), new(s)).expect("a file");
        outside_to_k(s, "new");
    }),
    ("moved away and another one moved here", After::New, |s| {
        s.dir.place("other", new(s));
        k_to_outside(s, "old");
        s.dir.rename("other", "k");
    }),
    ("replaced by a symlink to itself", After::Gone, |s| {
        s.dir.rename("k", "moved");
        symlink("moved", s.dir.file("k")).expect("a symlink");
    }),
    ("replaced by a directory", After::Gone, |s| {
        s.dir.remove("k");
        fs::create_dir(s.dir.file("k")).expect("a directory");
    }),
    ("touched", After::Same, |s| {
        let time = Duration::from_nanos(1_234_567_890_123_456_789);
        s.dir.date("k", SystemTime::UNIX_EPOCH + time);
    }),
    ("given a second name", After::Same, |s| {
        link_outside(s, "second");
    }),
    ("moved away and back", After::Same, |s| {
        s.dir.rename("k", "away");
        s.dir.rename("away", "k");
    }),
    ("removed and back under its name", After::Same, |s| {
        link_outside(s, "link");
        s.dir.remove("k");
        outside_to_k(s, "link");
    }),
];

/// Kept with its bytes, as an open file only, too young to be kept, and without a cache. The `ETag` is always the
/// file's modification time.
#[test]
fn every_reactor_sees_a_change_of_a_value_at_once() {
    directory_only!("the cache");
    let kept = [9, 8 << 10, (8 << 10) + 1, 64 << 10].map(|size| (size, "64MiB", true));
    let others = [(9, "64MiB", false), (8 << 10, "0", false)];
    thread::scope(|scope| {
        for (size, cache, is_kept) in kept.into_iter().chain(others) {
            scope.spawn(move || see_changes(size, cache, is_kept));
        }
    });
}

fn see_changes(size: usize, cache: &str, is_kept: bool) {
    let server = TestServer::start(&["--threads", "4", "--cache", cache]);
    let mut readers: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    let old = pattern(1, size);
    for (what, after, change) in CHANGES {
        let what = format!("{what}, of {size} bytes, --cache {cache}, kept: {is_kept}");
        server.store("k", &old);
        if is_kept {
            read_until_kept(&server, &mut readers, &old);
        }
        let mut is_right = readers.iter_mut();
        let is_right = is_right.all(|reader| reader.get("k").body == old);
        assert!(is_right, "{what}");
        let is_open = server.proc().has_open(&server.dir.file("k"));
        assert!(cache != "0" || !is_open, "{what}: a descriptor is kept");
        change(&server);
        let expected = match *after {
            After::Same => Some(old.clone()),
            After::New => Some(pattern(2, size)),
            After::Cut(length) => Some(old[..length].to_vec()),
            After::Gone => None,
        };
        let etag = expected.as_ref().map(|value| {
            let since = server.dir.modified("k");
            let since = since.duration_since(SystemTime::UNIX_EPOCH);
            let nanos = since.expect("after 1970").as_nanos();
            format!("\"{nanos:x}-{:x}\"", value.len())
        });
        for reader in &mut readers {
            let got = reader.get("k");
            let status = got.status;
            assert_eq!(status, if expected.is_some() { 200 } else { 404 }, "{what}");
            if let Some(value) = &expected {
                assert!(got.body == *value, "{what}: {} bytes", got.body.len());
                assert_eq!(got.header("etag"), etag.as_deref(), "{what}");
            }
        }
        server.dir.clear();
        for reader in &mut readers {
            assert_eq!(reader.get("k").status, 404, "{what}, then removed");
        }
    }
}

/// The cache keeps larger values open. A file that was removed by hand must not keep its space.
#[test]
fn the_cache_closes_a_large_value_removed_by_hand() {
    let server = needed!(TestServer::of_directory("the cache", &[]));
    server.dir.place("k", pattern(1, 1 << 20));
    let mut reader = server.connect();
    let is_open = || server.proc().descriptors();
    // After the first answer the connection is accepted and part of the count.
    assert_eq!(reader.get("none").status, 404);
    let before = is_open();
    eventually("it is kept", || {
        assert!(reader.get("k").body == pattern(1, 1 << 20));
        is_open() > before
    });
    std::fs::remove_file(server.dir.file("k")).unwrap();
    eventually("it is given up", || is_open() == before);
}

/// More values than memory or descriptors allow. Each is read until it could be cached.
#[test]
fn the_cache_is_bounded_in_bytes_and_in_descriptors() {
    const MEMORY: usize = 1024 * 1024;
    directory_only!("the cache");
    for (size, descriptors, most) in [(8000, "3000", MEMORY / 8000), (10, "256", 256 / 8 + 2)] {
        let server = Launch::new(&["--cache", "1MiB"])
            .through(&["prlimit", &format!("--nofile={descriptors}:{descriptors}")])
            .start();
        for n in 0..200 {
            server.dir.place(&format!("k{n}"), pattern(n, size));
        }
        let mut reader = server.connect();
        let mut read_all = || {
            for n in 0..200 {
                let got = reader.get(&format!("k{n}"));
                assert!(got.body == pattern(n, size), "GET /k{n}");
            }
        };
        let kept = || {
            let is_kept = |n: &u64| server.proc().has_open(&server.dir.file(format!("k{n}")));
            (0..200).filter(is_kept).count()
        };
        eventually("some are kept", || {
            read_all();
            kept() > 0
        });
        read_all();
        let is_right = kept() <= most;
        assert!(is_right, "{} values of {size} bytes, not {most}", kept());
    }
}
