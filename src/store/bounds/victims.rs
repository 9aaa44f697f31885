//! The choice of what a bound evicts: the values used longest ago, in exactly that order, and those that are too old.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used since; what is not
//! among them was used later than all of them, so the order is that of all. A value that could not be evicted is not chosen again until it
//! is used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::account::{Account, Lack, Name, STUCK, Total, Value, millis, nanos, uptime};
use super::rule::{AgeOf, Bound, Full};
use crate::store::clock;
use crate::value::{Key, Meta};

/// The most values that one pass chooses.
const MOST_CHOSEN: u64 = 1 << 16;

/// The most evictions before one change: other changes have their turn between.
pub const STEP: usize = 64;

/// How often values are evicted for the disk though that has given no space.
pub const FRUITLESS: u32 = 8;

/// The part of a bound from which on values are evicted ahead of need.
const AHEAD: f64 = 0.95;

/// A value to be evicted, unless it was used or written since.
#[derive(Debug)]
pub struct Victim {
    /// Its key.
    pub key: Key<'static>,
    value: Arc<Value>,
    /// `None` where a use does not save it.
    used: Option<i64>,
    written: i64,
}

impl Victim {
    /// A victim that was used last at the time `used`.
    fn new(key: &str, value: &Arc<Value>, used: i64) -> Option<Self> {
        Some(Self {
            key: Key::new(key.to_owned()).ok()?,
            value: Arc::clone(value),
            used: Some(used),
            written: value.written.load(Relaxed),
        })
    }

    /// The condition of its removal: it was neither used nor written since.
    pub fn condition(&self) -> impl Fn(Option<Meta>) -> bool + Send + use<> {
        let (value, used, written) = (Arc::clone(&self.value), self.used, self.written);
        move |current| {
            let version = current.map(|meta| nanos(meta.version.nanos()));
            let is_used = used.is_some_and(|used| value.used.load(Relaxed) != used);
            !is_used && version == Some(written)
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

    /// Values to be evicted ahead of need: those of scopes that are nearly full, but what was used within the `min-age` of their bounds. Of a
    /// scope above its bound, as other programs or a smaller bound leave it, whatever is too much.
    pub fn victims_ahead(&self) -> Vec<Victim> {
        let mut victims = Vec::new();
        for (lack, before) in self.nearly_full() {
            if victims.len() >= 8 * STEP {
                break;
            }
            victims.extend(self.oldest(&lack, before, ""));
        }
        victims
    }

    /// Values to be evicted so that the disk has `bytes` more; never `except`.
    pub fn victims_of_disk(&self, bytes: u64, except: &str) -> Vec<Victim> {
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
            Some(lack) => self.oldest(&lack, i64::MAX, except),
            None => Vec::new(),
        }
    }

    /// Values that are older than their bounds keep them, as many as a pass chooses; notes how old the oldest are.
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
                if may_evict
                    && (victims.len() as u64) < MOST_CHOSEN
                    && is_too_old(bound, value, now, wall)
                {
                    let saves = matches!(bound.max_age, Some((_, AgeOf::Use)));
                    victims.extend(Victim::new(key, value, used).map(|victim| Victim {
                        used: victim.used.filter(|_| saves),
                        ..victim
                    }));
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
        let (rule, now, wall) = (&self.bounds()[bound], uptime(), clock::now());
        // By scope: whether each is too old, the time of its use, and its size.
        let mut scopes = BTreeMap::<String, Vec<_>>::new();
        self.visit(rule.prefix.common(), |key, value| {
            if let Some(scope) = rule.prefix.scope(key) {
                let is_too_old = is_too_old(rule, value, now, wall);
                let value = (Reverse(is_too_old), value.used.load(Relaxed), value.size());
                scopes.entry(scope.to_owned()).or_default().push(value);
            }
        });
        let (mut values, mut bytes) = (0, 0);
        for mut scope in scopes.into_values() {
            scope.sort_unstable();
            let mut left = Total {
                bytes: scope.iter().map(|(.., size)| size).sum(),
                keys: scope.len() as u64,
            };
            for (Reverse(is_too_old), _, size) in scope {
                let is_too_much = rule.full == Full::Evict && !left.beyond(rule).is_zero();
                if !is_too_old && !is_too_much {
                    break;
                }
                (values, bytes) = (values + 1, bytes + size);
                (left.keys, left.bytes) = (left.keys - 1, left.bytes - size);
            }
        }
        (values, bytes)
    }

    /// True if the bound of this number may evict what it counts.
    pub fn evicts(&self, bound: usize) -> bool {
        self.bounds()[bound].full == Full::Evict && self.may_evict[bound].load(Relaxed)
    }

    /// The scopes that are nearly full, and the time before which what was used last may go.
    fn nearly_full(&self) -> Vec<(Lack, i64)> {
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
            let mut lower = rule.clone();
            lower.max_size = rule.max_size.map(ahead);
            lower.max_keys = rule.max_keys.map(ahead);
            for (name, scope) in &state.scopes[bound] {
                let above = scope.total.beyond(rule);
                let (beyond, before) = if above.is_zero() {
                    let before = now.saturating_sub(millis(rule.min_age));
                    (scope.total.beyond(&lower), before)
                } else {
                    (above, i64::MAX)
                };
                if !beyond.is_zero() && (before == i64::MAX || scope.spared_until <= now) {
                    let lack = Lack {
                        bound,
                        scope: name.clone(),
                        beyond,
                        is_final: false,
                    };
                    lacks.push((lack, before));
                }
            }
        }
        lacks
    }

    /// The values of a scope that were used longest ago, all before the time `before`, until they make up what is beyond or [`STEP`] of
    /// them are found; never `except`.
    fn oldest(&self, lack: &Lack, before: i64, except: &str) -> Vec<Victim> {
        let (mut victims, mut found) = (Vec::<Victim>::new(), Total::default());
        let is_enough =
            |found: Total| found.bytes >= lack.beyond.bytes && found.keys >= lack.beyond.keys;
        let (mut may_choose, mut own) = (true, None);
        while victims.len() < STEP && !is_enough(found) {
            match self.next(lack, before) {
                Next::Oldest(victim) if victim.key.as_str() == except => own = victim.used,
                // Those chosen anew have it once more.
                Next::Oldest(victim)
                    if victims
                        .iter()
                        .any(|it| it.key.as_str() == victim.key.as_str()) => {}
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
        // It stays chosen, for it may not be written.
        if let Some(used) = own
            && let Some(scope) = self.state.lock().scopes[lack.bound].get_mut(&lack.scope)
        {
            scope.oldest.push_front((used, except.into()));
        }
        if let (Some(last), Some(counters)) = (victims.last(), self.counters.get(lack.bound)) {
            let age = u64::try_from(last.value.age()).unwrap_or(0);
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
                && let Some(victim) = Victim::new(&name, value, used)
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

/// True if `value` is older than `rule` keeps it, by these times of the system and since 1970.
fn is_too_old(rule: &Bound, value: &Value, now: i64, wall: i64) -> bool {
    rule.max_age.is_some_and(|(age, of)| match of {
        AgeOf::Use => millis(age) < now.saturating_sub(value.used.load(Relaxed)),
        AgeOf::Write => {
            let written = value.written.load(Relaxed);
            millis(age) < wall.saturating_sub(written) / 1_000_000
        }
    })
}

/// What the chosen values of a scope have next.
enum Next {
    Oldest(Victim),
    /// It was used too lately.
    Spared,
    /// None is left.
    None,
}
