//! What the publisher and the checkpoint share: which segments are free, up to where changes are made, what the control file says of
//! both, and who waits.
//!
//! Promises that a segment is free only once all of its frames are settled, also by the control file on the disk, and that the publisher
//! waits for one no longer than a checkpoint takes that began after it asked.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::control::{self, Control, DirId, Live, Position, now};
use super::segment::Segment;

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    control: Mutex<Control>,
    for_checkpoint: Condvar,
    for_publisher: Condvar,
    /// Held by the publisher while it makes changes, and by the checkpoint while it writes values anew.
    turn: Mutex<()>,
}

/// A segment with frames.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) generation: u64,
    /// The sequence number of its first record.
    pub(super) first: u64,
    pub(super) segment: Arc<Segment>,
}

#[derive(Debug)]
struct State {
    epoch: u64,
    dir: DirId,
    /// Bytes of each segment.
    size: u64,
    free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    used: Vec<Used>,
    /// Generations of segments whose sync has failed: they are used no more.
    retired: Vec<u64>,
    /// How many there may be.
    most: usize,
    next_index: u32,
    made: Position,
    settled: Position,
    /// The sequence numbers of changes that were not made, of those that are not settled.
    cancelled: Vec<u64>,
    /// A checkpoint has begun and not succeeded.
    is_suspect: bool,
    /// When a checkpoint is due, if there is anything for it.
    due: Option<Instant>,
    /// How often a segment was asked for that was not there, and how many of these have been answered.
    asks: u64,
    answered: u64,
    /// Why there is no further segment.
    refusal: Option<Errno>,
    is_ended: bool,
}

/// What the checkpoint is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Up to where it settles, if it does.
    pub(super) settle: Option<Position>,
    /// The index of the segment that it makes, if it makes one.
    pub(super) make: Option<u32>,
    /// What [`Pool::answer`] is to be told.
    pub(super) asks: u64,
    /// It is the last.
    pub(super) is_last: bool,
}

impl State {
    /// Whether a further segment is wanted, and allowed.
    fn lacks_segment(&self) -> bool {
        self.free.is_empty() && self.used.len() < self.most && !self.is_ended
    }

    /// Up to where there is something to settle; what comes later is due anew.
    fn take_due(&mut self) -> Option<Position> {
        let has_any = self.made.sequence > self.settled.sequence
            || self.is_suspect
            || !self.retired.is_empty();
        self.due = None;
        has_any.then_some(self.made)
    }

    /// What the control file is to say.
    fn said(&self) -> control::State {
        let live = |used: &Used| Live {
            generation: used.generation,
            index: used.segment.index(),
            first: used.first,
        };
        control::State {
            epoch: self.epoch,
            dir: self.dir,
            time: now(),
            settled: self.settled,
            size: self.size,
            is_suspect: self.is_suspect,
            live: self.used.iter().map(live).collect(),
        }
    }
}

