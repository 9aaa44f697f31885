//! Admission: whether a bound has room for the value of a change, which then holds that room until it is made
//! ([`RoomReservation`]).
//!
//! A change that is admitted has room: what it brings counts from then on. A change that lacks room waits with a
//! reservation, and changes that come after it leave that room to it. Above its bound, as a smaller bound or other
//! programs leave it, a scope has room for half of what has gone from it since: it comes within its bound, and no
//! change waits for all of that. Evicts nothing: [`room`](super::room) chooses who goes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::account::Account;
use super::ledger::{State, scopes};
use super::rule::{Full, Total, named};
use super::value::{Known, uptime};
use crate::store::directory_fd::ValuesDir;
use crate::value::Error;

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

impl<'a> Ask<'a> {
    /// A value that moves from no key, of which nothing is on the disk.
    pub fn new(key: &'a str, bytes: u64) -> Self {
        Self {
            key,
            bytes,
            source: None,
            staged: 0,
        }
    }
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
    /// What the key and the source of the value take.
    had: [Total; 2],
}

/// The room of a change: what it needs while it waits, and what it brings once it is admitted. Ends when it is dropped.
#[derive(Debug)]
pub struct RoomReservation {
    account: Arc<Account>,
    key: Box<str>,
    source: Option<Box<str>>,
    bytes: u64,
    /// How often the index had looked at a name when the change was admitted.
    pub looks: u64,
    /// The room that it waits for, by scope; `None` once it is admitted.
    pub(super) waits_for: Option<Vec<(usize, Box<str>, Total)>>,
}

impl RoomReservation {
    /// Its change, which brings a value of no other key, is made: so many bytes arrive no more.
    pub(super) fn land(&mut self) -> Option<u64> {
        let is_admitted = self.waits_for.replace(Vec::new()).is_none();
        is_admitted.then_some(self.bytes)
    }

    fn stop_waiting(&mut self, state: &mut State) {
        for (at, scope, needs) in self.waits_for.iter_mut().flat_map(|it| it.drain(..)) {
            state.sum(at, &scope, |sums| sums.waiting = sums.waiting.minus(needs));
        }
    }
}

impl Drop for RoomReservation {
    fn drop(&mut self) {
        if self.waits_for.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let account = Arc::clone(&self.account);
        let mut state = account.state.lock();
        self.stop_waiting(&mut state);
        if self.waits_for.is_none() {
            let (key, source) = (&self.key, self.source.as_deref());
            state.admit(&account.bounds, key, self.bytes, source, false);
        }
    }
}

