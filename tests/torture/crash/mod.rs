//! T1: a kill (SIGKILL) under mixed load, again and again on the same directory. Nothing torn, nothing acknowledged
//! lost, nothing deleted back, no `ETag` used twice, nothing left in staging; of a change that was not answered, the
//! old value or the new.
//!
//! Each cycle draws the options of the server, what the clients do and when the fault comes from the seed of the run,
//! which is printed. `DATA_SERVER_TORTURE_SEED=N tests/run --test torture crash` draws the same again; when exactly the
//! process dies is not in the seed. A kill keeps the page cache: this proves order and atomicity, not what a disk
//! keeps.

mod server;

use crate::ledger::{Fault, Finding};
use crate::load::{Load, Progress, Terms};
use crate::prelude::*;
use server::Server;

/// Acknowledged writes before the fault, for a cycle to count.
const ENOUGH: usize = 100;

/// The default of `--grace-period`.
const GRACE: Duration = Duration::from_secs(30);

/// How long a cycle waits for them.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was counted over all cycles.
#[derive(Debug, Default)]
struct Counts {
    cycles: usize,
    /// Cycles with too few acknowledged writes before the fault.
    weak: usize,
    acknowledged: usize,
    /// Requests that got no answer.
    unheard: usize,
    /// Cycles after which something lay in staging, for the next start to sweep.
    littered: usize,
}

impl Counts {
    /// Refuses to have proved anything by cycles in which little happened.
    fn assert_proves(&self, cycles: usize) {
        let told = format!("{} of {cycles} cycles, {} weak", self.cycles, self.weak);
        assert!(self.cycles == cycles, "too few cycles count: {told}");
        assert!(self.acknowledged >= cycles * ENOUGH, "{told}");
    }
}

/// Makes `server` end `cycles` times, and judges what each left; panics at the first broken promise.
fn torture(server: &mut Server, load: &mut Load, cycles: usize, patience: Duration) -> Counts {
    let mut counts = Counts::default();
    while counts.cycles < cycles && counts.weak <= cycles / 20 {
        let outcome = one_cycle(server, load, &mut counts, patience);
        if let Err((fault, told)) = outcome {
            let (cycle, seed) = (counts.cycles, load.seed);
            panic!("{fault:?}: cycle {cycle} of seed {seed}: {told}");
        }
    }
    counts
}

fn one_cycle(
    server: &mut Server,
    load: &mut Load,
    counts: &mut Counts,
    patience: Duration,
) -> Result<(), Finding> {
    let progress = Progress::under(Terms {
        is_excused: |_| false,
        silence: server.silence(),
    });
    let (addr, enough) = (server.addr(), ENOUGH + load.random().usize(..2 * ENOUGH));
    let (before, ended) = load.work(addr, &progress, || {
        within(patience, || {
            progress.is_broken() || progress.acknowledged() >= enough
        });
        let before = progress.acknowledged();
        progress.let_break();
        (before, server.end())
    })?;
    ended?;
    counts.weak += usize::from(before < ENOUGH);
    counts.cycles += usize::from(before >= ENOUGH);
    counts.acknowledged += before;
    counts.unheard += progress.unanswered();
    let is_staged = |name: &String| name.starts_with("staging/");
    counts.littered += usize::from(server.files().iter().any(is_staged));
    server.start(load.random())?;
    load.verify(server.addr(), &server.files())
}

/// Has servers end by this signal so often, and says what was counted; panics where a promise is broken.
fn withstands(what: &str, signal: Signal, cycles: usize) -> (Server, Counts) {
    let mut server = Server::ended_by(signal);
    let counts = torture(&mut server, &mut Load::new(what), cycles, PATIENCE);
    let (median, start) = server.start_times();
    let (disk, end) = (server.disk, server.ends.iter().max());
    counted!(
        "{what}: {counts:?}, {disk} with --durability disk; starts took {median:.0?}, at most {start:.0?}, ends at most {end:.0?}"
    );
    counts.assert_proves(cycles);
    (server, counts)
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged_and_tears_nothing() {
    let cycles = scaled(20, 1_000);
    let (server, counts) = withstands("crash", Signal::KILL, cycles);
    let (median, _) = server.start_times();
    assert!(counts.unheard >= cycles, "kills that hit nothing in flight");
    assert!(server.disk > 0 && server.disk < cycles, "one durability");
    assert!(median < Duration::from_secs(1), "starts took {median:?}");
}

/// T15: SIGTERM under the same load. Everything acknowledged is kept, whatever was begun is answered whole, what is not
/// answered was not done, and the process ends with 0 within the grace period.
#[test]
fn a_stop_under_load_loses_nothing_and_leaves_no_answer_half_said() {
    let (server, _) = withstands("stop", Signal::TERM, scaled(8, 500));
    let longest = server.ends.iter().max();
    assert!(longest < Some(&GRACE), "an end took {longest:?}");
}

#[test]
#[should_panic(expected = "too few cycles count")]
fn idle_cycles_prove_nothing() {
    let mut server = Server::ended_by(Signal::KILL);
    torture(&mut server, &mut Load::new("idle"), 20, Duration::ZERO).assert_proves(20);
}

#[test]
fn a_file_left_in_staging_is_found_out() {
    let server = Server::ended_by(Signal::KILL);
    let files = ["staging/half".to_owned()];
    let found = Load::new("litter").verify(server.addr(), &files);
    assert_eq!(found.expect_err("a leftover").0, Fault::Litter);
}
