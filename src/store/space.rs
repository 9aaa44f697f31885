//! The space that uploads leave free: no upload may go below `--min-free`.
//!
//! The file system is asked before an upload takes some, and what others are about to take at that moment counts as
//! taken. So that many small values do not ask each, the publisher asks for a little ahead ([`Allowance`]).

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use parking_lot::Mutex;
use rustix::io::{Errno, retry_on_intr};
use scopeguard::guard;

use super::location::turns;
use crate::value::Error;

/// Bytes that the publisher asks for at a time.
const AHEAD: u64 = 1 << 20;

/// How long an answer is used: other programs take space too.
const FRESH: Duration = Duration::from_millis(100);

/// How long no more than the floor is free before that says that uploads are refused, where values may go for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that a small value takes beside its own, which lie in whole blocks: its inode and its name.
const OVERHEAD: u64 = 4 << 10;

/// The space that uploads leave free, and that they are about to take.
#[derive(Debug, Default)]
pub struct Space {
    floor: u64,
    patience: Duration,
    /// Bytes that are about to be taken.
    pending: AtomicU64,
    /// Since when no more than the floor is free.
    low_since: Mutex<Option<Instant>>,
    /// Whether uploads were refused when it was asked last.
    pub is_low: AtomicBool,
}

/// The free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Bytes free for values.
    pub bytes: u64,
    /// Files that can be made; `None` where the file system has no limit.
    pub inodes: Option<u64>,
    /// How many of them no upload may take.
    pub floor: u64,
}

impl Free {
    /// The bytes that values may still take.
    pub fn beyond_floor(self) -> u64 {
        self.bytes.saturating_sub(self.floor)
    }
}

impl Space {
    /// Of a file system whose values go for others, if it `evicts`.
    pub fn new(floor: u64, evicts: bool) -> Self {
        Self {
            floor,
            patience: if evicts { PATIENCE } else { Duration::ZERO },
            ..Self::default()
        }
    }

    /// The free space in the file system of `root`; `None` where it does not tell. Logs when uploads begin to be
    /// refused and when they are taken again. Blocks.
    pub fn free(&self, root: &OwnedFd) -> Result<Option<Free>, Error> {
        let stat = retry_on_intr(|| rustix::fs::fstatvfs(root.as_fd()));
        let stat = stat.map_err(Error::errno_while("ask for space"))?;
        if stat.f_blocks == 0 {
            return Ok(None);
        }
        let free = Free {
            bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            inodes: (stat.f_files > 0).then_some(stat.f_favail),
            floor: self.floor,
        };
        let is_low = {
            let since = &mut *self.low_since.lock();
            let is_low = free.bytes <= self.floor && self.floor > 0;
            *since = is_low.then(|| since.unwrap_or_else(Instant::now));
            since.is_some_and(|since| since.elapsed() >= self.patience)
        };
        let has_turned = turns(&self.is_low, is_low);
        if has_turned && is_low {
            tracing::warn!(
                min_free = self.floor,
                "no more than --min-free is free, and uploads are refused: free space, or give a lower --min-free"
            );
        } else if has_turned {
            tracing::info!("there is space again: uploads are taken");
        }
        Ok(Some(free))
    }

    /// Lets an upload take `more` bytes in the file system of `root`, if so much more than the floor is free. They
    /// count as taken until the returned guard is dropped. Blocks.
    pub fn take(&self, root: &OwnedFd, more: u64) -> Result<impl Drop + use<'_>, Error> {
        let before = self.pending.fetch_add(more, Ordering::Relaxed);
        let taking = guard(&self.pending, move |pending| {
            pending.fetch_sub(more, Ordering::Relaxed);
        });
        if more == 0 {
            return Ok(taking);
        }
        let needed = before.saturating_add(more);
        match self.free(root)? {
            Some(free) if free.bytes < needed => Err(Error::new("write", Errno::NOSPC)),
            Some(free) if free.bytes - needed < self.floor => {
                let [left, floor] =
                    [free.bytes, self.floor].map(|it| ByteSize::b(it).display().iec());
                let why = format!(
                    "no more than --min-free is left for values: the disk has {left}, and is to keep {floor}"
                );
                Err(Error::NoSpace(why.into()))
            }
            _ => Ok(taking),
        }
    }
}

/// The bytes that the publisher may still write before it asks again.
#[derive(Debug, Default)]
pub struct Allowance {
    left: Cell<u64>,
    until: Cell<Option<Instant>>,
}

impl Allowance {
    /// Takes the space of a small value of `len` bytes. Blocks.
    pub fn take(&self, space: &Space, root: &OwnedFd, len: u64) -> Result<(), Error> {
        if space.floor == 0 {
            return Ok(());
        }
        let cost = len + OVERHEAD;
        let is_fresh = self.until.get().is_some_and(|until| Instant::now() < until);
        if !is_fresh || self.left.get() < cost {
            let ahead = space.take(root, AHEAD);
            // Close to the floor each value asks for itself.
            let allowed = if ahead.is_ok() { AHEAD } else { 0 };
            if allowed == 0 {
                drop(space.take(root, cost)?);
            }
            self.left.set(allowed.max(cost));
            self.until.set(Instant::now().checked_add(FRESH));
        }
        self.left.set(self.left.get() - cost);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_are_about_to_take_counts_as_taken() {
        let root = OwnedFd::from(std::fs::File::open("/dev/shm").unwrap());
        let free = Space::new(0, false).free(&root).unwrap().unwrap().bytes;
        let space = Space::new(free / 2, false);
        let first = space.take(&root, free / 3).unwrap();
        assert!(space.take(&root, free / 3).is_err());
        drop(first);
        drop(space.take(&root, free / 3).unwrap());
        assert!(space.take(&root, u64::MAX).is_err());
        assert_eq!(space.pending.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn without_a_floor_a_small_value_asks_for_nothing() {
        let root = OwnedFd::from(std::fs::File::open("/dev/shm").unwrap());
        let space = Space::new(0, false);
        assert!(Allowance::default().take(&space, &root, 1 << 40).is_ok());
    }
}
