//! Records whose keys could not be written, kept for the next start: the file `kept` in the directory of the journal.
//!
//! It holds frames as a segment does, one behind the other, and is written whole. While a key has a record here the server changes
//! nothing of it, so that the record stays the last word.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::error::Error;
use super::format::{BLOCK, Change, FrameBuilder, Head, Operation, Record};

const NAME: &str = "kept";
const NEW: &str = "kept.new";

/// See the module.
#[derive(Debug)]
pub(super) struct Kept {
    journal: u128,
    /// What is kept from now on: whole frames, and one being gathered.
    frames: Vec<u8>,
    last: FrameBuilder,
    keys: HashSet<Box<str>>,
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

    /// The frames that `dir` has, if it has any.
    pub(super) fn read(dir: &OwnedFd) -> std::io::Result<Vec<u8>> {
        let mut frames = Vec::new();
        match open_beneath(dir, NAME, OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => {}
            file => drop(File::from(file?).read_to_end(&mut frames)?),
        }
        Ok(frames)
    }

    /// Shows each record of `frames`; false where one is damaged.
    pub(super) fn each<E>(
        &self,
        mut frames: &[u8],
        mut show: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        while !frames.is_empty() {
            let head = Head::parse(frames).filter(|head| head.journal == self.journal);
            let Some(records) = head.and_then(|head| head.read(frames)) else {
                return Ok(false);
            };
            records.into_iter().try_for_each(&mut show)?;
            let size = head.map_or(BLOCK, |head| head.size());
            frames = frames.get(size..).unwrap_or_default();
        }
        Ok(true)
    }

    /// Keeps this change, which `error` kept from being made.
    pub(super) fn add(&mut self, change: &Change<'_>, error: &Error) -> Result<(), Error> {
        tracing::error!(key = change.key, %error, "cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
        let (key, base) = (change.key, change.base);
        match &change.operation {
            Operation::Put(version, attributes, value) => {
                let value = [Bytes::copy_from_slice(value)];
                self.last.put(key, base, *version, attributes, &value)
            }
            Operation::Large(version) => self.last.large(key, base, *version),
            Operation::Delete => self.last.delete(key, base),
        };
        self.keys.insert(key.into());
        if self.last.is_full() {
            self.close_frame()?;
        }
        Ok(())
    }

    /// Writes what is kept to `dir`, durably; the keys.
    pub(super) fn write(mut self, dir: &OwnedFd) -> Result<HashSet<Box<str>>, Error> {
        self.close_frame()?;
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
        if !frame.is_empty() {
            let head = Head::new(self.journal, 0, 1);
            self.frames.extend(frame.finish(head)?);
        }
        Ok(())
    }
}
