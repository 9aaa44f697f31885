//! A temporary file: created, stamped with a version, then linked or renamed whole.
//!
//! It has no name at all (`O_TMPFILE`), or, where the file system lacks that or a name is needed, one in
//! `.data-server/staging`, which the next start sweeps. That of a resumable upload has a name in
//! `.data-server/uploads`.
//!
//! Promises that a file which is not published leaves nothing behind: its name in staging, if it has one, is removed
//! with it. The file of a resumable upload stays: it belongs to the holder of the claim on it.

use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FallocateFlags, Mode, UTIME_OMIT};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::{Attributes, write};
use super::directory_fd::{Folder, ValuesDir, times};
use super::inherit;
use super::publish_method::{
    PublishMethod, create_named, create_unnamed, exchange, link_named, rename, unlink_staged,
};
use super::upload_claim::Claim;
use super::value_file::ValueFile;
use crate::transfer::write_at;
use crate::value::{Error, Version};

/// Values are made with this mode; the process's umask takes away from it, as it does for `cp`.
pub const VALUE_MODE: u32 = 0o666;

/// The directories that temporary files are made in.
#[derive(Debug)]
pub struct ServerDirs {
    /// The directory of the values.
    pub values: Arc<ValuesDir>,
    /// `.data-server`, for names that are no keys.
    pub own: OwnedFd,
    /// `.data-server/staging`, for files that need a name before they have their key's.
    pub staging: OwnedFd,
    /// `.data-server/uploads`, for files that outlive the server: the resumable uploads.
    pub uploads: OwnedFd,
    /// `.data-server/parts`, for those that arrive in parts.
    pub parts: OwnedFd,
    /// How files get the names of their keys.
    pub method: PublishMethod,
    /// Whether a journaled value takes the name of another by an exchange: where a rename would flush its file.
    pub exchanges: bool,
    /// The mode of files that inherit nothing.
    pub mode: Mode,
    /// Each folder gives its group to what is made in it.
    pub gives_groups: bool,
    pub next_name: AtomicU64,
}

impl ServerDirs {
    /// A name that nothing in `staging` has.
    pub fn new_name(&self) -> String {
        self.next_name.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

/// Where a file is made, by what the name stands for that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nothing, and the name lies in the directory itself: the file is made there, and the kernel gives it group and
    /// ACL.
    Root,
    /// Nothing, as far as is known: the file is linked.
    Absent,
    /// A value: the file is renamed over it. It gets a name in staging at once, as linking it there first costs more.
    Present,
}

/// A value that is being written, under no key yet. Dropped unpublished, it leaves nothing behind.
#[derive(Debug)]
pub struct TempFile {
    pub file: Arc<ValueFile>,
    /// Its name in staging, or among the uploads, if it has one.
    name: Option<Box<str>>,
    /// True if it was made in the directory of the values itself.
    is_in_root: bool,
    dir: Arc<ServerDirs>,
    /// The claim on the resumable upload that it is the file of: a job holds it for as long as it may write to the
    /// file.
    pub claim: Option<Arc<Claim>>,
}

impl TempFile {
    /// A file in `dir`, for this `placement`, that holds the bytes of a `small` value, or none yet.
    pub fn create(
        dir: &Arc<ServerDirs>,
        placement: Placement,
        small: Option<&[Bytes]>,
    ) -> Result<Self, Error> {
        let mode = Mode::from(VALUE_MODE);
        let is_unnamed = dir.method.is_unnamed();
        let (fd, name) = match placement {
            Placement::Root if is_unnamed => (create_unnamed(&dir.values.root, mode), None),
            Placement::Absent if is_unnamed => (create_unnamed(&dir.staging, mode), None),
            _ => {
                let name = dir.new_name();
                (create_named(&dir.staging, &name, mode), Some(name))
            }
        };
        let fd = fd.map_err(Error::errno_while("create"))?;
        let created = Self {
            file: Arc::new(ValueFile::new(fd, dir.values.disk.clone(), small.is_some())),
            is_in_root: placement == Placement::Root && name.is_none(),
            name: name.map(String::into_boxed_str),
            dir: Arc::clone(dir),
            claim: None,
        };
        // After a failure its name goes with it.
        write_at(&*created.file, 0, small.unwrap_or_default())?;
        Ok(created)
    }

    /// The `file` of the resumable upload that `claim` is on.
    pub fn claimed(dir: &Arc<ServerDirs>, file: Arc<ValueFile>, claim: Arc<Claim>) -> Self {
        Self {
            file,
            name: Some(claim.entry.id.to_string().into_boxed_str()),
            is_in_root: false,
            dir: Arc::clone(dir),
            claim: Some(claim),
        }
    }

    /// The directory of its name, if it has a name.
    fn home(&self) -> &OwnedFd {
        if self.claim.is_some() {
            &self.dir.uploads
        } else {
            &self.dir.staging
        }
    }

    /// It has the name of its key.
    fn published(&mut self) {
        self.name = None;
        if let Some(claim) = &self.claim {
            claim.published();
        }
    }

