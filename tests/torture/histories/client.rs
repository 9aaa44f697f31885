//! One client of a history: what it asks of two folders, and what it was told.

pub(super) mod s3;

use std::sync::atomic::AtomicU16;

use md5::{Digest as _, Md5};

use super::{AT_ONCE, STAY};
use crate::prelude::*;
use crate::support::Client as Session;
use crate::support::history::{
    Asked, By, Event, Only, PLACES, Told, UNHEARD, UNTOLD, Value, Version, at, mark_meetings,
};
use crate::support::s3::hex;

/// The value of a write: its number, in one of some size classes, on both sides of what the journal has and of what is
/// sent from memory. No two have one length, so that no two files have one tag.
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
    if bytes.is_empty() {
        return 0; // that of a LOCK
    }
    let write = bytes
        .first_chunk()
        .map(|number| u16::from_le_bytes(*number));
    let write = write.expect("a number");
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
    /// Values alone, and all meet at two names.
    pub(super) registers: bool,
    /// Values alone, and clients of `WebDAV` lock their names, at this address.
    pub(super) locks: Option<SocketAddr>,
    /// Every other client speaks S3.
    pub(super) s3: bool,
    /// The values are in a store that fails at times.
    pub(super) remote: Option<Remote>,
}

/// How a history in an S3 store differs. A DELETE without a condition is not exact there.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    /// The store has an atomic DELETE with a condition.
    pub(super) deletes: bool,
    /// The servers are killed, and others take their place at the same address.
    pub(super) kills: bool,
    /// Its entity tags name versions, and not the bytes.
    pub(super) names_versions: bool,
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
    /// Answers whose entity tag is not that of the bytes that they are about.
    pub(super) mistaken: AtomicUsize,
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
            mistaken: AtomicUsize::new(0),
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

    /// The number of the tag of an answer about this write, or about one that is not known; and the tag.
    fn tag(&self, answer: &Response, write: Option<u16>) -> (u16, String) {
        let mut told = s3::tag_of(answer);
        let names_bytes = self.rules.remote.is_some_and(|it| !it.names_versions);
        if let Some(write) = write.filter(|_| names_bytes) {
            // There it names the bytes. VersityGW 1.8.0 now and then answers that of another version than it sends.
            let own = format!("\"{}\"", hex(&Md5::digest(value(write))));
            self.mistaken
                .fetch_add(usize::from(own != told), Ordering::Relaxed);
            told = own;
        }
        let mut tags = self.tags.lock().expect("the tags");
        let next = u16::try_from(tags.len() + 1).expect("few tags");
        (*tags.entry(told.clone()).or_insert(next), told)
    }

    fn is_killed(&self) -> bool {
        self.rules.remote.is_some_and(|remote| remote.kills)
    }

    pub(super) fn may_break(&self) -> bool {
        self.is_killed() || self.is_ending.load(Ordering::Acquire)
    }
}

/// A request, and the lines of its head.
struct Request {
    asked: Asked,
    lines: String,
    /// By `WebDAV`, with the token of this lock.
    by_webdav: Option<u16>,
    by: By,
}

impl Request {
    fn new((asked, lines): (Asked, String)) -> Self {
        Self {
            asked,
            lines,
            by_webdav: None,
            by: By::Http,
        }
    }
}

const LOCKINFO: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

/// One client: what it saw, and what it knows of each name.
pub(super) struct Client {
    dice: Random,
    speaks_s3: bool,
    /// Requests that it is yet to make.
    left: usize,
    /// At which of them it hangs up.
    hangs_up: usize,
    seen: [Option<(Version, String)>; PLACES],
    /// The numbers and the tokens of its locks.
    locks: [Option<(u16, String)>; PLACES],
    pub(super) events: Vec<Event>,
    /// What may be done at any time: it was sent on a connection that was closed at once, or a store may still do it.
    pub(super) open: Vec<Event>,
}

