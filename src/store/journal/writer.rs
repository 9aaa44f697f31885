//! The journal as the publisher has it, which alone appends: where the next frame goes, and when a segment is used no more.
//!
//! A thread of its own puts frames on the disk, while the publisher writes files. Each sync takes all that was appended when it begins.
//! Promises that a segment is never written or synced again after a sync of it has failed: the kernel may have dropped what it could
//! not write, and a second sync would prove nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::super::error::Error;
use super::super::layout::OpenError;
use super::super::random::random;
use super::super::vital;
use super::super::writer::Writer;
use super::checkpoint::Checkpoints;
use super::control::{self, DirId, now};
use super::format::{FrameBuilder, Head};
use super::place::{CLEAN, Note, Place, open_on};
use super::recover::Recovered;
use super::segment::{Segment, indices};
use crate::failpoint;

/// Segments: one is filled while another is settled, and two are for when that takes long.
const SEGMENTS: usize = 4;

/// A group fits in a segment of this size with room to spare, in bytes.
const MIN_SEGMENT: u64 = 4 << 20;

/// The journal takes at most one part in so many of its file system.
const SHARE: u64 = 8;

/// What segments are a multiple of, in bytes.
const STEP: u64 = 1 << 20;

/// What the publisher asks of the journal.
pub(in crate::store) trait Log {
    /// A frame for changes that are decided from now on.
    fn frame(&self) -> FrameBuilder;
    /// Whether `frame` goes to the segment of the one before it.
    fn has_room(&self, frame: &FrameBuilder) -> bool;
    /// Appends `frame` and begins its sync; the sequence number of its first record, and of the one after its last. Where it has no room,
    /// all that was appended must have been made: it blocks until a checkpoint frees a segment.
    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, u64), Error>;
    /// Whether all changes before `end` are on the disk.
    fn is_synced(&self, end: u64) -> bool;
    /// Waits until more is synced. After an error, what is not synced yet never will be, and does not count.
    fn wait(&mut self) -> impl Future<Output = Result<(), Error>>;
    /// As [`Self::wait`], if there is something to be told already.
    fn poll(&mut self) -> Option<Result<(), Error>>;
    /// Has `make` make all changes before `end`, while no checkpoint writes values anew; it answers the sequence numbers of those that
    /// are not made.
    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>);
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Journal {
    place: Place,
    note: Note,
    shared: Arc<Checkpoints>,
    checkpoint: JoinHandle<bool>,
    to_sync: Sender<Appended>,
    reports: UnboundedReceiver<Report>,
    syncer: JoinHandle<()>,
    /// The segment of the last frame, with where the next one goes, unless it is used up.
    segment: Option<(Arc<Segment>, u64)>,
    generation: u64,
    /// The sequence number of the next record.
    next: u64,
    /// All before this one are on the disk.
    synced: u64,
}

/// A frame that is written to this segment, and ends before the change `end`.
#[derive(Debug)]
struct Appended {
    segment: Arc<Segment>,
    generation: u64,
    end: u64,
}

/// All frames of the segment before the change `end` are on the disk; or a sync of that segment has failed.
#[derive(Clone, Copy, Debug)]
struct Report {
    generation: u64,
    end: u64,
    synced: Result<(), Errno>,
}

impl Journal {
    /// Begins to journal, where the directory is in order, after what was `recovered`; `None` where there is no room.
    pub(in crate::store) fn start(
        place: &Place,
        recovered: Option<Recovered>,
        writer: &Arc<Writer>,
    ) -> Result<Option<Self>, OpenError> {
        std::fs::create_dir_all(&place.at)
            .map_err(|error| OpenError::io("create", &place.at, error))?;
        let Recovered { mut note, dir } = recovered.map_or_else(|| begin(place), Ok)?;
        let dir = dir.map_or_else(|| place.lock(), Ok)?;
        place.claim(&dir, note.id)?;
        let Some(size) = segment_size(place, &dir) else {
            writer.set_unjournaled("its file system is too small for one");
            return Ok(None);
        };
        let mut free = recycle(&dir, size).map_err(place.failed("open"))?;
        if free.is_empty() {
            match Segment::create(&dir, 0, size) {
                Ok(segment) => free.push(Arc::new(segment)),
                Err(Errno::NOSPC | Errno::DQUOT) => {
                    writer.set_unjournaled("there is no room for one");
                    return Ok(None);
                }
                Err(errno) => return Err(place.failed("make a segment in")(errno)),
            }
        }
        // Later than the generation of each segment that there was.
        note.epoch = generation(writer)
            .map_err(|error| OpenError::io("begin", &place.at, std::io::Error::other(error)))?;
        let said = control::State {
            epoch: note.epoch,
            settled: FIRST,
            size,
            dir: DirId::of(&dir).map_err(place.failed("look at"))?,
            ..control::State::default()
        };
        let shared = Checkpoints::new(note.id, dir, Arc::clone(writer), free, SEGMENTS, said);
        let shared = Arc::new(shared.map_err(place.failed("write"))?);
        note.at.clone_from(&place.at);
        note.state = open_on(writer.dir().root());
        place.write_note(&note)?;
        writer.set_journaled();
        let threads = |error| OpenError::io("start threads for", &place.at, error);
        Self::run(place.clone(), note, shared)
            .map(Some)
            .map_err(threads)
    }

