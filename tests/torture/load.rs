//! The load that crashes, power cuts and faults meet: clients that write, replace, delete, swap and read, each with
//! keys of its own, and judge every answer at once; and the look at what is left.

mod change;
mod worker;

use std::sync::MutexGuard;

use self::worker::Worker;
use crate::ledger::{Fault, Finding, Ledger, Tally};
use crate::prelude::*;
use crate::value::key;

pub(crate) const CLIENTS: usize = 8;

/// Keys of each client.
const KEYS: usize = 20;

/// How long it may wait for answers, which a disk and a tracer may slow down.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the server may do with a request that it does not answer as it should.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// The statuses of refusals that the faults explain. A change that was refused so may have been made.
    pub(crate) is_excused: fn(u16) -> bool,
    pub(crate) silence: Silence,
}

/// What it means that a request gets no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The server has ended, and has or has not made the change.
    Unknown,
    /// The server has ended in order: it has not made what it did not answer.
    NotMade,
    /// One of the faults, and the server will be there again.
    Passing,
}

/// The terms, and what the clients have heard so far.
pub(crate) struct Progress {
    terms: Terms,
    /// Writes and removals.
    acknowledged: AtomicUsize,
    answered: AtomicUsize,
    refused: AtomicUsize,
    unanswered: AtomicUsize,
    /// A request may get no answer.
    may_break: AtomicBool,
    /// A client has found a broken promise.
    broken: AtomicBool,
    over: Done,
}

impl Progress {
    pub(crate) fn under(terms: Terms) -> Self {
        Self {
            may_break: AtomicBool::new(terms.silence == Silence::Passing),
            terms,
            acknowledged: AtomicUsize::default(),
            answered: AtomicUsize::default(),
            refused: AtomicUsize::default(),
            unanswered: AtomicUsize::default(),
            broken: AtomicBool::default(),
            over: Done::default(),
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Acquire)
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Acquire)
    }

    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Acquire)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// From now on a request may get no answer.
    pub(crate) fn let_break(&self) {
        self.may_break.store(true, Ordering::Release);
    }

    fn may_break(&self) -> bool {
        self.may_break.load(Ordering::Acquire)
    }

    /// Waits until so many writes have been acknowledged.
    #[track_caller]
    pub(crate) fn reach(&self, acknowledged: usize) {
        self.wait_for(|| self.acknowledged() >= acknowledged);
    }

    /// Waits for so many answers more, whatever they say.
    #[track_caller]
    pub(crate) fn go_on_for(&self, answers: usize) {
        let enough = self.answered() + answers;
        self.wait_for(|| self.answered() >= enough);
    }

    #[track_caller]
    fn wait_for(&self, holds: impl Fn() -> bool) {
        let is_over = within(PATIENCE, || self.is_broken() || holds());
        let answers = self.answered();
        assert!(is_over, "only {answers} answers within {PATIENCE:?}");
    }
}

/// All keys, by client, and the seed of what is drawn.
pub(crate) struct Load {
    pub(crate) seed: u64,
    random: Random,
    ledgers: Vec<Vec<Mutex<Ledger>>>,
    /// Keys that were given up, with a change that may still be made.
    given_up: Mutex<Vec<String>>,
}

impl Load {
    pub(crate) fn new(test: &str) -> Self {
        let seed = seed(test);
        let ledger = |name: &str, n| Mutex::new(Ledger::new(key(name, n)));
        let of_client = |name: String| (0..KEYS).map(|n| ledger(&name, n)).collect();
        let names = (0..CLIENTS).map(|client| format!("client-{client}"));
        Self {
            seed,
            random: Random::with_seed(seed),
            ledgers: names.map(of_client).collect(),
            given_up: Mutex::default(),
        }
    }

