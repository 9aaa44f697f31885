//! The journal as the publisher has it, which alone appends: where the next frame goes, and when a segment is used no more.
//!
//! A thread of its own puts frames on the disk, while the publisher writes files. Each sync takes all that was appended when it begins.
//! Promises that a segment is never written or synced again after a sync of it has failed: the kernel may have dropped what it could
//! not write, and a second sync would prove nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::io::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::super::error::Error;
use super::super::vital;
use super::super::writer::Writer;
use super::checkpoint::interval;
use super::control::{Position, now};
use super::format::{FrameBuilder, Head};
use super::place::Closing;
use super::pool::Pool;
use super::segment::Segment;
use crate::failpoint;

/// What the publisher asks of the journal.
pub(in crate::store) trait Log {
    /// A frame for changes that are decided from now on.
    fn frame(&self) -> FrameBuilder;
    /// Whether `frame` goes to the segment of the one before it.
    fn has_room(&self, frame: &FrameBuilder) -> bool;
    /// Appends `frame` and begins its sync; the sequence number of its first record, and where it ends. Where it has no room, all that
    /// was appended must have been made: it blocks until a checkpoint frees a segment.
    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, Position), Error>;
    /// Whether all before `end` is on the disk.
    fn is_synced(&self, end: Position) -> bool;
    /// Waits until more is synced. After an error, what is not synced yet never will be, and does not count.
    fn wait(&mut self) -> impl Future<Output = Result<(), Error>>;
    /// As [`Self::wait`], if there is something to be told already.
    fn poll(&mut self) -> Option<Result<(), Error>>;
    /// Has `make` make all changes before `end`, while no checkpoint writes values anew; it answers the sequence numbers of those that
    /// are not made.
    fn publish(&mut self, end: Option<Position>, make: impl FnOnce() -> Vec<u64>);
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Journal {
    pub(super) id: u128,
    pub(super) writer: Arc<Writer>,
    pub(super) pool: Arc<Pool>,
    pub(super) syncer: Syncer,
    pub(super) checkpoint: JoinHandle<bool>,
    /// Where the next frame goes, and its segment unless that is used up.
    pub(super) at: Position,
    pub(super) segment: Option<Arc<Segment>>,
    /// All frames before it are on the disk.
    pub(super) synced: Position,
    pub(super) closing: Closing,
    /// Held, locked, against another server.
    pub(super) _dir: Arc<OwnedFd>,
}

impl Journal {
    fn write(&mut self, segment: &Arc<Segment>, frame: FrameBuilder) -> Result<(), Error> {
        let from = self.at;
        let records = u64::from(frame.records());
        let frame = frame.finish(self.head(from.generation))?;
        let end = Position {
            generation: from.generation,
            offset: from.offset + frame.len() as u64,
            sequence: from.sequence + records,
        };
        let written = segment
            .write(&frame, from.offset)
            .and_then(|()| self.syncer.begin(end, segment));
        if let Err(errno) = written {
            self.retire(from.generation);
            return Err(Error::new("write the journal", errno));
        }
        let counters = &self.writer.counters().journal;
        counters.appended.add(frame.len() as u64);
        self.at = end;
        Ok(())
    }

    /// Of the next frame, in the segment of this generation.
    fn head(&self, generation: u64) -> Head {
        let mut head = Head::new(self.id, generation, self.at.sequence);
        (head.synced, head.settled) = (self.synced.sequence, self.pool.settled());
        head
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

    /// Settles all, and says that the directory is closed in order. Blocks.
    pub(in crate::store) fn end(self) {
        self.pool.end();
        self.syncer.end();
        if self.checkpoint.join().unwrap_or(false) {
            self.closing.close();
        } else {
            tracing::error!("the journal is not settled: the next start replays it");
        }
    }

    fn room_in_last(&self, frame: &FrameBuilder) -> Option<&Arc<Segment>> {
        let segment = self.segment.as_ref()?;
        (self.at.offset + frame.size() <= segment.size()).then_some(segment)
    }

    /// Goes on in a free segment, which is waited for.
    fn begin_segment(&mut self) -> Result<Arc<Segment>, Error> {
        // Versions never repeat, also across restarts: so no two segments have the same generation.
        let generation = self.writer.next_version(None)?.nanos();
        let generation = u64::try_from(generation).unwrap_or(0);
        let opening = self.frame().finish(self.head(generation))?;
        let taken = self.pool.take(generation, self.at.sequence, &opening);
        let (segment, waited) = taken.map_err(Error::errno_while("find room in the journal"))?;
        self.writer.counters().journal.waited(waited);
        self.at = Position {
            generation,
            offset: opening.len() as u64,
            sequence: self.at.sequence,
        };
        self.segment = Some(Arc::clone(&segment));
        Ok(segment)
    }

    /// The segment of this generation is used no more.
    fn retire(&mut self, generation: u64) {
        if generation == self.at.generation {
            self.segment = None;
        }
        if !self.pool.retire(generation) {
            return;
        }
        self.writer.set_journal_failing(true);
        self.writer.counters().journal.failures.add(1);
        tracing::error!(
            "the journal could not be written or synced: it goes on in another segment"
        );
    }
}

impl Log for Journal {
    fn frame(&self) -> FrameBuilder {
        FrameBuilder::new(now())
    }

