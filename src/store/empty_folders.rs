//! The removal of a tree of folders that has no value, also of folders without a mark.
//!
//! `rmdir` alone removes, which refuses a folder that is not empty: nothing that is no folder is ever lost. Reads and tries each folder
//! once. Takes memory for the names beside those on the way to it, and one descriptor at a time.

use rustix::io::Errno;
use serde::Serialize;

use super::directory_fd::{ValuesDir, remove_folder};
use super::list::walk::{self, Met, walk};
use crate::value::Error;

/// Folders that are read or removed before others have their turn.
pub const SLICE: usize = 256;

/// The most that are told of what stays.
pub const TOLD: usize = 100;

/// Why a folder stays whose values have gone.
pub const NOT_EMPTY: &str =
    "it holds what is no value, what the server may not read, or a value that was stored meanwhile";

/// A value or a folder that stays, and the reason.
#[derive(Debug, Serialize)]
pub struct Stayed {
    pub name: String,
    pub reason: String,
}

/// All that stays: how much that is, and some of it.
#[derive(Debug, Default, Serialize)]
pub struct Stays {
    /// The number of values and folders.
    #[serde(rename = "stayed")]
    pub count: u64,
    /// The first of them.
    pub why: Vec<Stayed>,
}

impl Stays {
    /// Adds all that `others` are.
    pub fn append(&mut self, others: Self) {
        self.count += others.count;
        let room = TOLD - self.why.len();
        self.why.extend(others.why.into_iter().take(room));
    }

    /// Adds the thing of this `name`, which stays for this `reason`.
    pub fn add(&mut self, name: String, reason: String) {
        self.count += 1;
        if self.why.len() < TOLD {
            self.why.push(Stayed { name, reason });
        }
    }
}

/// The folders that listings leave out.
#[derive(Debug, Default)]
pub struct LeftOut {
    pub stays: Stays,
    /// The error of one of them, if there are any.
    pub first: Option<Error>,
}

/// The removal, under way, of the folders below one that are empty, or have empty folders alone.
#[derive(Debug, Default)]
pub struct FolderRemoval {
    /// Folders to remove, the next last: each above those that lie in it. Once one is read, with the number that stayed before.
    todo: Vec<(String, Option<u64>)>,
    /// The lowest that stay.
    pub stays: Stays,
    /// The number of folders that went.
    pub removed: u64,
}

impl FolderRemoval {
    pub fn below(path: &str) -> Self {
        Self {
            todo: vec![(path.to_owned(), None)],
            ..Self::default()
        }
    }

    /// Takes the next steps, this many at most; true if none is left. Blocks.
    pub fn go_on(&mut self, dir: &ValuesDir, steps: usize) -> Result<bool, Error> {
        for _ in 0..steps {
            match self.todo.pop() {
                Some((path, None)) => self.read(dir, &path)?,
                Some((path, Some(before))) if !self.todo.is_empty() => {
                    self.remove(dir, path, before);
                }
                // The one that all others lie in.
                Some(_) | None => return Ok(true),
            }
        }
        Ok(false)
    }

    fn read(&mut self, dir: &ValuesDir, path: &str) -> Result<(), Error> {
        self.todo.push((path.to_owned(), Some(self.stays.count)));
        let Some(folder) = walk::open(dir, path)? else {
            return Ok(());
        };
        walk(dir, &folder, path, |met| {
            if let Met::Folder(below) = met {
                self.todo.push((below, None));
            }
            Ok(())
        })
    }

    /// Removes `path`, if it is empty by now: it is told only where nothing below it is, which has stayed since `before`.
    fn remove(&mut self, dir: &ValuesDir, path: String, before: u64) {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let removed = dir
            .folder(above)
            .and_then(|above| remove_folder(&above, name));
        match removed {
            Ok(()) => self.removed += 1,
            Err(errno) if errno != Errno::NOENT && self.stays.count == before => {
                let reason = match errno {
                    Errno::NOTEMPTY | Errno::EXIST => NOT_EMPTY.to_owned(),
                    errno => Error::new("remove the folder", errno).to_string(),
                };
                self.stays.add(path + "/", reason);
            }
            _ => {}
        }
    }
}

/// Removes the folders below `path` as [`FolderRemoval`] does, at once. Blocks.
pub fn remove_below(dir: &ValuesDir, path: &str) -> Result<(), Error> {
    FolderRemoval::below(path)
        .go_on(dir, usize::MAX)
        .map(|_| ())
}
