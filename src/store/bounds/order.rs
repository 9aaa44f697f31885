//! The order in which values go: what has ended, then those used longest ago, in exactly that order; and those that are too old.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used since; what is not
//! among them was used later than all of them, so the order is that of all. A value that could not be evicted is not chosen again until it
//! changes, and one whose eviction is under way is not chosen twice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::account::Account;
use super::ledger::{Oldest, State, Sums, scopes};
use super::rule::{AgeOf, Bound, Full, Total, millis};
use super::value::{Value, nanos, uptime};
use crate::store::changes::Removal;
use crate::value::{Key, Meta};

/// The most values that one pass chooses.
const MOST_CHOSEN: usize = 1 << 16;

/// The most values that are removed by age before all are looked at again.
const MOST_TOO_OLD: usize = 1 << 12;

/// The most evictions before others have their turn.
pub const STEP: usize = 64;

/// Scopes that are visited while the lock is held.
const CHUNK: usize = 1024;

/// How long the scopes are not compared again after each of them was looked at.
const COMPARED: Duration = Duration::from_secs(1);

/// The part of a bound from which on values are evicted ahead of need: 95%.
fn ahead(max: u64) -> u64 {
    max - max / 20
}

/// A value that is to be removed.
pub struct Victim {
    /// Its key.
    pub key: Key<'static>,
    /// Bytes of the disk that it takes.
    pub bytes: u64,
    /// Allows its removal, by what its file is now: it was neither used nor written since. While this is kept, the removal is under way.
    pub allows: Box<dyn Fn(Option<Meta>) -> bool + Send>,
    /// The reason.
    pub why: Removal,
}

impl Victim {
    /// Keeps `kept` as long as the removal is under way.
    pub(super) fn keep(&mut self, kept: Arc<()>) {
        let allows = std::mem::replace(&mut self.allows, Box::new(|_| false));
        self.allows = Box::new(move |current| Arc::strong_count(&kept) > 0 && allows(current));
    }
}

/// A removal that is under way, of a value that was used last at the time `used`.
struct Leaving {
    account: Arc<Account>,
    key: Box<str>,
    value: Arc<Value>,
    used: i64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let bounds = &self.account.bounds;
        let state = &mut *self.account.state.lock();
        state.evict(bounds, &self.key, false);
        // Where it stays it is again one of those used longest ago.
        if self.value.used() == self.used && !self.value.is_stuck() {
            state.order(bounds, &self.key, &self.value);
        }
    }
}

/// Which values are chosen from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// All that a bound counts.
    Bound,
    /// Those whose removal gives the disk room.
    Disk,
}

impl From {
    fn order(self, sums: &mut Sums) -> &mut Oldest {
        let [oldest, oldest_of_disk] = sums.orders();
        match self {
            Self::Bound => oldest,
            Self::Disk => oldest_of_disk,
        }
    }

    fn has(self, value: &Value) -> bool {
        !value.is_stuck() && (self == Self::Bound || !value.known().frees_nothing())
    }
}

impl State {
    /// Where the value of `key` comes before the last of those that are chosen, it is one of them.
    pub fn order(&mut self, bounds: &[Bound], key: &str, value: &Value) {
        for (at, scope) in scopes(bounds, key) {
            let Some(sums) = self.scopes[at].get_mut(scope) else {
                continue;
            };
            for from in [From::Bound, From::Disk] {
                let (oldest, used) = (from.order(sums), value.used());
                let is_chosen = oldest
                    .back()
                    .is_some_and(|(last, name)| (used, key) < (*last, name));
                if is_chosen && from.has(value) {
                    let chosen = (used, Box::from(key));
                    let before = oldest.partition_point(|other| *other < chosen);
                    // One of before that is gone may have its name and its time.
                    if oldest.get(before) != Some(&chosen) {
                        oldest.insert(before, chosen);
                    }
                }
            }
        }
    }

