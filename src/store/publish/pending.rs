//! The table of keys in flight: an entry goes when its change is made, or is known not to be made.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::change::ChangeRequest;
use crate::value::{Key, Meta, folder_and_above};

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
    pub fn decide(&mut self, change: &ChangeRequest, value: Option<Meta>) {
        for key in change.keys() {
            let state = self.keys.entry(key.as_str().into()).or_default();
            state.value = value.filter(|_| *key == change.key);
            state.changes += 1;
        }
    }

    /// Removes one change of each key of `change`, which was made or never will be; without any left, the file of a key
    /// decides again. If it was not made, a later change whose plan builds on it finds that the file is not the base of
    /// that plan, and is decided anew.
    pub fn finish(&mut self, change: &ChangeRequest) {
        for key in change.keys() {
            if let Some(state) = self.keys.get_mut(key.as_str()) {
                state.changes -= 1;
                if state.changes == 0 {
                    self.keys.remove(key.as_str());
                }
            }
        }
    }
}
