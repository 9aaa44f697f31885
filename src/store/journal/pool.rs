//! The segments of a journal, which of them are free, up to where changes are made and settled, and what is to be done next. Pure: the
//! publisher and the checkpoint share it, under one lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::control::{self, Live};
use super::segment::Segment;

/// A segment with frames.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) live: Live,
    pub(super) segment: Arc<Segment>,
    /// Its writes or syncs have failed: it is used no more.
    pub(super) is_retired: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    /// What the control file says, but for what `used` does.
    pub(super) said: control::State,
    pub(super) free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    pub(super) used: Vec<Used>,
    pub(super) next_index: u32,
    /// All changes before this one are made, but for those that are `cancelled`.
    pub(super) made: u64,
    /// The sequence numbers of changes that were not made, of those that are not settled.
    pub(super) cancelled: Vec<u64>,
    /// When a checkpoint is due, if there is anything for it.
    pub(super) due: Option<Instant>,
    /// How often a segment was asked for that was not there, and how many of these have been answered.
    pub(super) asks: u64,
    pub(super) answered: u64,
    /// Why there is no further segment.
    pub(super) refusal: Option<Errno>,
    pub(super) is_ended: bool,
}

/// What the checkpoint is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Up to where it settles, if it does.
    pub(super) settle: Option<u64>,
    /// The index of the segment that it makes, if it makes one.
    pub(super) make: Option<u32>,
    /// How many asks for a segment are met then as well as can be.
    pub(super) asks: u64,
    /// It is the last.
    pub(super) is_last: bool,
}

impl Pool {
    /// All is settled that the control file says, and these segments are `free`.
    pub(super) fn new(said: control::State, free: Vec<Arc<Segment>>) -> Self {
        Self {
            next_index: free.iter().map(|s| s.index() + 1).max().unwrap_or(0),
            made: said.settled,
            said,
            free,
            used: Vec::new(),
            cancelled: Vec::new(),
            due: None,
            asks: 0,
            answered: 0,
            refusal: None,
            is_ended: false,
        }
    }

    /// What is to be done `now`, where there may be so many segments at `most`; `None` where there is nothing.
    pub(super) fn task(&mut self, now: Instant, most: usize) -> Option<Task> {
        let is_asked = self.asks > self.answered;
        let may_settle = is_asked || self.is_ended || self.due.is_some_and(|due| due <= now);
        let lacks = self.free.is_empty() && self.used.len() < most && !self.is_ended;
        let makes = lacks && (is_asked || self.refusal.is_none());
        (may_settle || makes).then(|| Task {
            settle: if may_settle { self.take_due() } else { None },
            make: makes.then_some(self.next_index),
            asks: self.asks,
            is_last: self.is_ended,
        })
    }

    /// A checkpoint is due within this time.
    pub(super) fn hurry(&mut self, within: Duration) {
        let due = Instant::now() + within;
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Up to where there is something to settle; what comes later is due anew.
    fn take_due(&mut self) -> Option<u64> {
        let has_any = self.made > self.said.settled
            || self.said.is_suspect
            || self.used.iter().any(|used| used.is_retired);
        self.due = None;
        has_any.then_some(self.made)
    }

    /// Takes the segments away of which all is settled: those before the one that goes on from there.
    pub(super) fn take_settled(&mut self) -> Vec<Used> {
        let settled = self.said.settled;
        let later = self.used.iter().skip(1);
        let count = later.take_while(|used| used.live.first <= settled).count();
        self.used.drain(..count).collect()
    }
}
