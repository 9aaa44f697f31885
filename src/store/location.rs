//! Whether the directory still is where it was opened.
//!
//! The server holds the directory by descriptors, which stay with it wherever it is moved. A value that is written after
//! DIR was moved away and another put in its place, as restores do, would go where its readers do not look, and a second
//! server could lock the new one. So this is asked before each batch of changes, before a large value is received, and
//! by the probe of readiness: two system calls, by path. It never opens anything again.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::Stat;
use rustix::io::{Errno, retry_on_intr};

use crate::value::{Error, RESERVED};

const MOVED: &str = "the data directory was moved or replaced while the server runs: nothing is written until it is back, or the server is restarted";
const DISOWNED: &str = "the .data-server of the data directory was moved, removed or replaced while the server runs: nothing is written until it is back, or the server is restarted";

/// Where the directory was opened, and which it was.
#[derive(Debug)]
pub(super) struct Location {
    root: Known,
    /// Of a server that writes: the file that it has locked.
    lock: Option<Known>,
    is_displaced: AtomicBool,
}

/// A path, and what it led to when the server started.
#[derive(Debug)]
struct Known {
    path: CString,
    is: Identity,
}

/// No two files have the same at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Why nothing may be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum LocationError {
    /// The directory is elsewhere, or no longer this server's: which, for the client.
    Displaced(&'static str),
    /// It could not be looked for.
    Unknown(Errno),
}

impl From<LocationError> for Error {
    fn from(error: LocationError) -> Self {
        match error {
            LocationError::Displaced(reason) => Self::Displaced { reason },
            LocationError::Unknown(errno) => Self::new("look for the directory", errno),
        }
    }
}

impl Location {
    /// `dir` is the path of `root`, in which a server that writes has this `lock`.
    pub(super) fn new(
        dir: &Path,
        root: impl AsFd,
        lock: Option<&std::fs::File>,
    ) -> std::io::Result<Self> {
        // A path from where the process stands would follow when that is moved.
        let dir = std::path::absolute(dir)?;
        let path = dir.join(RESERVED).join("lock");
        Ok(Self {
            lock: lock.map(|lock| Known::new(&path, lock)).transpose()?,
            root: Known::new(&dir, root)?,
            is_displaced: AtomicBool::new(false),
        })
    }

    /// Fails while the directory is not where it was, or is no longer this server's, and while that cannot be told. Blocks,
    /// as looking up a path does.
    pub(super) fn check(&self) -> Result<(), LocationError> {
        let reason = self.displaced().map_err(LocationError::Unknown)?;
        self.note(reason);
        reason.map_or(Ok(()), |reason| Err(LocationError::Displaced(reason)))
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

    /// Logs what has changed since it was asked last.
    fn note(&self, reason: Option<&'static str>) {
        if self.is_displaced.load(Relaxed) == reason.is_some() {
            return;
        }
        let was_displaced = self.is_displaced.swap(reason.is_some(), Relaxed);
        match reason {
            Some(reason) if !was_displaced => tracing::error!(dir = ?self.root.path, "{reason}"),
            None if was_displaced => {
                tracing::info!(dir = ?self.root.path, "the data directory is back: writing goes on");
            }
            _ => {}
        }
    }
}

impl Known {
    fn new(path: &Path, file: impl AsFd) -> std::io::Result<Self> {
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            is: Identity::of(&rustix::fs::fstat(file)?),
        })
    }

    fn is_there(&self) -> Result<bool, Errno> {
        match retry_on_intr(|| rustix::fs::stat(self.path.as_c_str())) {
            Ok(stat) => Ok(Identity::of(&stat) == self.is),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}
