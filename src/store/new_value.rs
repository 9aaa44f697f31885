//! A value that waits to be published: in memory, in a file, in a file that has its version; or under another key, from
//! which it moves.
//!
//! A large value lies in a temporary file since it was received. A small one is in memory; the publisher writes its
//! file. What is sealed has its version and its attributes, and is on the disk where that is promised, unless the
//! journal has it.

use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Mode;

use super::attributes::Attributes;
use super::bounds::{Known, Staging};
use super::directory_fd::Folder;
use super::temp_file::{Placement, TempFile};
use super::write_context::{Durability, WriteContext};
use crate::transfer::ReservationHandle;
use crate::value::{Error, Key, Version};

/// The key that a value moves from, and the version that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub key: Key<'static>,
    pub version: Version,
}

/// A value that moves from one key to another: with its file, in which it is on the disk already unless the journal has
/// it.
#[derive(Debug)]
pub struct MovedValue {
    pub source: Source,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes of the disk that its file takes.
    pub taken: u64,
    pub attributes: Attributes,
    /// Its bytes, where the journal is to hold them.
    pub small: Option<Vec<Bytes>>,
}

/// A value that waits to be published. Dropped, it leaves nothing behind.
#[derive(Debug, Default)]
pub struct NewValue {
    /// Its length in bytes.
    pub len: u64,
    pub attributes: Attributes,
    /// The bytes of a small value.
    pub small: Option<Vec<Bytes>>,
    /// True if the journal has the bytes: then the file is not synced by itself.
    pub is_journaled: bool,
    /// Its temporary file; `None` while it is in memory alone.
    pub file: Option<TempFile>,
    /// The version that its file has.
    pub sealed: Option<Version>,
    /// Held until the value is published or given up.
    pub reservation: Option<ReservationHandle>,
    /// Counts for the value until it is admitted.
    pub staging: Option<Arc<Staging>>,
}

impl NewValue {
    /// Puts the value on the disk. Blocks.
    pub fn secure(&mut self, writer: &WriteContext) -> Result<(), Error> {
        let needed = if self.is_in_memory() { self.len } else { 0 };
        let _taking = writer.take_space(needed)?;
        let version = writer.next_version(None)?;
        self.seal(writer, Placement::Absent, version)?;
        self.sync(writer)
    }

    /// True if its file is yet to be written.
    pub fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// The attributes and bytes that the journal is to hold, where they go there.
    pub fn journaled(&self) -> Option<(&Attributes, &[Bytes])> {
        let bytes = self.small.as_deref().filter(|_| self.is_journaled)?;
        Some((&self.attributes, bytes))
    }

    /// The version to publish the value with, in place of `current`. A version that it already has is kept if it is
    /// later than `current`, and else replaced: dates do not go back. Blocks.
    pub fn version_after(
        &mut self,
        writer: &WriteContext,
        current: Option<Version>,
    ) -> Result<Version, Error> {
        match self.sealed {
            Some(version) if current.is_none_or(|current| current < version) => Ok(version),
            Some(_) => {
                let version = writer.next_version(current)?;
                self.restamp(version)?;
                self.sync(writer)?;
                Ok(version)
            }
            None => writer.next_version(current),
        }
    }

    /// Gives it a file with this version, unless it has one; the file of a small value is written now, for this
    /// `placement`. Blocks.
    pub fn seal(
        &mut self,
        writer: &WriteContext,
        placement: Placement,
        version: Version,
    ) -> Result<(), Error> {
        if self.sealed.is_some() {
            return Ok(());
        }
        if let (None, Some(bytes)) = (&self.file, &self.small) {
            self.file = Some(TempFile::create(&writer.temp_dir, placement, Some(bytes))?);
        }
        self.restamp(version)
    }

    fn restamp(&mut self, version: Version) -> Result<(), Error> {
        let file = self.file.as_ref().ok_or(Error::Truncated)?;
        file.seal(&self.attributes, version)?;
        self.sealed = Some(version);
        Ok(())
    }

    /// Puts its file on the disk, where that is promised and the journal does not do it.
    fn sync(&mut self, writer: &WriteContext) -> Result<(), Error> {
        if writer.durability == Durability::Disk && !self.is_journaled {
            // Not fdatasync: the version is metadata. A sync that failed is final: the kernel has forgotten what it
            // could not write, and a second try would prove nothing.
            let synced = writer.sync(&*self.file_mut()?.file);
            synced.map_err(Error::unsynced("sync the value"))?;
        }
        Ok(())
    }

    /// What its file is for the account, in a directory on the device `root`; `None` where that cannot be told. Blocks.
    pub fn known(&mut self, root: Option<u64>) -> Option<Known> {
        let (end, len) = (self.attributes.end(), self.len);
        let stat = rustix::fs::fstat(&*self.file_mut().ok()?.file).ok()?;
        let known = Known::new(&stat, end, root);
        // The file system may choose the blocks later.
        Some(Known {
            bytes: known.bytes.max(len),
            ..known
        })
    }

    /// Its file, once it has one.
    pub fn file_mut(&mut self) -> Result<&mut TempFile, Error> {
        self.file.as_mut().ok_or(Error::Truncated)
    }

    /// Gives it the group and the rights that it is to have in `folder`, in place of a value of the mode `replaced`.
    /// Blocks.
    pub fn inherit(
        &mut self,
        writer: &WriteContext,
        folder: &Folder<'_>,
        replaced: Option<Mode>,
    ) -> Result<(), Error> {
        if self.file_mut()?.inherit(folder, replaced)? {
            self.sync(writer)?;
        }
        Ok(())
    }
}
