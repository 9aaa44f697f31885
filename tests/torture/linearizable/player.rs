//! One client of a history: what it asks of the registers, and what it saw.

use std::sync::atomic::AtomicU32;

use super::KEYS;
use super::register::{Asked, Event, Only, Told, UNTOLD, Version, at};
use md5::{Digest, Md5};

use crate::prelude::*;
use crate::support::s3::hex;
use crate::value::key as named_key;

/// The value of a write: its number, in one of some size classes. Some are too long for the journal, one only just.
fn value(write: u32) -> Vec<u8> {
    let length = match write % 20 {
        0 => 300_000,
        1 => 65_537,
        2 => 60_000,
        3 | 4 => 10_000,
        _ => 40,
    };
    let mut value = pattern(write.into(), length);
    value[..4].copy_from_slice(&write.to_le_bytes());
    value
}

/// The write that a value is of; it must be all of it.
fn write_of(bytes: &[u8]) -> u32 {
    let number = bytes.first_chunk().expect("no value is empty");
    let write = u32::from_le_bytes(*number);
    assert!(bytes == value(write), "a value that nobody wrote");
    write
}

const NEW: &str = "If-None-Match: *\r\n";

/// The key of a register: most of them lie in folders, which come and go with them.
fn register(n: usize) -> String {
    named_key("r", n)
}

/// What all clients of a history share.
pub(super) struct Stage {
    pub(super) writes: AtomicU32,
    pub(super) operations: AtomicUsize,
    pub(super) epoch: Instant,
    /// The clients are to end, or the server has.
    pub(super) ending: Done,
    /// The power is about to be cut.
    pub(super) fails: AtomicBool,
    pub(super) rules: Rules,
    /// Answers whose entity tag is not that of the bytes that they are about.
    pub(super) mistaken: AtomicUsize,
    /// Where values also move between the two keys of each pair, so that a tag does not tell the write: the numbers of
    /// all tags.
    pub(super) tags: Option<Mutex<BTreeMap<String, u32>>>,
}

/// What clients may ask, and what they may hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// All of it, and each is answered.
    All,
    /// All that has a condition, and each is answered until the power is cut under the server, which is killed then.
    Power,
    /// Through a store that fails at times. A DELETE without a condition is not exact there, and one with a condition
    /// only where the store has it.
    Remote(Remote),
}

/// How a history in an S3 store differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    /// The store has an atomic DELETE with a condition.
    pub(super) deletes: bool,
    /// The servers are killed, and others take their place at the same address.
    pub(super) kills: bool,
}

impl Rules {
    fn deletes(self) -> bool {
        !matches!(self, Self::Remote(Remote { deletes: false, .. }))
    }

    fn kills(self) -> bool {
        matches!(self, Self::Power | Self::Remote(Remote { kills: true, .. }))
    }
}