    fn run(place: Place, note: Note, shared: Arc<Checkpoints>) -> std::io::Result<Self> {
        let (to_sync, waiting) = mpsc::channel();
        let (report, reports) = unbounded_channel();
        let syncer = {
            let writer = Arc::clone(&shared.writer);
            move || sync_all(&writer, &waiting, &report)
        };
        let checkpoint = {
            let shared = Arc::clone(&shared);
            move || shared.run()
        };
        Ok(Self {
            place,
            note,
            shared,
            checkpoint: vital::spawn("disk-checkpoint", checkpoint)?,
            to_sync,
            reports,
            syncer: vital::spawn("disk-journal", syncer)?,
            segment: None,
            generation: 0,
            next: FIRST,
            synced: FIRST,
        })
    }

    /// Writes `frame`, which fits in the segment; the sequence number after that of its last record.
    fn write(&mut self, frame: FrameBuilder) -> Result<u64, Error> {
        let end = self.next + u64::from(frame.records());
        let frame = frame.finish(self.head(self.generation))?;
        let written = self
            .segment
            .as_mut()
            .ok_or(Errno::IO)
            .and_then(|(segment, offset)| {
                segment.write(&frame, *offset)?;
                *offset += frame.len() as u64;
                let appended = Appended {
                    segment: Arc::clone(segment),
                    generation: self.generation,
                    end,
                };
                self.to_sync.send(appended).map_err(|_| Errno::IO)
            });
        if let Err(errno) = written {
            self.retire();
            return Err(Error::new("write the journal", errno));
        }
        let counters = &self.shared.writer.counters().journal;
        counters.appended.add(frame.len() as u64);
        self.next = end;
        Ok(end)
    }

    /// Of the next frame, in the segment of this generation.
    fn head(&self, generation: u64) -> Head {
        let mut head = Head::new(self.shared.journal, generation, self.next);
        (head.synced, head.settled) = (self.synced, self.shared.settled());
        head
    }

    fn hear(&mut self, report: Report) -> Result<(), Error> {
        match report.synced {
            Ok(()) => self.synced = report.end,
            // It was given up before.
            Err(_) if report.generation != self.generation => {}
            Err(errno) => {
                self.retire();
                self.next = self.synced;
                return Err(Error::new("sync the journal", errno));
            }
        }
        Ok(())
    }

    /// Goes on in a free segment, which is waited for.
    fn begin_segment(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        // Versions never repeat, also across restarts: so no two segments have the same generation.
        let generation = generation(&self.shared.writer)?;
        let opening = self.frame().finish(self.head(generation))?;
        let taken = self.shared.take(generation, self.next, &opening);
        let segment = taken.map_err(|errno| {
            self.shared.retire(generation);
            Error::new("find room in the journal", errno)
        })?;
        let journal = &self.shared.writer.counters().journal;
        journal.waited(began.elapsed());
        self.segment = Some((segment, opening.len() as u64));
        self.generation = generation;
        Ok(())
    }

    /// The segment is used no more.
    fn retire(&mut self) {
        self.shared.retire(self.generation);
        if self.segment.take().is_some() {
            self.shared.writer.set_journal_failing(true);
            self.shared.writer.counters().journal.failures.add(1);
            tracing::error!(
                "the journal could not be written or synced: it goes on in another segment"
            );
        }
    }

