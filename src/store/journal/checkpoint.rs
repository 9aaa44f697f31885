//! The checkpoint: the thread that has the kernel write the files of what was made, and then frees the segments.
//!
//! One `syncfs` makes all files durable that were made before it, so that the frames of their changes are settled. It runs
//! beside the publisher, and does not hold it up. When it fails, the kernel may have dropped what it could not write, and tells so
//! once: the journal still has it, so the values are written anew from there, while nothing is made, and synced once more. Until that
//! succeeds, nothing is settled: this is remembered here, and in the control file for the servers to come.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};

use super::super::error::Error;
use super::super::writer::Writer;
use super::control::Position;
use super::log::{Log, Unreadable};
use super::pool::Pool;
use super::replay::{Moment, Replay};
use super::segment::Segment;
use crate::failpoint;

/// The longest that a change waits for its checkpoint, and a failed checkpoint for the next: a file that a hand removes within this
/// time may come back after a cut of power.
const INTERVAL: Duration = Duration::from_secs(5);

/// The time of [`INTERVAL`], or what a test asks for.
pub(super) fn interval() -> Duration {
    failpoint::checkpoint_interval(INTERVAL)
}

/// What the thread works with.
pub(super) struct Checkpoint {
    pub(super) journal: u128,
    /// The directory of the journal.
    pub(super) dir: Arc<OwnedFd>,
    pub(super) segment_size: u64,
    pub(super) pool: Arc<Pool>,
    pub(super) writer: Arc<Writer>,
}

impl Checkpoint {
    /// What the thread does, until the journal ends. Whether all was settled at the end.
    pub(super) fn run(&self) -> bool {
        loop {
            let task = self.pool.task();
            let settled = task.settle.is_none_or(|to| self.settle(to));
            if let Some(index) = task.make {
                let made = Segment::create(&self.dir, index, self.segment_size);
                if let Err(errno) = &made {
                    tracing::error!(error = %errno, "cannot make a segment of the journal");
                }
                self.pool.add(made);
            }
            self.pool.answer(task.asks);
            if task.is_last {
                return settled;
            }
        }
    }

    /// Settles all before `to`; whether that was had.
    fn settle(&self, to: Position) -> bool {
        failpoint::reach("thread", "disk-checkpoint");
        let began = Instant::now();
        let settled = self.write_files().and_then(|()| {
            let settled = self.pool.settle(to);
            settled.map_err(Error::errno_while("note what is settled"))
        });
        self.writer.set_journal_failing(settled.is_err());
        let gone = match settled {
            Ok(gone) => gone,
            Err(error) => {
                tracing::error!(%error, "a checkpoint of the journal failed: its segments stay");
                self.pool.fail(interval());
                return false;
            }
        };
        for segment in gone {
            if let Err(errno) = segment.remove(&self.dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
        let journal = &self.writer.counters().journal;
        journal.checkpointed(began.elapsed());
        journal.set_unsettled(self.pool.unsettled_bytes());
        true
    }

    /// Puts the files of all that is made on the disk.
    fn write_files(&self) -> Result<(), Error> {
        let has_failed = self.pool.suspect();
        let has_failed = has_failed.map_err(Error::errno_while("write the journal"))?;
        match sync_files(&self.writer) {
            Ok(()) if !has_failed => return Ok(()),
            Ok(()) => {}
            // The error may be of a file that is not ours: the kernel does not say.
            Err(errno) => {
                self.pool.fail(interval());
                tracing::error!(error = %errno, "the file system could not write all files: those of the journal are written anew");
            }
        }
        self.write_anew()?;
        sync_files(&self.writer).map_err(Error::errno_while("sync the file system"))
    }

    /// Makes all files anew whose changes are not settled. What is made meanwhile is settled later.
    fn write_anew(&self) -> Result<(), Error> {
        let _turn = self.pool.turn();
        let (used, from, made, cancelled) = self.pool.unsettled();
        let log = Log {
            journal: self.journal,
            used,
            from,
            until: made.sequence,
            size: None,
        };
        let (mut history, ..) = log.history().map_err(unreadable)?;
        for sequence in cancelled {
            history.cancel(sequence);
        }
        let mut replay = Replay::new(&self.writer, &history, Moment::Serving);
        let replayed = log.each(|record| Ok(replay.take(&record)?));
        replayed.map(drop).map_err(|error| match error {
            Stopped::Unreadable(error) => unreadable(error),
            Stopped::Unwritable(error) => error,
        })
    }
}

/// Why values are not written anew.
enum Stopped {
    Unreadable(Unreadable),
    Unwritable(Error),
}

impl From<Unreadable> for Stopped {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Unwritable(error)
    }
}

fn unreadable(error: Unreadable) -> Error {
    Error::failed("read the journal")(std::io::Error::other(error))
}

/// Has the kernel write all files of the file system that the values lie on.
pub(super) fn sync_files(writer: &Writer) -> Result<(), Errno> {
    let root = writer.dir().root();
    rustix::fs::syncfs(root)?;
    // An xfs that has shut down has nothing left to write, and says so to fstat alone.
    retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
}
