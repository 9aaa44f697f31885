//! The account as the index keeps it up: what lies in the directory is met, looked at and counted, and what is not met is forgotten.

use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::Stat;

use super::account::{Account, size_of};
use super::names::{CHUNK, STUCK, Value, nanos, since_1970, uptime};
use super::rule::{Bound, Total};
use super::uses::{Uses, hash};
use crate::store::clock;
use crate::store::directory_fd::{Blocking, ValuesDir};
use crate::value::{Error, Key, Meta};

/// The seconds in which file systems choose the blocks of what was written; until then the length of a value tells more.
const DELAYED: i64 = 10;

/// The bytes of the disk that the file of `stat` takes.
fn taken(stat: &Stat) -> u64 {
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    let is_new = clock::now() / 1_000_000_000 - stat.st_ctime < DELAYED;
    if is_new {
        blocks.max(size_of(Meta::of(stat).len))
    } else {
        blocks
    }
}

impl Account {
    /// How many names there are, and the memory that they take.
    pub fn size(&self) -> (usize, usize) {
        self.state.lock().names.size()
    }

    /// The first name from `from` on.
    pub fn first_from(&self, from: &str) -> Option<Box<str>> {
        self.state.lock().names.first_from(from)
    }

    /// Adds or removes the name `key`, which no bound counts.
    pub fn set_name(&self, key: &str, is_value: bool) {
        let names = &mut self.state.lock().names;
        if is_value {
            names.add(key);
        } else {
            names.remove(key);
        }
    }

    /// Whether `key` was met since the last count and the last doubt; `None` where nothing is known of it.
    pub fn has(&self, key: &str) -> Option<bool> {
        let state = self.state.lock();
        let value = state.names.value(key)?;
        Some(value.count.load(Relaxed) == state.count)
    }

    /// Looks at what lies under `key`, which a bound counts, and which was met in a folder or named by an event; false where the publisher
    /// changes or moves it meanwhile: what is decided counts, and the event of that change asks for another look. Blocks.
    pub fn look(&self, dir: &ValuesDir, key: &str) -> bool {
        let before = self.state.lock().counted(key);
        match dir.stat(key, Blocking::Allowed) {
            Ok(found) => self.set(key, found.as_ref(), before),
            Err(_) => true,
        }
    }

    /// Counts what was `found` under `key`, unless the publisher has changed what was counted `before` the look: then returns false.
    fn set(&self, key: &str, found: Option<&Stat>, before: Option<(i64, Total)>) -> bool {
        let mut state = self.state.lock();
        let known = state.names.value(key);
        if known.is_some_and(|value| value.in_flight.load(Relaxed) > 0)
            || state.counted(key) != before
        {
            return false;
        }
        if state.is_moving(key) {
            // It is met, whatever comes of the move.
            known.inspect(|value| value.count.store(state.count, Relaxed));
            return false;
        }
        let Some(stat) = found else {
            self.forget(&mut state, key);
            return true;
        };
        let written = nanos(Meta::of(stat).version);
        let used = match known {
            Some(value) if value.written.load(Relaxed) == written => None,
            Some(_) => Some(since_1970(written / 1_000_000)),
            None => {
                let remembered = state.remembered.get(hash(key)).map_or(0, i64::from);
                let read = i64::try_from(stat.st_atime_nsec).unwrap_or(0) / 1_000_000;
                let read = stat.st_atime.saturating_mul(1000).saturating_add(read);
                let used = (written / 1_000_000).max(read).max(remembered * 1000);
                Some(since_1970(used))
            }
        };
        self.note(&mut state, key, taken(stat), written, used);
        true
    }

    /// True if the same bounds hold for all keys below both folders, and count them by the same.
    pub fn holds_alike(&self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let [from, to] = [from, to].map(|folder| format!("{folder}/"));
        self.bounds.iter().all(|Bound { prefix, .. }| {
            let is_of_part = prefix.is_of_part(&from) || prefix.is_of_part(&to);
            !is_of_part && prefix.scope(&from) == prefix.scope(&to)
        })
    }

