//! The place of the data directory: whether it is still where the server opened it.
//!
//! Descriptors stay with the directory wherever it is moved. After DIR was moved away and another put in its place, as
//! restores do, a value would go where its readers do not look, and a second server could lock the new one. So
//! [`Location`] is checked before each batch of changes, before a large value is received, and by the probe of
//! readiness: two system calls, by path.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::Stat;
use rustix::io::{Errno, retry_on_intr};

use crate::value::{Error, RESERVED};

const MOVED: &str = "the data directory was moved or replaced while the server runs: nothing is written until it is back, or the server is restarted";

const DISOWNED: &str = "the .data-server of the data directory was moved, removed or replaced while the server runs: nothing is written until it is back, or the server is restarted";

/// The path at which the directory was opened, and the identity that it had there.
#[derive(Debug)]
pub struct Location {
    root: Known,
    /// The lock file of a server that writes.
    lock: Option<Known>,
    is_displaced: AtomicBool,
}

/// A path, and the file that it led to when the server started.
#[derive(Debug)]
struct Known {
    path: CString,
    is: Identity,
}

/// The device and the inode: no two files have the same at the same time.
type Identity = (u64, u64);

impl Location {
    /// `dir` is the path of `root`, in which a server that writes has this `lock`.
    pub fn new(dir: &Path, root: impl AsFd, lock: Option<&std::fs::File>) -> std::io::Result<Self> {
        // A path from where the process stands would follow when that is moved.
        let dir = std::path::absolute(dir)?;
        let path = dir.join(RESERVED).join("lock");
        Ok(Self {
            lock: lock.map(|lock| Known::new(&path, lock)).transpose()?,
            root: Known::new(&dir, root)?,
            is_displaced: AtomicBool::new(false),
        })
    }

    /// Fails while the directory is not where it was, or is no longer this server's, and while that cannot be told;
    /// logs when the directory goes and when it is back. Blocks, as looking up a path does.
    pub fn check(&self) -> Result<(), Error> {
        let reason = self.displaced();
        let reason = reason.map_err(Error::errno_while("look for the directory"))?;
        if turns(&self.is_displaced, reason.is_some()) {
            match reason {
                Some(reason) => tracing::error!(dir = ?self.root.path, "{reason}"),
                None => {
                    tracing::info!(dir = ?self.root.path, "the data directory is back: writing goes on");
                }
            }
        }
        reason.map_or(Ok(()), |reason| Err(Error::Displaced(reason)))
    }

    fn displaced(&self) -> Result<Option<&'static str>, Errno> {
        if !self.root.is_there()? {
            return Ok(Some(MOVED));
        }
        match &self.lock {
            Some(lock) if !lock.is_there()? => Ok(Some(DISOWNED)),
            _ => Ok(None),
        }
    }
}

impl Known {
    fn new(path: &Path, file: impl AsFd) -> std::io::Result<Self> {
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            is: identity(&rustix::fs::fstat(file)?),
        })
    }

    fn is_there(&self) -> Result<bool, Errno> {
        match retry_on_intr(|| rustix::fs::stat(self.path.as_c_str())) {
            Ok(stat) => Ok(identity(&stat) == self.is),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

/// Sets `state`; true if it was different, and no other thread has set it since.
pub fn turns(state: &AtomicBool, now: bool) -> bool {
    state.load(Relaxed) != now && state.swap(now, Relaxed) != now
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}
