//! A disk whose reads take long: the disk threads wait for it, and no reactor does.
//!
//! The kernel counts a read for the thread that sets it off, whether it waits or not. A reactor that asks whether a
//! value is in memory has the first pages of what is missing read ahead; it must not have the rest read. On a fast disk
//! those pages may arrive before the kernel has answered, so that nothing seems to be missing: here they cannot.

use rustix::fs::{Advice, fadvise};

use crate::disk::Disk;
use crate::nbd::{Nbd, Weakness};
use crate::prelude::*;

/// So many bytes of disk threads stand for one that the kernel reads ahead when a reactor asks for a page, or sends
/// one.
const MOST_AHEAD: u64 = 4;

/// What reactors and disk threads had read from the disk.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    reactors: u64,
    disk_threads: u64,
}

impl Reads {
    fn so_far(server: &TestServer) -> Self {
        let threads = server.proc().bytes_from_device();
        let of = |kind: &str| {
            let of_kind = threads.iter().filter(|(name, _)| name.starts_with(kind));
            of_kind.map(|(_, bytes)| bytes).sum()
        };
        Self {
            reactors: of("reactor-"),
            disk_threads: of("disk-"),
        }
    }

    /// What was read since.
    fn during(server: &TestServer, act: impl FnOnce()) -> Self {
        let before = Self::so_far(server);
        act();
        let after = Self::so_far(server);
        Self {
            reactors: after.reactors - before.reactors,
            disk_threads: after.disk_threads - before.disk_threads,
        }
    }

    /// That disk threads read it, but for what the kernel reads ahead by itself.
    fn assert_aside(self) {
        assert!(self.disk_threads > 0, "was it read? {self:?}");
        assert!(self.reactors * MOST_AHEAD <= self.disk_threads, "{self:?}");
    }
}

fn disk(what: &str) -> Option<Nbd> {
    available(what, Nbd::new(Weakness::SlowReads))
}

/// Has every layer give up what it holds of the value in memory.
fn forget(disk: &Nbd, dir: &DataDir, key: &str) {
    let file = File::open(dir.file(key)).expect("the value");
    file.sync_all().expect("the value on the disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("the value out of memory");
    disk.forget();
}

#[test]
fn a_cold_value_is_read_by_the_disk_threads() {
    let disk = needed!(disk("who reads a cold value"));
    let mut server = Launch::new(&["--threads", "1"]).on(&disk.dir()).start();
    let sizes = [300 << 10, 2 << 20, (3 << 20) + 5];
    for (seed, size) in (1..).zip(sizes.repeat(scaled(1, 10))) {
        let (key, value) = (format!("k{seed}"), pattern(seed, size));
        server.dir.place(&key, &value);
        forget(&disk, &server.dir, &key);
        let reads = Reads::during(&server, || assert!(server.get(&key).body == value));
        counted!("cold: {size} cold bytes: {reads:?}");
        reads.assert_aside();
    }
    server.stop();
}

/// What was found in memory a moment ago is asked for by its last byte alone. That byte may stay where the rest is
/// forgotten, for pages that are under way to a client stay: then a reactor waits for one window.
#[test]
fn a_value_that_was_just_served_and_forgotten_is_read_by_the_disk_threads_again() {
    let disk = needed!(disk("who reads a value that was just forgotten"));
    let mut server = Launch::new(&["--threads", "1"]).on(&disk.dir()).start();
    let value = pattern(1, 2 << 20);
    server.dir.place("hot", &value);
    let mut all = Reads::default();
    for _ in 0..scaled(10, 100) {
        forget(&disk, &server.dir, "hot");
        let reads = Reads::during(&server, || assert!(server.get("hot").body == value));
        all.reactors += reads.reactors;
        all.disk_threads += reads.disk_threads;
        // Twice: what is found in memory is remembered.
        assert!(server.get("hot").body == value && server.get("hot").body == value);
    }
    counted!("cold: of what was forgotten: {all:?}");
    assert!(all.disk_threads > 2 * all.reactors, "{all:?}");
    server.stop();
}
