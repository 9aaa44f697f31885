//! A hand in the directory: it writes, moves and removes files and moves folders while the server serves, and notes
//! that as a client notes what it asked for.

use std::io::{ErrorKind, Result};

use super::client::{Stage, value};
use crate::prelude::*;
use crate::support::history::{Asked, Event, Only, PLACES, Told, UNTOLD, at};

pub(super) struct Hand {
    dir: DataDir,
    /// Where it writes a file, beside the directory.
    aside: PathBuf,
    dice: Random,
    pub(super) events: Vec<Event>,
}

impl Hand {
    pub(super) fn new(number: usize, dir: &DataDir, dice: Random) -> Self {
        Self {
            dir: dir.clone(),
            aside: dir.outside(&format!("aside-{number}")),
            dice,
            events: Vec::new(),
        }
    }

    /// Does so many things, each once the clients have done some more, of so many in all.
    pub(super) fn play(&mut self, stage: &Stage, times: usize, operations: usize) {
        for time in 0..times {
            let due = operations * time / times;
            while stage.operations.load(Ordering::Relaxed) < due && !stage.may_break() {
                thread::yield_now();
            }
            let call = stage.now();
            match self.act(stage) {
                Ok(asked) => {
                    let event = at(call, stage.now(), asked, Told::Done(UNTOLD));
                    let by_hand = true;
                    self.events.push(Event { by_hand, ..event });
                }
                // There was nothing, or a folder went or came meanwhile.
                Err(error) => {
                    use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
                    let kind = error.kind();
                    let is_right = matches!(kind, AlreadyExists | DirectoryNotEmpty | NotFound);
                    assert!(is_right, "{error}");
                }
            }
        }
    }

    fn act(&mut self, stage: &Stage) -> Result<Asked> {
        let place = self.dice.usize(..PLACES);
        let [file, other] = [place, place ^ 2].map(|place| self.dir.file(stage.key(place)));
        let above = |path: &Path| fs::create_dir_all(path.parent().expect("a folder"));
        Ok(match self.dice.u64(..6) {
            0..=1 => {
                let write = stage.write();
                fs::write(&self.aside, value(write))?;
                above(&file)?;
                fs::rename(&self.aside, file)?;
                Asked::Put(place, write, Only::Always)
            }
            2 => {
                fs::remove_file(file)?;
                Asked::Delete(place, Only::Always)
            }
            3 => {
                above(&other)?;
                fs::rename(file, other)?;
                Asked::Move([place, place ^ 2], [Only::Always; 2])
            }
            _ => {
                let folder = place / 2;
                let [from, to] =
                    [folder, 1 - folder].map(|folder| self.dir.file(stage.folder(folder)));
                above(&to)?;
                fs::rename(from, to)?;
                Asked::MoveFolder(folder)
            }
        })
    }
}
