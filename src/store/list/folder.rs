//! Opening one folder, and looking up keys.
//!
//! Owns the rule for what cannot be read: a folder or a value whose own error keeps it from being read is left out, the
//! log and a metric tell so ([`Unserved`](crate::store::unserved::Unserved)), and the caller learns of it. Only what
//! concerns all folders fails: the directory itself cannot be read, or the server lacks descriptors or memory.

use std::os::fd::OwnedFd;
use std::time::SystemTime;

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::store::attributes;
use crate::store::directory_fd::{
    NameKind, OPENED, ValuesDir, is_no_folder, look_up, open_beneath, open_folder,
};
use crate::value::{Error, Key, ListedValue, Meta};

/// Opens the folder `path`, to read it and to look up names in it.
pub fn open(dir: &ValuesDir, path: &str) -> Result<OwnedFd, Errno> {
    // Also of the directory itself: a descriptor that is shared has one place in its directory for all.
    let folder = open_folder(&dir.root, if path.is_empty() { "." } else { path })?;
    // Without the right to search, each look-up in it fails.
    look_up(&folder, ".")?;
    Ok(folder)
}

/// True if `errno` says that there is no folder `path`. The directory itself is always to be there.
pub fn is_absent(path: &str, errno: Errno) -> bool {
    !path.is_empty() && is_no_folder(errno)
}

/// Leaves `path` out, which cannot be read: answers why, or fails where that concerns more than `path`.
pub fn leave_out(
    dir: &ValuesDir,
    path: &str,
    doing: &'static str,
    errno: Errno,
) -> Result<Error, Error> {
    let why = Error::new(doing, errno);
    if dir.unserved.leaves_out(path, errno) {
        Ok(why)
    } else {
        Err(why)
    }
}

/// Looks up keys.
pub struct Entries<'d> {
    dir: &'d ValuesDir,
    /// The folder of the last key, open if it is there.
    last: Option<(String, Result<OwnedFd, Errno>)>,
}

impl<'d> Entries<'d> {
    pub fn new(dir: &'d ValuesDir) -> Self {
        Self { dir, last: None }
    }

    /// The value of `key`, if there is one that has not ended, and can be looked up.
    pub fn value(&mut self, key: &Key<'_>) -> Result<Option<Meta>, Error> {
        let found = self.meta(key)?.ok().flatten();
        Ok(found.filter(|meta| !meta.has_ended()))
    }

    /// The value of `key` as a listing shows it, as [`Self::value`] finds it.
    pub fn listed(&mut self, key: &Key<'_>) -> Result<Option<ListedValue>, Error> {
        let found = self.value(key)?;
        Ok(found.map(|meta| ListedValue {
            date: self.date(key, meta),
            ..ListedValue::of(meta)
        }))
    }

    /// The date of the value of `key`, which was just looked up. Reads nothing where no value has one.
    fn date(&self, key: &Key<'_>, meta: Meta) -> Option<SystemTime> {
        let folder = self.last.as_ref().filter(|_| self.dir.dates.is_possible());
        let folder = folder?.1.as_ref().ok()?;
        let file = open_beneath(folder, key.name(), OPENED, Mode::empty()).ok()?;
        attributes::date_of(&file, meta.version).ok()?
    }

    /// The value of `key`, also one that has ended; or why it is left out.
    pub fn meta(&mut self, key: &Key<'_>) -> Result<Result<Option<Meta>, Error>, Error> {
        let path = key.folder();
        let last = self.last.take().filter(|(last, _)| last == path);
        let last = last.unwrap_or_else(|| (path.to_owned(), open(self.dir, path)));
        let (path, found) = match &self.last.insert(last).1 {
            Ok(folder) => (key.as_str(), self.dir.look_up(folder, key.name())),
            Err(errno) if is_absent(path, *errno) => (path, Ok(NameKind::Absent)),
            Err(errno) => (path, Err(*errno)),
        };
        match found {
            Ok(NameKind::Value(meta, _)) => {
                self.dir.unserved.can_be_read(path);
                Ok(Ok(Some(meta)))
            }
            Ok(_) => Ok(Ok(None)),
            Err(errno) => leave_out(self.dir, path, "look up", errno).map(Err),
        }
    }
}
