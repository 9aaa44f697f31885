//! The journal as the publisher has it, which alone appends: where the next frame goes, and when a segment is used no more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::error::Error;
use super::super::writer::{Durability, Writer};
use super::control::Position;
use super::frame::{FrameBuilder, FrameId};
use super::names::Names;
use super::note::{Note, State};
use super::segment::Segment;
use super::shared::Shared;
use super::syncer::{Report, Syncer};

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
    /// What the syncer tells.
    pub(super) reports: UnboundedReceiver<Report>,
    /// Where the next frame goes, and its segment unless that is used up.
    pub(super) at: Position,
    pub(super) segment: Option<Arc<Segment>>,
    /// All frames before it are on the disk, where that is promised.
    pub(super) synced: Position,
    /// Bytes of the frames whose changes are not published yet: cancelling them takes no more.
    pub(super) reserve: u64,
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

    /// Whether `frame` goes to the segment of the one before it, and leaves room for what cancels changes: no segment is waited
    /// for while changes are to be published.
    pub(in crate::store) fn has_room(&self, frame: &FrameBuilder) -> bool {
        self.room_in_last(frame).is_some()
    }

    /// Appends `frame`, unless it is empty, and begins its sync; where it ends, and its size in bytes. Blocks, also while a checkpoint
    /// frees a segment where none is free: then all that was appended must have been published.
    pub(in crate::store) fn append(
        &mut self,
        frame: FrameBuilder,
    ) -> Result<(Position, u64), Error> {
        if frame.is_empty() {
            return Ok((self.at, 0));
        }
        let segment = match self.room_in_last(&frame) {
            Some(segment) => Arc::clone(segment),
            None => self.begin_segment()?,
        };
        let size = frame.size();
        self.write(&segment, frame)?;
        self.reserve += size;
        Ok((self.at, size))
    }

    /// Appends `frame`, which cancels changes of frames before it, and begins its sync; where it ends.
    pub(in crate::store) fn cancel(&mut self, frame: FrameBuilder) -> Result<Position, Error> {
        let segment = self.segment.clone().ok_or(Errno::IO);
        let segment = segment.map_err(Error::errno_while("write the journal"))?;
        self.write(&segment, frame)?;
        Ok(self.at)
    }

    fn write(&mut self, segment: &Arc<Segment>, frame: FrameBuilder) -> Result<(), Error> {
        let Position {
            generation,
            offset,
            number,
        } = self.at;
        let frame = frame.finish(FrameId {
            journal: self.id,
            generation,
            number,
        });
        let end = Position {
            generation,
            offset: offset + frame.len() as u64,
            number: number + 1,
        };
        let written = segment.write(&frame, offset).and_then(|()| {
            let is_begun = self.syncer.begin(end, segment);
            if is_begun { Ok(()) } else { Err(Errno::IO) }
        });
        if let Err(errno) = written {
            self.retire(generation);
            return Err(Error::new("write the journal", errno));
        }
        self.writer
            .counters()
            .journal
            .appended
            .add(frame.len() as u64);
        self.at = end;
        Ok(())
    }

    /// Where it is said which large values have come to the disk.
    pub(in crate::store) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Whether all frames before `end` are on the disk, where that is promised.
    pub(in crate::store) fn is_synced(&self, end: Position) -> bool {
        end.number <= self.synced.number
    }

    /// Waits until more is synced. After an error, what is not synced yet never will be, and does not count.
    pub(in crate::store) async fn wait(&mut self) -> Result<(), Error> {
        let report = self.reports.recv().await.unwrap_or(Report {
            end: self.at,
            synced: Err(Errno::IO),
        });
        self.hear(report)
    }

    /// As [`Self::wait`], if there is something to be told already.
    pub(in crate::store) fn poll(&mut self) -> Option<Result<(), Error>> {
        let report = self.reports.try_recv().ok()?;
        Some(self.hear(report))
    }

    fn hear(&mut self, Report { end, synced }: Report) -> Result<(), Error> {
        let Err(errno) = synced else {
            self.synced = end;
            return Ok(());
        };
        self.retire(end.generation);
        if end.generation != self.at.generation {
            return Ok(());
        }
        self.at = self.synced;
        Err(Error::new("sync the journal", errno))
    }

    /// All changes of the frames before `end` are published or cancelled, `bytes` of them since this was said last; and if it `has_large`
    /// some whose bytes are in their own files alone.
    pub(in crate::store) fn published(&mut self, end: Position, bytes: u64, has_large: bool) {
        self.reserve = self.reserve.saturating_sub(bytes);
        let has_unsynced = has_large && self.writer.durability() != Durability::Disk;
        let within = if has_unsynced { SECOND } else { CHECKPOINT };
        self.shared.publish(end, has_unsynced, within);
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

    fn room_in_last(&self, frame: &FrameBuilder) -> Option<&Arc<Segment>> {
        let segment = self.segment.as_ref()?;
        let end = self.at.offset + 2 * frame.size() + self.reserve;
        (end <= segment.size()).then_some(segment)
    }

    /// Goes on in a free segment, which is waited for.
    fn begin_segment(&mut self) -> Result<Arc<Segment>, Error> {
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
        self.reserve = 0;
        Ok(segment)
    }

    /// The segment of this generation is used no more.
    fn retire(&mut self, generation: u64) {
        if generation == self.at.generation {
            self.segment = None;
        }
        if !self.shared.retire(generation) {
            return;
        }
        self.writer.set_journal_failing(true);
        self.writer.counters().journal.failures.add(1);
        tracing::error!(
            "the journal could not be written or synced: it goes on in another segment"
        );
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
