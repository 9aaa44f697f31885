//! Proves that a value which is not in memory is served whole, and that other connections do not wait for it.
//!
//! tests/torture/cold.rs counts which threads read from the device, on a slow disk.

use rustix::fs::{Advice, fadvise};

use crate::support::prelude::*;

/// Places the value on the disk under `key`, and drops it from the page cache.
fn place_cold(server: &TestServer, key: &str, value: &[u8]) {
    server.dir.place(key, value);
    forget(server, key);
}

/// Drops the value from the page cache.
fn forget(server: &TestServer, key: &str) {
    let file = File::open(server.dir.file(key)).expect("the value");
    file.sync_all().expect("the value on the disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("the value out of memory");
}

#[test]
fn a_cold_value_of_any_size_is_served_whole() {
    directory_only!("reads of files");
    let server = TestServer::start(&["--threads", "1"]);
    for (seed, size) in (1..).zip([4 << 10, 20 << 10, 300 << 10, 1 << 20, 9_000_000]) {
        let (key, value) = (format!("k{seed}"), pattern(seed, size));
        place_cold(&server, &key, &value);
        assert!(server.get(&key).body == value, "GET of {size} cold bytes");
        forget(&server, &key);
        assert!(server.get(&key).body == value, "of {size} bytes, forgotten");
        // A body of a GET is no request and leaves the answer whole: in the buffer of HTTP, or still in the socket.
        for requests in by_protocol(&[1, 10_000][..], &[]) {
            forget(&server, &key);
            let body = get_head("smuggled").repeat(*requests);
            let head = format!("GET /{key} HTTP/1.1\r\nHost: t\r\n");
            let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
            let mut connection = server.connect();
            let _may_be_closed_early = connection.offer(head + &body);
            let answer = connection.answer();
            assert!(answer.body == value && answer.closes(), "{answer:?}");
            assert_eq!(connection.rest(), b"", "{size} bytes, {requests} requests");
        }
    }
}

/// strace delays each blocking read of any thread. The reactor still serves other connections.
#[test]
fn a_slow_disk_delays_only_its_reader() {
    const SIZE: usize = 4 << 20;
    http1_only!("each read is delayed, also that of what is in memory and is framed");
    directory_only!("reads of files");
    clear_only!("each read is delayed, also that of what is in memory and is sealed");
    let options =
        words("-e trace=pread64,fadvise64 -e inject=pread64,fadvise64:delay_enter=100000");
    let left_out = "other connections while a disk is slow";
    let trace = needed!(Trace::with(&options, left_out));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    let value = pattern(1, SIZE);
    place_cold(&server, "cold", &value);
    server.dir.place("small", "value");
    let (answers, done) = (AtomicU64::new(0), Done::default());
    let meanwhile = thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            while !done.is_said() {
                assert_eq!(connection.get("small").body, b"value");
                answers.fetch_add(1, Ordering::AcqRel);
            }
        });
        let _saying = done.when_dropped();
        let before = answers.load(Ordering::Acquire);
        assert!(server.get("cold").body == value);
        answers.load(Ordering::Acquire) - before
    });
    server.stop();
    let calls = trace.calls();
    let held_up = calls.iter().filter(|call| call.args.contains("/cold>"));
    let held_up = held_up.count() as u64;
    eprintln!("{meanwhile} small answers during {held_up} slow reads of another value");
    let what = "other connections while a disk is slow";
    only_where!(held_up > 0, what, "this file system has no disk");
    let is_right = meanwhile > 3 * held_up;
    assert!(is_right, "{meanwhile} answers during {held_up} slow reads");
}
