//! A change of a name: as it is asked for, as it is decided, and what became of it; and the changes that are decided and not made yet,
//! by their keys: what a key is about to stand for. Pure.
//!
//! Each change is decided once, against this table first and the files after that: of two swaps of one version the second finds the
//! first here. An entry goes when its change is made, or is known not to be.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::batch_reply::Sender;
use super::super::upload::NewValue;
use crate::value::{Error, Key, Meta, Version, folder_and_above};

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

/// The version that was published, or removed; `None` where there was none to remove.
pub(super) type PublishResult = Result<Option<Version>, Error>;

/// A change that is asked for, and where its outcome goes.
pub(super) struct Change {
    pub(super) key: Key<'static>,
    /// What to put there; `None` is to delete what is there.
    pub(super) value: Option<NewValue>,
    pub(super) condition: Option<Condition>,
    /// How often it was decided.
    pub(super) tries: u32,
    /// The record of it that the journal has, and that does not hold.
    pub(super) cancels: Option<u64>,
    pub(super) reply_to: Sender<PublishResult>,
}

/// How a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The value that it replaces or removes.
    pub(super) base: Option<Meta>,
    /// What the key will stand for.
    pub(super) result: Option<Meta>,
}

/// What became of a change, and where that goes.
pub(super) struct AppliedChange {
    /// What subscribers hear: the key, and what it stands for now. `None` where nothing was changed.
    pub(super) event: Option<(Key<'static>, Option<Meta>)>,
    /// Its name is to be synced.
    pub(super) syncs_name: bool,
    pub(super) outcome: PublishResult,
    pub(super) reply_to: Sender<PublishResult>,
}

impl Change {
    /// It is made as it was planned; its name is yet to be synced, if it `syncs_name`.
    pub(super) fn made(self, plan: Plan, syncs_name: bool) -> AppliedChange {
        AppliedChange {
            event: Some((self.key, plan.result)),
            syncs_name,
            outcome: Ok(plan.result.or(plan.base).map(|meta| meta.version)),
            reply_to: self.reply_to,
        }
    }

    /// It is not made.
    pub(super) fn unmade(self, outcome: PublishResult) -> AppliedChange {
        AppliedChange {
            event: None,
            syncs_name: false,
            outcome,
            reply_to: self.reply_to,
        }
    }
}

/// What is decided and not made yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    keys: BTreeMap<Box<str>, State>,
}

/// What a key will stand for once so many changes are made.
#[derive(Debug, Default)]
struct State {
    value: Option<Meta>,
    changes: u32,
}

/// What the table says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingState {
    /// Nothing: its file tells.
    Nothing,
    /// It will stand for this.
    Decided(Option<Meta>),
    /// It cannot have a value, as a key below or above it will have one.
    Occupied,
}

impl Pending {
    /// What a PUT or DELETE of `key` is decided against.
    pub(super) fn see(&self, key: &Key<'_>) -> PendingState {
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
        let has_value = |state: &State| state.value.is_some();
        let above = folder_and_above(key.folder()).filter_map(|folder| self.keys.get(folder));
        let below = format!("{}/", key.as_str());
        let below = self
            .keys
            .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded))
            .take_while(|(other, _)| other.starts_with(&below));
        above.chain(below.map(|(_, state)| state)).any(has_value)
    }

    /// `key` will stand for `value`.
    pub(super) fn decide(&mut self, key: &Key<'_>, value: Option<Meta>) {
        let state = self.keys.entry(key.as_str().into()).or_default();
        state.value = value;
        state.changes += 1;
    }

    /// A change of `key` is made, or is not: after the last one the file tells what it stands for. A later one that was decided as if
    /// this were made finds the file otherwise, and is decided anew.
    pub(super) fn settle(&mut self, key: &Key<'_>) {
        if let Some(state) = self.keys.get_mut(key.as_str()) {
            state.changes -= 1;
            if state.changes == 0 {
                self.keys.remove(key.as_str());
            }
        }
    }
}
