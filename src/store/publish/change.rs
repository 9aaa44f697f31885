//! A change of a name: as it is asked for, as it is decided, and what became of it.

use super::super::batch_reply::Sender;
use super::super::error::Error;
use super::super::key::Key;
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
    /// How long the value is that it puts there.
    pub(super) fn len(&self) -> u64 {
        self.value.as_ref().map_or(0, NewValue::len)
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
