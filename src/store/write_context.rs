//! The context that all writes of a store share: the directories of temporary files, the clock of versions, the syncs, the bounds, and the
//! state of the journal as uploads and readers see it.
//!
//! Promises that each sync of a value, of names and of the journal is counted, and that a failed sync of a value is final: the kernel has
//! forgotten what it could not write. [`WriteContext::sync_files`] is not counted; its callers write all anew after a failure.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{Access, AtFlags};
use rustix::io::{Errno, retry_on_intr};

use super::clock::Clock;
use super::directory_fd::{ValuesDir, is_no_folder};
use super::space::{Free, Space, Taking};
use super::temp_file::{ServerDirs, Target, TempFile};
use crate::metrics::StoreCounters;
use crate::transfer::{Pipes, StagingQuota};
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
pub struct WriteContext {
    pub temp_dir: Arc<ServerDirs>,
    pub durability: Durability,
    is_journaled: AtomicBool,
    is_journal_failing: AtomicBool,
    /// The reason why there is no journal, where there should be one.
    unjournaled: OnceLock<&'static str>,
    is_read_only: AtomicBool,
    /// Keys that the journal has changes of which no start could make.
    kept: OnceLock<HashSet<Box<str>>>,
    /// Keys whose files may lack bytes that the journal has; not empty only while the journal is failing.
    doubted: RwLock<HashSet<Box<str>>>,
    pub quota: Arc<StagingQuota>,
    pub space: Space,
    clock: Arc<Mutex<Clock>>,
    pub counters: Arc<StoreCounters>,
    /// The pipes that large values are received through.
    pub pipes: Arc<Pipes>,
}

impl WriteContext {
    pub fn new(
        temp_dir: ServerDirs,
        durability: Durability,
        quota: Arc<StagingQuota>,
        space: Space,
        clock: Arc<Mutex<Clock>>,
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
            clock,
            counters,
            pipes: Arc::default(),
        }
    }

    /// True if small values and deletes go to a journal, in place of syncs of their own.
    pub fn is_journaled(&self) -> bool {
        self.is_journaled.load(Relaxed)
    }

    /// To be called before the first change, where there is a journal.
    pub fn set_journaled(&self) {
        self.is_journaled.store(true, Relaxed);
    }

    /// Notes and logs `why` there is no journal, though there should be one.
    pub fn set_unjournaled(&self, why: &'static str) {
        tracing::warn!(
            "no journal: {why}; with --durability disk each write is now synced by itself, which makes small ones 3 to 6 times slower than with one"
        );
        let _ = self.unjournaled.set(why);
    }

    /// The reason why there is no journal, where there should be one.
    pub fn unjournaled(&self) -> Option<&'static str> {
        self.unjournaled.get().copied()
    }

    /// Takes the error of a write; logs once that the file system has become read-only.
    pub fn failed(&self, error: &Error) {
        if matches!(error, Error::ReadOnly) && !self.is_read_only.swap(true, Relaxed) {
            tracing::error!(
                "the file system is read-only, so nothing can be written: the log of the kernel says why it has become so"
            );
        }
    }

    /// Takes the success of a write.
    pub fn wrote(&self) {
        if self.is_read_only.load(Relaxed) && self.is_read_only.swap(false, Relaxed) {
            tracing::info!("the file system can be written again");
        }
    }

    /// Notes the `keys` of changes that the start could not make. To be called before the first change.
    pub fn keep(&self, keys: HashSet<Box<str>>) {
        let _ = self.kept.set(keys);
    }

    /// Fails while the journal has a change of `key` that could not be made.
    pub fn may_change(&self, key: &Key<'_>) -> Result<(), Error> {
        let kept = self.kept.get().filter(|kept| !kept.is_empty());
        if kept.is_some_and(|kept| kept.contains(key.as_str())) {
            let doing = "make what the journal has of this key";
            return Err(Error::new(doing, Errno::ACCESS));
        }
        Ok(())
    }

    /// Replaces the set of keys whose values the kernel may have dropped bytes of.
    pub fn doubt(&self, keys: HashSet<Box<str>>) {
        *self.doubted.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Fails while the kernel may have dropped bytes of the file of `key`, in whose place it reads zeros.
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

    /// Notes whether the journal cannot be written or settled: such a store is not ready.
    pub fn set_journal_failing(&self, is_failing: bool) {
        self.is_journal_failing.store(is_failing, Relaxed);
    }

    /// Lets an upload take `more` bytes of the disk, if they are to be had. Blocks.
    pub fn take_space(&self, more: u64) -> Result<Taking<'_>, Error> {
        self.space.take(&self.dir().root, more)
    }

    /// The directory of the values.
    pub fn dir(&self) -> &ValuesDir {
        &self.temp_dir.values
    }

    /// A version later than every one before it, and not `current`. Blocks now and then.
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
        self.sync(&*file.file)
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

    /// Has the kernel write all files of the file system that the values lie on. Blocks.
    pub fn sync_files(&self) -> Result<(), Errno> {
        let root = &self.dir().root;
        rustix::fs::syncfs(root)?;
        // An xfs that has shut down has nothing left to write, and says so to fstat alone.
        retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
    }

    /// Puts `file` on the disk. Blocks.
    pub fn sync(&self, file: impl AsFd) -> Result<(), Errno> {
        self.timed(|| rustix::fs::fsync(file))
    }

    /// Counts how long a sync takes.
    pub fn timed(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let began = Instant::now();
        let synced = sync();
        self.counters.syncs.observe_duration(began.elapsed());
        synced
    }

    /// Publishes a few bytes as a name that is no key, and removes it; answers what is free for values, where that is known. Blocks.
    pub fn probe(&self) -> Result<Option<Free>, Error> {
        if self.is_journal_failing.load(Relaxed) {
            return Err(Error::new("write the journal", Errno::IO));
        }
        let content = [Bytes::from_static(b"can this be written?")];
        let root = &self.dir().root;
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
