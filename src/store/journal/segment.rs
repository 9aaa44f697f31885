//! A segment of the journal, which is a file that is written with zeros once and then again and again with frames; and
//! the segments that a journal has, by their use.
//!
//! Only a file whose blocks were written before is synced without a commit of the file system's own journal, which
//! takes three times as long: so a segment never grows or shrinks, and is recycled. Promises that a segment which is
//! retired, because a write or a sync of it has failed, is never synced again: the kernel may have dropped what it
//! could not write, and a second sync would prove nothing.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

use bytes::Bytes;
use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;
use super::super::small_file::errno;
use super::super::temp_file::{allocate, names};
use super::control::LiveSegment;
use super::format::{BLOCK, ChangeRecord, Head, Record};
use crate::value::Error;

/// Bytes of zeros that are written and synced at a time: a group that is synced meanwhile waits for no more.
const STEP: usize = 4 << 20;

/// A file of the journal.
#[derive(Debug)]
pub struct Segment {
    file: File,
    /// Its name in the directory of the journal.
    pub index: u32,
    /// In bytes.
    pub size: u64,
    is_retired: AtomicBool,
}

/// A frame that was whole when it was found.
#[derive(Debug)]
pub struct Frame {
    segment: Arc<Segment>,
    pub offset: u64,
    pub head: Head,
}

impl Segment {
    /// A new segment of `size` bytes in `dir`, on the disk with its name. A file with that name is no longer used.
    pub fn create(dir: &OwnedFd, index: u32, size: u64) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut segment = Self::open(dir, &index.to_string(), flags)?;
        // Btrfs would write each frame elsewhere, for which a full disk has no room. Others know no such flag.
        if let Ok(flags) = rustix::fs::ioctl_getflags(&segment.file) {
            let _ = rustix::fs::ioctl_setflags(&segment.file, flags | IFlags::NOCOW);
        }
        segment.size = size;
        let written = segment.zero().and_then(|()| rustix::fs::fsync(dir));
        if written.is_err() {
            let _ = segment.remove(dir);
        }
        written.map(|()| segment)
    }

    /// The file `name` of `dir`, which has frames.
    pub fn open(dir: &OwnedFd, name: &str, flags: OFlags) -> Result<Self, Errno> {
        // A mode goes with a file that may be made, and with no other.
        let creates = flags.contains(OFlags::CREATE);
        let mode = if creates { 0o600 } else { 0 };
        let file = open_beneath(dir, name, flags, Mode::from(mode))?;
        let size = retry_on_intr(|| rustix::fs::fstat(&file))?.st_size;
        Ok(Self {
            file: file.into(),
            index: name.parse().unwrap_or(0),
            size: u64::try_from(size).unwrap_or(0),
            is_retired: AtomicBool::new(false),
        })
    }

    /// The file `name` of `dir`, to be read, if there is one.
    pub fn find(dir: &OwnedFd, name: &str) -> Result<Option<Arc<Self>>, Errno> {
        match Self::open(dir, name, OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok(None),
            opened => Ok(Some(Arc::new(opened?))),
        }
    }

    /// All segments in `dir`, in the order of their names.
    pub fn all(dir: &OwnedFd, flags: OFlags) -> Result<Vec<Arc<Self>>, Errno> {
        let index = |name: CString| name.to_str().ok()?.parse::<u32>().ok();
        let mut indices: Vec<_> = names(dir)?.into_iter().filter_map(index).collect();
        indices.sort_unstable();
        let open = |index: u32| Self::open(dir, &index.to_string(), flags).map(Arc::new);
        indices.into_iter().map(open).collect()
    }

    /// Removes its file.
    pub fn remove(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let name = self.index.to_string();
        retry_on_intr(|| rustix::fs::unlinkat(dir, &name, AtFlags::empty()))
    }

    /// Ends its use; false if that was so before.
    pub fn retire(&self) -> bool {
        !self.is_retired.swap(true, AcqRel)
    }

    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Acquire)
    }

    /// Writes all of `frame` at `offset`.
    pub fn write(&self, frame: &[u8], offset: u64) -> Result<(), Errno> {
        let written = self.file.write_all_at(frame, offset);
        written.map_err(|error| errno(&error))
    }

    /// Puts what was written on the disk.
    pub fn sync(&self) -> Result<(), Errno> {
        if self.is_retired() {
            return Err(Errno::IO);
        }
        rustix::fs::fdatasync(&self.file)
    }

    /// The frame at `offset`, if there is a whole one.
    fn read(&self, offset: u64) -> Result<Option<(Head, Vec<Record>)>, Errno> {
        let Some(head) = Head::parse(&self.bytes(offset, BLOCK)?) else {
            return Ok(None);
        };
        let records = head.read(self.bytes(offset, head.size())?);
        Ok(records.map(|records| (head, records)))
    }

    /// The whole frames of `journal`, wherever they lie.
    pub fn frames(self: &Arc<Self>, journal: u128) -> Result<Vec<Frame>, Errno> {
        let (mut found, mut offset) = (Vec::new(), 0);
        while offset < self.size {
            let mut size = BLOCK;
            if let Some((head, _)) = self.read(offset)?
                && head.journal == journal
            {
                size = head.size();
                let segment = Arc::clone(self);
                found.push(Frame {
                    segment,
                    offset,
                    head,
                });
            }
            offset += size as u64;
        }
        Ok(found)
    }

    /// `len` bytes at `offset`, or fewer at the end of the file.
    fn bytes(&self, offset: u64, len: usize) -> Result<Bytes, Errno> {
        let left = usize::try_from(self.size - offset).unwrap_or(len);
        let mut bytes = vec![0; len.min(left)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| errno(&error))?;
        Ok(bytes.into())
    }

    fn zero(&self) -> Result<(), Errno> {
        // So that a full disk is known before much is written.
        allocate(&self.file, FallocateFlags::empty(), 0..self.size)?;
        let zeros = vec![0; STEP];
        for offset in (0..self.size).step_by(STEP) {
            let left = usize::try_from(self.size - offset).unwrap_or(STEP);
            self.write(&zeros[..left.min(STEP)], offset)?;
            rustix::fs::fsync(&self.file)?;
        }
        Ok(())
    }
}

