//! The checkpoint: the thread that has the kernel write the files of what was made, and then frees the segments; and the
//! [`pool`](super::pool) of them that it shares with the publisher and notes in the control file.
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
use super::pool::{Pool, Task, Used};
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
    pool: Mutex<Pool>,
    control: Mutex<Control>,
    for_checkpoint: Condvar,
    for_publisher: Condvar,
    /// Held by the publisher while it makes changes, and by the checkpoint while it writes values anew.
    turn: Mutex<()>,
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
        Ok(Self {
            journal,
            dir,
            writer,
            most,
            pool: Mutex::new(Pool::new(said, free)),
            control: Mutex::new(control),
            for_checkpoint: Condvar::new(),
            for_publisher: Condvar::new(),
            turn: Mutex::default(),
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the control file say how things stand, as `write` writes it.
    fn note(
        &self,
        write: impl FnOnce(&Control, &control::State) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = self.pool();
        let said = control::State {
            time: now(),
            live: pool.used.iter().map(|used| used.live).collect(),
            ..pool.said.clone()
        };
        drop(pool);
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
        let mut pool = self.pool();
        if pool.free.is_empty() {
            pool.asks += 1;
            let asked = pool.asks;
            self.for_checkpoint.notify_one();
            pool = self
                .for_publisher
                .wait_while(pool, |s| s.free.is_empty() && s.answered < asked)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let Some(segment) = pool.free.pop() else {
            return Err(pool.refusal.unwrap_or(Errno::NOSPC));
        };
        // The one before is full: it is freed as early as can be.
        if !pool.used.is_empty() {
            pool.hurry(Duration::ZERO);
        }
        self.for_checkpoint.notify_one();
        pool.used.push(Used {
            live: Live {
                generation,
                index: segment.index(),
                first,
            },
            segment: Arc::clone(&segment),
            is_retired: false,
        });
        drop(pool);
        segment.write(opening, 0)?;
        segment.sync()?;
        self.note(Control::write_durably)?;
        Ok(segment)
    }

    /// The segment of this generation is written and synced no more: a checkpoint is due at once.
    pub(super) fn retire(&self, generation: u64) {
        let mut pool = self.pool();
        let mut used = pool.used.iter_mut();
        if let Some(used) = used.find(|used| used.live.generation == generation) {
            used.is_retired = true;
        }
        pool.hurry(Duration::ZERO);
        self.for_checkpoint.notify_one();
    }

    /// All changes before `end` are made, but for those that are `cancelled`: a checkpoint settles them.
    pub(super) fn made(&self, end: u64, cancelled: &[u64]) {
        let mut pool = self.pool();
        pool.made = end;
        pool.cancelled.extend(cancelled);
        // What was retired is needed until what follows it is settled.
        let is_urgent = pool.used.iter().any(|used| used.is_retired);
        let before = pool.due;
        pool.hurry(if is_urgent {
            Duration::ZERO
        } else {
            interval()
        });
        if pool.due != before {
            self.for_checkpoint.notify_one();
        }
    }

    /// Up to where the log is settled.
    pub(super) fn settled(&self) -> u64 {
        self.pool().said.settled
    }

    /// Nothing more will be made.
    pub(super) fn end(&self) {
        self.pool().is_ended = true;
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
            self.pool().answered = task.asks;
            self.for_publisher.notify_one();
            if task.is_last {
                return settled;
            }
        }
    }

    /// What is to be done next, once there is something.
    fn task(&self) -> Task {
        let mut pool = self.pool();
        loop {
            let now = Instant::now();
            if let Some(task) = pool.task(now, self.most) {
                return task;
            }
            let wait = pool.due.map_or(Duration::MAX, |due| due - now);
            let waited = self.for_checkpoint.wait_timeout(pool, wait);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn make(&self, index: u32) {
        let made = Segment::create(&self.dir, index, self.pool().said.size);
        let mut pool = self.pool();
        match made {
            Ok(segment) => {
                pool.next_index = index + 1;
                pool.free.push(Arc::new(segment));
            }
            Err(errno) => {
                tracing::error!(error = %errno, "cannot make a segment of the journal");
                pool.refusal = Some(errno);
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
        let has_failed = std::mem::replace(&mut self.pool().said.is_suspect, true);
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
        self.pool().due.get_or_insert(again);
        if let Err(errno) = self.note(Control::write_durably) {
            tracing::error!(error = %errno, "cannot note that a checkpoint of the journal failed");
        }
    }

    /// Makes all files anew whose changes are not settled. What is made meanwhile is settled later.
    fn write_anew(&self) -> Result<(), Error> {
        let _turn = self.turn();
        let pool = self.pool();
        let used = pool.used.iter();
        let parts: Vec<_> = used
            .map(|u| (u.live, Some(Arc::clone(&u.segment))))
            .collect();
        let (unsettled, cancelled) = (pool.said.settled..pool.made, pool.cancelled.clone());
        drop(pool);
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
        let mut pool = self.pool();
        (pool.said.settled, pool.said.is_suspect) = (to, false);
        drop(pool);
        self.note(Control::write_durably)
            .map_err(Error::errno_while("note what is settled"))?;
        let mut pool = self.pool();
        pool.cancelled.retain(|&of| of >= to);
        pool.refusal = None;
        for used in pool.take_settled() {
            if !used.is_retired {
                pool.free.push(used.segment);
            } else if let Err(errno) = used.segment.remove(&self.dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
        drop(pool);
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
