//! The writer of the journal, which the publisher alone has: it appends frames, and goes on in another segment when one
//! is full or has failed.
//!
//! A thread of its own syncs the frames while the publisher writes files. Each sync covers all that was appended when
//! it begins. Promises that a segment is never written or synced again after a sync of it has failed: the kernel may
//! have dropped what it could not write, and a second sync would prove nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::super::clock;
use super::super::layout::OpenError;
use super::super::write_context::WriteContext;
use super::checkpoint::Checkpoints;
use super::control::{CLEAN, Control, DirId, JournalLocation, Note, open_on};
use super::format::{FrameBuilder, Head};
use super::recover::Recovered;
use super::segment::{SEGMENTS, Segment};
use crate::failpoint;
use crate::transfer::spawn_vital;
use crate::value::Error;

/// A group fits in a segment of this size with room to spare, in bytes.
const MIN_SEGMENT: u64 = 4 << 20;

/// The journal takes at most 1/`SHARE` of its file system.
const SHARE: u64 = 8;

/// Bytes that the size of a segment is a multiple of.
const STEP: u64 = 1 << 20;

/// The log, as the publisher appends to it.
pub trait Log {
    /// A frame for changes that are decided from now on; `None` where the log holds none, and each is decided when it
    /// is made.
    fn frame(&self) -> Option<FrameBuilder>;
    /// True if `frame` fits in the segment of the one before it.
    fn has_room(&self, frame: &FrameBuilder) -> bool;
    /// Appends `frame` and begins its sync; the sequence number of its first record, and of the one after its last.
    /// Where it has no room, all that was appended must have been made: it blocks until a checkpoint frees a segment.
    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, u64), Error>;
    /// All changes before this number are on the disk.
    fn synced(&self) -> u64;
    /// Waits until more is synced. After an error, what is not synced yet never will be, and does not count.
    fn wait(&mut self) -> impl Future<Output = Result<(), Error>>;
    /// Waits until the records of all that was made count no more: the files have it, on the disk. Blocks.
    fn checkpoint_all(&mut self) -> Result<(), Error>;
    /// What was made may not be on the disk, as a sync of names has failed.
    fn distrust(&mut self) {}
    /// Puts what is distrusted on the disk: no change is made before. Blocks.
    fn resolve(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// Has `make` make all changes before `end`, while no checkpoint writes values anew. `make` returns the sequence
    /// numbers of records that do not hold, which later frames cancel.
    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>);
    /// Ends it in order. Blocks.
    fn end(self);
}

/// The journal of a store that writes.
#[derive(Debug)]
pub struct Journal {
    place: JournalLocation,
    note: Note,
    checkpoints: Arc<Checkpoints>,
    checkpoint: JoinHandle<bool>,
    to_sync: Sender<Appended>,
    reports: UnboundedReceiver<SyncReport>,
    syncer: JoinHandle<()>,
    /// The segment of the last frame, and where the next one goes.
    segment: Option<Arc<Segment>>,
    offset: u64,
    generation: u64,
    /// The sequence number of the next record.
    next: u64,
    /// All records before this number are on the disk.
    synced: u64,
}

/// A frame is written to this segment, that ends before this change.
type Appended = (Arc<Segment>, u64);

/// All frames of this segment before this change are on the disk; or it is retired.
type SyncReport = (Arc<Segment>, Result<u64, Errno>);

