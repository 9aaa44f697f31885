//! Records whose keys could not be written, kept for the next start: the file `kept` in the directory of the journal.
//!
//! It holds frames as a segment does, one behind the other, and is written whole. While a key has a record here the server changes
//! nothing of it, so that the record stays the last word.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::error::Error;
use super::format::{Change, FrameBuilder, Head};
use super::log::Frame;
use super::segment::Segment;

pub(super) const NAME: &str = "kept";
const NEW: &str = "kept.new";

/// What is kept from now on: whole frames, and one being gathered.
#[derive(Debug)]
pub(super) struct Kept {
    journal: u128,
    frames: Vec<u8>,
    last: FrameBuilder,
    keys: HashSet<Box<str>>,
}

/// The frames of `journal` that `dir` has, if it has any; whether they are all of the file.
pub(super) fn read(dir: &OwnedFd, journal: u128) -> Result<(Vec<Frame>, bool), Errno> {
    let segment = match Segment::named(dir, NAME, 0, OFlags::RDONLY) {
        Err(Errno::NOENT) => return Ok((Vec::new(), true)),
        segment => Arc::new(segment?),
    };
    let frames = segment.frames(journal)?;
    let size: usize = frames.iter().map(|(_, head)| head.size()).sum();
    let frame = |(offset, head)| Frame {
        segment: Arc::clone(&segment),
        offset,
        head,
        is_behind: false,
    };
    let frames = frames.into_iter().map(frame).collect();
    Ok((frames, size as u64 == segment.size()))
}

impl Kept {
    pub(super) fn new(journal: u128) -> Self {
        Self {
            journal,
            frames: Vec::new(),
            last: FrameBuilder::new(0),
            keys: HashSet::new(),
        }
    }

    /// Keeps this change, which `error` kept from being made.
    pub(super) fn add(&mut self, change: &Change, error: &Error) -> Result<(), Error> {
        let (key, small) = (&change.key, change.small.as_ref());
        tracing::error!(%key, %error, "cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
        let small = small.map(|(attributes, value)| (attributes, std::slice::from_ref(value)));
        self.last.change(key, change.base, change.result, small);
        self.keys.insert(key.as_str().into());
        if self.last.is_full() {
            self.close_frame()?;
        }
        Ok(())
    }

    /// Writes what is kept to `dir`, durably; the keys.
    pub(super) fn write(mut self, dir: &OwnedFd) -> Result<HashSet<Box<str>>, Error> {
        if !self.last.is_empty() {
            self.close_frame()?;
        }
        let write = || {
            if self.frames.is_empty() {
                return match rustix::fs::unlinkat(dir, NAME, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(errno) => Err(errno.into()),
                };
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            let mut file = File::from(open_beneath(dir, NEW, flags, Mode::from(0o600))?);
            file.write_all(&self.frames)?;
            file.sync_all()?;
            rustix::fs::renameat(dir, NEW, dir, NAME)?;
            rustix::fs::fsync(dir)?;
            Ok::<_, std::io::Error>(())
        };
        write().map_err(Error::failed("keep records of the journal"))?;
        Ok(self.keys)
    }

    fn close_frame(&mut self) -> Result<(), Error> {
        let frame = std::mem::replace(&mut self.last, FrameBuilder::new(0));
        let head = Head::new(self.journal, 0, 1);
        self.frames.extend(frame.finish(head)?);
        Ok(())
    }
}
