//! The directory of the values by its descriptor: every system call that opens, looks up or removes a value in it
//! ([`super::temp_file`] adds them, [`super::folder`] walks to the folders that they lie in).
//!
//! Promises that nothing outside the directory is ever reached and nothing but a regular file is ever opened: each open
//! goes through openat2 with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, on a descriptor held since the start, and each other
//! call names one entry of a directory that was opened so. It decides nothing ([`super::publish`] does). Its calls may block, except an open with [`Blocking::Never`].

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::file_stamp::FileStamp;
use super::left_out::LeftOut;
use super::location::Location;
use super::value_file::ValueFile;
use crate::transfer::BlockingPool;
use crate::value::{Key, Meta, is_directory, is_regular};

const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The magic number of tmpfs (statfs(2)).
const TMPFS: i64 = 0x0102_1994;

/// What of a mode says who may do what.
const RIGHTS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// How often a call is made whose name is stale: a value that is replaced without rest is so a few times in a row.
const STALE_TRIES: u32 = 16;

/// Opens `name` beneath `dir` and nowhere else, following no link.
pub(super) fn open_beneath(
    dir: impl AsFd,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    retry_if_stale(|| rustix::fs::openat2(&dir, name, flags, mode, CONFINED))
}

/// Makes `call` again while a signal interrupts it, and a few times while the name that it uses is stale: NFS and FUSE answer
/// ESTALE where a file is replaced between the look at its name and the use of it.
fn retry_if_stale<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..STALE_TRIES {
        match retry_on_intr(&mut call) {
            Err(Errno::STALE) => {}
            result => return result,
        }
    }
    retry_on_intr(call)
}

/// Whether a call may wait for the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocking {
    /// It answers from the kernel's caches, or fails with `AGAIN`.
    Never,
    /// It may wait: not for reactors.
    Allowed,
}

/// The directory of the values.
#[derive(Debug)]
pub(super) struct Dir {
    root: OwnedFd,
    location: Location,
    disk: BlockingPool,
    is_memory: bool,
    left_out: LeftOut,
}

/// A regular file, opened for reading.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Absent,
    /// A value, whose file has this mode.
    Value(Meta, Mode),
    /// A directory: keys may lie below it.
    Folder,
    /// A link, device, socket or pipe: not ours.
    Other,
}

impl Dir {
    pub(super) fn new(root: OwnedFd, location: Location, disk: BlockingPool) -> Self {
        let is_memory = rustix::fs::fstatfs(&root).is_ok_and(|fs| fs.f_type == TMPFS);
        Self {
            root,
            location,
            disk,
            is_memory,
            left_out: LeftOut::default(),
        }
    }

    /// The folders in it that listings leave out.
    pub(super) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Whether files lie in memory, so that reading one never waits for a device. tmpfs knows no `RWF_NOWAIT`: without
    /// this, each read would be left to the disk threads.
    pub(super) fn is_memory(&self) -> bool {
        self.is_memory
    }

    pub(super) fn disk(&self) -> &BlockingPool {
        &self.disk
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Where the directory was opened.
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// Opens the value of `key` for reading; `None` when there is none.
    ///
    /// With [`Blocking::Never`], fails with `AGAIN` where the device would be needed. The first open has no effect on what the
    /// name stands for (`O_PATH`), so that a device or a pipe put there is not even opened.
    pub(super) fn open(&self, key: &Key<'_>, blocking: Blocking) -> Result<Option<Opened>, Errno> {
        let resolve = match blocking {
            Blocking::Never => CONFINED | ResolveFlags::CACHED,
            Blocking::Allowed => CONFINED,
        };
        let open = |flags: OFlags| {
            let flags = flags | OFlags::CLOEXEC;
            let path = key.as_str();
            match retry_on_intr(|| {
                rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)
            }) {
                Ok(fd) => retry_on_intr(|| rustix::fs::fstat(&fd))
                    .map(|stat| is_regular(&stat).then(|| Opened { fd, stat })),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
                Err(errno) => Err(errno),
            }
        };
        retry_if_stale(|| match open(OFlags::PATH)? {
            Some(_regular) => open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY),
            None => Ok(None),
        })
    }

    /// Which file the path of `key` leads to now, without waiting for the device: `None` where it cannot be told, or there
    /// is none.
    pub(super) fn stamp(&self, key: &Key<'_>) -> Option<FileStamp> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = CONFINED | ResolveFlags::CACHED;
        let path = key.as_str();
        let open = || rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve);
        let file = retry_on_intr(open).ok()?;
        let stat = retry_on_intr(|| rustix::fs::fstat(&file)).ok()?;
        Some(FileStamp::of(&stat))
    }

    /// Keeps the file under `key` alive without opening it, so that removing its name does not free its blocks at once.
    pub(super) fn pin(&self, key: &Key<'_>) -> Option<ValueFile> {
        let fd = open_beneath(
            &self.root,
            key.as_str(),
            OFlags::PATH | OFlags::NOFOLLOW,
            Mode::empty(),
        )
        .ok()?;
        Some(ValueFile::new(fd, self.disk.clone()))
    }
}

/// What stands under `name` in `folder` now.
pub(super) fn look_up(folder: impl AsFd, name: &str) -> Result<Entry, Errno> {
    let stat = || rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match retry_if_stale(stat) {
        Ok(stat) if is_regular(&stat) => Ok(Entry::Value(
            Meta::of(&stat),
            Mode::from_raw_mode(stat.st_mode) & RIGHTS,
        )),
        Ok(stat) if is_directory(&stat) => Ok(Entry::Folder),
        Ok(_) => Ok(Entry::Other),
        Err(Errno::NOENT) => Ok(Entry::Absent),
        Err(errno) => Err(errno),
    }
}

/// When the file system last changed what stands under `name` in `folder`, its name or its bytes, in nanoseconds since 1970. No
/// program can set it.
pub(super) fn changed(folder: impl AsFd, name: &str) -> Result<i64, Errno> {
    let stat = || rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let stat = retry_if_stale(stat)?;
    let nanos = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    Ok(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Removes `name` from `folder`.
pub(super) fn unlink(folder: impl AsFd, name: &str) -> Result<(), Errno> {
    retry_if_stale(|| rustix::fs::unlinkat(&folder, name, AtFlags::empty()))
}
