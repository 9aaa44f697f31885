//! A change of a name: as it is asked for, and what became of it.

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
    pub(super) reply_to: Sender<Outcome>,
}

impl Change {
    /// It is not made.
    pub(super) fn refuse(self, why: Error) -> Made {
        Made {
            event: None,
            outcome: Err(why),
            folders: Vec::new(),
            reply_to: self.reply_to,
        }
    }
}

/// What became of a change, and where that goes.
pub(super) struct Made {
    /// For the subscribers, if there was a change: the key, and what it stands for now.
    pub(super) event: Option<(Key<'static>, Option<Meta>)>,
    pub(super) outcome: Outcome,
    /// The paths of the folders whose names were changed; left empty where names are not synced.
    pub(super) folders: Vec<Box<str>>,
    pub(super) reply_to: Sender<Outcome>,
}
