//! A change of a name: a PUT, a DELETE or a MOVE comes in as a [`ChangeRequest`], gets a [`Plan`], and goes out as an
//! [`AppliedChange`], which says what is to be synced and who is to be told.

use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::batch_reply::Sender;
use super::super::bounds::{Account, Ask, RoomReservation, Victim};
use super::super::changes::{NewChange, Removal};
use super::super::commit::A_FOLDER;
use super::super::new_value::{MovedValue, NewValue, Source};
use crate::value::{Error, Key, Meta};

/// Decides, at the moment of publishing, whether a change may be made: it is shown the value that the change would
/// replace or remove, if there is one.
pub type Condition = Box<dyn Fn(Option<Meta>) -> bool + Send>;

/// The removal of the value of `key` that was `found` to have ended, if it is still that one and has still ended.
pub fn removal_of_ended(key: Key<'static>, found: Meta) -> Victim {
    Victim {
        key,
        bytes: 0,
        allows: Box::new(move |now| now.is_some_and(|now| now == found && now.has_ended())),
        why: Removal::Expired,
    }
}

/// The value that was published, or removed; `None` where there was none to remove.
pub type PublishResult = Result<Option<Meta>, Error>;

/// What is done with a name.
pub enum Change {
    /// It gets this value.
    Put(NewValue),
    /// It gets the value of another key, which loses it.
    Move(MovedValue),
    /// It loses its value, for this reason of the server where no client asks for it.
    Remove(Option<Removal>),
    /// It is the name of a folder, which is changed itself.
    Folder(FolderChange),
}

/// A change of a folder itself. No journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// Make it, to stay without a value.
    Make {
        /// Those that it is in are made too, to go with the last in them.
        with_above: bool,
    },
    /// Remove it, if it is empty.
    Remove,
    /// Have it go with its last value; at once, if it is empty.
    Release,
    /// Give this name, which nothing has, to the folder `from`.
    Move {
        /// The name that it loses.
        from: Key<'static>,
    },
}

/// A change that is asked for, and where its outcome goes.
pub struct ChangeRequest {
    pub key: Key<'static>,
    pub kind: Change,
    pub condition: Option<Condition>,
    /// The room that it waits for, or has, where a bound counts its key.
    pub room: Option<Box<RoomReservation>>,
    /// The number of times that it was decided and another program was in its way.
    pub tries: u32,
    /// A value that had ended and was in its way was to be removed: no second one is.
    pub has_made_way: bool,
    /// It was to be made, and failed so.
    pub failure: Option<Box<Error>>,
    /// The sequence number of its record in the journal that does not hold and is to be cancelled.
    pub cancels: Option<u64>,
    /// `None` if no request waits for the outcome.
    pub reply_to: Option<Sender<PublishResult>>,
}

/// A decided change: the value before it, and the value after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The value that it replaces or removes; the change is not made where the file has another.
    pub base: Option<Meta>,
    /// The value that the key will have.
    pub result: Option<Meta>,
}

/// Who is told of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Subscribers, by its event.
    Subscribers,
    /// No subscriber: the change is one of a folder alone.
    NoSubscriber,
    /// Subscribers are told to look anew: all below a folder has moved.
    LookAnew,
}

/// A change that is over: its outcome, and where that goes.
pub struct AppliedChange {
    /// Its names, and what became of them; `None` where nothing was changed.
    pub event: Option<NewChange>,
    pub audience: Audience,
    /// Its names are to be synced.
    pub syncs: bool,
    pub outcome: PublishResult,
    pub reply_to: Option<Sender<PublishResult>>,
}

impl ChangeRequest {
    pub fn new(
        key: Key<'static>,
        kind: Change,
        condition: Option<Condition>,
        reply_to: Option<Sender<PublishResult>>,
    ) -> Self {
        Self {
            key,
            kind,
            condition,
            room: None,
            tries: 0,
            has_made_way: false,
            failure: None,
            cancels: None,
            reply_to,
        }
    }

    /// The removal of a value that makes room or way for another change; no request waits for the outcome.
    pub fn eviction(victim: Victim) -> Self {
        let kind = Change::Remove(Some(victim.why));
        Self::new(victim.key, kind, Some(victim.allows), None)
    }

