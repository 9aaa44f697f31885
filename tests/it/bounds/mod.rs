//! Bounds of what the directory keeps, in each way that a change is published: quotas, eviction, ages, and what
//! restarts, kills and other programs do to the account.

use crate::support::prelude::*;

mod actions;
mod ages;
mod arriving;
mod counted;
mod disk;
mod ended;
mod eviction;
mod existing;
mod hands;
mod lowered;
mod options;
mod quotas;
mod refused;
mod replaced;
mod restarts;
mod stuck;
mod unremovable;
mod uses;

/// A value that takes one block of the disk.
const BLOCK: [u8; 4096] = [7; 4096];

/// The ways of a change: without a sync, through the journal, and with a sync of its own.
const WAYS: [&str; 3] = [
    "--durability os",
    "--durability disk",
    "--durability disk --journal off",
];

/// A server with these options, in memory, for many changes would wait for a busy disk.
fn start(args: &[&str]) -> TestServer {
    Launch::new(args).on(&DataDir::in_memory()).start()
}

/// Runs `test` with a server of each way, with these options.
fn each_way(args: &[&str], test: impl Fn(&TestServer)) {
    for way in WAYS {
        test(&TestServer::start(&[&*words(way), args].concat()));
    }
}

/// Uses that differ in time: of two within one tick of the kernel's clock it is not known which came first.
fn tick() {
    pass(Duration::from_millis(12));
}

/// Stores values of one block, one tick after another.
#[track_caller]
fn store_all(server: &TestServer, keys: &str) {
    for key in words(keys) {
        server.store(key, BLOCK);
        tick();
    }
}

/// Asserts that the directory has these values alone, in the order of their keys.
#[track_caller]
fn assert_has(server: &TestServer, keys: &str) {
    server.dir.assert_holds(&words(keys));
}

/// Waits until it has.
#[track_caller]
fn comes_to(server: &TestServer, keys: &str) {
    let names = || String::from_utf8(server.dir.names().join(&b' ')).expect("text");
    let is_right = comes_true(|| names() == keys);
    assert!(is_right, "{keys:?} is to be left: {:?}", names());
}

/// The bytes of the disk that values below this prefix take; those of a server that runs are seen as of no one moment.
fn taken(dir: &DataDir, prefix: &str) -> u64 {
    let names = dir.names().into_iter();
    let below = names.filter(|name| name.starts_with(prefix.as_bytes()));
    let file = |name: Vec<u8>| fs::metadata(dir.file(name)).ok();
    let files = below.filter_map(file).filter(fs::Metadata::is_file);
    files.map(|file| file.blocks() * 512).sum()
}

/// Places values of one block that were last used so many minutes ago each.
fn place_old(dir: &DataDir, values: &[(&str, u64)]) {
    for (key, minutes) in values {
        dir.place(key, BLOCK);
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
        let file = File::options().write(true).open(dir.file(key));
        let set = file.and_then(|file| file.set_times(times));
        set.expect("times set by hand");
    }
}

/// The sum of a metric of all bounds.
fn metric(server: &TestServer, name: &str) -> u64 {
    Scrape::of(server.addr).count(name, &[])
}

/// The bytes that the bounds have counted.
fn counted(server: &TestServer) -> u64 {
    metric(server, "data_server_bound_bytes")
}