impl Client {
    pub(super) fn new(dice: Random, speaks_s3: bool, left: usize, hangs_up: usize) -> Self {
        Self {
            dice,
            speaks_s3,
            left,
            hangs_up,
            seen: Default::default(),
            locks: Default::default(),
            events: Vec::new(),
            open: Vec::new(),
        }
    }

    /// All that it asked.
    pub(super) fn asked(&mut self) -> impl Iterator<Item = &mut Event> {
        self.events.iter_mut().chain(&mut self.open)
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
        for place in 0..PLACES {
            if let Some(unlock) = self.unlock(place) {
                self.round(&unlock, stage, session);
            }
        }
    }

    fn unlock(&self, place: usize) -> Option<Request> {
        let (lock, token) = self.locks[place].as_ref()?;
        Some(Request {
            asked: Asked::Unlock(place, *lock),
            lines: format!("Lock-Token: {token}\r\n"),
            by_webdav: Some(0),
            by: By::Http,
        })
    }

    /// A change of one of two names, or a MOVE between them, by `WebDAV` or not, with the token of a lock or not, or a
    /// LOCK or UNLOCK.
    fn choose_with_locks(&mut self, stage: &Stage) -> Request {
        let place = self.dice.usize(..2);
        let (to, always) = (1 - place, Only::Always);
        let moved = format!("Destination: /{}\r\n", stage.key(to));
        let mut request = Request::new(match self.dice.u64(..14) {
            0..=3 => (Asked::Get(place), String::new()),
            4..=7 => (Asked::Put(place, stage.write(), always), String::new()),
            8 => (Asked::Delete(place, always), String::new()),
            9..=10 => (Asked::Move([place, to], [always; 2]), moved),
            _ => {
                if let Some(unlock) = self.unlock(place) {
                    return unlock;
                }
                let length = format!("Content-Length: {}\r\n", LOCKINFO.len());
                (Asked::Lock(place, stage.write()), length)
            }
        });
        let is_lock = matches!(request.asked, Asked::Lock(..));
        let is_read = matches!(request.asked, Asked::Get(_));
        if is_lock || !is_read && self.dice.bool() {
            request.by_webdav = Some(0);
            let of_lock = self.locks[place]
                .as_ref()
                .filter(|_| !is_lock && self.dice.u64(..4) > 0);
            if let Some((lock, token)) = of_lock {
                request.by_webdav = Some(*lock);
                let shown = format!("If: ({token}) (Not <DAV:no-lock>)\r\n");
                request.lines.push_str(&shown);
            }
        }
        request
    }

    /// The last word on each name.
    pub(super) fn read_all(&mut self, stage: &Stage, session: &mut Session) {
        for place in 0..PLACES {
            let asked = Asked::Get(place);
            let (lines, known) = (String::new(), self.events.len());
            let request = Request::new((asked, lines));
            // A store may fail now and then.
            let is_read =
                (0..100).any(|_| self.round(&request, stage, session) && self.events.len() > known);
            assert!(is_read, "{asked:?}: no answer");
        }
    }

    /// Asks, and hangs up at once.
    fn hang_up(&mut self, stage: &Stage, session: &Session) {
        let (place, write) = (self.dice.usize(..PLACES), stage.write());
        let asked = Asked::Put(place, write, Only::Always);
        self.open
            .push(at(stage.now(), u64::MAX, asked, Told::Unknown));
        session.cut("PUT", &stage.key(place), "", &value(write));
    }

    /// Something to ask of one of two names: a swap of what was seen there last has a chance.
    fn choose_of_registers(&mut self, stage: &Stage) -> Request {
        let place = self.dice.usize(..2);
        let seen = self.seen[place].as_ref();
        let over =
            seen.map(|(version, tag)| (Only::Over(*version), format!("If-Match: {tag}\r\n")));
        let deletes = stage.rules.remote.is_none_or(|remote| remote.deletes);
        let put = |only| Asked::Put(place, stage.write(), only);
        let (asked, lines) = match (self.dice.u64(..20), over) {
            (0..=6, _) => (Asked::Get(place), String::new()),
            (7..=8, _) => (put(Only::Always), String::new()),
            (9..=14, Some((only, line))) => (put(only), line),
            (15, _) if stage.rules.remote.is_none() => {
                (Asked::Delete(place, Only::Always), String::new())
            }
            (15..=16, Some((only, line))) if deletes => (Asked::Delete(place, only), line),
            _ => (put(Only::New), "If-None-Match: *\r\n".to_owned()),
        };
        Request::new((asked, lines))
    }

