//! What the log says of each key, and what a replay makes of the file that it finds. Pure.
//!
//! Order is that of the log alone. A file is the server's own if its version is in the log, as what a change made or as what it
//! replaced. Any other was there before the change, where a hand had replaced or removed it and the disk does not know that, if the
//! file system has not changed it since; else a hand has placed it later, whatever its date, and it stays. A large value that is not in its file was not answered,
//! as its name was not on the disk: then the change before it counts. A missing file is restored: names that a hand
//! gave may be lost with the power too.

use std::collections::{HashMap, HashSet};

use super::super::meta::Version;
use super::format::{Change, Operation, Record};

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
    pub(in crate::store) fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Cancel(sequence) => {
                self.cancelled.insert(*sequence);
            }
            Record::Change(change) => {
                let step = Step {
                    sequence: change.sequence,
                    base: change.base,
                    result: result(&change.operation),
                    is_large: matches!(change.operation, Operation::Large(_)),
                };
                match self.keys.get_mut(change.key) {
                    Some(steps) => steps.push(step),
                    None => drop(self.keys.insert(change.key.into(), vec![step])),
                }
            }
        }
    }

    /// The change with this sequence number was not made.
    pub(in crate::store) fn cancel(&mut self, sequence: u64) {
        self.cancelled.insert(sequence);
    }

    /// Whether `change` decides what its key stands for, as far as the log tells without the file.
    pub(in crate::store) fn may_count(&self, change: &Change<'_>) -> bool {
        let is_small = !matches!(change.operation, Operation::Large(_));
        is_small
            && !self.cancelled.contains(&change.sequence)
            && self.later(change).all(|step| step.is_large)
    }

    /// What is to be made of the file with the version `found`, where `change` [may count](Self::may_count).
    pub(in crate::store) fn fate(&self, change: &Change<'_>, found: Option<Version>) -> Fate {
        let result = result(&change.operation);
        if found.is_none() {
            return if result.is_none() {
                Fate::Stays
            } else {
                Fate::Made
            };
        }
        if found == result {
            return Fate::Compared;
        }
        let steps = self.steps(change.key);
        let after = steps.partition_point(|step| step.sequence <= change.sequence);
        let (before, later) = steps.split_at(after);
        // A large value that came later, or what a later change was to replace.
        let stands =
            |step: &Step| step.base == found || step.result == found && !self.is_cancelled(step);
        let is_ours = |step: &Step| step.base == found || step.result == found;
        if later.iter().any(stands) {
            Fate::Stays
        } else if before.iter().chain(later).any(is_ours) {
            Fate::Made
        } else {
            Fate::Foreign
        }
    }

    /// Whether a file that is [`Fate::Foreign`], and that the file system changed last at this time, stood there before `change`.
    pub(in crate::store) fn is_older(change: &Change<'_>, changed: i64) -> bool {
        changed <= change.time
    }

    /// Those after `change` of its key that were not cancelled, the last one first.
    fn later(&self, change: &Change<'_>) -> impl Iterator<Item = &Step> {
        let sequence = change.sequence;
        let later = self.steps(change.key).iter().rev();
        let later = later.take_while(move |step| step.sequence > sequence);
        later.filter(|step| !self.is_cancelled(step))
    }

    fn steps(&self, key: &str) -> &[Step] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    fn is_cancelled(&self, step: &Step) -> bool {
        self.cancelled.contains(&step.sequence)
    }
}

/// The version that a change gives its key.
fn result(operation: &Operation<'_>) -> Option<Version> {
    match operation {
        Operation::Put(version, ..) | Operation::Large(version) => Some(*version),
        Operation::Delete => None,
    }
}
