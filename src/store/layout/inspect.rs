//! A look at a directory that changes nothing, for a check before a start.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;

use super::error::OpenError;
use crate::value::RESERVED;

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspected {
    /// Nothing: a start would make the directory.
    Missing,
    /// A directory that no server has.
    Free,
    /// A directory that a server has.
    InUse,
}

/// Looks whether a start could serve `dir`, and write there if it `may_write`.
pub fn inspect(dir: &Path, may_write: bool) -> Result<Inspected, OpenError> {
    let failed = |doing, path: &Path, source| OpenError::io(doing, path, source);
    let may = |path: &Path, doing, access| {
        rustix::fs::access(path, access).map_err(|errno| failed(doing, path, errno.into()))
    };
    match dir.metadata() {
        Ok(there) if there.is_dir() => {
            may(dir, "read", Access::READ_OK | Access::EXEC_OK)?;
            if may_write {
                may(dir, "write in", Access::WRITE_OK)?;
            }
            let is_in_use = is_in_use(&dir.join(RESERVED));
            Ok(if is_in_use {
                Inspected::InUse
            } else {
                Inspected::Free
            })
        }
        Ok(_) => Err(OpenError::NoDirectory {
            dir: dir.to_owned(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && may_write => {
            let absolute = std::path::absolute(dir).map_err(|error| failed("name", dir, error))?;
            let there = absolute.ancestors().skip(1).find(|path| path.exists());
            may(there.unwrap_or(&absolute), "write in", Access::WRITE_OK)?;
            Ok(Inspected::Missing)
        }
        Err(error) => Err(failed("open", dir, error)),
    }
}

/// Whether a server that writes has the directory in which `own` lies.
pub(in crate::store) fn is_in_use(own: &Path) -> bool {
    let lock = fs::File::open(own.join("lock"));
    lock.is_ok_and(|lock| {
        let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared);
        locked == Err(Errno::WOULDBLOCK)
    })
}
