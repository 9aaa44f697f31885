//! The replay: what the journal has and the files lack is made in the files.
//!
//! Of each key the record with the highest version counts, and only where the file does not carry that version whole, or a later
//! one: a value that a hand has placed later stays. To replay twice changes nothing, so a replay may be cut off anywhere.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::directory_fd::{Blocking, Entry, look_up, unlink};
use super::super::error::Error;
use super::super::folder::is_no_folder;
use super::super::key::Key;
use super::super::meta::{Meta, Version};
use super::super::read;
use super::super::temp_file::{Target, TempFile};
use super::super::writer::Writer;
use super::frame::{Record, What};
use super::log::{Log, Unreadable};

/// Keys that a hand has changed since, which are named in the log; of the others there is the number.
const NAMED: u64 = 20;

/// Whether a file counts that carries the version of a record and has its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It does: it was read from the disk.
    Files,
    /// It does not: what the kernel remembers may never have reached the disk.
    Nothing,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Replayed {
    /// Records that were read.
    pub(in crate::store) records: u64,
    /// Values that were written.
    pub(in crate::store) written: u64,
    /// Values that were removed.
    pub(in crate::store) removed: u64,
    /// Keys that were changed by hand since, and are left as they are.
    pub(in crate::store) by_hand: u64,
}

/// Why a replay ended before its end.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum ReplayError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{key:?}: {error}")]
    Unwritable { key: String, error: Error },
}

impl From<ReplayError> for Error {
    fn from(error: ReplayError) -> Self {
        Self::Failed {
            doing: "write values anew from the journal",
            source: std::io::Error::other(error),
        }
    }
}

/// See the module.
pub(super) struct Replay<'a> {
    writer: &'a Writer,
    trust: Trust,
}

impl<'a> Replay<'a> {
    pub(super) fn new(writer: &'a Writer, trust: Trust) -> Self {
        Self { writer, trust }
    }

    /// Replays `log`. Blocks.
    pub(super) fn run(&self, log: &Log) -> Result<Replayed, ReplayError> {
        let mut replayed = Replayed::default();
        let latest = latest(log, &mut replayed.records)?;
        log.each(|record| match latest.get(record.key) {
            Some(&latest) if latest == record.version => self
                .apply(&record, &mut replayed)
                .map_err(|error| ReplayError::Unwritable {
                    key: record.key.to_owned(),
                    error,
                }),
            _ => Ok(()),
        })?;
        Ok(replayed)
    }

    fn apply(&self, record: &Record<'_>, replayed: &mut Replayed) -> Result<(), Error> {
        let Ok(key) = Key::new(record.key) else {
            return Ok(());
        };
        let dir = self.writer.dir();
        let found = match dir.folder(key.folder()) {
            Ok(folder) => look_up(&folder, key.name()).map_err(Error::errno_while("look up"))?,
            Err(errno) if is_no_folder(errno) => Entry::Absent,
            Err(errno) => return Err(Error::new("open the folder", errno)),
        };
        match (&record.what, found) {
            (_, Entry::Value(meta)) if meta.version > record.version => by_hand(&key, replayed),
            (What::Put(..), Entry::Folder | Entry::Other) => by_hand(&key, replayed),
            (What::Put(attributes, value), found) => {
                if self.holds(&key, found, record.version, value)? {
                    return Ok(());
                }
                match self.put(&key, record.version, attributes, value) {
                    Err(Error::Occupied(_)) => by_hand(&key, replayed),
                    put => {
                        put?;
                        replayed.written += 1;
                    }
                }
            }
            (What::Deleted, Entry::Value(_)) => {
                let folder = dir.folder(key.folder());
                folder
                    .and_then(|folder| unlink(&folder, key.name()))
                    .map_err(Error::errno_while("unlink"))?;
                dir.remove_empty_folders(key.folder(), "");
                replayed.removed += 1;
            }
            (What::Deleted | What::Named | What::Cancelled, _) => {}
        }
        Ok(())
    }

    /// Whether the file that was `found` is this version, whole.
    fn holds(
        &self,
        key: &Key<'_>,
        found: Entry,
        version: Version,
        value: &[u8],
    ) -> Result<bool, Error> {
        let expected = Meta {
            len: value.len() as u64,
            version,
        };
        match found {
            Entry::Value(meta) if meta == expected && self.trust == Trust::Files => {}
            _ => return Ok(false),
        }
        let opened = self.writer.dir().open(key, Blocking::Allowed);
        let Some(opened) = opened.map_err(Error::errno_while("open"))? else {
            return Ok(false);
        };
        // What cannot be read is written anew.
        Ok(read::whole_blocking(opened).is_ok_and(|read| read.bytes == value))
    }

    fn put(
        &self,
        key: &Key<'_>,
        version: Version,
        attributes: &Attributes,
        value: &[u8],
    ) -> Result<(), Error> {
        let dir = self.writer.dir();
        let (folder, _) = dir.make_folder(key.folder()).map_err(|errno| {
            if is_no_folder(errno) {
                dir.occupied(key.folder())
            } else {
                Error::new("make the folder", errno)
            }
        })?;
        let value = [Bytes::copy_from_slice(value)];
        let mut file = TempFile::create_small(self.writer.temp_dir(), &value, Target::Present)?;
        file.seal(attributes, version)?;
        file.replace(&folder, key.name(), false)
            .map_err(Error::errno_while("rename"))
    }
}

fn by_hand(key: &Key<'_>, replayed: &mut Replayed) {
    replayed.by_hand += 1;
    if replayed.by_hand <= NAMED {
        tracing::warn!(
            key = key.as_str(),
            "changed by hand since: the journal's version is not restored"
        );
    }
}

/// The version that counts of each key. It takes memory for each key in the journal, whose size bounds it.
fn latest(log: &Log, records: &mut u64) -> Result<HashMap<Box<str>, Version>, Unreadable> {
    let mut cancelled = HashSet::new();
    log.each_to_the_end(|record| {
        if record.what == What::Cancelled {
            cancelled.insert((Box::<str>::from(record.key), record.version));
        }
        Ok::<_, Unreadable>(())
    })?;
    let mut latest = HashMap::new();
    log.each(|record| {
        *records += 1;
        let is_cancelled =
            !cancelled.is_empty() && cancelled.contains(&(record.key.into(), record.version));
        if !is_cancelled {
            let known = latest
                .entry(Box::from(record.key))
                .or_insert(record.version);
            *known = record.version.max(*known);
        }
        Ok::<_, Unreadable>(())
    })?;
    Ok(latest)
}
