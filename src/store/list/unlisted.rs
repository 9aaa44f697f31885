//! What a folder has beside what its listing shows: symbolic links, names that no key can be, pipes and other special
//! files, by their number.
//!
//! Reads the folder once, up to [`MOST`] names. What is hidden, and the server's own, is not told of.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDirEntry};

use super::folder::open;
use super::reading::{Reading, kind_of};
use crate::store::directory_fd::{Blocking, ValuesDir};
use crate::store::symlinks::follow;
use crate::value::{BadKey, Key, RESERVED, may_have_keys};

/// The most names that are read, and the most links that are followed.
const MOST: usize = 10_000;
const MOST_FOLLOWED: usize = 100;

/// What a folder has beside what is listed.
#[derive(Debug, Default)]
pub struct Unlisted {
    /// Symbolic links that are not followed, or lead to nothing.
    pub symlinks: usize,
    /// Names that no key can be.
    pub names: usize,
    /// Pipes, sockets and devices.
    pub special: usize,
    /// The names of symbolic links that lead to a value or, with a `/` behind them, to a folder.
    pub followed: Vec<String>,
    /// There are names that were not read.
    pub has_more: bool,
}

/// What the folder `path` has beside what is listed; with `follows`, which links lead somewhere. Of a folder that cannot
/// be read, nothing. Blocks.
pub fn unlisted(dir: &ValuesDir, path: &str, follows: bool) -> Unlisted {
    let (mut found, mut names) = (Unlisted::default(), 0);
    let reading = open(dir, path).and_then(Reading::of);
    let Ok(mut reading) = reading else {
        return found;
    };
    loop {
        let read = reading.read(|folder, entry| {
            names += 1;
            found.has_more = names > MOST;
            if found.has_more {
                return Err(());
            }
            found.add(dir, path, folder, entry, follows);
            Ok(())
        });
        if read != Ok(Ok(true)) {
            found.followed.sort_unstable();
            return found;
        }
    }
}

impl Unlisted {
    /// True where all that was read is listed.
    pub fn is_none(&self) -> bool {
        self.symlinks + self.names + self.special + self.followed.len() == 0
    }

    fn add(
        &mut self,
        dir: &ValuesDir,
        path: &str,
        folder: &OwnedFd,
        entry: &RawDirEntry<'_>,
        follows: bool,
    ) {
        let name = entry.file_name().to_string_lossy();
        if matches!(&*name, "." | "..") || name.starts_with(RESERVED) {
            return;
        }
        let at = if path.is_empty() { "" } else { "/" };
        let key = match Key::new([path, at, &*name].concat()) {
            Err(BadKey::Hidden) => return,
            key => key.ok().filter(|_| entry.file_name().to_str().is_ok()),
        };
        match (kind_of(folder, entry, &name), key) {
            (Ok(FileType::Symlink), Some(key))
                if follows && self.followed.len() < MOST_FOLLOWED =>
            {
                match follow(dir, &key, Blocking::Allowed) {
                    Ok(Some(target)) if target.is_folder => self.followed.push(format!("{name}/")),
                    Ok(Some(_)) => self.followed.push(name.into_owned()),
                    _ => self.symlinks += 1,
                }
            }
            (Ok(FileType::Symlink), _) => self.symlinks += 1,
            (Ok(FileType::RegularFile), None) => self.names += 1,
            (Ok(FileType::Directory), key) => {
                let is_listed = key.is_some_and(|key| may_have_keys(key.as_str()));
                self.names += usize::from(!is_listed);
            }
            (Ok(FileType::RegularFile | FileType::Unknown) | Err(_), _) => {}
            (Ok(_), _) => self.special += 1,
        }
    }
}
