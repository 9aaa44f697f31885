//! One client of a history: what it asks of two folders, and what it was told.

use std::sync::atomic::AtomicU16;

use super::{AT_ONCE, STAY};
use crate::prelude::*;
use crate::support::Client as Session;
use crate::support::history::{
    Asked, Event, Only, PLACES, Told, UNHEARD, UNTOLD, Value, Version, at, mark_meetings,
};

/// The value of a write: its number, in one of some size classes, on both sides of what the journal has and of what is sent
/// from memory. No two have one length, so that no two files have one tag.
pub(super) fn value(write: u16) -> Vec<u8> {
    let least = match write % 20 {
        0 => 300_000,
        1 => 66_000,
        2 => 63_000,
        3 | 4 => 10_000,
        _ => 40,
    };
    let mut value = pattern(write.into(), least + usize::from(write));
    value[..2].copy_from_slice(&write.to_le_bytes());
    value
}

/// The write that a value is of; it must be all of it.
pub(super) fn write_of(bytes: &[u8]) -> u16 {
    let write = bytes
        .first_chunk()
        .map(|number| u16::from_le_bytes(*number));
    let write = write.expect("no value is empty");
    assert!(bytes == value(write), "a value that nobody wrote");
    write
}

/// What may go wrong.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// There is a bound that evicts.
    pub(super) evicts: bool,
    pub(super) has_hand: bool,
    /// The power will be cut: a COPY would read what may be lost.
    pub(super) is_cut: bool,
}

