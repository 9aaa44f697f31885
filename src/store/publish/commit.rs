//! The committer: it looks up names and makes changes, with the system calls that this takes.
//!
//! The folders of a key are made only once the change may be made, and removed again when it fails. The publisher alone
//! makes and removes them for this server, so that only other programs can be in its way: where one of them changes what a
//! change was decided on, the change is not made, and is decided anew.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::directory_fd::{Entry, Folder, ValuesDir, is_no_folder, look_up, unlink};
use super::super::publish_method::unpublished;
use super::super::space::Allowance;
use super::super::temp_file::Target;
use super::super::upload::{NewValue, SealedValue};
use super::super::value_file::ValueFile;
use super::super::write_context::{Durability, WriteContext};
use super::decide::{AppliedChange, Change, Files, Plan, plan, survive};
use crate::transfer::SLOW_TO_FREE;
use crate::value::{Error, Key, Meta};

/// After this many creates in a row, the committer skips the stat and tries to link first. A wrong guess costs about five
/// stats, so it must be right most of the time.
const CREATES_IN_A_ROW: u32 = 16;

/// The publisher's hold on the files.
pub(super) struct Committer {
    pub(super) writer: Arc<WriteContext>,
    /// How many of the last changes were creates.
    creates: Cell<u32>,
    allowance: Allowance,
}

/// The value under a name, and the folder that it lies in, if that is there.
#[derive(Default)]
struct NameState<'a> {
    folder: Option<Folder<'a>>,
    value: Option<(Meta, Mode)>,
}

impl NameState<'_> {
    fn meta(&self) -> Option<Meta> {
        self.value.map(|(meta, _)| meta)
    }
}

impl Committer {
    pub(super) fn new(writer: Arc<WriteContext>) -> Self {
        Self {
            writer,
            creates: Cell::new(0),
            allowance: Allowance::default(),
        }
    }

    fn dir(&self) -> &ValuesDir {
        self.writer.dir()
    }

    /// Decides `change` by the files alone, and makes it; anew while other programs are in its way.
    pub(super) fn make_at_once(&self, mut change: Change) -> AppliedChange {
        match survive(|| self.try_to_make(&mut change)) {
            Ok(Some(plan)) => change.made(plan, self.writer.durability == Durability::Disk),
            Ok(None) => change.unmade(Ok(None)),
            Err(error) => change.unmade(Err(error)),
        }
    }

    fn try_to_make(&self, change: &mut Change) -> Result<Option<Plan>, Error> {
        loop {
            let found = self.look(change, self.is_create_likely(change))?;
            let Some(plan) = plan(self, change, found.meta())? else {
                return Ok(None);
            };
            self.stage(change, plan)?;
            if self.make_in(change, &found)? {
                return Ok(Some(plan));
            }
        }
    }

    /// After many creates in a row, a name to be put without a condition is assumed to be free.
    fn is_create_likely(&self, change: &Change) -> bool {
        change.condition.is_none() && self.creates.get() >= CREATES_IN_A_ROW
    }

