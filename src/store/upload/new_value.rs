//! A value that has been received whole and waits to be published: in memory, or in a temporary file.

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::error::Error;
use super::super::meta::Version;
use super::super::staging_quota::Share;
use super::super::temp_file::{Target, TempFile};
use super::super::writer::{Durability, Writer};

/// A value that waits to be published.
#[derive(Debug)]
pub(in crate::store) enum NewValue {
    /// A small value. The publisher writes its file.
    Memory(Vec<Bytes>, Details),
    /// In a file that has no version yet.
    TempFile(TempFile, Details),
    /// In a file that has its version.
    Sealed(SealedValue),
}

/// What goes with the bytes of a value.
#[derive(Debug)]
pub(in crate::store) struct Details {
    pub(super) len: u64,
    pub(super) attributes: Attributes,
    /// Held until the value is published or given up.
    pub(super) _reservation: Share,
}

/// A value in a file that has its version, and is on the disk where that is promised.
#[derive(Debug)]
pub(in crate::store) struct SealedValue {
    file: TempFile,
    version: Version,
    details: Details,
}

impl NewValue {
    /// Its length in bytes.
    pub(in crate::store) fn len(&self) -> u64 {
        match self {
            Self::Memory(_, details) | Self::TempFile(_, details) => details.len,
            Self::Sealed(sealed) => sealed.details.len,
        }
    }

    /// The value, on the disk already where that is promised: the syncs of concurrent writers then run, and are committed,
    /// together.
    pub(super) async fn secured(self, writer: &Arc<Writer>) -> Result<Self, Error> {
        if writer.durability() == Durability::Os {
            return Ok(self);
        }
        let job = {
            let writer = Arc::clone(writer);
            move || self.seal(&writer, Target::Absent).map(Self::Sealed)
        };
        writer.disk().spawn(job).await
    }

    /// The value in a file that has its version; a small one is written now, for this `target`. Blocks.
    pub(in crate::store) fn seal(
        self,
        writer: &Writer,
        target: Target,
    ) -> Result<SealedValue, Error> {
        let (file, details) = match self {
            Self::Memory(runs, details) => {
                let file = TempFile::create_small(writer.temp_dir(), &runs, target)?;
                (file, details)
            }
            Self::TempFile(file, details) => (file, details),
            Self::Sealed(sealed) => return Ok(sealed),
        };
        Ok(SealedValue {
            version: writer.seal(&file, &details.attributes, None)?,
            file,
            details,
        })
    }
}

impl SealedValue {
    pub(in crate::store) fn version(&self) -> Version {
        self.version
    }

    /// Makes its version later than `current`. Blocks.
    pub(in crate::store) fn advance(
        &mut self,
        writer: &Writer,
        current: Version,
    ) -> Result<(), Error> {
        if current >= self.version {
            self.version = writer.seal(&self.file, &self.details.attributes, Some(current))?;
        }
        Ok(())
    }

    /// Gives it the name `to` in `folder`; `EXIST` when something has it.
    pub(in crate::store) fn link(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.link(folder, to)
    }

    /// Gives it the name `to` in `folder` in place of the file that has it.
    pub(in crate::store) fn replace(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.replace(folder, to)
    }
}
