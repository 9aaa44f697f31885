//! Who is removed without a change that asks for it: what has ended, what nearly full bounds and a nearly full disk
//! will need, and what is too old.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::account::Account;
use super::ledger::{From, State, Sums, scopes};
use super::order::STEP;
use super::rule::{AgeOf, Bound, Full, Total, millis};
use super::value::{Value, uptime};
use super::victim::Victim;
use crate::store::changes::Removal;
use crate::store::clock;
use crate::value::Key;

/// The most values that are removed by age before all are looked at again.
const MOST_TOO_OLD: usize = 1 << 12;

/// Scopes that are visited while the lock is held.
const CHUNK: usize = 1024;

/// How long the scopes are not compared again after each of them was looked at.
const COMPARED: Duration = Duration::from_secs(1);

/// The part of a bound from which on values are evicted ahead of need: 95%.
fn ahead(max: u64) -> u64 {
    max - max / 20
}

/// Of a bound of less no value goes for the next: it would be too large a part.
const LARGE: u64 = 1 << 26;

/// The most bytes that are free for the next values, or names.
const MOST_FREE: u64 = 1 << 24;

/// The part of a bound that values leave free for the next: all but 1/1024, and 16 MiB at most.
fn next(max: u64) -> u64 {
    let free = (max / 1024).min(MOST_FREE);
    if max < LARGE { max } else { max - free }
}

impl State {
    /// The keys of values that have ended, and that can go.
    fn ended(&self) -> impl Iterator<Item = &str> {
        // As a rule there are none, and no clock is asked.
        let now = if self.ends.is_empty() {
            0
        } else {
            clock::now()
        };
        let now = u64::try_from(now / 1_000_000_000).unwrap_or(0);
        let ended = self.ends.iter().take_while(move |(end, _)| *end <= now);
        let ended = ended.map(|(_, key)| &**key);
        ended.filter(|key| self.names.value(key).is_some_and(|it| !it.is_stuck()))
    }
}

impl Account {
    /// What the values take that have ended in a scope, and that can go; those too whose removal is under way.
    pub(super) fn ended_in(&self, state: &State, bound: usize, scope: &str) -> Total {
        let is_in = |key: &&str| self.bounds[bound].prefix.scope(key) == Some(scope);
        let ended = state.ended().filter(is_in);
        ended.fold(Total::default(), |sum, key| sum.plus(state.taken(key)))
    }

    /// Values that have ended and are `wanted`, some of them.
    pub(super) fn victims_of_end(self: &Arc<Self>, wanted: impl Fn(&str) -> bool) -> Vec<Victim> {
        let state = &mut *self.state.lock();
        let may_go = |key: &&str| state.names.value(key).is_some_and(|it| it.may_go());
        let is_wanted = |key: &&str| may_go(key) && wanted(key);
        let ended = state.ended().filter(is_wanted).take(STEP);
        let ended: Vec<Box<str>> = ended.map(Box::from).collect();
        let ended = ended.into_iter().filter_map(|key| {
            let value = Arc::clone(state.names.value(&key)?);
            self.victim(state, key, value, None, (Removal::Expired, None))
        });
        ended.collect()
    }

    /// Values that have ended, some of them: they are absent to all requests, and go first wherever room is made.
    pub fn ended(self: &Arc<Self>) -> Vec<Victim> {
        self.victims_of_end(|_| true)
    }

    /// The sums of a bound, over all that it counts by.
    pub fn total(&self, bound: usize) -> Total {
        let mut sum = Total::default();
        self.each_scope(bound, |_, sums| sum = sum.plus(sums.total));
        sum
    }

    /// The names of a bound that have the largest parts of their limits, so many at most, the fullest first.
    pub fn fullest(&self, bound: usize, most: usize) -> Vec<(Box<str>, Total)> {
        let rule = &self.bounds[bound];
        let mut fullest = BinaryHeap::new();
        self.each_scope(bound, |name, sums| {
            let Total { bytes, keys } = sums.total;
            let part = sums.total.part_of(rule);
            fullest.push(Reverse((part, bytes, keys, Box::<str>::from(name))));
            if fullest.len() > most {
                fullest.pop();
            }
        });
        let fullest = fullest.into_sorted_vec().into_iter();
        let named = |Reverse((_, bytes, keys, name))| (name, Total { bytes, keys });
        fullest.map(named).collect()
    }

