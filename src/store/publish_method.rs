//! How a temporary file gets the name of its key.
//!
//! File systems differ in what they can do for this, and some say so only when it is tried. The start finds the method
//! once ([`super::layout`]), and every file of this server is published by it. A rename over another file works on all.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use super::directory_fd::{make_and_open, open_beneath};
use crate::value::{Error, Key};

/// A method of publishing, the better ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishMethod {
    /// A file without a name (`O_TMPFILE`) is linked by its descriptor. The kernel removes it when the server dies.
    Unnamed,
    /// As `Unnamed`, through `/proc`, which takes longer: before Linux 6.10, a link by the descriptor is a privilege.
    UnnamedByProc,
    /// A file with a name in staging is linked, and loses that name: FUSE programs have neither `O_TMPFILE` nor, as
    /// mergerfs and bindfs, a rename that replaces nothing.
    Named,
}

impl PublishMethod {
    /// Whether files have no name before they are published.
    pub fn is_unnamed(self) -> bool {
        self != Self::Named
    }

    /// Links the unnamed `file` as `dir/to`; `EXIST` when something has that name.
    pub fn link_unnamed(self, file: impl AsFd, dir: impl AsFd, to: &str) -> Result<(), Errno> {
        if self == Self::Unnamed {
            return retry_on_intr(|| rustix::fs::linkat(&file, "", &dir, to, AtFlags::EMPTY_PATH));
        }
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        retry_on_intr(|| rustix::fs::linkat(CWD, &path, &dir, to, AtFlags::SYMLINK_FOLLOW))
    }
}

/// Gives the file `name` of `home` the name `dir/to` instead; `EXIST` when something has that.
pub fn link_named(home: &OwnedFd, name: &str, dir: impl AsFd, to: &str) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::linkat(home, name, &dir, to, AtFlags::empty()))?;
    unlink_staged(home, name);
    Ok(())
}

/// Gives the file `name` of `home` the name `dir/to`, in place of the file that has it. Ext4 begins to write the file
/// at once, so that a cut of power leaves no empty one.
pub fn rename(home: &OwnedFd, name: &str, dir: BorrowedFd<'_>, to: &str) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::renameat(home, name, dir, to))
}

/// As [`rename`], by an exchange of the names, and removes the other file. Nothing is written by it: after a cut of
/// power both files may be lost.
pub fn exchange(home: &OwnedFd, name: &str, dir: BorrowedFd<'_>, to: &str) -> Result<(), Errno> {
    let swap = || rustix::fs::renameat_with(home, name, dir, to, RenameFlags::EXCHANGE);
    match retry_on_intr(swap) {
        // Another program has removed the value.
        Err(Errno::NOENT) => return rename(home, name, dir, to),
        swapped => swapped?,
    }
    match unlink(home, name) {
        // Another program has put a directory there, which a rename would refuse.
        Err(Errno::ISDIR | Errno::PERM) => {
            retry_on_intr(swap)?;
            Err(Errno::ISDIR)
        }
        removed => {
            warn_of_rest(name, removed);
            Ok(())
        }
    }
}

/// Where things go that stand in the way, in the server's own directory.
pub const ASIDE: &str = "aside";

/// Moves `name` of `folder` to the name `to` in [`ASIDE`] of `own`, which is made if it is missing.
pub fn set_aside(own: &OwnedFd, folder: impl AsFd, name: &str, to: &str) -> Result<(), Errno> {
    let aside = make_and_open(own, ASIDE, Mode::RWXU)?;
    retry_on_intr(|| rustix::fs::renameat(&folder, name, &aside, to))
}

/// Why nothing of a name goes that a file system has.
pub const A_MOUNT: &str = "a file system is mounted at this name: it cannot be replaced or removed";

/// Why no file can have the name of `key`, or none can lose it: `errno`, met while `doing`.
pub fn unpublished(key: &Key<'_>, doing: &'static str, errno: Errno) -> Error {
    let folder = key.folder();
    Error::Occupied(match errno {
        Errno::ISDIR | Errno::NOTDIR => "a folder has this name".to_owned(),
        Errno::BUSY => A_MOUNT.to_owned(),
        Errno::XDEV => format!(
            "the folder {folder:?} lies on another file system or mount, where no value can be moved to"
        ),
        errno => return Error::new(doing, errno),
    })
}

impl std::fmt::Display for PublishMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unnamed => "unnamed file, linked by its descriptor",
            Self::UnnamedByProc => "unnamed file, linked through /proc",
            Self::Named => "named file, linked",
        })
    }
}

/// A new empty file in `root` that has no name.
pub fn create_unnamed(root: &OwnedFd, mode: Mode) -> Result<OwnedFd, Errno> {
    open_beneath(root, ".", OFlags::TMPFILE | OFlags::RDWR, mode)
}

/// A new empty file that has this name in `staging`.
pub fn create_named(staging: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd, Errno> {
    let created = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
    open_beneath(staging, name, created, mode)
}

/// Takes its name in `staging` from a file. Where that fails, the start of the next server does it.
pub fn unlink_staged(staging: &OwnedFd, name: &str) {
    warn_of_rest(name, unlink(staging, name));
}

/// Removes a staged file. Tries a second time, for what stays is removed by the next start alone.
fn unlink(staging: &OwnedFd, name: &str) -> Result<(), Errno> {
    let unlink = || rustix::fs::unlinkat(staging, name, AtFlags::empty());
    retry_on_intr(unlink).or_else(|_| retry_on_intr(unlink))
}

fn warn_of_rest(name: &str, removed: Result<(), Errno>) {
    if let Err(errno) = removed {
        tracing::warn!(%name, error = %errno, "a staged file stays until the next start");
    }
}
