//! The model's values, and the account that they are compared with, on files of a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustix::fs::{Mode, OFlags};

use super::super::admission::RoomReservation;
use super::super::uses::{hash, load, save};
use super::super::value::uptime;
use super::super::*;
use super::step::Step;
use crate::store::changes::Removal;
use crate::store::directory_fd::ValuesDir;
use crate::store::location::Location;
use crate::transfer::BlockingPool;
use crate::value::{Error, Key};

static DISK: LazyLock<BlockingPool> = LazyLock::new(|| BlockingPool::disk(None).unwrap());

pub(super) const KEYS: [&str; 12] = [
    "a/0", "a/1", "a/2", "b/0", "b/1", "b/2", "c0", "c1", "d/e/0", "d/e/1", "d/f/0", "d/f/1",
];

/// Folders that take each other's names: the same bounds hold for all keys of both.
pub(super) const MOVED: [&str; 2] = ["d/e/", "d/f/"];

/// A bound of so many blocks of the disk, or of so many keys.
pub(super) fn bound(prefix: &str, blocks: Option<u64>, max_keys: Option<u64>, full: Full) -> Bound {
    Bound {
        prefix: Prefix::new(prefix).unwrap(),
        max_size: blocks.map(|blocks| blocks * 4096),
        max_keys,
        max_age: None,
        full,
        min_age: MIN_AGE,
    }
}

/// The time of a use, and blocks of the disk.
type Entry = (i64, u64);

/// The bound that a value has no room in.
struct Lack {
    bound: usize,
    scope: String,
    beyond: Total,
    /// Nothing can make any.
    is_final: bool,
}

pub(super) struct World {
    pub(super) account: Arc<Account>,
    dir: ValuesDir,
    pub(super) path: PathBuf,
    pub(super) model: BTreeMap<&'static str, Entry>,
    /// Rises with each use.
    time: i64,
    pub(super) free: u64,
}

impl World {
    pub(super) fn new(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let location = Location::new(path, &root, None).unwrap();
        for key in KEYS {
            fs::create_dir_all(path.join(key).parent().unwrap()).unwrap();
        }
        Self {
            account: Self::account(Uses::default()),
            dir: ValuesDir::new(root, location, DISK.clone()),
            path: path.to_owned(),
            model: BTreeMap::new(),
            time: uptime(),
            free: 0,
        }
    }

    /// An account of nothing yet, of which these uses are noted.
    fn account(noted: Uses) -> Arc<Account> {
        let bounds = vec![
            bound("", Some(9), None, Full::Evict),
            bound("{name}/", None, Some(2), Full::Evict),
            bound("b/", Some(5), None, Full::Refuse),
        ];
        let account = Account::new(bounds, None, noted);
        (0..3).for_each(|at| account.set_may_remove(at, Removal::Full, true));
        account.set_whole();
        account
    }

    /// `key` is used now, with this size from now on.
    pub(super) fn used(&mut self, key: &'static str, blocks: u64) {
        // Never before a time that the account itself has noted.
        self.time = (self.time + 1).max(uptime());
        let Some(value) = self.account.read(key) else {
            panic!("{key} is not counted");
        };
        value.set_used(self.time);
        self.model.insert(key, (self.time, blocks));
    }

    /// What the account looks up is what is there: a value that another program has made counts as used when it says
    /// so.
    pub(super) fn look(&mut self, key: &'static str) {
        self.account.look(&self.dir, key);
        let Ok(found) = fs::metadata(self.path.join(key)) else {
            self.model.remove(key);
            return;
        };
        let blocks = found.len().div_ceil(4096);
        let mut used = None;
        self.account.visit(key, |name, value| {
            if name == key {
                used = Some(value.used());
            }
        });
        let used = used.unwrap_or_else(|| panic!("{key} is not counted"));
        self.model.insert(key, (used, blocks));
    }

