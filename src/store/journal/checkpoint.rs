//! The checkpoint: a thread that has the kernel write the files of published changes and then frees the segments of
//! their frames.
//!
//! One `syncfs` makes all files durable that were published before it, so that the frames of their changes are settled.
//! The publisher goes on meanwhile. After a failed `syncfs`, which the kernel reports once, the files may lack bytes
//! that the journal still has: the values are written anew from the journal, while nothing is published, and synced
//! again. Until that succeeds nothing is settled, and the control file says so to later servers. Promises that a
//! segment is free only once the control file on the disk says that all of its frames are settled, and that the
//! publisher waits for a segment no longer than one checkpoint that began after it asked.

mod failed;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use super::super::clock;
use super::super::write_context::WriteContext;
use super::control::{Control, LiveSegment};
use super::kept;
use super::segment::{Segment, Segments};
use crate::failpoint;
use crate::value::Error;

/// The longest that a change waits for its checkpoint, and a failed checkpoint for the next: a file that a hand removes
/// within this time may come back after a cut of power.
fn interval() -> Duration {
    failpoint::interval("DATA_SERVER_CHECKPOINT", Duration::from_secs(5))
}

const MAKE_SEGMENT: &str = "make a segment of the journal";

/// The state that the publisher and the checkpoint's thread share.
#[derive(Debug)]
pub struct Checkpoints {
    pub journal: u128,
    /// The directory of the journal, held, locked, against another server.
    dir: OwnedFd,
    pub writer: Arc<WriteContext>,
    state: Mutex<CheckpointState>,
    /// Notified when there may be work for the checkpoint's thread, and when a round of it has ended.
    changed: Condvar,
    /// Held while the control file is written.
    control_lock: Mutex<()>,
    /// Sequence numbers of unsettled records that do not hold, though the log may not cancel them yet. The publisher
    /// holds the lock while it makes changes, and the checkpoint while it writes values anew.
    pub cancelled: Mutex<HashSet<u64>>,
}

/// The segments, and up to where changes are made and settled.
#[derive(Debug, Default)]
struct CheckpointState {
    /// The content of the control file, but for the segments in use.
    control: Control,
    segments: Segments,
    /// All changes before this number are made, or have failed.
    made: u64,
    /// The time of the next checkpoint, if there is anything to settle.
    due: Option<Instant>,
    /// The number of the last request for a round: the publisher waits for a segment, or until all is settled.
    wanted: u64,
    /// The last request before the last round that has ended.
    answered: u64,
    /// The error of the last checkpoint, if it failed, or of a segment that could not be made since. The next segment
    /// is made when the publisher waits for it.
    failure: Option<Error>,
    /// The value of `made` when reads were last refused.
    refused: u64,
    /// The time of the last round whose failures were logged. Those of a round within an interval of it are not, as
    /// refused writers ask for one round after the other.
    logged_at: Option<Instant>,
    /// True while the failures of this round are logged.
    logs_failures: bool,
    is_ended: bool,
}

/// What the thread does between two waits, as the state was when it began.
struct Round {
    wanted: u64,
    /// It settles all before this number, if anything.
    to: Option<u64>,
    is_last: bool,
}

impl CheckpointState {
    fn is_due(&self) -> bool {
        let is_due = |due| due <= Instant::now();
        self.is_wanted() || self.is_ended || self.due.is_some_and(is_due)
    }

    fn is_wanted(&self) -> bool {
        self.answered < self.wanted
    }

    fn lacks_one(&self) -> bool {
        let may_try = self.is_wanted() || self.failure.is_none();
        self.segments.lacks_one() && !self.is_ended && may_try
    }

    fn is_unsettled(&self) -> bool {
        self.made > self.control.settled || self.is_failing()
    }

    /// True while a failed write or sync is not made good.
    fn is_failing(&self) -> bool {
        self.control.is_suspect || self.segments.has_failed()
    }

    /// Logs a failure, unless `logs_failures` is off.
    fn log_failure(&mut self, what: &str, error: impl std::fmt::Display) {
        if self.logs_failures {
            tracing::error!(%error, "{what}");
            self.logged_at = Some(Instant::now());
        }
    }
}

impl Checkpoints {
    /// Writes `control`, which says that all is settled, and begins with these `free` segments.
    pub fn new(
        journal: u128,
        dir: OwnedFd,
        writer: Arc<WriteContext>,
        free: Vec<Arc<Segment>>,
        control: Control,
    ) -> Result<Self, Errno> {
        control.write(&dir, true)?;
        let state = CheckpointState {
            made: control.settled,
            control,
            segments: Segments::new(free),
            ..CheckpointState::default()
        };
        Ok(Self {
            journal,
            dir,
            writer,
            state: Mutex::new(state),
            changed: Condvar::new(),
            control_lock: Mutex::default(),
            cancelled: Mutex::default(),
        })
    }

