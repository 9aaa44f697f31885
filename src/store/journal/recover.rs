//! Recovery: a start goes on with the journal of a server that was ended in order, and replays it where the files may
//! lack acknowledged changes.
//!
//! Promises that the journal is locked before anything is written, and that nothing of it is removed before all that it
//! has is in the files, on the disk. Damage ends the start, unless the operator gives up what cannot be read: then the
//! files of the journal are kept aside. The record of a key that cannot be written is kept for the next start.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::layout::OpenError;
use super::super::write_context::WriteContext;
use super::control::{CLEAN, CONTROL, Control, DirId, JournalLocation, Note};
use super::format::ChangeRecord;
use super::kept::{self, KEPT};
use super::log::{History, UnsettledLog};
use super::replay::{FileState, NAMED, ReplayReport, replay};
use super::segment::{Frame, Segment};
use crate::transfer::random;
use crate::value::{Error, Key};

/// A journal of which nothing counts any more.
#[derive(Debug)]
pub struct Recovered {
    pub note: Note,
    /// Its directory, locked, if it was opened.
    pub dir: Option<OwnedFd>,
}

impl Recovered {
    /// Begins a journal where there was none. Its note is written first: an identifier without a note would look like
    /// another directory's.
    pub fn begin(place: &JournalLocation) -> Result<Self, OpenError> {
        let note = Note {
            id: random().map_err(place.failed("draw random bytes for"))?,
            epoch: 0,
            at: place.at.clone(),
            state: CLEAN.to_owned(),
        };
        place.write_note(&note)?;
        Ok(Self { note, dir: None })
    }
}

/// A journal as the last server left it.
pub struct LeftJournal<'a> {
    place: &'a JournalLocation,
    note: &'a Note,
    dir: OwnedFd,
    /// Its control file, if that can be read.
    pub control: Option<Control>,
    /// Changes of keys that could not be written, and whether the file of them is whole.
    pub kept: Vec<Frame>,
    pub is_kept_whole: bool,
    /// Empty where the server was ended in order.
    pub log: UnsettledLog,
}

/// Replays the journal if a server was not ended in order, and notes that. `None` where there is no journal to go on
/// with. Damage is given up if the operator `discards` it.
pub fn recover(
    place: &JournalLocation,
    writer: &WriteContext,
    discards: bool,
) -> Result<Option<Recovered>, OpenError> {
    let note = match place.note() {
        Err(error @ OpenError::BadNote { .. }) if discards => {
            tracing::warn!(%error, "the note is given up: the journal below the directory is taken for its own");
            Some(place.note_by_journal().ok_or(error)?)
        }
        note => note?,
    };
    let Some(mut note) = note else {
        return Ok(None);
    };
    let found = match LeftJournal::find(place, &note, true) {
        Err(error @ OpenError::NoJournal { .. }) if discards => {
            tracing::warn!(%error, "the journal is given up: changes that only it had are lost");
            return Ok(None);
        }
        found => found?,
    };
    let Some(found) = found else {
        return Ok(Some(Recovered { note, dir: None }));
    };
    let recovery = Recovery {
        left: &found,
        writer,
        discards,
        kept: Vec::new(),
        has_failed: false,
    };
    kept::refuse(writer, &recovery.run()?);
    let dir = Some(found.dir);
    if !note.is_clean() {
        CLEAN.clone_into(&mut note.state);
        place.write_note(&note)?;
    }
    Ok(Some(Recovered { note, dir }))
}

/// True if the files lack changes of the journal, as far as a server that only reads can tell.
pub fn needs_replay(place: &JournalLocation, root: &OwnedFd) -> Result<bool, OpenError> {
    let Some(note) = place.note()? else {
        return Ok(false);
    };
    let Some(left) = LeftJournal::find(place, &note, false)? else {
        return Ok(false);
    };
    if left.keeps_any() {
        return Ok(true);
    }
    let control = left.control.as_ref();
    let is_suspect = control.is_none_or(|control| control.is_suspect);
    if note.is_clean() || note.is_same_mount(root) && !is_suspect {
        return Ok(false);
    }
    let mut frames = left.log.frames.iter();
    Ok(left.log.damage.is_some() || frames.any(|frame| frame.head.records > 0))
}

impl<'a> LeftJournal<'a> {
    /// As [`Self::open`]; `None` where it is not needed, as the directory was closed in order and the journal that it
    /// had keeps no records.
    fn find(
        place: &'a JournalLocation,
        note: &'a Note,
        is_to_be_written: bool,
    ) -> Result<Option<Self>, OpenError> {
        let found = Self::open(place, note, is_to_be_written);
        if note.is_clean() && matches!(found, Err(OpenError::NoJournal { .. })) {
            let mut noted = place.clone();
            noted.at.clone_from(&note.at);
            if !LeftJournal::open(&noted, note, false).is_ok_and(|left| left.keeps_any()) {
                return Ok(None);
            }
        }
        found.map(Some)
    }

