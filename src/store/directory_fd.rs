//! The directory of the values by its descriptor: every system call that opens, looks up or removes a value in it
//! ([`super::temp_file`] adds them), and the one walk from a key to its folder.
//!
//! Promises that nothing outside the directory is ever reached and nothing but a regular file is ever opened: each open
//! goes through openat2 with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, on a descriptor held since the start, and each
//! other call names one entry of a directory that was opened so. Calls may block, except an open with
//! [`Blocking::Never`]. The folders of a key are made level by level, and removed by `rmdir`, which refuses one that is
//! not empty. Those that were made for a value go with the last one in them: they have a [mark](is_implicit). Others
//! stay.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_NOW,
};
use rustix::io::{Errno, retry_on_intr};

use super::fs_type::FsType;
use super::implicit::{is_implicit, mark_implicit};
use super::location::Location;
use super::may_have::{DATED, EXPIRING, MayHave};
use super::unserved::Unserved;
use super::value_file::{FileStamp, Opened, ValueFile};
use crate::transfer::BlockingPool;
use crate::value::{Error, Key, Meta, Version, is_directory, is_regular};

const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The bits of a mode that say who may do what.
const RIGHTS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// How often a call is made whose name is stale: a value that is replaced without rest is so a few times in a row.
const STALE_TRIES: u32 = 16;

/// Opens `name` beneath `dir` and nowhere else, following no link.
pub fn open_beneath(
    dir: impl AsFd,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    retry_if_stale(|| rustix::fs::openat2(&dir, name, flags, mode, CONFINED))
}

/// Makes `call` again while a signal interrupts it, and a few times while the name that it uses is stale: NFS and FUSE
/// answer ESTALE where a file is replaced between the look at its name and the use of it.
fn retry_if_stale<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..STALE_TRIES {
        match retry_on_intr(&mut call) {
            Err(Errno::STALE) => {}
            result => return result,
        }
    }
    retry_on_intr(call)
}

/// How a file is opened to be read: what has its name may be a pipe or a terminal by now.
pub const OPENED: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The choice whether a call may wait for the device.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {
    /// It answers from the kernel's caches, or fails with `AGAIN`.
    Never,
    /// It may wait: not for reactors.
    Allowed,
}

/// The directory of the values.
#[derive(Debug)]
pub struct ValuesDir {
    pub root: OwnedFd,
    /// Where the directory was opened.
    pub location: Location,
    /// The threads that may wait for its device.
    pub disk: BlockingPool,
    /// The file system of the root: its device and its type.
    file_system: Option<(u64, FsType)>,
    /// What is not served, as far as the log has it.
    pub unserved: Unserved,
    /// Whether values may have an end.
    pub ends: MayHave,
    /// Whether values may have a date.
    pub dates: MayHave,
}

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum NameKind {
    Absent,
    /// A value, whose file has this mode.
    Value(Meta, Mode),
    /// A directory: keys may lie below it.
    Folder,
    /// A link, device, socket or pipe: not ours.
    Other,
}

impl ValuesDir {
    pub fn new(root: OwnedFd, location: Location, disk: BlockingPool) -> Self {
        let device = rustix::fs::fstat(&root).map(|stat| stat.st_dev);
        let file_system = device.and_then(|device| Ok((device, FsType::of(&root)?)));
        Self {
            ends: MayHave::of(&root, EXPIRING),
            dates: MayHave::of(&root, DATED),
            root,
            location,
            disk,
            file_system: file_system.ok(),
            unserved: Unserved::default(),
        }
    }

    /// The device of the root, where it is known.
    pub fn device(&self) -> Option<u64> {
        self.file_system.map(|(device, _)| device)
    }

    /// True if the root lies on a local file system, and not on an overlay of some.
    pub fn is_local(&self) -> bool {
        self.file_system.is_some_and(|(_, kind)| kind.shows_removal)
    }

