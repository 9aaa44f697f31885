//! Walking the directory: every name in a folder, in the order in which the file system keeps them.
//!
//! Names that no key can be, what is neither a regular file nor a directory, and what lies in a folder that this server may
//! not read are left out. What comes or goes during a walk may be met or not; on tmpfs that holds for a value that is
//! replaced meanwhile as well, whose name gets a new place in the directory.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use crate::store::directory_fd::{Folder, NameKind, ValuesDir, is_no_folder, look_up, open_folder};
use crate::store::implicit::is_implicit;
use crate::value::{Error, Key, Meta, Page, may_have_keys};

/// Bytes that are read at once: some thousand names, while which the kernel keeps the directory from being changed.
const READ: usize = 32 << 10;

/// Folders that a walk remembers at once of each folder that it is in; for more, it reads the folder again.
pub const FOLDERS: usize = 1024;

/// Folders that a walk may remember beside those, in all: a folder of many is read again some times, and not once for each [`FOLDERS`] of
/// them. The names of a folder have up to 255 bytes, so this takes up to 10 MiB.
pub const SPARE: usize = 32 << 10;

/// Opens the folder `path` of `dir`, if it is there and can be read.
pub fn open<'d>(dir: &'d ValuesDir, path: &str) -> Result<Option<Folder<'d>>, Error> {
    match dir.folder(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(errno) if is_no_folder(errno) || dir.unserved.leaves_out(path, errno) => Ok(None),
        Err(errno) => Err(Error::new("open the folder", errno)),
    }
}

/// What a walk finds.
pub enum Met<'a> {
    /// A value.
    Value(Key<'a>),
    /// A folder that keys may lie below, by its path.
    Folder(String),
    /// The next names are read only after this.
    Pause,
}

/// Calls `visit` for each name in `folder` of `dir`, whose path is `path`, until `visit` fails.
pub fn walk<E: From<Error>>(
    dir: &ValuesDir,
    folder: &Folder<'_>,
    path: &str,
    mut visit: impl FnMut(Met<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let own;
    let opened = match folder {
        // A descriptor that is shared has one place in its directory for all.
        Folder::Root(root) => {
            let opened = open_folder(root, ".");
            own = opened.map_err(Error::errno_while("open the directory"))?;
            own.as_fd()
        }
        Folder::Below(opened) => opened.as_fd(),
    };
    let mut buf = vec![MaybeUninit::uninit(); READ];
    let mut entries = RawDir::new(opened, &mut buf);
    loop {
        if entries.is_buffer_empty() {
            visit(Met::Pause)?;
        }
        let entry = match entries.next() {
            None => return Ok(()),
            Some(Err(Errno::INTR)) => continue,
            // It was removed meanwhile.
            Some(Err(Errno::NOENT)) if !path.is_empty() => return Ok(()),
            Some(entry) => entry.map_err(Error::errno_while("list"))?,
        };
        let Ok(name) = entry.file_name().to_str() else {
            let name = entry.file_name().to_bytes();
            dir.unserved.name(path, name);
            continue;
        };
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(folder, name)?,
            kind => kind,
        };
        match kind {
            FileType::RegularFile => {
                if let Ok(key) = Key::new(joined(path, name)) {
                    visit(Met::Value(key))?;
                }
            }
            FileType::Directory => {
                let path = joined(path, name);
                if may_have_keys(&path) {
                    visit(Met::Folder(path))?;
                }
            }
            FileType::Symlink => dir.unserved.link(&joined(path, name)),
            _ => {}
        }
    }
}

/// Calls `visit` for each key of `dir` below the folder `from`, with the folder that it lies in. A folder that fails keeps none from being
/// walked; the first failure is answered.
pub fn all(
    dir: &ValuesDir,
    from: &str,
    mut visit: impl FnMut(&Folder<'_>, &Key<'_>),
) -> Result<(), Error> {
    let mut walked = Ok(());
    let mut folders = vec![from.to_owned()];
    while let Some(path) = folders.pop() {
        let folder = match open(dir, &path) {
            Ok(Some(folder)) => folder,
            Ok(None) => continue,
            Err(error) => {
                walked = walked.and(Err(error));
                continue;
            }
        };
        let of_folder = walk(dir, &folder, &path, |met| {
            match met {
                Met::Value(key) => visit(&folder, &key),
                Met::Folder(path) => folders.push(path),
                Met::Pause => {}
            }
            Ok::<_, Error>(())
        });
        walked = walked.and(of_folder);
    }
    walked
}

