//! The changes that are decided and not made yet, by their keys: what a key is about to stand for. Pure.
//!
//! Each change is decided once, against this table first and the files after that: of two swaps of one version the second finds the
//! first here. An entry goes when its change is made, or is known not to be.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::key::{Key, folder_and_above};
use super::super::meta::Meta;
use super::change::Condition;

/// Numbers the changes of one server, in the order in which they were decided.
pub(super) type Ticket = u64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending {
    keys: BTreeMap<Box<str>, State>,
    last: Ticket,
}

/// What a key will stand for once the change with this ticket is made.
#[derive(Clone, Copy, Debug)]
struct State {
    value: Option<Meta>,
    ticket: Ticket,
}

/// What the table says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing: its file tells.
    Nothing,
    /// It will stand for this.
    Decided(Option<Meta>),
    /// It cannot have a value, as a key below or above it will have one.
    Occupied,
}

impl Pending {
    /// What a PUT or DELETE of `key` is decided against.
    pub(super) fn see(&self, key: &Key<'_>) -> Seen {
        if self.keys.is_empty() {
            return Seen::Nothing;
        }
        match self.keys.get(key.as_str()).map(|state| state.value) {
            Some(value @ Some(_)) => Seen::Decided(value),
            _ if self.is_occupied(key) => Seen::Occupied,
            Some(None) => Seen::Decided(None),
            None => Seen::Nothing,
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
    pub(super) fn decide(&mut self, key: &Key<'_>, value: Option<Meta>) -> Ticket {
        self.last += 1;
        let ticket = self.last;
        self.keys
            .insert(key.as_str().into(), State { value, ticket });
        ticket
    }

    /// The change with this ticket is made, or is not: unless a later one of the same key is decided, the file tells what it stands
    /// for. A later one that was decided as if it were made finds the file otherwise, and is decided anew.
    pub(super) fn settle(&mut self, key: &Key<'_>, ticket: Ticket) {
        if self.keys.get(key.as_str()).map(|state| state.ticket) == Some(ticket) {
            self.keys.remove(key.as_str());
        }
    }

    /// The change with this ticket is lost, and nothing more is known of it.
    pub(super) fn lost(&mut self, ticket: Ticket) {
        self.keys.retain(|_, state| state.ticket != ticket);
    }
}

/// Whether a change may be made of a key that stands for `current`.
pub(super) fn allows(condition: Option<&Condition>, current: Option<Meta>) -> bool {
    condition.is_none_or(|allows| allows(current))
}
