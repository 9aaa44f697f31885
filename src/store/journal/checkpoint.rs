//! The checkpoint: the thread that has the kernel write the files of what was made, and then frees the segments; and what it shares with
//! the publisher: which segments are free, up to where changes are made, and what the control file says of both.
//!
//! One `syncfs` makes all files durable that were made before it, so that the frames of their changes are settled. It runs
//! beside the publisher, and does not hold it up. When it fails, the kernel may have dropped what it could not write, and tells so
//! once: the journal still has it, so the values are written anew from there, while nothing is made, and synced once more. Until that
//! succeeds, nothing is settled: this is remembered here, and in the control file for the servers to come.
//!
//! Promises that a segment is free only once all of its frames are settled, also by the control file on the disk, and that the publisher
//! waits for one no longer than a checkpoint takes that began after it asked.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};

use super::super::error::Error;
use super::super::writer::Writer;
use super::control::{self, Control, Live, now};
use super::format::Record;
use super::log::Log;
use super::replay::{Moment, Replay};
use super::segment::Segment;
use crate::failpoint;

/// The longest that a change waits for its checkpoint, and a failed checkpoint for the next: a file that a hand removes within this
/// time may come back after a cut of power.
const INTERVAL: Duration = Duration::from_secs(5);

/// The time of [`INTERVAL`], or what a test asks for.
fn interval() -> Duration {
    failpoint::checkpoint_interval(INTERVAL)
}

/// See the module.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pub(super) journal: u128,
    /// The directory of the journal, held, locked, against another server.
    dir: OwnedFd,
    pub(super) writer: Arc<Writer>,
    /// How many segments there may be.
    most: usize,
    state: Mutex<State>,
    control: Mutex<Control>,
    for_checkpoint: Condvar,
    for_publisher: Condvar,
    /// Held by the publisher while it makes changes, and by the checkpoint while it writes values anew.
    turn: Mutex<()>,
}

/// A segment with frames.
#[derive(Clone, Debug)]
struct Used {
    live: Live,
    segment: Arc<Segment>,
    /// Its writes or syncs have failed: it is used no more.
    is_retired: bool,
}

#[derive(Debug)]
struct State {
    /// What the control file says, but for what `used` does.
    said: control::State,
    free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    used: Vec<Used>,
    next_index: u32,
    /// All changes before this one are made, but for those that are `cancelled`.
    made: u64,
    /// The sequence numbers of changes that were not made, of those that are not settled.
    cancelled: Vec<u64>,
    /// When a checkpoint is due, if there is anything for it.
    due: Option<Instant>,
    /// How often a segment was asked for that was not there, and how many of these have been answered.
    asks: u64,
    answered: u64,
    /// Why there is no further segment.
    refusal: Option<Errno>,
    is_ended: bool,
}

/// What the checkpoint is to do.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// Up to where it settles, if it does.
    settle: Option<u64>,
    /// The index of the segment that it makes, if it makes one.
    make: Option<u32>,
    /// How many asks for a segment are met then as well as can be.
    asks: u64,
    /// It is the last.
    is_last: bool,
}