    /// The journal that `note` is of; locked, if it `is_to_be_written`.
    pub fn open(
        place: &'a JournalLocation,
        note: &'a Note,
        is_to_be_written: bool,
    ) -> Result<Self, OpenError> {
        let missing = || OpenError::NoJournal {
            at: place.at.clone(),
            noted: note.at.clone(),
        };
        if !place.at.exists() {
            return Err(missing());
        }
        let (dir, failed) = (place.open(is_to_be_written)?, place.failed("read"));
        let control = Control::read(&dir).map_err(failed)?;
        let is_other = |control: &Control| control.epoch != note.epoch && !note.is_clean();
        if place.id() != Some(note.id) || control.as_ref().is_some_and(is_other) {
            return Err(missing());
        }
        let (kept, is_kept_whole) = kept::read(&dir, note.id).map_err(failed)?;
        let mut log = UnsettledLog::default();
        if !note.is_clean() {
            let read = UnsettledLog::open(&dir, note.id, note.epoch, control.as_ref());
            log = read.map_err(failed)?;
        }
        Ok(Self {
            place,
            note,
            dir,
            control,
            kept,
            is_kept_whole,
            log,
        })
    }

    fn keeps_any(&self) -> bool {
        !self.kept.is_empty() || !self.is_kept_whole
    }
}

/// A recovery under way.
struct Recovery<'a> {
    left: &'a LeftJournal<'a>,
    writer: &'a WriteContext,
    /// The operator gives up what cannot be read.
    discards: bool,
    /// The changes that could not be made for their key alone.
    kept: Vec<ChangeRecord>,
    /// A sync has failed: the kernel tells that once, and it may be of any file.
    has_failed: bool,
}

impl Recovery<'_> {
    /// Makes the changes that the files lack; returns those that could not be made for their key alone.
    fn run(mut self) -> Result<Vec<ChangeRecord>, OpenError> {
        let left = self.left;
        if !left.is_kept_whole && !self.discards {
            return Err(left.damaged("its file `kept` is damaged"));
        }
        // A frame that is lost may be the last word on any key, also on one whose other frames are whole.
        if left.is_kept_whole && !left.kept.is_empty() {
            self.replay(&left.kept, FileState::AfterFailure)?;
        }
        let is_log_given_up = !left.note.is_clean() && self.replay_log()?;
        let finish = || {
            if is_log_given_up || !left.is_kept_whole {
                left.give_up(self.writer)?;
            }
            if !self.kept.is_empty() || !left.kept.is_empty() {
                kept::write(&left.dir, left.note.id, &self.kept)?;
            }
            Ok(())
        };
        finish().map_err(|error| left.unreplayed("", &error))?;
        Ok(self.kept)
    }

    /// As [`Self::replay`], of the log; whether what cannot be read of it is given up.
    fn replay_log(&mut self) -> Result<bool, OpenError> {
        let (began, left) = (Instant::now(), self.left);
        let control = left.control.as_ref();
        let is_suspect = self.has_failed || control.is_none_or(|control| control.is_suspect);
        let is_same_mount = left.note.is_same_mount(&self.writer.dir().root);
        let is_on_disk = is_same_mount && !is_suspect && left.sync(self.writer).is_ok();
        let is_given_up = left.gives_up(self.discards, is_on_disk)?;
        if is_on_disk {
            return Ok(is_given_up);
        }
        let state = match (is_same_mount, is_suspect) {
            (true, _) => FileState::NamesWhole,
            (false, true) => FileState::AfterFailure,
            (false, false) => FileState::AfterCrash,
        };
        let done = self.replay(&left.log.frames, state)?;
        let frames = left.log.frames.iter();
        let records: u64 = frames.map(|frame| u64::from(frame.head.records)).sum();
        self.writer.counters.journal.replayed.add(records);
        tracing::info!(
            records,
            written = done.written,
            removed = done.removed,
            changed_by_hand = done.by_hand,
            milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "replayed the journal: a server was not ended in order"
        );
        Ok(is_given_up)
    }

    /// Makes the changes of `frames`, and puts them on the disk. The changes of a key that fails alone are kept for the
    /// next start.
    fn replay(&mut self, frames: &[Frame], state: FileState) -> Result<ReplayReport, OpenError> {
        let mut done = self.make(frames, state)?;
        if self.left.sync(self.writer).is_err() {
            self.has_failed = true;
            // The kernel reports a failure once, and this one may be of what an earlier server wrote, on a disk that is
            // well again. What was made now may be lost with it.
            let state = match state {
                FileState::AfterCrash => FileState::AfterFailure,
                state => state,
            };
            done = self.make(frames, state)?;
            let synced = self.left.sync(self.writer);
            synced.map_err(|error| self.left.unreplayed("", &error))?;
        }
        self.kept.append(&mut done.stuck);
        Ok(done)
    }

    fn make(&self, frames: &[Frame], state: FileState) -> Result<ReplayReport, OpenError> {
        let mut stuck = String::new();
        let failed = |key: &Key<'_>, error| {
            stuck = format!("{:?}: ", key.as_str());
            kept::keep(self.writer, key, error)
        };
        let done = replay(
            self.writer.dir(),
            Some(self.writer),
            frames,
            u64::MAX,
            History::default(),
            state,
            failed,
        );
        done.map_err(|error| self.left.unreplayed(&stuck, &error))
    }
}

