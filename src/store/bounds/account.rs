//! The account of the values that bounds count, as readers and the publisher use it.
//!
//! It stands on the names of the directory, of which the index of listings is made. Three write here: the publisher, when it admits a change
//! and when it has made it; the index ([`super::count`]), which sees what other programs do; and reads, which set the time of a value.
//! Promises that a change which is admitted has room until it is made: what a change brings counts from then on ([`Reservation`]).
//!
//! The lock is held for short, and never across a call that may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::ledger::{Largest, State, scopes};
use super::rule::{Bound, Full, Total, named};
use super::uses::Uses;
use super::value::{Known, Value, uptime};
use crate::store::changes::Removal;
use crate::store::directory_fd::ValuesDir;
use crate::value::Error;

/// The blocks of file systems, as a rule.
const BLOCK: u64 = 4 << 10;

/// The bytes of the disk that a value of `len` bytes will take, as a rule.
pub fn size_of(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(len)
}

/// The file system of the directory, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    /// Its device.
    pub device: Option<u64>,
    /// Its blocks, in bytes.
    pub block: u64,
}

impl FileSystem {
    /// The one of the directory `dir`. Blocks.
    pub fn of(dir: &ValuesDir) -> Self {
        Self {
            device: dir.device(),
            block: dir.block().unwrap_or(BLOCK),
        }
    }
}

impl Default for FileSystem {
    fn default() -> Self {
        Self {
            device: None,
            block: BLOCK,
        }
    }
}

/// The account.
#[derive(Debug)]
pub struct Account {
    /// The bounds.
    pub bounds: Vec<Bound>,
    /// Figures of each bound.
    pub figures: Vec<Figures>,
    pub(super) file_system: FileSystem,
    /// For each bound, whether it may remove what it has found: by its size, and by age.
    may_remove: Vec<[AtomicBool; 2]>,
    pub(super) state: Mutex<State>,
    /// The scopes that evictions for the disk take from.
    pub(super) largest: Mutex<Largest>,
    /// Held while a folder gets its other name, on the disk and here; and by the index while it looks at a name or forgets some.
    pub(super) renaming: Mutex<()>,
    /// All values have been counted once.
    is_whole: AtomicBool,
}

/// Figures of a bound, for the metrics; times in milliseconds.
#[derive(Debug, Default)]
pub struct Figures {
    /// Writes that it had no room for.
    pub refused: AtomicU64,
    /// How long the last value that it evicted had not been used.
    pub last_evicted: AtomicU64,
    /// How long the value used longest ago has not been used, at the last pass.
    pub oldest: AtomicU64,
}

/// A value that a change is to give a key.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The key.
    pub key: &'a str,
    /// Bytes of the disk that it takes.
    pub bytes: u64,
    /// The key that it moves from, if it moves.
    pub source: Option<&'a str>,
    /// The part of the bytes that its own upload has on the disk.
    pub staged: u64,
}

/// The scope of a bound that lacks room.
#[derive(Debug)]
pub(super) struct Lack<'k> {
    /// The number of the bound.
    pub bound: usize,
    pub scope: &'k str,
    /// True where no eviction would make room.
    pub is_final: bool,
    /// True where values that have ended take so much.
    pub is_of_ended: bool,
}

/// The room of a change: what it needs while it waits, and what it brings once it is admitted. Ends when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    key: Box<str>,
    source: Option<Box<str>>,
    bytes: u64,
    /// How often the index had looked at a name when the change was admitted.
    pub looks: u64,
    /// The room that it waits for, by scope; `None` once it is admitted.
    pub(super) waits_for: Option<Vec<(usize, Box<str>, Total)>>,
}

