//! A change of a name: as it is asked for, as it is decided, and what became of it; and the changes that are decided and not made yet,
//! by their keys: what a key is about to stand for. Pure.
//!
//! Each change is decided once, against this table first and the files after that: of two swaps of one version the second finds the
//! first here. An entry goes when its change is made, or is known not to be.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::batch_reply::Sender;
use super::super::error::Error;
use super::super::key::{Key, folder_and_above};
use super::super::meta::{Meta, Version};
use super::super::upload::NewValue;

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

/// The version that was published, or removed; `None` where there was none to remove.
pub(super) type Outcome = Result<Option<Version>, Error>;

/// A change that is asked for, and where its outcome goes.
pub(super) struct Change {
    pub(super) key: Key<'static>,
    /// What to put there; `None` is to delete what is there.
    pub(super) value: Option<NewValue>,
    pub(super) condition: Option<Condition>,
    /// How often it was decided.
    pub(super) tries: u32,
    /// The journal has a record of it that is cancelled, or is to be.
    pub(super) was_logged: bool,
    pub(super) reply_to: Sender<Outcome>,
}

/// What is decided of a change.
#[derive(Debug)]
pub(super) enum Decision {
    /// It is made.
    Make(Plan),
    /// There is nothing to make, as things stand.
    Answer(Outcome),
    /// There would be nothing to make once the changes before it are made: it is decided when they are.
    Wait,
}

/// How a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The value that it replaces or removes.
    pub(super) base: Option<Meta>,
    /// What the key will stand for.
    pub(super) result: Option<Meta>,
}

/// What came of making it.
pub(super) enum Applied {
    Made(Made),
    /// The key no longer stands for what it was decided on: it is decided anew.
    Moved(Change),
}

impl Change {
    /// Whether it may be made where its key stands for `current`.
    pub(super) fn allows(&self, current: Option<Meta>) -> bool {
        self.condition.as_ref().is_none_or(|allows| allows(current))
    }

    /// It is not made.
    pub(super) fn refuse(self, why: Error) -> Made {
        self.unchanged(Err(why))
    }

    /// There is nothing to make.
    pub(super) fn unchanged(self, outcome: Outcome) -> Made {
        Made {
            key: Some(self.key),
            told: Told::Nothing,
            outcome,
            folders: Vec::new(),
            reply_to: self.reply_to,
        }
    }
}

/// What subscribers are told of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// There was none.
    Nothing,
    /// The key stands for this value.
    Stored(Meta),
    /// The key stands for nothing.
    Removed,
}

/// What became of a change, and where that goes. The key is taken when the change is told.
pub(super) struct Made {
    pub(super) key: Option<Key<'static>>,
    /// What the subscribers hear.
    pub(super) told: Told,
    pub(super) outcome: Outcome,
    /// The paths of the folders whose names were changed; left empty where names are not synced.
    pub(super) folders: Vec<Box<str>>,
    pub(super) reply_to: Sender<Outcome>,
}

impl Made {
    /// The change, to be told to subscribers, if there was one.
    pub(super) fn event(&mut self) -> Option<(Key<'static>, Option<Meta>)> {
        let stored = match self.told {
            Told::Nothing => return None,
            Told::Removed => None,
            Told::Stored(meta) => Some(meta),
        };
        Some((self.key.take()?, stored))
    }
}

/// Numbers the changes of one server, in the order in which they were decided.
pub(super) type Ticket = u64;

/// What is decided and not made yet.
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
