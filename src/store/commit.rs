//! The committer: it looks names up and changes them, for the publisher and for the replay of the journal.
//!
//! The folders of a key are made only once the change may be made, and removed again when it fails. The publisher alone
//! makes them for this server, and removes those that a value leaves empty, so that only other programs, and the
//! removal of a tree of empty folders, can be in its way: where one changes what a change was decided on, the change is
//! not made, and is decided anew.

use rustix::fs::{AtFlags, Mode, RenameFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::attributes;
use super::directory_fd::{
    Blocking, Folder, NameKind, ValuesDir, is_no_folder, look_up, stamp, stat, unlink,
};
use super::empty_folders::NOT_EMPTY;
use super::implicit::unmark_implicit;
use super::new_value::{NewValue, Source};
use super::publish_method::unpublished;
use super::temp_file::Placement;
use super::value_file::ValueFile;
use super::write_context::WriteContext;
use crate::transfer::SLOW_TO_FREE;
use crate::value::{Error, Key, Meta, Version};

/// How often a change is decided anew: a program that moves what it is decided on in a loop wins some times in a row.
pub const TRIES: u32 = 1024;

/// A file of up to this length is freed by the publisher where that makes room: it takes some milliseconds.
const FREED_AT_ONCE: u64 = 64 << 20;

/// The value under a name with its mode, and the folder that it lies in, if that is there.
#[derive(Default)]
pub struct FoundName<'a> {
    folder: Option<Folder<'a>>,
    value: Option<(Meta, Mode)>,
}

impl FoundName<'_> {
    pub fn meta(&self) -> Option<Meta> {
        self.value.map(|(meta, _)| meta)
    }
}

/// Looks up the name of `key`. If it `is_put`, fails where no value can have the name. If it `is_assumed`, takes the
/// name for free without a look. A value that has ended is found, too: its file is there.
pub fn find<'a>(
    dir: &'a ValuesDir,
    key: &Key<'_>,
    is_put: bool,
    is_assumed: bool,
) -> Result<FoundName<'a>, Error> {
    let folder = match dir.folder(key.folder()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(FoundName::default()),
        Err(errno) if is_no_folder(errno) && !is_put => return Ok(FoundName::default()),
        Err(errno) => return Err(no_folder(dir, key, "open the folder", errno)),
    };
    let there = if is_assumed {
        NameKind::Absent
    } else {
        dir.look_up(&folder, key.name())
            .map_err(Error::errno_while("look up"))?
    };
    let value = match there {
        NameKind::Value(meta, mode) => Some((meta, mode)),
        NameKind::Folder if is_put => return Err(name_taken(A_FOLDER)),
        NameKind::Other if is_put => return Err(name_taken("a link or device")),
        NameKind::Absent | NameKind::Folder | NameKind::Other => None,
    };
    let folder = Some(folder);
    Ok(FoundName { folder, value })
}

/// The value of `key`, from which it is to move to the key `to`. Fails where its file has another name: that would get
/// the new version, and a rename to it does nothing. Fails where both keys lead to the one name of the file, as that
/// would be removed.
pub fn find_source(dir: &ValuesDir, key: &Key<'_>, to: &Key<'_>) -> Result<Option<Meta>, Error> {
    let stat = |key: &Key<'_>| {
        let found = dir.stat(key.as_str(), Blocking::Allowed);
        found.map_err(Error::errno_while("look up"))
    };
    let found = find(dir, key, false, false)?;
    let (Some(meta), Some(file)) = (found.meta(), stat(key)?) else {
        return Ok(None);
    };
    let is_same = |to: Stat| (to.st_dev, to.st_ino) == (file.st_dev, file.st_ino);
    match stat(to)? {
        _ if file.st_nlink > 1 => Err(Error::Occupied(LINKED.to_owned())),
        Some(to) if is_same(to) => Err(Error::Occupied(ONE_NAME.to_owned())),
        _ => Ok(Some(meta)),
    }
}

/// Writes the file of `value`, if it has none, with this `version`, for `key`, which stands for `base`.
pub fn stage(
    writer: &WriteContext,
    key: &Key<'_>,
    value: &mut NewValue,
    base: Option<Meta>,
    version: Version,
) -> Result<(), Error> {
    let target = match base {
        Some(_) => Placement::Present,
        None if key.is_flat() => Placement::Root,
        None => Placement::Absent,
    };
    value.seal(writer, target, version)
}