impl LeftJournal<'_> {
    /// A damaged log ends the start where it is needed, unless the operator has given up what is missing, or the
    /// directory is a copy of one in use: then the answer is true, and the journal's files are to be set aside.
    fn gives_up(&self, discards: bool, is_on_disk: bool) -> Result<bool, OpenError> {
        let Some(damage) = &self.log.damage else {
            return Ok(false);
        };
        let was_copied = self.was_copied_in_use();
        if discards {
            tracing::warn!(%damage, "what cannot be read of the journal is given up");
        } else if was_copied.map_err(self.place.failed("look at"))? {
            tracing::warn!(%damage, "this directory is a copy of one that was in use: what was changed while it was copied may be missing");
        } else if is_on_disk {
            // Nothing is lost: the kernel has all files.
            tracing::warn!(%damage, "the journal is damaged, and not needed");
            return Ok(false);
        } else {
            return Err(self.damaged(damage));
        }
        Ok(true)
    }

    /// Logs the changes that cannot be read of a damaged log, and sets the files of the journal aside.
    fn give_up(&self, writer: &WriteContext) -> Result<(), Error> {
        let mut keys = BTreeSet::new();
        let kept = if self.is_kept_whole {
            &[][..]
        } else {
            &self.kept
        };
        for frame in self.log.behind().iter().chain(kept) {
            let changes = frame.changes()?;
            keys.extend(changes.map(|change| change.key.as_str().to_owned()));
        }
        for key in keys.iter().take(NAMED) {
            tracing::warn!(%key, "a change of this key may be among those that are given up");
        }
        let missing: u64 = self.log.gaps.iter().map(|gap| gap.end - gap.start).sum();
        tracing::warn!(
            missing,
            keys = keys.len(),
            "changes are given up, at least so many: the keys changed behind them may be among theirs, and are listed in `keys` beside the journal's old files"
        );
        let name = format!("discarded-{}", writer.next_version(None)?.nanos());
        let keys = keys.iter().flat_map(|key| [key, "\n"]).collect::<String>();
        self.set_aside(&self.place.at.join(name), &keys)
            .map_err(Error::failed("set the journal aside"))
    }

    /// Moves the files of the journal to the folder `aside`, with a list of `keys`.
    fn set_aside(&self, aside: &Path, keys: &str) -> std::io::Result<()> {
        DirBuilder::new().mode(0o700).create(aside)?;
        let segments = Segment::all(&self.dir, OFlags::RDONLY)?;
        let segments = segments.iter().map(|segment| segment.index.to_string());
        for file in segments.chain([CONTROL.to_owned(), KEPT.to_owned()]) {
            match fs::rename(self.place.at.join(&file), aside.join(&file)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                moved => moved?,
            }
        }
        fs::write(aside.join("keys"), keys)
    }

    /// True if the journal was copied from another directory and written meanwhile: then its files need not belong
    /// together.
    fn was_copied_in_use(&self) -> Result<bool, Errno> {
        let dir = DirId::of(&self.dir)?;
        Ok(self.control.as_ref().is_some_and(|control| {
            control.dir != dir && dir.born < self.log.latest.max(control.time)
        }))
    }

    /// Syncs all files. Unless that succeeds, later starts do not trust what the kernel has in memory.
    fn sync(&self, writer: &WriteContext) -> Result<(), Error> {
        if let Some(control) = &self.control {
            let mut control = control.clone();
            control.is_suspect = true;
            let written = control.write(&self.dir, false);
            written.map_err(Error::errno_while("write the journal"))?;
        }
        let synced = writer.sync_files();
        synced.map_err(Error::errno_while("sync the file system"))
    }

    fn damaged(&self, what: &str) -> OpenError {
        let advice = ", or look with `data-server journal check` at what it has, and give up what cannot be read with --journal discard";
        self.refused(what, advice)
    }

    /// The error of a journal that cannot be replayed: the key named by `stuck` cannot be written, by `error`.
    fn unreplayed(&self, stuck: &str, error: &Error) -> OpenError {
        let cause = std::error::Error::source(error);
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        self.refused(&format!("{stuck}{error}{cause}"), "")
    }

    fn refused(&self, why: &str, advice: &str) -> OpenError {
        let at = self.place.at.display();
        OpenError::Refused(format!(
            "the journal in {at} cannot be replayed ({why}); nothing of it was changed: mend that and start again{advice}"
        ))
    }
}
