//! A change of a name, and the one place where it is decided: a PUT, a DELETE or a MOVE comes in as a [`ChangeRequest`], gets a [`Plan`], and goes out as
//! an [`AppliedChange`].
//!
//! A change is decided against [`Pending`] first, the table of the changes that are decided and not made yet, and against the files after
//! that: of two swaps of one version the second finds the first in the table. An entry of the table goes when its change is made, or is
//! known not to be made. Nothing here changes a file; [`Files`] is what the publisher asks of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::batch_reply::{self, Sender};
use super::super::bounds::{Reservation, Victim};
use super::super::changes::{Published, Removal};
use super::super::commit::{A_FOLDER, TRIES};
use super::super::new_value::{NewValue, Source};
use crate::value::{Error, Key, Meta, folder_and_above};

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

/// The value that was published, or removed; `None` where there was none to remove.
pub type PublishResult = Result<Option<Meta>, Error>;

/// A change of a folder itself. No journal has it: it is made when it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// Make it, to stay without a value.
    Make,
    /// Remove it, if it is empty.
    Remove,
    /// Give this name, which nothing has, to the folder that is the source of the value.
    Move,
}

/// A change that is asked for, and where its outcome goes.
pub struct ChangeRequest {
    pub key: Key<'static>,
    /// The new value; `None` deletes.
    pub value: Option<NewValue>,
    /// The change is one of the folder of this name instead.
    pub folder: Option<FolderChange>,
    pub condition: Option<Condition>,
    /// The reason of the server, where no client asked for it.
    pub removal: Option<Removal>,
    /// The room that it waits for, or has, where a bound counts its key.
    pub room: Option<Reservation>,
    /// The number of times that it was decided and another program was in its way.
    pub tries: u32,
    /// It was to be made, and failed so.
    pub failure: Option<Error>,
    /// The sequence number of its record in the journal that does not hold and is to be cancelled.
    pub cancels: Option<u64>,
    pub reply_to: Sender<PublishResult>,
}

/// A decided change: the value before it, and the value after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The value that it replaces or removes; the change is not made where the file has another.
    pub base: Option<Meta>,
    /// The value that the key will have.
    pub result: Option<Meta>,
}

/// The kind of thing that a name to be synced is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOf {
    Value,
    /// Subscribers are not told.
    Folder,
    /// It was moved with all that is below it: subscribers are told to look anew.
    MovedFolder,
}

/// A change that is over: its outcome, and where that goes.
pub struct AppliedChange {
    /// The event for subscribers; `None` where nothing was changed.
    pub event: Option<Published>,
    /// The name of its event is to be synced.
    pub syncs: Option<NameOf>,
    pub outcome: PublishResult,
    pub reply_to: Sender<PublishResult>,
}

impl ChangeRequest {
    /// The removal of a value that makes room for another, whose outcome no one waits for.
    pub fn eviction(victim: Victim) -> Self {
        Self {
            key: victim.key,
            value: None,
            folder: None,
            condition: Some(victim.allows),
            removal: Some(victim.why),
            room: None,
            tries: 0,
            failure: None,
            cancels: None,
            reply_to: batch_reply::channel().0,
        }
    }

    /// False if it is a removal by the server whose value was used since it was decided with this `plan`.
    pub fn is_allowed_still(&self, plan: Plan) -> bool {
        let condition = self.condition.as_ref().filter(|_| self.removal.is_some());
        condition.is_none_or(|allows| allows(plan.base))
    }

    /// The value, if the journal is to hold it: else it is in a file that is synced by itself.
    pub fn journaled(&self) -> Option<(&Attributes, &[Bytes])> {
        self.value.as_ref().and_then(NewValue::journaled)
    }

    /// The key that its value moves from, if it moves.
    pub fn source(&self) -> Option<&Source> {
        self.value.as_ref().and_then(NewValue::source)
    }