    /// Writes the control file with `change`, which applies only once it is written.
    fn write_control(&self, durable: bool, change: impl Fn(&mut Control)) -> Result<(), Errno> {
        let _lock = self.control_lock.lock();
        let state = self.state.lock();
        let mut control = state.control.clone();
        control.time = clock::now();
        control.live = state.segments.used.iter().map(|(live, _)| *live).collect();
        drop(state);
        change(&mut control);
        control.write(&self.dir, durable)?;
        change(&mut self.state.lock().control);
        Ok(())
    }

    /// Takes a free segment for this generation, whose first record will be `first`. `opening`, its first frame, is on
    /// the disk before the control file names the segment: a segment without one is damage.
    pub fn take_segment(
        &self,
        generation: u64,
        first: u64,
        opening: &[u8],
    ) -> Result<Arc<Segment>, Error> {
        let segment = self.wait_for(MAKE_SEGMENT, |state| {
            let segment = state.segments.free.pop()?;
            // The segment before is full, and is freed as early as possible.
            if !state.segments.used.is_empty() {
                state.due = Some(Instant::now());
            }
            Some(segment)
        })?;
        self.changed.notify_all();
        let begun = segment.write(opening, 0).and_then(|()| segment.sync());
        let live = LiveSegment {
            generation,
            index: segment.index,
            first,
        };
        let mut state = self.state.lock();
        match begun {
            Ok(()) => state.segments.used.push((live, Arc::clone(&segment))),
            Err(_) => state.segments.spoiled.push(Arc::clone(&segment)),
        }
        drop(state);
        let begun = begun.and_then(|()| self.write_control(true, |_| ()));
        if let Err(errno) = begun {
            segment.retire();
            self.hurry();
            return Err(Error::new("begin a segment of the journal", errno));
        }
        Ok(segment)
    }

    /// Ends the use of `segment`, of which a write or a sync has failed: a checkpoint is due at once.
    pub fn retire(&self, segment: &Segment) {
        if segment.retire() {
            self.writer.journal.is_failing.store(true, Relaxed);
            self.writer.counters.journal.failures.add(1);
            tracing::error!(
                "the journal could not be written or synced: it goes on in another segment"
            );
        }
        self.hurry();
    }

    /// The files may lack what no record has: until a checkpoint has succeeded nothing is settled.
    pub fn distrust(&self) {
        self.state.lock().control.is_suspect = true;
        self.hurry();
    }

    fn hurry(&self) {
        self.state.lock().due = Some(Instant::now());
        self.changed.notify_all();
    }

    /// All changes before `end` are made, or have failed: a checkpoint settles them.
    pub fn made(&self, end: u64) {
        let mut state = self.state.lock();
        state.made = end;
        if state.due.is_none() {
            state.due = Some(Instant::now() + interval());
            self.changed.notify_all();
        }
    }

    /// True if the last segment in use was retired: a checkpoint removes it once another goes on after it.
    pub fn ends_retired(&self) -> bool {
        let state = self.state.lock();
        let last = state.segments.used.last();
        last.is_some_and(|(_, segment)| segment.is_retired())
    }

    /// Waits until a checkpoint has settled all that was made; fails where the next one fails. Blocks.
    pub fn checkpoint_all(&self) -> Result<(), Error> {
        self.wait_for("settle the journal", |state| {
            (!state.is_unsettled()).then_some(())
        })
    }

    /// Waits until `get` finds what it wants; fails while `doing` that, where a round has ended that began after this
    /// was called.
    fn wait_for<T>(
        &self,
        doing: &'static str,
        mut get: impl FnMut(&mut CheckpointState) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = self.state.lock();
        let mut got = get(&mut state);
        if got.is_none() {
            state.wanted += 1;
            let mine = state.wanted;
            self.changed.notify_all();
            let waits = |state: &mut CheckpointState| {
                got = get(state);
                got.is_none() && state.answered < mine
            };
            self.changed.wait_while(&mut state, waits);
        }
        let failure = state.failure.clone();
        got.ok_or_else(|| failure.unwrap_or_else(|| Error::new(doing, Errno::IO)))
    }

    /// The end of the settled log.
    pub fn settled(&self) -> u64 {
        self.state.lock().control.settled
    }

    /// Nothing more will be made.
    pub fn end(&self) {
        self.state.lock().is_ended = true;
        self.changed.notify_all();
    }

    /// Runs the thread until the journal ends; true if all was settled then.
    pub fn run(&self) -> bool {
        loop {
            let round = self.begin_round();
            let settled = round.to.is_none_or(|to| self.checkpoint(to));
            // The checkpoint may have removed a failed segment: the publisher that waits gets a new one.
            if self.state.lock().lacks_one() {
                self.make_segment();
            }
            self.end_round(&round);
            if round.is_last {
                return settled;
            }
        }
    }

