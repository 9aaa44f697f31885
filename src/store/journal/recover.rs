//! What a start makes of the journal that it finds: nothing where a server was ended in order, and a replay where the files may lack
//! what was acknowledged.
//!
//! Promises that the journal is locked before anything is written, and that nothing of it is removed before all that it has is in the
//! files, on the disk. Damage ends the start, unless the operator has said that what cannot be read is given up: then the files of
//! the journal are kept aside. A key that cannot be written is reported, and its record kept for the next start.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::super::directory_fd::open_beneath;
use super::super::error::Error;
use super::super::layout::OpenError;
use super::super::writer::Writer;
use super::checkpoint::sync_files;
use super::control::{self, Control, DirId};
use super::format::Record;
use super::kept::{self, Kept};
use super::log::{Frame, Log};
use super::place::{CLEAN, Note, Place};
use super::replay::{Done, Moment, NAMED, Replay};
use super::segment::{Segment, indices};

/// A journal of which nothing counts any more.
#[derive(Debug)]
pub(in crate::store) struct Recovered {
    pub(super) note: Note,
    /// Its directory, locked, if it was opened.
    pub(super) dir: Option<OwnedFd>,
}

/// Makes in the files what they lack of what was acknowledged, if a server was not ended in order; what is then true is noted.
/// `None` where there is no journal to go on with. What cannot be read is given up if the operator `discards` it.
pub(in crate::store) fn recover(
    place: &Place,
    writer: &Writer,
    discards: bool,
) -> Result<Option<Recovered>, OpenError> {
    let given_up = |error: OpenError| match error {
        OpenError::NoJournal { .. } if discards => {
            tracing::warn!(%error, "the journal is given up: changes that only it had are lost");
            Ok(None)
        }
        error => Err(error),
    };
    let note = match place.note() {
        Err(error @ OpenError::BadNote { .. }) if discards => {
            tracing::warn!(%error, "the note is given up: the journal below the directory is taken for its own");
            Some(place.note_by_journal().ok_or(error)?)
        }
        note => note?,
    };
    let Some(note) = note else {
        return Ok(None);
    };
    let (dir, said) = match place.find(&note, true) {
        Ok(found) => found,
        Err(OpenError::NoJournal { .. }) if note.is_clean() => {
            return Ok(Some(Recovered { note, dir: None }));
        }
        Err(error) => return given_up(error),
    };
    let recovery = Recovery {
        kept: Kept::new(note.id),
        place,
        writer,
        dir,
        note,
        said,
        discards,
    };
    recovery.run().map(Some)
}

/// Whether the files lack what the journal has, as far as a server that only reads can tell.
pub(in crate::store) fn needs_replay(place: &Place, root: &OwnedFd) -> Result<bool, OpenError> {
    let note = place.note()?;
    let Some(note) = note.filter(|note| !note.is_clean() && !note.is_same_mount(root)) else {
        return Ok(false);
    };
    let (dir, said) = place.find(&note, false)?;
    let log = Log::open(&dir, note.id, note.epoch, said.as_ref()).map_err(place.failed("read"))?;
    let has_any = log.frames.iter().any(|frame| frame.head.records > 0);
    Ok(has_any || log.damage.is_some())
}

/// What a start works with.
struct Recovery<'a> {
    place: &'a Place,
    writer: &'a Writer,
    dir: OwnedFd,
    note: Note,
    said: Option<control::State>,
    discards: bool,
    kept: Kept,
}