/// Publishes the staged `value` in place of what was `found`; false where another program has changed the name or its
/// folder.
pub fn put(
    writer: &WriteContext,
    key: &Key<'_>,
    value: &mut NewValue,
    found: &FoundName<'_>,
) -> Result<bool, Error> {
    in_folder(writer, key, found, |folder| {
        publish(writer, key, folder, value, found.value)
    })
}

/// Publishes `key` by `publish`, in its folder: where that was not `found`, it is made, and a change that fails takes
/// what it made away again. False where another program has changed the folder.
fn in_folder(
    writer: &WriteContext,
    key: &Key<'_>,
    found: &FoundName<'_>,
    publish: impl FnOnce(&Folder<'_>) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let (dir, path) = (writer.dir(), key.folder());
    let published = match &found.folder {
        Some(folder) => publish(folder),
        None => dir
            .make_folder(path)
            .map_err(|errno| no_folder(dir, key, "make the folder", errno))
            .and_then(|(folder, there)| {
                let created = publish(&folder);
                if !matches!(created, Ok(true)) {
                    dir.remove_empty_folders(path, there);
                }
                created
            }),
    };
    match published {
        Err(error) if error.is_gone() && !key.is_flat() => Ok(false),
        published => published,
    }
}

/// Gives the file of `value` the name of `key`. With `current` it replaces the file that has the name, whichever that
/// is by now. Without `current` the name is expected to be free: returns false, and changes nothing, if it is not.
fn publish(
    writer: &WriteContext,
    key: &Key<'_>,
    folder: &Folder<'_>,
    value: &mut NewValue,
    current: Option<(Meta, Mode)>,
) -> Result<bool, Error> {
    value.inherit(writer, folder, current.map(|(_, mode)| mode))?;
    let is_journaled = value.is_journaled;
    let file = value.file_mut()?;
    let Some((current, _)) = current else {
        return match file.link(folder, key.name()) {
            Err(Errno::EXIST) => Ok(false),
            linked => linked
                .map_err(|errno| unpublished(key, "link", errno))
                .map(|()| true),
        };
    };
    let _replaced = pin_if_slow(writer, key, current);
    let replaced = file.replace(folder, key.name(), is_journaled);
    replaced.map_err(|errno| unpublished(key, "rename", errno))?;
    Ok(true)
}

/// Gives the value of `source` this `version` and the name of `key`, in place of what was `found`; false where another
/// program has changed one of the names, or a folder of them. One rename does it, so that the value always has one
/// name, but where [`rename_new`] says. The date and the version come first, and the mode without the rights that the
/// replaced file lacked: the old name has them until the rename, and gets the old ones back if that fails.
pub fn rename(
    writer: &WriteContext,
    key: &Key<'_>,
    source: &Source,
    found: &FoundName<'_>,
    version: Version,
) -> Result<bool, Error> {
    let from = find(writer.dir(), &source.key, false, false)?;
    let (Some(from), Some((meta, mode))) = (from.folder, from.value) else {
        return Ok(false);
    };
    if meta.version != source.version {
        return Ok(false);
    }
    let name = source.key.name();
    if let Ok(Some(file)) = writer.dir().open(&source.key, Blocking::Allowed)
        && Version::of(&file.stat) == source.version
    {
        // A convenience, as all attributes: a value moves without it, too.
        let _ = attributes::keep_date(&file.fd, source.version, version);
    }
    let kept = found
        .value
        .map_or(mode, |(_, replaced)| mode & (replaced | Mode::RWXU));
    let mark = |version, of: Mode| {
        if kept != mode {
            let opened = writer.dir().open(&source.key, Blocking::Allowed)?;
            let file = opened.ok_or(Errno::NOENT)?.fd;
            retry_on_intr(|| rustix::fs::fchmod(&file, of))?;
        }
        stamp(&from, name, version)
    };
    let rename_to = |folder: &Folder<'_>| {
        let renamed = match found.value {
            None => rename_new(&from, name, folder, key.name()),
            // A rename would leave both names.
            Some(_) if are_links((&from, name), (folder, key.name())) => unlink(&from, name),
            Some(_) => retry_on_intr(|| rustix::fs::renameat(&from, name, folder, key.name())),
        };
        match renamed {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(Errno::XDEV) => Err(Error::Occupied(OTHER_FILE_SYSTEM.to_owned())),
            Err(errno) => Err(unpublished(key, "rename", errno)),
        }
    };
    match mark(version, kept) {
        Ok(()) => {}
        // Another program has put another file there, which keeps its own version.
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => {
            let _ = mark(source.version, mode);
            return Err(Error::new("stamp the version", errno));
        }
    }
    let current = found.meta();
    let _replaced = current.and_then(|meta| pin_if_slow(writer, key, meta));
    let renamed = in_folder(writer, key, found, rename_to);
    if matches!(renamed, Ok(true)) {
        (writer.dir()).leave_folders(source.key.folder(), Some(&from));
    } else if let Err(errno) = mark(source.version, mode) {
        tracing::warn!(%errno, "a value that was not moved keeps the version of its move");
    }
    renamed
}

