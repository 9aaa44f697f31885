//! The journal: small values and deletes on the disk at the speed of a log, one sync for all that wait.
//!
//! A group of changes is appended to a segment as one frame, and synced. Its files are written meanwhile, and get their names
//! after that, without a sync of their own; so each key stays one file, and no file has its key's name whose bytes a cut of power
//! could still take with no record of them. A [`checkpoint`] has the kernel write the files and frees the segments; a [`replay`]
//! at the start makes in the files what they lack.
//!
//! Promises, for `--durability disk`, that [`Journal::synced`] returns only when the group is on the disk. A segment whose sync
//! has failed is used no more: the kernel may have dropped what it could not write, and a second sync would prove nothing.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::error::Error;
use super::writer::{Durability, Writer};

mod checkpoint;
mod control;
mod frame;
mod log;
mod names;
mod note;
mod open;
mod replay;
mod segment;
mod shared;
mod syncer;

use control::Position;
use frame::FrameId;
pub(super) use frame::{FrameBuilder, Mark};
pub(super) use names::Names;
use note::{Note, State};
pub(super) use open::{Place, needs_replay, recover};
use segment::Segment;
use shared::Shared;
use syncer::Syncer;

/// The longest that a change waits for its checkpoint: a file that a hand removes within this time may come back after a cut
/// of power.
const CHECKPOINT: Duration = Duration::from_secs(5);

/// The same for a value that is in no frame, where nothing else syncs it.
const SECOND: Duration = Duration::from_secs(1);

/// The journal as the publisher has it, which alone appends.
#[derive(Debug)]
pub(super) struct Journal {
    id: u128,
    writer: Arc<Writer>,
    names: Arc<Names>,
    shared: Arc<Shared>,
    syncer: Syncer,
    checkpoint: JoinHandle<bool>,
    /// Where the next frame goes, and its segment unless that is used up.
    at: Position,
    segment: Option<Arc<Segment>>,
    /// Bytes of the frame whose sync has begun.
    pending: u64,
    /// The server's directory beside the values, which has the note.
    own: PathBuf,
    note: Note,
    /// Held, locked, against another server.
    _dir: Arc<OwnedFd>,
}

impl Journal {
    /// What orders the publisher and the checkpoint.
    pub(super) fn turns(&self) -> Turns {
        Turns(Arc::clone(&self.shared))
    }

    /// Appends `frame` and begins its sync. Blocks, also while a checkpoint frees a segment where none is free.
    pub(super) fn append(&mut self, frame: FrameBuilder) -> Result<(), Error> {
        for generation in self.syncer.failed() {
            self.retire(generation);
        }
        // What cancels some of it has room too: the checkpoint is not waited for in the middle of a group.
        let segment = self.segment_for(2 * frame.size())?;
        self.write(&segment, frame)
    }

    /// Appends `frame`, which cancels changes of the last one, and waits until it is on the disk, where that is promised.
    pub(super) fn cancel(&mut self, frame: FrameBuilder) -> Result<(), Error> {
        let segment = self.segment.clone().ok_or(Errno::IO);
        let segment = segment.map_err(Error::errno_while("write the journal"))?;
        self.write(&segment, frame)?;
        self.synced()
    }

    fn write(&mut self, segment: &Arc<Segment>, frame: FrameBuilder) -> Result<(), Error> {
        let frame = frame.finish(FrameId {
            journal: self.id,
            generation: self.at.generation,
            number: self.at.number,
        });
        if let Err(errno) = segment.write(&frame, self.at.offset) {
            self.retire(self.at.generation);
            return Err(Error::new("write the journal", errno));
        }
        self.pending = frame.len() as u64;
        self.writer.counters().journal.appended.add(self.pending);
        self.syncer.begin(self.at.generation, segment);
        Ok(())
    }

    /// Where it is said which large values have come to the disk.
    pub(super) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Waits until the frame is on the disk, where that is promised.
    pub(super) fn synced(&mut self) -> Result<(), Error> {
        if let Err(errno) = self.syncer.wait() {
            self.retire(self.at.generation);
            return Err(Error::new("sync the journal", errno));
        }
        self.at.offset += self.pending;
        self.at.number += 1;
        Ok(())
    }

    /// All changes that were appended are published, or cancelled, and if it `has_large` some whose bytes are in their own files
    /// alone.
    pub(super) fn published(&self, has_large: bool) {
        let has_unsynced = has_large && self.writer.durability() != Durability::Disk;
        let within = if has_unsynced { SECOND } else { CHECKPOINT };
        self.shared.publish(self.at, has_unsynced, within);
        let journal = &self.writer.counters().journal;
        journal.set_unsettled(self.shared.unsettled_bytes());
    }

    /// Settles all, and says that the directory is closed in order. Blocks.
    pub(super) fn end(self) {
        self.shared.end();
        self.syncer.end();
        let is_settled = self.checkpoint.join().unwrap_or(false);
        if !is_settled {
            tracing::error!("the journal is not settled: the next start replays it");
            return;
        }
        let note = Note {
            state: State::Clean,
            ..self.note
        };
        if let Err(error) = note.write(&self.own) {
            tracing::warn!(%error, "cannot note that the journal is settled: the next start looks at it");
        }
    }

    /// The segment that has room for a frame of `size` bytes: the last one, or a free one, which is waited for.
    fn segment_for(&mut self, size: u64) -> Result<Arc<Segment>, Error> {
        if let Some(segment) = &self.segment
            && self.at.offset + size <= segment.size()
        {
            return Ok(Arc::clone(segment));
        }
        // Versions never repeat, also across restarts: so no two segments have the same generation.
        let generation = self.writer.next_version(None)?.nanos();
        let generation = u64::try_from(generation).unwrap_or(0);
        let taken = self.shared.take(generation, self.at.number);
        let (segment, waited) = taken.map_err(Error::errno_while("find room in the journal"))?;
        self.writer.counters().journal.waited(waited);
        self.at = Position {
            generation,
            offset: 0,
            number: self.at.number,
        };
        self.segment = Some(Arc::clone(&segment));
        Ok(segment)
    }

    /// The segment of this generation is used no more.
    fn retire(&mut self, generation: u64) {
        self.writer.set_journal_failing(true);
        self.writer.counters().journal.failures.add(1);
        tracing::error!(
            "the journal could not be written or synced: it goes on in another segment"
        );
        if generation == self.at.generation {
            self.segment = None;
        }
        self.shared.retire(generation);
    }
}

/// What orders the publisher and the checkpoint.
#[derive(Debug)]
pub(super) struct Turns(Arc<Shared>);

impl Turns {
    /// While it is held, changes are published by its holder alone.
    pub(super) fn take(&self) -> MutexGuard<'_, ()> {
        self.0.turn()
    }
}
