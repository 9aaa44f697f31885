//! A group of changes that one frame of the journal holds: decided, appended, written to files while it is synced, and made.
//!
//! Promises that a change is made only once the journal has it, and that the journal has no change that was refused. A change
//! that turns out not to be possible after it was appended is cancelled there before its writer hears of it. Of two changes of one key in
//! one group the second is decided again when it is made, so it sees the first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::error::Error;
use super::super::journal::{FrameBuilder, Journal, Mark};
use super::change::{Change, Made};
use super::commit::Committer;
use super::plan::Plan;

/// Makes as many of the `changes` as one frame takes. Those for which there is no outcome have panicked.
pub(super) fn make(
    committer: &Committer,
    journal: &mut Journal,
    changes: &mut impl Iterator<Item = Change>,
) -> Vec<Made> {
    let mut frame = FrameBuilder::new();
    let mut made = Vec::new();
    let mut group = Vec::new();
    while !frame.is_full()
        && let Some(mut change) = changes.next()
    {
        match survive(|| committer.plan(&mut change)) {
            None => {}
            Some(Err(error)) => made.push(change.refuse(error)),
            Some(Ok(None)) => made.push(change.unchanged(Ok(None))),
            Some(Ok(Some(plan))) => {
                record(&mut frame, &change, &plan);
                group.push((change, plan));
            }
        }
    }
    if group.is_empty() {
        return made;
    }
    let has_large = group.iter().any(|(_, plan)| !plan.is_journaled);
    journal.names().move_to(&mut frame);
    match appended(committer, journal, frame, group) {
        Err((error, group)) => {
            let refused = group
                .into_iter()
                .map(|change| change.refuse(unmade(&error)));
            made.extend(refused);
        }
        Ok(group) => {
            let turns = journal.turns();
            let turn = turns.take();
            let mut cancelled = FrameBuilder::new();
            let before = made.len();
            for (staged, plan) in group {
                made.extend(publish(committer, staged, &plan, &mut cancelled));
            }
            cancel(journal, cancelled, &mut made[before..]);
            journal.published(has_large);
            drop(turn);
        }
    }
    made
}

/// A change whose file is written, or why that failed.
type Staged = Result<Change, (Change, Error)>;

/// Why a group is not made, and its changes.
type Unmade = (Error, Vec<Change>);

/// The `group`, on the disk in `frame` where that is promised, and its files written; else its changes, and why.
fn appended(
    committer: &Committer,
    journal: &mut Journal,
    frame: FrameBuilder,
    group: Vec<(Change, Plan)>,
) -> Result<Vec<(Staged, Plan)>, Unmade> {
    let changes =
        |group: Vec<(Change, Plan)>| group.into_iter().map(|(change, _)| change).collect();
    let is_written = !frame.is_empty();
    if is_written && let Err(error) = journal.append(frame) {
        return Err((error, changes(group)));
    }
    let stage = |(mut change, plan): (Change, Plan)| {
        let staged = survive(|| committer.stage(&mut change, &plan))?;
        let staged = match staged {
            Ok(()) => Ok(change),
            Err(error) => Err((change, error)),
        };
        Some((staged, plan))
    };
    let staged: Vec<_> = group.into_iter().filter_map(stage).collect();
    let synced = if is_written { journal.synced() } else { Ok(()) };
    match synced {
        Ok(()) => Ok(staged),
        Err(error) => {
            let change = |(staged, _)| match staged {
                Ok(change) | Err((change, _)) => change,
            };
            Err((error, staged.into_iter().map(change).collect()))
        }
    }
}

fn publish(
    committer: &Committer,
    staged: Staged,
    plan: &Plan,
    cancelled: &mut FrameBuilder,
) -> Option<Made> {
    let made = match staged {
        Ok(change) => survive(|| committer.make(change))?,
        Err((change, error)) => change.refuse(error),
    };
    if plan.is_journaled
        && let (Err(_), Some(key)) = (&made.outcome, &made.key)
    {
        cancelled.mark(Mark::Cancelled, key.as_str(), plan.version);
    }
    Some(made)
}

/// Has the journal know what was not made. Where it cannot, that is not known after a cut of power.
fn cancel(journal: &mut Journal, cancelled: FrameBuilder, made: &mut [Made]) {
    if cancelled.is_empty() {
        return;
    }
    if let Err(error) = journal.cancel(cancelled) {
        for made in made.iter_mut().filter(|made| made.outcome.is_err()) {
            made.outcome = Err(unmade(&error));
        }
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