    fn has_room(&self, frame: &FrameBuilder) -> bool {
        self.room_in_last(frame).is_some()
    }

    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, Position), Error> {
        let segment = match self.room_in_last(&frame) {
            Some(segment) => Arc::clone(segment),
            None => self.begin_segment()?,
        };
        let first = self.at.sequence;
        self.write(&segment, frame)?;
        Ok((first, self.at))
    }

    fn is_synced(&self, end: Position) -> bool {
        end.sequence <= self.synced.sequence
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let report = self.syncer.reports.recv().await.unwrap_or(Report {
            end: self.at,
            synced: Err(Errno::IO),
        });
        self.hear(report)
    }

    fn poll(&mut self) -> Option<Result<(), Error>> {
        let report = self.syncer.reports.try_recv().ok()?;
        Some(self.hear(report))
    }

    fn publish(&mut self, end: Option<Position>, make: impl FnOnce() -> Vec<u64>) {
        let turn = self.pool.turn();
        let cancelled = make();
        if let Some(end) = end {
            self.pool.made(end, &cancelled, interval());
        }
        drop(turn);
        let counters = &self.writer.counters().journal;
        counters.set_unsettled(self.pool.unsettled_bytes());
    }
}

/// All frames of the segment before `end` are on the disk; or a sync of that segment has failed.
#[derive(Clone, Copy, Debug)]
struct Report {
    end: Position,
    synced: Result<(), Errno>,
}

/// The thread that syncs.
#[derive(Debug)]
pub(super) struct Syncer {
    to_sync: Sender<Appended>,
    reports: UnboundedReceiver<Report>,
    thread: JoinHandle<()>,
}

/// A frame that ends at `end` is written to this segment.
#[derive(Debug)]
struct Appended {
    end: Position,
    segment: Arc<Segment>,
}

impl Syncer {
    /// Starts it; `sync` syncs a segment.
    pub(super) fn start(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to_sync, waiting) = mpsc::channel();
        let (report, reports) = unbounded_channel();
        let thread = vital::spawn("disk-journal", move || sync_all(&waiting, sync, &report))?;
        Ok(Self {
            to_sync,
            reports,
            thread,
        })
    }

    /// Has the frame synced that ends at `end` in `segment`.
    fn begin(&self, end: Position, segment: &Arc<Segment>) -> Result<(), Errno> {
        let segment = Arc::clone(segment);
        let appended = Appended { end, segment };
        self.to_sync.send(appended).map_err(|_| Errno::IO)
    }

    /// Ends the thread, when nothing more can come.
    fn end(self) {
        drop(self.to_sync);
        let _ = self.thread.join();
    }
}

fn sync_all(
    waiting: &Receiver<Appended>,
    sync: impl Fn(&Segment) -> Result<(), Errno>,
    report: &UnboundedSender<Report>,
) {
    let mut failed = None;
    let mut next = waiting.recv().ok();
    while let Some(mut appended) = next.take() {
        while let Ok(later) = waiting.try_recv() {
            if later.end.generation != appended.end.generation {
                next = Some(later);
                break;
            }
            appended = later;
        }
        failpoint::reach("thread", "disk-journal");
        let end = appended.end;
        let synced = match failed {
            Some((generation, errno)) if generation == end.generation => Err(errno),
            _ => sync(&appended.segment),
        };
        if let Err(errno) = synced {
            failed = Some((end.generation, errno));
        }
        // Its receiver ends only after this.
        let _ = report.send(Report { end, synced });
        next = next.or_else(|| waiting.recv().ok());
    }
}