const LINKED: &str = "the file of the value has another name, a hard link, so that no rename moves it: copy it, and delete it";

const ONE_NAME: &str = "both keys lead to the same file, as its folder is mounted twice or does not tell small letters from capitals: nothing is moved";

/// The refusal of a move between file systems.
pub const OTHER_FILE_SYSTEM: &str = "the two keys lie on different file systems or mounts, between which no value is moved as one change: copy it, and delete it";

const NO_RENAME: &str = "no rename takes the folder there: the two lie on different file systems or mounts, or one in the other, or on a file system that has no rename which replaces nothing";

/// True if these are two names of one file, of which it can lose one.
fn are_links(a: (&Folder<'_>, &str), b: (&Folder<'_>, &str)) -> bool {
    let [a, b] = [a, b].map(|(folder, name)| stat(folder, name));
    matches!((a, b), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) && a.st_nlink > 1)
}

/// Renames a file to a name that nothing has; `EXIST` when something has it. FUSE programs and NFS lack such a rename:
/// there the file has both names for a moment.
fn rename_new(from: &Folder<'_>, name: &str, folder: &Folder<'_>, to: &str) -> Result<(), Errno> {
    let flags = RenameFlags::NOREPLACE;
    match retry_on_intr(|| rustix::fs::renameat_with(from, name, folder, to, flags)) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            retry_on_intr(|| rustix::fs::linkat(from, name, folder, to, AtFlags::empty()))?;
            unlink(from, name).inspect_err(|_| {
                let _ = unlink(folder, to);
            })
        }
        renamed => renamed,
    }
}

/// Removes the value of `key` that was `found`, and the folders that it leaves empty; false where another program was
/// quicker, with rm or with mkdir. If it `is_for_room`, its blocks are free when this returns, unless they are very
/// many, and no folder is tried in which another value is counted.
pub fn delete(
    writer: &WriteContext,
    key: &Key<'_>,
    found: &FoundName<'_>,
    is_for_room: bool,
) -> Result<bool, Error> {
    let (Some(folder), Some(meta)) = (&found.folder, found.meta()) else {
        return Ok(false);
    };
    let is_freed_here = is_for_room && meta.len <= FREED_AT_ONCE;
    let pin = || pin_if_slow(writer, key, meta);
    let _removed = (!is_freed_here).then(pin);
    match unlink(folder, key.name()) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::ISDIR) => return Ok(false),
        Err(errno) => return Err(unpublished(key, "unlink", errno)),
    }
    let account = writer.account.as_ref().filter(|_| is_for_room);
    if !account.is_some_and(|account| account.keeps_folder(key)) {
        writer.dir().leave_folders(key.folder(), Some(folder));
    }
    Ok(true)
}

/// What has the name of a folder that is not made, but stays as if it was.
pub const A_FOLDER: &str = "a folder";

/// Makes the folder of the name `path`, to stay without a value; one that is there stays from now on. Those above it
/// are made where it comes `with_above`, to go with the last in them.
pub fn make_folder(dir: &ValuesDir, path: &Key<'_>, with_above: bool) -> Result<(), Error> {
    let above = path.folder();
    let there = if with_above {
        let made = dir.make_folder(above);
        made.map_err(|errno| no_folder(dir, path, "make the folder", errno))?
            .1
    } else {
        above
    };
    let made = make_lasting_folder(dir, path);
    if made.is_err() {
        dir.remove_empty_folders(above, there);
    }
    made
}

