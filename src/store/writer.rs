//! The context that all writes of a store share: where temporary files are made, what gives them their versions, what puts them on the
//! disk, and what bounds them.
//!
//! [`Space`] keeps `--min-free`, a floor that no upload may go below. The file system is asked before an upload takes some, and what
//! others are about to take at that moment counts as taken. So that many small values do not ask each, the publisher asks for a little
//! ahead ([`Allowance`]).

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{Access, AtFlags};
use rustix::io::{Errno, retry_on_intr};

use super::clock::Clock;
use super::directory_fd::{Dir, is_no_folder};
use super::temp_file::{Target, TempDir, TempFile};
use crate::metrics::StoreCounters;
use crate::transfer::{BlockingPool, Pipes, StagingQuota};
use crate::value::{Error, Key, Version};

/// The loss that an acknowledged change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process: the operating system has it.
    Os,
    /// The loss of power: the disk has it, in the journal or as the value and then its name.
    Disk,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Os => "os",
            Self::Disk => "disk",
        })
    }
}

/// The context that uploads and the publisher share.
#[derive(Debug)]
pub struct Writer {
    temp_dir: Arc<TempDir>,
    durability: Durability,
    is_journaled: AtomicBool,
    is_journal_failing: AtomicBool,
    /// Why there is no journal, where there should be one.
    unjournaled: OnceLock<&'static str>,
    is_read_only: AtomicBool,
    /// Keys that the journal has changes of which no start could make.
    kept: OnceLock<HashSet<Box<str>>>,
    /// Keys whose files may lack bytes that the journal has; not empty only while the journal is failing.
    doubted: RwLock<HashSet<Box<str>>>,
    quota: Arc<StagingQuota>,
    space: Space,
    clock: Mutex<Clock>,
    counters: Arc<StoreCounters>,
    pipes: Arc<Pipes>,
}

impl Writer {
    pub fn new(
        temp_dir: TempDir,
        durability: Durability,
        quota: Arc<StagingQuota>,
        space: Space,
        clock: Clock,
        counters: Arc<StoreCounters>,
    ) -> Self {
        Self {
            temp_dir: Arc::new(temp_dir),
            durability,
            is_journaled: AtomicBool::new(false),
            is_journal_failing: AtomicBool::new(false),
            unjournaled: OnceLock::new(),
            is_read_only: AtomicBool::new(false),
            kept: OnceLock::new(),
            doubted: RwLock::default(),
            quota,
            space,
            clock: Mutex::new(clock),
            counters,
            pipes: Arc::default(),
        }
    }

    pub fn counters(&self) -> &StoreCounters {
        &self.counters
    }

    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether small values and deletes go to a journal, in place of syncs of their own.
    pub fn is_journaled(&self) -> bool {
        self.is_journaled.load(Relaxed)
    }

    /// There is a journal from here on. To be said before the first change.
    pub fn set_journaled(&self) {
        self.is_journaled.store(true, Relaxed);
    }

    /// There is no journal, though there should be one: `why`.
    pub fn set_unjournaled(&self, why: &'static str) {
        tracing::warn!(
            "no journal: {why}; with --durability disk each write is now synced by itself, which makes small ones 3 to 6 times slower than with one"
        );
        let _ = self.unjournaled.set(why);
    }

