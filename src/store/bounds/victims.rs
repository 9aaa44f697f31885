//! The choice of what a bound evicts: the values used longest ago, in exactly that order, and those that are too old.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used since; what is not
//! among them was used later than all of them, so the order is that of all. A value that could not be evicted is not chosen again until it
//! is used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::account::{Account, Scope, State};
use super::names::{CHUNK, STUCK, Value, nanos, uptime};
use super::rule::{AgeOf, Bound, Full, Total, millis};
use crate::store::clock;
use crate::value::{Key, Meta};

/// The most values that one pass chooses.
const MOST_CHOSEN: usize = 1 << 16;

/// The most evictions before one change: other changes have their turn between.
pub const STEP: usize = 64;

/// How often values are evicted for the disk though that has given no space.
pub const FRUITLESS: u32 = 8;

/// The part of a bound from which on values are evicted ahead of need: 95%.
fn ahead(max: u64) -> u64 {
    max - max / 20
}

/// The key of a value to be evicted, and what allows its removal, by what its file is now: it was neither used nor written since.
pub type Victim = (Key<'static>, Box<dyn Fn(Option<Meta>) -> bool + Send>);

/// A victim that was used last at the time `used`; `None` where a use does not save it.
fn victim(name: &str, value: &Arc<Value>, used: Option<i64>) -> Option<Victim> {
    let (key, value) = (Key::new(name.to_owned()).ok()?, Arc::clone(value));
    let written = value.written.load(Relaxed);
    let allows = move |current: Option<Meta>| {
        let is_used = used.is_some_and(|used| value.used.load(Relaxed) != used);
        !is_used && current.map(|meta| nanos(meta.version)) == Some(written)
    };
    Some((key, Box::new(allows)))
}

impl Account {
    /// True if the bound of this number may evict what it counts.
    pub(super) fn evicts(&self, bound: usize) -> bool {
        self.bounds[bound].full == Full::Evict && self.may_evict[bound].load(Relaxed)
    }

    /// Notes that the value of `key` could not be evicted.
    pub fn note_stuck(&self, key: &str) {
        if let Some(value) = self.state.lock().names.value(key) {
            value.used.store(STUCK, Relaxed);
        }
    }

    /// The sums of a bound, over all that it counts by.
    pub fn total(&self, bound: usize) -> Total {
        let mut sum = Total::default();
        self.each_scope(bound, |_, scope| sum = sum.plus(scope.total));
        sum
    }

    /// The bytes that may be evicted in all, at most.
    pub fn evictable(&self) -> u64 {
        let evicting = (0..self.bounds.len()).filter(|&at| self.evicts(at));
        evicting.fold(0, |sum, at| sum.saturating_add(self.total(at).bytes))
    }

    /// Visits all that the bound of this number counts by, with its sums.
    pub(super) fn each_scope(&self, bound: usize, mut visit: impl FnMut(&str, &Scope)) {
        let mut from = Unbounded::<Box<str>>;
        loop {
            let state = self.state.lock();
            let rest = state.scopes[bound].range::<Box<str>, _>((from.as_ref(), Unbounded));
            let mut last = None;
            for (name, scope) in rest.take(CHUNK) {
                visit(name, scope);
                last = Some(name);
            }
            let Some(last) = last.cloned() else {
                return;
            };
            from = Excluded(last);
        }
    }

    /// Values to be evicted before a value of `size` bytes is published under `key`, which moves from `source`, if it moves; none where there
    /// is room, or none can be made.
    pub fn victims_for(&self, key: &str, size: u64, source: Option<&str>) -> Vec<Victim> {
        let lack = self.lack(&self.state.lock(), key, size, source);
        let lack = lack.filter(|lack| !lack.is_final);
        let mut victims = lack.map_or(Vec::new(), |lack| {
            self.oldest(lack.bound, lack.scope, lack.beyond, i64::MAX, key)
        });
        victims.retain(|(key, _)| Some(key.as_str()) != source);
        victims
    }

    /// Values to be evicted ahead of need: those of scopes that are nearly full, but what was used within the `min-age` of their bounds. Of a
    /// scope above its bound, as other programs or a smaller bound leave it, whatever is too much.
    pub fn victims_ahead(&self) -> Vec<Victim> {
        let (mut nearly_full, mut victims) = (Vec::new(), Vec::new());
        for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at)) {
            let rule = &self.bounds[bound];
            let spared = uptime().saturating_sub(millis(rule.min_age));
            self.each_scope(bound, |name, scope| {
                let above = scope.total.beyond(rule);
                let (beyond, before) = if above.is_zero() {
                    (scope.total.beyond_part(rule, ahead), spared)
                } else {
                    (above, i64::MAX)
                };
                let oldest = scope.oldest.front();
                if !beyond.is_zero() && oldest.is_none_or(|(used, _)| *used < before) {
                    nearly_full.push((bound, Box::<str>::from(name), beyond, before));
                }
            });
        }
        for (bound, scope, beyond, before) in nearly_full {
            if victims.len() >= 8 * STEP {
                break;
            }
            victims.extend(self.oldest(bound, &scope, beyond, before, ""));
        }
        victims
    }

    /// Values to be evicted so that the disk has `bytes` more, of the largest scope that has any; never `except`.
    pub fn victims_of_disk(&self, bytes: u64, except: &str) -> Vec<Victim> {
        let mut scopes = Vec::new();
        for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at)) {
            self.each_scope(bound, |name, scope| {
                scopes.push((scope.total.bytes, bound, Box::<str>::from(name)));
            });
        }
        scopes.sort_unstable();
        let beyond = Total { bytes, keys: 0 };
        let largest_first = scopes.iter().rev();
        let mut victims = largest_first
            .map(|(_, bound, scope)| self.oldest(*bound, scope, beyond, i64::MAX, except));
        victims.find(|some| !some.is_empty()).unwrap_or_default()
    }

    /// True if the folder of `key` stays without its value: it has another, of which no change is in flight, or is the directory itself.
    pub fn keeps_folder(&self, key: &Key<'_>) -> bool {
        if key.is_flat() {
            return true;
        }
        let folder = format!("{}/", key.folder());
        let (from, state) = (Included(folder.as_str().into()), self.state.lock());
        let is_other = |name: &str| name != key.as_str();
        let mut uncounted = state.names.uncounted(&folder);
        let mut values = state.names.values(&from, &folder);
        uncounted.any(|name| is_other(name))
            || values.any(|(name, it)| is_other(name) && it.in_flight.load(Relaxed) == 0)
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

    /// Values that are older than their bounds keep them, as many as a pass chooses; notes how old the oldest are.
    pub fn victims_of_age(&self) -> Vec<Victim> {
        let mut victims = Vec::new();
        for (at, bound) in self.bounds.iter().enumerate() {
            let may_evict = self.may_evict[at].load(Relaxed) && self.is_whole();
            let saves = matches!(bound.max_age, Some((_, AgeOf::Use)));
            let mut oldest = 0;
            self.visit_counted(at, |_, name, value| {
                let used = value.used.load(Relaxed);
                if used == STUCK {
                    return;
                }
                oldest = value.age().max(oldest);
                if may_evict && victims.len() < MOST_CHOSEN && is_too_old(bound, value) {
                    victims.extend(victim(name, value, saves.then_some(used)));
                }
            });
            let oldest = u64::try_from(oldest).unwrap_or(0);
            self.figures[at].oldest.store(oldest, Relaxed);
        }
        victims
    }

    /// How many values, and how many bytes, the bound of this number would remove at once.
    pub fn would_go(&self, bound: usize) -> Total {
        let rule = &self.bounds[bound];
        // By scope: whether each is too old, the time of its use, and what it takes.
        let mut scopes = BTreeMap::<String, Vec<_>>::new();
        self.visit_counted(bound, |scope, _, value| {
            let order = (Reverse(is_too_old(rule, value)), value.used.load(Relaxed));
            let values = scopes.entry(scope.to_owned()).or_default();
            values.push((order, value.total()));
        });
        let mut going = Total::default();
        for mut values in scopes.into_values() {
            // Of one time, those go first whose names come first.
            values.sort_by_key(|(order, _)| *order);
            let all = values.iter().map(|(_, total)| *total);
            let mut left = all.fold(Total::default(), Total::plus);
            for ((Reverse(is_too_old), _), total) in values {
                let is_too_much = rule.full == Full::Evict && !left.beyond(rule).is_zero();
                if !is_too_old && !is_too_much {
                    break;
                }
                going = going.plus(total);
                left = left.replaced(total, Total::default());
            }
        }
        going
    }

    /// The values of a scope that were used longest ago, all before the time `before`, until they make up what is beyond or [`STEP`] of
    /// them are found; never `except`. None before all values are counted.
    fn oldest(
        &self,
        bound: usize,
        scope: &str,
        beyond: Total,
        before: i64,
        except: &str,
    ) -> Vec<Victim> {
        if beyond.is_zero() || !self.is_whole() {
            return Vec::new();
        }
        // Of the chosen that were not used since; `None` where none of them is left.
        let take = || {
            let (mut victims, mut left) = (Vec::new(), beyond);
            let mut state = self.state.lock();
            let State { names, scopes, .. } = &mut *state;
            let chosen = &mut scopes[bound].get_mut(scope)?.oldest;
            while victims.len() < STEP
                && !left.is_zero()
                && let Some(at) = chosen.iter().position(|(_, name)| **name != *except)
            {
                if chosen[at].0 >= before {
                    return Some(victims);
                }
                if let Some((used, name)) = chosen.remove(at)
                    && let Some(value) = names.value(&name)
                    && value.used.load(Relaxed) == used
                    && value.total().keys > 0
                {
                    left = left.replaced(value.total(), Total::default());
                    let age = u64::try_from(value.age()).unwrap_or(0);
                    self.figures[bound].last_evicted.store(age, Relaxed);
                    victims.extend(victim(&name, value, Some(used)));
                }
            }
            (!victims.is_empty()).then_some(victims)
        };
        let choose_and_take = || {
            self.choose(bound, scope);
            take()
        };
        take().or_else(choose_and_take).unwrap_or_default()
    }

    /// A value is found that was used last at this time: where it comes before the last of those that are chosen, it is one of them.
    pub(super) fn order_anew(&self, state: &mut State, key: &str, used: i64) {
        for (at, scope) in self.scopes(key) {
            let Some(sums) = state.scopes[at].get_mut(scope) else {
                continue;
            };
            if sums.oldest.back().is_some_and(|(last, _)| used < *last) {
                let chosen = (used, Box::from(key));
                let before = sums.oldest.partition_point(|other| *other < chosen);
                // One of before that is gone may have its name and its time.
                if sums.oldest.get(before) != Some(&chosen) {
                    sums.oldest.insert(before, chosen);
                }
            }
        }
    }

    /// Chooses the values of a scope that were used longest ago.
    fn choose(&self, bound: usize, scope: &str) {
        let keys = self.state.lock().total(bound, scope).keys;
        let most = usize::try_from(keys / 16).unwrap_or(MOST_CHOSEN);
        let most = most.clamp(STEP, MOST_CHOSEN);
        let mut oldest: BinaryHeap<(i64, Box<str>)> = BinaryHeap::new();
        self.visit(scope, |name, value| {
            let used = value.used.load(Relaxed);
            if oldest.len() == most {
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
        if let Some(scope) = state.scopes[bound].get_mut(scope) {
            scope.oldest = oldest.into_sorted_vec().into();
        }
    }
}

/// True if `value` is older than `rule` keeps it.
fn is_too_old(rule: &Bound, value: &Value) -> bool {
    let since_written = || clock::now().saturating_sub(value.written.load(Relaxed)) / 1_000_000;
    rule.max_age.is_some_and(|(age, of)| {
        millis(age)
            < match of {
                AgeOf::Use => value.age(),
                AgeOf::Write => since_written(),
            }
    })
}

#[cfg(test)]
mod tests {
    use super::super::rule::MIN_AGE;
    use super::*;
    use crate::value::Version;

    /// An account of a bound of each name that evicts, with a value of so many bytes under each key.
    fn account(values: &[(String, u64)]) -> Arc<Account> {
        let account = super::super::tests::account("{name}/");
        for (key, size) in values {
            account
                .admit(key, *size, Version::from_nanos(1), None)
                .unwrap();
            account.made(key, true);
        }
        account
    }

    fn keys(victims: &[Victim]) -> Vec<&str> {
        victims.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn a_move_within_a_bound_takes_no_room_and_to_look_for_room_changes_no_sum() {
        let half = 1 << 19;
        let account = account(&["a/1", "a/2"].map(|key| (key.to_owned(), half)));
        // A value of the source is on its way, which is not the one that is to move.
        let version = Version::from_nanos(2);
        account.admit("a/2", half, version, None).unwrap();
        let total = account.total(0);
        let victims = |source| account.victims_for("a/3", half, Some(source));
        assert_eq!(keys(&victims("b/1")), ["a/1"]);
        assert_eq!(keys(&victims("a/2")), [""; 0]);
        assert_eq!(account.total(0), total);
        assert!(account.admit("a/3", half, version, Some("b/1")).is_err());
        account.admit("a/3", half, version, Some("a/1")).unwrap();
        assert_eq!(account.total(0), total);
    }

    #[test]
    fn where_the_largest_scope_has_nothing_that_can_go_the_disk_gets_room_from_the_next() {
        let sizes = [("a/1", 9000), ("b/1", 7000), ("b/2", 1), ("c/1", 5000)];
        let account = account(&sizes.map(|(key, size)| (key.to_owned(), size)));
        let for_disk = |except| account.victims_of_disk(1, except);
        assert_eq!(keys(&for_disk("")), ["a/1"]);
        account.note_stuck("a/1");
        assert_eq!(keys(&for_disk("")), ["b/1"]);
        account.note_stuck("b/2");
        assert_eq!(keys(&for_disk("b/1")), ["c/1"]);
        account.note_stuck("c/1");
        assert_eq!(keys(&for_disk("b/1")), [""; 0]);
    }

    /// More than are looked at while the lock is held.
    #[test]
    fn each_of_many_scopes_is_counted_and_evicts_ahead_of_need() {
        const MANY: u64 = 3000;
        let full = |n: u64| n % 1000 == 999;
        let size = |n: u64| if full(n) { 1 << 20 } else { 10 };
        let values = (0..MANY).map(|n| (format!("{n}/k"), size(n)));
        let values: Vec<_> = values.collect();
        let account = account(&values);
        let total = account.total(0);
        let bytes = values.iter().map(|(_, size)| size).sum();
        assert_eq!((total.keys, total.bytes), (MANY, bytes));
        let old = uptime().saturating_sub(2 * millis(MIN_AGE));
        account.visit("", |_, value| value.used.store(old, Relaxed));
        let mut ahead = account.victims_ahead();
        ahead.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        assert_eq!(keys(&ahead), ["1999/k", "2999/k", "999/k"]);
    }
}
