//! Which file it is, and whether it is unchanged: the parts of its metadata that every change alters.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

/// How long a file must have been unchanged before it is cached. Its times advance in ticks of the kernel's clock (10 ms
/// at most), and before the bytes of a write are all in place: a younger file might change unseen.
const QUIET_FOR: Duration = Duration::from_millis(100);

/// What tells a file from every other, and what changes when it is edited, renamed, linked or unlinked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn is_quiescent(self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch =
            u64::try_from(seconds).map(|s| Duration::from_secs(s) + Duration::from_nanos(nanos));
        let age = since_epoch
            .ok()
            .and_then(|at| SystemTime::now().duration_since(UNIX_EPOCH + at).ok());
        age.is_some_and(|age| age >= QUIET_FOR)
    }
}
