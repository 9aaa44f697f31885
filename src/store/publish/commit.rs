//! How one change is made: what stands under the name, whether the change may be made, and the calls that make it.
//!
//! The folders of a key are made only once the change may be made, and removed again when it fails. The publisher alone
//! makes and removes them for this server, so that only other programs can be in its way: where one removes a folder that
//! a value is about to get its name in, the change begins anew.

use std::cell::Cell;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::directory_fd::{Dir, Entry, look_up, unlink};
use super::super::error::Error;
use super::super::folder::Folder;
use super::super::key::Key;
use super::super::limits::SLOW_TO_FREE;
use super::super::location::LocationError;
use super::super::meta::{Meta, Version};
use super::super::temp_file::Target;
use super::super::upload::{NewValue, SealedValue};
use super::super::value_file::ValueFile;
use super::super::writer::{Durability, Writer};
use super::change::{Change, Condition, Made, Told};
use super::levels::Levels;
use crate::metrics::StoreCounters;

/// After this many creates in a row, the committer skips the stat and tries to link first. A wrong guess costs about five
/// stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// How often a PUT begins anew whose folder another program removes: one that does so in a loop wins some times in a row.
const TRIES: u32 = 1024;

/// What the publisher's thread works with.
pub(super) struct Committer {
    pub(super) writer: Arc<Writer>,
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

    pub(super) fn dir(&self) -> &Dir {
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
        let mut levels = Levels::of(&key);
        let is_synced = self.syncs_names(value.as_ref());
        let (outcome, told) = match value {
            Some(value) => {
                let len = value.len();
                let version = self.put(&key, value, condition, &mut levels);
                let told = version.as_ref().ok().map(|&version| Meta { len, version });
                (version.map(Some), told.map_or(Told::Nothing, Told::Stored))
            }
            None => match self.delete(&key, condition, &mut levels) {
                Ok(Some(version)) => (Ok(Some(version)), Told::Removed),
                unchanged => (unchanged, Told::Nothing),
            },
        };
        let folders = if is_synced {
            levels.folders(&key)
        } else {
            Vec::new()
        };
        Made {
            key: Some(key),
            told,
            outcome,
            folders,
            reply_to,
        }
    }

    /// Whether names that change with this value, or with a removal, are synced by themselves.
    fn syncs_names(&self, value: Option<&NewValue>) -> bool {
        let is_journaled = value.map_or(self.writer.is_journaled(), |value| {
            value.is_journaled(&self.writer)
        });
        self.writer.durability() == Durability::Disk && !is_journaled
    }

