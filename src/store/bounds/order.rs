//! The order in which values go: those used longest ago first, in exactly that order.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used
//! since; what is not among them was used later than all of them, so the order is that of all. What comes before them
//! while the pass is under way joins them at its end. A value that could not be evicted is not chosen again until it
//! changes, and one whose eviction is under way is not chosen twice. In a large scope the keeper of the directory makes
//! the next pass before the last of the chosen is taken, so that no change waits for it.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::account::Account;
use super::ledger::{From, Oldest, Pass, State, scopes};
use super::rule::{Bound, Total};
use super::value::Value;
use super::victim::Victim;
use crate::store::changes::Removal;

/// The most values that one pass chooses.
const MOST_CHOSEN: usize = 1 << 16;

/// A pass over no more values than this takes so short that a change may wait for it.
const SHORT: u64 = 1 << 12;

/// The most evictions before others have their turn.
pub const STEP: usize = 64;

/// How many values one pass chooses in a scope of so many `keys`: many, as who waits for room may wait for it.
fn most_chosen(keys: u64) -> usize {
    let most = usize::try_from(keys / 4).unwrap_or(MOST_CHOSEN);
    most.clamp(STEP, MOST_CHOSEN)
}

impl State {
    /// Where the value of `key` comes before the last of those that are chosen, it is one of them.
    pub fn order(&mut self, bounds: &[Bound], key: &str, value: &Value) {
        for (at, scope) in scopes(bounds, key) {
            if let Some(pass) = &mut self.pass
                && (pass.bound, &*pass.scope) == (at, scope)
                && pass.from.has(value)
            {
                pass.late.push((value.used(), key.into()));
            }
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
}

impl Account {
    /// The values of a scope that were used longest ago, all before the time `before`, until they make up what is
    /// beyond or [`STEP`] of them are found; never those of the keys `except`. None before all values are counted.
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
                if let Some(value) = value.filter(|it| it.used() == used && from.has(it)) {
                    left = left.minus(value.total());
                    let why = (Removal::Full, Some(bound));
                    victims.extend(self.victim(state, key, value, Some(used), why));
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
            let _one = self.choosing.lock();
            // A pass that was under way may have chosen some.
            take().or_else(|| {
                self.choose(from, bound, scope);
                take()
            })
        };
        take().or_else(choose_and_take).unwrap_or_default()
    }

    /// Chooses anew in the large scopes of which half of the chosen are taken.
    pub fn choose_ahead(&self) {
        let mut few = Vec::new();
        for bound in (0..self.bounds.len()).filter(|&at| self.evicts(at) && self.is_whole()) {
            self.each_scope(bound, |scope, sums| {
                let keys = sums.total.keys;
                let is_few = |left: &Oldest| !left.is_empty() && left.len() < most_chosen(keys) / 2;
                let lists = [
                    (From::Bound, &sums.oldest),
                    (From::Disk, &sums.oldest_of_disk),
                ];
                let lists = lists
                    .into_iter()
                    .filter(|(_, left)| keys > SHORT && is_few(left));
                few.extend(lists.map(|(from, _)| (from, bound, Box::<str>::from(scope))));
            });
        }
        for (from, bound, scope) in few {
            let _one = self.choosing.lock();
            self.choose(from, bound, &scope);
        }
    }

    /// Chooses the values of a scope that were used longest ago; one pass at a time, as `choosing` is held. A folder
    /// that moves meanwhile gives values other names: then it is made anew.
    fn choose(&self, from: From, bound: usize, scope: &str) {
        while !self.pass(from, bound, scope) {}
    }

    /// True if the values are chosen.
    fn pass(&self, from: From, bound: usize, scope: &str) -> bool {
        let mut state = self.state.lock();
        let most = most_chosen(state.total(bound, scope).keys);
        state.pass = Some(Pass {
            from,
            bound,
            scope: scope.into(),
            late: Vec::new(),
        });
        drop(state);
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
        let state = &mut *self.state.lock();
        let Some(Pass { mut late, .. }) = state.pass.take() else {
            return false;
        };
        if oldest.len() == most {
            late.retain(|it| oldest.peek().is_some_and(|last| it < last));
        }
        let mut chosen = oldest.into_vec();
        chosen.append(&mut late);
        chosen.sort_unstable();
        chosen.dedup();
        if let Some(sums) = state.scopes[bound].get_mut(scope) {
            *from.order(sums) = chosen.into();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::{Choice, IN_VAIN};
    use super::super::rule::{MIN_AGE, millis};
    use super::super::value::{Known, uptime};
    use super::*;
    use crate::store::space::Free;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    fn a_value_that_comes_while_a_pass_is_under_way_goes_in_its_place() {
        const MANY: i64 = 6000;
        let account = Account::of_blocks(1 << 20);
        // The order of the names is not that of the uses.
        let key = |used: i64| format!("{}-{used}", used * 7919 % 10_007);
        let come = |used: i64| {
            let file = Known {
                version: 1,
                bytes: 4096,
                end: None,
                is_linked: false,
                is_elsewhere: false,
            };
            let mut state = account.state.lock();
            state.note(&account.bounds, &key(used), (Some(file), used), None);
        };
        (0..MANY).for_each(|n| come(2 * n));
        let all = Total {
            bytes: u64::MAX,
            keys: 0,
        };
        let choose = || account.oldest(From::Bound, (0, ""), all, i64::MAX, &[]);
        let mut gone: Vec<Victim> = (0..13).flat_map(|_| choose()).collect();
        let left = |account: &Account| account.state.lock().scopes[0][""].oldest.len();
        assert!(left(&account) < most_chosen(6000) / 2);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let _one = account.choosing.lock();
                    account.choose(From::Bound, 0, "");
                }
            });
            let first = 2 * i64::try_from(gone.len()).unwrap();
            // Some are used again: they go last.
            for n in (first / 2..MANY).rev() {
                come(2 * n + 1);
                if n % 10 == 0
                    && let Some(value) = account.state.lock().names.value(&key(2 * n))
                {
                    value.set_used(3 * MANY + n);
                }
            }
            is_over.store(true, Relaxed);
        });
        gone.clear();
        account.choose_ahead();
        let mut victims = Vec::new();
        loop {
            let more = choose();
            if more.is_empty() {
                break;
            }
            victims.extend(more);
        }
        let mut expected: Vec<_> = Vec::new();
        account.visit("", |name, value| {
            expected.push((value.used(), name.to_owned()));
        });
        expected.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|(_, name)| &**name).collect();
        assert_eq!(keys(&victims), expected);
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
        let account = account(&[("a/1", 1 << 16), ("a/2", 1 << 16)]);
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
        let choose = |bytes| account.for_disk(free(bytes), lacks, &[]);
        // What one round gave others may have taken.
        for _ in 0..IN_VAIN {
            let Choice::Evict(victims) = choose(0) else {
                panic!("nobody goes");
            };
            assert!(matches!(choose(0), Choice::Wait));
            drop(victims);
            account.gone(|| free(100));
        }
        assert!(matches!(choose(100), Choice::Nobody(_)));
        let Choice::Evict(victims) = choose(1 << 16) else {
            panic!("the free space has changed");
        };
        drop(victims);
        account.gone(|| free(1 << 17));
        assert!(matches!(choose(1 << 16), Choice::Evict(_)));
    }
}