/// The folders of a history, and what all who change them share.
pub(super) struct Stage {
    folders: [String; 2],
    names: [&'static str; 2],
    /// With MKCOL; else each folder goes with its last value.
    pub(super) makes_folders: bool,
    pub(super) rules: Rules,
    epoch: Instant,
    writes: AtomicU16,
    pub(super) operations: AtomicUsize,
    /// The numbers of all tags.
    tags: Mutex<HashMap<String, u16>>,
    /// The server is about to end: there may be no answer.
    pub(super) is_ending: AtomicBool,
}

impl Stage {
    pub(super) fn new(number: usize, rules: Rules) -> Self {
        let (first, second) = [("a", "b"), ("shared/a", "few/er/b"), ("a", "own/b")][number % 3];
        Self {
            folders: [first, second].map(|folder| format!("h/{number}/{folder}")),
            names: [["x", "y"], ["x", "d/y"]][number / 3 % 2],
            makes_folders: (number / AT_ONCE).is_multiple_of(2),
            rules,
            epoch: Instant::now(),
            writes: AtomicU16::new(1),
            operations: AtomicUsize::new(0),
            tags: Mutex::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    pub(super) fn folder(&self, folder: usize) -> &str {
        &self.folders[folder]
    }

    pub(super) fn key(&self, place: usize) -> String {
        format!("{}/{}", self.folders[place / 2], self.names[place % 2])
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("a short test")
    }

    pub(super) fn write(&self) -> u16 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    fn tag(&self, answer: &Response) -> u16 {
        let mut tags = self.tags.lock().expect("the tags");
        let next = u16::try_from(tags.len() + 1).expect("few tags");
        *tags.entry(answer.must("etag").to_owned()).or_insert(next)
    }

    pub(super) fn may_break(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}

/// A request, and the lines of its head.
struct Request {
    asked: Asked,
    lines: String,
}

/// One client: what it saw, and what it knows of each name.
pub(super) struct Client {
    dice: Random,
    /// Requests that it is yet to make.
    left: usize,
    /// At which of them it hangs up.
    hangs_up: usize,
    seen: [Option<(Version, String)>; PLACES],
    pub(super) events: Vec<Event>,
    /// Sent on a connection that was closed at once: the server may do it at any time.
    pub(super) hung_up: Option<Event>,
}

impl Client {
    pub(super) fn new(dice: Random, left: usize, hangs_up: usize) -> Self {
        Self {
            dice,
            left,
            hangs_up,
            seen: Default::default(),
            events: Vec::new(),
            hung_up: None,
        }
    }

    /// All that it asked.
    pub(super) fn asked(&mut self) -> impl Iterator<Item = &mut Event> {
        self.events.iter_mut().chain(&mut self.hung_up)
    }

    /// Asks until all is asked, or the server ends.
    pub(super) fn play(&mut self, stage: &Stage, session: &mut Session) {
        while self.left > 0 {
            self.left -= 1;
            if self.left == self.hangs_up {
                self.hang_up(stage, session);
            }
            let request = self.choose(stage);
            if !self.round(&request, stage, session) {
                return;
            }
        }
    }

    /// The last word on each name.
    pub(super) fn read_all(&mut self, stage: &Stage, session: &mut Session) {
        for place in 0..PLACES {
            let asked = Asked::Get(place);
            let lines = String::new();
            assert!(self.round(&Request { asked, lines }, stage, session));
        }
    }

    /// Asks, and hangs up at once.
    fn hang_up(&mut self, stage: &Stage, session: &Session) {
        let (place, write) = (self.dice.usize(..PLACES), stage.write());
        let asked = Asked::Put(place, write, Only::Always);
        self.hung_up = Some(at(stage.now(), u64::MAX, asked, Told::Unknown));
        session.cut("PUT", &stage.key(place), "", &value(write));
    }

    fn choose(&mut self, stage: &Stage) -> Request {
        let place = self.dice.usize(..PLACES);
        let (folder, none) = (place / 2, String::new);
        let destination = format!("Destination: /{}/\r\n", stage.folder(1 - folder));
        let kind = self.dice.u64(..26);
        let (asked, lines) = match kind {
            0 if !stage.rules.is_cut => (Asked::List, none()),
            0..=4 => (Asked::Get(place), none()),
            5..=10 => {
                let (only, lines) = self.condition(place, "If-Match", "If-None-Match: *\r\n");
                (Asked::Put(place, stage.write(), only), lines)
            }
            11..=12 => {
                let (only, lines) = self.condition(place, "If-Match", "");
                (Asked::Delete(place, only), lines)
            }
            13..=17 => {
                let to = (place + 1 + self.dice.usize(..PLACES - 1)) % PLACES;
                let (from, of_from) = self.condition(place, "If-Match", "");
                let (only, of_to) = self.condition(to, "Destination-If-Match", "Overwrite: F\r\n");
                let is_move = kind < 16 || stage.rules.is_cut;
                let asked = if is_move { Asked::Move } else { Asked::Copy };
                let lines = format!("Destination: /{}\r\n{of_from}{of_to}", stage.key(to));
                (asked([place, to], [from, only]), lines)
            }
            18..=20 => (Asked::MoveFolder(folder), destination),
            21 if !stage.rules.is_cut => {
                let replaces = self.dice.bool();
                let overwrite = if replaces { "" } else { "Overwrite: F\r\n" };
                (Asked::CopyFolder(folder, replaces), destination + overwrite)
            }
            23.. if stage.makes_folders => (Asked::Make(folder), none()),
            _ => (
                Asked::DeleteFolder(folder),
                "Depth: infinity\r\n".to_owned(),
            ),
        };
        Request { asked, lines }
    }

    /// A condition of this place, and its line; `new` is that there is no value, if that can be asked for.
    fn condition(&mut self, place: usize, name: &str, new: &str) -> (Only, String) {
        match (self.dice.u64(..4), &self.seen[place]) {
            (0, _) if !new.is_empty() => (Only::New, new.to_owned()),
            (0..=1, Some((version, tag))) => (Only::Over(*version), format!("{name}: {tag}\r\n")),
            _ => (Only::Always, String::new()),
        }
    }

    /// Asks, and notes what was told; whether to go on.
    fn round(&mut self, request: &Request, stage: &Stage, session: &mut Session) -> bool {
        let asked = request.asked;
        let (method, path, body) = match asked {
            Asked::Get(place) => ("GET", stage.key(place), Vec::new()),
            Asked::List => ("GET", "?limit=10000".to_owned(), Vec::new()),
            Asked::Put(place, write, _) => ("PUT", stage.key(place), value(write)),
            Asked::Delete(place, _) => ("DELETE", stage.key(place), Vec::new()),
            Asked::Move([from, _], _) => ("MOVE", stage.key(from), Vec::new()),
            Asked::Copy([from, _], _) => ("COPY", stage.key(from), Vec::new()),
            Asked::Make(folder) => ("MKCOL", format!("{}/", stage.folder(folder)), Vec::new()),
            Asked::MoveFolder(folder) => ("MOVE", format!("{}/", stage.folder(folder)), Vec::new()),
            Asked::CopyFolder(folder, _) => {
                ("COPY", format!("{}/", stage.folder(folder)), Vec::new())
            }
            Asked::DeleteFolder(folder) => {
                ("DELETE", format!("{}/", stage.folder(folder)), Vec::new())
            }
        };
        let call = stage.now();
        let heard = session.hear(method, &path, &request.lines, &body);
        let back = stage.now();
        stage.operations.fetch_add(1, Ordering::Relaxed);
        let is_whole = matches!(heard, Heard::Answer(_));
        assert!(
            is_whole || stage.may_break(),
            "{asked:?}: no answer while it should serve"
        );
        let reads = matches!(asked, Asked::Get(_) | Asked::List);
        let understood = match heard {
            Heard::Answer(answer) => self.understand(asked, &answer, stage),
            Heard::Unasked => None,
            // Until the server had ended.
            _ => (!reads).then_some((asked, Told::Unknown)),
        };
        let back = if is_whole { back } else { u64::MAX };
        let event = understood.map(|(asked, told)| at(call, back, asked, told));
        self.events.extend(event);
        is_whole
    }

    /// What was told, if that tells anything, and what was asked by what the answer tells of that.
    fn understand(
        &mut self,
        asked: Asked,
        answer: &Response,
        stage: &Stage,
    ) -> Option<(Asked, Told)> {
        let had = |only| match (answer.status, only) {
            (201, _) => Only::New,
            (_, Only::Always) => Only::Any,
            (_, only) => only,
        };
        let told = match (asked, answer.status) {
            (_, status @ 500..) => {
                // A source that is another one at each of some tries; no room at the moment.
                let excuses = [
                    (503, stage.rules.has_hand),
                    (503, stage.rules.evicts),
                    (507, stage.rules.evicts),
                ];
                let is_excused = stage.may_break() || excuses.contains(&(status, true));
                assert!(is_excused, "{asked:?}: {status}, {}", answer.text());
                // Where there is no room nothing is done; a COPY of a folder may find that out on its way.
                let is_undone = match asked {
                    Asked::Get(_) | Asked::List => true,
                    Asked::CopyFolder(..) => answer.text().contains("all of this has no room"),
                    _ => status == 507,
                };
                return (!is_undone).then_some((asked, Told::Unknown));
            }
            (Asked::Get(_), 404) => Told::Read(None),
            (Asked::Get(place), 200) => {
                let (write, tag) = (write_of(&answer.body), stage.tag(answer));
                let version = Version { write, tag };
                self.see(place, version, answer);
                Told::Read(Some(version))
            }
            (Asked::List, 200) => Told::Listed(listed(stage, answer)),
            (Asked::Put(place, write, _), 200) => {
                let tag = stage.tag(answer);
                self.see(place, Version { write, tag }, answer);
                Told::Done(tag)
            }
            (Asked::Delete(..), 200) | (Asked::Make(_) | Asked::MoveFolder(_), 201) => {
                Told::Done(UNTOLD)
            }
            (Asked::Move([_, to], onlys) | Asked::Copy([_, to], onlys), 201 | 204) => {
                let tag = stage.tag(answer);
                if let Only::Over(source) = onlys[0] {
                    self.see(to, Version { tag, ..source }, answer);
                }
                let onlys = [onlys[0], had(onlys[1])];
                let asked = match asked {
                    Asked::Move(places, _) => Asked::Move(places, onlys),
                    Asked::Copy(places, _) => Asked::Copy(places, onlys),
                    asked => asked,
                };
                return Some((asked, Told::Done(tag)));
            }
            (Asked::Make(_), 405) => Told::Taken,
            // The folder above has gone; or a folder without a value is in the way, if only for a moment.
            (Asked::Make(_) | Asked::MoveFolder(_), 409) => return None,
            (Asked::CopyFolder(..), 200 | 409) => Told::Count(count(answer, "copied")),
            (Asked::DeleteFolder(_), 200 | 409) => Told::Count(count(answer, "removed")),
            (Asked::Get(_) | Asked::List | Asked::Make(_), _) => {
                panic!("{asked:?}: {}, {}", answer.status, answer.text())
            }
            (_, 412) => Told::Refused,
            (_, 404) => Told::Absent,
            (_, status) => panic!("{asked:?}: {status}, {}", answer.text()),
        };
        Some((asked, told))
    }

    fn see(&mut self, place: usize, version: Version, answer: &Response) {
        self.seen[place] = Some((version, answer.must("etag").to_owned()));
    }
}

fn count(answer: &Response, name: &str) -> u8 {
    let count = answer.json()[name].as_u64().expect("a number");
    u8::try_from(count).expect("few values")
}

/// Which places a listing has.
fn listed(stage: &Stage, answer: &Response) -> [bool; PLACES] {
    let page = answer.json();
    let keys = page["keys"].as_array().expect("keys").iter();
    let keys: Vec<_> = keys
        .map(|entry| entry["key"].as_str().expect("a key"))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "out of order: {keys:?}");
    let stay = STAY
        .iter()
        .filter(|key| keys.binary_search(&key.as_str()).is_ok())
        .count();
    assert!(
        stage.rules.evicts || stay == STAY.len(),
        "what stays is missing: {keys:?}"
    );
    [0, 1, 2, 3].map(|place| keys.contains(&&*stage.key(place)))
}

/// What each client and the hand did, from which it follows which tags no answer to a change had.
pub(super) fn gather(mut actors: Vec<Vec<Event>>) -> Vec<Vec<Event>> {
    let heard: HashSet<u16> = actors
        .iter()
        .flatten()
        .filter_map(|event| match event.told {
            Told::Done(tag) => Some(tag),
            _ => None,
        })
        .collect();
    for event in actors.iter_mut().flatten() {
        let unheard = event
            .known()
            .filter(|version| !heard.contains(&version.tag));
        unheard.for_each(|version| version.tag |= UNHEARD);
    }
    mark_meetings(&mut actors);
    actors
}

/// All values that somebody read.
pub(super) fn reads(actors: &[Vec<Event>]) -> impl Iterator<Item = (usize, Value)> {
    actors
        .iter()
        .flatten()
        .filter_map(|event| match (event.asked, event.told) {
            (Asked::Get(place), Told::Read(value)) => Some((place, value)),
            _ => None,
        })
}
