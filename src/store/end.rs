//! Looks at names where a value has its end. It is read only where values may have one.

use std::os::fd::AsFd;

use rustix::fs::{Mode, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::attributes;
use super::directory_fd::{Blocking, NameKind, OPENED, ValuesDir, kind, look_up, open_beneath};
use super::value_file::Opened;
use crate::value::{Error, Key, Meta, folder_and_above};

impl ValuesDir {
    /// The value of `key`, also one that has ended; `None` when there is none. Takes a right to read the value only to
    /// learn its end. With [`Blocking::Never`], fails with `AGAIN` where the device would be needed.
    pub fn meta(&self, key: &Key<'_>, blocking: Blocking) -> Result<Option<Meta>, Errno> {
        let found = self.stat_and_end(key.as_str(), blocking)?;
        Ok(found.map(|(stat, end)| Meta::of(&stat).ending(end)))
    }

    /// The description of the file of `key` and the end of its value; `None` when there is none. Takes a right to read
    /// the value only to learn its end. With [`Blocking::Never`], fails with `AGAIN` where the device would be needed.
    pub fn stat_and_end(
        &self,
        key: &str,
        blocking: Blocking,
    ) -> Result<Option<(Stat, Option<u64>)>, Errno> {
        if self.ends.is_possible()
            && let Ok(key) = Key::recorded(key)
        {
            match self.open(&key, blocking) {
                Err(Errno::ACCESS | Errno::PERM) => {}
                opened => {
                    let with_end = |it: Opened| Ok((it.stat, attributes::end_of(&it.fd)?));
                    return opened?.map(with_end).transpose();
                }
            }
        }
        Ok(self.stat(key, blocking)?.map(|stat| (stat, None)))
    }

    /// The value that has ended at `path`, or at a folder above, and keeps others from the name `path`.
    pub fn ended_at(&self, path: &str) -> Option<(Key<'static>, Meta)> {
        let ended = |level: &str| {
            let key = Key::recorded(level.to_owned()).ok()?;
            let meta = self.meta(&key, Blocking::Allowed).ok()??;
            meta.has_ended().then_some((key, meta))
        };
        let mut levels = folder_and_above(path).filter(|_| self.ends.is_possible());
        levels.find_map(ended)
    }

    /// Fails as `found` did for the name `path`, unless a value that has ended is in its way: the publisher removes
    /// that.
    pub fn unless_ended(&self, path: &str, found: Result<(), Error>) -> Result<(), Error> {
        found.or_else(|error| self.ended_at(path).map(drop).ok_or(error))
    }

    /// As [`look_up`], where a value has its end.
    pub fn look_up(&self, folder: &impl AsFd, name: &str) -> Result<NameKind, Errno> {
        let found = look_up(folder, name)?;
        if !matches!(found, NameKind::Value(..)) || !self.ends.is_possible() {
            return Ok(found);
        }
        let file = match open_beneath(folder, name, OPENED, Mode::empty()) {
            // It cannot be answered: so its end does not matter.
            Err(Errno::ACCESS | Errno::PERM) => return Ok(found),
            // Another program was here since.
            Err(Errno::NOENT) => return Ok(NameKind::Absent),
            Err(Errno::LOOP | Errno::NXIO) => return Ok(NameKind::Other),
            file => file?,
        };
        // The file that is open, of which the end is.
        Ok(match kind(&retry_on_intr(|| rustix::fs::fstat(&file))?) {
            NameKind::Value(meta, mode) => {
                NameKind::Value(meta.ending(attributes::end_of(&file)?), mode)
            }
            other => other,
        })
    }
}
