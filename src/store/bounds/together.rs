//! The values that one request stores: a COPY of a folder, a tar or a form. Owns their sums, by bound.
//!
//! A bound that evicts takes any value by itself, and would remove the first values of such a request for the last. So
//! a request asks here whether a bound has room for all of them together. Counts only what it is told: what others
//! store meanwhile is theirs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::account::Account;
use super::ledger::scopes;
use super::rule::Total;
use crate::value::Error;

/// The values of one request.
#[derive(Debug, Default)]
pub struct Together {
    /// The sums, by the number of a bound and what it counts by.
    scopes: BTreeMap<(usize, Box<str>), Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// What is stored, and what is to stay beside it.
    kept: Total,
    /// What is stored.
    stored: Total,
    /// What that replaces.
    replaced: Total,
}

impl Account {
    /// Adds a value of `len` bytes that is to be stored under `key`, in place of one of the length `replaced`, if there
    /// is one.
    pub fn add_stored(&self, together: &mut Together, key: &str, len: u64, replaced: Option<u64>) {
        let stored = Total::one(self.size_of(len));
        let replaced = replaced.map_or(Total::default(), |len| Total::one(self.size_of(len)));
        self.add(together, key, [stored, stored, replaced]);
    }

    /// Adds the value of `key`, of `len` bytes, which is to stay.
    pub fn add_kept(&self, together: &mut Together, key: &str, len: u64) {
        let kept = Total::one(self.size_of(len));
        self.add(together, key, [kept, Total::default(), Total::default()]);
    }

    fn add(&self, together: &mut Together, key: &str, [kept, stored, replaced]: [Total; 3]) {
        for (at, scope) in scopes(&self.bounds, key) {
            let sums = together.scopes.entry((at, scope.into())).or_default();
            sums.kept = sums.kept.plus(kept);
            sums.stored = sums.stored.plus(stored);
            sums.replaced = sums.replaced.plus(replaced);
        }
    }

    /// Adds a value of `len` bytes that is stored next under `key`; fails where a bound that evicts would remove others
    /// of this request for it.
    pub fn may_join(&self, together: &mut Together, key: &str, len: u64) -> Result<(), Error> {
        self.add_stored(together, key, len, None);
        for (at, scope) in scopes(&self.bounds, key).filter(|(at, _)| self.evicts(*at)) {
            let sums = together.scopes.get(&(at, Box::from(scope)));
            let stored = sums.map_or(Total::default(), |sums| sums.stored);
            if !stored.beyond(&self.bounds[at]).is_zero() {
                return Err(self.no_room(at, scope));
            }
        }
        Ok(())
    }

    /// Fails where a bound has no room for all that is stored, beside what is to stay; true if values are evicted for
    /// it.
    pub fn may_store(&self, together: &Together) -> Result<bool, Error> {
        let mut evicts = false;
        for ((at, scope), sums) in &together.scopes {
            // What only stays takes no room.
            if sums.stored.is_zero() {
                continue;
            }
            self.counted()?;
            let now = self.state.lock().total(*at, scope);
            let after = now.replaced(sums.replaced, sums.stored);
            let lacks = !after.beyond(&self.bounds[*at]).is_zero();
            let fits = !lacks
                || (self.evicts(*at) && sums.kept.beyond(&self.bounds[*at]).is_zero())
                // As with one value, what takes no more than what it replaces is taken.
                || (sums.stored.bytes <= sums.replaced.bytes && sums.stored.keys <= sums.replaced.keys);
            if !fits {
                return Err(self.no_room(*at, scope));
            }
            evicts |= lacks;
        }
        Ok(evicts)
    }

    /// The bytes that may be evicted for these values, at most.
    pub fn evictable_beside(&self, together: &Together) -> u64 {
        let scopes = together.scopes.iter();
        let kept = scopes.filter(|((at, _), _)| self.evicts(*at));
        let kept = kept.fold(0, |sum, (_, sums)| {
            sum + (sums.kept.bytes - sums.stored.bytes)
        });
        self.evictable().saturating_sub(kept)
    }

    fn no_room(&self, bound: usize, scope: &str) -> Error {
        self.figures[bound].refused.fetch_add(1, Relaxed);
        self.full(bound, scope, "all of this has no room in it")
    }
}
