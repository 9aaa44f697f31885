//! One client of a history: what it asks of the registers, and what it saw.

use std::sync::atomic::AtomicU32;

use super::KEYS;
use super::register::{Asked, Event, Only, Told, at};
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
    pub(super) rules: Rules,
    /// Answers whose entity tag is not that of the bytes that they are about.
    pub(super) mistaken: AtomicUsize,
}

/// What clients may ask, and what they may hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// All of it, and each is answered.
    All,
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
        matches!(self, Self::Remote(Remote { kills: true, .. }))
    }
}

impl Stage {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            writes: AtomicU32::new(1),
            operations: AtomicUsize::new(0),
            epoch: Instant::now(),
            ending: Done::default(),
            rules,
            mistaken: AtomicUsize::new(0),
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
        self.rules.kills() || self.ending.is_said()
    }
}

/// One client: what it saw, and what it knows of each key.
pub(super) struct Player {
    dice: Random,
    seen: Vec<Option<(u32, String)>>,
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
            if round == cut {
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
        let put = |only| Asked::Put(stage.write(), only);
        let over = self.over(key);
        let none = String::new;
        match (self.dice.u64(..20), over) {
            (0..=6, _) => (Asked::Get, none()),
            (7..=8, _) => (put(Only::Always), none()),
            (9..=14, Some((only, line))) => (put(only), line),
            (15, _) if stage.rules == Rules::All => (Asked::Delete(Only::Always), none()),
            (16, Some((only, line))) if stage.rules.deletes() => (Asked::Delete(only), line),
            _ => (put(Only::New), NEW.to_owned()),
        }
    }

    /// The condition that a key has what was seen of it last, and its line.
    fn over(&self, key: usize) -> Option<(Only, String)> {
        let (write, tag) = self.seen[key].as_ref()?;
        Some((Only::Over(*write), format!("If-Match: {tag}\r\n")))
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
            Asked::Put(write, _) => ("PUT", value(write)),
            Asked::Delete(_) => ("DELETE", Vec::new()),
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
        let (told, back) = match heard {
            Heard::Answer(Response {
                status: status @ 500..,
                ..
            }) if stage.rules != Rules::All => {
                let is_excused = asked == Asked::Get || matches!(status, 502..=504);
                assert!(is_excused, "{asked:?}: {status}");
                // From a store 503 says that nothing was done; a read that failed has read nothing.
                if asked == Asked::Get || status == 503 {
                    return true;
                }
                (Told::Unknown, u64::MAX)
            }
            Heard::Answer(answer) => (self.understand(key, asked, &answer, stage), back),
            Heard::Unasked => return goes_on,
            _ if asked == Asked::Get => return goes_on,
            _ => (Told::Unknown, u64::MAX),
        };
        self.note(key, asked, told, call, back);
        stage.operations.fetch_add(1, Ordering::Relaxed);
        goes_on
    }

    fn understand(&mut self, key: usize, asked: Asked, answer: &Response, stage: &Stage) -> Told {
        let told = match (asked, answer.status) {
            (Asked::Get, 404) => Told::Read(None),
            (Asked::Get, 200) => Told::Read(Some(write_of(&answer.body))),
            (Asked::Put(..) | Asked::Delete(_), 200) => Told::Done,
            (_, 412) => Told::Refused,
            (Asked::Delete(_), 404) => Told::Absent,
            (_, status) => panic!("{asked:?}: {status}"),
        };
        let ((Told::Read(Some(write)), _) | (Told::Done, Asked::Put(write, _))) = (told, asked)
        else {
            return told;
        };
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
        self.seen[key] = Some((write, tag));
        told
    }

    /// Asks and hangs up at once.
    fn hang_up(&mut self, key: usize, stage: &Stage, client: &Client) {
        let (only, line) = match self.dice.u64(..2) {
            0 => (Only::Always, ""),
            _ => (Only::New, NEW),
        };
        let (write, call) = (stage.write(), stage.now());
        client.cut("PUT", &register(key), line, &value(write));
        let asked = Asked::Put(write, only);
        self.note(key, asked, Told::Unknown, call, u64::MAX);
    }

    fn note(&mut self, key: usize, asked: Asked, told: Told, call: u64, back: u64) {
        self.events.push((key, at(call, back, asked, told)));
    }
}
