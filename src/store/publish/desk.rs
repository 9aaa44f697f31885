//! How one change is made: what stands under the name, whether the change may be made, and the calls that make it.

use std::cell::Cell;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::content::Content;
use super::super::error::Error;
use super::super::key::Key;
use super::super::names::Entry;
use super::super::object::{Meta, ValueFile, Version};
use super::super::staged::Staged;
use super::super::staging::Staging;
use super::{Change, Condition, Made};
use crate::metrics::StoreCounters;

/// Removing a file larger than this keeps the publisher from its next change for too long.
const SLOW_TO_FREE: u64 = 256 << 10;

/// After so many new names in a row the next is taken for a new one too. To be wrong costs some five looks at a name, so
/// this must be right most of the time.
const ROW: u32 = 16;

/// What the publisher's thread works with.
pub(super) struct Desk {
    staging: Arc<Staging>,
    /// How many names in a row were new.
    new_names: Cell<u32>,
}

impl Desk {
    pub(super) fn new(staging: Arc<Staging>) -> Self {
        Self {
            staging,
            new_names: Cell::new(0),
        }
    }

    pub(super) fn counters(&self) -> &StoreCounters {
        self.staging.counters()
    }

    pub(super) fn make(&self, change: Change) -> Made {
        let Change {
            key,
            value,
            condition,
            asker,
        } = change;
        let condition = condition.as_ref();
        let (outcome, value) = match value {
            Some((content, len)) => {
                let published = self.put(&key, content, condition);
                let value = published
                    .as_ref()
                    .ok()
                    .map(|&version| Meta { len, version });
                (published.map(Some), value)
            }
            None => (self.delete(&key, condition), None),
        };
        let told = matches!(outcome, Ok(Some(_))).then_some((key, value));
        Made {
            told,
            outcome,
            asker,
        }
    }

    fn put(
        &self,
        key: &Key<'_>,
        content: Content,
        condition: Option<&Condition>,
    ) -> Result<Version, Error> {
        // A name that is taken for a new one is not looked at first: the link tells.
        let is_guess = condition.is_none() && self.new_names.get() >= ROW;
        let current = if is_guess {
            None
        } else {
            self.replaceable(key, condition)?
        };
        let (mut staged, version) = content.seal(&self.staging, current.is_some())?;
        if current.is_some() {
            return self.replace(key, staged, version, current);
        }
        match staged.link(key) {
            Ok(()) => {
                self.new_names.set(self.new_names.get().saturating_add(1));
                Ok(version)
            }
            // It was no new one, or a hand was quicker.
            Err(Errno::EXIST) => {
                let current = self.replaceable(key, condition)?;
                self.replace(key, staged, version, current)
            }
            Err(errno) => Err(Error::new("link", errno)),
        }
    }

    /// Publishes `staged` in place of `current`, or of what a hand has put there since then.
    fn replace(
        &self,
        key: &Key<'_>,
        mut staged: Staged,
        mut version: Version,
        current: Option<Meta>,
    ) -> Result<Version, Error> {
        self.new_names.set(0);
        if let Some(meta) = current.filter(|meta| meta.version >= version) {
            version = self.staging.seal(&staged, Some(meta.version))?;
        }
        let replaced = current.and_then(|meta| self.hold_if_slow(key, meta));
        staged.replace(key).map_err(|errno| match errno {
            Errno::ISDIR | Errno::NOTDIR => Error::Occupied,
            errno => Error::new("rename", errno),
        })?;
        drop(replaced);
        Ok(version)
    }

    /// Removes the value of `key`; which version that was, if there was one.
    fn delete(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
    ) -> Result<Option<Version>, Error> {
        // RFC 9110, section 13.2.1, in words of the store: a condition does not stop what would do nothing anyway.
        let Entry::Value(meta) = self.look_up(key)? else {
            return Ok(None);
        };
        allow(condition, Some(meta))?;
        let removed = self.hold_if_slow(key, meta);
        match self.staging.names().unlink(key) {
            Ok(()) => {}
            // A hand was quicker, with rm or with mkdir.
            Err(Errno::NOENT | Errno::ISDIR) => return Ok(None),
            Err(errno) => return Err(Error::new("unlink", errno)),
        }
        drop(removed);
        Ok(Some(meta.version))
    }

    /// The value that a PUT of `key` would replace, if `condition` allows it.
    fn replaceable(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
    ) -> Result<Option<Meta>, Error> {
        let current = match self.look_up(key)? {
            Entry::Value(meta) => Some(meta),
            Entry::Absent => None,
            Entry::Other => return Err(Error::Occupied),
        };
        allow(condition, current)?;
        Ok(current)
    }

    fn look_up(&self, key: &Key<'_>) -> Result<Entry, Error> {
        self.staging
            .names()
            .look_up(key)
            .map_err(Error::while_("look up"))
    }

    fn hold_if_slow(&self, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
        if meta.len > SLOW_TO_FREE {
            self.staging.names().hold(key)
        } else {
            None
        }
    }
}

fn allow(condition: Option<&Condition>, current: Option<Meta>) -> Result<(), Error> {
    match condition {
        Some(allows) if !allows(current) => Err(Error::Precondition),
        _ => Ok(()),
    }
}