    /// Opens the value of `key` for reading; `None` when there is none.
    ///
    /// With [`Blocking::Never`], fails with `AGAIN` where the device would be needed, or the file lies on another file
    /// system than the root. The first open has no effect on what the name stands for (`O_PATH`), so that a device or a
    /// pipe put there is not even opened.
    pub fn open(&self, key: &Key<'_>, blocking: Blocking) -> Result<Option<Opened>, Errno> {
        let open = || match self.find(key.as_str(), OFlags::PATH, blocking)? {
            Some(_regular) => self.find(key.as_str(), OPENED, blocking),
            None => Ok(None),
        };
        let Some((fd, stat)) = retry_if_stale(open)? else {
            return Ok(None);
        };
        let fs_type = match (self.file_system, blocking) {
            (Some((device, fs_type)), _) if device == stat.st_dev => fs_type,
            (_, Blocking::Never) => return Err(Errno::AGAIN),
            (_, Blocking::Allowed) => FsType::of(&fd)?,
        };
        Ok(Some(Opened { fd, stat, fs_type }))
    }

    /// Opens what has the name `path`. Of a name that is not there the kernel's caches know nothing on tmpfs, but no
    /// look there waits.
    fn open_at(&self, path: &str, flags: OFlags, blocking: Blocking) -> Result<OwnedFd, Errno> {
        let is_memory = self.file_system.is_some_and(|(_, it)| it.is_memory);
        let how = match blocking {
            Blocking::Never if is_memory => ResolveFlags::NO_XDEV,
            Blocking::Never => ResolveFlags::CACHED,
            Blocking::Allowed => ResolveFlags::empty(),
        };
        let (flags, how) = (flags | OFlags::CLOEXEC, CONFINED | how);
        let open = || rustix::fs::openat2(&self.root, path, flags, Mode::empty(), how);
        match (retry_on_intr(open), blocking) {
            // It lies on another file system.
            (Err(Errno::XDEV), Blocking::Never) => Err(Errno::AGAIN),
            (opened, _) => opened,
        }
    }

