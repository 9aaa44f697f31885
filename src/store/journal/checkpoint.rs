//! The checkpoint: the thread that has the kernel write the files of what was published, and then frees the segments.
//!
//! One `syncfs` makes all files durable that were published before it, so that the frames of their changes are settled. It runs
//! beside the publisher, and does not hold it up. When it fails, the kernel may have dropped what it could not write: the
//! journal still has it, so the values are written anew from there, while nothing is published, and synced once more.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::{Errno, retry_on_intr};

use super::super::error::Error;
use super::super::writer::Writer;
use super::control::{Control, Position};
use super::log::Log;
use super::replay::{Replay, Trust};
use super::segment::Segment;
use super::shared::Shared;

/// What the thread works with.
pub(super) struct Checkpoint {
    pub(super) journal: u128,
    /// The directory of the journal.
    pub(super) dir: Arc<OwnedFd>,
    pub(super) control: Control,
    pub(super) segment_size: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Arc<Writer>,
}

impl Checkpoint {
    /// What the thread does, until the journal ends. Whether all was settled at the end.
    pub(super) fn run(&self) -> bool {
        loop {
            let task = self.shared.task();
            let settled = task.settle.is_none_or(|to| self.settle(to));
            if let Some(index) = task.make {
                let made = Segment::create(&self.dir, index, self.segment_size);
                if let Err(errno) = &made {
                    tracing::error!(error = %errno, "cannot make a segment of the journal");
                }
                self.shared.made(made);
            }
            self.shared.answer(task.asks);
            if task.is_last {
                return settled;
            }
        }
    }

    /// Settles all before `to`; whether that was had.
    fn settle(&self, to: Position) -> bool {
        let began = Instant::now();
        let settled = self.write_files().and_then(|()| {
            let written = self.control.write(to);
            written.map_err(Error::errno_while("note what is settled"))
        });
        self.writer.set_journal_failing(settled.is_err());
        if let Err(error) = settled {
            tracing::error!(%error, "a checkpoint of the journal failed: its segments stay");
            return false;
        }
        for segment in self.shared.settle(to) {
            if let Err(errno) = segment.remove(&self.dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
        let journal = &self.writer.counters().journal;
        journal.checkpointed(began.elapsed());
        journal.set_unsettled(self.shared.unsettled_bytes());
        true
    }

    /// Puts the files of all that is published on the disk.
    fn write_files(&self) -> Result<(), Error> {
        let Err(errno) = self.sync_files() else {
            return Ok(());
        };
        // The error may be of a file that is not ours: the kernel does not say.
        tracing::error!(error = %errno, "the file system could not write all files: those of the journal are written anew");
        let _turn = self.shared.turn();
        // What was published since may be among what was dropped, and is settled later.
        let (used, from, published) = self.shared.unsettled();
        let log = Log {
            journal: self.journal,
            used,
            from,
            until: published.number,
            spare: Vec::new(),
        };
        let replay = Replay::new(&self.writer, Trust::Nothing);
        replay.run(&log).map_err(Error::from)?;
        self.sync_files()
            .map_err(Error::errno_while("sync the file system"))
    }

    fn sync_files(&self) -> Result<(), Errno> {
        let root = self.writer.dir().root();
        rustix::fs::syncfs(root)?;
        // An xfs that has shut down has nothing left to write, and says so to fstat alone.
        retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
    }
}