    /// Settles all, and says that the directory is closed in order. Blocks.
    pub(in crate::store) fn end(mut self) {
        self.shared.end();
        drop(self.to_sync);
        let _ = self.syncer.join();
        if !self.checkpoint.join().unwrap_or(false) {
            tracing::error!("the journal is not settled: the next start replays it");
            return;
        }
        CLEAN.clone_into(&mut self.note.state);
        if let Err(error) = self.place.write_note(&self.note) {
            tracing::warn!(%error, "cannot note that the journal is settled: the next start looks at it");
        }
    }
}

impl Log for Journal {
    fn frame(&self) -> FrameBuilder {
        FrameBuilder::new(now())
    }

    fn has_room(&self, frame: &FrameBuilder) -> bool {
        let segment = self.segment.as_ref();
        segment.is_some_and(|(segment, offset)| offset + frame.size() <= segment.size())
    }

    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, u64), Error> {
        if !self.has_room(&frame) {
            self.begin_segment()?;
        }
        let first = self.next;
        Ok((first, self.write(frame)?))
    }

    fn is_synced(&self, end: u64) -> bool {
        end <= self.synced
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let report = self.reports.recv().await.unwrap_or(Report {
            generation: self.generation,
            end: self.next,
            synced: Err(Errno::IO),
        });
        self.hear(report)
    }

    fn poll(&mut self) -> Option<Result<(), Error>> {
        let report = self.reports.try_recv().ok()?;
        Some(self.hear(report))
    }

    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        let _turn = self.shared.turn();
        let cancelled = make();
        if let Some(end) = end {
            self.shared.made(end, &cancelled);
        }
    }
}

/// The sequence number of the first record of a run.
const FIRST: u64 = 1;

/// A journal where there was none. The note of it is first: an identifier without a note would be that of another directory.
fn begin(place: &Place) -> Result<Recovered, OpenError> {
    let note = Note {
        id: random().map_err(place.failed("draw random bytes for"))?,
        epoch: 0,
        at: place.at.clone(),
        state: CLEAN.to_owned(),
    };
    place.write_note(&note)?;
    Ok(Recovered { note, dir: None })
}

/// How large a segment is to be, on a file system of which the journal takes a small part; `None` where that is too small.
fn segment_size(place: &Place, dir: &OwnedFd) -> Option<u64> {
    let total = rustix::fs::fstatvfs(dir).map_or(u64::MAX, |fs| fs.f_blocks * fs.f_frsize);
    let size = (place.size.min(total / SHARE) / SEGMENTS as u64) / STEP * STEP;
    (size >= MIN_SEGMENT).then_some(size)
}

/// The segments in `dir`, which hold nothing that counts; those of another size, or too many, are removed.
fn recycle(dir: &OwnedFd, size: u64) -> Result<Vec<Arc<Segment>>, Errno> {
    let mut free = Vec::new();
    for index in indices(dir)? {
        let segment = Segment::open(dir, index, OFlags::RDWR)?;
        if segment.size() == size && free.len() < SEGMENTS {
            free.push(Arc::new(segment));
        } else {
            segment.remove(dir)?;
        }
    }
    Ok(free)
}

fn generation(writer: &Writer) -> Result<u64, Error> {
    let version = writer.next_version(None)?;
    Ok(u64::try_from(version.nanos()).unwrap_or(0))
}

/// What the syncer does: syncs what comes, all that waits of one segment at once.
fn sync_all(writer: &Writer, waiting: &Receiver<Appended>, report: &UnboundedSender<Report>) {
    let mut failed = None;
    let mut next = waiting.recv().ok();
    while let Some(mut appended) = next.take() {
        while let Ok(later) = waiting.try_recv() {
            if later.generation != appended.generation {
                next = Some(later);
                break;
            }
            appended = later;
        }
        failpoint::reach("thread", "disk-journal");
        let Appended {
            segment,
            generation,
            end,
        } = appended;
        let synced = match failed {
            Some((of, errno)) if of == generation => Err(errno),
            _ => writer.timed(|| segment.sync()),
        };
        if let Err(errno) = synced {
            failed = Some((generation, errno));
        }
        // Its receiver ends only after this.
        let _ = report.send(Report {
            generation,
            end,
            synced,
        });
        next = next.or_else(|| waiting.recv().ok());
    }
}
