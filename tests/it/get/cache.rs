//! Proves the rest of the cache, beside [`crate::get::cached_values`]: races of readers with a writer, and a hot key
//! among many cold ones.

use crate::support::prelude::*;

/// Waits until the value is old enough for the cache.
fn settle(server: &TestServer, key: &str) {
    if is_s3() {
        return;
    }
    eventually("the value has settled", || {
        let age = SystemTime::now().duration_since(server.dir.modified(key));
        age.unwrap_or_default() > Duration::from_millis(150)
    });
}

/// After how many writes the writer pauses, so that the value gets into the cache.
const REST: u64 = 500;

/// A reader on any reactor sees no value older than the last one acknowledged before its request, or than one that
/// another reader saw before its request: the key is a register.
fn race(args: &[&str], write: impl Fn(&TestServer, &mut Raw, u64)) {
    let server = Launch::new(args).on(&DataDir::in_memory()).start();
    server.store("k", format!("{:020}", 0));
    let writes = by_engine(scaled(1_000, 10_000), 1_000);
    let (acknowledged, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let (reads, done, failed) = (AtomicU64::new(0), Done::default(), AtomicBool::new(false));
    let read = || {
        let mut connection = server.connect();
        while !done.is_said() {
            let least = acknowledged.load(Ordering::Acquire);
            let least = least.max(seen.load(Ordering::Acquire));
            let got = connection.get("k");
            let value = String::from_utf8_lossy(&got.body).parse();
            let value: u64 = value.expect("a number");
            if value < least {
                failed.store(true, Ordering::Release);
                panic!("read {value} when {least} was known");
            }
            seen.fetch_max(value, Ordering::AcqRel);
            reads.fetch_add(1, Ordering::AcqRel);
        }
    };
    thread::scope(|scope| {
        let _saying = done.when_dropped();
        let mut connection = server.connect();
        for _ in 0..3 {
            scope.spawn(read);
        }
        for n in 1..=writes {
            write(&server, &mut connection, n);
            acknowledged.store(n, Ordering::Release);
            if n % REST == 0 {
                settle(&server, "k");
                let enough = reads.load(Ordering::Acquire) + 30;
                eventually("readers go on", || {
                    failed.load(Ordering::Acquire) || reads.load(Ordering::Acquire) >= enough
                });
            }
            if failed.load(Ordering::Acquire) {
                break;
            }
        }
    });
    let reads = reads.into_inner();
    eprintln!("{reads} reads beside {writes} writes, {args:?}");
    assert!(reads > writes / REST * 30);
}

fn put(_: &TestServer, connection: &mut Raw, n: u64) {
    let value = format!("{n:020}");
    let answer = connection.ask(put_head("k", value.len()) + &value);
    assert_eq!(answer.status, 200);
}

#[test]
fn a_key_is_a_register_on_every_reactor_with_a_cache_and_without() {
    for args in taken(&[&["--threads", "4"], &["--threads", "4", "--cache", "0"]]) {
        race(args, put);
    }
}

#[test]
fn a_key_replaced_by_hand_is_a_register_on_every_reactor() {
    directory_only!("hands in the directory");
    race(&["--threads", "4"], |server, _, n| {
        let new = server.dir.outside("new");
        fs::write(&new, format!("{n:020}")).expect("a file");
        fs::rename(new, server.dir.file("k")).expect("a rename");
    });
}

/// Fifteen hundred keys, three times what the cache holds, are read once each beside one key that is read often.
#[test]
fn a_scan_of_cold_keys_does_not_evict_a_hot_one() {
    const COLD: u64 = 1500;
    directory_only!("the cache");
    let server = Launch::new(&["--threads", "2", "--cache", "256KiB"]);
    let server = server.on(&DataDir::in_memory()).start();
    for n in 0..COLD {
        server.dir.place(&format!("cold-{n}"), pattern(n, 500));
    }
    server.dir.place("hot", "value");
    settle(&server, "hot");
    let mut connection = server.connect();
    for _ in 0..100 {
        assert_eq!(connection.get("hot").body, b"value");
    }
    let is_kept = |key: &str| server.proc().has_open(&server.dir.file(key));
    eventually("the hot key is kept", || is_kept("hot"));
    for n in 0..COLD {
        assert!(connection.get(&format!("cold-{n}")).body == pattern(n, 500));
    }
    let kept = (0..COLD).filter(|n| n % 50 == 0 && is_kept(&format!("cold-{n}")));
    let kept = kept.count() * 50;
    eprintln!("after {COLD} cold keys, about {kept} of them are kept");
    assert!(kept < 750, "a scan that fits proves nothing");
    assert!(is_kept("hot"), "the hot key was pushed out");
}
