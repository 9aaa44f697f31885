//! Proves that a cached value is never stale: the next GET on every reactor sees each change, over the wire or by hand. The
//! cache is bounded and can be turned off.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::support::{
    Launch, Raw, Scrape, TestServer, directory_only, eventually, pattern, put_head, scaled,
};

const GET_K: &str = "GET /k HTTP/1.1\r\nHost: t\r\n\r\n";

/// Stores `/k` and reads it on every connection until the server keeps it.
fn heat(server: &TestServer, readers: &mut [Raw]) {
    let _ = fs::remove_dir(server.dir.file("k"));
    server.store("k", "hot value");
    read_until_kept(server, readers, b"hot value");
}

/// Reads `/k`, which is `value`, on every connection until it is old enough for the server to keep it.
fn read_until_kept(server: &TestServer, readers: &mut [Raw], value: &[u8]) {
    eventually("the value is kept", || {
        let read = |reader: &mut Raw| reader.ask(GET_K).body == value;
        readers.iter_mut().all(read)
            && Scrape::of(server.addr).count("data_server_cache_values", &[]) == 1
    });
}

type Change = fn(&TestServer);

/// Ways to change a value, and the value afterwards.
const CHANGES: &[(&str, Change, Option<&[u8]>)] = &[
    (
        "replaced over the wire",
        |server| server.store("k", "new value"),
        Some(b"new value"),
    ),
    (
        "deleted over the wire",
        |server| assert_eq!(server.ask("DELETE", "k").status, 200),
        None,
    ),
    (
        "edited to the same size",
        |server| edit(server, "k", b"new value"),
        Some(b"new value"),
    ),
    (
        "edited to the same size, its time set back",
        |server| {
            let modified = fs::metadata(server.dir.file("k")).and_then(|meta| meta.modified());
            edit(server, "k", b"new value");
            let file = File::open(server.dir.file("k")).expect("k");
            file.set_times(FileTimes::new().set_modified(modified.expect("its time")))
                .expect("a time");
        },
        Some(b"new value"),
    ),
    (
        "edited through another name",
        |server| {
            fs::hard_link(server.dir.file("k"), server.dir.outside("link")).expect("a link");
            let mut link = File::options()
                .write(true)
                .open(server.dir.outside("link"))
                .expect("a link");
            link.write_all(b"new").expect("an edit");
            fs::remove_file(server.dir.outside("link")).expect("a removal");
        },
        Some(b"new value"),
    ),
    ("cut", |server| truncate(server, 3), Some(b"hot")),
    ("emptied", |server| truncate(server, 0), Some(b"")),
    (
        "removed",
        |server| fs::remove_file(server.dir.file("k")).expect("a removal"),
        None,
    ),
    (
        "removed with another name left",
        |server| {
            fs::hard_link(server.dir.file("k"), server.dir.outside("kept")).expect("a link");
            fs::remove_file(server.dir.file("k")).expect("a removal");
            fs::remove_file(server.dir.outside("kept")).expect("a removal");
        },
        None,
    ),
    (
        "renamed away",
        |server| {
            fs::rename(server.dir.file("k"), server.dir.file("moved")).expect("a rename");
        },
        None,
    ),
    (
        "replaced by a rename",
        |server| {
            fs::write(server.dir.outside("k"), "new value").expect("a file");
            fs::rename(server.dir.outside("k"), server.dir.file("k")).expect("a rename");
        },
        Some(b"new value"),
    ),
    (
        "replaced by a symlink to itself",
        |server| {
            fs::rename(server.dir.file("k"), server.dir.file("moved")).expect("a rename");
            symlink("moved", server.dir.file("k")).expect("a symlink");
        },
        None,
    ),
    (
        "replaced by a directory",
        |server| {
            fs::remove_file(server.dir.file("k")).expect("a removal");
            fs::create_dir(server.dir.file("k")).expect("a directory");
        },
        None,
    ),
];