impl Recovery<'_> {
    fn run(mut self) -> Result<Recovered, OpenError> {
        self.retry_kept()?;
        if !self.note.is_clean() {
            self.replay_log()?;
        }
        let keys = self.kept.write(&self.dir).map_err(unreplayed(self.place))?;
        if !self.note.is_clean() {
            CLEAN.clone_into(&mut self.note.state);
            self.place.write_note(&self.note)?;
        }
        self.writer.keep(keys);
        Ok(Recovered {
            note: self.note,
            dir: Some(self.dir),
        })
    }

    /// Tries again what an earlier start could not make.
    fn retry_kept(&mut self) -> Result<(), OpenError> {
        let kept = kept::read(&self.dir, self.note.id);
        let (frames, is_whole) = kept.map_err(self.place.failed("read"))?;
        if !is_whole && !self.discards {
            return Err(damaged(self.place, "its file `kept` is damaged"));
        }
        if !frames.is_empty() {
            self.replay(&frames, Moment::AfterFailure)?;
        }
        Ok(())
    }

    /// Makes what the files lack.
    fn replay_log(&mut self) -> Result<(), OpenError> {
        let began = Instant::now();
        let log = Log::open(&self.dir, self.note.id, self.note.epoch, self.said.as_ref());
        let log = log.map_err(self.place.failed("read"))?;
        let is_suspect = self.said.as_ref().is_none_or(|said| said.is_suspect);
        let is_same_mount = self.note.is_same_mount(self.writer.dir().root());
        let is_on_disk = is_same_mount && !is_suspect && self.sync().is_ok();
        let is_given_up = self.gives_up(&log, is_on_disk)?;
        if !is_on_disk {
            let moment = match (is_same_mount, is_suspect) {
                (true, _) => Moment::Serving,
                (false, true) => Moment::AfterFailure,
                (false, false) => Moment::AfterCrash,
            };
            let done = self.replay(&log.frames, moment)?;
            let records = log.frames.iter().map(|frame| u64::from(frame.head.records));
            let records: u64 = records.sum();
            self.writer.counters().journal.replayed.add(records);
            tracing::info!(
                records,
                written = done.written,
                removed = done.removed,
                changed_by_hand = done.by_hand,
                milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "replayed the journal: a server was not ended in order"
            );
        }
        if is_given_up {
            self.give_up(&log).map_err(unreplayed(self.place))?;
        }
        Ok(())
    }

    /// A damaged log ends the start where it is needed, unless the operator has given up what is missing, or the directory is a copy of
    /// one in use: then the answer is true, and the journal's files are to be set aside.
    fn gives_up(&self, log: &Log, is_on_disk: bool) -> Result<bool, OpenError> {
        let Some(damage) = &log.damage else {
            return Ok(false);
        };
        let is_given_up = self.discards || self.was_copied_in_use()?;
        if self.discards {
            tracing::warn!(%damage, "what cannot be read of the journal is given up");
        } else if is_given_up {
            tracing::warn!(%damage, "this directory is a copy of one that was in use: what was changed while it was copied may be missing");
        } else if is_on_disk {
            // Nothing is lost: the kernel has all files.
            tracing::warn!(%damage, "the journal is damaged, and not needed");
        } else {
            return Err(damaged(self.place, damage));
        }
        Ok(is_given_up)
    }

    /// Makes what `frames` say, and puts it on the disk. What only one key is kept from stays for the next start.
    fn replay(&mut self, frames: &[Frame], moment: Moment) -> Result<Done, OpenError> {
        let (place, writer) = (self.place, self.writer);
        let replay = Replay::new(writer.dir(), Some(writer), frames, moment);
        let mut stuck = String::new();
        let done = replay.and_then(|replay| {
            let done = replay.run(|change, error| match error {
                Error::Forbidden { .. } | Error::Occupied(_) => self.kept.add(change, &error),
                error => {
                    stuck = format!("{:?}: ", change.key.as_str());
                    Err(error)
                }
            })?;
            self.sync()?;
            Ok(done)
        });
        done.map_err(|error| not_replayed(place, &stuck, &error))
    }

    /// Names what cannot be read of a damaged log, and sets the files of the journal aside.
    fn give_up(&self, log: &Log) -> Result<(), Error> {
        let mut keys = BTreeSet::new();
        for frame in log.frames.iter().filter(|frame| frame.is_behind) {
            keys.extend(frame.read()?.into_iter().filter_map(|record| match record {
                Record::Change(change) => Some(change.key.as_str().to_owned()),
                Record::Cancel(_) => None,
            }));
        }
        for key in keys.iter().take(NAMED) {
            tracing::warn!(%key, "a change of this key that was given up may have come before one that was read");
        }
        tracing::warn!(
            missing = log.gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>(),
            keys = keys.len(),
            "changes are given up, at least so many: the keys changed behind them may be among theirs, and are listed in `keys` beside the journal's old files"
        );
        self.set_aside(&keys)
    }

    /// Moves the files of the journal to a folder of their own, with a list of `keys`.
    fn set_aside(&self, keys: &BTreeSet<String>) -> Result<(), Error> {
        let name = format!("discarded-{}", self.writer.next_version(None)?.nanos());
        let set_aside = || {
            rustix::fs::mkdirat(&self.dir, &name, Mode::from(0o700))?;
            let aside = open_beneath(&self.dir, &name, OFlags::RDONLY, Mode::empty())?;
            let segments = indices(&self.dir)?
                .into_iter()
                .map(|index| index.to_string());
            for file in segments.chain([control::NAME.to_owned(), kept::NAME.to_owned()]) {
                match rustix::fs::renameat(&self.dir, &file, &aside, &file) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
            }
            let flags = OFlags::WRONLY | OFlags::CREATE;
            open_beneath(&aside, "keys", flags, Mode::from(0o600))
        };
        let list = set_aside().map_err(Error::errno_while("set the journal aside"))?;
        let keys = keys.iter().flat_map(|key| [key, "\n"]).collect::<String>();
        std::io::Write::write_all(&mut std::fs::File::from(list), keys.as_bytes())
            .map_err(Error::failed("list the keys"))
    }

    /// Whether the journal was copied from another directory and written meanwhile: then its files need not belong together.
    fn was_copied_in_use(&self) -> Result<bool, OpenError> {
        let failed = self.place.failed("look at");
        let dir = DirId::of(&self.dir).map_err(failed)?;
        let Some(said) = self.said.as_ref().filter(|said| said.dir != dir) else {
            return Ok(false);
        };
        let mut last = said.time;
        for index in indices(&self.dir).map_err(failed)? {
            let segment = Segment::open(&self.dir, index, OFlags::RDONLY);
            let frames = segment.and_then(|segment| segment.frames(self.note.id));
            let times = frames
                .map_err(failed)?
                .into_iter()
                .map(|(_, head)| head.time);
            last = times.fold(last, i64::max);
        }
        Ok(last > dir.born)
    }

    /// Puts all files on the disk. What the kernel remembers of them is not trusted by a later start, unless this one succeeds.
    fn sync(&self) -> Result<(), Error> {
        if let Some(said) = &self.said {
            let said = control::State {
                is_suspect: true,
                ..said.clone()
            };
            let written = Control::open(&self.dir).and_then(|control| control.write(&said));
            written.map_err(Error::errno_while("write the journal"))?;
        }
        sync_files(self.writer).map_err(Error::errno_while("sync the file system"))
    }
}

fn unreplayed(place: &Place) -> impl FnOnce(Error) -> OpenError {
    |error| not_replayed(place, "", &error)
}

/// The journal in `place` cannot be replayed, as `error` keeps the key named by `stuck` from being written.
fn not_replayed(place: &Place, stuck: &str, error: &Error) -> OpenError {
    let cause = std::error::Error::source(error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    OpenError::Unreplayed {
        at: place.at.clone(),
        why: format!("{stuck}{error}{cause}"),
        is_damaged: false,
    }
}

fn damaged(place: &Place, what: &str) -> OpenError {
    OpenError::Unreplayed {
        at: place.at.clone(),
        why: what.to_owned(),
        is_damaged: true,
    }
}
