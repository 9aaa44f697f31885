//! T1: a kill (SIGKILL) under mixed load, again and again on the same directory. Nothing torn, nothing acknowledged lost, nothing
//! deleted back, no `ETag` used twice, nothing left in staging; where nobody heard the outcome, the old value or the new.
//!
//! Each cycle draws the options of the server, what the clients do and when the fault comes from the seed of the run,
//! which is printed. `DATA_SERVER_TORTURE_SEED=N tests/run --test torture crash` draws the same again; when exactly the
//! process dies is not in the seed. A kill keeps the page cache: this proves order and atomicity, not what a disk keeps.

mod ledger;
mod liar;
mod load;
mod planted;
mod server;
mod stop;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::random::{Random, seed};
use crate::scale::{counted, scaled};
use crate::session::{Heard, Session};
use ledger::{Fault, Finding};
use load::{Book, Client, Cycle};
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
    /// Requests whose outcome nobody heard.
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
    seed: u64,
    cycles: usize,
    patience: Duration,
) -> (Counts, Result<(), Finding>) {
    let (mut dice, mut books, mut counts) = (Random::new(seed), Book::all(), Counts::default());
    while counts.cycles < cycles && counts.weak <= cycles / 20 {
        let outcome = one_cycle(subject, &mut dice, &mut books, &mut counts, patience);
        if let Err((fault, told)) = outcome {
            let told = format!("cycle {} of seed {seed}: {told}", counts.cycles);
            return (counts, Err((fault, told)));
        }
    }
    (counts, Ok(()))
}

fn one_cycle(
    subject: &mut impl Subject,
    dice: &mut Random,
    books: &mut [Book],
    counts: &mut Counts,
    patience: Duration,
) -> Result<(), Finding> {
    let cycle = Cycle {
        orderly: subject.is_orderly(),
        ..Cycle::default()
    };
    let before = load_and_end(subject, dice, books, &cycle, patience)?;
    if before < ENOUGH {
        counts.weak += 1;
    } else {
        counts.cycles += 1;
    }
    counts.acknowledged += before;
    counts.unheard += cycle.unheard.into_inner();
    let is_staged = |name: &String| name.contains('/');
    counts.littered += usize::from(subject.files().iter().any(is_staged));
    subject.start(dice)?;
    verify(subject, books)
}

/// How many writes were acknowledged before the fault.
fn load_and_end(
    subject: &mut impl Subject,
    dice: &mut Random,
    books: &mut [Book],
    cycle: &Cycle,
    patience: Duration,
) -> Result<usize, Finding> {
    let (addr, target) = (subject.addr(), ENOUGH + dice.place(2 * ENOUGH));
    let acknowledged = || cycle.acknowledged.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let clients: Vec<_> = books
            .iter_mut()
            .map(|book| Client::new(addr, book, dice.fork(), cycle))
            .map(|client| scope.spawn(|| client.run()))
            .collect();
        let deadline = Instant::now() + patience;
        let broken = || clients.iter().any(thread::ScopedJoinHandle::is_finished);
        while acknowledged() < target && Instant::now() < deadline && !broken() {
            thread::sleep(Duration::from_micros(200));
        }
        let before = acknowledged();
        cycle.ending.store(true, Ordering::Release);
        let ended = subject.end();
        for client in clients {
            client.join().expect("a client")?;
        }
        ended.map(|()| before)
    })
}

/// Reads every key, and looks for files that are no values.
fn verify(subject: &impl Subject, books: &mut [Book]) -> Result<(), Finding> {
    let addr = subject.addr();
    let read = |book: &mut Book| -> Result<(), Finding> {
        let mut session = Session::new(addr);
        for page in &mut book.pages {
            let Heard::Answer(answer) = session.ask("GET", &page.key, "", &[]) else {
                let told = format!("GET /{}: no answer after the start", page.key);
                return Err((Fault::Answer, told));
            };
            page.judge(&answer)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = books
            .iter_mut()
            .map(|book| scope.spawn(|| read(book)))
            .collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().expect("a reader"))
    })?;
    let known = |name: &String| {
        let mut pages = books.iter().flat_map(|book| &book.pages);
        pages.any(|page| page.key == *name && page.holds.is_some())
    };
    match subject.files().into_iter().find(|name| !known(name)) {
        Some(name) => Err((Fault::Litter, format!("{name} is no value"))),
        None => Ok(()),
    }
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged_and_tears_nothing() {
    let cycles = scaled(60, 1_000);
    let mut server = Server::ended_by(Signal::KILL);
    let (counts, outcome) = torture(&mut server, seed("crash"), cycles, PATIENCE);
    let (median, longest) = server.start_times();
    counted(
        "crash",
        &format!(
            "{} kills ({} with --durability disk), {} acknowledged writes before them, {} outcomes unheard, \
             {} left files in staging; starts took {median:.0?}, at most {longest:.0?}; \
             {} weak cycles not counted; found {}",
            counts.cycles,
            server.disk,
            counts.acknowledged,
            counts.unheard,
            counts.littered,
            counts.weak,
            usize::from(outcome.is_err()),
        ),
    );
    if let Err((fault, told)) = outcome {
        panic!("{fault:?}: {told}");
    }
    counts.assert_proves(cycles);
    assert!(counts.unheard >= cycles, "kills that hit nothing in flight");
    assert!(server.disk > 0 && server.disk < cycles, "one durability");
    assert!(median < Duration::from_secs(1), "starts took {median:?}");
}
