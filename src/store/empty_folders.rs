//! The removal of a tree of folders that has no value, also of folders without a mark.
//!
//! `rmdir` alone removes, which refuses a folder that is not empty: nothing that is no folder is ever lost. Tries each folder once. Takes
//! memory for some names of each folder on the way, for which it reads a folder of many again, and one descriptor at a time.

use std::collections::BTreeSet;

use rustix::io::Errno;
use serde::Serialize;

use super::directory_fd::{ValuesDir, remove_folder};
use super::list::walk::{self, FOLDERS, Met, SPARE, joined, walk};
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
    /// The folders on the way to the next one, each in the one before it; none once all is over.
    levels: Vec<Level>,
    /// Folders that may still be remembered beside [`FOLDERS`] of each.
    spare: usize,
    /// The lowest that stay.
    pub stays: Stays,
    /// The number of folders that went.
    pub removed: u64,
}

/// A folder whose folders are removed, in the order of their names.
#[derive(Debug)]
struct Level {
    path: String,
    /// The next of them, this many at most.
    names: BTreeSet<Box<str>>,
    most: usize,
    /// The last of those, if there are more.
    more: Option<Box<str>>,
    /// How many stayed before.
    stayed: u64,
}

impl FolderRemoval {
    pub fn below(path: &str) -> Self {
        let mut removal = Self {
            spare: SPARE,
            ..Self::default()
        };
        removal.enter(path.to_owned());
        removal
    }

    /// Takes the next steps, this many at most; true if none is left. Blocks.
    pub fn go_on(&mut self, dir: &ValuesDir, steps: usize) -> Result<bool, Error> {
        for _ in 0..steps {
            let next = |level: &mut Level| Some(joined(&level.path, &level.names.pop_first()?));
            if let Some(path) = self.levels.last_mut().and_then(next) {
                self.enter(path);
            }
            if let Some(level) = self.levels.last_mut().filter(|level| level.more.is_some()) {
                level.read(dir, &mut self.spare)?;
                continue;
            }
            if let Some(level) = self.levels.pop() {
                self.spare += level.most - FOLDERS;
                // The one that all others lie in stays.
                if !self.levels.is_empty() {
                    self.remove(dir, level.path, level.stayed);
                }
            }
            if self.levels.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on with the folders in `path`, which is read next.
    fn enter(&mut self, path: String) {
        self.levels.push(Level {
            path,
            names: BTreeSet::new(),
            most: FOLDERS,
            more: Some("".into()),
            stayed: self.stays.count,
        });
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

impl Level {
    /// Reads the next folders in it; each time twice as many, while others leave room for that.
    fn read(&mut self, dir: &ValuesDir, spare: &mut usize) -> Result<(), Error> {
        let Some(after) = self.more.take() else {
            return Ok(());
        };
        if !after.is_empty() {
            let more = self.most.min(*spare);
            (self.most, *spare) = (self.most + more, *spare - more);
        }
        let Some(folder) = walk::open(dir, &self.path)? else {
            return Ok(());
        };
        let above = self.path.len() + 1;
        walk(dir, &folder, &self.path, |met| {
            let Met::Folder(below) = met else {
                return Ok(());
            };
            let name = &below[above..];
            if *name > *after {
                self.names.insert(name.into());
            }
            if self.names.len() > self.most {
                self.names.pop_last();
                self.more = self.names.last().cloned();
            }
            Ok(())
        })
    }
}

/// Removes the folders below `path` as [`FolderRemoval`] does, at once. Blocks.
pub fn remove_below(dir: &ValuesDir, path: &str) -> Result<(), Error> {
    FolderRemoval::below(path)
        .go_on(dir, usize::MAX)
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::store::location::Location;
    use crate::transfer::BlockingPool;

    #[test]
    fn of_any_number_of_folders_few_are_remembered_and_each_is_tried_once() {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let place = place.unwrap();
        let at = |name: String| place.path().join("a").join(name);
        for n in 0..12_000 {
            fs::create_dir_all(at(format!("{n:05}"))).unwrap();
            if n % 600 == 0 {
                std::os::unix::fs::symlink("nowhere", at(format!("{n:05}/link"))).unwrap();
            }
            if n % 4 == 0 {
                fs::create_dir_all(at(format!("00007/{n:05}"))).unwrap();
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(place.path(), flags, Mode::empty()).unwrap();
        let location = Location::new(place.path(), &root, None).unwrap();
        let dir = ValuesDir::new(root, location, BlockingPool::disk(None).unwrap());
        let mut removal = FolderRemoval::below("a");
        let spare = 2_000;
        removal.spare = spare;
        let mut steps = 0;
        while !removal.go_on(&dir, 1).unwrap() {
            let names = removal.levels.iter().map(|level| level.names.len());
            assert!(names.sum::<usize>() <= spare + FOLDERS * removal.levels.len());
            steps += 1;
        }
        assert_eq!(removal.spare, spare);
        // Each is read and removed, and the two of many are read some times.
        assert!((30_000..30_050).contains(&steps), "{steps}");
        assert_eq!(removal.stays.count, 20);
        assert_eq!(removal.stays.why[1].name, "a/00600/");
        assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 20);
    }
}
