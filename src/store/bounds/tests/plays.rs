//! What each step does to the world of the model, and what is expected of the account.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::time::{Duration, SystemTime};

use super::super::Total;
use super::super::ledger::scopes;
use super::step::Step;
use super::world::{KEYS, MOVED, World};
use crate::store::space::Free;

impl World {
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
                self.account.unsee(folder);
                self.reread(folder, at, between);
                self.account.forget_unseen();
            }
            Step::Disk(blocks) => {
                let beyond = Total {
                    bytes: blocks * 4096,
                    keys: 0,
                };
                // Each time another amount of space is free.
                self.free += 1 << 30;
                self.account.largest.lock().compared = None;
                let free = Free {
                    bytes: self.free,
                    ..Free::default()
                };
                let choice = self.account.for_disk(Some(free), beyond, &[]);
                // Of the scope that has most, and the last of those.
                let keys = self.model.keys();
                let all = keys.flat_map(|key| scopes(&self.account.bounds, key));
                let evicting: BTreeSet<_> = all.filter(|&(bound, _)| bound < 2).collect();
                let bytes = |&(bound, scope): &_| self.total(bound, scope, None).bytes;
                let largest = evicting.into_iter().max_by_key(bytes);
                let expected = largest.map(|(bound, scope)| self.oldest(bound, scope, beyond, ""));
                let expected = expected.unwrap_or_default();
                self.evict(Some(choice), &expected);
            }
        }
        self.check();
    }
}