/// The path of `name` in the folder of this path.
pub fn joined(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => [folder, "/", name].concat(),
    }
}

/// The type of `name`, on file systems that do not report the type with the name.
fn kind_of(folder: &Folder<'_>, name: &str) -> Result<FileType, Error> {
    let entry = look_up(folder, name).map_err(Error::errno_while("look up"))?;
    Ok(match entry {
        NameKind::Value(..) => FileType::RegularFile,
        NameKind::Folder => FileType::Directory,
        NameKind::Absent | NameKind::Other => FileType::Unknown,
    })
}

/// Why a walk for a page ended before its end.
enum Cut {
    /// There are more names than may be met.
    Long,
    /// The rest of a folder adds nothing.
    Enough,
    Failed(Error),
}

impl From<Error> for Cut {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The `limit + 1` smallest items of `page`, or any one with a limit of 0; `None` if more than `most` names are met on the way to them.
/// Takes memory for those alone, and walks no folder that cannot have one.
pub fn smallest(
    dir: &ValuesDir,
    page: &Page,
    most: usize,
    is_wanted: &dyn Fn() -> Result<(), Error>,
) -> Result<Option<Vec<String>>, Error> {
    let mut search = Search {
        dir,
        page,
        left: most,
        is_wanted,
        spare: SPARE,
        found: BTreeSet::new(),
    };
    let folder = page.folder();
    if folder.is_empty() || may_have_keys(folder) {
        match search.folder(folder) {
            Err(Cut::Failed(error)) => return Err(error),
            Err(Cut::Long | Cut::Enough) => return Ok(None),
            Ok(()) => {}
        }
    }
    Ok(Some(search.found.into_iter().collect()))
}

/// A walk for a page.
struct Search<'a> {
    dir: &'a ValuesDir,
    page: &'a Page,
    /// Names that may still be met.
    left: usize,
    is_wanted: &'a dyn Fn() -> Result<(), Error>,
    /// Folders that may still be remembered beside [`FOLDERS`] of each.
    spare: usize,
    /// A set, as a name that is renamed over during the walk may be met twice.
    found: BTreeSet<String>,
}