    /// Its key, and the key that its value moves from.
    pub fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        let source = self.source().map(|source| &source.key);
        [&self.key].into_iter().chain(source)
    }

    /// True of a value that lies in its file already and is synced with it; the journal has its name alone.
    pub fn is_large(&self) -> bool {
        self.value.is_some() && self.journaled().is_none()
    }

    /// It is made as it was planned; its name is yet to be synced, if it `syncs_name`.
    pub fn made(self, plan: Plan, syncs_name: bool) -> AppliedChange {
        let from = self.source().map(|source| Box::new(source.key.clone()));
        AppliedChange {
            event: Some((self.key, plan.result, self.removal, from)),
            syncs: syncs_name.then_some(NameOf::Value),
            outcome: Ok(plan.result.or(plan.base)),
            reply_to: self.reply_to,
        }
    }

    /// It is not made, or is one of a folder.
    pub fn unmade(self, outcome: PublishResult) -> AppliedChange {
        let syncs = match (self.folder, &outcome) {
            // Perhaps it was made.
            (Some(FolderChange::Move), Ok(_) | Err(Error::Failed { .. })) => {
                Some(NameOf::MovedFolder)
            }
            (Some(FolderChange::Move) | None, _) => None,
            (_, Ok(_) | Err(Error::NameTaken(A_FOLDER) | Error::FolderKept)) => {
                Some(NameOf::Folder)
            }
            _ => None,
        };
        let from = self.source().map(|source| Box::new(source.key.clone()));
        AppliedChange {
            event: syncs.map(|_| (self.key, None, None, from)),
            syncs,
            outcome,
            reply_to: self.reply_to,
        }
    }
}

/// The table of keys in flight: what each will stand for once its decided changes are made.
#[derive(Debug, Default)]
pub struct Pending {
    keys: BTreeMap<Box<str>, KeyInFlight>,
}

/// The value that a key will have once this number of changes is made.
#[derive(Debug, Default)]
struct KeyInFlight {
    value: Option<Meta>,
    changes: u32,
}

/// The answer of the table for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingState {
    /// No change of the key is in flight: its file decides.
    Nothing,
    /// It will have this value, or none.
    Decided(Option<Meta>),
    /// The key cannot have a value, because a key below or above it will have a value.
    Occupied,
}

impl Pending {
    /// The state that a PUT or DELETE of `key` is decided against.
    pub fn state(&self, key: &Key<'_>) -> PendingState {
        if self.keys.is_empty() {
            return PendingState::Nothing;
        }
        match self.keys.get(key.as_str()).map(|state| state.value) {
            Some(value @ Some(_)) => PendingState::Decided(value),
            _ if self.is_occupied(key) => PendingState::Occupied,
            Some(None) => PendingState::Decided(None),
            None => PendingState::Nothing,
        }
    }

