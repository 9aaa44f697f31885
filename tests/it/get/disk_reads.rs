//! Proves that a value which is not in memory is served whole, and that it is the disk threads that wait for it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::{Advice, fadvise};

use crate::support::{Done, Launch, TestServer, Trace, pattern};

/// Of a value this long, what the kernel reads ahead by itself is a part.
const LARGE: usize = 300 << 10;

/// For what is sent from the file: a frame for hyper is read at once where it can be, and what the kernel then reads ahead
/// is counted for the reactor, which does not wait for it.
const FROM_THE_FILE: [&str; 4] = ["--threads", "1", "--takeover", "on"];

/// Puts the value under `key` on the disk and nowhere else.
fn place_cold(server: &TestServer, key: &str, value: &[u8]) {
    server.dir.place(key, value);
    forget(server, key);
}

/// Has the kernel give up what it holds of the value in memory.
fn forget(server: &TestServer, key: &str) {
    let file = File::open(server.dir.file(key)).expect("the value");
    file.sync_all().expect("the value on the disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("the value out of memory");
}

/// What reactors and what disk threads have had read from the device. The kernel counts a read for the thread that set it
/// off, whether it waits or not: what it begins to read ahead when a reactor asks or sends is counted for the reactor.
fn read_so_far(server: &TestServer) -> (u64, u64) {
    let threads = server.proc().bytes_from_device();
    let of = |kind: &str| {
        let of_kind = threads.iter().filter(|(name, _)| name.starts_with(kind));
        of_kind.map(|(_, bytes)| bytes).sum()
    };
    (of("reactor-"), of("disk-"))
}

/// On a busy machine a device may finish what a look has begun to read ahead before that look ends, so that a cold value
/// seems to be in memory: each size has a few tries.
#[test]
fn a_cold_value_is_served_whole_and_the_disk_threads_read_it() {
    const TRIES: usize = 5;
    let server = TestServer::start(&FROM_THE_FILE);
    for (seed, size) in (1..).zip([4 << 10, 20 << 10, LARGE, 8 << 20, 40_000_000]) {
        let value = pattern(seed, size);
        let is_read_aside = (0..TRIES).any(|turn| {
            let key = format!("k{seed}-{turn}");
            place_cold(&server, &key, &value);
            let (reactors_before, disk_before) = read_so_far(&server);
            assert!(server.get(&key).body == value, "GET of {size} cold bytes");
            let (reactors, disk) = read_so_far(&server);
            let (reactors, disk) = (reactors - reactors_before, disk - disk_before);
            eprintln!("{size} cold bytes: reactors had {reactors} read, disk threads {disk}");
            disk > 0 || reactors + disk < size as u64
        });
        let (reactors, disk) = read_so_far(&server);
        if reactors + disk < size as u64 {
            eprintln!(
                "left out: who reads cold values, for this file system does not count it or has no disk"
            );
            return;
        }
        assert!(
            size < LARGE || is_read_aside,
            "a reactor had all {size} bytes read, {TRIES} times"
        );
    }
}

/// A value that was in memory when it was last asked for, a moment ago, and has left it since.
#[test]
fn a_value_that_was_just_served_and_forgotten_is_read_by_the_disk_threads_again() {
    const SIZE: usize = 8 << 20;
    let server = TestServer::start(&FROM_THE_FILE);
    let value = pattern(1, SIZE);
    place_cold(&server, "hot", &value);
    let (mut reactors, mut disk) = (0, 0);
    for _ in 0..5 {
        // Twice: what is found in memory is remembered.
        assert!(server.get("hot").body == value && server.get("hot").body == value);
        forget(&server, "hot");
        let (reactors_before, disk_before) = read_so_far(&server);
        assert!(server.get("hot").body == value);
        let (reactors_after, disk_after) = read_so_far(&server);
        reactors += reactors_after - reactors_before;
        disk += disk_after - disk_before;
    }
    eprintln!("of what was forgotten, reactors had {reactors} read, disk threads {disk}");
    if reactors + disk < SIZE as u64 {
        eprintln!("left out: who reads what was forgotten, for this system does not forget it");
        return;
    }
    // Pages that are under way to a client stay, so that a window may seem to be there when it is not whole.
    assert!(disk > 2 * reactors, "{reactors}, {disk}");
}

/// A value that is open already, at hand or forgotten; a body that hyper has, or that is left in the socket.
#[test]
fn the_body_of_a_get_is_no_request_and_does_not_cut_its_answer_short() {
    let server = TestServer::start(&["--threads", "1"]);
    let value = pattern(1, 4 << 20);
    place_cold(&server, "k", &value);
    let inner = "GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n";
    for (body, is_cold) in [(1, false), (1, true), (10_000, false), (10_000, true)] {
        let body = inner.repeat(body);
        let length = body.len();
        assert!(server.get("k").body == value);
        if is_cold {
            forget(&server, "k");
        }
        let mut connection = server.connect();
        let _may_be_closed_early = connection.offer(format!(
            "GET /k HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let answer = connection.answer();
        assert!(answer.body == value, "{length}: {}", answer.status);
        assert!(answer.closes(), "{answer:?}");
        let rest = connection.rest();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

/// Each blocking read is held up in the kernel, whichever thread makes it: the reactor goes on with other connections.
#[test]
fn a_slow_disk_holds_up_nobody_but_its_reader() {
    const SIZE: usize = 4 << 20;
    let options = [
        "-e",
        "trace=pread64,fadvise64",
        "-e",
        "inject=pread64,fadvise64:delay_enter=20000",
    ];
    let Some(trace) = Trace::with(&options, "other connections while a disk is slow") else {
        return;
    };
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    let value = pattern(1, SIZE);
    place_cold(&server, "cold", &value);
    server.dir.place("small", "value");
    let (answers, done) = (AtomicU64::new(0), Done::default());
    let meanwhile = thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            while !done.is_said() {
                let got = connection.ask("GET /small HTTP/1.1\r\nHost: t\r\n\r\n");
                assert_eq!(got.body, b"value");
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
    let held_up = calls
        .iter()
        .filter(|call| call.args.contains("/cold>"))
        .count() as u64;
    eprintln!("{meanwhile} small answers during {held_up} slow reads of another value");
    if held_up == 0 {
        eprintln!(
            "left out: other connections while a disk is slow, for this file system has no disk"
        );
        return;
    }
    assert!(
        meanwhile > 10 * held_up,
        "{meanwhile} answers during {held_up} slow reads"
    );
}