impl State {
    /// A checkpoint is due within this time.
    fn hurry(&mut self, within: Duration) {
        let due = Instant::now() + within;
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Up to where there is something to settle; what comes later is due anew.
    fn take_due(&mut self) -> Option<u64> {
        let has_any = self.made > self.said.settled
            || self.said.is_suspect
            || self.used.iter().any(|used| used.is_retired);
        self.due = None;
        has_any.then_some(self.made)
    }

    /// Takes the segments away of which all is settled: those before the one that goes on from there.
    fn take_settled(&mut self) -> Vec<Used> {
        let settled = self.said.settled;
        let later = self.used.iter().skip(1);
        let count = later.take_while(|used| used.live.first <= settled).count();
        self.used.drain(..count).collect()
    }
}

impl Checkpoints {
    /// With these `free` segments, and at most `most`; the control file says `said` at once.
    pub(super) fn new(
        journal: u128,
        dir: OwnedFd,
        writer: Arc<Writer>,
        free: Vec<Arc<Segment>>,
        most: usize,
        said: control::State,
    ) -> Result<Self, Errno> {
        let control = Control::open(&dir)?;
        control.write_durably(&said)?;
        let state = State {
            next_index: free.iter().map(|s| s.index() + 1).max().unwrap_or(0),
            made: said.settled,
            said,
            free,
            used: Vec::new(),
            cancelled: Vec::new(),
            due: None,
            asks: 0,
            answered: 0,
            refusal: None,
            is_ended: false,
        };
        Ok(Self {
            journal,
            dir,
            writer,
            most,
            state: Mutex::new(state),
            control: Mutex::new(control),
            for_checkpoint: Condvar::new(),
            for_publisher: Condvar::new(),
            turn: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the control file say how things stand, as `write` writes it.
    fn note(
        &self,
        write: impl FnOnce(&Control, &control::State) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let said = control::State {
            time: now(),
            live: state.used.iter().map(|used| used.live).collect(),
            ..state.said.clone()
        };
        drop(state);
        write(&control, &said)
    }

    /// While it is held, changes are made by its holder alone.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free segment, for this generation, whose first record will be `first`. Its first frame is `opening`, and the control file
    /// says that it is used, once that is on the disk: one that cannot be read is damage.
    pub(super) fn take(
        &self,
        generation: u64,
        first: u64,
        opening: &[u8],
    ) -> Result<Arc<Segment>, Errno> {
        let mut state = self.state();
        if state.free.is_empty() {
            state.asks += 1;
            let asked = state.asks;
            self.for_checkpoint.notify_one();
            state = self
                .for_publisher
                .wait_while(state, |s| s.free.is_empty() && s.answered < asked)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let Some(segment) = state.free.pop() else {
            return Err(state.refusal.unwrap_or(Errno::NOSPC));
        };
        // The one before is full: it is freed as early as can be.
        if !state.used.is_empty() {
            state.hurry(Duration::ZERO);
        }
        self.for_checkpoint.notify_one();
        state.used.push(Used {
            live: Live {
                generation,
                index: segment.index(),
                first,
            },
            segment: Arc::clone(&segment),
            is_retired: false,
        });
        drop(state);
        segment.write(opening, 0)?;
        segment.sync()?;
        self.note(Control::write_durably)?;
        Ok(segment)
    }

    /// The segment of this generation is written and synced no more: a checkpoint is due at once.
    pub(super) fn retire(&self, generation: u64) {
        let mut state = self.state();
        let mut used = state.used.iter_mut();
        if let Some(used) = used.find(|used| used.live.generation == generation) {
            used.is_retired = true;
        }
        state.hurry(Duration::ZERO);
        self.for_checkpoint.notify_one();
    }

    /// All changes before `end` are made, but for those that are `cancelled`: a checkpoint settles them.
    pub(super) fn made(&self, end: u64, cancelled: &[u64]) {
        let mut state = self.state();
        state.made = end;
        state.cancelled.extend(cancelled);
        // What was retired is needed until what follows it is settled.
        let is_urgent = state.used.iter().any(|used| used.is_retired);
        let before = state.due;
        state.hurry(if is_urgent {
            Duration::ZERO
        } else {
            interval()
        });
        if state.due != before {
            self.for_checkpoint.notify_one();
        }
    }

    /// Up to where the log is settled.
    pub(super) fn settled(&self) -> u64 {
        self.state().said.settled
    }

    /// Nothing more will be made.
    pub(super) fn end(&self) {
        self.state().is_ended = true;
        self.for_checkpoint.notify_one();
    }

    /// What the thread does, until the journal ends. Whether all was settled at the end.
    pub(super) fn run(&self) -> bool {
        loop {
            let task = self.task();
            let settled = task.settle.is_none_or(|to| self.settle(to));
            if let Some(index) = task.make {
                self.make(index);
            }
            self.state().answered = task.asks;
            self.for_publisher.notify_one();
            if task.is_last {
                return settled;
            }
        }
    }

    /// What is to be done next, once there is something.
    fn task(&self) -> Task {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let is_asked = state.asks > state.answered;
            let may_settle = is_asked || state.is_ended || state.due.is_some_and(|due| due <= now);
            let lacks = state.free.is_empty() && state.used.len() < self.most && !state.is_ended;
            let makes = lacks && (is_asked || state.refusal.is_none());
            if may_settle || makes {
                return Task {
                    settle: if may_settle { state.take_due() } else { None },
                    make: makes.then_some(state.next_index),
                    asks: state.asks,
                    is_last: state.is_ended,
                };
            }
            let wait = state.due.map_or(Duration::MAX, |due| due - now);
            let waited = self.for_checkpoint.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn make(&self, index: u32) {
        let made = Segment::create(&self.dir, index, self.state().said.size);
        let mut state = self.state();
        match made {
            Ok(segment) => {
                state.next_index = index + 1;
                state.free.push(Arc::new(segment));
            }
            Err(errno) => {
                tracing::error!(error = %errno, "cannot make a segment of the journal");
                state.refusal = Some(errno);
            }
        }
    }

    /// Settles all before `to`; whether that was had.
    fn settle(&self, to: u64) -> bool {
        failpoint::reach("thread", "disk-checkpoint");
        let began = Instant::now();
        let appended = self.writer.counters().journal.appended.get();
        let settled = self.write_files().and_then(|()| self.free(to));
        self.writer.set_journal_failing(settled.is_err());
        if let Err(error) = settled {
            tracing::error!(%error, "a checkpoint of the journal failed: its segments stay");
            self.fail();
            return false;
        }
        let journal = &self.writer.counters().journal;
        journal.checkpointed(began.elapsed(), appended);
        true
    }

    /// Puts the files of all that is made on the disk. Until it has, nothing that the kernel remembers of them is trusted, by no later
    /// server either.
    fn write_files(&self) -> Result<(), Error> {
        let has_failed = std::mem::replace(&mut self.state().said.is_suspect, true);
        self.note(Control::write)
            .map_err(Error::errno_while("write the journal"))?;
        match sync_files(&self.writer) {
            Ok(()) if !has_failed => return Ok(()),
            Ok(()) => {}
            // The error may be of a file that is not ours: the kernel does not say.
            Err(errno) => {
                self.fail();
                tracing::error!(error = %errno, "the file system could not write all files: those of the journal are written anew");
            }
        }
        self.write_anew()?;
        sync_files(&self.writer).map_err(Error::errno_while("sync the file system"))
    }

    /// A checkpoint has failed, which the control file says on the disk. The next one is due some time later.
    fn fail(&self) {
        let again = Instant::now() + interval();
        self.state().due.get_or_insert(again);
        if let Err(errno) = self.note(Control::write_durably) {
            tracing::error!(error = %errno, "cannot note that a checkpoint of the journal failed");
        }
    }

    /// Makes all files anew whose changes are not settled. What is made meanwhile is settled later.
    fn write_anew(&self) -> Result<(), Error> {
        let _turn = self.turn();
        let state = self.state();
        let used = state.used.iter();
        let parts: Vec<_> = used
            .map(|u| (u.live, Some(Arc::clone(&u.segment))))
            .collect();
        let (unsettled, cancelled) = (state.said.settled..state.made, state.cancelled.clone());
        drop(state);
        let log = Log::read(self.journal, &parts, unsettled, None);
        let log = log.map_err(Error::errno_while("read the journal"))?;
        if let Some(damage) = log.damage {
            return Err(Error::failed("read the journal")(std::io::Error::other(
                damage,
            )));
        }
        let dir = self.writer.dir();
        let mut replay = Replay::new(dir, Some(&self.writer), &log.frames, Moment::Serving)?;
        for sequence in cancelled {
            replay.history.add(&Record::Cancel(sequence));
        }
        replay.run(|_, error| Err(error)).map(drop)
    }

    /// All before `to` is in the files, on the disk.
    fn free(&self, to: u64) -> Result<(), Error> {
        let mut state = self.state();
        (state.said.settled, state.said.is_suspect) = (to, false);
        drop(state);
        self.note(Control::write_durably)
            .map_err(Error::errno_while("note what is settled"))?;
        let mut state = self.state();
        state.cancelled.retain(|&of| of >= to);
        state.refusal = None;
        for used in state.take_settled() {
            if !used.is_retired {
                state.free.push(used.segment);
            } else if let Err(errno) = used.segment.remove(&self.dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
        drop(state);
        self.for_publisher.notify_one();
        Ok(())
    }
}

/// Has the kernel write all files of the file system that the values lie on.
pub(super) fn sync_files(writer: &Writer) -> Result<(), Errno> {
    let root = writer.dir().root();
    rustix::fs::syncfs(root)?;
    // An xfs that has shut down has nothing left to write, and says so to fstat alone.
    retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
}