    /// The folder `from` may have the name `to` from now on, until [`Self::end_move`]: the index, which may meet the values
    /// under their new names first, then neither counts them twice nor forgets when they were used. Fails before all values are counted: what
    /// an earlier process has noted of their uses has their names.
    pub fn begin_move(&self, from: &str, to: &str) -> Result<(), Error> {
        if self.counts(&format!("{from}/")) {
            if !self.is_whole() {
                return Err(Error::Counting);
            }
            let names = [from, to].map(|folder| format!("{folder}/").into());
            self.state.lock().moving = Some(names);
        }
        Ok(())
    }

    /// No folder moves any more.
    pub fn end_move(&self) {
        self.state.lock().moving = None;
    }

    /// Counts the values below the folder `from`, which has moved, below `to`: the sums are the same, and so are the uses. No change of them
    /// is in flight.
    pub fn moved(&self, from: &str, to: &str) {
        let [below, of_target] = [from, to].map(|folder| format!("{folder}/"));
        if !self.counts(&below) {
            return;
        }
        let renamed = |name: &str| Box::<str>::from(format!("{to}{}", &name[from.len()..]));
        let begin = Included(Box::from(below.as_str()));
        loop {
            let state = &mut *self.state.lock();
            let values = state.names.values(&begin, &below).take(CHUNK);
            let some: Vec<_> = values.map(|(name, _)| name.clone()).collect();
            if some.is_empty() {
                break;
            }
            for old in some {
                let new = renamed(&old);
                // What was known of that name is of no value any more.
                self.forget(state, &new);
                let value = state.names.remove(&old);
                if let Some(value) = value.filter(|value| value.total().keys > 0) {
                    value.count.store(state.count, Relaxed);
                    state.names.insert(new, value);
                }
            }
        }
        for (at, scope) in self.scopes(&below) {
            if let Some(sums) = self.state.lock().scopes[at].get_mut(scope) {
                // Of values that had these names before and are gone.
                let is_other = |(_, name): &(_, Box<str>)| !name.starts_with(&of_target);
                sums.oldest.retain(is_other);
                let names = sums.oldest.iter_mut().map(|(_, name)| name);
                names
                    .filter(|name| name.starts_with(&below))
                    .for_each(|name| *name = renamed(name));
                sums.oldest.make_contiguous().sort_unstable();
            }
        }
    }

    /// Begins to read the names that begin with `prefix` again: a name that is counted stays until [`Account::settle`].
    pub fn doubt(&self, prefix: &str) {
        self.forget_uncounted(prefix);
        let mut state = self.state.lock();
        state.count += 1;
        let doubted = (prefix.into(), state.count);
        state.doubted.push(doubted);
    }

    /// Forgets the names that were doubted and not met again; answers those of changes in flight, to be looked at after these.
    pub fn settle(&self) -> Vec<String> {
        let doubted = std::mem::take(&mut self.state.lock().doubted);
        let settle = |(prefix, count): (Box<str>, _)| self.forget_unmet(&prefix, count);
        doubted.into_iter().flat_map(settle).collect()
    }

    /// Begins to count all values anew; with `reads_names`, also the names that no bound counts. The number of this count.
    pub fn begin_count(&self, reads_names: bool) -> u64 {
        if reads_names {
            self.forget_uncounted("");
        }
        let count = {
            let mut state = self.state.lock();
            state.count += 1;
            state.count
        };
        self.retain("", |_, value| {
            // What could not be evicted may be tried again.
            let again = |used| (used == STUCK).then(uptime);
            let _ = value.used.fetch_update(Relaxed, Relaxed, again);
            true
        });
        count
    }

    /// Forgets what neither this count nor a later one has met.
    pub fn end_count(&self, count: u64) {
        self.forget_unmet("", count);
        self.state.lock().remembered = Uses::default();
    }

    /// Visits the values whose names begin with `prefix`, in their order.
    pub fn visit(&self, prefix: &str, mut visit: impl FnMut(&str, &Arc<Value>)) {
        self.retain(prefix, |name, value| {
            if value.total().keys > 0 {
                visit(name, value);
            }
            true
        });
    }

