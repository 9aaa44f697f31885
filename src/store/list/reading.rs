//! The reading of one open folder, some names at a time.
//!
//! A name that is there from the beginning to the end is read, also where it is replaced meanwhile. On btrfs a name
//! that is replaced moves behind all others, and an open folder ends where it ended when it was opened. So a folder
//! that has changed is read on from there, until nothing has changed since, or [`MOST_ENDS`] times. A name that is
//! replaced may be read twice. What comes or goes meanwhile may be read or not.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir, RawDirEntry, SeekFrom, fstat, seek};
use rustix::io::{Errno, retry_on_intr};

use crate::store::directory_fd::stat;
use crate::store::value_file::FileStamp;

/// Bytes that are read at once: some thousand names, while which the kernel keeps the directory from being changed.
const READ: usize = 32 << 10;

/// How often a folder is read on whose names change meanwhile: each time takes some microseconds, and what was changed
/// in the time before.
const MOST_ENDS: usize = 64;

/// A folder that is being read.
#[derive(Debug)]
pub struct Reading {
    pub folder: OwnedFd,
    /// The folder before the names were read that are read now.
    stamp: FileStamp,
    /// Any change since then changes the stamp: some file systems tell no two changes in a tick of the clock apart.
    is_exact: bool,
    /// The last name that was read, its place in the folder, and that of the next.
    last: Vec<u8>,
    at: u64,
    next: u64,
    /// Where the last name was when the reading ended the last time.
    end: Option<u64>,
    /// The times that it has ended.
    ends: usize,
}

impl Reading {
    pub fn of(folder: OwnedFd) -> Result<Self, Errno> {
        let stamp = FileStamp::of(&retry_on_intr(|| fstat(&folder))?);
        Ok(Self {
            folder,
            stamp,
            is_exact: stamp.is_quiescent(),
            last: Vec::new(),
            at: 0,
            next: 0,
            end: None,
            ends: 0,
        })
    }

    /// Reads the next names; true if there may be more. Blocks.
    pub fn read<E>(
        &mut self,
        mut each: impl FnMut(&OwnedFd, &RawDirEntry<'_>) -> Result<(), E>,
    ) -> Result<Result<bool, Errno>, E> {
        let mut buf = Vec::with_capacity(READ);
        let mut entries = RawDir::new(&self.folder, buf.spare_capacity_mut());
        loop {
            match entries.next() {
                Some(Err(Errno::INTR)) => continue,
                Some(Err(errno)) => return Ok(Err(errno)),
                None => return Ok(self.goes_on()),
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    (self.at, self.next) = (self.next, entry.next_entry_cookie());
                    if *name != *self.last {
                        self.last.clear();
                        self.last.extend_from_slice(name);
                        each(&self.folder, &entry)?;
                    }
                }
            }
            if entries.is_buffer_empty() {
                return Ok(Ok(true));
            }
        }
    }

    /// True if the folder has changed while it was read, so that there may be more names at its end now. The end itself
    /// is no place in a folder of btrfs, so it is read again from its last name on.
    fn goes_on(&mut self) -> Result<bool, Errno> {
        let stamp = FileStamp::of(&retry_on_intr(|| fstat(&self.folder))?);
        let is_same = stamp == self.stamp && (self.is_exact || self.end == Some(self.at));
        if is_same || self.ends == MOST_ENDS {
            return Ok(false);
        }
        (self.stamp, self.is_exact) = (stamp, stamp.is_quiescent());
        (self.end, self.ends) = (Some(self.at), self.ends + 1);
        self.next = retry_on_intr(|| seek(&self.folder, SeekFrom::Start(self.at)))?;
        Ok(true)
    }
}

/// The type of the name of `entry` in `folder`, also on file systems that do not report it with the name.
pub fn kind_of(folder: &OwnedFd, entry: &RawDirEntry<'_>, name: &str) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => match stat(folder, name) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode)),
            // It was removed meanwhile.
            Err(Errno::NOENT) => Ok(FileType::Unknown),
            Err(errno) => Err(errno),
        },
        told => Ok(told),
    }
}
