//! The choice of what a bound evicts: the values used longest ago, in exactly that order, and those that are too old.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used since; what is not
//! among them was used later than all of them, so the order is that of all. A value that could not be evicted is not chosen again until it
//! is used.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::account::{Account, Lack, Name, STUCK, Total, Value, nanos, uptime};
use super::rule::{AgeOf, Full};
use crate::store::clock;
use crate::value::{Key, Meta};

/// The most values that one pass chooses.
const MOST_CHOSEN: u64 = 1 << 16;

/// The most evictions before one change: other changes have their turn between.
pub const STEP: usize = 64;

/// The part of a bound from which on values are evicted ahead of need.
const AHEAD: f64 = 0.95;

/// A value to be evicted, unless it was used or written since.
#[derive(Debug)]
pub struct Victim {
    pub key: Key<'static>,
    value: Arc<Value>,
    used: i64,
    written: i64,
}

impl Victim {
    fn new(key: &str, value: &Arc<Value>) -> Option<Self> {
        Some(Self {
            key: Key::new(key.to_owned()).ok()?,
            value: Arc::clone(value),
            used: value.used.load(Relaxed),
            written: value.written.load(Relaxed),
        })
    }

    /// The condition of its removal: it was neither used nor written since.
    pub fn condition(&self) -> impl Fn(Option<Meta>) -> bool + Send + use<> {
        let (value, used, written) = (Arc::clone(&self.value), self.used, self.written);
        move |current| {
            let version = current.map(|meta| nanos(meta.version.nanos()));
            value.used.load(Relaxed) == used && version == Some(written)
        }
    }
}

impl Account {
    /// Values to be evicted before a value of `size` bytes is published under `key`; none where there is room, or none can be made.
    pub fn victims_for(&self, key: &str, size: u64) -> Vec<Victim> {
        let lack = self.lack(&self.state.lock(), key, size);
        match lack.filter(|lack| !lack.is_final && self.is_whole()) {
            Some(lack) => self.oldest(&lack, i64::MAX, key),
            None => Vec::new(),
        }
    }

    /// Values to be evicted ahead of need: those of scopes that are nearly full, but what was used within the `min-age` of their bounds.
    pub fn victims_ahead(&self) -> Vec<Victim> {
        let mut victims = Vec::new();
        for lack in self.nearly_full() {
            let min_age = self.bounds()[lack.bound].min_age.as_millis();
            let before = uptime().saturating_sub(i64::try_from(min_age).unwrap_or(i64::MAX));
            victims.extend(self.oldest(&lack, before, ""));
        }
        victims
    }

    /// Values to be evicted so that the disk has `bytes` more.
    pub fn victims_of_disk(&self, bytes: u64) -> Vec<Victim> {
        let state = self.state.lock();
        let evicting = (0..self.bounds().len()).filter(|&at| self.evicts(at));
        let scopes = evicting.flat_map(|at| state.scopes[at].iter().map(move |it| (at, it)));
        let largest = scopes.max_by_key(|(_, (_, scope))| scope.total.bytes);
        let lack = largest.map(|(bound, (scope, _))| Lack {
            bound,
            scope: scope.clone(),
            beyond: Total { bytes, keys: 0 },
            is_final: false,
        });
        drop(state);
        match lack.filter(|_| self.is_whole()) {
            Some(lack) => self.oldest(&lack, i64::MAX, ""),
            None => Vec::new(),
        }
    }

    /// Values that are older than their bounds keep them, at most some hundred; notes how old the oldest are.
    pub fn victims_of_age(&self) -> Vec<Victim> {
        let (now, wall) = (uptime(), clock::now());
        let mut victims = Vec::new();
        for (at, bound) in self.bounds().iter().enumerate() {
            let may_evict = self.may_evict[at].load(Relaxed) && self.is_whole();
            let mut oldest = now;
            self.visit(bound.prefix.common(), |key, value| {
                let used = value.used.load(Relaxed);
                if bound.prefix.scope(key).is_none() || used == STUCK {
                    return;
                }
                oldest = oldest.min(used);
                let is_old = bound.max_age.is_some_and(|(age, of)| match of {
                    AgeOf::Use => millis(age) < now.saturating_sub(used),
                    AgeOf::Write => {
                        let written = value.written.load(Relaxed);
                        millis(age) < wall.saturating_sub(written) / 1_000_000
                    }
                });
                if is_old && may_evict && victims.len() < 8 * STEP {
                    victims.extend(Victim::new(key, value));
                }
            });
            let age = u64::try_from(now.saturating_sub(oldest)).unwrap_or(0);
            self.counters[at].oldest.store(age, Relaxed);
        }
        victims
    }

    /// Notes that the value of `key` could not be evicted.
    pub fn note_stuck(&self, key: &str) {
        if let Some(value) = self.state.lock().value(key) {
            value.used.store(STUCK, Relaxed);
        }
    }