impl Account {
    /// Fails for a value that a bound never has room for, or that a quota has none for now.
    pub fn may_begin(&self, ask: &Ask<'_>) -> Result<(), Error> {
        let new = Total::one(ask.bytes);
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

    /// Fails where a bound has no room for a small value below the folder `path`, which is not there: what it lacks is
    /// not evicted for a folder, which no bound counts.
    pub fn may_make_folder(&self, path: &str) -> Result<(), Error> {
        let below = format!("{path}/k");
        if self.counts(&below) {
            self.counted()?;
        }
        let ask = Ask::new(&below, self.size_of(1));
        let lack = self.lack(&self.state.lock(), &ask, false);
        let lack = lack.filter(|lack| !lack.is_of_ended);
        lack.map_or(Ok(()), |lack| Err(self.refuse(&lack)))
    }

    /// Admits the value of `ask`: what it brings counts from now on, until `held` is dropped. Fails where a bound has
    /// no room. Then `held` has it wait, and changes that come after it leave that room to it; unless no eviction would
    /// make room, where it waits for nothing.
    pub fn admit(
        self: &Arc<Self>,
        held: &mut Option<Box<RoomReservation>>,
        ask: &Ask<'_>,
    ) -> Result<(), Error> {
        let is_counted = [Some(ask.key), ask.source]
            .into_iter()
            .flatten()
            .any(|key| self.counts(key));
        if !is_counted {
            return Ok(());
        }
        self.counted()?;
        let mut state = self.state.lock();
        if held.as_ref().is_some_and(|held| held.waits_for.is_none()) {
            return Ok(());
        }
        let is_first = held.is_some();
        let reservation = held.get_or_insert_with(|| {
            Box::new(RoomReservation {
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
            state.admit(&self.bounds, ask.key, ask.bytes, ask.source, true);
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
            let needs = self.need(&lack.had, ask, at, scope);
            state.sum(at, scope, |sums| sums.waiting = sums.waiting.plus(needs));
            waits_for.push((at, scope.into(), needs));
        }
        // The client is told of the bound only if no value can be evicted for it.
        Err(Error::NoSpace("a bound is full".into()))
    }

    /// The publisher has made a change of `key`, admitted as `held` or begun after so many looks: its file is this one
    /// now, or none. Another program may have changed that since: where the index has looked meanwhile, it is looked at
    /// once more.
    pub fn made(
        &self,
        dir: &ValuesDir,
        key: &str,
        (held, looks): (Option<&mut RoomReservation>, u64),
        file: Option<Known>,
    ) {
        if !self.counts(key) {
            return;
        }
        let mut state = self.state.lock();
        if state.looks == held.as_ref().map_or(looks, |held| held.looks) {
            let made = held.and_then(RoomReservation::land);
            state.note(&self.bounds, key, (file, uptime()), made);
        } else {
            drop(state);
            self.look(dir, key);
        }
    }

    /// What a scope needs for the value of `ask`, beside what the key and the source had.
    fn need(&self, had: &[Total; 2], ask: &Ask<'_>, bound: usize, scope: &str) -> Total {
        let [has, going] = *had;
        let of_scope = |source: &str| self.bounds[bound].prefix.scope(source) == Some(scope);
        let is_going = ask.source.is_some_and(of_scope);
        let going = if is_going { going } else { Total::default() };
        has.max(Total::one(ask.bytes)).minus(has.plus(going))
    }

    /// A bound that lacks room for the value of `ask`; what others wait for is theirs, unless it `is_first`.
    fn lack<'k>(&self, state: &State, ask: &Ask<'k>, is_first: bool) -> Option<Lack<'k>> {
        let (new, mut had) = (Total::one(ask.bytes), None);
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
            let had = *had.get_or_insert_with(|| {
                let keys = [Some(ask.key), ask.source];
                keys.map(|key| key.map_or(Total::default(), |key| state.taken(key)))
            });
            let needs = self.need(&had, ask, at, scope);
            let after = taken.plus(needs);
            let beyond = after.beyond(bound);
            if needs.is_zero() || beyond.is_zero() {
                return None;
            }
            let stuck = sums.map_or(Total::default(), |sums| sums.stuck);
            let is_final = !new.plus(stuck).beyond(bound).is_zero() || !self.evicts(at);
            let asks = taken.minus(sums.map_or(Total::default(), |sums| sums.total));
            if !is_final && sums.is_some_and(|sums| sums.lets_in(needs.plus(asks), beyond)) {
                return None;
            }
            let ended = self.ended_in(state, at, scope);
            let is_of_ended = after.minus(ended).beyond(bound).is_zero();
            Some(Lack {
                bound: at,
                scope,
                is_final: is_final && !is_of_ended,
                is_of_ended,
                had,
            })
        });
        // One that refuses counts first: for it nothing is evicted from the others.
        lacks.min_by_key(|lack| !lack.is_final)
    }

    /// Counts a refusal, and says it.
    fn refuse(&self, lack: &Lack<'_>) -> Error {
        self.figures[lack.bound].refused.fetch_add(1, Relaxed);
        self.refusal(lack.bound, lack.scope)
    }

    /// The refusal of a value for which a bound has no room, in words for the client.
    pub(super) fn refusal(&self, bound: usize, scope: &str) -> Error {
        let advice = match self.bounds[bound].full {
            Full::Refuse => "delete values first",
            Full::Evict if self.evicts(bound) => "nothing can be evicted for this value",
            Full::Evict => {
                "what was there before it is not evicted until the server is started with --evict-existing"
            }
        };
        self.full(bound, scope, advice)
    }

    /// The refusal of what a bound has no room for, with this advice.
    pub(super) fn full(&self, bound: usize, scope: &str, advice: &str) -> Error {
        let (rule, scope) = (&self.bounds[bound], named(scope));
        Error::NoSpace(format!("the bound of {scope} is full ({rule}): {advice}").into())
    }
}