    /// Why there is no journal, where there should be one.
    pub fn unjournaled(&self) -> Option<&'static str> {
        self.unjournaled.get().copied()
    }

    /// Hears why something was not written; logs once that the file system has become read-only.
    pub fn failed(&self, error: &Error) {
        if matches!(error, Error::ReadOnly) && !self.is_read_only.swap(true, Relaxed) {
            tracing::error!(
                "the file system is read-only, so nothing can be written: the log of the kernel says why it has become so"
            );
        }
    }

    /// Hears that something was written.
    pub fn wrote(&self) {
        if self.is_read_only.load(Relaxed) && self.is_read_only.swap(false, Relaxed) {
            tracing::info!("the file system can be written again");
        }
    }

    /// The journal has changes of these `keys` that the start could not make. To be said before the first change.
    pub fn keep(&self, keys: HashSet<Box<str>>) {
        let _ = self.kept.set(keys);
    }

    /// Whether `key` may be changed: not while the journal has a change of it that is not made.
    pub fn may_change(&self, key: &Key<'_>) -> Result<(), Error> {
        let kept = self.kept.get().filter(|kept| !kept.is_empty());
        if kept.is_some_and(|kept| kept.contains(key.as_str())) {
            let doing = "make what the journal has of this key";
            return Err(Error::new(doing, Errno::ACCESS));
        }
        Ok(())
    }

    /// The kernel may have dropped what it was to write of the values of these `keys`.
    pub fn doubt(&self, keys: HashSet<Box<str>>) {
        *self.doubted.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether the file of `key` can be trusted: not while the kernel may have dropped its bytes, in whose place it reads zeros.
    pub fn may_read(&self, key: &Key<'_>) -> Result<(), Error> {
        let is_doubted = || {
            let doubted = self.doubted.read();
            let doubted = doubted.unwrap_or_else(PoisonError::into_inner);
            doubted.contains(key.as_str())
        };
        if self.is_journal_failing.load(Relaxed) && is_doubted() {
            return Err(Error::new("put this value on the disk", Errno::IO));
        }
        Ok(())
    }

    /// Says whether the journal can be written and settled: a store whose journal cannot is not ready.
    pub fn set_journal_failing(&self, is_failing: bool) {
        self.is_journal_failing.store(is_failing, Relaxed);
    }

    pub fn quota(&self) -> &Arc<StagingQuota> {
        &self.quota
    }

    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Lets an upload take `more` bytes of the disk, if they are to be had. Blocks.
    pub fn take_space(&self, more: u64) -> Result<Taking<'_>, Error> {
        self.space.take(self.dir().root(), more)
    }

    pub fn temp_dir(&self) -> &Arc<TempDir> {
        &self.temp_dir
    }

    /// The directory of the values.
    pub fn dir(&self) -> &Dir {
        self.temp_dir.values()
    }

    pub fn disk(&self) -> &BlockingPool {
        self.dir().disk()
    }

    /// The pipes that large values are received through.
    pub fn pipes(&self) -> &Arc<Pipes> {
        &self.pipes
    }

    /// A version later than every one before it, and than `current`. Blocks now and then.
    pub fn next_version(&self, current: Option<Version>) -> Result<Version, Error> {
        let next = self
            .clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next(current);
        next.map_err(Error::errno_while("advance the clock of versions"))
    }

    /// Puts a value and its version on the disk. A sync that failed is final: the kernel has forgotten what it could not write,
    /// and a second try would prove nothing. Blocks.
    pub fn sync_value(&self, file: &TempFile) -> Result<(), Error> {
        // Not fdatasync: the version is metadata.
        self.sync(&**file.file())
            .map_err(Error::unsynced("sync the value"))
    }

    /// Puts the names in the folders of these paths on the disk, the lower ones first. Those above them are among them, and have the
    /// removal of one that is gone. Blocks.
    pub fn sync_names(&self, folders: &BTreeSet<Box<str>>) -> Result<(), Errno> {
        for path in folders.iter().rev() {
            let folder = match self.dir().folder(path) {
                Err(errno) if is_no_folder(errno) => continue,
                folder => folder?,
            };
            self.sync(&folder)?;
            // An xfs that has shut down, for example because its device failed, drops what waited for its log. It then
            // reports success for the sync of a directory, as nothing waits any more, and the failure to fstat alone.
            retry_on_intr(|| rustix::fs::fstat(&folder))?;
        }
        Ok(())
    }

    /// Puts `file` on the disk. Blocks.
    pub fn sync(&self, file: impl AsFd) -> Result<(), Errno> {
        self.timed(|| rustix::fs::fsync(file))
    }

    /// Counts how long a sync takes.
    pub fn timed(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let began = Instant::now();
        let synced = sync();
        self.counters.synced(began.elapsed());
        synced
    }

    /// Publishes a few bytes as a name that is no key, and removes it; answers what is free for values, where that is known. Blocks.
    pub fn probe(&self) -> Result<Option<Free>, Error> {
        if self.is_journal_failing.load(Relaxed) {
            return Err(Error::new("write the journal", Errno::IO));
        }
        let content = [Bytes::from_static(b"can this be written?")];
        let root = self.dir().root();
        // The file is published in the server's own directory, so that a watch on that of the values reports no change.
        check_access(root)?;
        TempFile::create_small(&self.temp_dir, &content, Target::Root)?.rehearse("probe")?;
        self.space.free(root)
    }
}