    /// The keys of values that have ended, and whose removal is not under way.
    fn ended(&self) -> impl Iterator<Item = &str> {
        let now = u64::try_from(crate::store::clock::now() / 1_000_000_000).unwrap_or(0);
        let ended = self.ends.iter().take_while(move |(end, _)| *end <= now);
        let ended = ended.map(|(_, key)| &**key);
        ended.filter(|key| {
            !self.is_evicted(key) && self.names.value(key).is_some_and(|it| !it.is_stuck())
        })
    }
}

impl Account {
    /// What the values take that have ended in a scope, and that can go.
    pub(super) fn ended_in(&self, state: &State, bound: usize, scope: &str) -> Total {
        let is_in = |key: &&str| self.bounds[bound].prefix.scope(key) == Some(scope);
        let ended = state.ended().filter(is_in);
        ended.fold(Total::default(), |sum, key| sum.plus(state.taken(key)))
    }

    /// Values that have ended and are `wanted`, some of them.
    pub(super) fn victims_of_end(self: &Arc<Self>, wanted: impl Fn(&str) -> bool) -> Vec<Victim> {
        let state = &mut *self.state.lock();
        let ended = state.ended().filter(|key| wanted(key)).take(STEP);
        let ended: Vec<Box<str>> = ended.map(Box::from).collect();
        let ended = ended.iter().filter_map(|key| {
            let value = Arc::clone(state.names.value(key)?);
            self.victim(state, key, &value, None, Removal::Expired)
        });
        ended.collect()
    }

    /// Values that have ended, some of them: they are absent to all requests, and go first wherever room is made.
    pub fn ended(self: &Arc<Self>) -> Vec<Victim> {
        self.victims_of_end(|_| true)
    }

    /// Begins the removal of `value`, for the reason `why`; a use since the time `used` saves it.
    fn victim(
        self: &Arc<Self>,
        state: &mut State,
        key: &str,
        value: &Arc<Value>,
        used: Option<i64>,
        why: Removal,
    ) -> Option<Victim> {
        let name = Key::new(key.to_owned()).ok()?;
        let leaving = Leaving {
            account: Arc::clone(self),
            key: key.into(),
            value: Arc::clone(value),
            used: value.used(),
        };
        state.evict(&self.bounds, key, true);
        let version = value.known().version;
        let allows = move |current: Option<Meta>| {
            let is_used = used.is_some_and(|used| leaving.value.used() != used);
            let is_same = current.map(|meta| nanos(meta.version)) == Some(version);
            let may_go = why != Removal::Expired || current.is_some_and(|meta| meta.has_ended());
            !is_used && is_same && may_go
        };
        Some(Victim {
            key: name,
            bytes: value.bytes(),
            allows: Box::new(allows),
            why,
        })
    }