    /// The bytes of the disk that evictions can give in all, at most.
    pub fn evictable(&self) -> u64 {
        let mut sum = 0_u64;
        for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at)) {
            self.each_scope(bound, |_, sums| {
                sum = sum.saturating_add(sums.evictable());
            });
        }
        sum
    }

    /// What is above the bound that is exceeded most, and is being evicted.
    pub fn above(&self) -> Total {
        let mut most = Total::default();
        for bound in (0..self.bounds.len()).filter(|&at| self.is_whole() && self.evicts(at)) {
            let mut sum = Total::default();
            self.each_scope(bound, |_, sums| {
                let beyond = sums.to_go().beyond(&self.bounds[bound]);
                // What cannot go is not evicted.
                let stays = beyond.minus(sums.total.minus(sums.stuck));
                sum = sum.plus(beyond.minus(stays));
            });
            most = most.max(sum);
        }
        most
    }

    /// Visits all that the bound of this number counts by, with its sums.
    pub(super) fn each_scope(&self, bound: usize, mut visit: impl FnMut(&str, &Sums)) {
        let mut from = Unbounded::<Box<str>>;
        loop {
            let state = self.state.lock();
            let rest = state.scopes[bound].range::<Box<str>, _>((from.as_ref(), Unbounded));
            let mut last = None;
            for (name, sums) in rest.take(CHUNK) {
                visit(name, sums);
                last = Some(name);
            }
            let Some(last) = last.cloned() else {
                return;
            };
            from = Excluded(last);
        }
    }

    /// Values to be evicted ahead of need: those of scopes that are nearly full, but what was used within the `min-age`
    /// of their bounds. Of a scope above its bound, as other programs or a smaller bound leave it, whatever is too
    /// much.
    pub fn victims_ahead(self: &Arc<Self>) -> Vec<Victim> {
        let (mut nearly_full, mut victims) = (Vec::new(), Vec::new());
        for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at)) {
            let rule = &self.bounds[bound];
            let spared = uptime().saturating_sub(millis(rule.min_age));
            self.each_scope(bound, |name, sums| {
                let above = sums.to_go().beyond(rule);
                let (beyond, before) = if above.is_zero() {
                    (sums.to_go().beyond_part(rule, ahead), spared)
                } else {
                    (above, i64::MAX)
                };
                let oldest = sums.oldest.front();
                if !beyond.is_zero() && oldest.is_none_or(|(used, _)| *used < before) {
                    nearly_full.push((bound, Box::<str>::from(name), beyond, before));
                }
            });
        }
        for (bound, scope, beyond, before) in nearly_full {
            if victims.len() >= 8 * STEP {
                break;
            }
            victims.extend(self.oldest(From::Bound, (bound, &scope), beyond, before, &[]));
        }
        victims
    }

    /// The value that goes first from a bound of `key`, where it is as good as full: the next value then has room at
    /// once, also among values that were all used within the `min-age`.
    pub fn victim_for_next(self: &Arc<Self>, key: &str) -> Option<Victim> {
        let victim = |(at, scope): (usize, &str)| {
            let rule = &self.bounds[at];
            let to_go = self.state.lock().scopes[at].get(scope)?.to_go();
            let beyond = to_go.beyond_part(rule, next).min(Total::one(1));
            self.oldest(From::Bound, (at, scope), beyond, i64::MAX, &[])
                .pop()
        };
        let mut evicting = scopes(&self.bounds, key).filter(|(at, _)| self.evicts(*at));
        evicting.find_map(victim)
    }

    /// Values to be evicted so that the disk has so much more, of the largest scope that has any; never those of the
    /// keys `except`.
    pub(super) fn victims_of_disk(self: &Arc<Self>, lacks: Total, except: &[&str]) -> Vec<Victim> {
        let mut largest = self.largest.lock();
        let is_old = largest.compared.is_none_or(|at| at.elapsed() >= COMPARED);
        if is_old || largest.scopes.is_empty() && !largest.is_exhausted {
            largest.scopes.clear();
            largest.is_exhausted = true;
            for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at)) {
                self.each_scope(bound, |name, sums| {
                    largest.scopes.push((sums.evictable(), bound, name.into()));
                });
            }
            largest.compared = Some(Instant::now());
        }
        while let Some((bytes, bound, scope)) = largest.scopes.pop() {
            let state = self.state.lock();
            let Some(now) = state.scopes[bound].get(&scope).map(Sums::evictable) else {
                continue;
            };
            drop(state);
            if now < bytes {
                // Another may be the largest by now.
                largest.scopes.push((now, bound, scope));
                continue;
            }
            let victims = self.oldest(From::Disk, (bound, &scope), lacks, i64::MAX, except);
            if !victims.is_empty() {
                largest.scopes.push((bytes, bound, scope));
                largest.is_exhausted = false;
                return victims;
            }
        }
        Vec::new()
    }

    /// True if the folder of `key` stays without its value: it has another, or is the directory itself.
    pub fn keeps_folder(&self, key: &Key<'_>) -> bool {
        key.is_flat() || self.state.lock().names.has_beside(key.as_str())
    }

    /// Visits the values that the bound of this number counts, each with what it counts by.
    pub fn visit_counted(&self, bound: usize, mut visit: impl FnMut(&str, &str, &Arc<Value>)) {
        let prefix = &self.bounds[bound].prefix;
        self.visit(prefix.common(), |name, value| {
            if let Some(scope) = prefix.scope(name) {
                visit(scope, name, value);
            }
        });
    }

    /// Values that are older than their bounds keep them, some of them; notes how old the oldest are.
    pub fn victims_of_age(self: &Arc<Self>) -> Vec<Victim> {
        let mut too_old = Vec::new();
        for (at, bound) in self.bounds.iter().enumerate() {
            let may_remove = self.may_remove(at, Removal::Age) && self.is_whole();
            let mut oldest = 0;
            self.visit_counted(at, |_, name, value| {
                if value.is_stuck() {
                    return;
                }
                oldest = value.age().max(oldest);
                if may_remove && too_old.len() < MOST_TOO_OLD && is_too_old(bound, value) {
                    too_old.push((at, Box::<str>::from(name)));
                }
            });
            let oldest = u64::try_from(oldest).unwrap_or(0);
            self.figures[at].oldest.store(oldest, Relaxed);
        }
        let state = &mut *self.state.lock();
        let victims = too_old.into_iter().filter_map(|(at, key)| {
            let value = Arc::clone(state.names.value(&key)?);
            let rule = &self.bounds[at];
            let used = value.used();
            let saves = matches!(rule.max_age, Some((_, AgeOf::Use))).then_some(used);
            let is_victim = is_too_old(rule, &value) && value.may_go();
            is_victim.then(|| self.victim(state, key, value, saves, (Removal::Age, None)))?
        });
        victims.collect()
    }

    /// How many values, and how many bytes, the bound of this number would remove at once.
    pub fn would_go(&self, bound: usize) -> Total {
        let rule = &self.bounds[bound];
        // By scope: whether each is too old, the time of its use, and what it takes.
        let mut scopes = BTreeMap::<String, Vec<_>>::new();
        self.visit_counted(bound, |scope, name, value| {
            let order = (
                Reverse(is_too_old(rule, value)),
                value.used(),
                name.to_owned(),
            );
            let values = scopes.entry(scope.to_owned()).or_default();
            values.push((order, value.total()));
        });
        let mut going = Total::default();
        for mut values in scopes.into_values() {
            values.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let all = values.iter().map(|(_, total)| *total);
            let mut left = all.fold(Total::default(), Total::plus);
            for ((Reverse(is_too_old), ..), total) in values {
                let is_too_much = rule.full == Full::Evict && !left.beyond(rule).is_zero();
                if !is_too_old && !is_too_much {
                    break;
                }
                going = going.plus(total);
                left = left.minus(total);
            }
        }
        going
    }
}