    fn choose(&mut self, stage: &Stage) -> Request {
        if self.speaks_s3 {
            return self.choose_of_s3(stage);
        }
        if stage.rules.registers {
            return self.choose_of_registers(stage);
        }
        if stage.rules.locks.is_some() {
            return self.choose_with_locks(stage);
        }
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
        Request::new((asked, lines))
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
        let (mut method, mut path, mut body) = if self.speaks_s3 {
            s3::wanted(asked, stage)
        } else {
            wanted(asked, stage)
        };
        let mut lines = request.lines.clone();
        let is_in_parts = request.by == By::Parts;
        if is_in_parts {
            let Some(completion) = self.send_parts(stage, session, &path, &body) else {
                return stage.is_killed();
            };
            path.push_str(&completion.query);
            (method, body) = ("POST", completion.body);
            lines.extend([format!("Content-Length: {}\r\n", body.len())]);
        }
        let by_webdav = stage.rules.locks.filter(|_| request.by_webdav.is_some());
        let mut other = by_webdav.map(Session::new);
        let session = other.as_mut().unwrap_or(session);
        let call = stage.now();
        let heard = session.hear(method, &path, &lines, &body);
        let back = stage.now();
        stage.operations.fetch_add(1, Ordering::Relaxed);
        let is_whole = matches!(heard, Heard::Answer(_));
        let reads = matches!(asked, Asked::Get(_) | Asked::List);
        // The store broke off, and has another version by now.
        let is_part = stage.rules.remote.is_some() && reads && matches!(heard, Heard::Part(_));
        let is_excused = is_whole || is_part || stage.may_break();
        assert!(is_excused, "{asked:?}: no answer while it should serve");
        let understood = match heard {
            Heard::Answer(answer) => self.understand(asked, &answer, stage),
            Heard::Unasked => None,
            // Until the server had ended.
            _ => (!reads).then_some((asked, Told::Unknown)),
        };
        // What goes takes its lock along.
        if let Some((Asked::Delete(place, _) | Asked::Move([place, _], _), Told::Done(_))) =
            understood
            && request.by_webdav.is_some_and(|shown| shown != 0)
        {
            self.locks[place] = None;
        }
        let event = understood.map(|(asked, told)| Event {
            shown: request.by_webdav.unwrap_or(0),
            by: request.by,
            ..at(call, back, asked, told)
        });
        let is_refused = |event: &Event| matches!(event.told, Told::Refused | Told::Absent);
        if is_in_parts && event.as_ref().is_some_and(is_refused) {
            // What was refused can be tried again until it is given up; it may be that the server has ended.
            let _ = session.hear("DELETE", &path, "", b"");
        }
        let is_open = |event: &Event| stage.rules.remote.is_some() && event.told == Told::Unknown;
        match event {
            Some(event) if is_open(&event) => self.open.push(Event {
                back: u64::MAX,
                ..event
            }),
            Some(event) if !is_whole => self.events.push(Event {
                back: u64::MAX,
                ..event
            }),
            event => self.events.extend(event),
        }
        is_whole || is_part || stage.is_killed()
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
        let has_locks = stage.rules.locks.is_some();
        let told = match (asked, answer.status) {
            (_, status @ 500..) if stage.rules.remote.is_some() => {
                let reads = matches!(asked, Asked::Get(_));
                assert!(reads || matches!(status, 502..=504), "{asked:?}: {status}");
                // From a store 503 says that nothing was done; a read that failed has read nothing.
                return (!reads && status != 503).then_some((asked, Told::Unknown));
            }
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
                let write = write_of(&answer.body);
                let (tag, told) = stage.tag(answer, Some(write));
                let version = Version { write, tag };
                self.seen[place] = Some((version, told));
                Told::Read(Some(version))
            }
            (Asked::List, 200) if self.speaks_s3 => Told::Listed(s3::listed(stage, answer)),
            (Asked::List, 200) => Told::Listed(listed(stage, answer)),
            (Asked::Lock(place, lock), 200 | 201) => {
                self.locks[place] = Some((lock, answer.must("lock-token").to_owned()));
                Told::Count(u8::from(answer.status == 201))
            }
            (Asked::Unlock(place, _), 204) => {
                self.locks[place] = None;
                Told::Done(UNTOLD)
            }
            // By WebDAV no folder is made for a value, and the answer to a MOVE has no tag.
            (Asked::Lock(..) | Asked::Put(..) | Asked::Move(..), 409) if has_locks => return None,
            (Asked::Delete(_, Only::Always), 204) if self.speaks_s3 => Told::Gone,
            (Asked::Delete(..), 204) if has_locks || self.speaks_s3 => Told::Done(UNTOLD),
            (Asked::Move(..), 201 | 204) if has_locks && answer.header("etag").is_none() => {
                Told::Done(UNTOLD)
            }
            (_, 423) if has_locks => Told::Locked,
            (Asked::Put(place, write, _), 200 | 201 | 204) => {
                let (tag, told) = stage.tag(answer, Some(write));
                self.seen[place] = Some((Version { write, tag }, told));
                Told::Done(tag)
            }
            (Asked::Delete(..), 200) | (Asked::Make(_) | Asked::MoveFolder(_), 201) => {
                Told::Done(UNTOLD)
            }
            (Asked::Copy([_, to], onlys), 200) if self.speaks_s3 => {
                let (tag, told) = stage.tag(answer, None);
                if let Only::Over(source) = onlys[0] {
                    self.seen[to] = Some((Version { tag, ..source }, told));
                }
                Told::Done(tag)
            }
            (Asked::Move([_, to], onlys) | Asked::Copy([_, to], onlys), 201 | 204) => {
                let (tag, told) = stage.tag(answer, None);
                if let Only::Over(source) = onlys[0] {
                    self.seen[to] = Some((Version { tag, ..source }, told));
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
            (_, 404) if !self.speaks_s3 && !matches!(asked, Asked::Put(..)) => Told::Absent,
            (_, 404) if self.speaks_s3 && answer.text().contains("NoSuchKey") => Told::Absent,
            (_, status) => panic!("{asked:?}: {status}, {}", answer.text()),
        };
        Some((asked, told))
    }
}

/// The request that asks for this: its method, its path and its body.
fn wanted(asked: Asked, stage: &Stage) -> (&'static str, String, Vec<u8>) {
    match asked {
        Asked::Get(place) => ("GET", stage.key(place), Vec::new()),
        Asked::List => ("GET", "?limit=10000".to_owned(), Vec::new()),
        Asked::Put(place, write, _) => ("PUT", stage.key(place), value(write)),
        Asked::Delete(place, _) => ("DELETE", stage.key(place), Vec::new()),
        Asked::Move([from, _], _) => ("MOVE", stage.key(from), Vec::new()),
        Asked::Copy([from, _], _) => ("COPY", stage.key(from), Vec::new()),
        Asked::Make(folder) => ("MKCOL", format!("{}/", stage.folder(folder)), Vec::new()),
        Asked::MoveFolder(folder) => ("MOVE", format!("{}/", stage.folder(folder)), Vec::new()),
        Asked::CopyFolder(folder, _) => ("COPY", format!("{}/", stage.folder(folder)), Vec::new()),
        Asked::DeleteFolder(folder) => ("DELETE", format!("{}/", stage.folder(folder)), Vec::new()),
        Asked::Lock(place, _) => ("LOCK", stage.key(place), LOCKINFO.into()),
        Asked::Unlock(place, _) => ("UNLOCK", stage.key(place), Vec::new()),
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
