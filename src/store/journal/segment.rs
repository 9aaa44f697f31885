//! A segment of the journal: a file that is written with zeros once, and then again and again with frames.
//!
//! Only a file whose blocks were written before is synced without a commit of the file system's own journal, which takes
//! three times as long: so a segment never grows or shrinks, and is recycled.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::directory_fd::open_beneath;
use super::format::{BLOCK, Head, Record};

/// What is written with zeros and synced at once, in bytes: a group that is synced meanwhile waits for no more.
const STEP: usize = 4 << 20;

/// What a search for frames reads at once, in bytes.
const SEARCHED: usize = 1 << 20;

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
        let file = open_beneath(dir, &index.to_string(), flags, Mode::empty())?;
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
    pub(super) fn read<'b>(
        &self,
        offset: u64,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<(Head, Vec<Record<'b>>)>, Errno> {
        buffer.resize(BLOCK, 0);
        if self.fill(offset, buffer)? < BLOCK {
            return Ok(None);
        }
        let Some(head) = Head::parse(buffer) else {
            return Ok(None);
        };
        buffer.resize(head.size(), 0);
        if self.fill(offset, buffer)? < head.size() {
            return Ok(None);
        }
        Ok(head.read(buffer).map(|records| (head, records)))
    }

    /// The whole frames of `journal` that begin at `from` or behind it, wherever: each with its offset.
    pub(super) fn search(&self, journal: u128, from: u64) -> Result<Vec<(u64, Head)>, Errno> {
        let (mut found, mut blocks, mut buffer) = (Vec::new(), vec![0; SEARCHED], Vec::new());
        let mut at = from;
        loop {
            let read = self.fill(at, &mut blocks)?;
            for (i, block) in blocks[..read].chunks_exact(BLOCK).enumerate() {
                let offset = at + (i * BLOCK) as u64;
                let is_ours = Head::parse(block).is_some_and(|head| head.journal == journal);
                if is_ours && let Some((head, _)) = self.read(offset, &mut buffer)? {
                    found.push((offset, head));
                }
            }
            if read < SEARCHED {
                return Ok(found);
            }
            at += SEARCHED as u64;
        }
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
