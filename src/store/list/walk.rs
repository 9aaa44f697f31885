//! Walking the directory: every name in it, in the order in which the file system keeps them.
//!
//! Names that no key can be, and what is no regular file, are left out. What comes or goes during a walk may be met or
//! not; on tmpfs that holds for a value that is replaced meanwhile as well, whose name gets a new place in the directory.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::super::directory_fd::{Dir, Entry, open_beneath};
use super::super::key::Key;
use super::page::{Failure, Page};

/// What is read at once, in bytes: some thousand names, while which the kernel keeps the directory from being changed.
const READ: usize = 32 << 10;

/// What a walk comes upon.
pub(super) enum Met<'a> {
    /// A name that is a key's.
    Name(Key<'a>, FileType),
    /// The next names are read only after this.
    Pause,
}

/// Shows `visit` what there is, until it fails.
pub(super) fn walk<E: From<Failure>>(
    dir: &Dir,
    mut visit: impl FnMut(Met<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = open_beneath(dir.root(), ".", flags, Mode::empty());
    let dir = dir.map_err(Failure::errno_while("open the directory"))?;
    let mut buf = vec![MaybeUninit::uninit(); READ];
    let mut entries = RawDir::new(dir, &mut buf);
    loop {
        if entries.is_buffer_empty() {
            visit(Met::Pause)?;
        }
        let entry = match entries.next() {
            None => return Ok(()),
            Some(Err(Errno::INTR)) => continue,
            Some(entry) => entry.map_err(Failure::errno_while("list"))?,
        };
        let kind = entry.file_type();
        if !matches!(kind, FileType::RegularFile | FileType::Unknown) {
            continue;
        }
        if let Some(key) = key(entry.file_name().to_bytes()) {
            visit(Met::Name(key, kind))?;
        }
    }
}

/// The key whose file has this name.
pub(super) fn key(name: &[u8]) -> Option<Key<'_>> {
    Key::from_bytes(name.into()).ok()
}

/// Whether a regular file has the name `key` now.
pub(super) fn is_value(dir: &Dir, key: &Key<'_>) -> Result<bool, Failure> {
    let entry = dir.look_up(key).map_err(Failure::errno_while("look up"))?;
    Ok(matches!(entry, Entry::Value(_)))
}

/// Why a walk for a page ended before its end.
pub(super) enum Cut {
    /// The directory has more names than are to be met.
    Long,
    Failed(Failure),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The `limit + 1` smallest names of `page`, if the directory has no more than `most` names. Takes memory for those alone.
pub(super) fn smallest(
    dir: &Dir,
    page: &Page,
    most: usize,
    is_wanted: &dyn Fn() -> Result<(), Failure>,
) -> Result<Vec<String>, Cut> {
    let (mut met, mut smallest) = (0, BTreeSet::new());
    walk(dir, |step| {
        let (key, kind) = match step {
            Met::Pause => return Ok(is_wanted()?),
            Met::Name(key, kind) => (key, kind),
        };
        met += 1;
        if met > most {
            return Err(Cut::Long);
        }
        let name = key.as_str();
        let is_full = smallest.len() > page.limit;
        let is_too_large = is_full
            && smallest
                .last()
                .is_some_and(|last: &String| name > last.as_str());
        if !page.has(name) || is_too_large {
            return Ok(());
        }
        if kind == FileType::Unknown && !is_value(dir, &key)? {
            return Ok(());
        }
        // A set, as a name that is renamed over during the walk may be met twice.
        if smallest.insert(name.to_owned()) && is_full {
            smallest.pop_last();
        }
        Ok(())
    })?;
    Ok(smallest.into_iter().collect())
}
