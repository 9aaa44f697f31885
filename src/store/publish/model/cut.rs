//! A cut of power in the model: what the disk may have, and what a replay leaves of it.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::super::journal::{self, Fate, History, Record};
use super::world::{KEYS, Planted, State, Value, excludes, head, key_index, version};

/// What a disk has.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) names: State,
    pub(super) torn: BTreeSet<i128>,
}

impl Disk {
    /// Whether each key stands for what it may, whole.
    pub(super) fn check(&self, may_be: &[BTreeSet<Value>; KEYS.len()]) -> Result<(), String> {
        for (key, may_be) in may_be.iter().enumerate() {
            let value = self.names[key];
            let is_torn = value.is_some_and(|value| self.torn.contains(&value));
            if !may_be.contains(&value) || is_torn {
                let key = KEYS[key];
                return Err(format!(
                    "{key} is {value:?} (torn: {is_torn}), and may be {may_be:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Each name as at any moment since it was last synced.
pub(super) fn disks(durable: &[Vec<Value>; KEYS.len()]) -> BTreeSet<State> {
    let mut disks = BTreeSet::new();
    for &k in &durable[0] {
        for &x in &durable[1] {
            for &q in &durable[2] {
                if k.is_some() && x.is_some() {
                    disks.extend([[k, None, q], [None, x, q]]);
                } else {
                    disks.insert([k, x, q]);
                }
            }
        }
    }
    disks
}

/// The replay, as `journal::replay` does it.
pub(super) struct Replay<'a> {
    pub(super) frames: &'a [Bytes],
    pub(super) settled: u64,
    pub(super) planted: Planted,
}

impl Replay<'_> {
    pub(super) fn each(&self, mut show: impl FnMut(&Record, u64)) {
        for frame in self.frames {
            let head = head(frame);
            for (record, sequence) in head
                .read(frame.clone())
                .expect("a whole frame")
                .iter()
                .zip(head.first..)
            {
                if sequence >= self.settled {
                    show(record, sequence);
                }
            }
        }
    }

    /// What is left on the `disk` after so many values are made.
    pub(super) fn run(&self, mut disk: Disk, most: usize) -> Disk {
        let mut history = History::default();
        self.each(|record, _| {
            let is_cancel = matches!(record, Record::Cancel(_));
            if !(is_cancel && self.planted.no_cancel) {
                history.add(record);
            }
        });
        let mut made = 0;
        self.each(|record, _| {
            let Record::Change(change) = record else {
                return;
            };
            let key = key_index(change.key.as_str());
            let may_count = if self.planted.by_version {
                self.is_highest(change)
            } else {
                history.may_count(change)
            };
            if !may_count || made == most {
                return;
            }
            let found = disk.names[key];
            let mut fate = history.fate(change, found.map(version));
            // Times are those of versions here, which are drawn in their order.
            let changed = found.map_or(0, time);
            if fate == Fate::Foreign && History::is_older(change, changed) {
                fate = Fate::Made;
            }
            match (fate, change.result) {
                (Fate::Made | Fate::Compared, Some(version)) => {
                    let version = version.nanos();
                    for other in (0..KEYS.len()).filter(|other| excludes(key, *other)) {
                        let in_the_way = disk.names[other].map_or(0, time);
                        if !History::is_older(change, in_the_way) {
                            return;
                        }
                        disk.names[other] = None;
                    }
                    disk.names[key] = Some(version);
                    disk.torn.remove(&version);
                    made += 1;
                }
                (Fate::Made, None) => {
                    disk.names[key] = None;
                    made += 1;
                }
                _ => {}
            }
        });
        disk
    }

    /// As it was before: the highest version counts, whatever its place.
    pub(super) fn is_highest(&self, change: &journal::Change) -> bool {
        let mut highest = None;
        self.each(|record, _| {
            if let Record::Change(other) = record
                && other.key == change.key
            {
                highest = highest.max(other.result);
            }
        });
        change.result == highest
    }
}

pub(super) fn time(version: i128) -> i64 {
    i64::try_from(version).expect("a time")
}
