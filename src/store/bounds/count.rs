//! The account as the index keeps it up: what lies in the directory is looked at and counted, and what is not met is
//! forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;
use rustix::fs::Stat;

use super::account::Account;
use super::ledger::{State, Sums, scopes};
use super::names::Folder;
use super::rule::Bound;
use super::uses::{Uses, hash};
use super::value::{Known, Value, nanos, since_1970};
use crate::store::clock;
use crate::store::directory_fd::{Blocking, ValuesDir};
use crate::value::{Key, Meta};

/// The seconds in which file systems choose the blocks of what was written: a file that has changed since is looked at
/// again after that.
const DELAYED: i64 = 10;

/// Names that are remembered to be looked at again. For more, all values are counted anew.
const MOST_YOUNG: usize = 1 << 16;

fn now() -> i64 {
    clock::now() / 1_000_000_000
}

impl Account {
    /// How many names there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        self.state.lock().names.size()
    }

    /// The first name from `from` on.
    pub fn first_from(&self, from: &str) -> Option<String> {
        self.state.lock().names.first_from(from)
    }

    /// Adds or removes the name `key`, which no bound counts.
    pub fn set_name(&self, key: &str, is_value: bool) {
        let names = &mut self.state.lock().names;
        if is_value {
            names.insert(key, None);
        } else {
            names.remove(key);
        }
    }

    /// Whether `key` was met since the last count and since names were last read again, and no change of it is under
    /// way; `None` where nothing is known of it.
    pub fn has(&self, key: &str) -> Option<bool> {
        let state = self.state.lock();
        if state.is_in_flight(key) {
            return Some(false);
        }
        let value = state.names.value(key)?;
        Some(!value.is_leaving() && value.count.load(Relaxed) == state.count)
    }

    /// Looks at what lies under `key`, which a bound counts. Blocks.
    pub fn look(&self, dir: &ValuesDir, key: &str) {
        let _no_folder_moves = self.renaming.lock();
        loop {
            let before = self.state.lock().known(key);
            let Ok(found) = dir.stat_and_end(key, Blocking::Allowed) else {
                return;
            };
            let file = found.map(|(stat, end)| Known::new(&stat, end, self.device));
            let used = found.map_or(i64::MIN, |(stat, _)| self.used(key, before, &stat));
            let state = &mut *self.state.lock();
            // What the publisher has made meanwhile may be older or younger.
            if state.known(key) == before {
                state.looks += 1;
                state.note(&self.bounds, key, (file, used), None);
                found.inspect(|(stat, _)| state.look_again(key, stat.st_ctime));
                return;
            }
        }
    }

    /// As [`Self::look`], where a bound counts `key`.
    pub fn look_if_counted(&self, dir: &ValuesDir, key: &str) {
        if self.counts(key) {
            self.look(dir, key);
        }
    }

    /// When the file of `stat` was used last, as far as that tells. Programs read files too, and each read sets a
    /// file's time of access: so that counts only where nothing else is known. What is known already is no new use:
    /// after a crash, versions are ahead of the time.
    fn used(&self, key: &str, before: Option<Known>, stat: &Stat) -> i64 {
        let version = nanos(Meta::of(stat).version);
        let written = version / 1_000_000;
        let remembered = self.state.lock().remembered.get(hash(key));
        let used = match before {
            Some(known) if known.version == version => return i64::MIN,
            Some(_) => written,
            None => remembered.map_or_else(|| written.max(accessed(stat)), |it| written.max(it)),
        };
        since_1970(used)
    }

    /// Looks again at files that were new. True if all values are to be counted anew. Blocks.
    pub fn look_at_young(&self, dir: &ValuesDir) -> bool {
        let take = || {
            let state = &mut *self.state.lock();
            let is_due = state.young.front().is_some_and(|(due, _)| *due <= now());
            is_due.then(|| state.young.pop_front()).flatten()
        };
        while let Some((_, key)) = take() {
            self.look(dir, &key);
        }
        let state = &mut *self.state.lock();
        state.recount
    }

    /// True if the same bounds hold for all keys below both folders, and count them by the same.
    pub fn holds_alike(&self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let [from, to] = [from, to].map(|folder| format!("{folder}/"));
        self.bounds.iter().all(|Bound { prefix, .. }| {
            let is_of_part = prefix.is_of_part(&from) || prefix.is_of_part(&to);
            !is_of_part && prefix.scope(&from) == prefix.scope(&to)
        })
    }

    /// Has `rename` give the folder `from` the name `to`, and counts its values there: the sums are the same, and so
    /// are the uses. The index looks at nothing meanwhile, so no value counts twice, and none is forgotten.
    pub fn rename<E>(
        &self,
        [from, to]: [&str; 2],
        rename: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _no_look = self.renaming.lock();
        rename()?;
        let [from, to] = [from, to].map(|folder| format!("{folder}/"));
        // What was known of those names is of no value any more.
        self.forget_uncounted(&to);
        self.retain(&to, |_| false);
        let mut locked = self.state.lock();
        let state = &mut *locked;
        state.names.rename(&from, &to);
        let renamed = |key: &mut Box<str>| {
            if let Some(rest) = key.strip_prefix(&*from) {
                *key = [&*to, rest].concat().into();
            }
        };
        let ends = std::mem::take(&mut state.ends);
        let ends = ends.into_iter().map(|(end, mut key)| {
            renamed(&mut key);
            (end, key)
        });
        state.ends = ends.collect();
        state.young.iter_mut().for_each(|(_, key)| renamed(key));
        for (at, scope) in scopes(&self.bounds, &from) {
            for oldest in state.scopes[at]
                .get_mut(scope)
                .into_iter()
                .flat_map(Sums::orders)
            {
                for (_, key) in oldest.iter_mut() {
                    renamed(key);
                }
                oldest.make_contiguous().sort_unstable();
            }
        }
        // It has names of before.
        state.pass = None;
        let count = state.count;
        drop(locked);
        // A count that is under way meets them no more.
        self.visit(&to, |_, value| value.count.store(count, Relaxed));
        Ok(())
    }

    /// Begins to read the names that begin with `prefix` again: a name that is counted stays until
    /// [`Account::forget_unseen`].
    pub fn unsee(&self, prefix: &str) {
        self.forget_uncounted(prefix);
        let mut state = self.state.lock();
        state.count += 1;
        let unseen = (prefix.into(), state.count);
        state.unseen.push(unseen);
    }

    /// Forgets the names that were read again and not met.
    pub fn forget_unseen(&self) {
        let unseen = std::mem::take(&mut self.state.lock().unseen);
        for (prefix, count) in unseen {
            self.forget_unmet(&prefix, count);
        }
    }

    /// Begins to count all values anew; with `reads_names`, also the names that no bound counts. The number of this
    /// count.
    pub fn begin_count(&self, reads_names: bool) -> u32 {
        if reads_names {
            self.forget_uncounted("");
        }
        let count = {
            let mut state = self.state.lock();
            // A read that failed has left these.
            state.unseen.clear();
            state.recount = false;
            state.count += 1;
            state.count
        };
        // What could not be evicted may be tried again.
        let mut stuck = Vec::new();
        self.visit("", |key, value| {
            if value.is_stuck() {
                stuck.push(key.to_owned());
            }
        });
        for key in &stuck {
            self.set_stuck(key, false);
        }
        count
    }

    /// Forgets what neither this count nor a later one has met.
    pub fn end_count(&self, count: u32) {
        self.forget_unmet("", count);
        self.state.lock().remembered = Uses::default();
    }

    /// Visits the values whose names begin with `prefix`.
    pub fn visit(&self, prefix: &str, mut visit: impl FnMut(&str, &Arc<Value>)) {
        self.in_steps(|State { names, .. }, after| {
            names.visit_some(Folder::counted, prefix, after, &mut visit)
        });
    }

    /// Has `step` visit some names behind the last of the step before, until it returns none: others have the lock in
    /// between.
    fn in_steps(&self, mut step: impl FnMut(&mut State, Option<&str>) -> Option<String>) {
        let mut after = None;
        loop {
            let mut state = self.state.lock();
            after = step(&mut state, after.as_deref());
            MutexGuard::unlock_fair(state);
            if after.is_none() {
                return;
            }
        }
    }

    /// Forgets the values beginning with `prefix` that this count and all later ones have not met.
    fn forget_unmet(&self, prefix: &str, count: u32) {
        let _no_folder_moves = self.renaming.lock();
        self.retain(prefix, |value| value.count.load(Relaxed) >= count);
    }

    /// Forgets the names that begin with `prefix` and that no bound counts.
    fn forget_uncounted(&self, prefix: &str) {
        loop {
            let names = &mut self.state.lock().names;
            let mut some = Vec::new();
            names.visit_some(Folder::uncounted, prefix, None, |key, ()| {
                some.push(key.to_owned());
            });
            if some.is_empty() {
                return;
            }
            for key in some {
                names.remove(&key);
            }
        }
    }

    /// Visits the values whose names begin with `prefix`, and forgets those that are not to be kept.
    fn retain(&self, prefix: &str, is_kept: impl Fn(&Value) -> bool) {
        self.in_steps(|state, after| {
            let mut gone = Vec::new();
            let visit = |key: &str, value: &Arc<Value>| {
                if !is_kept(value) {
                    gone.push(key.to_owned());
                }
            };
            let last = state
                .names
                .visit_some(Folder::counted, prefix, after, visit);
            for key in gone {
                state.note(&self.bounds, &key, (None, 0), None);
            }
            last
        });
    }
}

