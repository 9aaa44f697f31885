//! The checkpoint: the thread that has the kernel write the files of what was made, and then frees the segments; and the pool of them
//! that it shares with the publisher and notes in the control file.
//!
//! One `syncfs` makes all files durable that were made before it, so that the frames of their changes are settled. It runs
//! beside the publisher, and does not hold it up. When it fails, the kernel may have dropped what it could not write, and tells so
//! once: the journal still has it, so the values are written anew from there, while nothing is made, and synced once more. Until that
//! succeeds, nothing is settled: this is remembered here, and in the control file for the servers to come.
//!
//! Promises that a segment is free only once all of its frames are settled, also by the control file on the disk, and that the publisher
//! waits for one no longer than a checkpoint takes that began after it asked.

use std::collections::HashSet;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};

use super::super::write_context::WriteContext;
use super::format::{Change, Record};
use super::place::{Live, State, now};
use super::replay::{FileState, Replay};
use super::segment::{Frame, Log, Part, Segment};
use crate::failpoint;
use crate::value::Error;

/// The longest that a change waits for its checkpoint, and a failed checkpoint for the next: a file that a hand removes within this
/// time may come back after a cut of power.
const INTERVAL: Duration = Duration::from_secs(5);

/// Segments: one is filled while another is settled, and two are for when that takes long.
pub(super) const SEGMENTS: usize = 4;

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
    pub(super) writer: Arc<WriteContext>,
    pool: Mutex<Pool>,
    /// Something is to be done, or is.
    changed: Condvar,
    /// Held while the control file is written.
    noting: Mutex<()>,
    /// Held by the publisher while it makes changes, and by the checkpoint while it writes values anew.
    turn: Mutex<()>,
}

/// The segments, and up to where changes are made and settled.
#[derive(Debug, Default)]
struct Pool {
    /// What the control file says, but for what `used` does.
    said: State,
    free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    used: Vec<(Live, Arc<Segment>)>,
    /// Could not be begun: the next checkpoint removes them.
    spoiled: Vec<Arc<Segment>>,
    /// How many segments there are, and what the next one is named.
    count: usize,
    next_index: u32,
    /// All changes before this one are made, or have failed.
    made: u64,
    /// When a checkpoint is due, if there is anything for it.
    due: Option<Instant>,
    /// The publisher waits for a segment.
    is_wanted: bool,
    /// Why there is no further segment.
    refusal: Option<Errno>,
    /// The files of all changes before this one that are not settled are [doubted](Writer::doubt).
    doubted: u64,
    /// When a failure was logged last, and whether one is logged now: not each where refused writers ask for one after the other.
    told: Option<Instant>,
    tells: bool,
    is_ended: bool,
}

impl Pool {
    fn is_due(&self) -> bool {
        let is_due = |due| due <= Instant::now();
        self.is_wanted || self.is_ended || self.due.is_some_and(is_due)
    }

    /// Whether a segment is to be made.
    fn lacks_one(&self) -> bool {
        let may_have = self.count < SEGMENTS && !self.is_ended;
        let may_try = self.is_wanted || self.refusal.is_none();
        self.free.is_empty() && may_have && may_try
    }

    /// Whether there is anything to settle.
    fn is_unsettled(&self) -> bool {
        self.made > self.said.settled || self.is_failing()
    }

    /// Whether something could not be written or synced, and is not made good.
    fn is_failing(&self) -> bool {
        let mut used = self.used.iter();
        let has_retired = used.any(|(_, segment)| segment.is_retired());
        self.said.is_suspect || has_retired || !self.spoiled.is_empty()
    }

    /// Logs that something failed, if that `tells`.
    fn tell(&mut self, what: &str, error: impl Display) {
        if self.tells {
            tracing::error!(%error, "{what}");
            self.told = Some(Instant::now());
        }
    }

