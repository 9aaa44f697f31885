//! What all clients of a history share: its keys and values, what may be asked and heard, and what was counted.

use std::sync::atomic::AtomicU32;

use super::KEYS;
use super::hand::Hand;
use super::register::{Asked, Told, UNTOLD};
use crate::prelude::*;

/// The write of each empty value: its tag tells which it is.
pub(super) const NOTHING: u32 = 0;

/// The value of a write: its number, and what follows from it. Mostly small, some of each way that a value takes through
/// the server; some are too long for the journal, one only just.
pub(super) fn value(write: u32) -> Vec<u8> {
    let length = match write % 20 {
        _ if write == NOTHING => return Vec::new(),
        _ if write % 256 == 255 => 8 << 20,
        _ if write % 128 == 127 => (1 << 20) + 5,
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

/// The write that these bytes are all of.
pub(super) fn whole(bytes: &[u8]) -> Option<u32> {
    let write = if bytes.is_empty() {
        NOTHING
    } else {
        u32::from_le_bytes(*bytes.first_chunk()?)
    };
    (bytes == value(write)).then_some(write)
}

/// The folder of a register whose value moves: in the root, or in one that all share, that few do, or that comes and
/// goes with it.
pub(super) fn folder(n: usize) -> String {
    match n % 4 {
        0 => format!("f{n}"),
        1 => format!("shared/f{n}"),
        2 => format!("few/er/f{n}"),
        _ => format!("own/{n}/f"),
    }
}

/// What all clients of a history share.
pub(crate) struct Stage {
    /// How many there are.
    pub(super) keys: usize,
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
    /// It changes the directory, too.
    pub(super) hand: Option<Mutex<Hand>>,
    pub(super) evicts: bool,
    pub(super) has_some_that_stay: bool,
    /// A kill or a hand may have left folders without a value.
    pub(super) leaves_folders: AtomicBool,
    pub(super) listings: AtomicUsize,
    /// Folders move, too, where values do.
    pub(super) moves_folders: bool,
    /// A client has heard what it must not.
    pub(super) broken: AtomicBool,
    /// Changes.
    pub(super) acknowledged: AtomicUsize,
    pub(crate) answered: AtomicUsize,
    /// For lack of something, as a fault explains.
    pub(crate) refused: AtomicUsize,
    pub(crate) unanswered: AtomicUsize,
}

/// What clients may ask, and what they may hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// All of it, and each is answered.
    All,
    /// All of it, and each is answered until the server ends: in order if so, and what is not answered is not made.
    Ends { in_order: bool },
    /// All of it, of a server that lacks something at times, is cut off, and is started again.
    Passing,
    /// All that has a condition, and each is answered until the power is cut under the server, which is killed then, or
    /// its disk fails.
    Power,
    /// Through a store that fails at times. A DELETE without a condition is not exact there, and one with a condition
    /// only where the store has it.
    Remote(Remote),
}

/// How a history in an S3 store differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The store has an atomic DELETE with a condition.
    pub(super) deletes: bool,
    /// The servers are killed, and others take their place at the same address.
    pub(super) kills: bool,
}

impl Rules {
    /// All removals are exact.
    pub(super) fn deletes_always(self) -> bool {
        matches!(self, Self::All | Self::Ends { .. } | Self::Passing)
    }

    pub(super) fn deletes(self) -> bool {
        !matches!(self, Self::Remote(Remote { deletes: false, .. }))
    }

    pub(super) fn kills(self) -> bool {
        !matches!(self, Self::All | Self::Remote(Remote { kills: false, .. }))
    }
}

impl Stage {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            keys: KEYS,
            writes: AtomicU32::new(1),
            operations: AtomicUsize::new(0),
            epoch: Instant::now(),
            ending: Done::default(),
            fails: AtomicBool::new(false),
            rules,
            mistaken: AtomicUsize::new(0),
            tags: None,
            hand: None,
            evicts: false,
            has_some_that_stay: false,
            leaves_folders: AtomicBool::new(false),
            listings: AtomicUsize::new(0),
            moves_folders: true,
            broken: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
        }
    }

    /// Values and folders move, too.
    pub(super) fn with_moves(rules: Rules) -> Self {
        Self {
            tags: Some(Mutex::default()),
            ..Self::new(rules)
        }
    }

    /// The key of a register: most of them lie in folders, which come and go with them.
    pub(super) fn key(&self, n: usize) -> String {
        match &self.tags {
            None => match n % 4 {
                0 => format!("r-{n}"),
                1 => format!("shared/r-{n}"),
                2 => format!("few/r/{n}"),
                _ => format!("r/deep/er/{n}/k"),
            },
            Some(_) => format!("{}/{}", folder(n), ["k", "d/k"][n / 2 % 2]),
        }
    }

    /// The number of the entity tag of this write.
    pub(super) fn number(&self, write: u32, tag: Option<&str>) -> u32 {
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

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("a short test")
    }

    pub(super) fn write(&self) -> u32 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// What an answer says that tells of a failure, if it says anything.
    pub(super) fn judge(&self, asked: Asked, status: u16) -> Option<Told> {
        let is_move = matches!(asked, Asked::Move(..) | Asked::Copy(..) | Asked::Rename(_));
        if is_move && status == 503 {
            // The source was another one at each of some tries: nothing was done, but a hand may have moved what had
            // its new tag already.
            return self.hand.is_some().then_some(Told::Unknown);
        }
        let is_excused = match self.rules {
            Rules::All => self.evicts && matches!(status, 503 | 507),
            Rules::Ends { .. } => false,
            Rules::Passing => matches!(status, 503 | 507),
            Rules::Power => self.may_break(),
            Rules::Remote(_) => asked == Asked::Get || matches!(status, 502..=504),
        };
        assert!(is_excused, "{asked:?}: {status}");
        self.refused.fetch_add(1, Ordering::AcqRel);
        // From a store 503 says that nothing was done; a read that failed has read nothing.
        let is_undone = match self.rules {
            Rules::Passing => true,
            Rules::Remote(_) => status == 503,
            _ => false,
        };
        (asked != Asked::Get && !is_undone).then_some(Told::Unknown)
    }

    /// Whether there may be no whole answer.
    pub(super) fn may_break(&self) -> bool {
        match self.rules {
            Rules::Power | Rules::Ends { .. } => self.fails.load(Ordering::Acquire),
            rules => rules.kills() || self.ending.is_said(),
        }
    }
}