impl Pool {
    /// With these segments of `size` bytes, and at most `most`; the journal goes on at `from` in this `epoch`, which the control
    /// file says at once.
    pub(super) fn new(
        free: Vec<Arc<Segment>>,
        most: usize,
        size: u64,
        epoch: u64,
        from: Position,
        dir: &OwnedFd,
    ) -> Result<Self, Errno> {
        let control = Control::open(dir)?;
        let next_index = free.iter().map(|s| s.index() + 1).max().unwrap_or(0);
        let state = State {
            epoch,
            dir: DirId::of(dir)?,
            size,
            free,
            used: Vec::new(),
            retired: Vec::new(),
            most,
            next_index,
            made: from,
            settled: from,
            cancelled: Vec::new(),
            is_suspect: false,
            due: None,
            asks: 0,
            answered: 0,
            refusal: None,
            is_ended: false,
        };
        control.write_durably(&state.said())?;
        Ok(Self {
            state: Mutex::new(state),
            control: Mutex::new(control),
            for_checkpoint: Condvar::new(),
            for_publisher: Condvar::new(),
            turn: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the control file say how things stand, as `write` writes it.
    fn note(
        &self,
        write: impl FnOnce(&Control, &control::State) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let said = self.state().said();
        write(&control, &said)
    }

    /// While it is held, changes are made by its holder alone.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free segment, for this generation, whose first record will be `first`, and how long it was waited for. Its first frame is
    /// `opening`, and the control file says that it is used, once that is on the disk: one that cannot be read is damage.
    pub(super) fn take(
        &self,
        generation: u64,
        first: u64,
        opening: &[u8],
    ) -> Result<(Arc<Segment>, Duration), Errno> {
        let began = Instant::now();
        let mut state = self.state();
        if state.free.is_empty() {
            state.asks += 1;
            let asked = state.asks;
            self.for_checkpoint.notify_one();
            state = self
                .for_publisher
                .wait_while(state, |s| s.free.is_empty() && s.answered < asked)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let Some(segment) = state.free.pop() else {
            return Err(state.refusal.unwrap_or(Errno::NOSPC));
        };
        // The one before is full: it is freed as early as can be.
        if !state.used.is_empty() {
            state.due = Some(began);
        }
        self.for_checkpoint.notify_one();
        state.used.push(Used {
            generation,
            first,
            segment: Arc::clone(&segment),
        });
        drop(state);
        let waited = began.elapsed();
        let opened = segment.write(opening, 0).and_then(|()| segment.sync());
        match opened.and_then(|()| self.note(Control::write_durably)) {
            Ok(()) => Ok((segment, waited)),
            Err(errno) => {
                self.retire(generation);
                Err(errno)
            }
        }
    }

    /// The segment of this generation is written and synced no more: a checkpoint is due at once. False if that was said before.
    pub(super) fn retire(&self, generation: u64) -> bool {
        let mut state = self.state();
        let is_new = !state.retired.contains(&generation);
        if is_new {
            state.retired.push(generation);
        }
        state.due = Some(Instant::now());
        self.for_checkpoint.notify_one();
        is_new
    }

    /// All changes before `position` are made, but for those that are `cancelled`; they are to be settled within this time.
    pub(super) fn made(&self, position: Position, cancelled: &[u64], within: Duration) {
        let mut state = self.state();
        state.made = position;
        state.cancelled.extend(cancelled);
        // What was retired is needed until what follows it is settled.
        let within = if state.retired.is_empty() {
            within
        } else {
            Duration::ZERO
        };
        let due = Instant::now() + within;
        if state.due.is_none_or(|before| due < before) {
            state.due = Some(due);
            self.for_checkpoint.notify_one();
        }
    }

    /// Up to where the log is settled.
    pub(super) fn settled(&self) -> u64 {
        self.state().settled.sequence
    }

    /// A checkpoint begins: until it has settled what it found, nothing that the kernel remembers of the files is trusted, by no later
    /// server either. Whether one before it has failed.
    pub(super) fn suspect(&self) -> Result<bool, Errno> {
        let was = std::mem::replace(&mut self.state().is_suspect, true);
        self.note(Control::write).map(|()| was)
    }

    /// A checkpoint has failed, which the control file says on the disk. The next one is due after this time.
    pub(super) fn fail(&self, again_after: Duration) {
        self.state().due.get_or_insert(Instant::now() + again_after);
        if let Err(errno) = self.note(Control::write_durably) {
            tracing::error!(error = %errno, "cannot note that a checkpoint of the journal failed");
        }
    }

    /// What the checkpoint is to do next, once there is something.
    pub(super) fn task(&self) -> Task {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let is_asked = state.asks > state.answered;
            let may_settle = is_asked || state.is_ended || state.due.is_some_and(|due| due <= now);
            let lacks = state.lacks_segment() && (is_asked || state.refusal.is_none());
            if may_settle || lacks {
                return Task {
                    settle: if may_settle { state.take_due() } else { None },
                    make: lacks.then_some(state.next_index),
                    asks: state.asks,
                    is_last: state.is_ended,
                };
            }
            let wait = state.due.map_or(Duration::MAX, |due| due - now);
            let waited = self.for_checkpoint.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The segments with frames that are not settled, from where to where their changes are made, and which are not.
    pub(super) fn unsettled(&self) -> (Vec<Used>, Position, Position, Vec<u64>) {
        let state = self.state();
        let cancelled = state.cancelled.clone();
        (state.used.clone(), state.settled, state.made, cancelled)
    }

    /// All before `position` is in the files, on the disk. Answers the segments that are used no more.
    pub(super) fn settle(&self, position: Position) -> Result<Vec<Arc<Segment>>, Errno> {
        let mut state = self.state();
        state.settled = position;
        state.is_suspect = false;
        drop(state);
        self.note(Control::write_durably)?;
        let mut state = self.state();
        state.cancelled.retain(|&of| of >= position.sequence);
        let mut gone = Vec::new();
        let used = std::mem::take(&mut state.used);
        for used in used {
            if used.generation >= position.generation {
                state.used.push(used);
                continue;
            }
            let is_retired = state.retired.contains(&used.generation);
            let to = if is_retired {
                &mut gone
            } else {
                &mut state.free
            };
            to.push(used.segment);
        }
        state.retired.retain(|&of| of >= position.generation);
        state.refusal = None;
        self.for_publisher.notify_one();
        Ok(gone)
    }

    /// A segment was made, or could not be.
    pub(super) fn add(&self, made: Result<Segment, Errno>) {
        let mut state = self.state();
        match made {
            Ok(segment) => {
                state.next_index = state.next_index.max(segment.index() + 1);
                state.free.push(Arc::new(segment));
            }
            Err(errno) => state.refusal = Some(errno),
        }
        self.for_publisher.notify_one();
    }

    /// So many asks for a segment were met as well as could be.
    pub(super) fn answer(&self, asks: u64) {
        self.state().answered = asks;
        self.for_publisher.notify_one();
    }

    /// Nothing more will be made.
    pub(super) fn end(&self) {
        self.state().is_ended = true;
        self.for_checkpoint.notify_one();
    }

    /// Bytes of frames that are not settled, at least.
    pub(super) fn unsettled_bytes(&self) -> u64 {
        let state = self.state();
        let between = state.used.iter().filter(|used| {
            (state.settled.generation..state.made.generation).contains(&used.generation)
        });
        let between: u64 = between.map(|used| used.segment.size()).sum();
        (between + state.made.offset).saturating_sub(state.settled.offset)
    }
}
