//! The replay: what the journal has and the files lack is made in the files.
//!
//! [`History`] says what is made of each file. To replay twice changes nothing, so a replay may be cut off anywhere. What the log does not
//! know and stood in a value's place before that was written is set aside, not removed.

use bytes::Bytes;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::directory_fd::{Blocking, Dir, Entry, changed, look_up, unlink};
use super::super::error::Error;
use super::super::folder::is_no_folder;
use super::super::key::{Key, folder_and_above};
use super::super::meta::{Meta, Version};
use super::super::read;
use super::super::temp_file::{Target, TempFile};
use super::super::writer::Writer;
use super::format::{Change, Operation, Record};
use super::history::{Fate, History};

/// Keys that a hand has changed since, which are named in the log; of the others there is the number.
pub(super) const NAMED: usize = 20;

/// Where things go that stand in the way, in the server's own directory.
const ASIDE: &str = "aside";

/// What the files may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Nothing, as the kernel sees them; but what it remembers of their bytes may not be on the disk.
    Serving,
    /// Names and bytes. A file that has the version and the bytes of its record was read from the disk.
    AfterCrash,
    /// Names and bytes, also those that the kernel remembers.
    AfterFailure,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Done {
    /// Values that were written.
    pub(in crate::store) written: u64,
    /// Values that were removed.
    pub(in crate::store) removed: u64,
    /// Keys that were changed by hand since, and are left as they are.
    pub(in crate::store) by_hand: u64,
}

/// See the module.
pub(super) struct Replay<'a> {
    writer: &'a Writer,
    history: &'a History,
    moment: Moment,
    /// What it did.
    pub(super) done: Done,
}

impl<'a> Replay<'a> {
    pub(super) fn new(writer: &'a Writer, history: &'a History, moment: Moment) -> Self {
        Self {
            writer,
            history,
            moment,
            done: Done::default(),
        }
    }