    /// Opens the regular file at `path` with these `flags`; `None` when there is none.
    fn find(
        &self,
        path: &str,
        flags: OFlags,
        blocking: Blocking,
    ) -> Result<Option<(OwnedFd, Stat)>, Errno> {
        match self.open_at(path, flags, blocking) {
            Ok(fd) => retry_on_intr(|| rustix::fs::fstat(&fd))
                .map(|stat| is_regular(&stat).then_some((fd, stat))),
            Err(Errno::LOOP) => {
                self.unserved.link(path);
                Ok(None)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The description of the file at `path`, which takes no right to read the file; `None` when there is none. With
    /// [`Blocking::Never`], fails with `AGAIN` where the device would be needed.
    pub fn stat(&self, path: &str, blocking: Blocking) -> Result<Option<Stat>, Errno> {
        let found = retry_if_stale(|| self.find(path, OFlags::PATH, blocking))?;
        Ok(found.map(|(_, stat)| stat))
    }

    /// The stamp of the file at `path` now, without waiting for the device: `None` where it cannot be told, or there is
    /// none.
    pub fn stamp(&self, path: &str) -> Option<FileStamp> {
        let stat = self.stat(path, Blocking::Never).ok()??;
        Some(FileStamp::of(&stat))
    }

    /// Keeps the file under `key` alive without opening it, so that removing its name does not free its blocks at once.
    pub fn pin(&self, key: &Key<'_>) -> Option<ValueFile> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let fd = open_beneath(&self.root, key.as_str(), flags, Mode::empty());
        Some(ValueFile::new(fd.ok()?, self.disk.clone(), false))
    }
}

/// The entry under `name` in `folder` now.
pub fn look_up(folder: impl AsFd, name: &str) -> Result<NameKind, Errno> {
    match stat(folder, name) {
        Ok(stat) => Ok(kind(&stat)),
        Err(Errno::NOENT) => Ok(NameKind::Absent),
        Err(errno) => Err(errno),
    }
}

/// The description of `name` in `folder` now.
pub fn stat(folder: impl AsFd, name: &str) -> Result<Stat, Errno> {
    retry_if_stale(|| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// The kind of thing that `stat` describes; a value is without its end.
pub fn kind(stat: &Stat) -> NameKind {
    if is_regular(stat) {
        let mode = Mode::from_raw_mode(stat.st_mode) & RIGHTS;
        NameKind::Value(Meta::of(stat), mode)
    } else if is_directory(stat) {
        NameKind::Folder
    } else {
        NameKind::Other
    }
}

/// The times that a file with this version gets. Both are set: bindfs, and other programs of FUSE, report success for
/// one alone and set none.
pub fn times(version: Version) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        last_modification: version.timespec(),
    }
}

/// Gives the file `name` of `folder` this version, and makes sure that it has it; `NOENT` where another program has put
/// another file there meanwhile.
pub fn stamp(folder: impl AsFd, name: &str, version: Version) -> Result<(), Errno> {
    let times = times(version);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let file = stat(&folder, name)?.st_ino;
    retry_if_stale(|| rustix::fs::utimensat(&folder, name, &times, flags))?;
    let found = stat(&folder, name)?;
    match kind(&found) {
        NameKind::Value(meta, _) if meta.version == version => Ok(()),
        NameKind::Value(..) if found.st_ino == file => Err(Errno::OVERFLOW),
        _ => Err(Errno::NOENT),
    }
}

/// Removes `name` from `folder`.
pub fn unlink(folder: impl AsFd, name: &str) -> Result<(), Errno> {
    retry_if_stale(|| rustix::fs::unlinkat(&folder, name, AtFlags::empty()))
}

/// Folders are made with this mode; the process's umask takes away from it, as it does for `mkdir`.
pub const FOLDER_MODE: u32 = 0o777;

/// A directory that values lie in, open.
#[derive(Debug)]
pub enum Folder<'a> {
    /// The directory itself.
    Root(&'a OwnedFd),
    Below(OwnedFd),
}

impl AsFd for Folder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => root.as_fd(),
            Self::Below(folder) => folder.as_fd(),
        }
    }
}