    /// A source of numbers for the test itself.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Has all clients at work for as long as `meanwhile` takes, or until they find a broken promise.
    pub(crate) fn work<R>(
        &mut self,
        addr: SocketAddr,
        progress: &Progress,
        meanwhile: impl FnOnce() -> R,
    ) -> Result<R, Finding> {
        let randoms: Vec<_> = (0..CLIENTS).map(|_| self.random.fork()).collect();
        let load = &*self;
        thread::scope(|scope| {
            let workers = randoms.into_iter().enumerate().map(|(me, random)| {
                let worker = Worker {
                    me,
                    addr,
                    load,
                    random,
                    client: Client::new(addr),
                    progress,
                };
                scope.spawn(|| worker.run())
            });
            let workers: Vec<_> = workers.collect();
            let result = {
                let _over = progress.over.when_dropped();
                meanwhile()
            };
            let ended = workers.into_iter();
            let mut ended = ended.map(|worker| worker.join().expect("a client"));
            ended.try_for_each(|ended| ended).map(|()| result)
        })
    }

    /// With nothing under way: reads every key, and goes on from what it holds. Of `files`, each is a key that holds a
    /// value.
    pub(crate) fn verify(&mut self, addr: SocketAddr, files: &[String]) -> Result<(), Finding> {
        let mut client = Client::new(addr);
        for ledger in self.ledgers() {
            let Heard::Answer(answer) = client.hear("GET", &ledger.key, "", &[]) else {
                let told = format!("GET /{}: no answer after the start", ledger.key);
                return Err((Fault::Answer, told));
            };
            let met = ledger.judge(ledger.floor(), &answer)?;
            ledger.settle(met, &answer);
        }
        let given_up = self.given_up.get_mut();
        let given_up = given_up.expect("no panic under the lock").clone();
        let held = self.ledgers().filter(|ledger| ledger.holds() == Some(true));
        let known = held.map(|ledger| ledger.key.clone()).chain(given_up);
        let known: Vec<_> = known.collect();
        let mut unknown = files.iter().filter(|name| !known.contains(name));
        match unknown.find(|name| !self.is_left(name)) {
            Some(name) => Err((Fault::Litter, format!("{name} is no value"))),
            None => Ok(()),
        }
    }

    /// After a fault that may cost anything: reads every key and counts what became of it; removes what is wrong, to go
    /// on from there.
    pub(crate) fn look(&mut self, server: &TestServer) -> Tally {
        let (mut tally, mut client) = (Tally::default(), Client::new(server.addr));
        for ledger in self.ledgers() {
            let answer = client.ask("GET", &ledger.key);
            let met = ledger.meet(ledger.floor(), &answer);
            tally.count(ledger, &met);
            let number = met.unwrap_or_else(|_| {
                server.ask("DELETE", &ledger.key);
                ledger.begin(true)
            });
            ledger.start_over(number, &answer);
        }
        let known: Vec<_> = self.ledgers().map(|ledger| ledger.key.clone()).collect();
        let names = server.dir.names().into_iter();
        let mut strange: Vec<_> = names.map(|name| name.escape_ascii().to_string()).collect();
        strange.retain(|name| !known.contains(name) && !self.is_left(name));
        assert_eq!(strange, [""; 0], "names that no client wrote");
        server.dir.assert_nothing_staged();
        tally
    }

    /// Whether `folder` is one that a crash has left without a key, which is no fault.
    fn is_left(&mut self, folder: &str) -> bool {
        let below = format!("{folder}/");
        self.ledgers().any(|ledger| ledger.key.starts_with(&below))
    }

    /// The paths of all folders that its keys lie in or below.
    pub(crate) fn folders(&mut self) -> BTreeSet<String> {
        let folders = self.ledgers().flat_map(|ledger| {
            let slashes = ledger.key.match_indices('/');
            let folders = slashes.map(|(at, _)| ledger.key[..at].to_owned());
            folders.collect::<Vec<_>>()
        });
        folders.collect()
    }

    fn ledgers(&mut self) -> impl Iterator<Item = &mut Ledger> {
        let all = self.ledgers.iter_mut().flatten();
        all.map(|ledger| ledger.get_mut().expect("no panic under the lock"))
    }

    fn ledger(&self, client: usize, n: usize) -> MutexGuard<'_, Ledger> {
        let ledger = &self.ledgers[client][n];
        ledger.lock().expect("no panic under the lock")
    }
}