fn edit(server: &TestServer, key: &str, value: &[u8]) {
    let mut file = File::options()
        .write(true)
        .open(server.dir.file(key))
        .expect("the value");
    file.write_all(value).expect("an edit by hand");
}

fn truncate(server: &TestServer, length: u64) {
    let file = File::options()
        .write(true)
        .open(server.dir.file("k"))
        .expect("the value");
    file.set_len(length).expect("cut by hand");
}

#[test]
fn every_reactor_sees_a_change_of_a_hot_value_at_once() {
    directory_only!("the cache");
    let server = TestServer::start(&["--threads", "4"]);
    let mut readers: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    for (what, change, value) in CHANGES {
        heat(&server, &mut readers);
        change(&server);
        for reader in &mut readers {
            let got = reader.ask(GET_K);
            assert_eq!(
                got.status,
                if value.is_some() { 200 } else { 404 },
                "{what}"
            );
            assert!(
                value.is_none_or(|value| got.body == value),
                "{what}: {}",
                got.body.escape_ascii()
            );
        }
        let _ = fs::remove_file(server.dir.file("k"));
    }
}

/// One client writes. A request after the acknowledgement sees that write, on every reactor.
#[test]
fn every_reader_sees_an_acknowledged_write() {
    directory_only!("the cache");
    let server = TestServer::start(&["--threads", "4"]);
    let mut writer = server.connect();
    let mut readers: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    heat(&server, &mut readers);
    let end = Instant::now() + Duration::from_secs(scaled(0, 2));
    let mut rounds = 0;
    while rounds < 100 || Instant::now() < end {
        rounds += 1;
        let value = format!("value {rounds:08}");
        writer.send(put_head("k", value.len()));
        let etag = writer
            .ask(&value)
            .header("etag")
            .expect("an ETag")
            .to_owned();
        for reader in &mut readers {
            let got = reader.ask(GET_K);
            assert_eq!(got.body, value.as_bytes(), "round {rounds}");
            assert_eq!(got.header("etag"), Some(etag.as_str()), "round {rounds}");
        }
        if rounds % 50 == 0 {
            read_until_kept(&server, &mut readers, value.as_bytes());
        }
    }
}

#[test]
fn without_a_cache_nothing_is_kept_open() {
    directory_only!("the cache");
    let server = TestServer::start(&["--cache", "0"]);
    server.store("k", "value");
    let mut reader = server.connect();
    let end = Instant::now() + Duration::from_millis(400);
    while Instant::now() < end {
        assert_eq!(reader.ask(GET_K).body, b"value");
    }
    assert!(
        !server.proc().has_open(&server.dir.file("k")),
        "a descriptor is kept"
    );
}

/// The cache keeps larger values open. A file that was removed by hand must not keep its space.
#[test]
fn the_cache_closes_a_large_value_removed_by_hand() {
    directory_only!("the cache");
    let server = TestServer::start(&[]);
    server.dir.place("k", pattern(1, 1 << 20));
    let mut reader = server.connect();
    let is_open = || server.proc().descriptors();
    // After the first answer the connection is accepted and part of the count.
    assert_eq!(
        reader.ask("GET /none HTTP/1.1\r\nHost: t\r\n\r\n").status,
        404
    );
    let before = is_open();
    eventually("it is kept", || {
        assert!(reader.ask(GET_K).body == pattern(1, 1 << 20));
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
    for (size, descriptors, most) in [(8000, "3000", MEMORY / 8000), (10, "400", 400 / 4)] {
        let server = Launch::new(&["--cache", "1MiB"])
            .through(&["prlimit", &format!("--nofile={descriptors}:{descriptors}")])
            .start();
        for n in 0..200 {
            server.dir.place(&format!("k{n}"), pattern(n, size));
        }
        let mut reader = server.connect();
        let mut read_all = || {
            for n in 0..200 {
                let got = reader.ask(format!("GET /k{n} HTTP/1.1\r\nHost: t\r\n\r\n"));
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
        assert!(
            kept() <= most,
            "{} values of {size} bytes, not {most}",
            kept()
        );
    }
}
