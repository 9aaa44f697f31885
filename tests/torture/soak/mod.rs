//! T14: a mixed load for a long time, with a fault every ten seconds, drawn from a seed that is printed.
//!
//! Reads, writes, compare-and-swap, removals, ranges, listings and uploads cut off, from six clients that judge each
//! answer; the server is killed, drained, stopped, cut off, besieged, and loses its disk space and its descriptors.
//! Between the faults all is served; nothing acknowledged is lost, torn or stale; memory, descriptors and threads stay
//! level. Restarts come in the first third alone, so that the rest shows one process over a long time.

mod client;
mod faults;
mod ledger;
mod level;

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::client::{CLIENTS, Client, Common, FIXED, fixed, judge_files};
use self::faults::{Fault, Soak, serve};
use self::level::{Sample, is_level};
use crate::random::{Random, seed};
use crate::scale::{counted, scaled};
use crate::support::{DataDir, Done};

/// From one fault to the next.
const CYCLE: Duration = Duration::from_secs(10);

/// When in a cycle a fault and what it did must be over, and when the server is looked at.
const CALM: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(9_500);

/// A fault that fewer acknowledged writes came before shows nothing.
const ENOUGH_WRITES: u64 = 100;

/// What the clients found wrong; the first few are enough.
#[derive(Default)]
struct Findings(Mutex<Vec<String>>);

impl Findings {
    fn add(&self, finding: String) {
        let mut all = self.0.lock().expect("no panic under the lock");
        if all.len() < 10 {
            eprintln!("soak: {finding}");
            all.push(finding);
        }
    }

    fn taken(&self) -> Vec<String> {
        self.0.lock().expect("no panic under the lock").clone()
    }
}

/// What is watched over the cycles.
#[derive(Default)]
struct Watch {
    samples: Vec<Sample>,
    written: u64,
    shown: usize,
}

/// Meets `faults`, one a cycle.
fn weather(soak: &mut Soak, faults: &[Fault], common: &Common, findings: &Findings) -> Watch {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let failed = || load(&common.refused) + load(&common.unanswered);
    let mut watch = Watch::default();
    let start = Instant::now();
    let until = |time: Duration| thread::sleep(time.saturating_sub(start.elapsed()));
    until(CYCLE);
    for (cycle, &fault) in (1..).zip(faults) {
        let written = load(&common.written);
        watch.shown += usize::from(written - watch.written >= ENOUGH_WRITES);
        if soak.meet(fault) {
            watch.samples.clear();
        }
        watch.written = load(&common.written);
        until(CYCLE * cycle + CALM);
        let before = failed();
        until(CYCLE * cycle + LOOK);
        let after = failed();
        if after != before {
            let late = format!("{} requests failed long after {fault:?}", after - before);
            findings.add(late);
        }
        let sample = Sample::of(&soak.server.proc());
        eprintln!(
            "soak: {} s: {fault:?}: {sample:?}",
            start.elapsed().as_secs()
        );
        watch.samples.push(sample);
        until(CYCLE * (cycle + 1));
    }
    watch
}

