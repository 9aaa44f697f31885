//! A group of changes that one frame of the journal holds: decided, appended, written to files while it is synced, and made.
//!
//! Promises that a change is made only once the journal has it, and that the journal has no change that was refused. A change
//! that turns out not to be possible after it was appended is cancelled there before its writer hears of it. Between deciding
//! and making, other changes of the same keys may be made, also of the same group: so each is decided again when it is made.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::error::Error;
use super::super::journal::{FrameBuilder, Journal, Mark, Position};
use super::change::{Change, Made};
use super::commit::Committer;
use super::plan::Plan;

/// See the module.
pub(super) struct Group {
    /// How many were taken. Those that are in none of the lists have panicked.
    taken: usize,
    refused: Vec<Made>,
    /// Refused after they were appended, which the journal is told by the frame of this group.
    cancelled: Vec<Made>,
    changes: Vec<(Staged, Plan)>,
    is_staged: bool,
    /// Of its frame.
    bytes: u64,
    /// Where its frame ends, or the one before it if it has none; `None` where the journal is not waited for.
    end: Option<Position>,
}

/// A change, whose file is written once its group is staged; or why that failed.
type Staged = Result<Change, (Change, Error)>;

impl Group {
    /// Decides as many of `changes` as one frame takes, at most so many, and fills `frame` with what the journal is to know.
    pub(super) fn gather(
        committer: &Committer,
        changes: &mut impl Iterator<Item = Change>,
        most: usize,
        frame: &mut FrameBuilder,
    ) -> Self {
        let mut group = Self {
            taken: 0,
            refused: Vec::new(),
            cancelled: Vec::new(),
            changes: Vec::new(),
            is_staged: false,
            bytes: 0,
            end: None,
        };
        let may_change = committer.check();
        while group.taken < most
            && !frame.is_full()
            && let Some(change) = changes.next()
        {
            group.taken += 1;
            match may_change {
                Ok(()) => group.decide(committer, change, frame),
                Err(error) => group.refused.push(change.refuse(error.into())),
            }
        }
        group
    }

    fn decide(&mut self, committer: &Committer, mut change: Change, frame: &mut FrameBuilder) {
        match survive(|| committer.plan(&mut change)) {
            None => {}
            Some(Err(error)) => self.refused.push(change.refuse(error)),
            Some(Ok(None)) => self.refused.push(change.unchanged(Ok(None))),
            Some(Ok(Some(plan))) => {
                record(frame, &change, &plan);
                self.changes.push((Ok(change), plan));
            }
        }
    }

    /// How many changes it has, made or not.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Its frame is appended, if it has one.
    pub(super) fn appended(&mut self, end: Position, bytes: u64) {
        self.end = Some(end);
        self.bytes = bytes;
    }

    pub(super) fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Whether it may be made: its files are written, and the journal has it.
    pub(super) fn is_ready(&self, journal: &Journal) -> bool {
        self.is_staged && self.is_synced(journal)
    }

    /// Whether the journal has it, or is not waited for.
    pub(super) fn is_synced(&self, journal: &Journal) -> bool {
        self.end.is_none_or(|end| journal.is_synced(end))
    }

    /// Nothing of it is made, as the journal does not have it.
    pub(super) fn refuse(&mut self, error: &Error) {
        self.end = None;
        for (change, _) in self.changes.drain(..) {
            let (Ok(change) | Err((change, _))) = change;
            self.refused.push(change.refuse(unmade(error)));
        }
        // Whether these count after a cut of power is not known.
        for made in &mut self.cancelled {
            made.outcome = Err(unmade(error));
        }
    }

    /// Writes the files of its values.
    pub(super) fn stage(&mut self, committer: &Committer) {
        let changes = std::mem::take(&mut self.changes);
        let stage = |(change, plan): (Staged, Plan)| {
            let mut change = match change {
                Ok(change) => change,
                failed => return Some((failed, plan)),
            };
            let staged = match survive(|| committer.stage(&mut change, &plan))? {
                Ok(()) => Ok(change),
                Err(error) => Err((change, error)),
            };
            Some((staged, plan))
        };
        self.changes = changes.into_iter().filter_map(stage).collect();
        self.is_staged = true;
    }

    /// Makes what the journal has on the disk, and answers what was made of how many, and the group of what is to be cancelled
    /// before its writers hear of it. Those for which there is no outcome have panicked.
    pub(super) fn make(
        mut self,
        committer: &Committer,
        journal: &mut Journal,
    ) -> (usize, Vec<Made>, Option<Self>) {
        let mut done = std::mem::take(&mut self.refused);
        done.append(&mut self.cancelled);
        let Some(end) = self.end else {
            return (self.taken, done, None);
        };
        let has_large = self.changes.iter().any(|(_, plan)| !plan.is_journaled);
        let turns = journal.turns();
        let turn = turns.take();
        let mut frame = FrameBuilder::new();
        let mut cancelled = Vec::new();
        for (staged, plan) in self.changes.drain(..) {
            let Some(made) = publish(committer, staged) else {
                continue;
            };
            match &made.key {
                Some(key) if made.outcome.is_err() && plan.is_journaled => {
                    frame.mark(Mark::Cancelled, key.as_str(), plan.version);
                    cancelled.push(made);
                }
                _ => done.push(made),
            }
        }
        let cancel = (!cancelled.is_empty()).then(|| Self::cancel(journal, frame, cancelled));
        journal.published(end, self.bytes, has_large);
        drop(turn);
        let told_later = cancel.as_ref().map_or(0, |cancel| cancel.taken);
        (self.taken - told_later, done, cancel)
    }

    fn cancel(journal: &mut Journal, frame: FrameBuilder, cancelled: Vec<Made>) -> Self {
        let mut group = Self {
            taken: cancelled.len(),
            refused: Vec::new(),
            cancelled,
            changes: Vec::new(),
            is_staged: true,
            bytes: 0,
            end: None,
        };
        match journal.cancel(frame) {
            Ok(end) => group.end = Some(end),
            Err(error) => group.refuse(&error),
        }
        group
    }
}

/// `None` is a panic.
fn publish(committer: &Committer, staged: Staged) -> Option<Made> {
    match staged {
        Ok(change) => survive(|| committer.make(change)),
        Err((change, error)) => Some(change.refuse(error)),
    }
}

fn record(frame: &mut FrameBuilder, change: &Change, plan: &Plan) {
    let key = change.key.as_str();
    match &change.value {
        None => frame.mark(Mark::Deleted, key, plan.version),
        Some(value) => {
            if let Some((attributes, runs)) = value.in_memory() {
                frame.put(key, plan.version, attributes, runs);
            }
        }
    }
}

/// The same failure, for each of a group.
fn unmade(error: &Error) -> Error {
    match error {
        Error::NoSpace { reason } => Error::NoSpace { reason },
        Error::Exhausted { reason } => Error::Exhausted { reason },
        other => Error::Failed {
            doing: "write the journal",
            source: std::io::Error::other(other.to_string()),
        },
    }
}

/// A panic costs this change alone, whose writer hears that it failed.
fn survive<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