    /// Makes what the record says, if it counts. Blocks.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let Record::Change(change) = record else {
            return Ok(());
        };
        let Ok(key) = Key::new(change.key) else {
            return Ok(());
        };
        if !self.history.may_count(change) {
            return Ok(());
        }
        let found = find(self.writer.dir(), &key)?;
        let mut fate = self.fate(change, found);
        if fate == Fate::Foreign && self.is_older(change, &key)? {
            self.set_aside(key.as_str())?;
            fate = Fate::Made;
        }
        match (&change.operation, fate) {
            (_, Fate::Foreign) => self.by_hand(&key),
            (Operation::Put(version, attributes, value), fate) => {
                if fate == Fate::Stays
                    || fate == Fate::Compared && self.holds(&key, found, value)?
                {
                    return Ok(());
                }
                if self.moment != Moment::Serving && !self.clear_the_way(change, &key)? {
                    self.by_hand(&key);
                    return Ok(());
                }
                self.put(&key, *version, attributes, value)?;
                self.done.written += 1;
            }
            (Operation::Delete, Fate::Made) => {
                let folder = self.writer.dir().folder(key.folder());
                match folder.and_then(|folder| unlink(&folder, key.name())) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(Error::new("unlink", errno)),
                }
                self.done.removed += 1;
                self.remove_empty_folders(&key);
            }
            (Operation::Delete, _) => self.remove_empty_folders(&key),
            (Operation::Large(_), _) => {}
        }
        Ok(())
    }

    /// What is to be made of what was `found`. While the kernel has all names, only bytes can be missing.
    fn fate(&self, change: &Change<'_>, found: Entry) -> Fate {
        let version = match found {
            Entry::Value(meta) => Some(meta.version),
            Entry::Other => return Fate::Foreign,
            Entry::Absent | Entry::Folder => None,
        };
        match self.history.fate(change, version) {
            Fate::Made if self.moment == Moment::Serving => Fate::Stays,
            fate => fate,
        }
    }

    /// Whether what the log does not know stood there before the change.
    fn is_older(&self, change: &Change<'_>, key: &Key<'_>) -> Result<bool, Error> {
        if self.moment == Moment::Serving {
            return Ok(false);
        }
        let folder = self.writer.dir().folder(key.folder());
        let changed = folder.and_then(|folder| changed(&folder, key.name()));
        let changed = changed.map_err(Error::errno_while("look up"))?;
        Ok(History::is_older(change, changed))
    }

    /// Whether the file that was `found` has these bytes on the disk.
    fn holds(&self, key: &Key<'_>, found: Entry, value: &[u8]) -> Result<bool, Error> {
        let is_whole = matches!(found, Entry::Value(Meta { len, .. }) if len == value.len() as u64);
        if self.moment != Moment::AfterCrash || !is_whole {
            return Ok(false);
        }
        let opened = self.writer.dir().open(key, Blocking::Allowed);
        let Some(opened) = opened.map_err(Error::errno_while("open"))? else {
            return Ok(false);
        };
        // What cannot be read is written anew.
        Ok(read::whole_blocking(opened).is_ok_and(|read| read.bytes == value))
    }

    /// A folder that is removed with its last key may be left without it.
    fn remove_empty_folders(&self, key: &Key<'_>) {
        if self.moment != Moment::Serving {
            self.writer.dir().remove_empty_folders(key.folder(), "");
        }
    }

    /// Sets aside what stood where the key of `change` or a folder of it belongs before that; false if something stands there that a hand
    /// has placed since.
    fn clear_the_way(&self, change: &Change<'_>, key: &Key<'_>) -> Result<bool, Error> {
        let dir = self.writer.dir();
        let mut folders: Vec<_> = folder_and_above(key.folder()).collect();
        folders.reverse();
        for path in folders.into_iter().skip(1) {
            match dir.folder(path) {
                Ok(_) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => return self.set_aside_older(change, path),
                Err(_) => return Ok(true),
            }
        }
        let left = dir.remove_empty_folders(key.as_str(), key.folder());
        if left == key.as_str() && dir.folder(left).is_ok() {
            return self.set_aside_older(change, left);
        }
        Ok(true)
    }

    fn set_aside_older(&self, change: &Change<'_>, path: &str) -> Result<bool, Error> {
        let Ok(key) = Key::new(path) else {
            return Ok(false);
        };
        let is_older = self.is_older(change, &key)?;
        if is_older {
            self.set_aside(path)?;
        }
        Ok(is_older)
    }

    fn set_aside(&self, path: &str) -> Result<(), Error> {
        let own = self.writer.temp_dir().own();
        let failed = || Error::errno_while("set aside what is in the way");
        match rustix::fs::mkdirat(own, ASIDE, Mode::from(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        let name = format!("{ASIDE}/{}", self.writer.next_version(None)?.nanos());
        let root = self.writer.dir().root();
        rustix::fs::renameat(root, path, own, &name).map_err(failed())?;
        tracing::warn!(
            path,
            aside = name,
            "set aside: it stood where an acknowledged value belongs"
        );
        Ok(())
    }

    fn put(
        &self,
        key: &Key<'_>,
        version: Version,
        attributes: &Attributes,
        value: &[u8],
    ) -> Result<(), Error> {
        let dir = self.writer.dir();
        let (folder, _) = dir.make_folder(key.folder()).map_err(|errno| {
            if is_no_folder(errno) {
                dir.occupied(key.folder())
            } else {
                Error::new("make the folder", errno)
            }
        })?;
        let value = [Bytes::copy_from_slice(value)];
        let mut file = TempFile::create_small(self.writer.temp_dir(), &value, Target::Present)?;
        file.seal(attributes, version)?;
        file.replace(&folder, key.name(), false)
            .map_err(Error::errno_while("rename"))
    }

    fn by_hand(&mut self, key: &Key<'_>) {
        self.done.by_hand += 1;
        if self.done.by_hand <= NAMED as u64 && self.moment != Moment::Serving {
            tracing::warn!(
                key = key.as_str(),
                "changed by hand since: the journal's version is not restored"
            );
        }
    }
}

/// What stands under the name of `key`.
pub(super) fn find(dir: &Dir, key: &Key<'_>) -> Result<Entry, Error> {
    match dir.folder(key.folder()) {
        Ok(folder) => look_up(&folder, key.name()).map_err(Error::errno_while("look up")),
        Err(errno) if is_no_folder(errno) => Ok(Entry::Absent),
        Err(errno) => Err(Error::new("open the folder", errno)),
    }
}
