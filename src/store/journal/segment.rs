//! A segment of the journal: a file that is written with zeros once, and then again and again with frames.
//!
//! Only a file whose blocks were written before is synced without a commit of the file system's own journal, which takes
//! three times as long: so a segment never grows or shrinks, and is recycled.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;
use super::format::{BLOCK, Head, Record};

/// What is written with zeros and synced at once, in bytes: a group that is synced meanwhile waits for no more.
const STEP: usize = 4 << 20;

/// A file of the journal.
#[derive(Debug)]
pub(super) struct Segment {
    file: OwnedFd,
    /// Its name in the directory of the journal.
    index: u32,
    size: u64,
}

impl Segment {
    /// A new one of `size` bytes in `dir`, on the disk with its name. A file with that name is no longer used.
    pub(super) fn create(dir: &OwnedFd, index: u32, size: u64) -> Result<Self, Errno> {
        let name = index.to_string();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = open_beneath(dir, &name, flags, Mode::from(0o600))?;
        // Btrfs would write each frame elsewhere, for which a full disk has no room. Others know no such flag.
        if let Ok(flags) = rustix::fs::ioctl_getflags(&file) {
            let _ = rustix::fs::ioctl_setflags(&file, flags | IFlags::NOCOW);
        }
        let segment = Self { file, index, size };
        let written = segment.zero(size).and_then(|()| rustix::fs::fsync(dir));
        if written.is_err() {
            let _ = segment.remove(dir);
        }
        written.map(|()| segment)
    }

    /// One that is there.
    pub(super) fn open(dir: &OwnedFd, index: u32, flags: OFlags) -> Result<Self, Errno> {
        Self::named(dir, &index.to_string(), index, flags)
    }

    /// As [`Self::open`], in a file of another name.
    pub(super) fn named(
        dir: &OwnedFd,
        name: &str,
        index: u32,
        flags: OFlags,
    ) -> Result<Self, Errno> {
        let file = open_beneath(dir, name, flags, Mode::empty())?;
        let size = retry_on_intr(|| rustix::fs::fstat(&file))?.st_size;
        Ok(Self {
            file,
            index,
            size: u64::try_from(size).unwrap_or(0),
        })
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Removes its file.
    pub(super) fn remove(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let name = self.index.to_string();
        retry_on_intr(|| rustix::fs::unlinkat(dir, &name, AtFlags::empty()))
    }

    /// Writes all of `frame` at `offset`.
    pub(super) fn write(&self, mut frame: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !frame.is_empty() {
            let n = retry_on_intr(|| rustix::io::pwrite(&self.file, frame, offset))?;
            if n == 0 {
                return Err(Errno::IO);
            }
            frame = &frame[n..];
            offset += n as u64;
        }
        Ok(())
    }

    /// Puts what was written on the disk.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        rustix::fs::fdatasync(&self.file)
    }

    /// The frame at `offset`, if there is a whole one.
    pub(super) fn read(&self, offset: u64) -> Result<Option<(Head, Vec<Record>)>, Errno> {
        let mut block = [0; BLOCK];
        self.fill(offset, &mut block)?;
        let Some(head) = Head::parse(&block) else {
            return Ok(None);
        };
        let mut frame = vec![0; head.size()];
        let filled = self.fill(offset, &mut frame)?;
        frame.truncate(filled);
        let records = head.read(Bytes::from(frame));
        Ok(records.map(|records| (head, records)))
    }

    /// The whole frames of `journal`, wherever they lie: each with its offset.
    pub(super) fn frames(&self, journal: u128) -> Result<Vec<(u64, Head)>, Errno> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.size {
            let frame = self.read(at)?.filter(|(head, _)| head.journal == journal);
            found.extend(frame.iter().map(|(head, _)| (at, *head)));
            at += frame.map_or(BLOCK, |(head, _)| head.size()) as u64;
        }
        Ok(found)
    }

    /// Fills `buffer` with what lies at `offset`, as far as the file goes; how many bytes.
    fn fill(&self, mut offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            let n = retry_on_intr(|| rustix::io::pread(&self.file, &mut *rest, offset))?;
            if n == 0 {
                break;
            }
            filled += n;
            offset += n as u64;
        }
        Ok(filled)
    }

    fn zero(&self, size: u64) -> Result<(), Errno> {
        // So that a full disk is known before much is written.
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size))
        {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        let zeros = vec![0; STEP];
        let mut offset = 0;
        while offset < size {
            let left = usize::try_from(size - offset).unwrap_or(STEP);
            self.write(&zeros[..left.min(STEP)], offset)?;
            rustix::fs::fsync(&self.file)?;
            offset += STEP as u64;
        }
        Ok(())
    }
}

/// The names of the segments in `dir`.
pub(super) fn indices(dir: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut indices = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_str().map(str::parse::<u32>);
        indices.extend(name.ok().and_then(Result::ok));
    }
    indices.sort_unstable();
    Ok(indices)
}
