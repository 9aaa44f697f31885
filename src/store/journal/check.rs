//! `data-server journal check`: what a journal has and what a start would make of it, told without changing anything.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::super::blocking_pool::BlockingPool;
use super::super::directory_fd::{Dir, Entry};
use super::super::key::{Key, RESERVED};
use super::super::layout::OpenError;
use super::super::location::Location;
use super::control::{self, Control};
use super::format::{Operation, Record};
use super::history::{Fate, History};
use super::kept::Kept;
use super::log::{Log, Unreadable};
use super::place::{Note, Place, State, read_id};
use super::replay::find;

/// What a check has found.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    /// Something is missing that may have been acknowledged.
    pub is_damaged: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Looks at the journal of the values in `dir`, which lies `at` another place if that is given.
pub fn check(dir: &Path, at: Option<&Path>) -> Result<Report, OpenError> {
    let own = dir.join(RESERVED);
    let mut place = Place {
        at: at.map_or_else(|| own.join("journal"), Path::to_owned),
        own,
        size: 0,
    };
    let mut report = Report::default();
    let note = match place.note() {
        Ok(Some(note)) => note,
        Ok(None) => {
            report.lines.push("no journal".to_owned());
            return Ok(report);
        }
        Err(error) => {
            report.damage(&error);
            return Ok(report);
        }
    };
    if at.is_none() {
        place.at.clone_from(&note.at);
    }
    report.lines.push(format!(
        "journal {:032x} in {}",
        note.id,
        place.at.display()
    ));
    report.look(dir, &place, &note)?;
    Ok(report)
}

impl Report {
    fn damage(&mut self, what: &dyn fmt::Display) {
        self.is_damaged = true;
        self.lines.push(format!("damaged: {what}"));
    }

    fn look(&mut self, values: &Path, place: &Place, note: &Note) -> Result<(), OpenError> {
        let root = open(values)?;
        let in_order = match &note.state {
            State::Clean => "closed in order: nothing is replayed",
            State::Open(_) if note.is_same_mount(&root) => {
                "open, or left by a server that was killed: the kernel has all files"
            }
            State::Open(_) => "not closed in order: a start replays it",
        };
        self.lines.push(in_order.to_owned());
        let journal = match place.open() {
            Ok(journal) => journal,
            Err(_) if note.state == State::Clean => return Ok(()),
            Err(error) => {
                self.damage(&error);
                return Ok(());
            }
        };
        if read_id(&journal) != Some(note.id) {
            self.damage(&"its file `id` is missing or names another journal");
        }
        let said = Control::read(&journal).map_err(place.failed("read"))?;
        self.say(said.as_ref(), note);
        self.count_kept(&journal, note)
            .map_err(|error| OpenError::io("read", &place.at, error))?;
        if note.state == State::Clean {
            return Ok(());
        }
        match Log::open(&journal, note.id, note.epoch, said) {
            Ok(log) => self.read(values, root, &log),
            Err(error) => {
                self.damage(&error);
                Ok(())
            }
        }
    }

    fn say(&mut self, said: Option<&control::State>, note: &Note) {
        match said {
            Some(said) => {
                let at = said.settled;
                self.lines.push(format!(
                    "settled before change {}, in generation {} at byte {}",
                    at.sequence, at.generation, at.offset
                ));
                if said.is_suspect {
                    let line = "a checkpoint has not succeeded: all values are written anew";
                    self.lines.push(line.to_owned());
                }
                if said.epoch != note.epoch && note.state != State::Clean {
                    self.damage(&"its file `control` is of another run");
                }
            }
            None if note.state == State::Clean => {}
            None => self
                .lines
                .push("its file `control` cannot be read: the frames tell".to_owned()),
        }
    }

    fn count_kept(&mut self, journal: &OwnedFd, note: &Note) -> std::io::Result<()> {
        let (frames, mut count) = (Kept::read(journal)?, 0);
        let is_whole = Kept::new(note.id).each(&frames, |_| {
            count += 1;
            Ok::<_, std::io::Error>(())
        })?;
        if count > 0 {
            let line = format!("{count} changes are kept of keys that could not be written");
            self.lines.push(line);
        }
        if !is_whole {
            self.damage(&"its file `kept`");
        }
        Ok(())
    }

    fn read(&mut self, values: &Path, root: OwnedFd, log: &Log) -> Result<(), OpenError> {
        for used in &log.used {
            self.lines.push(format!(
                "segment {}: generation {}, from change {}",
                used.segment.index(),
                used.generation,
                used.first
            ));
        }
        let failed =
            |error: Unreadable| OpenError::io("read", values, std::io::Error::other(error));
        let (mut history, mut count) = (History::default(), 0_u64);
        let mut gaps = Vec::new();
        if let Err(error) = log.each(|_| Ok::<_, Unreadable>(())) {
            self.damage(&error);
        }
        let end = log
            .each_readable(
                |record| {
                    count += u64::from(matches!(record, Record::Change(_)));
                    history.add(&record);
                    Ok(())
                },
                |from, to| gaps.push(format!("changes {from} to {} are missing", to - 1)),
            )
            .map_err(failed)?;
        self.lines.extend(gaps);
        self.lines.push(format!(
            "{count} changes that can be read, from {} to {}",
            log.from.sequence,
            end.sequence.saturating_sub(1)
        ));
        self.foretell(values, root, log, &history).map_err(failed)
    }

    /// What a replay would do, but for values whose file has their version: their bytes are not compared here.
    fn foretell(
        &mut self,
        values: &Path,
        root: OwnedFd,
        log: &Log,
        history: &History,
    ) -> Result<(), Unreadable> {
        let location = Location::new(values, &root, None);
        let disk = BlockingPool::disk(None);
        let (Ok(location), Ok(disk)) = (location, disk) else {
            return Ok(());
        };
        let dir = Dir::new(root, location, disk);
        let (mut written, mut compared, mut removed, mut by_hand) = (0, 0, 0, 0);
        log.each_readable(
            |record| {
                let Record::Change(change) = &record else {
                    return Ok(());
                };
                let Ok(key) = Key::new(change.key) else {
                    return Ok(());
                };
                if !history.may_count(change) {
                    return Ok(());
                }
                let version = match find(&dir, &key) {
                    Ok(Entry::Value(meta)) => Some(meta.version),
                    _ => None,
                };
                match history.fate(change, version) {
                    Fate::Made if change.operation == Operation::Delete => removed += 1,
                    Fate::Made => written += 1,
                    Fate::Compared => compared += 1,
                    Fate::Foreign => by_hand += 1,
                    Fate::Stays => {}
                }
                Ok::<_, Unreadable>(())
            },
            |_, _| {},
        )?;
        self.lines.push(format!(
            "a replay after a power failure writes {written} values, compares {compared}, removes {removed}, and leaves {by_hand} that a hand has changed"
        ));
        Ok(())
    }
}

fn open(path: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| OpenError::io("open", path, errno.into()))
}