    /// A checkpoint is due within this time.
    fn hurry(&mut self, within: Duration) {
        let due = Instant::now() + within;
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Takes the segments away that no log needs: of which all is settled, those before the one that goes on from there; and those
    /// that could not be begun.
    fn take_needless(&mut self) -> Vec<Arc<Segment>> {
        let settled = self.said.settled;
        let later = self.used.iter().skip(1);
        let count = later.take_while(|(live, _)| live.first <= settled).count();
        let settled = self.used.drain(..count).map(|(_, segment)| segment);
        settled.chain(self.spoiled.drain(..)).collect()
    }
}

impl Checkpoints {
    /// With these `free` segments; the control file says `said` at once, that all is settled.
    pub(super) fn new(
        journal: u128,
        dir: OwnedFd,
        writer: Arc<WriteContext>,
        free: Vec<Arc<Segment>>,
        said: State,
    ) -> Result<Self, Errno> {
        said.write(&dir, true)?;
        let pool = Pool {
            count: free.len(),
            next_index: free.iter().map(|s| s.index + 1).max().unwrap_or(0),
            made: said.settled,
            said,
            free,
            ..Pool::default()
        };
        Ok(Self {
            journal,
            dir,
            writer,
            pool: Mutex::new(pool),
            changed: Condvar::new(),
            noting: Mutex::default(),
            turn: Mutex::default(),
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the control file say how things stand.
    fn note(&self, durable: bool) -> Result<(), Errno> {
        let _noting = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = self.pool();
        let mut said = pool.said.clone();
        said.time = now();
        said.live = pool.used.iter().map(|(live, _)| *live).collect();
        drop(pool);
        said.write(&self.dir, durable)
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
        pool.is_wanted = pool.free.is_empty();
        self.changed.notify_all();
        let waits = |pool: &mut Pool| pool.free.is_empty() && pool.is_wanted;
        let pool = self.changed.wait_while(pool, waits);
        let mut pool = pool.unwrap_or_else(PoisonError::into_inner);
        let segment = pool.free.pop();
        let segment = segment.ok_or_else(|| pool.refusal.unwrap_or(Errno::NOSPC))?;
        // The one before is full: it is freed as early as can be.
        if !pool.used.is_empty() {
            pool.hurry(Duration::ZERO);
        }
        drop(pool);
        self.changed.notify_all();
        let begun = segment.write(opening, 0).and_then(|()| segment.sync());
        if begun.is_ok() {
            let index = segment.index;
            let live = Live {
                generation,
                index,
                first,
            };
            self.pool().used.push((live, Arc::clone(&segment)));
        } else {
            self.pool().spoiled.push(Arc::clone(&segment));
        }
        let begun = begun.and_then(|()| self.note(true));
        begun.map(|()| Arc::clone(&segment)).inspect_err(|_| {
            segment.retire();
            self.hurry();
        })
    }

    /// The segment is used no more, as a write or a sync of it has failed: a checkpoint is due at once.
    pub(super) fn retire(&self, segment: &Segment) {
        if segment.retire() {
            self.writer.set_journal_failing(true);
            self.writer.counters.journal.failures.add(1);
            tracing::error!(
                "the journal could not be written or synced: it goes on in another segment"
            );
        }
        self.hurry();
    }

    /// A checkpoint is due at once.
    fn hurry(&self) {
        self.pool().hurry(Duration::ZERO);
        self.changed.notify_all();
    }

    /// All changes before `end` are made, or have failed: a checkpoint settles them.
    pub(super) fn made(&self, end: u64) {
        let mut pool = self.pool();
        pool.made = end;
        let before = pool.due;
        pool.hurry(interval());
        if pool.due != before {
            self.changed.notify_all();
        }
    }

    /// Up to where the log is settled.
    pub(super) fn settled(&self) -> u64 {
        self.pool().said.settled
    }

    /// Nothing more will be made.
    pub(super) fn end(&self) {
        self.pool().is_ended = true;
        self.changed.notify_all();
    }

    /// What the thread does, until the journal ends. Whether all was settled at the end.
    pub(super) fn run(&self) -> bool {
        loop {
            let mut pool = self.wait_for_work();
            let (is_wanted, is_ended) = (pool.is_wanted, pool.is_ended);
            pool.tells = pool.told.is_none_or(|told| told.elapsed() >= interval());
            let mut to = None;
            if pool.is_due() {
                // What comes later is due anew.
                pool.due = None;
                to = pool.is_unsettled().then_some(pool.made);
            }
            drop(pool);
            let settled = to.is_none_or(|to| self.settle(to));
            // Also in place of one that was settled just now and is used no more: the writer that waits is not to be refused for it.
            let lacks_one = self.pool().lacks_one();
            if lacks_one {
                self.make_segment();
            }
            self.pool().is_wanted &= !is_wanted;
            self.changed.notify_all();
            if is_ended {
                return settled;
            }
        }
    }

    fn wait_for_work(&self) -> MutexGuard<'_, Pool> {
        let mut pool = self.pool();
        while !pool.is_due() && !pool.lacks_one() {
            let left = |due: Instant| due.saturating_duration_since(Instant::now());
            let wait = pool.due.map_or(Duration::MAX, left);
            let waited = self.changed.wait_timeout(pool, wait);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        pool
    }

    fn make_segment(&self) {
        let pool = self.pool();
        let (index, size) = (pool.next_index, pool.said.size);
        drop(pool);
        let made = Segment::create(&self.dir, index, size);
        let mut pool = self.pool();
        match made {
            Ok(segment) => {
                (pool.count, pool.next_index) = (pool.count + 1, index + 1);
                pool.free.push(Arc::new(segment));
            }
            Err(errno) => {
                pool.refusal = Some(errno);
                pool.tell("cannot make a segment of the journal", errno);
            }
        }
    }

    /// Settles all before `to`; whether that was had.
    fn settle(&self, to: u64) -> bool {
        failpoint::reach("thread", "disk-checkpoint");
        let began = Instant::now();
        let appended = self.writer.counters.journal.appended.get();
        let is_failing = self.pool().is_failing();
        if is_failing {
            // Before the kernel can drop it.
            self.doubt();
        }
        let settled = self.write_files().and_then(|()| self.free(to));
        if let Err(error) = settled {
            let what = "a checkpoint of the journal failed: its segments stay";
            self.pool().tell(what, error);
            self.fail();
            return false;
        }
        self.trust();
        let journal = &self.writer.counters.journal;
        journal.checkpointed(began.elapsed(), appended);
        true
    }

    /// Puts the files of all that is made on the disk. Until it has, nothing that the kernel remembers of them is trusted, by no later
    /// server either.
    fn write_files(&self) -> Result<(), Error> {
        let has_failed = std::mem::replace(&mut self.pool().said.is_suspect, true);
        self.note(false)
            .map_err(Error::errno_while("write the journal"))?;
        match sync_files(&self.writer) {
            Ok(()) if !has_failed => return Ok(()),
            Ok(()) => {}
            // The error may be of a file that is not ours: the kernel does not say.
            Err(errno) => {
                self.fail();
                let what = "the file system could not write all files: those of the journal are written anew";
                self.pool().tell(what, errno);
            }
        }
        self.write_anew()?;
        sync_files(&self.writer).map_err(Error::errno_while("sync the file system"))
    }

    /// A checkpoint has failed, which the control file says on the disk. The next one is due some time later.
    fn fail(&self) {
        self.doubt();
        self.pool().due.get_or_insert(Instant::now() + interval());
        if let Err(errno) = self.note(true) {
            let what = "cannot note that a checkpoint of the journal failed";
            self.pool().tell(what, errno);
        }
    }

    /// What is not settled, from the segments.
    fn unsettled(&self) -> Result<Vec<Frame>, Error> {
        let pool = self.pool();
        let part = |(live, segment): &(Live, Arc<Segment>)| (*live, Some(Arc::clone(segment)));
        let parts: Vec<Part> = pool.used.iter().map(part).collect();
        let (said, made) = (pool.said.clone(), pool.made);
        drop(pool);
        let log = Log::read(self.journal, &parts, &said, made);
        let log = log.map_err(Error::errno_while("read the journal"))?;
        match log.damage {
            Some(damage) => Err(Error::failed("read the journal")(std::io::Error::other(
                damage,
            ))),
            None => Ok(log.frames),
        }
    }

    /// Has no value read of which the journal alone is known to have the bytes.
    fn doubt(&self) {
        let made = self.pool().made;
        if std::mem::replace(&mut self.pool().doubted, made) == made {
            return;
        }
        match self.unsettled().and_then(|frames| small_values(&frames)) {
            Ok(keys) => self.writer.doubt(keys),
            Err(error) => {
                let what = "cannot tell which values may be damaged: they are answered as they are";
                self.pool().tell(what, error);
            }
        }
        self.writer.set_journal_failing(true);
    }

    /// All that was doubted is on the disk.
    fn trust(&self) {
        self.writer.set_journal_failing(false);
        if std::mem::take(&mut self.pool().doubted) > 0 {
            self.writer.doubt(HashSet::new());
        }
    }

    /// Makes all files anew whose changes are not settled. What is made meanwhile is settled later.
    fn write_anew(&self) -> Result<(), Error> {
        let _turn = self.turn();
        let frames = self.unsettled()?;
        let dir = self.writer.dir();
        let replay = Replay::new(dir, Some(&self.writer), &frames, FileState::Serving)?;
        replay.run(|_, error| Err(error)).map(drop)
    }

    /// All before `to` is in the files, on the disk.
    fn free(&self, to: u64) -> Result<(), Error> {
        let mut pool = self.pool();
        (pool.said.settled, pool.said.is_suspect) = (to, false);
        drop(pool);
        self.note(true)
            .map_err(Error::errno_while("note what is settled"))?;
        let mut pool = self.pool();
        pool.refusal = None;
        for segment in pool.take_needless() {
            if !segment.is_retired() {
                pool.free.push(segment);
                continue;
            }
            pool.count -= 1;
            if let Err(errno) = segment.remove(&self.dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
        drop(pool);
        self.changed.notify_all();
        Ok(())
    }
}

/// The keys whose last change in `frames` is a value that is in them.
fn small_values(frames: &[Frame]) -> Result<HashSet<Box<str>>, Error> {
    let mut keys = HashSet::new();
    for frame in frames {
        for record in frame.read()? {
            match record {
                Record::Change(Change { key, small, .. }) if small.is_some() => {
                    keys.insert(key.as_str().into());
                }
                Record::Change(Change { key, .. }) => drop(keys.remove(key.as_str())),
                Record::Cancel(_) => {}
            }
        }
    }
    Ok(keys)
}

/// Has the kernel write all files of the file system that the values lie on.
pub(super) fn sync_files(writer: &WriteContext) -> Result<(), Errno> {
    let root = &writer.dir().root;
    rustix::fs::syncfs(root)?;
    // An xfs that has shut down has nothing left to write, and says so to fstat alone.
    retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
}
