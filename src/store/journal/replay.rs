//! The replay: it makes the changes in the files that the journal has and the files lack.
//!
//! [`History`], which is pure, decides about each file. To replay twice changes nothing, so a replay may be cut off
//! anywhere. A file that the log does not know and that stood in a value's place before that was written is set aside,
//! not removed.
//!
//! Order is that of the log alone. A file is the server's own if its version is in the log, as what a change made or as
//! what it replaced. Any other file that the file system has not changed since the record is older: it was replaced or
//! removed, and the disk does not know that. Any other file that was changed since was placed later, whatever its date,
//! and it stays. A large value that is not in its file was not answered, as its name was not on the disk: then the
//! change before it counts. A missing file is restored: names that a hand gave may be lost with the power too.

use std::collections::HashSet;

use bytes::Bytes;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::commit::{self, TRIES};
use super::super::directory_fd::{
    Blocking, NameKind, ValuesDir, is_no_folder, look_up, split, stat,
};
use super::super::empty_folders::remove_below;
use super::super::new_value::{NewValue, Source};
use super::super::publish_method::{ASIDE, set_aside, unpublished};
use super::super::temp_file::TempFile;
use super::super::value_file;
use super::super::write_context::WriteContext;
use super::format::{ChangeRecord, Record};
use super::log::{Fate, History};
use super::segment::Frame;
use crate::value::{Error, Key, Meta, changed, folder_and_above};

/// Keys that a hand has changed since, which are named in the log; of the others there is the number.
pub const NAMED: usize = 20;

/// The state of the files, by what they may lack of the changes in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// They lack nothing, as the kernel sees them; but the bytes that it remembers may not be on the disk.
    NamesWhole,
    /// They may lack names and bytes. A file that has the version and the bytes of its record was read from the disk.
    AfterCrash,
    /// They may lack names and bytes, also those that the kernel remembers.
    AfterFailure,
}

/// What came of a replay.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// Records of changes that were looked at.
    pub changes: u64,
    /// Those of them that are of moves.
    pub moves: u64,
    /// Values that were written.
    pub written: u64,
    /// Values that were removed.
    pub removed: u64,
    /// Keys that were changed by hand since, and are left as they are.
    pub by_hand: u64,
    /// All changes of the keys of which one could not be made, in order: a later replay tells by them what it finds.
    pub stuck: Vec<ChangeRecord>,
}

/// A replay under way.
struct Replay<'a> {
    dir: &'a ValuesDir,
    /// Makes the changes; without it they are only counted.
    writer: Option<&'a WriteContext>,
    history: History,
    state: FileState,
    done: ReplayReport,
}

