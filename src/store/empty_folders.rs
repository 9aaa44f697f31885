//! The removal of a tree of folders that has no value, also of folders without a mark.
//!
//! `rmdir` alone removes, which refuses a folder that is not empty: nothing that is no folder is ever lost. Tries each
//! folder once, in the order of a [`Walk`].

use rustix::io::Errno;
use serde::Serialize;

use super::directory_fd::ValuesDir;
use super::list::{Go, Met, Order, SLICE, Walk};
use super::publish_method::A_MOUNT;
use crate::value::Error;

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
    /// Adds the thing of this `name`, which stays for this `reason`.
    pub fn add(&mut self, name: String, reason: String) {
        self.count += 1;
        if self.why.len() < TOLD {
            self.why.push(Stayed { name, reason });
        }
    }
}

/// The removal, under way, of the folders below one that are empty, or have empty folders alone.
#[derive(Debug, Default)]
pub struct FolderRemoval {
    walk: Walk,
    /// The lowest that stay.
    pub stays: Stays,
    /// The last of those.
    last: String,
    /// The number of folders that went.
    pub removed: u64,
}

impl FolderRemoval {
    pub fn below(path: &str) -> Self {
        Self {
            walk: Walk::below(path, Order::AsRead),
            ..Self::default()
        }
    }

    /// Goes on for a while; true at the end. Blocks.
    pub fn go_on(&mut self, dir: &ValuesDir) -> Result<bool, Error> {
        let mut walk = std::mem::take(&mut self.walk);
        let is_over = walk.go_on(dir, SLICE, |met| {
            if let Met::Left(path) = met {
                self.remove(dir, path);
            }
            Ok(Go::On)
        });
        self.walk = walk;
        is_over
    }

    /// Removes `path`, if it is empty by now: it is told only where nothing below it is.
    fn remove(&mut self, dir: &ValuesDir, path: &str) {
        let name = format!("{path}/");
        match dir.remove_folder(path) {
            Ok(()) => self.removed += 1,
            Err(errno) if errno != Errno::NOENT && !self.last.starts_with(&name) => {
                let reason = match errno {
                    Errno::NOTEMPTY | Errno::EXIST => NOT_EMPTY.to_owned(),
                    Errno::BUSY => A_MOUNT.to_owned(),
                    errno => Error::new("remove the folder", errno).to_string(),
                };
                self.last.clone_from(&name);
                self.stays.add(name, reason);
            }
            _ => {}
        }
    }
}

/// Removes the folders below `path` as [`FolderRemoval`] does, at once. Blocks.
pub fn remove_below(dir: &ValuesDir, path: &str) -> Result<(), Error> {
    let mut removal = FolderRemoval::below(path);
    while !removal.go_on(dir)? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::store::location::Location;
    use crate::transfer::BlockingPool;

    #[test]
    fn each_folder_is_tried_once_and_the_lowest_that_stay_are_told() {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let place = place.unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in ["a/1/x", "a/2/x/y", "a/2-", "a/3"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for link in ["a/2/x/link", "a/2/link", "a/link", "a/3/link"] {
            std::os::unix::fs::symlink("nowhere", at(link)).unwrap();
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(place.path(), flags, Mode::empty()).unwrap();
        let location = Location::new(place.path(), &root, None).unwrap();
        let dir = ValuesDir::new(root, location, BlockingPool::disk(None).unwrap());
        let mut removal = FolderRemoval::below("a");
        assert!(removal.go_on(&dir).unwrap());
        let told: Vec<_> = removal
            .stays
            .why
            .iter()
            .map(|stayed| &*stayed.name)
            .collect();
        assert_eq!((told, removal.removed), (vec!["a/2/x/", "a/3/"], 4));
        assert_eq!(fs::read_dir(at("a")).unwrap().count(), 3);
    }
}
