//! The model's values, and the account that they are compared with, on files of a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};

use super::super::account::Lack;
use super::super::names::uptime;
use super::super::uses::{hash, load, save};
use super::super::*;
use super::step::Step;
use crate::store::directory_fd::ValuesDir;
use crate::store::location::Location;
use crate::transfer::BlockingPool;
use crate::value::{Error, Key, Meta};

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
type Known = (i64, u64);

pub(super) struct World {
    account: Arc<Account>,
    dir: ValuesDir,
    path: PathBuf,
    model: BTreeMap<&'static str, Known>,
    /// Rises with each use.
    time: i64,
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
        }
    }

    /// An account of nothing yet, of which these uses are noted.
    fn account(noted: Uses) -> Arc<Account> {
        let bounds = vec![
            bound("", Some(9), None, Full::Evict),
            bound("{name}/", None, Some(2), Full::Evict),
            bound("b/", Some(5), None, Full::Refuse),
        ];
        let account = Account::new(bounds, noted);
        (0..3).for_each(|at| account.set_may_evict(at, true));
        account.set_whole();
        account
    }

    /// `key` is used now, with this size from now on.
    fn used(&mut self, key: &'static str, blocks: u64) {
        // Never before a time that the account itself has noted.
        self.time = (self.time + 1).max(uptime());
        let Some(value) = self.account.read(key) else {
            panic!("{key} is not counted");
        };
        value.used.store(self.time, Relaxed);
        self.model.insert(key, (self.time, blocks));
    }

    /// What the account looks up is what is there: a value that another program has made counts as used when it says so.
    fn look(&mut self, key: &'static str) {
        self.account.look(&self.dir, key);
        let Ok(found) = fs::metadata(self.path.join(key)) else {
            self.model.remove(key);
            return;
        };
        let blocks = found.len().div_ceil(4096);
        let mut used = None;
        self.account.visit(key, |name, value| {
            if name == key {
                used = Some(value.used.load(Relaxed));
            }
        });
        let used = used.unwrap_or_else(|| panic!("{key} is not counted"));
        self.model.insert(key, (used, blocks));
    }

    /// What goes first in a scope, but `except`, until so much is made up for.
    fn oldest(&self, bound: usize, scope: &str, beyond: Total, except: &str) -> Vec<&'static str> {
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
    fn total(&self, bound: usize, scope: &str, new: Option<(&str, u64)>) -> Total {
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
    fn lack<'k>(&self, key: &'k str, blocks: u64) -> Option<Lack<'k>> {
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
            (!beyond.is_zero()).then_some(Lack {
                bound,
                scope,
                beyond,
                is_final,
            })
        });
        // The first that refuses, else the first.
        let mut lacks: Vec<_> = lacks.collect();
        lacks.sort_by_key(|lack| !lack.is_final);
        lacks.into_iter().next()
    }

    fn remove(&mut self, key: &'static str) {
        self.account.release(key);
        // Another has looked meanwhile: what is decided counts.
        self.account.look(&self.dir, key);
        let folder = key.rfind('/').map(|slash| &key[..=slash]);
        let keeps_folder = folder.is_none_or(|folder| {
            let mut others = self.model.keys().filter(|other| **other != key);
            others.any(|other| other.starts_with(folder))
        });
        assert_eq!(
            self.account.keeps_folder(&Key::new(key).unwrap()),
            keeps_folder
        );
        let _may_not_be_there = fs::remove_file(self.path.join(key));
        self.account.made(key, false);
        self.model.remove(key);
    }

    /// Evicts the values of this choice, which are to be the first of these.
    fn evict(&mut self, victims: &[Victim], expected: &[&'static str]) {
        let chosen: Vec<_> = victims.iter().map(|(key, _)| key.as_str()).collect();
        let (part, _) = expected.split_at(chosen.len().min(expected.len()));
        assert_eq!(chosen, part, "of {:?}", self.model);
        assert_eq!(part.is_empty(), expected.is_empty(), "{:?}", self.model);
        for key in part {
            self.remove(key);
        }
    }

    fn put(&mut self, key: &'static str, blocks: u64, fails: bool) {
        loop {
            let victims = self.account.victims_for(key, blocks * 4096, None);
            let lack = self.lack(key, blocks).filter(|lack| !lack.is_final);
            let expected = lack.map(|lack| self.oldest(lack.bound, lack.scope, lack.beyond, key));
            let expected = expected.unwrap_or_default();
            self.evict(&victims, &expected);
            if expected.is_empty() {
                break;
            }
        }
        let new = self.path.join("new");
        fs::write(&new, vec![1; usize::try_from(blocks * 4096).unwrap()]).unwrap();
        let meta = Meta::of(&rustix::fs::stat(&new).unwrap());
        let admitted = self.account.admit(key, blocks * 4096, meta.version, None);
        let has_room = self.lack(key, blocks).is_none();
        assert_eq!(admitted.is_ok(), has_room, "{:?}", self.model);
        assert!(has_room || matches!(admitted, Err(Error::NoSpace(_))));
        if !has_room {
            return;
        }
        // It is not made yet, and another looks.
        self.account.look(&self.dir, key);
        let total = self.account.total(0);
        let counted = self.total(0, "", Some((key, blocks)));
        assert_eq!(total, counted, "what is decided counts");
        if fails {
            self.account.dropped(key);
            self.look(key);
            // The change that failed has used what it would have replaced.
            if let Some((_, blocks)) = self.model.get(key).copied() {
                self.used(key, blocks);
            }
            return;
        }
        fs::rename(new, self.path.join(key)).unwrap();
        self.account.made(key, true);
        self.used(key, blocks);
    }

    /// Reads the names below `prefix`, with these steps after so many.
    fn reread(&mut self, prefix: &str, at: usize, between: &[Step]) {
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
    fn shift(&mut self, from: &str, to: &str) {
        let is_there = |folder| self.model.keys().any(|key| key.starts_with(folder));
        if is_there(to) || !is_there(from) {
            return;
        }
        fs::remove_dir(self.path.join(to)).unwrap();
        fs::rename(self.path.join(from), self.path.join(to)).unwrap();
        fs::create_dir(self.path.join(from)).unwrap();
        self.account
            .moved(from.trim_end_matches('/'), to.trim_end_matches('/'));
        for key in KEYS {
            if let Some(name) = key.strip_prefix(to)
                && let Some(known) = self.model.remove(&*format!("{from}{name}"))
            {
                self.model.insert(key, known);
            }
        }
    }

    /// What is noted of the uses is all that is left of the account: each is known to the second.
    fn restart(&mut self) {
        let own = tempfile::tempdir().unwrap();
        let own = OwnedFd::from(File::open(own.path()).unwrap());
        let mut uses = Vec::new();
        self.account.visit("", |name, value| {
            uses.push((hash(name), u32::try_from(value.second()).unwrap()));
        });
        save(&own, uses).unwrap();
        self.account = Self::account(load(&own));
        let before = self.model.clone();
        let count = self.account.begin_count(true);
        self.reread("", KEYS.len(), &[]);
        self.account.end_count(count);
        for (key, (used, _)) in before {
            let differs = used.abs_diff(self.model[key].0);
            assert!(differs <= 2000, "{key}: {differs} ms");
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Put { key, blocks, fails } => self.put(KEYS[key], blocks, fails),
            Step::Delete(key) => self.remove(KEYS[key]),
            Step::Read(key) => {
                if let Some((_, blocks)) = self.model.get(KEYS[key]).copied() {
                    self.used(KEYS[key], blocks);
                }
            }
            Step::Place { key, blocks, age } => {
                let file = self.path.join(KEYS[key]);
                let _may_not_be_there = fs::remove_file(&file);
                fs::write(&file, vec![1; usize::try_from(blocks * 4096).unwrap()]).unwrap();
                let then = SystemTime::now() - Duration::from_secs(age);
                let times = FileTimes::new().set_accessed(then).set_modified(then);
                let file = File::options().write(true).open(&file).unwrap();
                file.set_times(times).unwrap();
                self.look(KEYS[key]);
            }
            Step::Remove(key) => {
                let _may_not_be_there = fs::remove_file(self.path.join(KEYS[key]));
                self.look(KEYS[key]);
            }
            Step::Move(from) => self.shift(MOVED[from], MOVED[1 - from]),
            Step::Restart => self.restart(),
            Step::Count(at, ref between) => {
                let count = self.account.begin_count(true);
                self.reread("", at, between);
                self.account.end_count(count);
            }
            Step::Reread(folder, at, ref between) => {
                self.account.doubt(folder);
                self.reread(folder, at, between);
                self.account.settle();
            }
            Step::Disk(blocks) => {
                let beyond = Total {
                    bytes: blocks * 4096,
                    keys: 0,
                };
                let victims = self.account.victims_of_disk(beyond.bytes, "");
                // Of the scope that has most, and the last of those.
                let keys = self.model.keys();
                let all = keys.flat_map(|key| self.account.scopes(key));
                let evicting: BTreeSet<_> = all.filter(|&(bound, _)| bound < 2).collect();
                let bytes = |&(bound, scope): &_| self.total(bound, scope, None).bytes;
                let largest = evicting.into_iter().max_by_key(bytes);
                let expected = largest.map(|(bound, scope)| self.oldest(bound, scope, beyond, ""));
                let expected = expected.unwrap_or_default();
                self.evict(&victims, &expected);
            }
        }
        self.check();
    }

    /// The sums are those of the model.
    fn check(&self) {
        let state = self.account.state.lock();
        for (bound, scopes) in state.scopes.iter().enumerate() {
            let prefix = &self.account.bounds[bound].prefix;
            let named = self.model.keys().filter_map(|key| prefix.scope(key));
            let named: BTreeSet<_> = named.collect();
            assert!(
                scopes.keys().map(|it| &**it).eq(named.iter().copied()),
                "{scopes:?}"
            );
            for (name, scope) in scopes {
                let total = self.total(bound, name, None);
                assert_eq!(scope.total, total, "{prefix} {name} of {:?}", self.model);
            }
        }
    }
}