    /// Forgets the values beginning with `prefix` that this count and all later ones have not met; answers those that stay, as changes of
    /// them are in flight.
    fn forget_unmet(&self, prefix: &str, count: u64) -> Vec<String> {
        let mut in_flight = Vec::new();
        // Of a folder that moved since, the values have their new names by now.
        let moving = self.state.lock().moving.clone();
        self.retain(prefix, |name, value| {
            let moves = moving.iter().any(|[from, _]| name.starts_with(&**from));
            let is_met = moves || value.count.load(Relaxed) >= count;
            let is_kept = is_met || value.in_flight.load(Relaxed) > 0;
            if is_kept && !is_met {
                in_flight.push(name.to_owned());
            }
            is_kept
        });
        in_flight
    }

    /// Visits the values whose names begin with `prefix`, counted or not, and forgets those that are not to be kept.
    fn retain(&self, prefix: &str, mut is_kept: impl FnMut(&str, &Arc<Value>) -> bool) {
        let mut from = Included(Box::from(prefix));
        loop {
            let mut state = self.state.lock();
            let (mut last, mut gone) = (None, Vec::new());
            for (name, value) in state.names.values(&from, prefix).take(CHUNK) {
                last = Some(name);
                if !is_kept(name, value) {
                    gone.push(name.clone());
                }
            }
            let Some(last) = last.cloned() else {
                return;
            };
            for name in gone {
                self.forget(&mut state, &name);
            }
            from = Excluded(last);
        }
    }