    /// How many values, and how many bytes, the bound of this number would remove at once.
    pub fn would_go(&self, bound: usize) -> (u64, u64) {
        let beyond = self.total(bound).beyond(&self.bounds()[bound]);
        let mut ages = Vec::new();
        self.visit(self.bounds()[bound].prefix.common(), |_, value| {
            ages.push((value.age(), value.size.load(Relaxed)));
        });
        ages.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
        let (mut values, mut bytes) = (0, 0);
        for (_, size) in ages {
            if bytes >= beyond.bytes && values >= beyond.keys {
                break;
            }
            (values, bytes) = (values + 1, bytes + size);
        }
        (values, bytes)
    }

    /// True if the bound of this number may evict what it counts.
    pub fn evicts(&self, bound: usize) -> bool {
        self.bounds()[bound].full == Full::Evict && self.may_evict[bound].load(Relaxed)
    }

    /// The scopes that are nearly full, and may have values to be evicted ahead of need.
    fn nearly_full(&self) -> Vec<Lack> {
        let (state, now) = (self.state.lock(), uptime());
        let mut lacks = Vec::new();
        for (bound, rule) in self.bounds().iter().enumerate() {
            if !self.evicts(bound) || !self.is_whole() {
                continue;
            }
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of it, roughly"
            )]
            let ahead = |max: u64| (max as f64 * AHEAD) as u64;
            let mut rule = rule.clone();
            rule.max_size = rule.max_size.map(ahead);
            rule.max_keys = rule.max_keys.map(ahead);
            for (name, scope) in &state.scopes[bound] {
                let beyond = scope.total.beyond(&rule);
                if !beyond.is_zero() && scope.spared_until <= now {
                    lacks.push(Lack {
                        bound,
                        scope: name.clone(),
                        beyond,
                        is_final: false,
                    });
                }
            }
        }
        lacks
    }

    /// The values of a scope that were used longest ago, all before the time `before`, until they make up what is beyond or [`STEP`] of
    /// them are found; never `except`.
    fn oldest(&self, lack: &Lack, before: i64, except: &str) -> Vec<Victim> {
        let (mut victims, mut found) = (Vec::new(), Total::default());
        let is_enough =
            |found: Total| found.bytes >= lack.beyond.bytes && found.keys >= lack.beyond.keys;
        let mut may_choose = true;
        while victims.len() < STEP && !is_enough(found) {
            match self.next(lack, before) {
                Next::Oldest(victim) if victim.key.as_str() == except => {}
                Next::Oldest(victim) => {
                    found.bytes += victim.value.size.load(Relaxed);
                    found.keys += 1;
                    victims.push(victim);
                }
                Next::Spared => break,
                Next::None if !std::mem::take(&mut may_choose) => break,
                Next::None => self.choose(lack),
            }
        }
        if let (Some(last), Some(counters)) = (victims.last(), self.counters.get(lack.bound)) {
            let age = u64::try_from(uptime().saturating_sub(last.used)).unwrap_or(0);
            counters.last_evicted.store(age, Relaxed);
        }
        victims
    }

    /// The next of the chosen that was not used since.
    fn next(&self, lack: &Lack, before: i64) -> Next {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(scope) = state.scopes[lack.bound].get_mut(&lack.scope) else {
            return Next::None;
        };
        while let Some((used, name)) = scope.oldest.pop_front() {
            if used >= before {
                let min_age = millis(self.bounds()[lack.bound].min_age);
                scope.spared_until = used.saturating_add(min_age);
                scope.oldest.push_front((used, name));
                return Next::Spared;
            }
            let value = state.names.get(&*name).and_then(Name::value);
            if let Some(value) = value
                && value.used.load(Relaxed) == used
                && let Some(victim) = Victim::new(&name, value)
            {
                return Next::Oldest(victim);
            }
        }
        Next::None
    }

    /// Chooses the values of a scope that were used longest ago.
    fn choose(&self, lack: &Lack) {
        let keys = {
            let state = self.state.lock();
            let scope = state.scopes[lack.bound].get(&lack.scope);
            scope.map_or(0, |scope| scope.total.keys)
        };
        let most = (keys / 16).clamp(STEP as u64, MOST_CHOSEN);
        let mut oldest: BinaryHeap<(i64, Box<str>)> = BinaryHeap::new();
        self.visit(&lack.scope, |name, value| {
            let used = value.used.load(Relaxed);
            if oldest.len() as u64 == most {
                if oldest.peek().is_some_and(|(latest, _)| used >= *latest) {
                    return;
                }
                oldest.pop();
            }
            if used != STUCK {
                oldest.push((used, name.into()));
            }
        });
        let mut state = self.state.lock();
        if let Some(scope) = state.scopes[lack.bound].get_mut(&lack.scope) {
            scope.oldest = oldest.into_sorted_vec().into();
        }
    }
}

/// What the chosen values of a scope have next.
enum Next {
    Oldest(Victim),
    /// It was used too lately.
    Spared,
    /// None is left.
    None,
}

fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