fn make_lasting_folder(dir: &ValuesDir, path: &Key<'_>) -> Result<(), Error> {
    dir.make_lasting_folder(path.as_str())
        .map_err(|errno| match errno {
            Errno::EXIST => match dir.folder(path.as_str()).map(unmark_implicit) {
                Ok(Ok(true)) => Error::FolderKept,
                Ok(Ok(false)) => Error::NameTaken(A_FOLDER),
                Ok(Err(errno)) => Error::new("have the folder stay", errno),
                Err(_) => Error::NameTaken("a value, link or device"),
            },
            Errno::NOENT => {
                let above = path.folder();
                Error::NoParent(format!("there is no folder {above:?}: make it first"))
            }
            errno if is_no_folder(errno) => match dir.occupied(path.folder()) {
                Error::Occupied(why) => Error::NoParent(why),
                why => why,
            },
            errno => Error::new("make the folder", errno),
        })
}

/// Removes the folder `path`, if it is empty, and those above that it leaves empty.
pub fn remove_folder(dir: &ValuesDir, path: &Key<'_>) -> Result<(), Error> {
    match dir.remove_folder(path.as_str()) {
        Ok(()) | Err(Errno::NOENT) => {
            dir.leave_folders(path.folder(), None);
            Ok(())
        }
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Error::Occupied(NOT_EMPTY.to_owned())),
        Err(errno) => Err(unpublished(path, "remove the folder", errno)),
    }
}

/// Gives the folder `from`, with all that is below it, the name `to`, which nothing has: one rename does it. The
/// folders of `to` are made, and those of `from` go, as with a value.
pub fn move_folder(dir: &ValuesDir, from: &Key<'_>, to: &Key<'_>) -> Result<(), Error> {
    // Another program may remove a folder of `to` as soon as it is made.
    let mut tries = (0..TRIES).map(|_| rename_folder(dir, from, to));
    let is_final = |tried: &Result<(), Error>| !tried.as_ref().is_err_and(Error::is_gone);
    let busy = || Err(Error::new("rename", Errno::BUSY));
    tries.find(is_final).unwrap_or_else(busy)
}

fn rename_folder(dir: &ValuesDir, from: &Key<'_>, to: &Key<'_>) -> Result<(), Error> {
    let above = dir.folder(from.folder()).map_err(|errno| match errno {
        errno if is_no_folder(errno) => Error::NoFolder,
        errno => Error::new("open the folder", errno),
    })?;
    let made = dir.make_folder(to.folder());
    let (folder, there) = made.map_err(|errno| no_folder(dir, to, "make the folder", errno))?;
    // With the slash nothing but a directory is renamed.
    let (name, flags) = (format!("{}/", from.name()), RenameFlags::NOREPLACE);
    let rename = || rustix::fs::renameat_with(&above, &name, &folder, to.name(), flags);
    let Err(errno) = retry_on_intr(rename) else {
        dir.leave_folders(from.folder(), Some(&above));
        return Ok(());
    };
    dir.remove_empty_folders(to.folder(), there);
    let is_there = matches!(look_up(&above, from.name()), Ok(NameKind::Folder));
    Err(match errno {
        Errno::NOENT | Errno::NOTDIR if !is_there => Error::NoFolder,
        Errno::EXIST => taken_by(&look_up(&folder, to.name()).unwrap_or(NameKind::Folder)),
        Errno::XDEV | Errno::INVAL | Errno::NOSYS => Error::Occupied(NO_RENAME.to_owned()),
        errno => unpublished(from, "rename", errno),
    })
}

/// Why no folder gets the name of what was `found`.
pub fn taken_by(found: &NameKind) -> Error {
    Error::NameTaken(match found {
        NameKind::Value(..) => "a value",
        NameKind::Other => "a link or device",
        _ => A_FOLDER,
    })
}

/// Keeps a large file alive while it loses its name, so that its blocks are freed on a disk thread.
fn pin_if_slow(writer: &WriteContext, key: &Key<'_>, meta: Meta) -> Option<ValueFile> {
    let is_slow = meta.len > SLOW_TO_FREE;
    is_slow.then(|| writer.dir().pin(key)).flatten()
}

/// Why the folder of `key` cannot be had: `errno`, met while `doing`.
fn no_folder(dir: &ValuesDir, key: &Key<'_>, doing: &'static str, errno: Errno) -> Error {
    match errno {
        Errno::NOTDIR | Errno::LOOP => dir.occupied(key.folder()),
        errno => Error::new(doing, errno),
    }
}

fn name_taken(what: &str) -> Error {
    Error::Occupied(format!("{what} has this name"))
}
