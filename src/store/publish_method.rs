//! How a temporary file gets the name of its key, where nothing has that name yet.
//!
//! File systems differ in what they can do for this, and some say so only when it is tried. The start finds the
//! method once ([`super::layout`]), and every file of this server is published by it. A rename over another file works on
//! each of them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use super::directory_fd::{make_and_open, open_beneath};
use crate::value::{Error, Key};

/// A method of publishing, the better ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishMethod {
    /// A file without a name (`O_TMPFILE`) is linked by its descriptor. The kernel removes it when the server dies.
    LinkUnnamed,
    /// As `LinkUnnamed`, through `/proc`: before Linux 6.10, a link by the descriptor is a privilege.
    LinkUnnamedByProc,
    /// A file with a name in staging is linked, and loses that name.
    LinkNamed,
    /// A file with a name in staging is renamed, which fails where it would replace (`RENAME_NOREPLACE`).
    RenameNamed,
}

/// A file under no key yet, and its name in `staging` if it has one.
#[derive(Clone, Copy)]
pub struct Unpublished<'a> {
    pub file: BorrowedFd<'a>,
    pub staging: &'a OwnedFd,
    pub name: Option<&'a str>,
}

impl PublishMethod {
    /// Whether files have no name before they are published.
    pub fn is_unnamed(self) -> bool {
        matches!(self, Self::LinkUnnamed | Self::LinkUnnamedByProc)
    }

    /// Gives the file this name in `dir`, and takes the one in staging from it; `EXIST` when something has the name.
    pub fn publish(
        self,
        unpublished: Unpublished<'_>,
        dir: BorrowedFd<'_>,
        to: &str,
    ) -> Result<(), Errno> {
        let Unpublished { staging, name, .. } = unpublished;
        match (self, name) {
            (_, None) => self.link_unnamed(unpublished.file, dir, to),
            (Self::RenameNamed, Some(name)) => retry_on_intr(|| {
                rustix::fs::renameat_with(staging, name, dir, to, RenameFlags::NOREPLACE)
            }),
            (_, Some(name)) => {
                retry_on_intr(|| rustix::fs::linkat(staging, name, dir, to, AtFlags::empty()))?;
                unlink_staged(staging, name);
                Ok(())
            }
        }
    }

    /// Links the unnamed `file` as `dir/to`.
    pub fn link_unnamed(self, file: impl AsFd, dir: impl AsFd, to: &str) -> Result<(), Errno> {
        if self != Self::LinkUnnamedByProc {
            return retry_on_intr(|| rustix::fs::linkat(&file, "", &dir, to, AtFlags::EMPTY_PATH));
        }
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        retry_on_intr(|| rustix::fs::linkat(CWD, &path, &dir, to, AtFlags::SYMLINK_FOLLOW))
    }
}

/// A file with a name in `home` that is to have the name `to` in `folder`, which another file has.
#[derive(Clone, Copy)]
pub struct Replacement<'a> {
    pub home: &'a OwnedFd,
    pub name: &'a str,
    pub folder: BorrowedFd<'a>,
    pub to: &'a str,
}

impl Replacement<'_> {
    /// Ext4 begins to write the file at once, so that a cut of power leaves no empty one.
    pub fn rename(self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::renameat(self.home, self.name, self.folder, self.to))
    }

    /// Exchanges the names, and removes the other file. Nothing is written by it: after a cut of power both may be lost.
    pub fn exchange(self) -> Result<(), Errno> {
        match self.swap() {
            // Another program has removed the value.
            Err(Errno::NOENT) => return self.rename(),
            swapped => swapped?,
        }
        match unlink(self.home, self.name) {
            // Another program has put a directory there, which a rename would refuse.
            Err(Errno::ISDIR | Errno::PERM) => {
                self.swap()?;
                Err(Errno::ISDIR)
            }
            removed => {
                warn_of_rest(self.name, removed);
                Ok(())
            }
        }
    }

    fn swap(self) -> Result<(), Errno> {
        retry_on_intr(|| {
            rustix::fs::renameat_with(
                self.home,
                self.name,
                self.folder,
                self.to,
                RenameFlags::EXCHANGE,
            )
        })
    }
}

/// Where things go that stand in the way, in the server's own directory.
pub const ASIDE: &str = "aside";

/// Moves `name` of `folder` to the name `to` in [`ASIDE`] of `own`, which is made if it is missing.
pub fn set_aside(own: &OwnedFd, folder: impl AsFd, name: &str, to: &str) -> Result<(), Errno> {
    let aside = make_and_open(own, ASIDE, Mode::RWXU)?;
    retry_on_intr(|| rustix::fs::renameat(&folder, name, &aside, to))
}

/// Why no file can have the name of `key`, or none can lose it: `errno`, met while `doing`.
pub fn unpublished(key: &Key<'_>, doing: &'static str, errno: Errno) -> Error {
    let folder = key.folder();
    Error::Occupied(match errno {
        Errno::ISDIR | Errno::NOTDIR => "a directory has this name".to_owned(),
        Errno::BUSY => {
            "a file system is mounted at this name: it cannot be replaced or removed".to_owned()
        }
        Errno::XDEV => format!(
            "the folder {folder:?} lies on another file system, where no value can be moved to"
        ),
        errno => return Error::new(doing, errno),
    })
}

impl std::fmt::Display for PublishMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LinkUnnamed => "unnamed file, linked by its descriptor",
            Self::LinkUnnamedByProc => "unnamed file, linked through /proc",
            Self::LinkNamed => "named file, linked",
            Self::RenameNamed => "named file, renamed without replacing",
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