impl Search<'_> {
    fn folder(&mut self, path: &str) -> Result<(), Cut> {
        let (mut after, mut most) = (String::new(), FOLDERS);
        loop {
            let (folders, is_cut) = self.names(path, &after, most)?;
            after = folders.last().cloned().unwrap_or_default();
            for name in folders {
                let below = joined(path, &name);
                if self.may_take(&below) {
                    self.folder(below.trim_end_matches('/'))?;
                }
            }
            if !is_cut {
                self.spare += most - FOLDERS;
                return Ok(());
            }
            let more = most.min(self.spare);
            (most, self.spare) = (most + more, self.spare - more);
        }
    }

    /// Takes the values in the folder `path`; answers the names of the `most` smallest folders in it that come after `after`, each with
    /// a `/` behind it, and whether there are more.
    fn names(
        &mut self,
        path: &str,
        after: &str,
        most: usize,
    ) -> Result<(BTreeSet<String>, bool), Cut> {
        let (mut folders, mut is_cut) = (BTreeSet::new(), false);
        let Some(folder) = open(self.dir, path)? else {
            return Ok((folders, is_cut));
        };
        // All keys in it are one item.
        let is_one = !path.is_empty() && self.page.common(&format!("{path}/")).is_some();
        if !path.is_empty()
            && self.page.folders
            && let name = format!("{path}/")
            && let Some(item) = self.page.item_of_folder(&name)
            && !is_implicit(&folder)
        {
            self.offer_item(item);
            if is_one || self.has_one() {
                return Ok((folders, is_cut));
            }
        }
        let above = path.len() + usize::from(!path.is_empty());
        let walked = walk(self.dir, &folder, path, |met| {
            if !matches!(met, Met::Pause) {
                self.left = self.left.checked_sub(1).ok_or(Cut::Long)?;
            }
            let below = match met {
                Met::Pause => return Ok((self.is_wanted)()?),
                Met::Value(key) => {
                    self.offer(key.as_str());
                    let is_enough = is_one || self.has_one();
                    return if is_enough { Err(Cut::Enough) } else { Ok(()) };
                }
                Met::Folder(path) => path + "/",
            };
            let name = &below[above..];
            if name > after && self.may_take(&below) {
                folders.insert(name.to_owned());
            }
            if folders.len() > most {
                folders.pop_last();
                is_cut = true;
            }
            Ok(())
        });
        match walked {
            Err(Cut::Enough) => Ok((BTreeSet::new(), false)),
            walked => walked.map(|()| (folders, is_cut)),
        }
    }

    fn offer(&mut self, key: &str) {
        let item = self.page.item(key);
        if self.page.has(item) {
            self.offer_item(item);
        }
    }

    fn offer_item(&mut self, item: &str) {
        if self.is_beyond(item) {
            return;
        }
        if self.found.insert(item.to_owned()) && self.found.len() > self.page.limit + 1 {
            self.found.pop_last();
        }
    }

    /// True if the page only asks whether there is an item, and there is.
    fn has_one(&self) -> bool {
        self.page.limit == 0 && !self.found.is_empty()
    }

    /// True if keys that begin with `below` may add an item.
    fn may_take(&self, below: &str) -> bool {
        let is_found = |item| self.found.contains(item);
        self.page.may_have_below(below)
            && !self.has_one()
            && !self.is_beyond(below)
            && !self.page.common(below).is_some_and(is_found)
    }

    /// True if enough items before `item` are found.
    fn is_beyond(&self, item: &str) -> bool {
        let is_full = self.found.len() > self.page.limit;
        is_full && self.found.last().is_some_and(|last| item > last.as_str())
    }
}

/// Looks up keys.
pub struct Entries<'d> {
    dir: &'d ValuesDir,
    /// The folder of the last key, open if there is one.
    last: Option<(String, Option<Folder<'d>>)>,
}

impl<'d> Entries<'d> {
    pub fn new(dir: &'d ValuesDir) -> Self {
        Self { dir, last: None }
    }

    /// The entry under `key`; absent if its folder cannot be read.
    pub fn look_up(&mut self, key: &Key<'_>) -> Result<NameKind, Error> {
        self.look_up_by(key, |_, folder, name| look_up(folder, name))
    }

    /// The value of `key`, if there is one that has not ended.
    pub fn value(&mut self, key: &Key<'_>) -> Result<Option<Meta>, Error> {
        match self.look_up_by(key, ValuesDir::look_up)? {
            NameKind::Value(meta, _) if !meta.has_ended() => Ok(Some(meta)),
            _ => Ok(None),
        }
    }

    fn look_up_by(
        &mut self,
        key: &Key<'_>,
        look_up: fn(&ValuesDir, &Folder<'d>, &str) -> Result<NameKind, Errno>,
    ) -> Result<NameKind, Error> {
        let dir = self.dir;
        let Some(folder) = self.folder(key.folder())? else {
            return Ok(NameKind::Absent);
        };
        match look_up(dir, folder, key.name()) {
            Err(errno) if !key.is_flat() && dir.unserved.leaves_out(key.folder(), errno) => {
                Ok(NameKind::Absent)
            }
            Err(errno) => Err(Error::new("look up", errno)),
            Ok(entry) => {
                dir.unserved.found_in(key.folder());
                Ok(entry)
            }
        }
    }

    fn folder(&mut self, path: &str) -> Result<Option<&Folder<'d>>, Error> {
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            self.last = Some((path.to_owned(), open(self.dir, path)?));
        }
        Ok(self.last.as_ref().and_then(|(_, folder)| folder.as_ref()))
    }
}
