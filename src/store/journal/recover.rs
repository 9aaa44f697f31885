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
use super::control::{self, Control, DirId, Position, now};
use super::format::Record;
use super::history::History;
use super::kept::Kept;
use super::log::{Log, Unreadable, indices, last_written};
use super::place::{Note, Place, State, read_id};
use super::replay::{Moment, NAMED, Replay};

/// Where a journal goes on.
#[derive(Debug)]
pub(in crate::store) struct Recovered {
    pub(super) id: u128,
    pub(super) from: Position,
    /// Its directory, locked, if it was opened.
    pub(super) dir: Option<OwnedFd>,
}

/// Why a replay ended before its end.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{key:?}: {error}")]
    Unwritable { key: String, error: Error },
    #[error("{0}")]
    Failed(#[from] Error),
    #[error("its file `kept` is damaged")]
    Kept,
}

/// Makes in the files what they lack of what was acknowledged, if a server was not ended in order; what is then true is noted.
/// `None` where there is no journal to go on with. What cannot be read is given up if the operator `discards` it.
pub(in crate::store) fn recover(
    place: &Place,
    writer: &Writer,
    discards: bool,
) -> Result<Option<Recovered>, OpenError> {
    let opened = place
        .note()
        .and_then(|note| note.map(|note| open_noted(place, note)).transpose());
    let (note, dir) = match opened {
        Ok(None) => return Ok(None),
        Ok(Some(opened)) => opened,
        Err(error @ (OpenError::NoJournal { .. } | OpenError::BadNote { .. })) if discards => {
            tracing::warn!(%error, "the journal is given up: changes that only it had are lost");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let Some(dir) = dir else {
        return Ok(Some(Recovered {
            id: note.id,
            from: Position::START,
            dir: None,
        }));
    };
    let recovery = Recovery {
        said: Control::read(&dir).map_err(place.failed("read"))?,
        place,
        writer,
        dir,
        note,
        discards,
    };
    recovery.run().map(Some)
}

/// Whether the files lack what the journal has, as far as a server that only reads can tell.
pub(in crate::store) fn needs_replay(place: &Place, root: &OwnedFd) -> Result<bool, OpenError> {
    let Some(note) = place.note()? else {
        return Ok(false);
    };
    if note.is_same_mount(root) || note.state == State::Clean {
        return Ok(false);
    }
    let dir = open_of(place, &note, place.open()?)?;
    let control = Control::read(&dir).map_err(place.failed("read"))?;
    let log = Log::open(&dir, note.id, note.epoch, control);
    let history = log.and_then(|log| log.history());
    Ok(history.map_or(true, |(.., records)| records > 0))
}

/// The directory of the journal that the note is of, locked; `None` where it is gone, and not needed.
fn open_noted(place: &Place, note: Note) -> Result<(Note, Option<OwnedFd>), OpenError> {
    let is_clean = note.state == State::Clean;
    if is_clean && !place.at.exists() {
        return Ok((note, None));
    }
    let dir = place.at.exists().then(|| place.lock()).transpose()?;
    match dir
        .ok_or_else(|| missing(place, &note))
        .and_then(|dir| open_of(place, &note, dir))
    {
        Ok(dir) => Ok((note, Some(dir))),
        Err(_) if is_clean => Ok((note, None)),
        Err(error) => Err(error),
    }
}

/// `dir`, if it has the journal that the note is of, as the last server left it.
fn open_of(place: &Place, note: &Note, dir: OwnedFd) -> Result<OwnedFd, OpenError> {
    let said = Control::read(&dir).map_err(place.failed("read"))?;
    let is_last = note.state == State::Clean || said.is_none_or(|said| said.epoch == note.epoch);
    if is_last && read_id(&dir) == Some(note.id) {
        Ok(dir)
    } else {
        Err(missing(place, note))
    }
}

fn missing(place: &Place, note: &Note) -> OpenError {
    OpenError::NoJournal {
        at: place.at.clone(),
        noted: note.at.clone(),
    }
}

/// What a start works with.
struct Recovery<'a> {
    place: &'a Place,
    writer: &'a Writer,
    dir: OwnedFd,
    note: Note,
    said: Option<control::State>,
    discards: bool,
}

impl Recovery<'_> {
    fn run(self) -> Result<Recovered, OpenError> {
        let mut kept = Kept::new(self.note.id);
        let done = self.retry_kept(&mut kept);
        let from = done.and_then(|()| match self.note.state {
            State::Clean => Ok(self.said.as_ref().map_or(Position::START, |s| s.settled)),
            State::Open(_) => self.replay_log(&mut kept),
        });
        let from = from.map_err(|error| self.unreplayed(&error))?;
        let keys = kept.write(&self.dir);
        let keys = keys.map_err(|error| self.unreplayed(&error.into()))?;
        self.close(from)?;
        self.writer.keep(keys);
        Ok(Recovered {
            id: self.note.id,
            from,
            dir: Some(self.dir),
        })
    }

    /// All before `from` is in the files, on the disk.
    fn close(&self, from: Position) -> Result<(), OpenError> {
        if self.note.state == State::Clean {
            return Ok(());
        }
        let said = control::State {
            epoch: self.note.epoch,
            dir: DirId::of(&self.dir).map_err(self.place.failed("look at"))?,
            time: now(),
            settled: from,
            size: 0,
            is_suspect: false,
            live: Vec::new(),
        };
        let control = Control::open(&self.dir).and_then(|control| control.write_durably(&said));
        control.map_err(self.place.failed("write"))?;
        self.place.write_note(&Note {
            state: State::Clean,
            ..self.note.clone()
        })
    }

    /// Tries again what an earlier start could not make.
    fn retry_kept(&self, kept: &mut Kept) -> Result<(), ReplayError> {
        let frames = Kept::read(&self.dir).map_err(Error::failed("read kept records"))?;
        let mut history = History::default();
        let is_whole = kept.each(&frames, |record| {
            history.add(&record);
            Ok::<_, ReplayError>(())
        })?;
        if !is_whole && !self.discards {
            return Err(ReplayError::Kept);
        }
        let mut replay = Replay::new(self.writer, &history, Moment::AfterFailure);
        let old = Kept::new(self.note.id);
        old.each(&frames, |record| take(&mut replay, kept, &record))?;
        if !frames.is_empty() {
            self.sync()?;
        }
        Ok(())
    }

    /// Makes what the files lack; where the log ends.
    fn replay_log(&self, kept: &mut Kept) -> Result<Position, ReplayError> {
        let began = Instant::now();
        let (id, epoch) = (self.note.id, self.note.epoch);
        let log = match Log::open(&self.dir, id, epoch, self.said.clone()) {
            Err(error) if self.discards => {
                tracing::warn!(%error, "the journal is given up: changes that only it had are lost");
                self.set_aside(&BTreeSet::new())?;
                return Ok(Position::START);
            }
            log => log?,
        };
        let moment = self.moment();
        let is_on_disk = moment == Moment::Serving && !self.is_suspect() && {
            self.suspect()?;
            sync_files(self.writer).is_ok()
        };
        let (history, end, records) = match log.history() {
            Err(error @ Unreadable::Damaged { .. }) if self.discards => {
                tracing::warn!(%error, "what cannot be read of the journal is given up");
                return self.give_up(&log, moment, kept);
            }
            Err(error @ Unreadable::Damaged { .. }) if self.was_copied_in_use()? => {
                tracing::warn!(%error, "this directory is a copy of one that was in use: what was changed while it was copied may be missing");
                return self.give_up(&log, moment, kept);
            }
            // Nothing is lost: the kernel has all files.
            Err(error @ Unreadable::Damaged { .. }) if is_on_disk => {
                tracing::warn!(%error, "the journal is damaged, and not needed");
                let end = log.each_readable(|_| Ok::<_, Unreadable>(()), |_, _| {})?;
                return Ok(end);
            }
            history => history?,
        };
        if is_on_disk {
            return Ok(end);
        }
        let mut replay = Replay::new(self.writer, &history, moment);
        log.each(|record| take(&mut replay, kept, &record))?;
        self.sync()?;
        let done = replay.done;
        self.writer.counters().journal.replayed.add(records);
        tracing::info!(
            records,
            written = done.written,
            removed = done.removed,
            changed_by_hand = done.by_hand,
            milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "replayed the journal: a server was not ended in order"
        );
        Ok(end)
    }

    /// Replays what can be read of a damaged log, names what cannot, and sets its files aside.
    fn give_up(&self, log: &Log, moment: Moment, kept: &mut Kept) -> Result<Position, ReplayError> {
        let (mut history, mut missing, mut keys) = (History::default(), 0, BTreeSet::new());
        let is_damaged = std::cell::Cell::new(false);
        log.each_readable(
            |record| {
                if let (true, Record::Change(change)) = (is_damaged.get(), &record) {
                    keys.insert(Box::<str>::from(change.key));
                }
                history.add(&record);
                Ok::<_, ReplayError>(())
            },
            |from, to| {
                is_damaged.set(true);
                missing += to - from;
            },
        )?;
        let mut replay = Replay::new(self.writer, &history, moment);
        let end = log.each_readable(|record| take(&mut replay, kept, &record), |_, _| {})?;
        self.sync()?;
        for key in keys.iter().take(NAMED) {
            tracing::warn!(%key, "a change of this key that was given up may have come before one that was read");
        }
        tracing::warn!(
            missing,
            keys = keys.len(),
            "changes are given up, at least so many: the keys changed behind them may be among theirs, and are listed in `keys` beside the journal's old files"
        );
        self.set_aside(&keys)?;
        Ok(end)
    }

    /// Moves the files of the journal to a folder of their own, with a list of `keys`.
    fn set_aside(&self, keys: &BTreeSet<Box<str>>) -> Result<(), Error> {
        let failed = || Error::errno_while("set the journal aside");
        let name = format!("discarded-{}", self.writer.next_version(None)?.nanos());
        rustix::fs::mkdirat(&self.dir, &name, Mode::from(0o700)).map_err(failed())?;
        let aside = open_beneath(&self.dir, &name, OFlags::RDONLY, Mode::empty());
        let aside = aside.map_err(failed())?;
        let segments = indices(&self.dir).map_err(failed())?;
        let segments = segments.iter().map(ToString::to_string);
        for file in segments.chain(["control".to_owned(), "kept".to_owned()]) {
            match rustix::fs::renameat(&self.dir, &file, &aside, &file) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed()(errno)),
            }
        }
        let list = keys.iter().flat_map(|key| [key, "\n"]).collect::<String>();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = open_beneath(&aside, "keys", flags, Mode::from(0o600)).map_err(failed())?;
        let written = std::io::Write::write_all(&mut std::fs::File::from(file), list.as_bytes());
        written.map_err(Error::failed("list the keys"))
    }

    /// Whether the journal was copied from another directory and written meanwhile: then its files need not belong together.
    fn was_copied_in_use(&self) -> Result<bool, ReplayError> {
        let dir = DirId::of(&self.dir).map_err(Unreadable::from)?;
        let Some(said) = self.said.as_ref().filter(|said| said.dir != dir) else {
            return Ok(false);
        };
        let last = last_written(&self.dir, self.note.id).map_err(Unreadable::from)?;
        Ok(last.max(said.time) > dir.born)
    }

    fn is_suspect(&self) -> bool {
        self.said.as_ref().is_none_or(|said| said.is_suspect)
    }

    fn moment(&self) -> Moment {
        let is_same = self.note.is_same_mount(self.writer.dir().root());
        match (is_same, self.is_suspect()) {
            (true, _) => Moment::Serving,
            (false, true) => Moment::AfterFailure,
            (false, false) => Moment::AfterCrash,
        }
    }

    /// What the kernel remembers of the files is not trusted by a later start, unless this one succeeds.
    fn suspect(&self) -> Result<(), Error> {
        let Some(said) = &self.said else {
            return Ok(());
        };
        let said = control::State {
            is_suspect: true,
            ..said.clone()
        };
        let written = Control::open(&self.dir).and_then(|control| control.write(&said));
        written.map_err(Error::errno_while("write the journal"))
    }

    fn sync(&self) -> Result<(), Error> {
        self.suspect()?;
        sync_files(self.writer).map_err(Error::errno_while("sync the file system"))
    }

    fn unreplayed(&self, error: &ReplayError) -> OpenError {
        OpenError::Unreplayed {
            at: self.place.at.clone(),
            why: error.to_string(),
            is_damaged: matches!(error, ReplayError::Unreadable(_) | ReplayError::Kept),
        }
    }
}

/// Makes what the record says. What only this key is kept from stays for the next start.
fn take(replay: &mut Replay<'_>, kept: &mut Kept, record: &Record<'_>) -> Result<(), ReplayError> {
    let Err(error) = replay.take(record) else {
        return Ok(());
    };
    let Record::Change(change) = record else {
        return Ok(());
    };
    match error {
        Error::Forbidden { .. } | Error::Occupied(_) => Ok(kept.add(change, &error)?),
        error => Err(ReplayError::Unwritable {
            key: change.key.to_owned(),
            error,
        }),
    }
}
