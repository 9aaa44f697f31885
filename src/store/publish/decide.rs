//! How a change is decided: against what is decided and not made yet ([`Pending`]), and then against the files. Nothing is changed here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::change::{AppliedChange, Change, Pending, PendingState, Plan, PublishResult};
use crate::value::{Error, Key, Meta};

/// How often a change is decided anew: a program that moves what it is decided on in a loop wins some times in a row.
const TRIES: u32 = 1024;

/// What is asked of the files.
pub(super) trait Files {
    /// Fails while nothing may be changed.
    fn check(&self) -> Result<(), Error>;
    /// What the key of `change` stands for, if it may be changed.
    fn find(&self, change: &Change) -> Result<Option<Meta>, Error>;
    /// What the key will stand for, where it stands for `base`.
    fn result(&self, change: &mut Change, base: Option<Meta>) -> Result<Option<Meta>, Error>;
    /// The value of `change`, if the journal is to hold it: else it is in a file that is synced by itself.
    fn small<'c>(&self, change: &'c Change) -> Option<(&'c Attributes, &'c [Bytes])>;
    /// Writes the file of the value, if `change` has one.
    fn stage(&self, change: &mut Change, plan: Plan) -> Result<(), Error>;
    /// Makes `change`; false if its key no longer stands for the base of `plan`.
    fn make(&self, change: &mut Change, plan: Plan) -> Result<bool, Error>;
    /// What is decided of `key` and not made yet.
    fn see(&self, pending: &Pending, key: &Key<'_>) -> PendingState {
        pending.see(key)
    }
}

/// A change that was decided.
pub(super) enum Entry {
    Make(Box<Planned>),
    /// There would be nothing to make once the changes before it are made: it is decided when they are.
    Wait(Change),
    /// It is answered with the others, once the frame is synced if that cancels a record of it.
    Answer {
        made: AppliedChange,
        cancels: Option<u64>,
    },
}

pub(super) struct Planned {
    pub(super) change: Change,
    pub(super) plan: Plan,
    /// Which record of the frame it is; `None` where the journal could not take it and need not.
    pub(super) record: Option<u32>,
    pub(super) staged: Result<(), Error>,
}

impl Entry {
    pub(super) fn answer(change: Change, outcome: PublishResult) -> Self {
        Self::Answer {
            cancels: change.cancels,
            made: change.unmade(outcome),
        }
    }
}

/// What is to be made of `change` where its key stands for `current`; `None` where it would do nothing.
pub(super) fn plan(
    files: &impl Files,
    change: &mut Change,
    current: Option<Meta>,
) -> Result<Option<Plan>, Error> {
    change.tries += 1;
    if change.tries > TRIES {
        return Err(Error::new("publish", Errno::BUSY));
    }
    // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
    if change.value.is_none() && current.is_none() {
        return Ok(None);
    }
    if let Some(allows) = &change.condition
        && !allows(current)
    {
        return Err(Error::Precondition);
    }
    let (base, result) = (current, files.result(change, current)?);
    Ok(Some(Plan { base, result }))
}

/// What becomes of `change`, decided against `pending`, and then the files. A panic costs this change alone.
pub(super) fn decide(files: &impl Files, mut change: Change, pending: &Pending) -> Entry {
    let seen = files.see(pending, &change.key);
    let planned = survive(|| {
        let current = match seen {
            PendingState::Occupied => return Ok(None),
            PendingState::Decided(current) => current,
            PendingState::Nothing => files.find(&change)?,
        };
        plan(files, &mut change, current)
    });
    match planned {
        Ok(Some(plan)) => Entry::Make(Box::new(Planned {
            change,
            plan,
            record: None,
            staged: Ok(()),
        })),
        Ok(None) | Err(Error::Precondition) if seen != PendingState::Nothing => Entry::Wait(change),
        outcome => Entry::answer(change, outcome.map(|_| None)),
    }
}

/// Whether `change` is of a value that is in its file, and synced with that.
pub(super) fn is_large(files: &impl Files, change: &Change) -> bool {
    change.value.is_some() && files.small(change).is_none()
}

/// What panics has failed, and costs its change alone.
pub(super) fn survive<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let source = std::io::Error::other("a panic");
        let doing = "publish";
        Err(Error::Failed { doing, source })
    })
}