impl State {
    /// Has `key` looked at again once the blocks of a file that changed at `changed` are chosen.
    fn look_again(&mut self, key: &str, changed: i64) {
        // A clock that was set back makes no file young.
        if !(0..DELAYED).contains(&(now() - changed)) {
            return;
        }
        self.recount |= self.young.len() >= MOST_YOUNG;
        if !self.recount && self.young.back().is_none_or(|(_, last)| **last != *key) {
            self.young.push_back((now() + DELAYED, key.into()));
        }
    }
}

/// When the file was read last, by whomever, in milliseconds since 1970.
fn accessed(stat: &Stat) -> i64 {
    let millis = i64::try_from(stat.st_atime_nsec).unwrap_or(0) / 1_000_000;
    stat.st_atime.saturating_mul(1000).saturating_add(millis)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::From;
    use super::super::rule::Total;
    use super::super::tests::{account, account_with};
    use super::super::uses;
    use super::super::value::uptime;
    use super::*;

    fn chosen(account: &Arc<Account>, scope: &str, bytes: u64) -> Vec<String> {
        let beyond = Total { bytes, keys: 0 };
        let victims = account.oldest(From::Bound, (0, scope), beyond, i64::MAX, &[]);
        let keys = victims.iter().map(|victim| victim.key.as_str().to_owned());
        keys.collect()
    }

    #[test]
    fn moves_of_a_folder_change_no_sum_and_no_order_and_take_no_memory() {
        let account = account("");
        for key in ["a/1", "a/2", "a/3", "z"] {
            account.place(key, Some(4096));
        }
        let before = (account.total(0), account.size());
        assert_eq!(chosen(&account, "", 4096), ["a/1"]);
        for ends in [["a", "b"], ["b", "a"]].repeat(100) {
            account.rename(ends, || Ok::<_, ()>(())).unwrap();
        }
        account.rename(["a", "d"], || Ok::<_, ()>(())).unwrap();
        assert_eq!((account.total(0), account.size()), before);
        assert_eq!(account.state.lock().scopes[0][""].oldest.len(), 4);
        assert_eq!(chosen(&account, "", 8192), ["d/1", "d/2"]);
    }

    /// As a walk meets the newest first, and the clock ticks on while it does.
    #[test]
    fn values_of_one_time_go_in_the_order_of_their_names_however_they_are_met() {
        let then = 1_700_000_000_000_i64;
        let uses = ["k/1", "k/2", "k/3"].map(|key| (super::hash(key), then));
        let place = tempfile::tempdir().unwrap();
        let own = std::fs::File::open(place.path()).unwrap().into();
        uses::save(&own, &uses).unwrap();
        let account = account_with("", uses::load(&own));
        for key in ["k/3", "k/1", "k/2"] {
            let mut stat = rustix::fs::stat(place.path()).unwrap();
            // Another program has read it since.
            (stat.st_mtime, stat.st_atime) = (1, i64::MAX / 2000);
            let last = account.used(key, None, &stat);
            let file = Some(Known::new(&stat, None, None));
            let mut state = account.state.lock();
            state.note(&account.bounds, key, (file, last), None);
            let met = uptime();
            while uptime() == met {
                std::thread::yield_now();
            }
        }
        assert_eq!(chosen(&account, "", 1 << 20), ["k/1", "k/2", "k/3"]);
    }

    #[test]
    fn a_look_is_no_use_of_a_value_whose_version_is_ahead_of_the_time() {
        let account = account("");
        let place = tempfile::tempdir().unwrap();
        let mut stat = rustix::fs::stat(place.path()).unwrap();
        // As after a crash.
        stat.st_mtime += 10;
        let known = Known::new(&stat, None, None);
        assert_eq!(account.used("k", Some(known), &stat), i64::MIN);
        stat.st_mtime += 1;
        assert_ne!(account.used("k", Some(known), &stat), i64::MIN);
    }
}
