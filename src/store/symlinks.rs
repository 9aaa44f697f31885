//! Symbolic links: the value or the folder of the directory that a name leads to through some.
//!
//! Promises that none leads out: the kernel resolves them beneath the directory (`RESOLVE_BENEATH`), so an absolute link,
//! and one that climbs out, lead nowhere, as those in a circle do (`ELOOP`). Opens no file on the way. The answer is a
//! key whose path has no link, and what is read is read by that key, as if it had been asked for. So nothing has two
//! names in the cache, in counts, walks and the index, and a link that is set anew leads elsewhere at once.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::directory_fd::{Blocking, ValuesDir};
use crate::value::{Key, is_directory};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const CONFINED: ResolveFlags = BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// How often a name is resolved that leads elsewhere before its key is known: a file that is replaced without rest is
/// lost a few times in a row.
const TRIES: u32 = 16;

/// What a name leads to.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub key: Key<'static>,
    /// It is a folder, or else a value.
    pub is_folder: bool,
}

/// What `name` leads to through symbolic links; `None` where it leads through none, or to nothing that has a key. With
/// [`Blocking::Never`], fails with `AGAIN` where there is a link, or the device would be needed.
pub fn follow(
    dir: &ValuesDir,
    name: &Key<'_>,
    blocking: Blocking,
) -> Result<Option<Target>, Errno> {
    let open = |name: &Key<'_>, resolve| {
        let (path, flags) = (name.as_str(), OFlags::PATH | OFlags::CLOEXEC);
        retry_on_intr(|| openat2(&dir.root, path, flags, Mode::empty(), resolve))
    };
    if matches!(blocking, Blocking::Never) {
        return match open(name, CONFINED | ResolveFlags::CACHED) {
            Err(Errno::LOOP | Errno::AGAIN) => Err(Errno::AGAIN),
            _ => Ok(None),
        };
    }
    if open(name, CONFINED).err() != Some(Errno::LOOP) {
        return Ok(None);
    }
    for _ in 0..TRIES {
        let file = match open(name, BENEATH) {
            Ok(file) => file,
            // A folder was moved while the kernel went up from it.
            Err(Errno::AGAIN) => continue,
            Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let Some(key) = key_of(dir, &file)? else {
            return Ok(None);
        };
        let stat = fstat(&file)?;
        // The path of a file that was replaced or moved meanwhile is that of another, or of none.
        let at_key = open(&key, CONFINED).and_then(fstat);
        if at_key.is_ok_and(|it| (it.st_dev, it.st_ino) == (stat.st_dev, stat.st_ino)) {
            let is_folder = is_directory(&stat);
            return Ok(Some(Target { key, is_folder }));
        }
    }
    Err(Errno::STALE)
}

/// The key of `file` by its path in the directory, if it can have one.
fn key_of(dir: &ValuesDir, file: &OwnedFd) -> Result<Option<Key<'static>>, Errno> {
    let path_of = |fd: &OwnedFd| {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        retry_on_intr(|| readlinkat(CWD, &link, Vec::new()))
    };
    let (root, path) = (path_of(&dir.root)?, path_of(file)?);
    let [root, path] = [&root, &path].map(|it| Path::new(OsStr::from_bytes(it.to_bytes())));
    let path = path.strip_prefix(root).ok().and_then(Path::to_str);
    Ok(path.and_then(|path| Key::new(path.to_owned()).ok()))
}