impl Reservation {
    fn stop_waiting(&mut self, state: &mut State) {
        for (at, scope, needs) in self.waits_for.iter_mut().flat_map(|it| it.drain(..)) {
            state.sum(at, &scope, |sums| sums.waiting = sums.waiting.minus(needs));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let account = Arc::clone(&self.account);
        let mut state = account.state.lock();
        self.stop_waiting(&mut state);
        if self.waits_for.is_none() {
            let (key, source) = (&self.key, self.source.as_deref());
            state.land(&account.bounds, key, self.bytes, source);
        }
    }
}

impl Account {
    /// An account of nothing yet, in a directory on this `file_system`, of which an earlier process has `remembered` the uses.
    pub fn new(bounds: Vec<Bound>, file_system: FileSystem, remembered: Uses) -> Arc<Self> {
        Arc::new(Self {
            figures: bounds.iter().map(|_| Figures::default()).collect(),
            may_remove: bounds.iter().map(|_| Default::default()).collect(),
            file_system,
            state: Mutex::new(State::new(bounds.len(), remembered)),
            bounds,
            largest: Mutex::default(),
            renaming: Mutex::default(),
            is_whole: AtomicBool::new(false),
        })
    }

    /// The bytes of the disk that a value of `len` bytes will take, as a rule.
    pub fn size_of(&self, len: u64) -> u64 {
        let blocks = len.checked_next_multiple_of(self.file_system.block);
        blocks.unwrap_or(len)
    }

    /// True if a bound holds for `key`.
    pub fn counts(&self, key: &str) -> bool {
        scopes(&self.bounds, key).next().is_some()
    }

    /// True once all values have been counted. Until then nothing is evicted.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// All values have been counted once, and it is decided what may be evicted.
    pub fn set_whole(&self) {
        self.is_whole.store(true, Relaxed);
    }

    /// Whether the bound of this number may remove what it has found, for this reason.
    pub fn set_may_remove(&self, bound: usize, why: Removal, may_remove: bool) {
        self.may_remove[bound][usize::from(why == Removal::Age)].store(may_remove, Relaxed);
    }

    /// True if the bound of this number may remove what it counts, for this reason.
    pub(super) fn may_remove(&self, bound: usize, why: Removal) -> bool {
        self.may_remove[bound][usize::from(why == Removal::Age)].load(Relaxed)
    }

    /// True if the bound of this number may evict what it counts.
    pub(super) fn evicts(&self, bound: usize) -> bool {
        self.bounds[bound].full == Full::Evict && self.may_remove(bound, Removal::Full)
    }

    /// The bounds that hold for all of `folder`: what each counts it by, its rule and its sums.
    pub fn of_folder(&self, folder: &str) -> Vec<(String, &Bound, Total)> {
        let state = self.state.lock();
        let sums = |(at, scope): (usize, &str)| {
            (scope.to_owned(), &self.bounds[at], state.total(at, scope))
        };
        scopes(&self.bounds, folder).map(sums).collect()
    }

    /// A value of `key`, which a bound counts, is read from its file: it is used, and where the next use of it is noted; `None` where it is
    /// not counted yet.
    pub fn read(&self, key: &str) -> Option<Arc<Value>> {
        let state = self.state.lock();
        let value = state.names.value(key).cloned();
        value.filter(|value| value.touch())
    }
}

/// For the publisher.
impl Account {
    /// Fails for a value that a bound never has room for, or that a quota has none for now.
    pub fn may_begin(&self, ask: &Ask<'_>) -> Result<(), Error> {
        let new = Total {
            bytes: ask.bytes,
            keys: 1,
        };
        // As a rule no lock is taken for a value that evictions make room for.
        let may_fail = |(at, _)| !self.evicts(at) || !new.beyond(&self.bounds[at]).is_zero();
        if !scopes(&self.bounds, ask.key).any(may_fail) {
            return Ok(());
        }
        let lack = self.lack(&self.state.lock(), ask, false);
        match lack.filter(|lack| lack.is_final && self.is_whole()) {
            Some(lack) => Err(self.refuse(&lack)),
            None => Ok(()),
        }
    }