    fn is_occupied(&self, key: &Key<'_>) -> bool {
        let has_value = |key: &KeyInFlight| key.value.is_some();
        let above = folder_and_above(key.folder()).filter_map(|folder| self.keys.get(folder));
        let below = format!("{}/", key.as_str());
        let below = self
            .keys
            .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded))
            .take_while(|(other, _)| other.starts_with(&below));
        above.chain(below.map(|(_, state)| state)).any(has_value)
    }

    /// Notes what the keys of `change` will have: its own key `value`, and the key that it moves from none.
    pub fn decide_all(&mut self, change: &ChangeRequest, value: Option<Meta>) {
        self.decide(&change.key, value);
        if let Some(source) = change.source() {
            self.decide(&source.key, None);
        }
    }

    /// As [`Self::finish`], of all keys of `change`.
    pub fn finish_all(&mut self, change: &ChangeRequest) {
        self.finish(&change.key);
        if let Some(source) = change.source() {
            self.finish(&source.key);
        }
    }

    /// Notes that `key` will have `value`.
    pub fn decide(&mut self, key: &Key<'_>, value: Option<Meta>) {
        let state = self.keys.entry(key.as_str().into()).or_default();
        state.value = value;
        state.changes += 1;
    }

    /// Removes one change of `key`, which was made or never will be; without any left, the file of `key` decides again. If it was not made, a
    /// later change whose plan builds on it finds that the file is not the base of that plan, and is decided anew.
    pub fn finish(&mut self, key: &Key<'_>) {
        if let Some(state) = self.keys.get_mut(key.as_str()) {
            state.changes -= 1;
            if state.changes == 0 {
                self.keys.remove(key.as_str());
            }
        }
    }
}

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
    /// Makes this `change` of a folder.
    fn change_folder(&self, _change: &ChangeRequest) -> Result<(), Error> {
        Ok(())
    }
    /// Writes the file of the value, if `change` has one.
    fn stage(&self, change: &mut ChangeRequest, plan: Plan) -> Result<(), Error>;
    /// Makes `change`; false if its key no longer stands for the base of `plan`.
    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error>;
    /// Decides `change` by the files alone, and makes it, as [`Self::make`] does. Where it lacks room, it asks `make_room` once for some.
    fn make_at_once(
        &self,
        change: &mut ChangeRequest,
        make_room: &mut dyn FnMut(&ChangeRequest) -> bool,
    ) -> MadeAtOnce;
    /// Removals that make room for `change`, which lacks some; none of them while others are under way that do. `None` where nobody is left who
    /// could go.
    fn evictions(&self, _change: &ChangeRequest) -> Option<Vec<ChangeRequest>> {
        None
    }
    /// The removals that made room for a change are over.
    fn evicted(&self) {}
    /// A `change` is not made as it was decided, or fails with this error. It has no room any more.
    fn withdraw(&self, _change: &mut ChangeRequest, _error: Option<&Error>) {}
    /// The table's answer for `key`.
    fn pending_state(&self, pending: &Pending, key: &Key<'_>) -> PendingState {
        pending.state(key)
    }
}

/// A change that was decided and made at once: its plan, and what came of that; `None` where it would do nothing.
pub type MadeAtOnce = Result<Option<(Plan, Result<bool, Error>)>, Error>;

/// The decision about a change.
pub enum Decision {
    Make(Plan),
    /// There is no room for it, and nothing else refuses it.
    Full(Error),
    /// It is decided anew once its group is made, which makes room for it.
    Anew,
    /// Earlier changes that are not made yet leave it nothing to do: the files decide once those are made.
    Later,
    /// It is decided when it is made.
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
    let is_there = |meta: &Meta| change.removal.is_some() || !meta.has_ended();
    let shown = current.filter(is_there);
    // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
    if change.value.is_none() && shown.is_none() {
        return Ok(None);
    }
    if let Some(allows) = &change.condition
        && !allows(shown)
    {
        return Err(Error::Precondition);
    }
    Ok(Some(Plan {
        base: current,
        result: files.result(change, current)?,
    }))
}

/// The table's answer for the key that `change` moves a value from.
fn source_state(files: &impl Files, change: &ChangeRequest, pending: &Pending) -> PendingState {
    change.source().map_or(PendingState::Nothing, |source| {
        files.pending_state(pending, &source.key)
    })
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

/// Decides `change` against `pending`, and then against the files. A panic costs this change alone.
pub fn decide(files: &impl Files, change: &mut ChangeRequest, pending: &Pending) -> Decision {
    // In order with the changes of values at, above or below its name.
    if change.folder.is_some() {
        return Decision::Later;
    }
    let state = files.pending_state(pending, &change.key);
    let of_source = source_state(files, change, pending);
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
        Ok(Some(plan)) => Decision::Make(plan),
        Ok(None) | Err(Error::Precondition) if is_pending => Decision::Later,
        Err(error) if lacks_room(&error) => Decision::Full(error),
        outcome => Decision::Answer(outcome.map(|_| None)),
    }
}

/// True if a change that failed so is made once there is room for it.
pub fn lacks_room(error: &Error) -> bool {
    matches!(error, Error::NoSpace(_))
}

/// Runs `work`; a panic is a failure of its change alone.
pub fn survive<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let panicked = std::io::Error::other("a panic");
        Err(Error::failed("publish")(panicked))
    })
}
