//! T14: a mixed load for a long time, with a fault every ten seconds, drawn from a seed that is printed.
//!
//! Reads, writes, compare-and-swap, removals, ranges, listings and uploads cut off, from clients that judge each
//! answer; the server is killed, drained, stopped, cut off, besieged, and loses its disk space and its descriptors.
//! Between the faults all is served; nothing acknowledged is lost, torn or stale; memory, descriptors and threads stay
//! level. Restarts come in the first third alone, so that the rest shows one process over a long time.

mod faults;
mod level;

use std::io::ErrorKind;

use self::faults::{Fault, Soak, serve};
use self::level::{Sample, is_level};
use crate::ledger::{self, Finding};
use crate::load::{Load, Progress, Silence, Terms};
use crate::prelude::*;
use crate::value::is_whole;

/// From one fault to the next.
const CYCLE: Duration = Duration::from_secs(10);

/// When in a cycle a fault and what it did must be over, and when the server is looked at.
const CALM: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(9_500);

/// A fault that fewer acknowledged writes came before shows nothing.
const ENOUGH_WRITES: usize = 100;

/// A request may meet no descriptors and no space, and no server.
const FAULTS: Terms = Terms {
    is_excused: |status| matches!(status, 503 | 507),
    silence: Silence::Passing,
};

/// What is watched over the cycles.
#[derive(Default)]
struct Watch {
    samples: Vec<Sample>,
    written: usize,
    /// Faults that enough writes came before.
    shown: usize,
    /// Faults long after which requests failed.
    late: Vec<String>,
}

/// Meets `faults`, one a cycle.
fn weather(soak: &mut Soak, faults: &[Fault], progress: &Progress) -> Watch {
    let failed = || progress.refused() + progress.unanswered();
    let mut watch = Watch::default();
    let start = Instant::now();
    let until = |time: Duration| thread::sleep(time.saturating_sub(start.elapsed()));
    until(CYCLE);
    for (cycle, &fault) in (1..).zip(faults) {
        let written = progress.acknowledged();
        watch.shown += usize::from(written - watch.written >= ENOUGH_WRITES);
        if soak.meet(fault) {
            watch.samples.clear();
        }
        watch.written = progress.acknowledged();
        until(CYCLE * cycle + CALM);
        let before = failed();
        until(CYCLE * cycle + LOOK);
        let after = failed();
        if after != before {
            let late = format!("{} requests failed long after {fault:?}", after - before);
            watch.late.push(late);
        }
        let sample = Sample::of(&soak.server);
        let seconds = start.elapsed().as_secs();
        eprintln!("soak: {seconds} s: {fault:?}: {sample:?}");
        watch.samples.push(sample);
        until(CYCLE * (cycle + 1));
        if progress.is_broken() {
            break;
        }
    }
    watch
}

/// Reads every key, and by hand every file.
fn verify(load: &mut Load, server: &TestServer) -> Result<(), Finding> {
    let mut names = Vec::new();
    for (name, bytes) in server.dir.values() {
        let name = String::from_utf8_lossy(&name).into_owned();
        if !is_whole(&name, &bytes) {
            return Err((ledger::Fault::Torn, format!("{name}, in the directory")));
        }
        names.push(name);
    }
    load.verify(server.addr, &names)
}

#[test]
fn a_long_mixed_load_with_a_fault_every_ten_seconds() {
    let time = scaled(Duration::from_secs(60), minutes());
    let cycles = usize::try_from(time.as_secs() / CYCLE.as_secs()).expect("a number") - 1;
    let mut load = Load::new("soak");
    let faults = Fault::draw(cycles, load.random());
    let mut soak = Soak::start(load.random());
    let (addr, progress) = (soak.addr, Progress::under(FAULTS));
    let watch = load.work(addr, &progress, || weather(&mut soak, &faults, &progress));
    let watch = watch.unwrap_or_else(|finding| panic!("seed {}: {finding:?}", load.seed));
    let level = is_level(&watch.samples);
    counted!(
        "soak: {} s, {} faults ({} with {ENOUGH_WRITES} writes before), {} answers, {} writes acknowledged, \
             {} refused, {} unanswered; at the end of {} samples: {level:?}",
        time.as_secs(),
        faults.len(),
        watch.shown,
        progress.answered(),
        progress.acknowledged(),
        progress.refused(),
        progress.unanswered(),
        watch.samples.len()
    );
    let verified = verify(&mut load, &soak.server);
    assert_eq!(verified, Ok(()), "seed {}", load.seed);
    assert!(watch.late.is_empty(), "{:?} of {faults:?}", watch.late);
    assert!(level.is_ok(), "{level:?} of {:?}", watch.samples);
    let is_right = watch.shown * 5 >= faults.len() * 4;
    assert!(is_right, "too few writes between the faults");
    soak.server.stop();
    soak.dir.assert_nothing_staged();
}

/// The full form's length; `DATA_SERVER_TORTURE_MINUTES` makes it another.
fn minutes() -> Duration {
    let asked = std::env::var("DATA_SERVER_TORTURE_MINUTES").ok();
    let minutes = asked.and_then(|text| text.parse().ok()).unwrap_or(30);
    Duration::from_secs(minutes * 60)
}

/// What the clients find when `lie` makes another of each earlier value, by hand and under their load; none removes it.
fn found(lie: impl Fn(&[u8]) -> Option<&[u8]>) -> Option<ledger::Fault> {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let server = serve(&DataDir::in_memory(), any_port);
    let (mut load, progress) = (Load::new("lies"), Progress::under(FAULTS));
    let outcome = load.work(server.addr, &progress, || {
        progress.reach(2 * ENOUGH_WRITES);
        // The clients may remove any of them at any moment.
        let files = server.dir.names().into_iter();
        let files = files.map(|name| server.dir.file(name));
        let earlier: Vec<_> = files.map(|file| (fs::read(&file).ok(), file)).collect();
        progress.reach(20 * ENOUGH_WRITES);
        for (value, file) in &earlier {
            let Some(value) = value else { continue };
            let Some(value) = lie(value) else {
                let _may_be_gone = fs::remove_file(file);
                continue;
            };
            let aside = server.dir.outside("aside");
            fs::write(&aside, value).expect("a value beside the directory");
            match fs::rename(&aside, file) {
                // The folder may have gone with its last key.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                placed => placed.expect("a value placed by hand"),
            }
        }
        eventually("the lie is found out", || progress.is_broken());
    });
    let (fault, told) = outcome.err()?;
    eprintln!("{fault:?}: {told}");
    Some(fault)
}

/// A change that is answered otherwise than it should be tells as well as what is read.
#[test]
fn a_directory_that_changes_under_the_soak_is_found_out() {
    use ledger::Fault::{Answer, Empty, Missing, Older, Resurrected, Tag, Torn};
    let older = found(|value| Some(value));
    let is_older = matches!(older, Some(Older | Empty | Resurrected | Tag | Answer));
    assert!(is_older, "{older:?}");
    let torn = found(|value| Some(&value[value.len() / 2..]));
    let is_torn = matches!(torn, Some(Torn | Empty | Resurrected | Tag | Answer));
    assert!(is_torn, "{torn:?}");
    let missing = found(|_| None);
    assert!(matches!(missing, Some(Missing | Answer)), "{missing:?}");
}