impl Frame {
    /// Its records.
    pub fn read(&self) -> Result<Vec<Record>, Error> {
        let read = self.segment.read(self.offset);
        read.and_then(|read| Ok(read.ok_or(Errno::IO)?.1))
            .map_err(Error::errno_while("read the journal"))
    }

    /// The changes among its records.
    pub fn changes(&self) -> Result<impl Iterator<Item = ChangeRecord>, Error> {
        let records = self.read()?.into_iter();
        Ok(records.filter_map(|record| match record {
            Record::Change(change) => Some(change),
            Record::Cancel(_) => None,
        }))
    }
}

/// The number of segments: one is filled while another is settled; two more for when a checkpoint takes long.
pub const SEGMENTS: usize = 4;

/// The segments of a journal, by their use.
#[derive(Debug, Default)]
pub struct Segments {
    pub free: Vec<Arc<Segment>>,
    /// With frames that may not be settled, oldest first.
    pub used: Vec<(LiveSegment, Arc<Segment>)>,
    /// Could not be begun: the next checkpoint removes them.
    pub spoiled: Vec<Arc<Segment>>,
    /// The number of all of them.
    count: usize,
    /// The name of the next one that is made.
    pub next_index: u32,
}

impl Segments {
    pub fn new(free: Vec<Arc<Segment>>) -> Self {
        Self {
            count: free.len(),
            next_index: free.iter().map(|s| s.index + 1).max().unwrap_or(0),
            free,
            ..Self::default()
        }
    }

    /// Adds a segment that was made.
    pub fn add(&mut self, segment: Segment) {
        self.count += 1;
        self.next_index = segment.index + 1;
        self.free.push(Arc::new(segment));
    }

    /// True if no segment is free and another may be made.
    pub fn lacks_one(&self) -> bool {
        self.free.is_empty() && self.count < SEGMENTS
    }

    /// True while a segment could not be written, synced or begun.
    pub fn has_failed(&self) -> bool {
        let mut used = self.used.iter();
        used.any(|(_, segment)| segment.is_retired()) || !self.spoiled.is_empty()
    }

    /// Frees the segments before the one that goes on from the change `settled`, as no log needs them; removes those of
    /// them that have failed.
    pub fn free_settled(&mut self, settled: u64, dir: &OwnedFd) {
        let later = self.used.iter().skip(1);
        let count = later.take_while(|(live, _)| live.first <= settled).count();
        let needless = self.used.drain(..count).map(|(_, segment)| segment);
        for segment in needless.chain(self.spoiled.drain(..)) {
            if !segment.is_retired() {
                self.free.push(segment);
                continue;
            }
            self.count -= 1;
            if let Err(errno) = segment.remove(dir) {
                tracing::warn!(error = %errno, "a segment of the journal that is used no more stays");
            }
        }
    }
}