    /// Forgets the names that begin with `prefix` and that no bound counts.
    fn forget_uncounted(&self, prefix: &str) {
        loop {
            let names = &mut self.state.lock().names;
            let some: Vec<_> = names.uncounted(prefix).take(CHUNK).cloned().collect();
            if some.is_empty() {
                return;
            }
            for name in some {
                names.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::uptime;
    use super::super::tests::account;
    use super::super::uses;
    use super::*;
    use crate::value::Version;

    #[test]
    fn moves_of_a_folder_change_no_sum_and_no_order_and_take_no_memory() {
        let account = account("");
        for key in ["a/1", "a/2", "a/3", "z"] {
            let version = Version::from_nanos(1);
            account.admit(key, 4096, version, None).unwrap();
            account.made(key, true);
        }
        let before = account.total(0);
        let chosen = || {
            let victims = account.victims_of_disk(4096, "");
            let victims = victims.into_iter().map(|(key, _)| key.as_str().to_owned());
            victims.collect::<Vec<_>>()
        };
        assert_eq!(chosen(), ["a/1"]);
        for (from, to) in [("a", "b"), ("b", "a")].repeat(100) {
            account.moved(from, to);
        }
        account.moved("a", "d");
        assert_eq!(account.total(0), before);
        assert!(account.state.lock().scopes[0][""].oldest.len() <= 3);
        assert_eq!(chosen(), ["d/2"]);
    }

    /// As a walk meets the newest first, and the clock ticks on while it does.
    #[test]
    fn values_of_one_time_go_in_the_order_of_their_names_however_they_are_met() {
        let second = 1_700_000_000_u32;
        let uses = ["k/1", "k/2", "k/3"].map(|key| (super::hash(key), second));
        let place = tempfile::tempdir().unwrap();
        let own = std::fs::File::open(place.path()).unwrap().into();
        uses::save(&own, uses.to_vec()).unwrap();
        let account = super::super::tests::account_with("", uses::load(&own));
        for key in ["k/3", "k/1", "k/2"] {
            let mut stat = rustix::fs::stat(place.path()).unwrap();
            (stat.st_mtime, stat.st_atime) = (1, 1);
            account.set(key, Some(&stat), None);
            let met = uptime();
            while uptime() == met {
                std::thread::yield_now();
            }
        }
        let victims = account.victims_of_disk(1 << 20, "");
        let names: Vec<_> = victims.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(names, ["k/1", "k/2", "k/3"]);
        account.visit("", |_, value| assert_eq!(value.second(), i64::from(second)));
    }

    /// The index reads both names at each moment of the move, also between its steps.
    #[test]
    fn the_index_counts_no_value_twice_while_its_folder_moves_and_forgets_no_use() {
        let account = account("");
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("k"), "v").unwrap();
        let stat = rustix::fs::stat(place.path().join("k")).unwrap();
        let keys = ["1", "2"].map(|name| [format!("a/{name}"), format!("b/{name}")]);
        for [key, _] in &keys {
            let version = Meta::of(&stat).version;
            account.admit(key, 4096, version, None).unwrap();
            account.made(key, true);
            account.read(key).unwrap().used.store(7, Relaxed);
        }
        let total = account.total(0);
        let read = || {
            for folder in ["a/", "b/"] {
                account.doubt(folder);
            }
            for [old, new] in &keys {
                for (key, found) in [(old, None), (new, Some(&stat))] {
                    let before = account.state.lock().counted(key);
                    account.set(key, found, before);
                }
            }
            account.settle();
            assert_eq!(account.total(0), total);
        };
        account.begin_move("a", "b").unwrap();
        read();
        // The first is moved in the account, and the second is not yet.
        let [old, new] = &keys[0];
        let value = account.state.lock().names.remove(old).unwrap();
        account.state.lock().names.insert((**new).into(), value);
        read();
        account.moved("a", "b");
        account.end_move();
        read();
        for [_, new] in &keys {
            let value = account.state.lock().names.value(new).cloned();
            assert_eq!(value.unwrap().used.load(Relaxed), 7, "{new}");
        }
        // A move that fails costs no value its place in a count that was under way.
        let count = account.begin_count(true);
        account.begin_move("b", "c").unwrap();
        for [_, new] in &keys {
            let before = account.state.lock().counted(new);
            assert!(!account.set(new, Some(&stat), before));
        }
        account.end_move();
        account.end_count(count);
        assert_eq!(account.total(0), total);
        // Nothing is left of it.
        account.begin_move("b", "c").unwrap();
        account.end_move();
        read();
        let before = account.state.lock().counted("b/1");
        assert!(account.set("b/1", None, before));
        // What an earlier process has noted is found by the old name alone.
        let counting = Account::new(account.bounds.clone(), Uses::default());
        assert!(counting.begin_move("b", "c").is_err());
    }

    #[test]
    fn a_value_that_is_published_while_its_folder_is_read_again_stays_counted() {
        let account = account("");
        account
            .admit("a/k", 4096, Version::from_nanos(1), None)
            .unwrap();
        account.doubt("a/");
        // The folder is read before there is its name.
        account.made("a/k", true);
        account.settle();
        assert_eq!(account.total(0).keys, 1);
    }

    #[test]
    fn a_value_that_a_count_does_not_meet_is_forgotten_also_where_its_folder_is_still_to_be_read_again()
     {
        for is_doubted in [false, true] {
            let account = account("");
            account
                .admit("a/k", 4096, Version::from_nanos(1), None)
                .unwrap();
            account.made("a/k", true);
            if is_doubted {
                // The index is given up before it reads the folder.
                account.doubt("a/");
            }
            let count = account.begin_count(false);
            account.end_count(count);
            assert_eq!(account.total(0).keys, 0, "{is_doubted}");
        }
    }

    #[test]
    fn what_was_seen_before_a_value_was_published_or_replaced_is_not_counted() {
        let account = account("");
        let put = |size, version| {
            let version = Version::from_nanos(version);
            account.admit("k", size, version, None).unwrap();
            account.made("k", true);
        };
        let before = account.state.lock().counted("k");
        put(4096, 1);
        assert!(!account.set("k", None, before));
        let before = account.state.lock().counted("k");
        put(8192, 2);
        assert!(!account.set("k", None, before));
        assert_eq!(account.total(0).bytes, 8192);
        let before = account.state.lock().counted("k");
        assert!(account.set("k", None, before), "removed by hand");
        assert_eq!(account.total(0).keys, 0);
    }
}