impl Journal {
    /// Begins to journal, where the directory is in order, after what was `recovered`; `None` where there is no room.
    pub fn start(
        place: &JournalLocation,
        recovered: Option<Recovered>,
        writer: &Arc<WriteContext>,
    ) -> Result<Option<Self>, OpenError> {
        std::fs::create_dir_all(&place.at).map_err(place.failed("create"))?;
        let Recovered { mut note, dir } = recovered.map_or_else(|| Recovered::begin(place), Ok)?;
        let dir = dir.map_or_else(|| place.open(true), Ok)?;
        place.claim(&dir, note.id)?;
        let without = |why| {
            writer.journal.set_missing(why);
            Ok(None)
        };
        let Some(size) = segment_size(place, &dir) else {
            return without("its file system is too small for one");
        };
        let mut free = recycle(&dir, size).map_err(place.failed("open"))?;
        if free.is_empty() {
            match Segment::create(&dir, 0, size) {
                Ok(segment) => free.push(Arc::new(segment)),
                Err(Errno::NOSPC | Errno::DQUOT) => return without("there is no room for one"),
                Err(errno) => return Err(place.failed("make a segment in")(errno)),
            }
        }
        // Later than the generation of each segment that there was.
        let epoch = generation(writer).map_err(std::io::Error::other);
        note.epoch = epoch.map_err(place.failed("begin"))?;
        let control = Control {
            epoch: note.epoch,
            settled: FIRST,
            size,
            dir: DirId::of(&dir).map_err(place.failed("look at"))?,
            ..Control::default()
        };
        let checkpoints = Checkpoints::new(note.id, dir, Arc::clone(writer), free, control);
        let checkpoints = Arc::new(checkpoints.map_err(place.failed("write"))?);
        note.at.clone_from(&place.at);
        note.state = open_on(&writer.dir().root);
        place.write_note(&note)?;
        writer.journal.is_used.store(true, Relaxed);
        let journal = Self::run(place.clone(), note, checkpoints);
        journal.map(Some).map_err(place.failed("start threads for"))
    }

    fn run(
        place: JournalLocation,
        note: Note,
        checkpoints: Arc<Checkpoints>,
    ) -> std::io::Result<Self> {
        let (to_sync, waiting) = mpsc::channel();
        let (report, reports) = unbounded_channel();
        let [settled, synced] = [&checkpoints; 2].map(Arc::clone);
        let checkpoint = spawn_vital("disk-checkpoint", move || settled.run())?;
        let sync = move || sync_all(&synced, &waiting, &report);
        Ok(Self {
            place,
            note,
            checkpoints,
            checkpoint,
            to_sync,
            reports,
            syncer: spawn_vital("disk-journal", sync)?,
            segment: None,
            offset: 0,
            generation: 0,
            next: FIRST,
            synced: FIRST,
        })
    }

    /// The head of the next frame, in the segment of this generation.
    fn head(&self, generation: u64) -> Head {
        let mut head = Head::new(self.checkpoints.journal, generation, self.next);
        (head.synced, head.settled) = (self.synced, self.checkpoints.settled());
        head
    }

    /// Goes on in a free segment, which is waited for.
    fn begin_segment(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        // Versions never repeat, also across restarts: so no two segments have the same generation.
        let checkpoints = &self.checkpoints;
        let generation = generation(&checkpoints.writer)?;
        let opening = FrameBuilder::new(clock::now()).finish(self.head(generation))?;
        let segment = checkpoints.take_segment(generation, self.next, &opening)?;
        let journal = &checkpoints.writer.counters.journal;
        journal.waits.observe_duration(began.elapsed());
        (self.segment, self.offset) = (Some(segment), opening.len() as u64);
        self.generation = generation;
        Ok(())
    }
}

impl Log for Journal {
    fn frame(&self) -> Option<FrameBuilder> {
        Some(FrameBuilder::new(clock::now()))
    }

