//! What keys stand for now, of many keys in turn: the folder of the last one stays open for the next.

use super::super::directory_fd::{Dir, Entry, look_up};
use super::super::folder::{Folder, is_no_folder};
use crate::value::{Failure, Key};

/// Looks up keys.
pub(super) struct Entries<'d> {
    dir: &'d Dir,
    /// The folder of the last key, open if there is one.
    last: Option<(String, Option<Folder<'d>>)>,
}

impl<'d> Entries<'d> {
    pub(super) fn new(dir: &'d Dir) -> Self {
        Self { dir, last: None }
    }

    /// What stands under `key`. What lies in a folder that cannot be read is absent.
    pub(super) fn look_up(&mut self, key: &Key<'_>) -> Result<Entry, Failure> {
        let left_out = self.dir.left_out();
        let Some(folder) = self.folder(key.folder())? else {
            return Ok(Entry::Absent);
        };
        match look_up(folder, key.name()) {
            Err(errno) if !key.is_flat() && left_out.has(key.folder(), errno) => Ok(Entry::Absent),
            Err(errno) => Err(Failure::errno_while("look up")(errno)),
            Ok(entry) => {
                left_out.forget(key.folder());
                Ok(entry)
            }
        }
    }

    fn folder(&mut self, path: &str) -> Result<Option<&Folder<'d>>, Failure> {
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            self.last = Some((path.to_owned(), open(self.dir, path)?));
        }
        Ok(self.last.as_ref().and_then(|(_, folder)| folder.as_ref()))
    }
}

/// The folder `path`, if it is there and can be read.
pub(super) fn open<'d>(dir: &'d Dir, path: &str) -> Result<Option<Folder<'d>>, Failure> {
    match dir.folder(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(errno) if is_no_folder(errno) || dir.left_out().has(path, errno) => Ok(None),
        Err(errno) => Err(Failure::errno_while("open the folder")(errno)),
    }
}