    /// Looks up the name of `change`; a name to be put is taken for free without a look if that `is_assumed`.
    fn look(&self, change: &Change, is_assumed: bool) -> Result<NameState<'_>, Error> {
        let key = &change.key;
        let is_put = change.value.is_some();
        self.writer.may_change(key)?;
        let folder = match self.dir().folder(key.folder()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(NameState::default()),
            Err(errno) if is_no_folder(errno) && !is_put => return Ok(NameState::default()),
            Err(errno) if is_no_folder(errno) => return Err(self.dir().occupied(key.folder())),
            Err(errno) => return Err(Error::new("open the folder", errno)),
        };
        let value = if is_put && is_assumed {
            None
        } else {
            match look_up(&folder, key.name()).map_err(Error::errno_while("look up"))? {
                Entry::Value(meta, mode) => Some((meta, mode)),
                Entry::Folder if is_put => return Err(name_taken("a directory")),
                Entry::Other if is_put => return Err(name_taken("a link or device")),
                Entry::Absent | Entry::Folder | Entry::Other => None,
            }
        };
        Ok(NameState {
            folder: Some(folder),
            value,
        })
    }

    /// Makes `change`, whose file is staged, in place of what was `found`; false where another program has changed that.
    fn make_in(&self, change: &mut Change, found: &NameState<'_>) -> Result<bool, Error> {
        match &mut change.value {
            Some(NewValue::Sealed(sealed)) => self.put(&change.key, sealed, found),
            _ => self.delete(&change.key, found),
        }
    }

    /// Publishes `sealed` in place of what was `found`; false where another program has changed the name or its folder.
    fn put(
        &self,
        key: &Key<'_>,
        sealed: &mut SealedValue,
        found: &NameState<'_>,
    ) -> Result<bool, Error> {
        let made = match (&found.folder, found.value) {
            (Some(folder), Some(value)) => self.replace(key, folder, sealed, value),
            (Some(folder), None) => self.create(key, folder, sealed),
            (None, None) => self.create_below(key, sealed),
            (None, Some(_)) => Ok(false),
        };
        match made {
            Err(error) if error.is_gone() && !key.is_flat() => Ok(false),
            made => made,
        }
    }

    /// As [`Self::create`], of a key whose folder is not there. A change that fails takes what it made away again.
    fn create_below(&self, key: &Key<'_>, sealed: &mut SealedValue) -> Result<bool, Error> {
        let (dir, path) = (self.dir(), key.folder());
        let (folder, there) = dir.make_folder(path).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => dir.occupied(path),
            errno => Error::new("make the folder", errno),
        })?;
        let created = self.create(key, &folder, sealed);
        if !matches!(created, Ok(true)) {
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
    ) -> Result<bool, Error> {
        sealed.inherit(&self.writer, folder, None)?;
        match sealed.link(folder, key.name()) {
            Ok(()) => {
                self.creates.set(self.creates.get().saturating_add(1));
                Ok(true)
            }
            // The guess was wrong, or another program made the name first.
            Err(Errno::EXIST) => {
                self.creates.set(0);
                Ok(false)
            }
            Err(errno) => Err(unpublished(key, "link", errno)),
        }
    }

    /// Publishes `sealed` in place of `current`, or of what another program has put there since.
    fn replace(
        &self,
        key: &Key<'_>,
        folder: &Folder<'_>,
        sealed: &mut SealedValue,
        (current, mode): (Meta, Mode),
    ) -> Result<bool, Error> {
        self.creates.set(0);
        sealed.inherit(&self.writer, folder, Some(mode))?;
        let replaced = self.pin_if_slow(key, current);
        sealed
            .replace(folder, key.name())
            .map_err(|errno| unpublished(key, "rename", errno))?;
        drop(replaced);
        Ok(true)
    }

    /// Removes the value of `key` that was `found`, and the folders that it leaves empty; false where another program was quicker, with rm or
    /// with mkdir.
    fn delete(&self, key: &Key<'_>, found: &NameState<'_>) -> Result<bool, Error> {
        let (Some(folder), Some(meta)) = (&found.folder, found.meta()) else {
            return Ok(false);
        };
        let removed = self.pin_if_slow(key, meta);
        match unlink(folder, key.name()) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::ISDIR) => return Ok(false),
            Err(errno) => return Err(unpublished(key, "unlink", errno)),
        }
        drop(removed);
        self.dir().remove_empty_folders(key.folder(), "");
        Ok(true)
    }

    fn pin_if_slow(&self, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
        if meta.len > SLOW_TO_FREE {
            self.dir().pin(key)
        } else {
            None
        }
    }
}

impl Files for Committer {
    fn check(&self) -> Result<(), Error> {
        self.dir().location.check()
    }

    fn find(&self, change: &Change) -> Result<Option<Meta>, Error> {
        let is_assumed = self.is_create_likely(change);
        self.look(change, is_assumed).map(|found| found.meta())
    }

    fn result(&self, change: &mut Change, base: Option<Meta>) -> Result<Option<Meta>, Error> {
        let Some(value) = &mut change.value else {
            return Ok(None);
        };
        let len = value.len();
        // Its file is yet to be written.
        if let NewValue::Memory(..) = value {
            let (space, root) = (&self.writer.space, &self.dir().root);
            self.allowance.take(space, root, len)?;
        }
        let version = value.version_after(&self.writer, base.map(|meta| meta.version))?;
        Ok(Some(Meta::new(len, version)))
    }

    fn small<'c>(&self, change: &'c Change) -> Option<(&'c Attributes, &'c [Bytes])> {
        change.value.as_ref().and_then(NewValue::in_memory)
    }

    fn stage(&self, change: &mut Change, plan: Plan) -> Result<(), Error> {
        if let (Some(value), Some(result)) = (change.value.take(), plan.result) {
            let target = match plan.base {
                Some(_) => Target::Present,
                None if change.key.is_flat() => Target::Root,
                None => Target::Absent,
            };
            let sealed = value.seal_as(&self.writer, target, result.version)?;
            change.value = Some(NewValue::Sealed(sealed));
        }
        Ok(())
    }

    fn make(&self, change: &mut Change, plan: Plan) -> Result<bool, Error> {
        let found = self.look(change, plan.base.is_none())?;
        if found.meta() != plan.base {
            return Ok(false);
        }
        self.make_in(change, &found)
    }
}

fn name_taken(what: &str) -> Error {
    Error::Occupied(format!("{what} has this name"))
}
