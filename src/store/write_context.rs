//! The context that all writes of a store share: the directories of temporary files, the clock of versions, the syncs, the bounds, and the
//! state of the journal as uploads and readers see it.
//!
//! Promises that each sync of a value, of names and of the journal is counted, and that a failed sync of a value is final: the kernel has
//! forgotten what it could not write. [`WriteContext::sync_files`] is not counted; its callers write all anew after a failure.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{Access, AtFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use super::clock::Clock;
use super::directory_fd::{Folder, ValuesDir, is_no_folder};
use super::publish_method::unpublished;
use super::space::{Free, Space, Taking};
use super::temp_file::{ServerDirs, Target, TempFile};
use crate::metrics::StoreCounters;
use crate::transfer::{Pipes, StagingQuota, is_large};
use crate::value::{Error, Key, Meta, Version, folder_and_above};

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

/// What the journal has and the files may lack.
#[derive(Debug, Default)]
struct Unwritten {
    /// The kernel may have dropped bytes of small values that have this version or a later one, and reads zeros in their place.
    doubted: Option<Version>,
    /// The keys of changes that cannot be made, and the versions that these give them.
    kept: HashMap<Box<str>, Vec<Version>>,
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
    unwritten: RwLock<Unwritten>,
    /// False while `unwritten` is empty.
    is_unwritten: AtomicBool,
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
            unwritten: RwLock::default(),
            is_unwritten: AtomicBool::new(false),
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

    /// Replaces the changes that cannot be made: their keys are changed no more.
    pub fn keep<'k>(&self, changes: impl Iterator<Item = (&'k str, Option<Version>)>) {
        let mut kept = HashMap::<Box<str>, Vec<Version>>::new();
        for (key, version) in changes {
            kept.entry(key.into()).or_default().extend(version);
        }
        self.note_unwritten(|unwritten| unwritten.kept = kept);
    }

    /// Has no small value answered that has the version `since` or a later one.
    pub fn doubt(&self, since: Option<Version>) {
        self.note_unwritten(|unwritten| unwritten.doubted = since);
    }

    fn note_unwritten(&self, note: impl FnOnce(&mut Unwritten)) {
        let unwritten = self.unwritten.write();
        let mut unwritten = unwritten.unwrap_or_else(PoisonError::into_inner);
        note(&mut unwritten);
        let is_unwritten = unwritten.doubted.is_some() || !unwritten.kept.is_empty();
        self.is_unwritten.store(is_unwritten, Relaxed);
    }

    /// What the files may lack, if that is anything.
    fn unwritten(&self) -> Option<RwLockReadGuard<'_, Unwritten>> {
        let read = || {
            self.unwritten
                .read()
                .unwrap_or_else(PoisonError::into_inner)
        };
        self.is_unwritten.load(Relaxed).then(read)
    }

    /// Fails while the journal has a change of `key` that cannot be made.
    pub fn may_change(&self, key: &Key<'_>) -> Result<(), Error> {
        if self
            .unwritten()
            .is_some_and(|unwritten| unwritten.kept.contains_key(key.as_str()))
        {
            let doing = "make what the journal has of this key";
            return Err(Error::new(doing, Errno::ACCESS));
        }
        Ok(())
    }

    /// Fails while the kernel may have dropped bytes of the file of `key`, which is as `meta` says.
    pub fn may_read(&self, key: &Key<'_>, meta: Meta) -> Result<(), Error> {
        let is_unwritten = |unwritten: RwLockReadGuard<'_, Unwritten>| {
            let doubted = unwritten.doubted.filter(|_| !is_large(meta.len));
            let kept = unwritten.kept.get(key.as_str());
            doubted.is_some_and(|since| meta.version >= since)
                || kept.is_some_and(|versions| versions.contains(&meta.version))
        };
        if self.unwritten().is_some_and(is_unwritten) {
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

    /// Fails where the folder of `key` lies on another file system: a value would be received in vain. Where that cannot be told, the
    /// publisher finds it out. Blocks.
    pub fn may_move_to(&self, key: &Key<'_>) -> Result<(), Error> {
        let place = |folder: &Folder<'_>| {
            let found = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
            found.map(|found| (found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
        };
        let mut folders = folder_and_above(key.folder());
        let there = folders.find_map(|path| self.dir().folder(path).ok());
        let there = there.and_then(|there| place(&there).ok());
        let root = place(&Folder::Root(&self.dir().root)).ok();
        if there.zip(root).is_some_and(|(there, root)| there != root) {
            return Err(unpublished(key, "link", Errno::XDEV));
        }
        Ok(())
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
