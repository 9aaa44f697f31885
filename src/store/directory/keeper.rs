//! The thread of the bounds: it counts all values at the start and once an hour, removes what has ended, evicts ahead
//! of need and by age, and notes the uses, once a minute those since.
//!
//! Promises that it removes nothing before all values are counted, and nothing that a bound may not remove: where a
//! directory had values before its bounds, an eviction waits until `--evict-existing` was given once. Each eviction is
//! a change of the publisher, under the condition that the value was neither used nor written since it was chosen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::failpoint;
use crate::store::bounds::uses::{append, approval, approve, approved, hash, is_approved, save};
use crate::store::bounds::{Account, Choice, Total, Victim, millis};
use crate::store::changes::Removal;
use crate::store::list::Lister;
use crate::store::publish::Publisher;
use crate::store::space::Free;
use crate::store::write_context::WriteContext;
use crate::transfer::work_in_background;

/// How often it looks whether a bound is nearly full.
const TICK: Duration = Duration::from_secs(1);

/// How often it looks at ages, if they are not so short that it looks more often, and whether the index is there.
const LOOK: Duration = Duration::from_secs(60);

/// How often it notes the uses since: a kill loses no more.
const NOTE: Duration = Duration::from_secs(60);

/// How often it notes all uses, and counts all values anew: where there is no index, no event tells what other programs
/// do.
const COUNT: Duration = Duration::from_secs(3600);

/// The same where it is known that what is counted is not what the files are.
const RECOUNT: Duration = Duration::from_secs(30);

/// How often it tells how much is still to be evicted, and looks at all else meanwhile.
const TELL: Duration = Duration::from_secs(5);

/// The longest that a start waits for the first count: a directory of some hundred thousand values is counted by then.
const AT_START: Duration = Duration::from_secs(1);

