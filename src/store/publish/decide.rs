//! The one place where a change is decided.
//!
//! A change is decided first against [`Pending`], the table of changes that are decided and not applied yet, and then
//! against the files: of two swaps of one version, the second finds the first in the table. Its precondition is checked
//! next ([`plan`]: here a 412 is decided), and its room last, only if nothing else refuses the change (507). Nothing
//! here changes a file; [`Files`] is the publisher's access to them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use super::super::commit::TRIES;
use super::super::new_value::Source;
use super::change::{Change, ChangeRequest, FolderChange, Plan, PublishResult};
use super::pending::{Pending, PendingState};
use crate::value::{Error, Key, Meta};

/// The files, as the publisher decides by them and changes them.
pub trait Files {
    /// Fails while nothing may be changed.
    fn check(&self) -> Result<(), Error>;
    /// The value of the key of `change` now; fails where it may not be changed.
    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error>;
    /// The value of the `source` of a move to the key `to` now; fails where it may not be changed.
    fn find_source(&self, source: &Source, to: &Key<'_>) -> Result<Option<Meta>, Error>;
    /// The value that the key will have in place of `base`.
    fn result(&self, change: &mut ChangeRequest, base: Option<Meta>)
    -> Result<Option<Meta>, Error>;
    /// Makes this `change` of the folder of the name `path`.
    fn change_folder(&self, path: &Key<'_>, change: &FolderChange) -> Result<(), Error>;
    /// Writes the file of the value, if `change` has one.
    fn stage(&self, change: &mut ChangeRequest, plan: Plan) -> Result<(), Error>;
    /// Applies `change`. Returns false if its key no longer has the value that `plan` replaces.
    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error>;
    /// Decides `change` by the files alone, and applies it as [`Self::make`] does.
    fn make_at_once(&self, change: &mut ChangeRequest) -> Made;
    /// Returns the removals that make room for `change`, which failed with `error`: an empty list while earlier
    /// removals are being applied that make it. If no value is left that may be evicted, fails as `change` does then.
    fn evictions(
        &self,
        _change: &ChangeRequest,
        error: Error,
    ) -> Result<Vec<ChangeRequest>, Error> {
        Err(error)
    }
    /// Returns the removal of a value, if the change after the last would have to wait for it. Called while no change
    /// waits.
    fn eviction_ahead(&self) -> Option<ChangeRequest> {
        None
    }
    /// Returns the removal of a value that has ended, if its file has the name of `key` or of a folder above `key`.
    fn ended_in_way(&self, _key: &Key<'_>) -> Option<ChangeRequest> {
        None
    }
    /// Records a use of the value of `key`: a client that wanted to create it was told that it exists.
    fn used(&self, _key: &Key<'_>) {}
    /// Called when the removals that make room for a change have been applied or have failed.
    fn evicted(&self) {}
    /// Called when `change` will not be applied as it was decided, or fails with this error: gives back the room that
    /// was reserved for it.
    fn withdraw(&self, _change: &mut ChangeRequest, _error: Option<&Error>) {}
    /// The table's answer for `key`.
    fn pending_state(&self, pending: &Pending, key: &Key<'_>) -> PendingState {
        pending.state(key)
    }
}

/// The plan of a change and whether that was applied; `None` where the change would do nothing.
pub type Made = Result<Option<(Plan, bool)>, Error>;

/// The decision about a change.
pub enum Decision {
    Make(Plan),
    /// The change is decided again once its group is applied: the group has the removals that make room for it.
    Anew,
    /// Earlier changes that are not applied yet leave it nothing to do: the files decide once those are applied.
    Later,
    /// The change is decided when it is applied.
    AtOnce,
    /// The change is answered with its group, and, if the frame cancels its record, once that is synced.
    Answer(PublishResult),
}

/// The plan for `change` where its key stands for `current`; `None` where it would do nothing.
pub fn plan(
    files: &impl Files,
    change: &mut ChangeRequest,
    current: Option<Meta>,
) -> Result<Option<Plan>, Error> {
    if change.tries >= TRIES {
        return Err(Error::new("publish", Errno::BUSY));
    }
    // For clients a value that has ended is none.
    let is_there = |meta: &Meta| change.removal().is_some() || !meta.has_ended();
    let shown = current.filter(is_there);
    // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
    if change.value().is_none() && shown.is_none() {
        return Ok(None);
    }
    if let Some(allows) = &change.condition
        && !allows(shown)
    {
        // A client that is told that the value is there relies on it.
        if change.value().is_some() && shown.is_some() && allows(None) {
            files.used(&change.key);
        }
        return Err(Error::Precondition);
    }
    Ok(Some(Plan {
        base: current,
        result: files.result(change, current)?,
    }))
}

/// False if `change` moves a value that its key no longer has, where the table has this `state` for that key.
pub fn has_source(
    files: &impl Files,
    change: &ChangeRequest,
    state: PendingState,
) -> Result<bool, Error> {
    let Some(source) = change.source() else {
        return Ok(true);
    };
    let current = match state {
        PendingState::Occupied => None,
        PendingState::Decided(current) => current,
        PendingState::Nothing => files.find_source(source, &change.key)?,
    };
    Ok(current.is_some_and(|meta| meta.version == source.version && !meta.has_ended()))
}

/// Decides `change` against `pending`, and then against the files. Fails as the change does, unless [`removals`] come
/// before it. A panic costs this change alone.
pub fn decide(
    files: &impl Files,
    change: &mut ChangeRequest,
    pending: &Pending,
) -> Result<Decision, Error> {
    // In order with the changes of values at, above or below its name.
    if matches!(change.kind, Change::Folder(_)) {
        return Ok(Decision::Later);
    }
    let state_of = |key| files.pending_state(pending, key);
    let state = state_of(&change.key);
    let source = change.source();
    let of_source = source.map_or(PendingState::Nothing, |source| state_of(&source.key));
    let is_pending = state != PendingState::Nothing || of_source != PendingState::Nothing;
    let planned = survive(|| {
        if !has_source(files, change, of_source)? {
            return Ok(None);
        }
        let current = match state {
            PendingState::Occupied => return Ok(None),
            PendingState::Decided(current) => current,
            PendingState::Nothing => files.find(change)?,
        };
        plan(files, change, current)
    });
    match planned {
        Ok(Some(plan)) => Ok(Decision::Make(plan)),
        Ok(None) | Err(Error::Precondition) if is_pending => Ok(Decision::Later),
        Ok(None) => Ok(Decision::Answer(Ok(None))),
        Err(error) => Err(error),
    }
}

/// True if a change that failed so is made once there is room for it.
pub fn lacks_room(error: &Error) -> bool {
    matches!(error, Error::NoSpace(_))
}

/// Removals that are to come before `change`, which failed with `error`; where none helps, the error to answer.
pub fn removals(
    files: &impl Files,
    change: &mut ChangeRequest,
    error: Error,
) -> Result<Vec<ChangeRequest>, Error> {
    if lacks_room(&error) {
        return files.evictions(change, error);
    }
    let ended = ended_in_way(files, change, &error).ok_or(error)?;
    change.has_made_way = true;
    Ok(vec![ended])
}

/// The removal of a value that has ended, where its file is why `change` failed with `error`: it is absent to every
/// request, so it refuses none.
fn ended_in_way(
    files: &impl Files,
    change: &ChangeRequest,
    error: &Error,
) -> Option<ChangeRequest> {
    let is_taken = matches!(
        error,
        Error::Occupied(_) | Error::NameTaken(_) | Error::NoParent(_)
    );
    let looks = is_taken && !change.has_made_way;
    looks.then(|| files.ended_in_way(&change.key)).flatten()
}

/// Runs `work`; a panic is a failure of its change alone.
pub fn survive<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let panicked = std::io::Error::other("a panic");
        Err(Error::failed("publish")(panicked))
    })
}