/// Makes in `dir` all of `frames` that counts, in order, unless `failed` says of a key that cannot be changed that this
/// is the end. Without a `writer` the changes are only counted. What is logged from the change `end` on is in flight:
/// it counts only as what it cancels. The `history` begins with what is cancelled and not logged. Blocks.
pub fn replay(
    dir: &ValuesDir,
    writer: Option<&WriteContext>,
    frames: &[Frame],
    end: u64,
    mut history: History,
    state: FileState,
    mut failed: impl FnMut(&Key<'_>, Error) -> Result<(), Error>,
) -> Result<ReplayReport, Error> {
    for frame in frames {
        for record in frame.read()? {
            history.add(&record);
            // It was refused, and the server killed before it said so.
            if let (Record::Change(change), Some(writer)) = (&record, writer)
                && let Some(version) = change.result
                && !TempFile::can_have(&writer.temp_dir, version)?
            {
                history.add(&Record::Cancel(change.sequence));
            }
        }
    }
    let mut replay = Replay {
        dir,
        writer,
        history,
        state,
        done: ReplayReport::default(),
    };
    let mut stuck = HashSet::new();
    let frames = frames.iter().filter(|frame| frame.head.end() <= end);
    for frame in frames.clone() {
        for change in frame.changes()? {
            replay.done.changes += 1;
            replay.done.moves += u64::from(change.source.is_some());
            if !change.keys().any(|key| stuck.contains(key))
                && let Err(error) = replay.replay_all(&change)
            {
                failed(&change.key, error)?;
                stuck.extend(change.keys().cloned());
            }
        }
    }
    for frame in frames.filter(|_| !stuck.is_empty()) {
        let of_stuck = frame
            .changes()?
            .filter(|c| c.keys().any(|key| stuck.contains(key)));
        let is_cancelled = |c: &ChangeRecord| replay.history.is_cancelled(c.sequence);
        let left = of_stuck.filter(|c| !is_cancelled(c));
        replay.done.stuck.extend(left);
    }
    Ok(replay.done)
}

impl Replay<'_> {
    /// As [`Self::replay`], with the removal of the key that the value of `change` moves from.
    fn replay_all(&mut self, change: &ChangeRecord) -> Result<(), Error> {
        let (Some(source), Some(removal)) = (&change.source, change.removal_of_source()) else {
            return self.replay(change).map(drop);
        };
        // The file has its owner, its rights and attributes, which no record has: only one that is not there is
        // written.
        let is_over = self.replay_move(change, source, &removal)?;
        // Where a hand has taken the new name, the old one is all that the value may have.
        if !is_over && self.replay(change)? {
            self.replay(&removal)?;
        }
        Ok(())
    }

    /// Makes the move `change`, if the value still has its name as the key of `source`; false where the record is to be
    /// made besides. The bytes of a large value were on the disk, with that name, before the record: one that is not
    /// there has moved, or was removed since.
    fn replay_move(
        &mut self,
        change: &ChangeRecord,
        source: &Source,
        removal: &ChangeRecord,
    ) -> Result<bool, Error> {
        let is_large = change.small.is_none();
        if self.state == FileState::NamesWhole || self.history.is_cancelled(change.sequence) {
            return Ok(is_large);
        }
        let version = match self.find(&source.key)? {
            NameKind::Value(meta, _) => Some(meta.version),
            _ => None,
        };
        let Some(version) = version.filter(|v| *v == source.version || Some(*v) == change.result)
        else {
            return Ok(is_large);
        };
        let fate = match self.find(&change.key)? {
            NameKind::Value(meta, _) => self.history.fate(change, Some(meta.version)),
            NameKind::Absent | NameKind::Folder => Fate::Apply,
            NameKind::Other => Fate::Foreign,
        };
        match fate {
            // The value has both names, or was replaced after its move.
            Fate::Keep | Fate::Compare if is_large => self.make(removal)?,
            Fate::Keep | Fate::Compare => return Ok(false),
            Fate::Foreign if !self.set_aside_older(change, change.key.as_str())? => {
                self.by_hand(&change.key);
                true
            }
            Fate::Foreign | Fate::Apply => {
                let key = source.key.clone();
                self.move_now(change, &Source { key, version })?;
                true
            }
        };
        Ok(true)
    }

    /// Moves the value of `source` as `change` says; its bytes are written anew where the disk lacks them.
    fn move_now(&mut self, change: &ChangeRecord, source: &Source) -> Result<(), Error> {
        self.done.written += 1;
        let (Some(writer), Some(version)) = (self.writer, change.result) else {
            return Ok(());
        };
        if !self.clear_the_way(change)? {
            self.by_hand(&change.key);
            return Ok(());
        }
        for _ in 0..TRIES {
            let found = commit::find(self.dir, &change.key, true, false)?;
            if commit::rename(writer, &change.key, source, &found, version)? {
                if let Some((_, value)) = &change.small
                    && !self.holds(&change.key, self.find(&change.key)?, value)?
                {
                    self.apply(writer, change)?;
                }
                return Ok(());
            }
        }
        Err(Error::new("publish", Errno::BUSY))
    }

    /// Makes `change`, if it counts; false if its key has neither what the change made nor what came later, but what a
    /// hand has placed.
    fn replay(&mut self, change: &ChangeRecord) -> Result<bool, Error> {
        let counts = match self.state {
            FileState::NamesWhole => {
                change.small.is_some() && !self.history.is_cancelled(change.sequence)
            }
            _ => self.history.may_count(change),
        };
        if !counts {
            return Ok(true);
        }
        let (key, found) = (&change.key, self.find(&change.key)?);
        let fate = match (self.state, found) {
            // Of a value that still has its name the bytes are written anew.
            (FileState::NamesWhole, NameKind::Value(Meta { version, .. }, _))
                if change.result == Some(version) =>
            {
                Fate::Compare
            }
            (FileState::NamesWhole, _) => Fate::Keep,
            (_, NameKind::Value(meta, _)) => self.history.fate(change, Some(meta.version)),
            (_, NameKind::Absent | NameKind::Folder) => self.history.fate(change, None),
            (_, NameKind::Other) => Fate::Foreign,
        };
        let is_made = match (fate, &change.small) {
            (Fate::Keep, Some(_)) => return Ok(true),
            (Fate::Compare, Some((_, value))) if self.holds(key, found, value)? => return Ok(true),
            (Fate::Keep | Fate::Compare, None) => {
                // They may be left without their last key.
                if self.writer.is_some() {
                    self.dir.leave_folders(key.folder(), None);
                }
                return Ok(true);
            }
            (Fate::Foreign, _) => {
                self.set_aside_older(change, key.as_str())? && self.make(change)?
            }
            _ => self.make(change)?,
        };
        match change.result {
            _ if !is_made => self.by_hand(key),
            Some(_) => self.done.written += 1,
            None => self.done.removed += 1,
        }
        Ok(is_made)
    }

    /// Makes `change` of what stands under its name; false if a hand has placed something in the way since.
    fn make(&self, change: &ChangeRecord) -> Result<bool, Error> {
        let Some(writer) = self.writer else {
            return Ok(true);
        };
        // Nothing is in the way of a name that was just found.
        let is_found = self.state == FileState::NamesWhole;
        let is_clear = is_found || change.result.is_none() || self.clear_the_way(change)?;
        if is_clear {
            self.apply(writer, change)?;
        }
        Ok(is_clear)
    }

    /// Has the committer make `change` of what its name stands for.
    fn apply(&self, writer: &WriteContext, change: &ChangeRecord) -> Result<(), Error> {
        let key = &change.key;
        let new_value = |(attributes, value): &(Attributes, Bytes)| NewValue {
            len: value.len() as u64,
            attributes: attributes.clone(),
            small: Some(vec![value.clone()]),
            is_journaled: true,
            ..NewValue::default()
        };
        let mut value = change.small.as_ref().map(new_value);
        for _ in 0..TRIES {
            let found = commit::find(self.dir, key, value.is_some(), false)?;
            let is_made = match (&mut value, change.result) {
                (Some(value), Some(version)) => {
                    commit::stage(writer, key, value, found.meta(), version)?;
                    commit::put(writer, key, value, &found)?
                }
                (_, None) if found.meta().is_some() => commit::delete(writer, key, &found, false)?,
                // Its folders may be left without their last key.
                _ => {
                    self.dir.leave_folders(key.folder(), None);
                    true
                }
            };
            if is_made {
                return Ok(());
            }
        }
        Err(Error::new("publish", Errno::BUSY))
    }

    /// The entry under the name of `key` now.
    fn find(&self, key: &Key<'_>) -> Result<NameKind, Error> {
        match self.dir.folder(key.folder()) {
            Ok(folder) => look_up(&folder, key.name()).map_err(Error::errno_while("look up")),
            Err(errno) if is_no_folder(errno) => Ok(NameKind::Absent),
            Err(errno) => Err(Error::new("open the folder", errno)),
        }
    }

    /// True if the file that was `found` has these bytes on the disk. One that cannot be read is written anew.
    fn holds(&self, key: &Key<'_>, found: NameKind, value: &[u8]) -> Result<bool, Error> {
        let is_whole =
            matches!(found, NameKind::Value(Meta { len, .. }, _) if len == value.len() as u64);
        if self.state != FileState::AfterCrash || !is_whole {
            return Ok(false);
        }
        let opened = self.dir.open(key, Blocking::Allowed);
        let opened = opened.map_err(Error::errno_while("open"))?;
        let read = opened.and_then(|opened| value_file::whole_blocking(opened).ok());
        Ok(read.is_some_and(|(_, bytes)| bytes == value))
    }

    /// Sets aside what stood where the key of `change` or a folder of it belongs before that; false if something stands
    /// there that a hand has placed since.
    fn clear_the_way(&self, change: &ChangeRecord) -> Result<bool, Error> {
        let key = &change.key;
        let mut folders: Vec<_> = folder_and_above(key.folder()).collect();
        folders.reverse();
        for path in folders.into_iter().skip(1) {
            match self.dir.folder(path) {
                Ok(_) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => return self.set_aside_older(change, path),
                Err(_) => return Ok(true),
            }
        }
        // The disk may have folders, and not their marks or their end.
        remove_below(self.dir, key.as_str())?;
        let left = self.dir.remove_empty_folders(key.as_str(), key.folder());
        if left == key.as_str() && self.dir.folder(left).is_ok() {
            return self.set_aside_older(change, left);
        }
        Ok(true)
    }

    /// Sets aside what stands at `path`, where the key of `change` or a folder of it belongs, if it stood there before
    /// that; false if a hand has placed it since.
    fn set_aside_older(&self, change: &ChangeRecord, path: &str) -> Result<bool, Error> {
        let (folder, name) = split(path);
        let folder = self.dir.folder(folder);
        let folder = folder.map_err(Error::errno_while("look up"))?;
        let stat = stat(&folder, name).map_err(Error::errno_while("look up"))?;
        let is_older = History::is_older(change, changed(&stat));
        if let Some(writer) = self.writer.filter(|_| is_older) {
            let aside = writer.next_version(None)?.nanos().to_string();
            set_aside(&writer.temp_dir.own, folder, name, &aside)
                .map_err(|errno| unpublished(&change.key, "set aside what is in the way", errno))?;
            let aside = format!("{ASIDE}/{aside}");
            tracing::warn!(
                path,
                aside,
                "set aside: it stood where an acknowledged value belongs"
            );
        }
        Ok(is_older)
    }

    fn by_hand(&mut self, key: &Key<'_>) {
        self.done.by_hand += 1;
        if self.writer.is_some() && self.done.by_hand <= NAMED as u64 {
            tracing::warn!(
                key = key.as_str(),
                "changed by hand since: the journal's version is not restored"
            );
        }
    }
}
