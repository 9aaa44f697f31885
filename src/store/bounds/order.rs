//! The order in which values go: those used longest ago first, in exactly that order.
//!
//! A pass over all values of a scope collects those used longest ago. They are taken from the front while none was used
//! since; what is not among them was used later than all of them, so the order is that of all. A value that could not
//! be evicted is not chosen again until it changes, and one whose eviction is under way is not chosen twice.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::account::Account;
use super::ledger::{Oldest, State, Sums, scopes};
use super::rule::{Bound, Total};
use super::value::Value;
use super::victim::Victim;
use crate::store::changes::Removal;

/// The most values that one pass chooses.
const MOST_CHOSEN: usize = 1 << 16;

/// The most evictions before others have their turn.
pub const STEP: usize = 64;

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
        value.may_go() && (self == Self::Bound || !value.known().frees_nothing())
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
            self.choose(from, bound, scope);
            take()
        };
        take().or_else(choose_and_take).unwrap_or_default()
    }

    /// Chooses the values of a scope that were used longest ago.
    fn choose(&self, from: From, bound: usize, scope: &str) {
        let keys = self.state.lock().total(bound, scope).keys;
        // A pass holds up who waits for room: so it chooses many.
        let most = usize::try_from(keys / 4).unwrap_or(MOST_CHOSEN);
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

#[cfg(test)]
mod tests {
    use super::super::room::{Choice, IN_VAIN};
    use super::super::rule::{MIN_AGE, millis};
    use super::super::value::uptime;
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
