//! A hand in the directory: it writes, moves and removes files and moves folders while the server serves, and notes that
//! as a client notes what it asked for.

use std::io::{ErrorKind, Result};

use super::KEYS;
use super::player::{Stage, folder, value};
use super::register::{Asked, Event, Only, Told, UNTOLD, Version, at};
use crate::prelude::*;

/// From one change to the next: longer than a tick of the clock that dates files, else two may have one tag.
const REST: Duration = Duration::from_millis(12);

pub(super) struct Hand {
    dir: DataDir,
    dice: Random,
    pub(super) events: Vec<(usize, Event)>,
}

impl Hand {
    pub(super) fn new(dir: &DataDir, dice: Random) -> Self {
        Self {
            dir: dir.clone(),
            dice,
            events: Vec::new(),
        }
    }

    /// Changes the directory until the server ends.
    pub(super) fn play(&mut self, stage: &Stage) {
        while !stage.ending.is_said() {
            pass(REST);
            // Clients may be slow.
            if self.events.len() * 6 > stage.operations.load(Ordering::Relaxed) {
                continue;
            }
            let key = self.dice.usize(..KEYS);
            let call = stage.now();
            match self.act(key, stage) {
                Ok((asked, told)) => {
                    let event = at(call, stage.now(), asked, told);
                    let by_hand = true;
                    self.events.push((key, Event { by_hand, ..event }));
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

    /// Makes one change of this key or of its folder.
    fn act(&mut self, key: usize, stage: &Stage) -> Result<(Asked, Told)> {
        let [file, other] = [key, key ^ 1].map(|key| self.dir.file(stage.key(key)));
        let above = |path: &Path| fs::create_dir_all(path.parent().expect("a folder"));
        let asked = match self.dice.u64(..7) {
            0..=2 => {
                let (write, aside) = (stage.write(), self.dir.outside("aside"));
                fs::write(&aside, value(write))?;
                above(&file)?;
                fs::rename(aside, file)?;
                let tag = UNTOLD;
                Asked::Put(Version { write, tag }, Only::Always)
            }
            3 => {
                fs::remove_file(file)?;
                Asked::Delete(Only::Always)
            }
            4 => {
                above(&other)?;
                fs::rename(file, other)?;
                Asked::Rename(Only::Always)
            }
            _ => {
                let [folder, other] = [key, key ^ 1].map(|key| self.dir.file(folder(key)));
                above(&other)?;
                fs::rename(folder, other)?;
                Asked::Rename(Only::New)
            }
        };
        Ok((asked, Told::Done))
    }
}
