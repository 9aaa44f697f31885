//! The thread of the bounds: it counts all values at the start and once an hour, evicts ahead of need and by age, and notes the uses.
//!
//! Promises that it removes nothing before all values are counted, and nothing that a bound may not remove: where a directory had
//! values before its bounds, an eviction waits until `--evict-existing` was given once. Each eviction is a change of the publisher, under
//! the condition that the value was neither used nor written since it was chosen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// The thread. Dropped, it ends and notes the uses, unless it counts.
#[derive(Debug)]
pub struct Keeper {
    state: Arc<KeeperState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct KeeperState {
    has_ended: AtomicBool,
    is_counting: AtomicBool,
    is_left: AtomicBool,
}

/// What the thread works with.
pub struct Keeping {
    pub account: Arc<Account>,
    pub lister: Arc<Lister>,
    pub writer: Arc<WriteContext>,
    /// Weak: the publisher ends when the directory does.
    pub publisher: Weak<Publisher>,
    /// Bounds may evict what was there before them.
    pub takes_existing: bool,
}

impl Keeper {
    /// Starts the thread, and waits a moment for the first count.
    pub fn start(keeping: Keeping) -> std::io::Result<Self> {
        let state = Arc::<KeeperState>::default();
        let account = Arc::clone(&keeping.account);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let thread = thread::Builder::new().name("disk-bounds".into());
        let work = Work {
            keeping,
            runtime,
            state: Arc::clone(&state),
        };
        let thread = Some(thread.spawn(move || work.run())?);
        account.wait_until_whole(AT_START);
        Ok(Self { state, thread })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        thread.thread().unpark();
        // A count may last long, and leaves nothing undone: the thread is left, and writes nothing any more.
        if self.state.is_counting.load(Relaxed) {
            self.state.is_left.store(true, Relaxed);
        } else {
            let _ = thread.join();
        }
    }
}

struct Work {
    keeping: Keeping,
    /// For waiting on the publisher.
    runtime: Runtime,
    state: Arc<KeeperState>,
}

impl Work {
    fn run(&self) {
        self.count();
        let bounds = self.keeping.account.bounds.iter();
        let shortest = bounds.filter_map(|bound| Some(bound.max_age?.0)).min();
        let look = shortest.map_or(LOOK, |age| (age / 8).clamp(TICK, LOOK));
        let (mut looked, mut counted) = (None, Instant::now());
        while !self.state.has_ended.load(Relaxed) {
            if counted.elapsed() >= COUNT {
                self.note_uses();
                self.count();
                counted = Instant::now();
            }
            if looked.is_none_or(|at: Instant| at.elapsed() >= look) {
                self.look();
                looked = Some(Instant::now());
            }
            self.evict_ahead();
            thread::park_timeout(TICK);
        }
        self.note_uses();
    }

    /// Counts all values; the first time, also decides which bounds may evict.
    fn count(&self) {
        self.state.is_counting.store(true, Relaxed);
        let Keeping {
            account, lister, ..
        } = &self.keeping;
        match lister.count() {
            Ok(()) if account.is_whole() => {}
            Ok(()) => {
                self.decide_what_may_go();
                account.set_whole();
            }
            Err(error) => {
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "the values cannot be counted for their bounds");
            }
        }
        self.state.is_counting.store(false, Relaxed);
    }

    /// Lets bounds evict where they were approved, or where there is nothing yet; says what each holds, and what would go.
    fn decide_what_may_go(&self) {
        let account = &self.keeping.account;
        let own = &self.keeping.writer.temp_dir.own;
        let before = approved(own);
        // Of a bound that is no more, or removes nothing any more, the approval ends.
        let mut now = BTreeSet::new();
        for (at, bound) in account.bounds.iter().enumerate() {
            let (prefix, Total { bytes, keys }) = (bound.prefix.to_string(), account.total(at));
            tracing::info!(prefix, bytes, keys, limits = %bound, "a bound");
            let may_evict = is_approved(&before, bound) || keys == 0 || self.keeping.takes_existing;
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
    fn look(&self) {
        if !self.keeping.account.is_whole() {
            return self.count();
        }
        self.state.is_counting.store(true, Relaxed);
        self.keeping.lister.keep_index();
        self.state.is_counting.store(false, Relaxed);
        while self.evict(self.keeping.account.victims_of_age(), Removal::Age) {}
    }

    /// Evicts in small steps what nearly full bounds, and a nearly full disk, will need.
    fn evict_ahead(&self) {
        let account = &self.keeping.account;
        while self.evict(account.victims_ahead(), Removal::Full) {}
        let mut before = None;
        while let Some(short) = self.short_of_space()
            // What is removed may take its space with it, for example into a snapshot.
            && before.is_none_or(|before| short < before)
            && self.evict(account.victims_of_disk(short, ""), Removal::Full)
        {
            before = Some(short);
        }
    }

    /// Bytes that are to be free beside `--min-free`, before an upload needs them.
    fn short_of_space(&self) -> Option<u64> {
        let writer = &self.keeping.writer;
        let free = writer.space.free(&writer.dir().root).ok()??;
        let wanted = free.floor + free.floor / 4;
        Some(wanted.saturating_sub(free.bytes)).filter(|&short| short > 0)
    }

    /// Has the publisher remove `victims`, some at a time; true if one is gone, and there may be more.
    fn evict(&self, victims: Vec<Victim>, removal: Removal) -> bool {
        let mut is_gone = false;
        let mut victims = victims.into_iter().map(Victim::removal).peekable();
        while victims.peek().is_some() {
            let publisher = self.keeping.publisher.upgrade();
            let Some(publisher) = publisher.filter(|_| !self.state.has_ended.load(Relaxed)) else {
                return false;
            };
            let removed = publisher.remove(victims.by_ref().take(STEP), removal);
            let mut removed = self.runtime.block_on(removed).into_iter();
            is_gone |= removed.any(|outcome| matches!(outcome, Ok(Some(_))));
        }
        is_gone
    }

    /// Notes when each value was used last, once all of them are known.
    fn note_uses(&self) {
        let Keeping {
            account, writer, ..
        } = &self.keeping;
        if !account.is_whole() || self.state.is_left.load(Relaxed) {
            return;
        }
        let mut uses = Vec::new();
        account.visit("", |value| {
            let second = u32::try_from(value.second()).unwrap_or(u32::MAX);
            uses.push((hash(&value.name), second));
        });
        if let Err(error) = save(&writer.temp_dir.own, uses) {
            tracing::error!(%error, "cannot note when values were used last: after the next start they count from their files' times");
        }
    }
}
