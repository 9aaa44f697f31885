//! An open file of a value and where it is closed, and the stamp that tells whether a file is unchanged: the parts of its metadata that
//! every change alters.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::transfer::{BlockingPool, SLOW_TO_FREE};
use crate::value::Meta;

/// How long a file must have been unchanged before it is cached. Its times advance in ticks of the kernel's clock (10 ms
/// at most), and before the bytes of a write are all in place: a younger file might change unseen.
const QUIET_FOR: Duration = Duration::from_millis(100);

/// An open file of a value. It stays open while it is read or written.
///
/// Closing the last descriptor of an unlinked file frees its blocks, which takes the longer the larger it was: large
/// ones are closed on the disk threads.
#[derive(Debug)]
pub struct ValueFile {
    fd: Option<OwnedFd>,
    disk: BlockingPool,
    is_small: bool,
}

impl ValueFile {
    pub fn new(fd: OwnedFd, disk: BlockingPool) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: false,
        }
    }

    /// The threads that may wait for it.
    pub fn disk(&self) -> &BlockingPool {
        &self.disk
    }

    /// Of a value so short that freeing it takes no time: its length is not asked for again.
    pub fn small(fd: OwnedFd, disk: BlockingPool) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: true,
        }
    }
}

impl AsFd for ValueFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
            .as_ref()
            .expect("the descriptor is only taken by drop")
            .as_fd()
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let slow = !self.is_small
            && rustix::fs::fstat(&fd)
                .is_ok_and(|s| s.st_nlink == 0 && Meta::of(&s).len > SLOW_TO_FREE);
        if slow {
            self.disk.spawn_detached(move || drop(fd));
        }
    }
}

/// A stamp that tells a file from every other, and changes when it is edited, renamed, linked or unlinked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub fn is_quiescent(self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch =
            u64::try_from(seconds).map(|s| Duration::from_secs(s) + Duration::from_nanos(nanos));
        let age = since_epoch
            .ok()
            .and_then(|at| SystemTime::now().duration_since(UNIX_EPOCH + at).ok());
        age.is_some_and(|age| age >= QUIET_FOR)
    }
}
