//! Where files are made aside: with what the file system can do, stamped with a version of the clock, and synced if need be.
//!
//! A file so made is [`Staged`]. It has no name at all (`O_TMPFILE`), or, where the file system lacks that or one will be
//! needed, one in `.data-server/staging`, which is swept at the next start.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::Attributes;
use super::budget::{Budget, Share};
use super::clock::Clock;
use super::error::Error;
use super::names::{Names, open_beneath};
use super::object::{ValueFile, Version};
use super::pipes::Pipes;
use super::staged::{Staged, write_at};
use super::threads::Threads;
use crate::metrics::StoreCounters;

/// Values are made with this mode; the process's umask takes away from it, as it does for `cp`.
const VALUE_MODE: u32 = 0o666;

/// What the file system and the kernel can do, tried once at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    /// Files without a name (`O_TMPFILE`): the kernel removes them when the server dies.
    pub(super) unnamed: bool,
    /// Such a file can be linked through its descriptor alone; else through `/proc`.
    pub(super) link_empty_path: bool,
}

/// What an acknowledged change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process: the operating system has it.
    Os,
    /// The loss of power: the disk has it, the value first and then its name.
    Disk,
}

/// Where files are staged.
#[derive(Debug)]
pub(super) struct Staging {
    names: Arc<Names>,
    dir: OwnedFd,
    features: Features,
    durability: Durability,
    budget: Arc<Budget>,
    clock: Mutex<Clock>,
    next_name: AtomicU64,
    counters: Arc<StoreCounters>,
    pipes: Arc<Pipes>,
}

impl Staging {
    pub(super) fn new(
        names: Arc<Names>,
        dir: OwnedFd,
        features: Features,
        durability: Durability,
        budget: Arc<Budget>,
        clock: Clock,
        counters: Arc<StoreCounters>,
    ) -> Self {
        Self {
            names,
            dir,
            features,
            durability,
            budget,
            clock: Mutex::new(clock),
            next_name: AtomicU64::new(0),
            counters,
            pipes: Arc::default(),
        }
    }

    pub(super) fn counters(&self) -> &StoreCounters {
        &self.counters
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Where files that need a name before their key's have it.
    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(super) fn features(&self) -> Features {
        self.features
    }

    /// What large values are received through.
    pub(super) fn pipes(&self) -> &Arc<Pipes> {
        &self.pipes
    }

    /// A new empty file that no key names.
    pub(super) fn stage(self: &Arc<Self>) -> Result<Staged, Errno> {
        self.stage_as(self.features.unnamed, ValueFile::new)
    }

    fn stage_as(
        self: &Arc<Self>,
        unnamed: bool,
        file: fn(OwnedFd, Threads) -> ValueFile,
    ) -> Result<Staged, Errno> {
        let mode = Mode::from(VALUE_MODE);
        let (fd, name) = if unnamed {
            (
                open_beneath(self.names.root(), ".", OFlags::TMPFILE | OFlags::RDWR, mode)?,
                None,
            )
        } else {
            let name = self.new_name();
            (
                open_beneath(
                    &self.dir,
                    &name,
                    OFlags::CREATE | OFlags::EXCL | OFlags::RDWR,
                    mode,
                )?,
                Some(name),
            )
        };
        let file = file(fd, self.names.disk().clone());
        Ok(Staged::new(file, name, Arc::clone(self)))
    }

    /// A staged file that holds `pieces`. One that will replace another is best given a name at once: to link it first
    /// and rename it then costs more.
    pub(super) fn stage_small(
        self: &Arc<Self>,
        pieces: &[Bytes],
        attributes: Attributes,
        share: Share,
        replaces: bool,
    ) -> Result<Staged, Error> {
        let unnamed = self.features.unnamed && !replaces;
        let staged = self.stage_as(unnamed, ValueFile::small);
        let mut staged = staged.map_err(Error::while_("create"))?;
        staged.complete(attributes, share);
        write_at(staged.file(), 0, pieces)?;
        Ok(staged)
    }

    /// Stages a little and drops it again; answers how many bytes are free for values.
    pub(super) fn probe(self: &Arc<Self>) -> Result<u64, Error> {
        let content = [Bytes::from_static(b"can this be written?")];
        let share = Share::new(&self.budget);
        drop(self.stage_small(&content, Attributes::default(), share, false)?);
        let free =
            rustix::fs::fstatvfs(self.names.root()).map_err(Error::while_("ask for space"))?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    /// Gives `staged` its version, later than `current`, and puts all of it on the disk where that is promised. A sync
    /// that failed is final: the kernel has forgotten what it could not write, and a second try would prove nothing.
    pub(super) fn seal(&self, staged: &Staged, current: Option<Version>) -> Result<Version, Error> {
        let next = self
            .clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next(current);
        let version = next.map_err(Error::while_("advance the clock of versions"))?;
        staged
            .stamp(version)
            .map_err(Error::while_("stamp the version"))?;
        staged.attributes().write(&**staged.file(), version)?;
        if self.durability == Durability::Disk {
            // Not fdatasync: the version is metadata.
            self.sync(&**staged.file())
                .map_err(Error::while_("sync the value"))?;
        }
        Ok(version)
    }

    /// Puts all names on the disk, where that is promised.
    pub(super) fn sync_names(&self) -> Result<(), Errno> {
        match self.durability {
            Durability::Os => Ok(()),
            Durability::Disk => {
                self.sync(self.names.root())?;
                // An xfs that has shut down, say because its device failed, has dropped what waited for its log, and
                // then calls the sync of a directory done, for nothing waits any more. To fstat it admits it.
                retry_on_intr(|| rustix::fs::fstat(self.names.root())).map(drop)
            }
        }
    }

    fn sync(&self, file: impl AsFd) -> Result<(), Errno> {
        let began = Instant::now();
        let synced = rustix::fs::fsync(file);
        self.counters.synced(began.elapsed());
        synced
    }

    /// A name that nothing in [`Staging::dir`] has.
    pub(super) fn new_name(&self) -> String {
        self.next_name.fetch_add(1, Ordering::Relaxed).to_string()
    }
}