    /// Fails where a bound has no room for a small value below the folder `path`, which is not there: what it lacks is not evicted for a
    /// folder, which no bound counts.
    pub fn may_make_folder(&self, path: &str) -> Result<(), Error> {
        let below = format!("{path}/k");
        if self.counts(&below) && !self.is_whole() {
            return Err(Error::Counting);
        }
        let ask = Ask {
            key: &below,
            bytes: self.size_of(1),
            source: None,
            staged: 0,
        };
        let lack = self.lack(&self.state.lock(), &ask, false);
        let lack = lack.filter(|lack| !lack.is_of_ended);
        lack.map_or(Ok(()), |lack| Err(self.refuse(&lack)))
    }

    /// Admits the value of `ask`: what it brings counts from now on, until `held` is dropped. Fails where a bound has no room. Then `held` has it
    /// wait, and changes that come after it leave that room to it; unless no eviction would make room, where it waits for nothing.
    pub fn admit(
        self: &Arc<Self>,
        held: &mut Option<Box<Reservation>>,
        ask: &Ask<'_>,
    ) -> Result<(), Error> {
        let is_counted = [Some(ask.key), ask.source]
            .into_iter()
            .flatten()
            .any(|key| self.counts(key));
        if !is_counted {
            return Ok(());
        }
        if !self.is_whole() {
            return Err(Error::Counting);
        }
        let mut state = self.state.lock();
        if held.as_ref().is_some_and(|held| held.waits_for.is_none()) {
            return Ok(());
        }
        let is_first = held.is_some();
        let reservation = held.get_or_insert_with(|| {
            Box::new(Reservation {
                account: Arc::clone(self),
                key: ask.key.into(),
                source: ask.source.map(Box::from),
                bytes: ask.bytes,
                looks: 0,
                waits_for: Some(Vec::new()),
            })
        });
        reservation.stop_waiting(&mut state);
        let Some(lack) = self.lack(&state, ask, is_first) else {
            state.arrive(&self.bounds, ask.key, ask.bytes, ask.source);
            // It counts as what arrives from now on.
            for (at, scope) in scopes(&self.bounds, ask.key).filter(|_| ask.staged > 0) {
                state.sum(at, scope, |sums| {
                    sums.staged = sums.staged.saturating_sub(ask.staged);
                });
            }
            reservation.looks = state.looks;
            reservation.waits_for = None;
            return Ok(());
        };
        if lack.is_final {
            return Err(self.refuse(&lack));
        }
        let waits_for = reservation.waits_for.insert(Vec::new());
        for (at, scope) in scopes(&self.bounds, ask.key) {
            let needs = self.need(&state, ask, at, scope);
            state.sum(at, scope, |sums| sums.waiting = sums.waiting.plus(needs));
            waits_for.push((at, scope.into(), needs));
        }
        Err(self.refusal(&lack))
    }

    /// What a scope needs for the value of `ask`, beside what it has of its keys.
    fn need(&self, state: &State, ask: &Ask<'_>, bound: usize, scope: &str) -> Total {
        let has = state.taken(ask.key);
        let new = Total {
            bytes: ask.bytes,
            keys: 1,
        };
        let of_scope = |source: &&str| self.bounds[bound].prefix.scope(source) == Some(scope);
        let going = ask
            .source
            .filter(of_scope)
            .map(|source| state.taken(source));
        has.max(new).minus(has.plus(going.unwrap_or_default()))
    }