    /// Gives the file its version and its attributes. Blocks.
    pub fn seal(&self, attributes: &Attributes, version: Version) -> Result<(), Error> {
        self.stamp(version)
            .map_err(Error::errno_while("stamp the version"))?;
        write(attributes, &*self.file, version)
    }

    /// Gives the file the group, ACL and mode of a file made in `folder`, narrowed to the mode `replaced` of the value
    /// that it replaces; true if that changed the file. To be called before the file is published. Blocks.
    pub fn inherit(&self, folder: &Folder<'_>, replaced: Option<Mode>) -> Result<bool, Error> {
        if self.is_in_root && replaced.is_none() && matches!(folder, Folder::Root(_)) {
            return Ok(false);
        }
        let inherit = || {
            let (is_changed, mode) =
                inherit::of_folder(&*self.file, folder, self.dir.gives_groups)?;
            let mode = mode.unwrap_or(self.dir.mode);
            let is_narrowed =
                replaced.map(|replaced| inherit::of_value(&*self.file, mode, replaced));
            Ok(is_narrowed.transpose()?.unwrap_or(false) || is_changed)
        };
        inherit().map_err(Error::errno_while("set the group and the rights"))
    }

    /// Stamps the version into the file: its modification time. A file system cuts a time that it cannot tell to the
    /// next that it can, and says nothing; all that have nanoseconds can tell those of 32 bits.
    fn stamp(&self, version: Version) -> Result<(), Errno> {
        let mut times = times(version);
        if self.dir.values.is_local() {
            // Both times are an event of its folder, also of a file without a name, and the index would read it.
            times.last_access.tv_nsec = UTIME_OMIT;
        }
        retry_on_intr(|| rustix::fs::futimens(&*self.file, &times))?;
        if is_far(version) {
            let stat = retry_on_intr(|| rustix::fs::fstat(&*self.file))?;
            if Version::of(&stat) != version {
                return Err(Errno::OVERFLOW);
            }
        }
        Ok(())
    }

    /// Whether a file in `dir` can have this version. Blocks.
    pub fn can_have(dir: &Arc<ServerDirs>, version: Version) -> Result<bool, Error> {
        Ok(!is_far(version)
            || Self::create(dir, Placement::Absent, None)?.stamp(version) != Err(Errno::OVERFLOW))
    }

    /// Gives the file the name `to` in `folder`; `EXIST` when something has it.
    pub fn link(&mut self, folder: impl AsFd, to: &str) -> Result<(), Errno> {
        match &self.name {
            None => self.dir.method.link_unnamed(&*self.file, folder, to)?,
            Some(name) => link_named(self.home(), name, folder, to)?,
        }
        self.published();
        Ok(())
    }

    /// Gives the file the name `to` in `folder` in place of the file that has it. With `is_journaled` it need not be on
    /// the disk before that name is.
    pub fn replace(
        &mut self,
        folder: impl AsFd,
        to: &str,
        is_journaled: bool,
    ) -> Result<(), Errno> {
        if self.name.is_none() {
            let (name, method) = (self.dir.new_name(), self.dir.method);
            method.link_unnamed(&*self.file, &self.dir.staging, &name)?;
            self.name = Some(name.into_boxed_str());
        }
        let name = self.name.as_deref().unwrap_or_default();
        let exchanges = is_journaled && self.dir.exchanges;
        let replace = if exchanges { exchange } else { rename };
        replace(self.home(), name, folder.as_fd(), to)?;
        self.published();
        Ok(())
    }

    /// Publishes the file as `name`, which is no key, in the server's own directory, and removes it again.
    pub fn rehearse(mut self, name: &str) -> Result<(), Error> {
        let dir = Arc::clone(&self.dir);
        let unlink = || rustix::fs::unlinkat(&dir.own, name, AtFlags::empty());
        // A server that was killed may have left it.
        let _ = unlink();
        let published = self.link(&dir.own, name);
        published.map_err(Error::errno_while("publish"))?;
        retry_on_intr(unlink).map_err(Error::errno_while("unlink"))
    }
}

/// Not all file systems can tell its time.
fn is_far(version: Version) -> bool {
    version.timespec().tv_sec > i64::from(i32::MAX)
}

/// The names in `dir`, which is the server's own.
pub fn names(dir: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Has the file system set the bytes of `range` aside for `file`.
pub fn allocate(file: impl AsFd, how: FallocateFlags, range: Range<u64>) -> Result<(), Errno> {
    let len = range.end - range.start;
    match retry_on_intr(|| rustix::fs::fallocate(&file, how, range.start, len)) {
        // This file system makes no such promise: the writes will tell.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        allocated => allocated,
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let Some(name) = self.name.take().filter(|_| self.claim.is_none()) else {
            return;
        };
        let dir = Arc::clone(&self.dir);
        let unlink = move || unlink_staged(&dir.staging, &name);
        self.file.disk.spawn_detached(unlink);
    }
}
