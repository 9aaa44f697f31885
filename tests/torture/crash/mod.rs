//! T1: a kill (SIGKILL) under mixed load, again and again on the same directory. Nothing torn, nothing acknowledged lost, nothing
//! deleted back, no `ETag` used twice, nothing left in staging; of a change that was not answered, the old value or the new.
//!
//! Each cycle draws the options of the server, what the clients do and when the fault comes from the seed of the run,
//! which is printed. `DATA_SERVER_TORTURE_SEED=N tests/run --test torture crash` draws the same again; when exactly the
//! process dies is not in the seed. A kill keeps the page cache: this proves order and atomicity, not what a disk keeps.

mod liar;
mod planted;
mod server;
mod stop;

use crate::ledger::Finding;
use crate::load::{Load, Progress, Silence, Terms};
use crate::random::Random;
use crate::scale::{counted, scaled};
use crate::support::prelude::*;
use server::Server;

/// Acknowledged writes before the fault, for a cycle to count.
const ENOUGH: usize = 100;

/// How long a cycle waits for them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is made to end under load, and started again on what it left.
pub(crate) trait Subject {
    fn addr(&self) -> SocketAddr;

    /// Whether it answers whatever it began before it ends.
    fn is_orderly(&self) -> bool {
        false
    }

    /// Ends it; clients are at work.
    fn end(&mut self) -> Result<(), Finding>;

    fn start(&mut self, dice: &mut Random) -> Result<(), Finding>;

    /// The names of all files that are there, those in staging after a `/`.
    fn files(&self) -> Vec<String>;
}

/// What was counted over all cycles.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) cycles: usize,
    /// Cycles with too few acknowledged writes before the fault.
    weak: usize,
    pub(crate) acknowledged: usize,
    /// Requests that got no answer.
    pub(crate) unheard: usize,
    /// Cycles after which something lay in staging, for the next start to sweep.
    littered: usize,
}

impl Counts {
    /// Refuses to have proved anything by cycles in which little happened.
    pub(crate) fn assert_proves(&self, cycles: usize) {
        let told = format!("{} of {cycles} cycles, {} weak", self.cycles, self.weak);
        assert!(self.cycles == cycles, "too few cycles count: {told}");
        assert!(self.acknowledged >= cycles * ENOUGH, "{told}");
    }
}

/// Makes `subject` end `cycles` times, and judges what each left; stops at the first broken promise.
pub(crate) fn torture(
    subject: &mut impl Subject,
    load: &mut Load,
    cycles: usize,
    patience: Duration,
) -> (Counts, Result<(), Finding>) {
    let mut counts = Counts::default();
    while counts.cycles < cycles && counts.weak <= cycles / 20 {
        let outcome = one_cycle(subject, load, &mut counts, patience);
        if let Err((fault, told)) = outcome {
            let told = format!("cycle {} of seed {}: {told}", counts.cycles, load.seed);
            return (counts, Err((fault, told)));
        }
    }
    (counts, Ok(()))
}

fn one_cycle(
    subject: &mut impl Subject,
    load: &mut Load,
    counts: &mut Counts,
    patience: Duration,
) -> Result<(), Finding> {
    let is_orderly = subject.is_orderly();
    let progress = Progress::under(Terms {
        is_excused: |_| false,
        silence: if is_orderly {
            Silence::NotMade
        } else {
            Silence::Unknown
        },
    });
    let (addr, enough) = (subject.addr(), ENOUGH + load.random().place(2 * ENOUGH));
    let (before, ended) = load.work(addr, &progress, || {
        let deadline = Instant::now() + patience;
        while progress.acknowledged() < enough && Instant::now() < deadline && !progress.is_broken()
        {
            thread::sleep(Duration::from_micros(200));
        }
        let before = progress.acknowledged();
        progress.let_break();
        (before, subject.end())
    })?;
    ended?;
    if before < ENOUGH {
        counts.weak += 1;
    } else {
        counts.cycles += 1;
    }
    counts.acknowledged += before;
    counts.unheard += progress.unanswered();
    let is_staged = |name: &String| name.starts_with("staging/");
    counts.littered += usize::from(subject.files().iter().any(is_staged));
    subject.start(load.random())?;
    load.verify(subject.addr(), &subject.files())
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged_and_tears_nothing() {
    let cycles = scaled(20, 1_000);
    let mut server = Server::ended_by(Signal::KILL);
    let (counts, outcome) = torture(&mut server, &mut Load::new("crash"), cycles, PATIENCE);
    let (median, longest) = server.start_times();
    counted!(
        "crash",
        "{} kills ({} with --durability disk), {} acknowledged writes before them, {} outcomes unheard, \
             {} left files in staging; starts took {median:.0?}, at most {longest:.0?}; \
             {} weak cycles not counted; found {}",
        counts.cycles,
        server.disk,
        counts.acknowledged,
        counts.unheard,
        counts.littered,
        counts.weak,
        usize::from(outcome.is_err())
    );
    if let Err((fault, told)) = outcome {
        panic!("{fault:?}: {told}");
    }
    counts.assert_proves(cycles);
    assert!(counts.unheard >= cycles, "kills that hit nothing in flight");
    assert!(server.disk > 0 && server.disk < cycles, "one durability");
    assert!(median < Duration::from_secs(1), "starts took {median:?}");
}