    /// Waits for work.
    fn begin_round(&self) -> Round {
        let mut state = self.state.lock();
        while !state.is_due() && !state.lacks_one() {
            let left = |due: Instant| due.saturating_duration_since(Instant::now());
            let wait = state.due.map_or(Duration::MAX, left);
            self.changed.wait_for(&mut state, wait);
        }
        state.logs_failures = state.logged_at.is_none_or(|at| at.elapsed() >= interval());
        let mut to = None;
        if state.is_due() {
            state.due = None;
            to = state.is_unsettled().then_some(state.made);
        }
        Round {
            wanted: state.wanted,
            to,
            is_last: state.is_ended,
        }
    }

    /// Answers the requests from before the round began; one that came since waits for the next, as this one may not
    /// have settled what it asks for.
    fn end_round(&self, round: &Round) {
        self.state.lock().answered = round.wanted;
        self.changed.notify_all();
    }

    fn make_segment(&self) {
        let state = self.state.lock();
        let (index, size) = (state.segments.next_index, state.control.size);
        drop(state);
        let made = Segment::create(&self.dir, index, size);
        let mut state = self.state.lock();
        match made {
            Ok(segment) => state.segments.add(segment),
            Err(errno) => {
                state.failure.get_or_insert(Error::new(MAKE_SEGMENT, errno));
                state.log_failure("cannot make a segment of the journal", errno);
            }
        }
    }

    /// Settles all before `to`; false if that failed.
    fn checkpoint(&self, to: u64) -> bool {
        failpoint::reach("thread", "disk-checkpoint");
        let journal = &self.writer.counters.journal;
        let (began, appended) = (Instant::now(), journal.appended.get());
        if self.state.lock().is_failing() {
            // Before the kernel can drop it.
            self.refuse_reads();
        }
        if let Err(error) = self.write_files().and_then(|()| self.free(to)) {
            let what = "a checkpoint of the journal failed: its segments stay";
            self.state.lock().log_failure(what, &error);
            self.state.lock().failure = Some(error);
            self.fail();
            return false;
        }
        self.allow_reads();
        journal.checkpointed(began.elapsed(), appended);
        true
    }

    /// Puts the files of all published changes on the disk. Until then no server trusts what the kernel remembers of
    /// them.
    fn write_files(&self) -> Result<(), Error> {
        let has_failed = std::mem::replace(&mut self.state.lock().control.is_suspect, true);
        self.write_control(false, |_| ())
            .map_err(Error::errno_while("write the journal"))?;
        match self.writer.sync_files() {
            Ok(()) if !has_failed => return Ok(()),
            Ok(()) => {}
            // The error may be of a file that is not ours: the kernel does not say.
            Err(errno) => {
                self.fail();
                let what = "the file system could not write all files: those of the journal are written anew";
                self.state.lock().log_failure(what, errno);
            }
        }
        let kept = self.write_anew()?;
        let synced = self.writer.sync_files();
        synced.map_err(Error::unsynced("sync the file system"))?;
        if kept.is_empty() {
            return Ok(());
        }
        kept::write(&self.dir, self.journal, &kept)
    }

    /// Notes that all before `to` is in the files, on the disk, and frees the segments of it.
    fn free(&self, to: u64) -> Result<(), Error> {
        self.write_control(true, |control| {
            (control.settled, control.is_suspect) = (to, false);
        })
        .map_err(Error::errno_while("note what is settled"))?;
        self.cancelled.lock().retain(|record| *record >= to);
        self.state.lock().segments.free_settled(to, &self.dir);
        self.changed.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::store::{Directory, Options};

    /// A round ends later than its frames count as settled: what is asked for in between is not its to answer.
    #[test]
    fn a_request_is_answered_by_a_round_that_began_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(dir.path(), &Options::default()).unwrap();
        let journal = tempfile::tempdir().unwrap();
        let fd = OwnedFd::from(std::fs::File::open(journal.path()).unwrap());
        let writer = Arc::clone(directory.writer().unwrap());
        let log = Checkpoints::new(1, fd, writer, Vec::new(), Control::default()).unwrap();
        let until = |is_so: &dyn Fn(&CheckpointState) -> bool| {
            while !is_so(&log.state.lock()) {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            log.made(1);
            let first = scope.spawn(|| log.checkpoint_all());
            until(&|state| state.wanted == 1);
            let round = log.begin_round();
            assert!(log.checkpoint(round.to.unwrap()));
            first.join().unwrap().unwrap();
            log.made(2);
            let second = scope.spawn(|| log.checkpoint_all());
            until(&|state| state.wanted == 2);
            log.end_round(&round);
            assert!(log.state.lock().is_wanted());
            let round = log.begin_round();
            assert!(log.checkpoint(round.to.unwrap()));
            second.join().unwrap().unwrap();
            // A segment that cannot be had is waited for no longer than a round.
            let third = scope.spawn(|| log.take_segment(1, 2, &[]).map(drop));
            until(&|state| state.wanted == 3);
            log.end_round(&round);
            assert!(log.state.lock().is_wanted());
            log.end_round(&log.begin_round());
            assert!(third.join().unwrap().is_err());
        });
    }
}
