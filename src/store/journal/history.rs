//! What the log says of each key, and what a replay makes of the file that it finds. Pure.
//!
//! Order is that of the log alone. A file is the server's own if its version is in the log, as what a change made or as what it
//! replaced. Any other was there before the change, where a hand had replaced or removed it and the disk does not know that, if the
//! file system has not changed it since; else a hand has placed it later, whatever its date, and it stays. A large value that is not in its file was not answered,
//! as its name was not on the disk: then the change before it counts. A missing file is restored: names that a hand
//! gave may be lost with the power too.

use std::collections::{HashMap, HashSet};

use super::super::meta::Version;
use super::format::{Change, Record};

/// The changes of a log, by key.
#[derive(Debug, Default)]
pub(in crate::store) struct History {
    keys: HashMap<Box<str>, Vec<Step>>,
    cancelled: HashSet<u64>,
}

/// A change, without its value.
#[derive(Clone, Copy, Debug)]
struct Step {
    sequence: u64,
    base: Option<Version>,
    result: Option<Version>,
    is_large: bool,
}

/// What is to be made of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Fate {
    /// Nothing: it is as the log says, or an earlier record is looked at.
    Stays,
    /// It has the version of the record: its bytes may be torn.
    Compared,
    /// The record is made of it.
    Made,
    /// The log does not know it: a hand has placed it, or it is [older](History::is_older).
    Foreign,
}

impl History {
    /// Takes the next record of the log.
    pub(in crate::store) fn add(&mut self, record: &Record) {
        match record {
            Record::Cancel(sequence) => drop(self.cancelled.insert(*sequence)),
            Record::Change(change) => {
                let steps = self.keys.entry(change.key.as_str().into()).or_default();
                steps.push(Step {
                    sequence: change.sequence,
                    base: change.base,
                    result: change.result,
                    is_large: change.is_large(),
                });
            }
        }
    }

    /// Whether `change` decides what its key stands for, as far as the log tells without the file.
    pub(in crate::store) fn may_count(&self, change: &Change) -> bool {
        let (_, later) = self.around(change);
        let is_over = |step: &Step| step.is_large || self.is_cancelled(step.sequence);
        !change.is_large() && !self.is_cancelled(change.sequence) && later.iter().all(is_over)
    }

    /// What is to be made of the file with the version `found`, where `change` [may count](Self::may_count).
    pub(in crate::store) fn fate(&self, change: &Change, found: Option<Version>) -> Fate {
        match (found, change.result) {
            (None, None) => return Fate::Stays,
            (None, Some(_)) => return Fate::Made,
            (found, result) if found == result => return Fate::Compared,
            _ => {}
        }
        let (before, later) = self.around(change);
        let is_ours = |step: &Step| step.base == found || step.result == found;
        // A large value that came later, or what a later change was to replace.
        let stands =
            |step: &Step| step.base == found || is_ours(step) && !self.is_cancelled(step.sequence);
        if later.iter().any(stands) {
            Fate::Stays
        } else if before.iter().chain(later).any(is_ours) {
            Fate::Made
        } else {
            Fate::Foreign
        }
    }

    /// Whether a file that is [`Fate::Foreign`], and that the file system changed last at this time, stood there before `change`.
    pub(in crate::store) fn is_older(change: &Change, changed: i64) -> bool {
        changed <= change.time
    }

    /// The changes of its key up to `change`, and those after it.
    fn around(&self, change: &Change) -> (&[Step], &[Step]) {
        let steps = self.keys.get(change.key.as_str());
        let steps = steps.map_or(&[][..], Vec::as_slice);
        steps.split_at(steps.partition_point(|step| step.sequence <= change.sequence))
    }

    fn is_cancelled(&self, sequence: u64) -> bool {
        self.cancelled.contains(&sequence)
    }
}