    /// A bound that lacks room for the value of `ask`; what others wait for is theirs, unless it `is_first`.
    fn lack<'k>(&self, state: &State, ask: &Ask<'k>, is_first: bool) -> Option<Lack<'k>> {
        let new = Total {
            bytes: ask.bytes,
            keys: 1,
        };
        let lacks = scopes(&self.bounds, ask.key).filter_map(|(at, scope)| {
            let (bound, sums) = (&self.bounds[at], state.scopes[at].get(scope));
            let mut taken = sums.map_or(Total::default(), |sums| sums.total);
            if let Some(sums) = sums.filter(|_| !is_first) {
                taken = taken.plus(sums.waiting);
            }
            if !self.evicts(at) {
                let staged = sums
                    .map_or(0, |sums| sums.staged)
                    .saturating_sub(ask.staged);
                taken.bytes = taken.bytes.saturating_add(staged);
            }
            // As a rule there is room for it beside what it replaces: that is not looked up.
            if taken.plus(new).beyond(bound).is_zero() {
                return None;
            }
            let needs = self.need(state, ask, at, scope);
            let after = taken.plus(needs);
            if needs.is_zero() || after.beyond(bound).is_zero() {
                return None;
            }
            let ended = self.ended_in(state, at, scope);
            let is_of_ended = after.minus(ended).beyond(bound).is_zero();
            let stuck = sums.map_or(Total::default(), |sums| sums.stuck);
            let is_too_large = !new.plus(stuck).beyond(bound).is_zero();
            Some(Lack {
                bound: at,
                scope,
                is_final: !is_of_ended && (is_too_large || !self.evicts(at)),
                is_of_ended,
            })
        });
        // One that refuses counts first: for it nothing is evicted from the others.
        lacks.min_by_key(|lack| !lack.is_final)
    }

    /// Counts a refusal, and says it.
    fn refuse(&self, lack: &Lack<'_>) -> Error {
        self.figures[lack.bound].refused.fetch_add(1, Relaxed);
        self.refusal(lack)
    }

    /// The refusal of a value for which a bound has no room, in words for the client.
    fn refusal(&self, lack: &Lack<'_>) -> Error {
        let bound = &self.bounds[lack.bound];
        let advice = match bound.full {
            Full::Refuse => "delete values first",
            Full::Evict if self.evicts(lack.bound) => "nothing can be evicted for this value",
            Full::Evict => {
                "what was there before it is not evicted until the server is started with --evict-existing"
            }
        };
        let scope = named(lack.scope);
        Error::NoSpace(format!("the bound of {scope} is full ({bound}): {advice}").into())
    }

    /// How often the index has looked at a name.
    pub fn looks(&self) -> u64 {
        self.state.lock().looks
    }

    /// The publisher has made a change of `key`, which it began after so many looks: its file is this one now, or none. Another program may have
    /// changed that since: where the index has looked meanwhile, it is looked at once more.
    pub fn made(&self, dir: &ValuesDir, key: &str, looks: u64, file: Option<Known>) {
        if !self.counts(key) {
            return;
        }
        let mut state = self.state.lock();
        if state.looks == looks {
            state.note(&self.bounds, key, file, uptime());
        } else {
            drop(state);
            self.look(dir, key);
        }
    }

    /// Whether the value of `key` could not be evicted: then it is not chosen again until it changes.
    pub fn set_stuck(&self, key: &str, is_stuck: bool) {
        let mut state = self.state.lock();
        state.update(&self.bounds, key, |state, value| {
            let value = value?;
            value.set_stuck(is_stuck);
            state.order(&self.bounds, key, &value);
            Some(value)
        });
    }
}

#[cfg(test)]
impl Account {
    /// A whole account of one bound of so many blocks that evicts.
    pub fn of_blocks(blocks: u64) -> Arc<Self> {
        let bound = Bound {
            prefix: super::Prefix::default(),
            max_size: Some(blocks * BLOCK),
            max_keys: None,
            max_age: None,
            full: Full::Evict,
            min_age: super::MIN_AGE,
        };
        let account = Self::new(vec![bound], FileSystem::default(), Uses::default());
        account.set_may_remove(0, Removal::Full, true);
        account.set_whole();
        account
    }

    /// The value of `key` is used, a second later than it was.
    pub fn use_again(&self, key: &str) {
        if let Some(value) = self.state.lock().names.value(key) {
            value.set_used(value.used() + 1000);
        }
    }

    /// Has the file of `key` take so many bytes, or be gone; it is used now, and of version 1.
    pub fn place(&self, key: &str, bytes: Option<u64>) {
        let file = bytes.map(|bytes| Known {
            version: 1,
            bytes,
            end: None,
            is_linked: false,
            is_elsewhere: false,
        });
        self.state.lock().note(&self.bounds, key, file, uptime());
    }
}
