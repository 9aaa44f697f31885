//! Where the journal of a directory lies, and which one it is.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::layout::OpenError;

/// The file that says which journal it is.
pub(super) const ID: &str = "id";

/// Where the journal of a directory lies, and how large it is.
#[derive(Clone, Debug)]
pub(in crate::store) struct Place {
    /// The server's directory beside the values.
    pub(in crate::store) own: PathBuf,
    /// The directory of the journal.
    pub(in crate::store) at: PathBuf,
    /// All segments together, in bytes.
    pub(in crate::store) size: u64,
}

pub(super) fn open_dir(at: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(at, flags, Mode::empty()).map_err(failed("open", at))
}

pub(super) fn read_id(dir: &OwnedFd) -> Option<u128> {
    let file = open_beneath(dir, ID, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut text = [0; 32];
    let n = rustix::io::pread(&file, &mut text, 0).ok()?;
    u128::from_str_radix(std::str::from_utf8(&text[..n]).ok()?, 16).ok()
}

pub(super) fn failed(doing: &'static str, path: &Path) -> impl Fn(Errno) -> OpenError + Copy {
    let path: &Path = path;
    move |errno| OpenError::io(doing, path, errno.into())
}
