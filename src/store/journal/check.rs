//! `data-server journal check`: reports the state of a journal, and what a start would replay of it. Changes nothing.

use std::path::Path;

use super::super::directory_fd::ValuesDir;
use super::super::layout::{OpenError, open_values};
use super::control::{JournalLocation, Note};
use super::log::History;
use super::recover::LeftJournal;
use super::replay::{FileState, replay};
use super::segment::Frame;
use crate::value::Error;

/// The result of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// In words.
    pub text: String,
    /// Something is missing that may have been acknowledged.
    pub is_damaged: bool,
}

/// Looks at the journal of the values in `dir`, which lies `at` another place if that is given.
pub fn check(dir: &Path, at: Option<&Path>) -> Result<Report, OpenError> {
    let mut place = JournalLocation::new(dir, at, 0);
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

    fn look(
        &mut self,
        values: &Path,
        place: &JournalLocation,
        note: &Note,
    ) -> Result<(), OpenError> {
        let dir = open_values(values, None)?;
        let at = place.at.display();
        self.say(&format!("journal {:032x} in {at}", note.id));
        self.say(match note {
            note if note.is_clean() => "closed in order: nothing is replayed",
            note if note.is_same_mount(&dir.root) => {
                "open, or left by a server that was killed: the kernel has all files"
            }
            _ => "not closed in order: a start replays it",
        });
        let found = match LeftJournal::open(place, note, false) {
            Err(_) if note.is_clean() => return Ok(()),
            Err(error) => {
                self.damage(&error.to_string());
                return Ok(());
            }
            Ok(found) => found,
        };
        let kept: u32 = found.kept.iter().map(|frame| frame.head.records).sum();
        if kept > 0 {
            self.say(&format!(
                "{kept} changes are kept of keys that could not be written"
            ));
        }
        if !found.is_kept_whole {
            self.damage("its file `kept`");
        }
        match &found.control {
            _ if note.is_clean() => return Ok(()),
            None => self.say("its file `control` cannot be read: the frames tell"),
            Some(control) if control.is_suspect => {
                self.say("a checkpoint has not succeeded: all values are written anew");
            }
            Some(_) => {}
        }
        if let Some(damage) = &found.log.damage {
            self.damage(damage);
        }
        for gap in &found.log.gaps {
            let (first, last) = (gap.start, gap.end - 1);
            self.say(&format!("changes {first} to {last} are missing"));
        }
        let replayed = self.replay(&dir, &found.log.frames);
        replayed.map_err(|error| OpenError::failed("open", values)(std::io::Error::other(error)))
    }

    /// Says what a replay would do.
    fn replay(&mut self, dir: &ValuesDir, frames: &[Frame]) -> Result<(), Error> {
        let done = replay(
            dir,
            None,
            frames,
            u64::MAX,
            History::default(),
            FileState::AfterCrash,
            |key, error| {
                let key = key.as_str();
                self.say(&format!("{key:?} cannot be looked at: {error}"));
                Ok(())
            },
        )?;
        let first = frames.first().map_or(1, |frame| frame.head.first);
        let last = frames.last().map_or(0, |frame| frame.head.end() - 1);
        let (changes, moves, written) = (done.changes, done.moves, done.written);
        let (removed, by_hand) = (done.removed, done.by_hand);
        self.say(&format!(
            "{changes} changes that can be read, from {first} to {last}, {moves} of them moves\n\
             a replay after a power failure writes {written} values, removes {removed}, and leaves {by_hand} that a hand has changed"
        ));
        Ok(())
    }
}
