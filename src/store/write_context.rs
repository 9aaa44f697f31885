//! The context that all writes of a store share: the directories of temporary files, the clock of versions, the syncs
//! and the bounds.
//!
//! Promises that each sync of a value, of names and of the journal is counted, and that a failed sync of a value is
//! final: the kernel has forgotten what it could not write. [`WriteContext::sync_files`] is not counted; its callers
//! write all anew after a failure.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::bounds::Account;
use super::cache::Cache;
use super::clock::Clock;
use super::directory_fd::{Blocking, ValuesDir, is_no_folder, open_beneath, open_folder};
use super::journal_state::JournalState;
use super::location::turns;
use super::may_have::MayHave;
use super::space::{Free, Space};
use super::temp_file::{Placement, ServerDirs, TempFile};
use crate::metrics::StoreCounters;
use crate::transfer::{Pipes, StagingQuota};
use crate::value::{Error, Key, Version, folder_and_above};

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
    pub journal: JournalState,
    pub is_read_only: AtomicBool,
    pub quota: Arc<StagingQuota>,
    pub space: Space,
    /// With bounds: what the values take, and who goes for others.
    pub account: Option<Arc<Account>>,
    pub cache: Arc<Cache>,
    pub clock: Arc<Mutex<Clock>>,
    pub counters: Arc<StoreCounters>,
    /// The pipes that large values are received through.
    pub pipes: Pipes,
}

impl WriteContext {
    /// Returns the result of a write; logs that the file system has become read-only, or can be written again.
    pub fn note<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        match &written {
            Err(Error::ReadOnly) if turns(&self.is_read_only, true) => {
                tracing::error!(
                    "the file system is read-only, so nothing can be written: the log of the kernel says why it has become so"
                );
            }
            Ok(_) if turns(&self.is_read_only, false) => {
                tracing::info!("the file system can be written again");
            }
            _ => {}
        }
        written
    }

    /// Lets an upload take `more` bytes of the disk, if they are free. Blocks.
    pub fn take_space(&self, more: u64) -> Result<impl Drop + use<'_>, Error> {
        self.space.take(&self.dir().root, more)
    }

    /// Fails where the disk has no space for `len` bytes, and no evictions could give it. Blocks.
    pub fn may_take(&self, len: u64) -> Result<(), Error> {
        let evictable = || {
            self.account
                .as_ref()
                .map_or(0, |account| account.evictable())
        };
        self.lacks(len, || len, evictable).map(drop)
    }

    /// True if the disk has no space for `len` bytes, and evictions have to give some of those that are `needed`; fails
    /// where so many as are `evictable` are too few. Blocks.
    pub fn lacks(
        &self,
        len: u64,
        needed: impl FnOnce() -> u64,
        evictable: impl FnOnce() -> u64,
    ) -> Result<bool, Error> {
        let full = match self.take_space(len) {
            Err(full @ Error::NoSpace(_)) => full,
            taken => return taken.map(|_| false),
        };
        let (needed, free) = (needed(), self.free()?);
        let has = free.map_or(u64::MAX, Free::beyond_floor);
        let may_have = has.saturating_add(evictable());
        (may_have >= needed).then_some(has < needed).ok_or(full)
    }

    /// The free space, where the file system tells it. Blocks.
    pub fn free(&self) -> Result<Option<Free>, Error> {
        self.space.free(&self.dir().root)
    }

    /// The directory of the values.
    pub fn dir(&self) -> &ValuesDir {
        &self.temp_dir.values
    }

    /// A version later than every one before it, and not `current`. Blocks now and then.
    pub fn next_version(&self, current: Option<Version>) -> Result<Version, Error> {
        let next = self.clock.lock().next(current);
        next.map_err(Error::errno_while("advance the clock of versions"))
    }

    /// Notes what values `may_have`, as durably as values are stored: before the first of them is published. Blocks.
    pub fn note_first(&self, may_have: &MayHave) -> Result<(), Error> {
        let make = || {
            let (own, flags) = (&self.temp_dir.own, OFlags::WRONLY | OFlags::CREATE);
            let file = open_beneath(own, may_have.name, flags, Mode::from(0o600))?;
            if self.durability == Durability::Disk {
                rustix::fs::fsync(file)?;
                rustix::fs::fsync(own)?;
            }
            Ok(())
        };
        make().map_err(Error::errno_while(
            "note that values may have an end or a date",
        ))?;
        may_have.met();
        Ok(())
    }

    /// Syncs the names in these folders, lower folders first. The folders above are among them, so the removal of a
    /// folder is synced too. A path of a value stands for its file. Blocks.
    pub fn sync_names(&self, folders: &BTreeSet<Box<str>>) -> Result<(), Errno> {
        for path in folders.iter().rev() {
            let folder = match self.dir().folder(path) {
                Err(Errno::NOTDIR) => {
                    if let Ok(key) = Key::recorded(&**path)
                        && let Some(file) = self.dir().open(&key, Blocking::Allowed)?
                    {
                        self.sync(&file.fd)?;
                    }
                    continue;
                }
                Err(errno) if is_no_folder(errno) => continue,
                folder => folder?,
            };
            self.sync_folder(&folder)?;
        }
        Ok(())
    }

    /// Puts the `file` of the value of `key` on the disk, and its name. Blocks.
    pub fn sync_named(&self, file: impl AsFd, key: &Key<'_>) -> Result<(), Error> {
        let folders = folder_and_above(key.folder()).map(Box::from).collect();
        let synced = self.sync(file).and_then(|()| self.sync_names(&folders));
        synced.map_err(Error::errno_while("sync the value"))
    }

    /// Has the kernel write all files of the file system that the values lie on. Blocks.
    pub fn sync_files(&self) -> Result<(), Errno> {
        let root = &self.dir().root;
        rustix::fs::syncfs(root)?;
        // An xfs that has shut down has nothing left to write, and says so to fstat alone.
        retry_on_intr(|| rustix::fs::fstat(root)).map(drop)
    }

    /// With a journal, has the kernel write what waits, so that the next sync of all files is short; whether it did.
    /// The descriptor is its own: a failure is reported once to each, and this one is not the one to hear of it.
    /// Blocks.
    pub fn write_ahead(&self) -> bool {
        let root = || open_folder(&self.dir().root, ".");
        self.journal.is_used.load(Relaxed) && root().and_then(rustix::fs::syncfs).is_ok()
    }

    /// Puts the names in a folder on the disk. Blocks.
    pub fn sync_folder(&self, folder: impl AsFd) -> Result<(), Errno> {
        self.sync(&folder)?;
        // An xfs that has shut down, for example because its device failed, drops what waited for its log. It then
        // reports success for the sync of a directory, as nothing waits any more, and the failure to fstat alone.
        retry_on_intr(|| rustix::fs::fstat(&folder)).map(drop)
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

    /// Publishes a few bytes as a name that is no key, and removes it; answers what is free for values, where that is
    /// known. Blocks.
    pub fn probe(&self) -> Result<Option<Free>, Error> {
        if self.journal.is_failing.load(Relaxed) {
            return Err(Error::new("write the journal", Errno::IO));
        }
        let content = [Bytes::from_static(b"can this be written?")];
        let root = &self.dir().root;
        // The file is published in the server's own directory, so that a watch on that of the values reports no change.
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        retry_on_intr(|| rustix::fs::accessat(root, ".", wanted, AtFlags::EACCESS))
            .map_err(Error::errno_while("write to the directory"))?;
        TempFile::create(&self.temp_dir, Placement::Root, Some(&content))?.rehearse("probe")?;
        self.free()
    }
}