/// Fails unless names may be made in `root`, and removed.
fn check_access(root: &OwnedFd) -> Result<(), Error> {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    retry_on_intr(|| rustix::fs::accessat(root, ".", wanted, AtFlags::EACCESS))
        .map_err(Error::errno_while("write to the directory"))
}

/// Bytes that the publisher asks for at a time.
const AHEAD: u64 = 1 << 20;

/// How long that counts: other programs take space too.
const FRESH: Duration = Duration::from_millis(100);

/// Bytes that a small value takes beside its own, which lie in whole blocks: its inode and its name.
const OVERHEAD: u64 = 4 << 10;

/// The space that uploads leave free, and that they are about to take.
#[derive(Debug)]
pub struct Space {
    floor: u64,
    /// Bytes that are about to be taken.
    pending: AtomicU64,
    is_low: AtomicBool,
}

/// Space that is about to be taken, until this is dropped.
#[derive(Debug)]
pub struct Taking<'a> {
    space: &'a Space,
    bytes: u64,
}

/// The free space, for the page of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Bytes free for values.
    pub bytes: u64,
    /// How many of them no upload may take.
    pub floor: u64,
}

impl Space {
    pub fn new(floor: u64) -> Self {
        Self {
            floor,
            pending: AtomicU64::new(0),
            is_low: AtomicBool::new(false),
        }
    }

    /// Whether uploads were refused when it was asked last.
    pub fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// The free space in the file system of `root`; `None` where it does not tell. Blocks.
    pub fn free(&self, root: &OwnedFd) -> Result<Option<Free>, Error> {
        let stat = retry_on_intr(|| rustix::fs::fstatvfs(root.as_fd()));
        let stat = stat.map_err(Error::errno_while("ask for space"))?;
        if stat.f_blocks == 0 {
            return Ok(None);
        }
        let free = Free {
            bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            floor: self.floor,
        };
        self.note(free.bytes <= self.floor && self.floor > 0);
        Ok(Some(free))
    }

    /// Lets an upload take `more` bytes in the file system of `root`, if so much more than the floor is free. Blocks.
    pub fn take(&self, root: &OwnedFd, more: u64) -> Result<Taking<'_>, Error> {
        let before = self.pending.fetch_add(more, Ordering::Relaxed);
        let taking = Taking {
            space: self,
            bytes: more,
        };
        if more == 0 {
            return Ok(taking);
        }
        let needed = before.saturating_add(more);
        match self.free(root)? {
            Some(free) if free.bytes < needed => Err(Error::new("write", Errno::NOSPC)),
            Some(free) if free.bytes - needed < self.floor => Err(Error::NoSpace {
                reason: "no space left for values: --min-free keeps the rest",
            }),
            _ => Ok(taking),
        }
    }

    /// Logs what has changed since it was asked last.
    fn note(&self, is_low: bool) {
        if self.is_low() == is_low || self.is_low.swap(is_low, Ordering::Relaxed) == is_low {
            return;
        }
        if is_low {
            tracing::warn!(
                min_free = self.floor,
                "no more than --min-free is free, and uploads are refused: free space, or give a lower --min-free"
            );
        } else {
            tracing::info!("there is space again: uploads are taken");
        }
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.space.pending.fetch_sub(self.bytes, Ordering::Relaxed);
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
        let free = Space::new(0).free(&root).unwrap().unwrap().bytes;
        let space = Space::new(free / 2);
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
        let space = Space::new(0);
        assert!(Allowance::default().take(&space, &root, 1 << 40).is_ok());
    }
}
