//! A directory at its bound under writers at once, killed again and again: what was acknowledged is there whole, or was
//! evicted in its turn; the disk never has more than the bound; and what no bound names is all there. The same where
//! power is cut.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::time::{ClockId, clock_gettime};

use crate::disk::{Disk, Image, Kind, sync_of_a_stranger};
use crate::power::{Moment, moment};
use crate::prelude::*;

const MOST: u64 = 512 << 10;
const BOUND: [&str; 2] = ["--bound", r#"prefix = "c/", max-size = "512KiB""#];
const WRITERS: usize = 8;

/// Values written before each kill: some times what there is room for.
const BEFORE_KILL: usize = 300;

/// The time by the clock that dates uses, in milliseconds. It stands still from one tick of the kernel to the next,
/// which a busy machine may give late: of two uses in one tick it is not known which the server saw first.
fn tick() -> i64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// A value that was acknowledged, of a key that is written once.
struct Stored {
    key: String,
    seed: u64,
    begun: i64,
    ended: i64,
}

fn len(seed: u64) -> usize {
    usize::try_from(seed * 7919 % (5 * 4096)).expect("small")
}

/// What the writers of one life share.
#[derive(Default)]
struct Progress {
    count: AtomicUsize,
    /// The writers are to end.
    is_enough: Done,
    /// The disk fails, and what is not acknowledged may be made all the same.
    fails: AtomicBool,
}

/// One writer, until the server is gone or it is enough.
fn write(addr: SocketAddr, life: usize, writer: usize, progress: &Progress) -> Vec<Stored> {
    let (mut client, mut stored) = (Client::new(addr), Vec::new());
    for n in 0.. {
        if progress.is_enough.is_said() {
            return stored;
        }
        // Some in folders of their own; some that no bound names.
        let key = match n % 10 {
            9 => format!("kept/{life}-{writer}-{n}"),
            n if n % 3 == 0 => format!("c/{life}/{writer}/{n}/k"),
            _ => format!("c/{life}-{writer}-{n}"),
        };
        let key = key + &format!("-{n}");
        let (seed, begun) = ((life * 1_000_000 + writer * 10_000 + n) as u64, tick());
        let Heard::Answer(answer) = client.hear("PUT", &key, "", &pattern(seed, len(seed))) else {
            return stored;
        };
        if answer.status != 200 && progress.fails.load(Ordering::Acquire) {
            return stored;
        }
        assert_eq!(answer.status, 200, "{key}: {}", answer.text());
        let ended = tick();
        stored.push(Stored {
            key,
            seed,
            begun,
            ended,
        });
        progress.count.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("a range without an end")
}

/// The bytes of the disk that the values of the bound take.
fn taken(dir: &DataDir) -> u64 {
    let names = dir.names().into_iter();
    let below = names.filter(|name| name.starts_with(b"c/"));
    let file = |name: Vec<u8>| fs::metadata(dir.file(name)).ok();
    let files = below.filter_map(file).filter(fs::Metadata::is_file);
    files.map(|file| file.blocks() * 512).sum()
}

/// Fills the directory until the server is killed, after the power is `cut` if it is, and samples it; what was stored,
/// and the most that it took.
fn fill(
    server: &mut TestServer,
    life: usize,
    cut: Option<(&mut Image, Moment)>,
) -> (Vec<Stored>, u64) {
    let (progress, mut most) = (Progress::default(), 0);
    let (addr, dir) = (server.addr, server.dir.clone());
    let stored = thread::scope(|scope| {
        let progress = &progress;
        let writers = (0..WRITERS).map(|n| scope.spawn(move || write(addr, life, n, progress)));
        let writers: Vec<_> = writers.collect();
        let is_enough = || progress.count.load(Ordering::Relaxed) >= BEFORE_KILL;
        within(DEADLINE, || {
            server.signal(Signal::STOP);
            most = most.max(taken(&dir));
            server.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(10));
            is_enough()
        });
        if let Some((disk, moment)) = cut {
            if moment == Moment::Among {
                progress.fails.store(true, Ordering::Release);
            } else {
                drop(progress.is_enough.when_dropped());
                let are_done = || writers.iter().all(thread::ScopedJoinHandle::is_finished);
                eventually("the last answers", are_done);
            }
            if moment == Moment::AfterAStranger {
                sync_of_a_stranger(&dir);
            }
            disk.cut();
        }
        server.kill();
        let ended = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"));
        ended.collect()
    });
    (stored, most)
}

/// Judges what there is; returns what is left of what was stored, and how many were evicted.
fn judge(what: &str, server: &TestServer, stored: Vec<Stored>) -> (Vec<Stored>, usize) {
    let mut evicted: Option<Stored> = None;
    let (mut left, mut gone) = (Vec::new(), 0);
    for value in stored {
        let asked = tick();
        let answer = server.get(&value.key);
        if answer.status == 200 {
            let is_whole = answer.body == pattern(value.seed, len(value.seed));
            assert!(is_whole, "{what}: {} is torn", value.key);
            left.push((value, asked, tick()));
            continue;
        }
        assert_eq!(answer.status, 404);
        assert!(value.key.starts_with("c/"), "{what}: {} is lost", value.key);
        gone += 1;
        if evicted.as_ref().is_none_or(|last| last.begun < value.begun) {
            evicted = Some(value);
        }
    }
    let values = left.iter().map(|(value, ..)| value);
    let bounded = values.filter(|value| value.key.starts_with("c/"));
    let oldest = bounded.min_by_key(|value| value.ended);
    if let (Some(evicted), Some(oldest)) = (evicted, oldest) {
        let is_in_turn = evicted.begun <= oldest.ended;
        let (gone, kept) = (&evicted.key, &oldest.key);
        assert!(
            is_in_turn,
            "{what}: {gone} is gone, and {kept} is older: {} > {}",
            evicted.begun, oldest.ended
        );
    }
    // They were used now.
    let left = left.into_iter().map(|(value, begun, ended)| Stored {
        begun,
        ended,
        ..value
    });
    (left.collect(), gone)
}

/// Fills the directory in so many lives of a server that `launch` starts, each with its end, and judges what that has
/// left.
fn live(what: &str, lives: usize, launch: impl Fn() -> Launch, mut disk: Option<&mut Image>) {
    let (mut server, mut left) = (launch().start(), Vec::new());
    let (dir, mut evicted, mut most, mut at_starts) = (server.dir.clone(), 0, 0, 0);
    for life in 0..lives {
        let cut = disk.as_deref_mut().map(|disk| (disk, moment(life)));
        let (mut stored, sampled) = fill(&mut server, life, cut);
        most = most.max(sampled);
        if let Some(disk) = &mut disk {
            disk.revive();
        }
        server = launch().start();
        if disk.is_some() {
            // Of an eviction and the value that it made room for, the disk may have the value alone. What goes for that
            // goes by the times of files, which after a crash are coarser than the order of the writes.
            let is_within = || taken(&dir) <= MOST;
            eventually("nothing is above the bound", is_within);
            let gone = server.events("a value is removed");
            let gone: Vec<_> = gone.iter().map(|line| line.field("key")).collect();
            at_starts += gone.len();
            stored.retain(|value| !gone.contains(&value.key));
        }
        let at_start = taken(&dir);
        assert!(at_start <= MOST, "{what}: {at_start} after the end");
        assert!(
            at_start > MOST / 2,
            "{what}: more is gone than was needed: {at_start}"
        );
        left.extend(stored);
        let (kept, gone) = judge(what, &server, left);
        (left, evicted) = (kept, evicted + gone);
    }
    counted!(
        "bounds, {what}: {lives} ends, {evicted} evicted and {at_starts} at starts, at most {most} of {MOST} bytes"
    );
    assert!(most <= MOST, "{what}: {most} bytes");
    assert!(
        most > MOST / 2 && evicted > 50 * lives,
        "{what}: too little to prove anything"
    );
}

#[test]
fn a_bounded_directory_that_is_killed_has_what_was_acknowledged_and_no_more_than_its_bound() {
    let ways = [
        "--durability os",
        "--durability disk",
        "--durability disk --journal off",
    ];
    for way in ways {
        let dir = if way.ends_with("disk") {
            DataDir::temporary()
        } else {
            DataDir::in_memory()
        };
        let launch = || Launch::new(&[&words(way)[..], &BOUND].concat()).on(&dir);
        live(&format!("kills, {way}"), scaled(2, 40), launch, None);
    }
}

#[test]
fn a_bounded_directory_whose_power_is_cut_keeps_its_bound_and_all_that_no_bound_names() {
    Image::each(&Kind::ALL, "power cuts", |what, mut disk| {
        let dir = disk.dir();
        for way in ["--durability disk", "--durability disk --journal off"] {
            let args = [&words(way)[..], &BOUND, &["--log-level", "debug"]].concat();
            let launch = || Launch::new(&args).on(&dir);
            let what = format!("{what}, {way}");
            live(&what, scaled(3, 40), launch, Some(&mut disk));
            dir.clear();
        }
    });
}

/// The harness is shown to fail: what the server calls synced is lost.
#[test]
fn a_bounded_server_without_syncs_is_found_out() {
    let what = "bounds and power cuts without syncs";
    tracing_only!(what);
    let mut disk = needed!(available(what, Image::new(Kind::Ext4)));
    let dir = disk.dir();
    let lie = "inject=fsync,fdatasync,syncfs:retval=0";
    let calls = "trace=fsync,fdatasync,syncfs";
    let trace = needed!(Trace::with(
        &["--seccomp-bpf", "-e", calls, "-e", lie],
        what
    ));
    let launch = || {
        let server = Launch::new(&[&["--durability", "disk"][..], &BOUND].concat());
        trace.around(server).on(&dir)
    };
    // Or the next server refuses to start on what is left.
    let cut = AssertUnwindSafe(|| live(what, 5, launch, Some(&mut disk)));
    assert!(catch_unwind(cut).is_err(), "nothing is lost");
}