#[test]
fn a_long_mixed_load_with_a_fault_every_ten_seconds() {
    let time = scaled(Duration::from_secs(60), minutes());
    let cycles = usize::try_from(time.as_secs() / CYCLE.as_secs()).expect("a number") - 1;
    let seed = seed("soak");
    let faults = Fault::draw(cycles, &mut Random::new(seed));
    let mut soak = Soak::start();
    let (common, findings, over) = (Common::default(), Findings::default(), Done::default());
    let addr = soak.addr;
    let watch = thread::scope(|scope| {
        for me in 0..CLIENTS {
            let (common, findings, over) = (&common, &findings, &over);
            scope.spawn(move || {
                let mut client = Client::new(me, addr, common, seed);
                while !over.is_said() {
                    client.act().unwrap_or_else(|finding| findings.add(finding));
                }
            });
        }
        let _over = over.when_dropped();
        weather(&mut soak, &faults, &common, &findings)
    });
    let failed = common.unanswered.load(Ordering::Relaxed);
    let last = Client::new(0, addr, &common, seed).read_all();
    last.unwrap_or_else(|finding| findings.add(finding));
    assert_eq!(
        failed,
        common.unanswered.load(Ordering::Relaxed),
        "the end is calm"
    );
    let files = judge_files(soak.dir.values().into_iter());
    let level = is_level(&watch.samples);
    let Common {
        answered,
        written,
        refused,
        unanswered,
        ..
    } = &common;
    counted(
        "soak",
        &format!(
            "{} s, {} faults ({} with {ENOUGH_WRITES} writes before), {answered:?} answers, {written:?} writes acknowledged, \
             {refused:?} refused, {unanswered:?} unanswered; at the end of {} samples: {level:?}",
            time.as_secs(),
            faults.len(),
            watch.shown,
            watch.samples.len(),
        ),
    );
    assert_eq!(
        findings.taken(),
        Vec::<String>::new(),
        "seed {seed}, {faults:?}"
    );
    assert!(files.is_ok(), "{files:?}");
    assert!(level.is_ok(), "{level:?} of {:?}", watch.samples);
    assert!(
        watch.shown * 5 >= faults.len() * 4,
        "too few writes between the faults"
    );
    soak.server.stop();
    soak.dir.assert_nothing_staged();
}

/// The full form's length; `DATA_SERVER_TORTURE_MINUTES` makes it another.
fn minutes() -> Duration {
    let asked = std::env::var("DATA_SERVER_TORTURE_MINUTES").ok();
    let minutes = asked.and_then(|text| text.parse().ok()).unwrap_or(30);
    Duration::from_secs(minutes * 60)
}

#[test]
fn a_server_that_lies_is_found_out_by_the_clients_of_the_soak() {
    let server = serve(
        &DataDir::in_memory(),
        "127.0.0.1:0".parse().expect("an address"),
    );
    for key in FIXED {
        server.store(key, fixed(key));
    }
    let common = Common::default();
    let mut client = Client::new(0, server.addr, &common, 1);
    let key = client::key(0, 0);
    let old = client.write_until_acknowledged(&server.dir);
    let new = client.write_until_acknowledged(&server.dir);
    assert_eq!(client.read_all(), Ok(()));
    let mut planted = |what: &dyn Fn()| {
        what();
        client.read_all().expect_err("a lie")
    };
    assert!(planted(&|| server.dir.place(&key, &old)).contains("stale"));
    assert!(planted(&|| server.dir.place(&key, &new[..new.len() / 2])).contains("no write of it"));
    let remove = || fs::remove_file(server.dir.file(&key)).expect("a removal by hand");
    assert!(planted(&remove).contains("lost"));
    server.dir.place(&key, &new);
    assert_eq!(client.read_all(), Ok(()));
    let unlist = || fs::remove_file(server.dir.file(FIXED[0])).expect("a removal by hand");
    let finding = {
        unlist();
        client.read_all().expect_err("a lie")
    };
    assert!(finding.contains("not in the listing"), "{finding}");
}

#[test]
fn a_leak_is_found_out() {
    let server = serve(
        &DataDir::in_memory(),
        "127.0.0.1:0".parse().expect("an address"),
    );
    let mut leaked = Vec::new();
    let mut sample = |leaks: usize| {
        leaked.extend((0..leaks).map(|_| {
            let mut raw = server.connect();
            assert_eq!(raw.ask("GET /none HTTP/1.1\r\nHost: t\r\n\r\n").status, 404);
            raw
        }));
        Sample::of(&server.proc())
    };
    let level: Vec<Sample> = (0..6).map(|_| sample(0)).collect();
    assert!(is_level(&level).is_ok(), "{level:?}");
    let leaking: Vec<Sample> = (0..6).map(|_| sample(10)).collect();
    assert!(is_level(&leaking).is_err(), "{leaking:?}");

    let growing = |n: u64| Sample {
        rss_kib: 20_000 + n * 10_000,
        ..level[0]
    };
    let growing: Vec<Sample> = (0..6).map(growing).collect();
    assert!(is_level(&growing).is_err(), "{growing:?}");
    assert!(is_level(&level[..2]).is_err(), "too little to tell");
}
