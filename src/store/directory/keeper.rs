//! The thread of the bounds: it counts all values at the start and once an hour, evicts ahead of need and by age, and notes the uses.
//!
//! Promises that it removes nothing before all values are counted, and nothing that a bound may not remove: where a directory had
//! values before its bounds, an eviction waits until `--evict-existing` was given once. Each eviction is a change of the publisher, under
//! the condition that the value was neither used nor written since it was chosen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::store::bounds::uses::{approval, approve, approved, hash, is_approved, save};
use crate::store::bounds::{Account, STEP, Total, Victim};
use crate::store::changes::Removal;
use crate::store::list::Lister;
use crate::store::publish::Publisher;
use crate::store::write_context::WriteContext;

/// How often it looks whether a bound is nearly full.
const TICK: Duration = Duration::from_secs(1);

/// How often it looks at ages, if they are not so short that it looks more often, and whether the index is there.
const LOOK: Duration = Duration::from_secs(60);

/// How often it notes the uses, and counts all values anew: what was edited in place has no event.
const COUNT: Duration = Duration::from_secs(3600);

/// The longest that a start waits for the first count: a directory of some hundred thousand values is counted by then.
const AT_START: Duration = Duration::from_secs(1);

/// The thread. Dropped, it ends and the uses are noted, unless it counts.
#[derive(Debug)]
pub struct Keeper {
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
#[derive(Debug)]
struct Work {
    account: Arc<Account>,
    lister: Arc<Lister>,
    writer: Arc<WriteContext>,
    /// Weak: the publisher ends when the directory does.
    publisher: Weak<Publisher>,
    takes_existing: bool,
    /// Told once all values have been counted.
    is_whole: Sender<()>,
    is_counting: AtomicBool,
    has_ended: AtomicBool,
}

impl Keeper {
    /// Starts the thread, and waits a moment for the first count. With `takes_existing`, bounds may evict what was there before them.
    pub fn start(
        account: Arc<Account>,
        lister: Arc<Lister>,
        writer: Arc<WriteContext>,
        publisher: &Arc<Publisher>,
        takes_existing: bool,
    ) -> std::io::Result<Self> {
        let (is_whole, whole) = mpsc::channel();
        let work = Arc::new(Work {
            account,
            lister,
            writer,
            publisher: Arc::downgrade(publisher),
            takes_existing,
            is_whole,
            is_counting: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let thread = thread::Builder::new().name("disk-bounds".into());
        // For waiting on the publisher. The thread drops it: where a keeper is dropped, no runtime may be.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let run = Arc::clone(&work);
        let thread = Some(thread.spawn(move || run.run(&runtime))?);
        let _ = whole.recv_timeout(AT_START);
        Ok(Self { work, thread })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.work.has_ended.store(true, Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        thread.thread().unpark();
        // A count may last long, and leaves nothing undone: the thread is left, and writes nothing any more.
        if !self.work.is_counting.load(Relaxed) {
            let _ = thread.join();
            self.work.note_uses();
        }
    }
}

impl Work {
    fn run(&self, runtime: &Runtime) {
        self.count();
        let bounds = self.account.bounds.iter();
        let shortest = bounds.filter_map(|bound| Some(bound.max_age?.0)).min();
        let look = shortest.map_or(LOOK, |age| (age / 8).clamp(TICK, LOOK));
        let (mut looked, mut counted) = (None, Instant::now());
        while !self.has_ended.load(Relaxed) {
            if counted.elapsed() >= COUNT {
                self.note_uses();
                self.count();
                counted = Instant::now();
            }
            if looked.is_none_or(|at: Instant| at.elapsed() >= look) {
                self.look(runtime);
                looked = Some(Instant::now());
            }
            self.evict_ahead(runtime);
            thread::park_timeout(TICK);
        }
    }

    /// Counts all values; the first time, also decides which bounds may evict.
    fn count(&self) {
        self.is_counting.store(true, Relaxed);
        match self.lister.count(&self.account) {
            Ok(()) if self.account.is_whole() => {}
            Ok(()) => {
                self.decide_what_may_go();
                self.account.set_whole();
                // The start waits for it only a moment.
                let _ = self.is_whole.send(());
            }
            Err(error) => {
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "the values cannot be counted for their bounds");
            }
        }
        self.is_counting.store(false, Relaxed);
    }

    /// Lets bounds evict where they were approved, or where there is nothing yet; says what each holds, and what would go.
    fn decide_what_may_go(&self) {
        let account = &self.account;
        let own = &self.writer.temp_dir.own;
        let before = approved(own);
        // Of a bound that is no more, or removes nothing any more, the approval ends.
        let mut now = BTreeSet::new();
        for (at, bound) in account.bounds.iter().enumerate() {
            let (prefix, Total { bytes, keys }) = (bound.prefix.to_string(), account.total(at));
            tracing::info!(prefix, bytes, keys, limits = %bound, "a bound");
            let may_evict = is_approved(&before, bound) || keys == 0 || self.takes_existing;
            account.set_may_evict(at, may_evict);
            if !bound.removes() {
                continue;
            }
            if may_evict {
                now.insert(approval(bound));
            } else {
                let going = account.would_go(at);
                tracing::warn!(
                    prefix,
                    values = going.keys,
                    bytes = going.bytes,
                    "the bound has values that were there before it, and removes nothing: so many would go; data-server bounds lists them, and --evict-existing, given once, allows it"
                );
            }
        }
        if now != before
            && let Err(error) = approve(own, &now)
        {
            tracing::error!(%error, "cannot note which bounds may evict: the next start asks again");
        }
    }

    /// Sees that the index is there, and evicts what is too old.
    fn look(&self, runtime: &Runtime) {
        if !self.account.is_whole() {
            return self.count();
        }
        self.is_counting.store(true, Relaxed);
        self.lister.keep_index();
        self.is_counting.store(false, Relaxed);
        while self.evict(runtime, self.account.victims_of_age(), Removal::Age) {}
    }

    /// Evicts in small steps what nearly full bounds, and a nearly full disk, will need.
    fn evict_ahead(&self, runtime: &Runtime) {
        let account = &self.account;
        while self.evict(runtime, account.victims_ahead(), Removal::Full) {}
        let mut before = None;
        while let Some(short) = self.short_of_space()
            // What is removed may take its space with it, for example into a snapshot.
            && before.is_none_or(|before| short < before)
            && self.evict(runtime, account.victims_of_disk(short, ""), Removal::Full)
        {
            before = Some(short);
        }
    }

    /// Bytes that are to be free beside `--min-free`, before an upload needs them.
    fn short_of_space(&self) -> Option<u64> {
        let writer = &self.writer;
        let free = writer.space.free(&writer.dir().root).ok()??;
        let wanted = free.floor + free.floor / 4;
        Some(wanted.saturating_sub(free.bytes)).filter(|&short| short > 0)
    }

    /// Has the publisher remove `victims`, some at a time; true if one is gone, and there may be more.
    fn evict(&self, runtime: &Runtime, victims: Vec<Victim>, removal: Removal) -> bool {
        let mut is_gone = false;
        let mut victims = victims.into_iter().peekable();
        while victims.peek().is_some() {
            let publisher = self.publisher.upgrade();
            let Some(publisher) = publisher.filter(|_| !self.has_ended.load(Relaxed)) else {
                return false;
            };
            let removed = publisher.remove(victims.by_ref().take(STEP), removal);
            let mut removed = runtime.block_on(removed).into_iter();
            is_gone |= removed.any(|outcome| matches!(outcome, Ok(Some(_))));
        }
        is_gone
    }

    /// Notes when each value was used last, once all of them are known.
    fn note_uses(&self) {
        let (account, writer) = (&self.account, &self.writer);
        if !account.is_whole() {
            return;
        }
        let mut uses = Vec::new();
        account.visit("", |name, value| {
            let second = u32::try_from(value.second()).unwrap_or(u32::MAX);
            uses.push((hash(name), second));
        });
        if let Err(error) = save(&writer.temp_dir.own, uses) {
            tracing::error!(%error, "cannot note when values were used last: after the next start they count from their files' times");
        }
    }
}
