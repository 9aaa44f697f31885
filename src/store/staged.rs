//! A file on its way to a name: stamped with a version, then linked or renamed whole.
//!
//! Promises that one which is not published leaves nothing behind: what name it has is removed with it.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::Attributes;
use super::budget::Share;
use super::error::Error;
use super::key::Key;
use super::object::{ValueFile, Version};
use super::staging::Staging;

/// A value that is being written, under no key yet. Dropped unpublished, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Staged {
    file: Arc<ValueFile>,
    name: Option<String>,
    attributes: Attributes,
    /// Held until the value is published, or given up.
    share: Option<Share>,
    staging: Arc<Staging>,
}

impl Staged {
    /// `file`, which has this name among the staged ones, if it has any.
    pub(super) fn new(file: ValueFile, name: Option<String>, staging: Arc<Staging>) -> Self {
        Self {
            file: Arc::new(file),
            name,
            attributes: Attributes::default(),
            share: None,
            staging,
        }
    }

    pub(super) fn file(&self) -> &Arc<ValueFile> {
        &self.file
    }

    /// What to leave beside the value.
    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// All of the value is in: what to leave beside it when it is sealed, and its share of what may be staged.
    pub(super) fn complete(&mut self, attributes: Attributes, share: Share) {
        self.attributes = attributes;
        self.share = Some(share);
    }

    /// Stamps the version into the file: its modification time.
    pub(super) fn stamp(&self, version: Version) -> Result<(), Errno> {
        let omit = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        };
        let times = Timestamps {
            last_access: omit,
            last_modification: version.timespec(),
        };
        retry_on_intr(|| rustix::fs::futimens(&*self.file, &times))
    }

    /// Gives the file the name `key`; `EXIST` when something has it.
    pub(super) fn link(&mut self, key: &Key<'_>) -> Result<(), Errno> {
        let (root, dir) = (self.staging.names().root(), self.staging.dir());
        match &self.name {
            None => self.link_unnamed(root, key.as_str()),
            Some(name) => {
                let flags = RenameFlags::NOREPLACE;
                retry_on_intr(|| {
                    rustix::fs::renameat_with(dir, name.as_str(), root, key.as_str(), flags)
                })?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// Gives the file the name `key` in place of whatever file has it.
    pub(super) fn replace(&mut self, key: &Key<'_>) -> Result<(), Errno> {
        if self.name.is_none() {
            let name = self.staging.new_name();
            self.link_unnamed(self.staging.dir(), &name)?;
            self.name = Some(name);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let (root, dir) = (self.staging.names().root(), self.staging.dir());
        retry_on_intr(|| rustix::fs::renameat(dir, name, root, key.as_str()))?;
        self.name = None;
        Ok(())
    }

    fn link_unnamed(&self, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        link_unnamed(
            &self.file,
            dir,
            name,
            self.staging.features().link_empty_path,
        )
    }
}

/// Links the unnamed `file` as `dir/name`.
pub(super) fn link_unnamed(
    file: impl AsFd,
    dir: impl AsFd,
    name: &str,
    empty_path: bool,
) -> Result<(), Errno> {
    if empty_path {
        return retry_on_intr(|| rustix::fs::linkat(&file, "", &dir, name, AtFlags::EMPTY_PATH));
    }
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    retry_on_intr(|| rustix::fs::linkat(CWD, &path, &dir, name, AtFlags::SYMLINK_FOLLOW))
}

impl Drop for Staged {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let staging = Arc::clone(&self.staging);
        self.staging.names().disk().later(move || {
            let unlink = || rustix::fs::unlinkat(staging.dir(), name.as_str(), AtFlags::empty());
            if let Err(errno) = retry_on_intr(unlink) {
                tracing::warn!(%name, error = %errno, "a staged file stays until the next start");
            }
        });
    }
}

/// Writes all of `pieces` to `file` from `offset` on.
pub(super) fn write_at(file: &ValueFile, mut offset: u64, pieces: &[Bytes]) -> Result<(), Error> {
    let mut slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let batch = rest.len().min(MAX_SLICES);
        match rustix::io::pwritev(file, &rest[..batch], offset) {
            Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("write", errno)),
        }
    }
    Ok(())
}

/// `IOV_MAX` of Linux: what one pwritev takes.
const MAX_SLICES: usize = 1024;