/// The thread. Dropped, it ends and the uses are noted, unless it counts.
#[derive(Debug)]
pub struct Keeper {
    context: Arc<KeeperContext>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
#[derive(Debug)]
struct KeeperContext {
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
    /// Starts the thread, and waits a moment for the first count. With `takes_existing`, bounds may evict what was
    /// there before them.
    pub fn start(
        account: Arc<Account>,
        lister: Arc<Lister>,
        writer: Arc<WriteContext>,
        publisher: &Arc<Publisher>,
        takes_existing: bool,
    ) -> std::io::Result<Self> {
        let (is_whole, whole) = mpsc::channel();
        let context = Arc::new(KeeperContext {
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
        let run = Arc::clone(&context);
        let work = move || {
            work_in_background();
            run.run(&runtime);
        };
        let thread = Some(thread.spawn(work)?);
        let _ = whole.recv_timeout(AT_START);
        Ok(Self { context, thread })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.context.has_ended.store(true, Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        thread.thread().unpark();
        // A count may last long, and leaves nothing undone: the thread is left, and writes nothing any more.
        if !self.context.is_counting.load(Relaxed) {
            let _ = thread.join();
            self.context.note_uses(None);
        }
    }
}

impl KeeperContext {
    fn run(&self, runtime: &Runtime) {
        self.count();
        let bounds = self.account.bounds.iter();
        let shortest = bounds.filter_map(|bound| Some(bound.max_age?.0)).min();
        let look = shortest.map_or(LOOK, |age| (age / 8).clamp(TICK, LOOK));
        let note = failpoint::interval("DATA_SERVER_USES", NOTE);
        let (mut looked, mut noted, mut counted) = (None, Instant::now(), Instant::now());
        // As a smaller bound leaves it.
        let mut is_behind = true;
        while !self.has_ended.load(Relaxed) {
            let recounts = self.account.look_at_young(self.writer.dir());
            if counted.elapsed() >= if recounts { RECOUNT } else { COUNT } {
                self.count();
                (noted, counted) = (Instant::now(), Instant::now());
            }
            if noted.elapsed() >= note {
                self.note_uses(Some(noted.elapsed()));
                noted = Instant::now();
            }
            if looked.is_none_or(|at: Instant| at.elapsed() >= look) {
                self.look(runtime);
                looked = Some(Instant::now());
            }
            while self.evict(runtime, self.account.ended()) {}
            let above = is_behind.then(|| self.account.above());
            let above = above.filter(|above| !above.is_zero());
            if let Some(Total { bytes, keys }) = above {
                tracing::info!(
                    bytes,
                    keys,
                    "the values are above their bounds: so many are still to be evicted"
                );
            }
            self.account.choose_ahead();
            is_behind = self.evict_ahead(runtime);
            if is_behind {
                continue;
            }
            if above.is_some() {
                tracing::info!("what was above the bounds is evicted");
            }
            thread::park_timeout(TICK.min(note));
        }
    }

    /// Counts all values; the first time, also decides which bounds may evict.
    fn count(&self) {
        self.is_counting.store(true, Relaxed);
        match self.lister.count(&self.account) {
            Ok(()) => {
                if !self.account.is_whole() {
                    self.decide_what_may_go();
                    self.account.set_whole();
                }
                self.note_uses(None);
                // The start waits for it only a moment.
                let _ = self.is_whole.send(());
            }
            Err(error) => {
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "the values cannot be counted for their bounds");
            }
        }
        self.is_counting.store(false, Relaxed);
    }

    /// Lets bounds evict where they were approved, or where there is nothing yet; says what each holds, and what would
    /// go.
    fn decide_what_may_go(&self) {
        let account = &self.account;
        let own = &self.writer.temp_dir.own;
        let before = approved(own);
        // Of a bound that is no more, or removes nothing any more, the approval ends.
        let mut now = BTreeSet::new();
        for (at, bound) in account.bounds.iter().enumerate() {
            let (prefix, Total { bytes, keys }) = (bound.prefix.to_string(), account.total(at));
            tracing::info!(prefix, bytes, keys, limits = %bound, "a bound");
            let mut is_approval_missing = false;
            for why in [Removal::Full, Removal::Age] {
                let Some(approval) = approval(bound, why) else {
                    continue;
                };
                let may_remove =
                    is_approved(&before, bound, why) || keys == 0 || self.takes_existing;
                account.set_may_remove(at, why, may_remove);
                is_approval_missing |= !may_remove;
                now.extend(may_remove.then_some(approval));
            }
            if is_approval_missing {
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
        self.lister.index.keep();
        self.is_counting.store(false, Relaxed);
        while self.evict(runtime, self.account.victims_of_age()) {}
    }

    /// Evicts in small steps what nearly full bounds, and a nearly full disk, will need; true if it has not ended with
    /// that for some seconds.
    fn evict_ahead(&self, runtime: &Runtime) -> bool {
        let began = Instant::now();
        while self.evict(runtime, self.account.victims_ahead()) {
            if began.elapsed() >= TELL {
                return true;
            }
        }
        while let Some((free, lacks)) = self.short_of_space()
            && let Choice::Evict(victims) = self.account.for_disk(Some(free), lacks, &[])
            && self.evict(runtime, victims)
        {
            self.account.gone(|| self.writer.free().ok()?);
        }
        false
    }

    /// The free space, and what is to be free beside `--min-free` before an upload needs it, if it lacks.
    fn short_of_space(&self) -> Option<(Free, Total)> {
        let free = self.writer.free().ok()??;
        let wanted = free.floor + free.floor / 4;
        let bytes = wanted.saturating_sub(free.bytes);
        (bytes > 0).then_some((free, Total { bytes, keys: 0 }))
    }

    /// Has the publisher remove `victims`; true if one is gone, and there may be more.
    fn evict(&self, runtime: &Runtime, victims: Vec<Victim>) -> bool {
        let Some(publisher) = self.publisher.upgrade() else {
            return false;
        };
        let removed = publisher.evict(victims, || !self.has_ended.load(Relaxed));
        let mut removed = runtime.block_on(removed).into_iter();
        removed.any(|outcome| matches!(outcome, Ok(Some(_))))
    }

    /// Notes the uses of the last `span`, or of all time, once all values are known.
    fn note_uses(&self, span: Option<Duration>) {
        if !self.account.is_whole() {
            return;
        }
        let span_or_all = span.map_or(i64::MAX, |span| millis(span + TICK));
        let mut uses = Vec::new();
        self.account.visit("", |name, value| {
            if value.age() <= span_or_all {
                uses.push((hash(name), value.used_at()));
            }
        });
        let own = &self.writer.temp_dir.own;
        let written = match span {
            None => save(own, &uses).map_err(Into::into),
            Some(_) if uses.is_empty() => Ok(()),
            Some(_) => append(own, &uses),
        };
        if let Err(error) = written {
            tracing::error!(%error, "cannot note when values were used last: after the next start they count from their files' times");
        }
    }
}
