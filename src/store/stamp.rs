//! Whether a file is still what it was: the parts of its metadata that any change leaves a mark in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

/// How long a file must have been left alone before it is kept. Its times advance in ticks of the kernel's clock (10 ms
/// at most), and before the bytes of a write are all in place: a younger file might change unseen.
const SETTLED: Duration = Duration::from_millis(100);

/// What changes when a file is edited, renamed, linked or unlinked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            links: stat.st_nlink,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn is_settled(self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch =
            u64::try_from(seconds).map(|s| Duration::from_secs(s) + Duration::from_nanos(nanos));
        let age = since_epoch
            .ok()
            .and_then(|at| SystemTime::now().duration_since(UNIX_EPOCH + at).ok());
        age.is_some_and(|age| age >= SETTLED)
    }
}