impl Stage {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            writes: AtomicU32::new(1),
            operations: AtomicUsize::new(0),
            epoch: Instant::now(),
            ending: Done::default(),
            fails: AtomicBool::new(false),
            rules,
            mistaken: AtomicUsize::new(0),
            tags: None,
        }
    }

    /// The number of the entity tag of this write.
    fn number(&self, write: u32, tag: Option<&str>) -> u32 {
        match (&self.tags, tag) {
            (None, _) => write,
            (Some(_), None) => UNTOLD,
            (Some(tags), Some(tag)) => {
                let mut tags = tags.lock().expect("the tags");
                let next = u32::try_from(tags.len() + 1).expect("few tags");
                *tags.entry(tag.to_owned()).or_insert(next)
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("a short test")
    }

    fn write(&self) -> u32 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether there may be no whole answer.
    fn may_break(&self) -> bool {
        match self.rules {
            Rules::Power => self.fails.load(Ordering::Acquire),
            rules => rules.kills() || self.ending.is_said(),
        }
    }
}

/// One client: what it saw, and what it knows of each key.
pub(super) struct Player {
    dice: Random,
    seen: Vec<Option<(Version, String)>>,
    pub(super) tags: BTreeMap<u32, String>,
    pub(super) events: Vec<(usize, Event)>,
}

impl Player {
    pub(super) fn new(dice: Random) -> Self {
        Self {
            dice,
            seen: vec![None; KEYS],
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
            let keys = if round % 4 == 0 { KEYS / 2 } else { KEYS };
            let key = self.dice.usize(..keys);
            if round == cut && stage.rules != Rules::Power {
                self.hang_up(key, stage, client);
            }
            // A swap of what was just read has a chance.
            let reads = self.dice.u64(..3) == 0;
            if reads && !self.round(key, Asked::Get, "", stage, client) {
                return;
            }
            let (asked, line) = self.choose(key, stage);
            if !self.round(key, asked, &line, stage, client) || stage.ending.is_said() {
                return;
            }
        }
    }

    /// Something to ask of this key, and the condition as a header line.
    fn choose(&mut self, key: usize, stage: &Stage) -> (Asked, String) {
        if stage.tags.is_some() && self.dice.u64(..3) == 0 {
            return self.choose_move(key);
        }
        let put = |only| {
            let write = stage.write();
            let tag = stage.number(write, None);
            Asked::Put(Version { write, tag }, only)
        };
        let over = self.over(key, "If-Match");
        let none = String::new;
        match (self.dice.u64(..20), over) {
            (0..=6, _) => (Asked::Get, none()),
            (7..=8, _) if stage.rules != Rules::Power => (put(Only::Always), none()),
            (9..=14, Some((only, line))) => (put(only), line),
            (15, _) if stage.rules == Rules::All => (Asked::Delete(Only::Always), none()),
            (16, Some((only, line))) if stage.rules.deletes() => (Asked::Delete(only), line),
            _ => (put(Only::New), NEW.to_owned()),
        }
    }

    /// The condition that a key has what was seen of it last, and its line.
    fn over(&self, key: usize, name: &str) -> Option<(Only, String)> {
        let (version, tag) = self.seen[key].as_ref()?;
        Some((Only::Over(*version), format!("{name}: {tag}\r\n")))
    }

    /// A MOVE to the other key of a pair, or a COPY of what was seen.
    fn choose_move(&mut self, key: usize) -> (Asked, String) {
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
        (
            asked,
            format!("Destination: /{}\r\n{line}{other}", register(key ^ 1)),
        )
    }

    /// Asks, and notes what was told; whether to go on.
    pub(super) fn round(
        &mut self,
        key: usize,
        asked: Asked,
        line: &str,
        stage: &Stage,
        client: &mut Client,
    ) -> bool {
        let (method, body) = match asked {
            Asked::Get => ("GET", Vec::new()),
            Asked::Put(version, _) => ("PUT", value(version.write)),
            Asked::Delete(_) => ("DELETE", Vec::new()),
            Asked::Move(..) => ("MOVE", Vec::new()),
            Asked::Copy(..) => ("COPY", Vec::new()),
        };
        let call = stage.now();
        let heard = client.hear(method, &register(key), line, &body);
        let back = stage.now();
        if stage.rules != Rules::All && asked == Asked::Get && matches!(heard, Heard::Part(_)) {
            // The store broke off, and has another version by now: the beginning of the one before is all there is.
            return true;
        }
        let is_whole = matches!(heard, Heard::Answer(_));
        let goes_on = is_whole || stage.rules.kills();
        let is_excused = is_whole || stage.may_break();
        assert!(is_excused, "{asked:?}: no answer while it should serve");
        let is_move = matches!(asked, Asked::Move(..) | Asked::Copy(..));
        let of_request = asked;
        let ((asked, told), back) = match heard {
            // The source was another one at each of some tries: nothing was done.
            Heard::Answer(Response { status: 503, .. }) if is_move => return true,
            Heard::Answer(Response {
                status: status @ 500..,
                ..
            }) if stage.rules != Rules::All => {
                let is_excused = match stage.rules {
                    Rules::Power => stage.may_break(),
                    _ => asked == Asked::Get || matches!(status, 502..=504),
                };
                assert!(is_excused, "{asked:?}: {status}");
                // From a store 503 says that nothing was done; a read that failed has read nothing.
                if asked == Asked::Get || stage.rules != Rules::Power && status == 503 {
                    return true;
                }
                ((asked, Told::Unknown), u64::MAX)
            }
            Heard::Answer(answer) => (self.understand(key, asked, &answer, stage), back),
            Heard::Unasked => return goes_on,
            _ if asked == Asked::Get => return goes_on,
            _ => ((asked, Told::Unknown), u64::MAX),
        };
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
            _ => note(key, asked, told),
        }
        stage.operations.fetch_add(1, Ordering::Relaxed);
        goes_on
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
            (Asked::Get, 200) => Told::Read(Some(version(write_of(&answer.body)))),
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
            self.seen[at] = Some((version, tag));
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
            self.seen[key] = Some((version, tag));
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
        client.cut("PUT", &register(key), line, &value(write));
        let tag = stage.number(write, None);
        let asked = Asked::Put(Version { write, tag }, only);
        self.note(key, asked, Told::Unknown, call, u64::MAX);
    }

    fn note(&mut self, key: usize, asked: Asked, told: Told, call: u64, back: u64) {
        self.events.push((key, at(call, back, asked, told)));
    }
}