    /// Publishes `value`; anew where another program removes the folder meanwhile.
    fn put(
        &self,
        key: &Key<'_>,
        mut value: NewValue,
        condition: Option<&Condition>,
        levels: &mut Levels,
    ) -> Result<Version, Error> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let folder = self.folder(key)?;
            let current = self.assumed(key, folder.as_ref(), condition)?;
            let target = current.map_or(Target::Absent, |_| Target::Present);
            let mut sealed = value.seal(&self.writer, target)?;
            let published = match (folder, current) {
                (Some(folder), Some(_)) => self.replace(key, &folder, &mut sealed, current),
                (Some(folder), None) => self.create(key, &folder, &mut sealed, condition),
                (None, _) => self.create_below(key, &mut sealed, condition, levels),
            };
            match published {
                Err(error) if error.is_gone() && !key.is_flat() && tries > 0 => {}
                published => return published.map(|()| sealed.version()),
            }
            value = NewValue::Sealed(sealed);
        }
    }

    /// The value that a PUT of `key` would replace, if `condition` allows it; after many creates in a row, none is assumed.
    pub(super) fn assumed(
        &self,
        key: &Key<'_>,
        folder: Option<&Folder<'_>>,
        condition: Option<&Condition>,
    ) -> Result<Option<Meta>, Error> {
        let Some(folder) = folder else {
            allow(condition, None)?;
            return Ok(None);
        };
        if condition.is_none() && self.creates.get() >= CREATES_IN_A_ROW {
            return Ok(None);
        }
        replaceable(key, folder, condition)
    }

    /// As [`Self::create`], of a key whose folder is not there. A change that fails takes what it made away again.
    fn create_below(
        &self,
        key: &Key<'_>,
        sealed: &mut SealedValue,
        condition: Option<&Condition>,
        levels: &mut Levels,
    ) -> Result<(), Error> {
        let (dir, path) = (self.dir(), key.folder());
        let (folder, there) = dir.make_folder(path).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => dir.occupied(path),
            errno => Error::new("make the folder", errno),
        })?;
        levels.made_below(there);
        let created = self.create(key, &folder, sealed, condition);
        if created.is_err() {
            dir.remove_empty_folders(path, there);
        }
        created
    }

    /// Publishes `sealed` under a name that nothing has, as far as is known.
    fn create(
        &self,
        key: &Key<'_>,
        folder: &Folder<'_>,
        sealed: &mut SealedValue,
        condition: Option<&Condition>,
    ) -> Result<(), Error> {
        match sealed.link(folder, key.name()) {
            Ok(()) => {
                self.creates.set(self.creates.get().saturating_add(1));
                Ok(())
            }
            // It was assumed wrongly, or another program made the name first.
            Err(Errno::EXIST) => {
                let current = replaceable(key, folder, condition)?;
                self.replace(key, folder, sealed, current)
            }
            Err(Errno::XDEV) => Err(elsewhere(key)),
            Err(errno) => Err(Error::new("link", errno)),
        }
    }

    /// Publishes `sealed` in place of `current`, or of what another program has put there since.
    fn replace(
        &self,
        key: &Key<'_>,
        folder: &Folder<'_>,
        sealed: &mut SealedValue,
        current: Option<Meta>,
    ) -> Result<(), Error> {
        self.creates.set(0);
        if let Some(meta) = current {
            sealed.advance(&self.writer, meta.version)?;
        }
        let replaced = current.and_then(|meta| self.pin_if_slow(key, meta));
        sealed
            .replace(folder, key.name())
            .map_err(|errno| match errno {
                Errno::ISDIR | Errno::NOTDIR => taken("a directory"),
                Errno::XDEV => elsewhere(key),
                errno => Error::new("rename", errno),
            })?;
        drop(replaced);
        Ok(())
    }

    /// Removes the value of `key`, and the folders that it leaves empty; which version that was, if there was one.
    fn delete(
        &self,
        key: &Key<'_>,
        condition: Option<&Condition>,
        levels: &mut Levels,
    ) -> Result<Option<Version>, Error> {
        let Some((folder, meta)) = self.deletable(key, condition)? else {
            return Ok(None);
        };
        let removed = self.pin_if_slow(key, meta);
        match unlink(&folder, key.name()) {
            Ok(()) => {}
            // Another program was quicker, with rm or with mkdir.
            Err(Errno::NOENT | Errno::ISDIR) => return Ok(None),
            Err(errno) => return Err(Error::new("unlink", errno)),
        }
        drop(removed);
        levels.removed_below(self.dir().remove_empty_folders(key.folder(), ""));
        Ok(Some(meta.version))
    }

    /// The folder of `key`, if it is there.
    pub(super) fn folder(&self, key: &Key<'_>) -> Result<Option<Folder<'_>>, Error> {
        match self.dir().folder(key.folder()) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(self.dir().occupied(key.folder())),
            Err(errno) => Err(Error::new("open the folder", errno)),
        }
    }

    fn pin_if_slow(&self, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
        if meta.len > SLOW_TO_FREE {
            self.dir().pin(key)
        } else {
            None
        }
    }
}

/// The value that a PUT of `key` would replace, if `condition` allows it.
fn replaceable(
    key: &Key<'_>,
    folder: &Folder<'_>,
    condition: Option<&Condition>,
) -> Result<Option<Meta>, Error> {
    let current = match stands_under(key, folder)? {
        Entry::Value(meta) => Some(meta),
        Entry::Absent => None,
        Entry::Folder => return Err(taken("a directory")),
        Entry::Other => return Err(taken("a link or device")),
    };
    allow(condition, current)?;
    Ok(current)
}

pub(super) fn stands_under(key: &Key<'_>, folder: &Folder<'_>) -> Result<Entry, Error> {
    look_up(folder, key.name()).map_err(Error::errno_while("look up"))
}

fn taken(what: &str) -> Error {
    Error::Occupied(format!("{what} has this name"))
}

fn elsewhere(key: &Key<'_>) -> Error {
    let folder = key.folder();
    Error::Occupied(format!(
        "the folder {folder:?} lies on another file system, where no value can be moved to"
    ))
}

pub(super) fn allow(condition: Option<&Condition>, current: Option<Meta>) -> Result<(), Error> {
    match condition {
        Some(allows) if !allows(current) => Err(Error::Precondition),
        _ => Ok(()),
    }
}
