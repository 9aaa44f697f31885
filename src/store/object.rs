//! A value as it is read: its version, its length, and, for a large one, an open file.
//!
//! An [`Object`] is a snapshot: replacing or deleting the value does not change what it reads. Cutting or editing the
//! file by hand does, and shows as a file that ends too early.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{Advice, FileType, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::attributes;
use super::error::Error;
use super::residency::{self, Residency};
use super::stamp::Stamp;
use super::threads::Threads;

/// Freeing the blocks of a file larger than this takes long enough to be noticed by others on the same reactor.
const SLOW_TO_FREE: u64 = 256 << 10;

/// The last second of the year 9999, in nanoseconds since the epoch.
const LATEST: i128 = 253_402_300_799 * 1_000_000_000;

/// Which write of a key this is: nanoseconds since the epoch, from a clock that never repeats (see `clock.rs`).
/// The file carries it as its modification time, so a version written by hand is the hand's time of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(i128);

impl Version {
    /// Nanoseconds since 1970; negative for files dated earlier by hand.
    pub fn nanos(self) -> i128 {
        self.0
    }

    pub(super) fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    pub(super) fn of(stat: &Stat) -> Self {
        Self(i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec))
    }

    pub(super) fn timespec(self) -> rustix::fs::Timespec {
        let seconds = i64::try_from(self.0.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
        let nanos = i64::try_from(self.0.rem_euclid(1_000_000_000)).unwrap_or(0);
        rustix::fs::Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        }
    }

    /// The time of this write, to the nearest that every form of a date can tell: from 1970 to the year 9999.
    pub fn time(self) -> SystemTime {
        let nanos = self.0.clamp(0, LATEST);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(0);
        let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, rest)
    }
}

/// What is known of a value without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The value's length in bytes.
    pub len: u64,
    /// Which write it is.
    pub version: Version,
}

impl Meta {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            len: u64::try_from(stat.st_size).unwrap_or(0),
            version: Version::of(stat),
        }
    }
}

pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// An open file of a value, kept open by whoever still reads or writes it.
///
/// Closing the last descriptor of an unlinked file frees its blocks, which takes the longer the larger it was: large
/// ones are closed on the disk threads.
#[derive(Debug)]
pub(super) struct ValueFile {
    fd: Option<OwnedFd>,
    disk: Threads,
    is_small: bool,
}

impl ValueFile {
    pub(super) fn new(fd: OwnedFd, disk: Threads) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: false,
        }
    }

    /// Of a value so short that freeing it takes no time: its length is not asked for again.
    pub(super) fn small(fd: OwnedFd, disk: Threads) -> Self {
        Self {
            fd: Some(fd),
            disk,
            is_small: true,
        }
    }
}

impl AsFd for ValueFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
            .as_ref()
            .expect("the descriptor is only taken by drop")
            .as_fd()
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let slow = !self.is_small
            && rustix::fs::fstat(&fd)
                .is_ok_and(|s| s.st_nlink == 0 && Meta::of(&s).len > SLOW_TO_FREE);
        if slow {
            self.disk.later(move || drop(fd));
        }
    }
}

/// A value, open for reading; a small one has its bytes in memory too.
pub struct Object {
    file: Arc<ValueFile>,
    meta: Meta,
    stamp: Stamp,
    bytes: Option<Bytes>,
    media_type: Option<Box<str>>,
    is_memory: bool,
    residency: Residency,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Object {
    /// The value in `fd`, described by `stat` from before `bytes` were read.
    pub(super) fn new(
        fd: OwnedFd,
        stat: &Stat,
        bytes: Option<Bytes>,
        disk: Threads,
        is_memory: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            media_type: attributes::media_type(&fd)?,
            is_memory,
            file: Arc::new(ValueFile::new(fd, disk)),
            meta: Meta::of(stat),
            stamp: Stamp::of(stat),
            bytes,
            residency: Residency::default(),
            note: OnceLock::new(),
        })
    }

    /// Length and version, as they were when the value was opened.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    pub(super) fn file(&self) -> &ValueFile {
        &self.file
    }

    /// All of the value, if it is in memory.
    pub fn bytes(&self) -> Option<&Bytes> {
        self.bytes.as_ref()
    }

    /// The media type it was stored with.
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// Reads up to `buf.len()` bytes from `offset` on; how many, 0 only at the end. Blocks: not for reactors.
    pub fn read_blocking(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            match rustix::io::pread(&*self.file, &mut *buf, offset) {
                Err(Errno::INTR) => {}
                read => return read.map_err(Error::while_("read")),
            }
        }
    }

    /// What the room above keeps beside this version of the value; made once, by the first who asks.
    ///
    /// # Panics
    /// When it is asked for as another type than it was made.
    pub fn note<N: Any + Send + Sync>(&self, make: impl FnOnce() -> N) -> &N {
        let note = self.note.get_or_init(|| Box::new(make()));
        note.downcast_ref().expect("a note has one type")
    }

    /// What [`Object::note`] made, if it was of this type.
    pub fn noted<N: Any + Send + Sync>(&self) -> Option<&N> {
        self.note.get()?.downcast_ref()
    }

    /// Whether an edit from now on would show in [`Object::is_current`].
    pub(super) fn is_settled(&self) -> bool {
        self.stamp.is_settled()
    }

    /// Whether the file still has its name and has not been changed: one system call.
    pub(super) fn is_current(&self) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|now| Stamp::of(&now) == self.stamp)
    }

    /// Whether `offset..offset + len` can be sent now without waiting for the device, as far as can be told cheaply.
    pub fn is_resident(&self, offset: u64, len: u64) -> bool {
        self.is_memory
            || self
                .residency
                .is_resident(&*self.file, self.meta.len, offset, len)
    }

    /// Brings `offset..offset + len` into memory on a disk thread, and asks the kernel for as much again behind it.
    pub fn make_resident(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let file = Arc::clone(&self.file);
        let disk = self.file.disk.clone();
        async move {
            disk.run(move || {
                // Advice only: a file system without readahead still serves the reads below.
                let _ = rustix::fs::fadvise(
                    &*file,
                    offset,
                    std::num::NonZeroU64::new(len * 2),
                    Advice::WillNeed,
                );
                let mut byte = [0];
                for at in (offset..offset + len)
                    .step_by(residency::STRIDE)
                    .chain([offset + len.saturating_sub(1)])
                {
                    retry_on_intr(|| rustix::io::pread(&*file, &mut byte, at))
                        .map_err(Error::while_("read ahead"))?;
                }
                Ok(())
            })
            .await
        }
    }

    /// The file, for whoever sends it to a socket.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor(Arc::clone(&self.file))
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// A share in an object's open file: to send from, not to read versions or lengths from.
#[derive(Clone, Debug)]
pub struct Descriptor(Arc<ValueFile>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