    fn has_room(&self, frame: &FrameBuilder) -> bool {
        let fits = |segment: &Arc<Segment>| self.offset + frame.size() <= segment.size;
        let mut segment = self.segment.iter();
        segment.any(|segment| !segment.is_retired() && fits(segment))
    }

    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, u64), Error> {
        if !self.has_room(&frame) {
            self.begin_segment()?;
        }
        let (first, end) = (self.next, self.next + u64::from(frame.records));
        let frame = frame.finish(self.head(self.generation))?;
        let Some(segment) = self.segment.clone() else {
            return Err(Error::new("write the journal", Errno::IO));
        };
        if let Err(errno) = segment.write(&frame, self.offset) {
            self.checkpoints.retire(&segment);
            return Err(Error::new("write the journal", errno));
        }
        // Its receiver ends only after this.
        let _ = self.to_sync.send((segment, end));
        self.offset += frame.len() as u64;
        let counters = &self.checkpoints.writer.counters.journal;
        counters.appended.add(frame.len() as u64);
        self.next = end;
        Ok((first, end))
    }

    fn synced(&self) -> u64 {
        self.synced
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let Some((segment, synced)) = self.reports.recv().await else {
            return Err(Error::new("sync the journal", Errno::IO));
        };
        let is_last = |last: &Arc<Segment>| Arc::ptr_eq(last, &segment);
        match synced {
            Ok(end) => self.synced = end,
            Err(errno) if self.segment.as_ref().is_some_and(is_last) => {
                self.next = self.synced;
                return Err(Error::failed("sync the journal")(errno.into()).in_doubt());
            }
            // It was given up before.
            Err(_) => {}
        }
        Ok(())
    }

    fn checkpoint_all(&mut self) -> Result<(), Error> {
        // What it has that was refused counts until there is another.
        if self.checkpoints.ends_retired() {
            self.begin_segment()?;
        }
        self.checkpoints.checkpoint_all()
    }

    fn distrust(&mut self) {
        self.checkpoints.distrust();
    }

    fn resolve(&mut self) -> Result<(), Error> {
        self.checkpoint_all()
    }

    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        let mut cancelled = self.checkpoints.cancelled.lock();
        cancelled.extend(make());
        if let Some(end) = end {
            self.checkpoints.made(end);
        }
    }

    fn end(mut self) {
        self.checkpoints.end();
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

/// The sequence number of the first record of a run.
const FIRST: u64 = 1;

/// How large a segment is to be, on a file system of which the journal takes a small part; `None` where that is too
/// small.
fn segment_size(place: &JournalLocation, dir: &OwnedFd) -> Option<u64> {
    let total = rustix::fs::fstatvfs(dir).map_or(u64::MAX, |fs| fs.f_blocks * fs.f_frsize);
    let size = (place.size.min(total / SHARE) / SEGMENTS as u64) / STEP * STEP;
    (size >= MIN_SEGMENT).then_some(size)
}

/// Returns the segments in `dir`, whose frames no longer count; segments of another size, or too many, are removed.
fn recycle(dir: &OwnedFd, size: u64) -> Result<Vec<Arc<Segment>>, Errno> {
    let mut free = Vec::new();
    for segment in Segment::all(dir, OFlags::RDWR)? {
        if segment.size == size && free.len() < SEGMENTS {
            free.push(segment);
        } else {
            segment.remove(dir)?;
        }
    }
    Ok(free)
}

fn generation(writer: &WriteContext) -> Result<u64, Error> {
    let version = writer.next_version(None)?;
    Ok(u64::try_from(version.nanos()).unwrap_or(0))
}

/// Runs the syncer: syncs what was appended, all that waits of one segment at once.
fn sync_all(
    checkpoints: &Checkpoints,
    waiting: &Receiver<Appended>,
    reports: &UnboundedSender<SyncReport>,
) {
    let mut next = waiting.recv().ok();
    while let Some((segment, mut end)) = next.take() {
        while let Ok(later) = waiting.try_recv() {
            if !Arc::ptr_eq(&later.0, &segment) {
                next = Some(later);
                break;
            }
            end = later.1;
        }
        failpoint::reach("thread", "disk-journal");
        let synced = checkpoints.writer.timed(|| segment.sync());
        if synced.is_err() {
            checkpoints.retire(&segment);
        }
        // Its receiver ends only after this.
        let _ = reports.send((segment, synced.map(|()| end)));
        next = next.or_else(|| waiting.recv().ok());
    }
}
