//! The journal as the publisher has it, which alone appends: where the next frame goes, and when a segment is used no more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::super::error::Error;
use super::super::writer::{Durability, Writer};
use super::control::Position;
use super::frame::{FrameBuilder, FrameId};
use super::names::Names;
use super::note::{Note, State};
use super::segment::Segment;
use super::shared::Shared;
use super::syncer::Syncer;

/// The longest that a change waits for its checkpoint: a file that a hand removes within this time may come back after a cut
/// of power.
const CHECKPOINT: Duration = Duration::from_secs(5);

/// The same for a value that is in no frame, where nothing else syncs it.
const SECOND: Duration = Duration::from_secs(1);

/// The journal as the publisher has it, which alone appends.
#[derive(Debug)]
pub(in crate::store) struct Journal {
    pub(super) id: u128,
    pub(super) writer: Arc<Writer>,
    pub(super) names: Arc<Names>,
    pub(super) shared: Arc<Shared>,
    pub(super) syncer: Syncer,
    pub(super) checkpoint: JoinHandle<bool>,
    /// Where the next frame goes, and its segment unless that is used up.
    pub(super) at: Position,
    pub(super) segment: Option<Arc<Segment>>,
    /// Bytes of the frame whose sync has begun.
    pub(super) pending: u64,
    /// The server's directory beside the values, which has the note.
    pub(super) own: PathBuf,
    pub(super) note: Note,
    /// Held, locked, against another server.
    pub(super) _dir: Arc<OwnedFd>,
}

impl Journal {
    /// What orders the publisher and the checkpoint.
    pub(in crate::store) fn turns(&self) -> Turns {
        Turns(Arc::clone(&self.shared))
    }

    /// Appends `frame` and begins its sync. Blocks, also while a checkpoint frees a segment where none is free.
    pub(in crate::store) fn append(&mut self, frame: FrameBuilder) -> Result<(), Error> {
        for generation in self.syncer.failed() {
            self.retire(generation);
        }
        // What cancels some of it has room too: the checkpoint is not waited for in the middle of a group.
        let segment = self.segment_for(2 * frame.size())?;
        self.write(&segment, frame)
    }

    /// Appends `frame`, which cancels changes of the last one, and waits until it is on the disk, where that is promised.
    pub(in crate::store) fn cancel(&mut self, frame: FrameBuilder) -> Result<(), Error> {
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
    pub(in crate::store) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Waits until the frame is on the disk, where that is promised.
    pub(in crate::store) fn synced(&mut self) -> Result<(), Error> {
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
    pub(in crate::store) fn published(&self, has_large: bool) {
        let has_unsynced = has_large && self.writer.durability() != Durability::Disk;
        let within = if has_unsynced { SECOND } else { CHECKPOINT };
        self.shared.publish(self.at, has_unsynced, within);
        let journal = &self.writer.counters().journal;
        journal.set_unsettled(self.shared.unsettled_bytes());
    }

    /// Settles all, and says that the directory is closed in order. Blocks.
    pub(in crate::store) fn end(self) {
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
pub(in crate::store) struct Turns(Arc<Shared>);

impl Turns {
    /// While it is held, changes are published by its holder alone.
    pub(in crate::store) fn take(&self) -> MutexGuard<'_, ()> {
        self.0.turn()
    }
}
