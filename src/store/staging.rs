//! Files on their way to a name: made aside, stamped with a version, synced if need be, then linked or renamed whole.
//!
//! Promises that a staged file that is not published leaves nothing behind: it has no name at all (`O_TMPFILE`), or,
//! where the file system lacks that, one in `.data-server/staging` that is removed with it and swept at the next start.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::Attributes;
use super::budget::{Budget, Share};
use super::clock::Clock;
use super::error::Error;
use super::key::Key;
use super::names::{Names, open_beneath};
use super::object::{ValueFile, Version};
use super::pipes::Pipes;
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
        Ok(Staged {
            file: Arc::new(file(fd, self.names.disk().clone())),
            name,
            attributes: Attributes::default(),
            share: None,
            staging: Arc::clone(self),
        })
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
        staged.attributes.write(&**staged.file(), version)?;
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

    fn new_name(&self) -> String {
        self.next_name.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

/// A value that is being written, under no key yet. Dropped unpublished, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Staged {
    file: Arc<ValueFile>,
    name: Option<String>,
    attributes: Attributes,
    /// Held until the value is published, or given up.
    share: Option<Share>,
    staging: Arc<Staging>,
}

impl Staged {
    pub(super) fn file(&self) -> &Arc<ValueFile> {
        &self.file
    }

    /// All of the value is in: what to leave beside it when it is sealed, and its share of what may be staged.
    pub(super) fn complete(&mut self, attributes: Attributes, share: Share) {
        self.attributes = attributes;
        self.share = Some(share);
    }

    /// Stamps the version into the file: its modification time.
    fn stamp(&self, version: Version) -> Result<(), Errno> {
        let omit = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        };
        let times = Timestamps {
            last_access: omit,
            last_modification: version.timespec(),
        };
        retry_on_intr(|| rustix::fs::futimens(&*self.file, &times))
    }

    /// Gives the file the name `key`; `EXIST` when something has it.
    pub(super) fn link(&mut self, key: &Key<'_>) -> Result<(), Errno> {
        let Staging { names, dir, .. } = &*self.staging;
        match &self.name {
            None => self.link_unnamed(names.root(), key.as_str()),
            Some(name) => {
                let (root, flags) = (names.root(), RenameFlags::NOREPLACE);
                retry_on_intr(|| {
                    rustix::fs::renameat_with(dir, name.as_str(), root, key.as_str(), flags)
                })?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// Gives the file the name `key` in place of whatever file has it.
    pub(super) fn replace(&mut self, key: &Key<'_>) -> Result<(), Errno> {
        if self.name.is_none() {
            let name = self.staging.new_name();
            self.link_unnamed(&self.staging.dir, &name)?;
            self.name = Some(name);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let Staging { names, dir, .. } = &*self.staging;
        retry_on_intr(|| rustix::fs::renameat(dir, name, names.root(), key.as_str()))?;
        self.name = None;
        Ok(())
    }

    fn link_unnamed(&self, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        link_unnamed(&self.file, dir, name, self.staging.features.link_empty_path)
    }
}

/// Links the unnamed `file` as `dir/name`.
pub(super) fn link_unnamed(
    file: impl AsFd,
    dir: impl AsFd,
    name: &str,
    empty_path: bool,
) -> Result<(), Errno> {
    if empty_path {
        return retry_on_intr(|| rustix::fs::linkat(&file, "", &dir, name, AtFlags::EMPTY_PATH));
    }
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    retry_on_intr(|| rustix::fs::linkat(CWD, &path, &dir, name, AtFlags::SYMLINK_FOLLOW))
}

impl Drop for Staged {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let staging = Arc::clone(&self.staging);
        self.staging.names.disk().later(move || {
            let unlink = || rustix::fs::unlinkat(&staging.dir, name.as_str(), AtFlags::empty());
            if let Err(errno) = retry_on_intr(unlink) {
                tracing::warn!(%name, error = %errno, "a staged file stays until the next start");
            }
        });
    }
}

/// Writes all of `pieces` to `file` from `offset` on.
pub(super) fn write_at(file: &ValueFile, mut offset: u64, pieces: &[Bytes]) -> Result<(), Error> {
    let mut slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let batch = rest.len().min(MAX_SLICES);
        match rustix::io::pwritev(file, &rest[..batch], offset) {
            Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("write", errno)),
        }
    }
    Ok(())
}

/// `IOV_MAX` of Linux: what one pwritev takes.
const MAX_SLICES: usize = 1024;
