//! One client of a history: what it asks of the registers, and what it saw.

use md5::{Digest, Md5};

use super::register::{Asked, Event, Only, Told, UNTOLD, Version, at};
use super::stage::{NOTHING, Rules, Stage, folder, value, whole};
use super::{STAY, listed};
use crate::prelude::*;
use crate::support::s3::hex;

const NEW: &str = "If-None-Match: *\r\n";

/// What is asked of a key, or of its folder.
struct Request {
    asked: Asked,
    /// Header lines.
    lines: String,
    of_folder: bool,
}

impl Request {
    const GET: Self = Self {
        asked: Asked::Get,
        lines: String::new(),
        of_folder: false,
    };
}

/// One client: what it saw, and what it knows of each key.
pub(super) struct Player {
    /// Which of them it is.
    number: usize,
    dice: Random,
    seen: BTreeMap<usize, (Version, String)>,
    pub(super) tags: BTreeMap<u32, String>,
    pub(super) events: Vec<(usize, Event)>,
}

impl Player {
    pub(super) fn new(number: usize, dice: Random) -> Self {
        Self {
            number,
            dice,
            seen: BTreeMap::new(),
            tags: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Plays until the server ends, or it is to.
    pub(super) fn play(&mut self, stage: &Stage, client: &mut Client) {
        // What is unknown doubles the orders: each client hangs up only now and then.
        let cut = 20 + self.dice.u64(..100);
        for round in 0.. {
            // Part of the time all meet at half of the keys.
            let keys = stage.keys / if round % 4 == 0 { 2 } else { 1 };
            let key = self.dice.usize(..keys);
            if round == cut && stage.rules != Rules::Power {
                self.hang_up(key, stage, client);
            }
            match self.dice.u64(..60) {
                0 => Self::break_off(key, stage, client),
                1 if !matches!(stage.rules, Rules::Remote(_)) => self.list(stage, client),
                _ => {}
            }
            // A swap of what was just read has a chance.
            let reads = self.dice.u64(..3) == 0;
            if reads && !self.read(key, stage, client) {
                return;
            }
            let request = if reads && self.dice.bool() {
                self.choose_part(key)
            } else {
                self.choose(key, stage)
            };
            if !self.round(key, &request, stage, client) || stage.ending.is_said() {
                return;
            }
        }
    }

    /// Something to ask of this key.
    fn choose(&mut self, key: usize, stage: &Stage) -> Request {
        if stage.tags.is_some() {
            match self.dice.u64(..12) {
                0..=3 => return self.choose_move(key, stage),
                4..=5 if stage.moves_folders => return self.choose_of_folder(key, stage),
                _ => {}
            }
        }
        let is_empty = stage.tags.is_some() && self.dice.u64(..16) == 0;
        let put = |only| {
            let write = if is_empty { NOTHING } else { stage.write() };
            let tag = stage.number(write, None);
            Asked::Put(Version { write, tag }, only)
        };
        let over = self.over(key, "If-Match");
        let none = String::new;
        let (asked, lines) = match (self.dice.u64(..20), over) {
            (0..=6, _) => (Asked::Get, none()),
            (7..=8, _) if stage.rules != Rules::Power => (put(Only::Always), none()),
            (9..=14, Some((only, line))) => (put(only), line),
            (15, _) if stage.rules.deletes_always() => (Asked::Delete(Only::Always), none()),
            (16, Some((only, line))) if stage.rules.deletes() => (Asked::Delete(only), line),
            _ => (put(Only::New), NEW.to_owned()),
        };
        Request {
            asked,
            lines,
            of_folder: false,
        }
    }

    /// A part of what was seen, or all of what came since.
    fn choose_part(&mut self, key: usize) -> Request {
        let seen = self.seen.get(&key);
        let seen = seen.filter(|(version, _)| version.write != NOTHING);
        let lines = seen.map_or_else(String::new, |(_, tag)| {
            format!("Range: bytes={}-\r\nIf-Range: {tag}\r\n", key % 40)
        });
        Request {
            lines,
            ..Request::GET
        }
    }

    /// A change of the folder of a key: a MOVE to the other key's, its DELETE, or a COPY, which may read what a cut of power
    /// loses.
    fn choose_of_folder(&mut self, key: usize, stage: &Stage) -> Request {
        let destination = format!("Destination: /{}/\r\n", folder(key ^ 1));
        let kinds = if stage.rules == Rules::Power { 4 } else { 6 };
        let (asked, lines) = match self.dice.u64(..kinds) {
            0..=2 => (Asked::Rename(Only::New), destination),
            3 => (
                Asked::Delete(Only::Always),
                "Depth: infinity\r\n".to_owned(),
            ),
            4 => (
                Asked::CopyWrites(self.number, Only::New),
                destination + "Overwrite: F\r\n",
            ),
            _ => (Asked::CopyWrites(self.number, Only::Always), destination),
        };
        Request {
            asked,
            lines,
            of_folder: true,
        }
    }

    /// The condition that a key has what was seen of it last, and its line.
    fn over(&self, key: usize, name: &str) -> Option<(Only, String)> {
        let (version, tag) = self.seen.get(&key)?;
        Some((Only::Over(*version), format!("{name}: {tag}\r\n")))
    }

    /// A MOVE to the other key of a pair, or a COPY of what was seen.
    fn choose_move(&mut self, key: usize, stage: &Stage) -> Request {
        let any = || (Only::Always, String::new());
        let of_source = self.over(key, "If-Match");
        let of_source = of_source.filter(|_| self.dice.u64(..3) > 0);
        let (from, line) = of_source.unwrap_or_else(any);
        let (to, other) = match self.dice.u64(..3) {
            0 => (Only::New, "Overwrite: F\r\n".to_owned()),
            1 => self
                .over(key ^ 1, "Destination-If-Match")
                .unwrap_or_else(any),
            _ => any(),
        };
        let is_copy = from != Only::Always && self.dice.u64(..3) == 0;
        let asked = if is_copy {
            Asked::Copy(from, to)
        } else {
            Asked::Move(UNTOLD, from, to)
        };
        Request {
            asked,
            lines: format!("Destination: /{}\r\n{line}{other}", stage.key(key ^ 1)),
            of_folder: false,
        }
    }

    pub(super) fn read(&mut self, key: usize, stage: &Stage, client: &mut Client) -> bool {
        self.round(key, &Request::GET, stage, client)
    }

    /// Asks, and notes what was told; whether to go on.
    fn round(&mut self, key: usize, request: &Request, stage: &Stage, client: &mut Client) -> bool {
        let asked = request.asked;
        let (method, body) = match asked {
            Asked::Get | Asked::Retag | Asked::CopyReads(_) => ("GET", Vec::new()),
            Asked::Put(version, _) => ("PUT", value(version.write)),
            Asked::Delete(_) => ("DELETE", Vec::new()),
            Asked::Move(..) | Asked::Rename(_) => ("MOVE", Vec::new()),
            Asked::Copy(..) | Asked::CopyWrites(..) => ("COPY", Vec::new()),
        };
        let path = if request.of_folder {
            folder(key) + "/"
        } else {
            stage.key(key)
        };
        let call = stage.now();
        let heard = client.hear(method, &path, &request.lines, &body);
        let back = stage.now();
        if stage.rules != Rules::All && asked == Asked::Get && matches!(heard, Heard::Part(_)) {
            // The store broke off, and has another version by now: the beginning of the one before is all there is.
            return true;
        }
        let is_whole = matches!(heard, Heard::Answer(_));
        let goes_on = is_whole || stage.rules.kills();
        let is_excused = is_whole || stage.may_break();
        assert!(is_excused, "{asked:?}: no answer while it should serve");
        let counter = if is_whole {
            &stage.answered
        } else {
            &stage.unanswered
        };
        let is_asked = !matches!(heard, Heard::Unasked) || stage.rules == Rules::Passing;
        counter.fetch_add(usize::from(is_asked), Ordering::AcqRel);
        if stage.rules == (Rules::Ends { in_order: true }) && !is_whole {
            let is_half = matches!(heard, Heard::Part(_));
            assert!(!is_half, "{asked:?}: half an answer");
            pass(Duration::from_millis(5));
            return true;
        }
        let told = match heard {
            Heard::Answer(answer) if answer.status >= 500 => {
                match stage.judge(asked, answer.status) {
                    Some(told) => (asked, told),
                    None => return true,
                }
            }
            Heard::Answer(answer) if request.of_folder => {
                match self.understand_folder(key, asked, &answer) {
                    Some(told) => told,
                    None => return true,
                }
            }
            Heard::Answer(answer) => self.understand(key, asked, &answer, stage),
            Heard::Unasked => {
                // The server is being started again.
                pass(Duration::from_millis(u64::from(goes_on) * 10));
                return goes_on;
            }
            _ if asked == Asked::Get => return goes_on,
            _ => (asked, Told::Unknown),
        };
        let back = if told.1 == Told::Unknown {
            u64::MAX
        } else {
            back
        };
        let is_acknowledged = usize::from(told.1 == Told::Done);
        stage
            .acknowledged
            .fetch_add(is_acknowledged, Ordering::AcqRel);
        self.note_all(key, asked, told, [call, back]);
        stage.operations.fetch_add(1, Ordering::Relaxed);
        goes_on
    }

    /// Notes what was told, as the events that it was.
    fn note_all(
        &mut self,
        key: usize,
        of_request: Asked,
        (asked, told): (Asked, Told),
        when: [u64; 2],
    ) {
        let [call, back] = when;
        let mut note = |key, asked, told| self.note(key, asked, told, call, back);
        match (of_request, told) {
            (Asked::Copy(Only::Over(source), _), Told::Done) => {
                note(key, Asked::Get, Told::Read(Some(source)));
                note(key ^ 1, asked, told);
            }
            (Asked::Copy(Only::Over(source), to), Told::Unknown) => {
                let tag = UNTOLD;
                note(key ^ 1, Asked::Put(Version { tag, ..source }, to), told);
            }
            (Asked::Copy(..), Told::Absent) => note(key, Asked::Get, Told::Read(None)),
            (Asked::CopyWrites(copy, _), Told::Done | Told::Unknown) => {
                note(key, Asked::CopyReads(copy), told);
                note(key, asked, told);
            }
            _ => note(key, asked, told),
        }
    }

    /// What was told of a folder, where that tells anything.
    fn understand_folder(
        &mut self,
        key: usize,
        asked: Asked,
        answer: &Response,
    ) -> Option<(Asked, Told)> {
        let count = |name: &str| answer.json()[name].as_u64().expect("a number");
        match (asked, answer.status) {
            (Asked::Rename(_), 201) => {
                let moved = self.seen.remove(&key);
                self.seen.extend(moved.map(|moved| (key ^ 1, moved)));
                Some((asked, Told::Done))
            }
            (Asked::Rename(_), 404) => Some((asked, Told::Absent)),
            // A folder without a value is in the way, if only until the change that took its last one has removed it.
            (Asked::Rename(_), 409) => None,
            (_, 404) => Some((Asked::Get, Told::Read(None))),
            // With 409, what came later, or is not to be replaced, has stayed.
            (Asked::CopyWrites(..), 200 | 409) if count("copied") == 1 => Some((asked, Told::Done)),
            (Asked::Delete(_), 200 | 409) if count("removed") == 1 => Some((asked, Told::Done)),
            (_, 200) if count("stayed") == 0 => Some((Asked::Get, Told::Read(None))),
            (_, 409) if count("stayed") == 1 => None,
            (_, status) => panic!("{asked:?}: {status}, {}", answer.text()),
        }
    }

    /// What was told, and what was asked by what the answer tells of that.
    fn understand(
        &mut self,
        key: usize,
        asked: Asked,
        answer: &Response,
        stage: &Stage,
    ) -> (Asked, Told) {
        let version = |write| Version {
            write,
            tag: stage.number(write, answer.header("etag")),
        };
        let told = match (asked, answer.status) {
            (Asked::Get, 404) => Told::Read(None),
            (Asked::Get, 200) => {
                let write = whole(&answer.body).expect("a value that somebody wrote");
                Told::Read(Some(version(write)))
            }
            (Asked::Get, 206) => {
                let (seen, _) = self.seen[&key];
                let whole = value(seen.write);
                let part =
                    whole.ends_with(&answer.body) && answer.body.len() == whole.len() - key % 40;
                assert!(part, "another part");
                Told::Read(Some(version(seen.write)))
            }
            (Asked::Move(..) | Asked::Copy(..), 201 | 204)
            | (Asked::Put(..) | Asked::Delete(_), 200) => Told::Done,
            (_, 412) => Told::Refused,
            (Asked::Delete(_) | Asked::Move(..) | Asked::Copy(..), 404) => Told::Absent,
            (_, status) => panic!("{asked:?}: {status}"),
        };
        // 201 tells that the destination had no value, 204 that it had one.
        let had = |to| match (answer.status, to) {
            (201, _) => Only::New,
            (_, Only::Always) => Only::Any,
            (_, to) => to,
        };
        // A value that moves or is copied is seen at the other key.
        let at = match asked {
            Asked::Move(..) | Asked::Copy(..) => key ^ 1,
            _ => key,
        };
        let asked = match (asked, told) {
            (Asked::Put(put, only), Told::Done) => Asked::Put(version(put.write), only),
            (Asked::Move(_, from, to), Told::Done) => Asked::Move(version(0).tag, from, had(to)),
            // A read of the one key, and a write of the other.
            (Asked::Copy(Only::Over(source), to), Told::Done) => {
                let tag = version(0).tag;
                Asked::Put(Version { tag, ..source }, had(to))
            }
            (asked, _) => asked,
        };
        let seen = match (asked, told) {
            (Asked::Get, Told::Read(Some(version))) | (Asked::Put(version, _), Told::Done) => {
                Some(version)
            }
            (Asked::Move(tag, Only::Over(source), _), Told::Done) => {
                Some(Version { tag, ..source })
            }
            _ => None,
        };
        if let (Some(_), Some(version)) = (&stage.tags, seen) {
            let tag = answer.must("etag").to_owned();
            self.seen.insert(at, (version, tag));
        } else if let Some(version) = seen {
            let write = version.write;
            let mut tag = answer.must("etag").to_owned();
            if matches!(stage.rules, Rules::Remote(_)) {
                // There it names the bytes. VersityGW 1.8.0 now and then answers that of another version than it sends.
                let own = format!("\"{}\"", hex(&Md5::digest(value(write))));
                if own != tag {
                    stage.mistaken.fetch_add(1, Ordering::Relaxed);
                    tag = own;
                }
            }
            let same = self.tags.entry(write).or_insert_with(|| tag.clone());
            assert_eq!(*same, tag, "one write, two tags");
            self.seen.insert(key, (version, tag));
        }
        (asked, told)
    }

    /// Asks and hangs up at once.
    fn hang_up(&mut self, key: usize, stage: &Stage, client: &Client) {
        let (only, line) = match self.dice.u64(..2) {
            0 => (Only::Always, ""),
            _ => (Only::New, NEW),
        };
        let (write, call) = (stage.write(), stage.now());
        client.cut("PUT", &stage.key(key), line, &value(write));
        let tag = stage.number(write, None);
        let asked = Asked::Put(Version { write, tag }, only);
        self.note(key, asked, Told::Unknown, call, u64::MAX);
    }

    /// Begins an upload and resets the connection: nothing is made of it.
    fn break_off(key: usize, stage: &Stage, client: &Client) {
        if let Ok(mut raw) = Raw::try_connect(client.addr()) {
            let value = value(stage.write());
            let head = put_head(&stage.key(key), value.len() + 1);
            let _may_be_refused = raw.offer([head.as_bytes(), &value].concat());
            raw.reset();
        }
    }

    /// Lists all keys, each of which has or has not a value then. A file system without its disk may show less.
    fn list(&mut self, stage: &Stage, client: &mut Client) {
        let call = stage.now();
        let listed = listed(client);
        let back = stage.now();
        let is_excused = stage.may_break() || stage.evicts;
        assert!(
            listed.is_some() || is_excused,
            "no listing while it should serve"
        );
        let fails = stage.rules == Rules::Power && stage.may_break();
        if let Some(listed) = listed.filter(|_| !fails) {
            let all_stay = STAY
                .iter()
                .all(|stays| listed.iter().any(|key| key == stays));
            assert!(
                !stage.has_some_that_stay || all_stay,
                "what stays is missing"
            );
            for key in 0..stage.keys {
                let told = Told::Listed(listed.contains(&stage.key(key)));
                self.note(key, Asked::Get, told, call, back);
            }
            stage.listings.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note(&mut self, key: usize, asked: Asked, told: Told, call: u64, back: u64) {
        self.events.push((key, at(call, back, asked, told)));
    }
}
