//! How one change is made: what stands under the name, whether the change may be made, and the calls that make it.

use std::cell::Cell;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::directory_fd::{Dir, Entry};
use super::super::error::Error;
use super::super::key::Key;
use super::super::limits::SLOW_TO_FREE;
use super::super::location::LocationError;
use super::super::meta::{Meta, Version};
use super::super::temp_file::Target;
use super::super::upload::{NewValue, SealedValue};
use super::super::value_file::ValueFile;
use super::super::writer::Writer;
use super::change::{Change, Condition, Made};
use crate::metrics::StoreCounters;

/// After this many creates in a row, the committer skips the stat and tries to link first. A wrong guess costs about five
/// stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// What the publisher's thread works with.
pub(super) struct Committer {
    writer: Arc<Writer>,
    /// How many of the last changes were creates.
    creates: Cell<u32>,
}

impl Committer {
    pub(super) fn new(writer: Arc<Writer>) -> Self {
        Self {
            writer,
            creates: Cell::new(0),
        }
    }

    pub(super) fn counters(&self) -> &StoreCounters {
        self.writer.counters()
    }

    /// Fails while nothing may be changed.
    pub(super) fn check(&self) -> Result<(), LocationError> {
        self.dir().location().check()
    }

    fn dir(&self) -> &Dir {
        self.writer.dir()
    }

    pub(super) fn make(&self, change: Change) -> Made {
        let Change {
            key,
            value,
            condition,
            reply_to,
        } = change;
        let condition = condition.as_ref();
        let (outcome, stored) = match value {
            Some(value) => {
                let len = value.len();
                let version = self.put(&key, value, condition);
                let stored = version.as_ref().ok();
                let stored = stored.map(|&version| Meta { len, version });
                (version.map(Some), stored)
            }
            None => (self.delete(&key, condition), None),
        };
        let event = matches!(outcome, Ok(Some(_))).then_some((key, stored));
        Made {
            event,
            outcome,
            reply_to,
        }
    }

    fn put(
        &self,
        key: &Key<'_>,
        value: NewValue,
        condition: Option<&Condition>,
    ) -> Result<Version, Error> {
        let is_guess = condition.is_none() && self.creates.get() >= CREATES_IN_A_ROW;
        let current = if is_guess {
            None
        } else {
            self.replaceable(key, condition)?
        };
        let Some(current) = current else {
            return self.create(key, value, condition);
        };
        let sealed = value.seal(&self.writer, Target::Present)?;
        self.replace(key, sealed, Some(current))
    }

    /// Publishes `value` under a name that nothing has, as far as is known.
    fn create(
        &self,
        key: &Key<'_>,
        value: NewValue,
        condition: Option<&Condition>,
    ) -> Result<Version, Error> {
        let mut sealed = value.seal(&self.writer, Target::Absent)?;
        match sealed.link(key) {
            Ok(()) => {
                self.creates.set(self.creates.get().saturating_add(1));
                Ok(sealed.version())
            }
            // The guess was wrong, or another program made the name first.
            Err(Errno::EXIST) => {
                let current = self.replaceable(key, condition)?;
                self.replace(key, sealed, current)
            }
            Err(errno) => Err(Error::new("link", errno)),
        }
    }

    /// Publishes `sealed` in place of `current`, or of what another program has put there since.
    fn replace(
        &self,
        key: &Key<'_>,
        mut sealed: SealedValue,
        current: Option<Meta>,
    ) -> Result<Version, Error> {
        self.creates.set(0);
        if let Some(meta) = current {
            sealed.advance(&self.writer, meta.version)?;
        }
        let replaced = current.and_then(|meta| self.pin_if_slow(key, meta));
        sealed.replace(key).map_err(|errno| match errno {
            Errno::ISDIR | Errno::NOTDIR => Error::NotAFile,
            errno => Error::new("rename", errno),
        })?;
        drop(replaced);
        Ok(sealed.version())
    }

    /// Removes the value of `key`; which version that was, if there was one.
    fn delete(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
    ) -> Result<Option<Version>, Error> {
        // RFC 9110, section 13.2.1, in the terms of the store: no condition is asked for a change that would do nothing.
        let Entry::Value(meta) = self.look_up(key)? else {
            return Ok(None);
        };
        allow(condition, Some(meta))?;
        let removed = self.pin_if_slow(key, meta);
        match self.dir().unlink(key) {
            Ok(()) => {}
            // Another program was quicker, with rm or with mkdir.
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
            Entry::Other => return Err(Error::NotAFile),
        };
        allow(condition, current)?;
        Ok(current)
    }

    fn look_up(&self, key: &Key<'_>) -> Result<Entry, Error> {
        self.dir()
            .look_up(key)
            .map_err(Error::errno_while("look up"))
    }

    fn pin_if_slow(&self, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
        if meta.len > SLOW_TO_FREE {
            self.dir().pin(key)
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
