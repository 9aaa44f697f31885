//! A value that has been received whole and waits to be published: in memory, or in a temporary file.

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::folder::Folder;
use super::super::temp_file::{Target, TempFile};
use super::super::writer::{Durability, Writer};
use crate::transfer::Share;
use crate::value::{Error, Version};

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
    /// The bytes of a small value that go to the journal: then its file is not synced by itself.
    journaled: Option<Vec<Bytes>>,
}

impl NewValue {
    /// Its length in bytes.
    pub(in crate::store) fn len(&self) -> u64 {
        match self {
            Self::Memory(_, details) | Self::TempFile(_, details) => details.len,
            Self::Sealed(sealed) => sealed.details.len,
        }
    }

    /// The value, on the disk already where that is promised and the journal does not do it: the syncs of concurrent writers
    /// then run, and are committed, together.
    pub(in crate::store) async fn secured(self, writer: &Arc<Writer>) -> Result<Self, Error> {
        if writer.durability() != Durability::Disk || self.is_journaled(writer) {
            return Ok(self);
        }
        let job = {
            let writer = Arc::clone(writer);
            move || {
                let _taking = match &self {
                    Self::Memory(_, details) => Some(writer.take_space(details.len)?),
                    _ => None,
                };
                let sealed = self.seal(&writer, Target::Absent)?;
                writer.sync_value(&sealed.file)?;
                Ok(Self::Sealed(sealed))
            }
        };
        writer.disk().spawn(job).await
    }

    /// Whether its bytes go to the journal.
    pub(in crate::store) fn is_journaled(&self, writer: &Writer) -> bool {
        match self {
            Self::Memory(..) => writer.is_journaled(),
            Self::TempFile(..) => false,
            Self::Sealed(sealed) => sealed.journaled.is_some(),
        }
    }

    /// What the journal is to hold of it: its attributes and bytes, where they go there.
    pub(in crate::store) fn in_memory(&self) -> Option<(&Attributes, &[Bytes])> {
        match self {
            Self::Memory(runs, details) => Some((&details.attributes, runs)),
            Self::Sealed(sealed) => {
                let runs = sealed.journaled.as_deref()?;
                Some((&sealed.details.attributes, runs))
            }
            Self::TempFile(..) => None,
        }
    }

    /// The version that it is to be published with, later than `current`. Blocks.
    pub(in crate::store) fn version_after(
        &mut self,
        writer: &Writer,
        current: Option<Version>,
    ) -> Result<Version, Error> {
        let Self::Sealed(sealed) = self else {
            return writer.next_version(current);
        };
        if let Some(current) = current {
            sealed.advance(writer, current)?;
        }
        Ok(sealed.version)
    }

    /// The value in a file that has its version; a small one is written now, for this `target`. Blocks.
    pub(in crate::store) fn seal(
        self,
        writer: &Writer,
        target: Target,
    ) -> Result<SealedValue, Error> {
        match self {
            Self::Sealed(sealed) => Ok(sealed),
            value => {
                let version = writer.next_version(None)?;
                value.seal_as(writer, target, version)
            }
        }
    }

    /// As [`Self::seal`], with this version, unless it has one.
    pub(in crate::store) fn seal_as(
        self,
        writer: &Writer,
        target: Target,
        version: Version,
    ) -> Result<SealedValue, Error> {
        let (file, details, journaled) = match self {
            Self::Memory(runs, details) => {
                let file = TempFile::create_small(writer.temp_dir(), &runs, target)?;
                (file, details, writer.is_journaled().then_some(runs))
            }
            Self::TempFile(file, details) => (file, details, None),
            Self::Sealed(sealed) => return Ok(sealed),
        };
        file.seal(&details.attributes, version)?;
        Ok(SealedValue {
            file,
            version,
            details,
            journaled,
        })
    }
}

#[cfg(test)]
impl NewValue {
    /// A value without bytes that says that it has `len`.
    pub(in crate::store) fn of_length(len: u64) -> Self {
        use crate::transfer::{Reservation, StagingBounds, StagingQuota};
        let quota = StagingQuota::new(StagingBounds::default());
        let reservation = Reservation::new(&quota, None);
        let details = Details {
            len,
            attributes: Attributes::default(),
            _reservation: Share::Own(reservation),
        };
        Self::Memory(Vec::new(), details)
    }
}

impl SealedValue {
    /// Makes its version later than `current`. Blocks.
    pub(in crate::store) fn advance(
        &mut self,
        writer: &Writer,
        current: Version,
    ) -> Result<(), Error> {
        if current < self.version {
            return Ok(());
        }
        self.version = writer.next_version(Some(current))?;
        self.file.seal(&self.details.attributes, self.version)?;
        self.sync(writer)
    }

    /// Has it on the disk, where that is promised and the journal does not do it.
    fn sync(&self, writer: &Writer) -> Result<(), Error> {
        if writer.durability() == Durability::Disk && self.journaled.is_none() {
            writer.sync_value(&self.file)?;
        }
        Ok(())
    }

    /// Gives it the group and the rights that it is to have in `folder`, in place of a value of the mode `replaced`. Blocks.
    pub(in crate::store) fn inherit(
        &self,
        writer: &Writer,
        folder: &Folder<'_>,
        replaced: Option<Mode>,
    ) -> Result<(), Error> {
        if self.file.inherit(folder, replaced)? {
            self.sync(writer)?;
        }
        Ok(())
    }

    /// Gives it the name `to` in `folder`; `EXIST` when something has it.
    pub(in crate::store) fn link(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.link(folder, to)
    }

    /// Gives it the name `to` in `folder` in place of the file that has it.
    pub(in crate::store) fn replace(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        self.file.replace(folder, to, self.journaled.is_some())
    }
}
