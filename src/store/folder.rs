//! From a key to the directory that its file lies in, its folder: the one place that walks there.
//!
//! A flat key lies in the directory itself, which is open: nothing is asked of the system. Every other folder is opened by
//! one `openat2` from there, beneath it and through no symbolic link. What is done with an open folder is done in that very
//! directory, wherever another program moves it meanwhile. Folders come with the keys in them and go with the last: they are
//! made level by level, and removed by `rmdir`, which refuses one that is not empty. Blocks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::directory_fd::{Dir, open_beneath};
use crate::value::{Error, folder_and_above};

/// Folders are made with this mode; the process's umask takes away from it, as it does for `mkdir`.
const FOLDER_MODE: u32 = 0o777;

/// A directory that values lie in, open.
#[derive(Debug)]
pub enum Folder<'a> {
    /// The directory itself.
    Root(&'a OwnedFd),
    Below(OwnedFd),
}

impl AsFd for Folder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => root.as_fd(),
            Self::Below(folder) => folder.as_fd(),
        }
    }
}

/// Whether `errno`, met on the way to a folder, says that there is none: a level is missing, or is no directory.
pub fn is_no_folder(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

impl Dir {
    /// Opens the folder `path`. `NOENT` where a level is missing, `NOTDIR` or `LOOP` where one is no directory.
    pub fn folder(&self, path: &str) -> Result<Folder<'_>, Errno> {
        if path.is_empty() {
            return Ok(Folder::Root(self.root()));
        }
        open_folder(self.root(), path).map(Folder::Below)
    }

    /// Opens the folder `path`, or the lowest one above it that there is; which, by its path.
    pub fn folder_or_above<'p>(&self, path: &'p str) -> Result<(Folder<'_>, &'p str), Errno> {
        for there in folder_and_above(path) {
            match self.folder(there) {
                Err(errno) if is_no_folder(errno) => {}
                opened => return opened.map(|folder| (folder, there)),
            }
        }
        Ok((Folder::Root(self.root()), ""))
    }

    /// Opens the folder `path`, and makes what is missing of it; in which folder that was, by its path. `NOENT` where another
    /// program removes a level meanwhile, `NOTDIR` or `LOOP` where something else has its name. Then it leaves nothing.
    pub fn make_folder<'p>(&self, path: &'p str) -> Result<(Folder<'_>, &'p str), Errno> {
        let (mut folder, there) = self.folder_or_above(path)?;
        let missing = path[there.len()..].split('/').filter(|s| !s.is_empty());
        for segment in missing {
            match make_and_open(&folder, segment) {
                Ok(made) => folder = Folder::Below(made),
                Err(errno) => {
                    self.remove_empty_folders(path, there);
                    return Err(errno);
                }
            }
        }
        Ok((folder, there))
    }

    /// Removes the folder `path` if it is empty, and then those above it that are, but not `keep`; answers the path of the
    /// lowest that stays.
    pub fn remove_empty_folders<'p>(&self, path: &'p str, keep: &str) -> &'p str {
        let mut lowest = path;
        while lowest.len() > keep.len() {
            let (above, name) = lowest.rsplit_once('/').unwrap_or(("", lowest));
            let remove =
                |above| retry_on_intr(|| rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR));
            match self.folder(above).and_then(remove) {
                // Another program may have been quicker.
                Ok(()) | Err(Errno::NOENT) => lowest = above,
                // NOTEMPTY, as a rule. An empty folder that stays for another reason takes nothing from any value.
                Err(_) => break,
            }
        }
        lowest
    }

    /// Why no folder `path` can be: the first level that is no directory, in words.
    pub fn occupied(&self, path: &str) -> Error {
        let mut levels: Vec<_> = folder_and_above(path).collect();
        levels.reverse();
        let other = levels.into_iter().skip(1).find_map(|level| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let found = open_beneath(self.root(), level, flags, Mode::empty()).ok()?;
            let stat = retry_on_intr(|| rustix::fs::fstat(&found)).ok()?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => None,
                FileType::RegularFile => Some((level, "a value")),
                _ => Some((level, "a link or device")),
            }
        });
        let (level, what) = other.unwrap_or((path, "no directory"));
        Error::Occupied(format!("{level:?} is {what}, so no key lies below it"))
    }
}

/// Opens the directory `path` below `dir`.
fn open_folder(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    // For reading, as a directory that is opened for its path alone (`O_PATH`) cannot be synced.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    open_beneath(dir, path, flags, Mode::empty())
}

/// Makes the directory `name` in `folder`, if nothing has that name, and opens it.
fn make_and_open(folder: &Folder<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match retry_on_intr(|| rustix::fs::mkdirat(folder, name, Mode::from(FOLDER_MODE))) {
        // What has the name is opened, if it is a directory.
        Ok(()) | Err(Errno::EXIST) => open_folder(folder, name),
        Err(errno) => Err(errno),
    }
}