    /// The sums of a bound, over all that it counts by.
    pub fn total(&self, bound: usize) -> Total {
        let mut sum = Total::default();
        self.each_scope(bound, |_, sums| sum = sum.plus(sums.total));
        sum
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

    /// Visits all that the bound of this number counts by, with its sums.
    fn each_scope(&self, bound: usize, mut visit: impl FnMut(&str, &Sums)) {
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

    /// Values to be evicted ahead of need: those of scopes that are nearly full, but what was used within the `min-age` of their bounds. Of a
    /// scope above its bound, as other programs or a smaller bound leave it, whatever is too much.
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

    /// Values to be evicted so that the disk has so much more, of the largest scope that has any; never those of the keys `except`.
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
        let victims = too_old.iter().filter_map(|(at, key)| {
            let value = state.names.value(key).filter(|_| !state.is_evicted(key))?;
            let (value, rule) = (Arc::clone(value), &self.bounds[*at]);
            let used = value.used();
            let saves = matches!(rule.max_age, Some((_, AgeOf::Use))).then_some(used);
            let is_victim = is_too_old(rule, &value) && !value.is_stuck();
            is_victim.then(|| self.victim(state, key, &value, saves, Removal::Age))?
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

    /// The values of a scope that were used longest ago, all before the time `before`, until they make up what is beyond or [`STEP`] of
    /// them are found; never those of the keys `except`. None before all values are counted.
    pub(super) fn oldest(
        self: &Arc<Self>,
        from: From,
        (bound, scope): (usize, &str),
        beyond: Total,
        before: i64,
        except: &[&str],
    ) -> Vec<Victim> {
        if beyond.is_zero() || !self.is_whole() {
            return Vec::new();
        }
        // Of the chosen that were not used since; `None` where none of them is left.
        let take = || {
            let (mut victims, mut left) = (Vec::new(), beyond);
            let state = &mut *self.state.lock();
            let mut order = std::mem::take(from.order(state.scopes[bound].get_mut(scope)?));
            let (mut spared, mut is_over) = (Vec::new(), false);
            while victims.len() < STEP
                && !left.is_zero()
                && let Some((used, key)) = order.pop_front()
            {
                if used >= before || except.contains(&&*key) {
                    is_over = used >= before;
                    spared.push((used, key));
                    if is_over {
                        break;
                    }
                    continue;
                }
                let value = state.names.value(&key).cloned();
                if let Some(value) = value.filter(|it| it.used() == used && from.has(it))
                    && !state.is_evicted(&key)
                {
                    left = left.minus(value.total());
                    let age = u64::try_from(value.age()).unwrap_or(0);
                    self.figures[bound].last_evicted.store(age, Relaxed);
                    let why = Removal::Full;
                    victims.extend(self.victim(state, &key, &value, Some(used), why));
                }
            }
            spared
                .into_iter()
                .rev()
                .for_each(|chosen| order.push_front(chosen));
            if let Some(sums) = state.scopes[bound].get_mut(scope) {
                *from.order(sums) = order;
            }
            (is_over || !victims.is_empty()).then_some(victims)
        };
        let choose_and_take = || {
            self.choose(from, bound, scope);
            take()
        };
        take().or_else(choose_and_take).unwrap_or_default()
    }

    /// Chooses the values of a scope that were used longest ago.
    fn choose(&self, from: From, bound: usize, scope: &str) {
        let keys = self.state.lock().total(bound, scope).keys;
        let most = usize::try_from(keys / 16).unwrap_or(MOST_CHOSEN);
        let most = most.clamp(STEP, MOST_CHOSEN);
        let mut oldest: BinaryHeap<(i64, Box<str>)> = BinaryHeap::new();
        self.visit(scope, |name, value| {
            let used = value.used();
            if !from.has(value) {
                return;
            }
            if oldest.len() == most {
                if oldest
                    .peek()
                    .is_some_and(|(latest, last)| (used, name) >= (*latest, &**last))
                {
                    return;
                }
                oldest.pop();
            }
            oldest.push((used, name.into()));
        });
        let mut state = self.state.lock();
        if let Some(sums) = state.scopes[bound].get_mut(scope) {
            *from.order(sums) = oldest.into_sorted_vec().into();
        }
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
    use super::super::account::{Ask, Reservation};
    use super::super::room::{Choice, IN_VAIN, Room};
    use super::super::rule::MIN_AGE;
    use super::*;
    use crate::store::space::Free;

    /// An account of a bound of each name that evicts, with a value of so many bytes under each key.
    fn account(values: &[(&str, u64)]) -> Arc<Account> {
        let account = super::super::tests::account("{name}/");
        for (key, bytes) in values {
            account.place(key, Some(*bytes));
        }
        account
    }

    fn keys(victims: &[Victim]) -> Vec<&str> {
        victims.iter().map(|victim| victim.key.as_str()).collect()
    }

    fn admit(
        account: &Arc<Account>,
        key: &str,
        bytes: u64,
        source: Option<&str>,
    ) -> (Option<Box<Reservation>>, bool) {
        let (mut held, ask) = (
            None,
            Ask {
                key,
                bytes,
                source,
                staged: 0,
            },
        );
        let admitted = account.admit(&mut held, &ask);
        (held, admitted.is_ok())
    }

    #[test]
    fn a_move_within_a_bound_takes_no_room() {
        let half = 1 << 19;
        let account = account(&[("a/1", half), ("a/2", half)]);
        let total = account.total(0);
        let (held, is_admitted) = admit(&account, "a/3", half, Some("b/1"));
        assert!(!is_admitted);
        drop(held);
        let (held, is_admitted) = admit(&account, "a/3", half, Some("a/1"));
        assert!(is_admitted);
        assert_eq!(account.total(0), total);
        drop(held);
        assert_eq!(account.total(0), total);
    }

    #[test]
    fn the_disk_gets_room_from_the_largest_scope_that_has_any() {
        let sizes = [("a/1", 9000), ("b/1", 7000), ("b/2", 1), ("c/1", 5000)];
        let account = account(&sizes);
        let lacks = Total { bytes: 1, keys: 0 };
        let for_disk = |except| {
            account.largest.lock().compared = None;
            let victims = account.victims_of_disk(lacks, &[except]);
            keys(&victims).join(" ")
        };
        assert_eq!(for_disk(""), "a/1");
        account.set_stuck("a/1", true);
        assert_eq!(for_disk(""), "b/1");
        account.set_stuck("b/2", true);
        assert_eq!(for_disk("b/1"), "c/1");
        account.set_stuck("c/1", true);
        assert_eq!(for_disk("b/1"), "");
    }

    /// More than are looked at while the lock is held.
    #[test]
    fn each_of_many_scopes_is_counted_and_evicts_ahead_of_need() {
        let full = |n: u64| n % 1000 == 999;
        let size = |n: u64| if full(n) { 1 << 20 } else { 10 };
        let account = account(&[]);
        for n in 0..3000 {
            account.place(&format!("{n}/k"), Some(size(n)));
        }
        let bytes = (0..3000).map(size).sum();
        assert_eq!(account.total(0), Total { keys: 3000, bytes });
        let old = uptime().saturating_sub(2 * millis(MIN_AGE));
        account.visit("", |_, value| value.set_used(old));
        let ahead = account.victims_ahead();
        let mut ahead = keys(&ahead);
        ahead.sort_unstable();
        assert_eq!(ahead, ["1999/k", "2999/k", "999/k"]);
    }

    #[test]
    fn no_value_is_chosen_twice_and_one_that_stays_is_chosen_again() {
        let account = account(&[("a/1", 4096), ("a/2", 4096)]);
        let choose = || {
            account.oldest(
                From::Bound,
                (0, "a/"),
                Total { bytes: 1, keys: 0 },
                i64::MAX,
                &[],
            )
        };
        let (first, second) = (choose(), choose());
        assert_eq!((keys(&first), keys(&second)), (vec!["a/1"], vec!["a/2"]));
        assert_eq!(choose().len(), 0);
        drop(first);
        assert_eq!(keys(&choose()), ["a/1"]);
    }

    #[test]
    fn evictions_that_give_the_disk_nothing_end_until_its_free_space_changes() {
        let room = Room::new(account(&[("a/1", 1 << 16), ("a/2", 1 << 16)]));
        let lacks = Total {
            bytes: 1 << 16,
            keys: 0,
        };
        let free = |bytes| {
            Some(Free {
                bytes,
                ..Free::default()
            })
        };
        let choose = |bytes| room.for_disk(free(bytes), lacks, &[]);
        // What one round gave others may have taken.
        for _ in 0..IN_VAIN {
            let Choice::Evict(victims) = choose(0) else {
                panic!("nobody goes");
            };
            assert!(matches!(choose(0), Choice::Wait));
            drop(victims);
            room.gone(|| free(100));
        }
        assert!(matches!(choose(100), Choice::Nobody));
        let Choice::Evict(victims) = choose(1 << 16) else {
            panic!("the free space has changed");
        };
        drop(victims);
        room.gone(|| free(1 << 17));
        assert!(matches!(choose(1 << 16), Choice::Evict(_)));
    }
}