    /// The room that its value asks for.
    pub fn ask(&self, account: &Account) -> Option<Ask<'_>> {
        let (bytes, staged) = match &self.kind {
            Change::Put(value) => {
                let staged = value.staging.as_ref().map_or(0, |it| it.bytes());
                (account.size_of(value.len), staged)
            }
            Change::Move(value) => (value.taken, 0),
            Change::Remove(_) | Change::Folder(_) => return None,
        };
        Some(Ask {
            source: self.source().map(|source| source.key.as_str()),
            staged,
            ..Ask::new(self.key.as_str(), bytes)
        })
    }

    /// The length and the attributes of the value that the key is to have.
    pub fn value(&self) -> Option<(u64, &Attributes)> {
        match &self.kind {
            Change::Put(value) => Some((value.len, &value.attributes)),
            Change::Move(value) => Some((value.len, &value.attributes)),
            Change::Remove(_) | Change::Folder(_) => None,
        }
    }

    /// True if the bytes of its value are yet to be written.
    pub fn is_in_memory(&self) -> bool {
        matches!(&self.kind, Change::Put(value) if value.is_in_memory())
    }

    /// The value, if the journal is to hold it: else it is in a file that is synced by itself.
    pub fn journaled(&self) -> Option<(&Attributes, &[Bytes])> {
        match &self.kind {
            Change::Put(value) => value.journaled(),
            Change::Move(value) => Some((&value.attributes, value.small.as_deref()?)),
            Change::Remove(_) | Change::Folder(_) => None,
        }
    }

    /// True of a value that lies in its file already and is synced with it; the journal has its name alone.
    pub fn is_large(&self) -> bool {
        self.value().is_some() && self.journaled().is_none()
    }

    /// The key that its value moves from, if it moves.
    pub fn source(&self) -> Option<&Source> {
        match &self.kind {
            Change::Move(value) => Some(&value.source),
            _ => None,
        }
    }

    /// Its key, and the key that its value moves from.
    pub fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        let source = self.source().map(|source| &source.key);
        [&self.key].into_iter().chain(source)
    }

    /// The reason of the server, if it is a removal that no client asks for.
    pub fn removal(&self) -> Option<Removal> {
        match self.kind {
            Change::Remove(removal) => removal,
            _ => None,
        }
    }

    /// It is made as it was planned; its names are yet to be synced, if it `syncs`.
    pub fn made(self, plan: Plan, syncs: bool) -> AppliedChange {
        let (removal, source) = (self.removal(), self.source());
        let from = source.map(|source| Box::new(source.key.clone()));
        AppliedChange {
            event: Some((self.key, plan.result, removal, from)),
            audience: Audience::Subscribers,
            syncs,
            outcome: Ok(plan.result.or(plan.base)),
            reply_to: self.reply_to,
        }
    }

    /// It is over, and has changed nothing.
    pub fn answered(self, outcome: PublishResult) -> AppliedChange {
        AppliedChange {
            event: None,
            audience: Audience::Subscribers,
            syncs: false,
            outcome,
            reply_to: self.reply_to,
        }
    }

    /// It is one of a folder, with this outcome.
    pub fn of_folder(self, outcome: Result<(), Error>) -> AppliedChange {
        let (audience, from) = match (&self.kind, &outcome) {
            // Perhaps it was made.
            (Change::Folder(FolderChange::Move { from }), Ok(()) | Err(Error::Failed { .. })) => {
                (Audience::LookAnew, Some(Box::new(from.clone())))
            }
            (
                Change::Folder(
                    FolderChange::Make { .. } | FolderChange::Remove | FolderChange::Release,
                ),
                Ok(()) | Err(Error::NameTaken(A_FOLDER) | Error::FolderKept),
            ) => (Audience::NoSubscriber, None),
            _ => return self.answered(outcome.map(|()| None)),
        };
        AppliedChange {
            event: Some((self.key.clone(), None, None, from)),
            audience,
            syncs: true,
            ..self.answered(outcome.map(|()| None))
        }
    }
}

impl AppliedChange {
    /// The names that are to be synced: a folder stands for the names in it, and a value that has moved for its file
    /// too, which has a new version.
    pub fn names_to_sync(&self) -> impl Iterator<Item = &str> {
        let event = self.event.iter().filter(|_| self.syncs);
        event
            .flat_map(|(key, _, _, from)| {
                let is_itself = from.is_some() || self.audience == Audience::NoSubscriber;
                let own = if is_itself {
                    key.as_str()
                } else {
                    key.folder()
                };
                [Some(own), from.as_ref().map(|from| from.folder())]
            })
            .flatten()
    }
}