    /// What goes first in a scope, but `except`, until so much is made up for.
    pub(super) fn oldest(
        &self,
        bound: usize,
        scope: &str,
        beyond: Total,
        except: &str,
    ) -> Vec<&'static str> {
        let prefix = &self.account.bounds[bound].prefix;
        let values = self.model.iter();
        let values = values.filter(|(key, _)| **key != except && prefix.scope(key) == Some(scope));
        let mut values: Vec<_> = values
            .map(|(key, known)| (known.0, *key, known.1))
            .collect();
        values.sort_unstable();
        let (mut bytes, mut keys) = (0, 0);
        let is_needed = |(_, _, blocks): &(i64, &str, u64)| {
            let is_needed = bytes < beyond.bytes || keys < beyond.keys;
            (bytes, keys) = (bytes + blocks * 4096, keys + 1);
            is_needed
        };
        let first = values.into_iter().take_while(is_needed);
        first.map(|(_, key, _)| key).collect()
    }

    /// The sums of a scope, with a value of `blocks` under `key`, if there is one.
    pub(super) fn total(&self, bound: usize, scope: &str, new: Option<(&str, u64)>) -> Total {
        let prefix = &self.account.bounds[bound].prefix;
        let others = self.model.iter().map(|(key, known)| (*key, known.1));
        let others = others.filter(|(key, _)| new.is_none_or(|(new, _)| new != *key));
        let all = others.chain(new);
        let all = all.filter(|(key, _)| prefix.scope(key) == Some(scope));
        all.fold(Total::default(), |sum, (_, blocks)| Total {
            bytes: sum.bytes + blocks * 4096,
            keys: sum.keys + 1,
        })
    }

    /// The bound that a value has no room in; final where nothing can make any.
    fn lack(&self, key: &str, blocks: u64) -> Option<Lack> {
        // What takes no more than what it replaces has room.
        if self.model.get(key).is_some_and(|(_, had)| blocks <= *had) {
            return None;
        }
        let bounds = self.account.bounds.iter().enumerate();
        let scopes = bounds.filter_map(|(at, bound)| Some((at, bound, bound.prefix.scope(key)?)));
        let lacks = scopes.filter_map(|(bound, rule, scope)| {
            let beyond = self.total(bound, scope, Some((key, blocks))).beyond(rule);
            let new = Total {
                bytes: blocks * 4096,
                keys: 1,
            };
            let is_final = rule.full == Full::Refuse || !new.beyond(rule).is_zero();
            // Above its bound it has room for half of what has gone.
            let state = self.account.state.lock();
            let sums = state.scopes[bound].get(scope);
            let had = self.model.get(key).map(|(_, had)| Total::one(had * 4096));
            let needs = new.minus(had.unwrap_or_default());
            let is_let_in = sums.is_some_and(|sums| sums.lets_in(needs, beyond));
            if !is_final && is_let_in && !beyond.is_zero() {
                let before = self.total(bound, scope, None);
                assert!(!before.beyond(rule).is_zero(), "{scope} is not above");
                return None;
            }
            (!beyond.is_zero()).then_some(Lack {
                bound,
                scope: scope.to_owned(),
                beyond,
                is_final,
            })
        });
        // The first that refuses, else the first.
        let mut lacks: Vec<_> = lacks.collect();
        lacks.sort_by_key(|lack| !lack.is_final);
        lacks.into_iter().next()
    }

    pub(super) fn remove(&mut self, key: &'static str) {
        let looks = self.account.looks();
        // Another looks meanwhile.
        self.account.look(&self.dir, key);
        let folder = key.rfind('/').map(|slash| &key[..=slash]);
        let keeps_folder = folder.is_none_or(|folder| {
            let mut others = self.model.keys().filter(|other| **other != key);
            others.any(|other| other.starts_with(folder))
        });
        let found = self.account.keeps_folder(&Key::new(key).unwrap());
        assert_eq!(found, keeps_folder);
        let _may_not_be_there = fs::remove_file(self.path.join(key));
        self.account.made(&self.dir, key, (None, looks), None);
        self.model.remove(key);
    }

    /// Evicts the values of this choice, which are to be the first of these.
    pub(super) fn evict(&mut self, choice: Option<Choice>, expected: &[&'static str]) {
        let victims = match choice {
            Some(Choice::Evict(victims)) => victims,
            Some(Choice::Nobody(_)) => Vec::new(),
            Some(Choice::Wait) | None => panic!("nothing is under way, of {:?}", self.model),
        };
        let chosen: Vec<_> = victims.iter().map(|victim| victim.key.as_str()).collect();
        let (part, _) = expected.split_at(chosen.len().min(expected.len()));
        assert_eq!(chosen, part, "of {:?}", self.model);
        assert_eq!(part.is_empty(), expected.is_empty(), "{:?}", self.model);
        for (victim, key) in victims.into_iter().zip(part) {
            self.remove(key);
            drop(victim);
        }
    }

    /// Has the account admit a value, once room is made for it; `None` where it is refused.
    fn admit(&mut self, key: &'static str, blocks: u64) -> Option<Box<RoomReservation>> {
        let bytes = blocks * 4096;
        let ask = Ask {
            key,
            bytes,
            source: None,
            staged: 0,
        };
        let mut held = None;
        loop {
            let lack = self.lack(key, blocks);
            let admitted = self.account.admit(&mut held, &ask);
            let Some(lack) = lack else {
                assert!(admitted.is_ok(), "{:?}", self.model);
                return held;
            };
            assert!(
                matches!(admitted, Err(Error::NoSpace(_))),
                "{:?}",
                self.model
            );
            let choice = self.account.for_change(held.as_ref()?, &ask);
            if lack.is_final {
                assert!(matches!(choice, Some(Choice::Nobody(_))));
                return None;
            }
            let expected = self.oldest(lack.bound, &lack.scope, lack.beyond, key);
            self.evict(choice, &expected);
            if expected.is_empty() {
                return None;
            }
        }
    }

    pub(super) fn put(&mut self, key: &'static str, blocks: u64, fails: bool) {
        let Some(mut admitted) = self.admit(key, blocks) else {
            return;
        };
        let new = self.path.join("new");
        fs::write(&new, vec![1; usize::try_from(blocks * 4096).unwrap()]).unwrap();
        let file = Known::new(&rustix::fs::stat(&new).unwrap(), None, None);
        // It is not made yet, and another looks.
        self.account.look(&self.dir, key);
        let total = self.account.total(0);
        let had = self.model.get(key).map_or(0, |(_, had)| *had);
        let counted = self.total(0, "", Some((key, blocks.max(had))));
        assert_eq!(total, counted, "what is admitted counts");
        if fails {
            drop(admitted);
            self.look(key);
            return;
        }
        fs::rename(new, self.path.join(key)).unwrap();
        self.account
            .made(&self.dir, key, (Some(&mut admitted), 0), Some(file));
        drop(admitted);
        self.used(key, blocks);
    }

    /// Reads the names below `prefix`, with these steps after so many.
    pub(super) fn reread(&mut self, prefix: &str, at: usize, between: &[Step]) {
        for (number, key) in KEYS.into_iter().enumerate() {
            if number == at {
                for step in between {
                    self.step(step);
                }
            }
            if key.starts_with(prefix) && self.path.join(key).exists() {
                self.look(key);
            }
        }
        // What was removed by hand, before or meanwhile, is not met.
        let path = &self.path;
        let is_gone = |key: &str| key.starts_with(prefix) && !path.join(key).exists();
        self.model.retain(|key, _| !is_gone(key));
    }

    /// The folder `from` takes the name `to`, as the publisher has it: the values keep their uses.
    pub(super) fn shift(&mut self, from: &str, to: &str) {
        let is_there = |folder| self.model.keys().any(|key| key.starts_with(folder));
        if is_there(to) || !is_there(from) {
            return;
        }
        let ends = [from, to].map(|folder| folder.trim_end_matches('/'));
        let renamed = self.account.rename(ends, || {
            fs::remove_dir(self.path.join(to))?;
            fs::rename(self.path.join(from), self.path.join(to))?;
            fs::create_dir(self.path.join(from))
        });
        renamed.unwrap();
        for key in KEYS {
            if let Some(name) = key.strip_prefix(to)
                && let Some(known) = self.model.remove(&*format!("{from}{name}"))
            {
                self.model.insert(key, known);
            }
        }
    }

    /// What is noted of the uses is all that is left of the account. The time of the model may be ahead of the clock.
    pub(super) fn restart(&mut self) {
        let own = tempfile::tempdir().unwrap();
        let own = OwnedFd::from(File::open(own.path()).unwrap());
        let mut uses = Vec::new();
        self.account.visit("", |name, value| {
            uses.push((hash(name), value.used_at()));
        });
        save(&own, &uses).unwrap();
        self.account = Self::account(load(&own));
        let before = self.model.clone();
        let count = self.account.begin_count(true);
        self.reread("", KEYS.len(), &[]);
        self.account.end_count(count);
        for (key, (used, _)) in before {
            let differs = used.abs_diff(self.model[key].0);
            assert!(differs <= 100, "{key}: {differs} ms");
        }
    }

    /// The sums are those of the model.
    pub(super) fn check(&self) {
        let state = self.account.state.lock();
        for (bound, scopes) in state.scopes.iter().enumerate() {
            let prefix = &self.account.bounds[bound].prefix;
            let named = self.model.keys().filter_map(|key| prefix.scope(key));
            let named: BTreeSet<_> = named.collect();
            let is_right = scopes.keys().map(|it| &**it).eq(named.iter().copied());
            assert!(is_right, "{scopes:?}");
            for (name, scope) in scopes {
                let total = self.total(bound, name, None);
                assert_eq!(scope.total, total, "{prefix} {name} of {:?}", self.model);
            }
        }
    }
}
