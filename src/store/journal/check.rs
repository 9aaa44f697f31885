//! `data-server journal check`: what a journal has and what a start would make of it, told without changing anything.

use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::super::blocking_pool::BlockingPool;
use super::super::directory_fd::Dir;
use super::super::key::RESERVED;
use super::super::layout::OpenError;
use super::super::location::Location;
use super::place::{Note, Place};
use super::recover::Found;
use super::replay::{Moment, Replay};

/// What a check has found.
#[derive(Debug, Default)]
pub struct Report {
    /// In words.
    pub text: String,
    /// Something is missing that may have been acknowledged.
    pub is_damaged: bool,
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
    match place.note() {
        Ok(None) => report.say("no journal"),
        Ok(Some(note)) => {
            if at.is_none() {
                place.at.clone_from(&note.at);
            }
            report.look(dir, &place, &note)?;
        }
        Err(error) => report.damage(&error.to_string()),
    }
    Ok(report)
}

impl Report {
    fn say(&mut self, line: &str) {
        self.text += line;
        self.text += "\n";
    }

    fn damage(&mut self, what: &str) {
        self.is_damaged = true;
        self.say(&format!("damaged: {what}"));
    }

    fn look(&mut self, values: &Path, place: &Place, note: &Note) -> Result<(), OpenError> {
        let io = |error| OpenError::io("open", values, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(values, flags, Mode::empty());
        let root = root.map_err(|errno| io(errno.into()))?;
        self.say(&format!(
            "journal {:032x} in {}",
            note.id,
            place.at.display()
        ));
        self.say(match note {
            note if note.is_clean() => "closed in order: nothing is replayed",
            note if note.is_same_mount(&root) => {
                "open, or left by a server that was killed: the kernel has all files"
            }
            _ => "not closed in order: a start replays it",
        });
        let found = match Found::open(place, note, false) {
            Err(OpenError::NoJournal { .. }) if note.is_clean() => return Ok(()),
            Err(error @ OpenError::NoJournal { .. }) => {
                self.damage(&error.to_string());
                return Ok(());
            }
            found => found?,
        };
        if !found.kept.is_empty() {
            let count: u32 = found.kept.iter().map(|frame| frame.head.records).sum();
            self.say(&format!(
                "{count} changes are kept of keys that could not be written"
            ));
        }
        if !found.is_kept_whole {
            self.damage("its file `kept`");
        }
        if note.is_clean() {
            return Ok(());
        }
        match &found.said {
            Some(said) if said.is_suspect => {
                self.say("a checkpoint has not succeeded: all values are written anew");
            }
            Some(_) => {}
            None => self.say("its file `control` cannot be read: the frames tell"),
        }
        let log = found.log;
        if let Some(damage) = &log.damage {
            self.damage(damage);
        }
        for gap in &log.gaps {
            self.say(&format!(
                "changes {} to {} are missing",
                gap.start,
                gap.end - 1
            ));
        }
        let location = Location::new(values, &root, None).map_err(io)?;
        let disk = BlockingPool::disk(None).map_err(io)?;
        let dir = Dir::new(root, location, disk);
        let replay = Replay::new(&dir, None, &log.frames, Moment::AfterCrash);
        let done = replay.and_then(|replay| replay.run(|_, error| Err(error)));
        let done = done.map_err(|error| io(std::io::Error::other(error)))?;
        let heads = log.frames.iter().map(|frame| frame.head);
        let first = heads.clone().map(|head| head.first).min().unwrap_or(1);
        let end = heads.map(|head| head.end()).max().unwrap_or(1);
        self.say(&format!(
            "{} changes that can be read, from {first} to {}",
            done.changes,
            end - 1
        ));
        self.say(&format!(
            "a replay after a power failure writes {} values, removes {}, and leaves {} that a hand has changed",
            done.written, done.removed, done.by_hand
        ));
        Ok(())
    }
}