/// True if `value` is older than `rule` keeps it.
fn is_too_old(rule: &Bound, value: &Value) -> bool {
    rule.max_age.is_some_and(|(age, of)| {
        millis(age)
            < match of {
                AgeOf::Use => value.age(),
                AgeOf::Write => value.since_written(),
            }
    })
}

#[cfg(test)]
mod tests {
    use super::super::admission::Ask;
    use super::super::room::Choice;
    use super::super::value::Known;
    use super::*;

    #[test]
    fn what_has_ended_makes_room_also_while_it_is_removed() {
        let account = super::super::tests::account("");
        account.set_may_remove(0, Removal::Full, false);
        let file = Known {
            version: 1,
            bytes: 1 << 20,
            end: Some(1),
            is_linked: false,
            is_elsewhere: false,
        };
        let note = |file| {
            let mut state = account.state.lock();
            state.note(&account.bounds, "ended", (file, 0), None);
        };
        note(Some(file));
        let victims = account.ended();
        assert_eq!((victims.len(), account.ended().len()), (1, 0));
        let ask = Ask {
            key: "new",
            bytes: 1,
            source: None,
            staged: 0,
        };
        account.may_begin(&ask).unwrap();
        account.may_make_folder("folder").unwrap();
        let mut held = None;
        account.admit(&mut held, &ask).unwrap_err();
        let choice = account.for_change(held.as_ref().unwrap(), &ask);
        assert!(matches!(choice, Some(Choice::Wait)));
        note(None);
        drop(victims);
        account.admit(&mut held, &ask).unwrap();
    }
}
