//! What the publisher and the checkpoint share: which segments are free, up to where changes are published, and who waits.
//!
//! Promises that a segment is free only once all of its frames are settled, and that the publisher waits for one no longer than
//! a checkpoint takes that began after it asked.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::control::Position;
use super::log::Used;
use super::segment::Segment;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    for_checkpoint: Condvar,
    for_publisher: Condvar,
    /// Held by the publisher while it publishes, and by the checkpoint while it writes values anew.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct State {
    free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    used: Vec<Used>,
    /// Generations of segments whose sync has failed: they are used no more.
    retired: Vec<u64>,
    /// How many there may be.
    most: usize,
    next_index: u32,
    published: Position,
    settled: Position,
    /// Values that are in no frame were published since the last checkpoint, and nothing else syncs them.
    has_unsynced: bool,
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
    /// What [`Shared::answer`] is to be told.
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
        let has_any = self.published.number > self.settled.number
            || self.has_unsynced
            || !self.retired.is_empty();
        self.due = None;
        self.has_unsynced = false;
        has_any.then_some(self.published)
    }
}

impl Shared {
    /// With these segments, and at most `most`; the journal goes on at `from`.
    pub(super) fn new(free: Vec<Arc<Segment>>, most: usize, from: Position) -> Self {
        let next_index = free.iter().map(|s| s.index() + 1).max().unwrap_or(0);
        let state = State {
            free,
            used: Vec::new(),
            retired: Vec::new(),
            most,
            next_index,
            published: from,
            settled: from,
            has_unsynced: false,
            due: None,
            asks: 0,
            answered: 0,
            refusal: None,
            is_ended: false,
        };
        Self {
            state: Mutex::new(state),
            for_checkpoint: Condvar::new(),
            for_publisher: Condvar::new(),
            turn: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While it is held, changes are published by its holder alone.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free segment, for this generation, whose first frame will have the number `first`; and how long it was waited for.
    pub(super) fn take(
        &self,
        generation: u64,
        first: u64,
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
        Ok((segment, began.elapsed()))
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

    /// All changes before `position` are published, and if it `has_unsynced` some that are in no frame and that nothing else
    /// syncs; they are to be settled within this time.
    pub(super) fn publish(&self, position: Position, has_unsynced: bool, within: Duration) {
        let mut state = self.state();
        state.published = position;
        state.has_unsynced |= has_unsynced;
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

    /// The segments with frames that are not settled, up to where those are that are, and up to where changes are published.
    pub(super) fn unsettled(&self) -> (Vec<Used>, Position, Position) {
        let state = self.state();
        (state.used.clone(), state.settled, state.published)
    }

    /// All before `position` is in the files, on the disk. Answers the segments that are used no more.
    pub(super) fn settle(&self, position: Position) -> Vec<Arc<Segment>> {
        let mut state = self.state();
        state.settled = position;
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
        gone
    }

    /// A segment was made, or could not be.
    pub(super) fn made(&self, made: Result<Segment, Errno>) {
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

    /// Nothing more will be published.
    pub(super) fn end(&self) {
        self.state().is_ended = true;
        self.for_checkpoint.notify_one();
    }

    /// Bytes of frames that are not settled, at least.
    pub(super) fn unsettled_bytes(&self) -> u64 {
        let state = self.state();
        let between = state.used.iter().filter(|used| {
            (state.settled.generation..state.published.generation).contains(&used.generation)
        });
        let between: u64 = between.map(|used| used.segment.size()).sum();
        (between + state.published.offset).saturating_sub(state.settled.offset)
    }
}