/// True if `errno`, met on the way to a folder, says that there is none: a level is missing, or is no directory.
pub fn is_no_folder(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

impl ValuesDir {
    /// Opens the folder `path`. `NOENT` where a level is missing, `NOTDIR` or `LOOP` where one is no directory.
    pub fn folder(&self, path: &str) -> Result<Folder<'_>, Errno> {
        if path.is_empty() {
            return Ok(Folder::Root(&self.root));
        }
        open_folder(&self.root, path).map(Folder::Below)
    }

    /// True if there is a folder `path`. With [`Blocking::Never`], fails with `AGAIN` where the device would be needed.
    pub fn has_folder(&self, path: &str, blocking: Blocking) -> Result<bool, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        match retry_if_stale(|| self.open_at(path, flags, blocking)) {
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            opened => Ok(!opened.is_err_and(is_no_folder)),
        }
    }

    /// Opens the folder `path`, and makes what is missing of it, to go with its last value; in which folder that was,
    /// by its path. `NOENT` where another program removes a level meanwhile, `NOTDIR` or `LOOP` where something else
    /// has its name. Then it leaves nothing.
    pub fn make_folder<'p>(&self, path: &'p str) -> Result<(Folder<'_>, &'p str), Errno> {
        match self.folder(path) {
            Err(errno) if is_no_folder(errno) => {}
            opened => return Ok((opened?, path)),
        }
        let (above, name) = split(path);
        let (folder, there) = self.make_folder(above)?;
        let made = retry_on_intr(|| rustix::fs::mkdirat(&folder, name, FOLDER_MODE.into()));
        let opened = match made {
            Ok(()) | Err(Errno::EXIST) => open_folder(&folder, name),
            Err(errno) => Err(errno),
        };
        if opened.is_err() {
            self.remove_empty_folders(above, there);
        }
        let opened = Folder::Below(opened?);
        if made.is_err() {
            // Another program was quicker: the folder is not this server's to mark, or to remove.
            return Ok((opened, path));
        }
        mark_implicit(&opened);
        Ok((opened, there))
    }

    /// Makes the folder `path`, to stay without a value, in one that is there. `EXIST` where something has its name.
    pub fn make_lasting_folder(&self, path: &str) -> Result<(), Errno> {
        let (above, name) = split(path);
        let above = self.folder(above)?;
        retry_on_intr(|| rustix::fs::mkdirat(&above, name, FOLDER_MODE.into()))
    }

    /// Removes the folder `path`, from which a value has gone, and then those above it, as long as they are empty and
    /// were made for a value. It is `folder`, where that is open.
    pub fn leave_folders(&self, path: &str, folder: Option<&Folder<'_>>) {
        let may_go = || match self.folder(path) {
            Ok(folder) => is_implicit(folder),
            Err(errno) => errno == Errno::NOENT,
        };
        if path.is_empty() || !folder.map_or_else(may_go, is_implicit) {
            return;
        }
        let (above, name) = split(path);
        let folder = self.folder(above);
        let remove = |folder| remove_folder(folder, name);
        let removed = folder.as_ref().map_err(|errno| *errno).and_then(remove);
        if matches!(removed, Ok(()) | Err(Errno::NOENT)) {
            self.leave_folders(above, folder.as_ref().ok());
        }
    }

    /// Removes the folder `path` if it is empty, also one without a mark, and then those above it that are, but not
    /// `keep`; answers the path of the lowest that stays.
    pub fn remove_empty_folders<'p>(&self, path: &'p str, keep: &str) -> &'p str {
        let mut lowest = path;
        // NOTEMPTY, as a rule. An empty folder that stays for another reason takes nothing from any value. Another
        // program may have been quicker.
        while lowest.len() > keep.len()
            && matches!(self.remove_folder(lowest), Ok(()) | Err(Errno::NOENT))
        {
            lowest = split(lowest).0;
        }
        lowest
    }

    /// Removes the folder `path`, if it is empty.
    pub fn remove_folder(&self, path: &str) -> Result<(), Errno> {
        let (above, name) = split(path);
        remove_folder(&self.folder(above)?, name)
    }

    /// Why no folder `path` can be: the first level that is no directory, in words.
    pub fn occupied(&self, path: &str) -> Error {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let other = above.chain([path]).find_map(|level| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let found = open_beneath(&self.root, level, flags, Mode::empty()).ok()?;
            let stat = retry_on_intr(|| rustix::fs::fstat(&found)).ok()?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => None,
                FileType::RegularFile => Some((level, "a value")),
                _ => Some((level, "a link or device")),
            }
        });
        let (level, what) = other.unwrap_or((path, "no directory"));
        Error::Occupied(format!("{level:?} is {what}, so nothing lies below it"))
    }
}

fn remove_folder(folder: impl AsFd, name: &str) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR))
}

/// The path of the folder that `path` lies in, and its name there.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Opens the directory `path` below `dir`.
pub fn open_folder(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    // For reading, as a directory that is opened for its path alone (`O_PATH`) cannot be synced.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    open_beneath(dir, path, flags, Mode::empty())
}

/// Makes the directory `name` in `folder`, if nothing has that name, and opens it.
pub fn make_and_open(folder: impl AsFd, name: &str, mode: Mode) -> Result<OwnedFd, Errno> {
    match retry_on_intr(|| rustix::fs::mkdirat(&folder, name, mode)) {
        // A directory that has the name is opened.
        Ok(()) | Err(Errno::EXIST) => open_folder(folder, name),
        Err(errno) => Err(errno),
    }
}
