//! A cut of power: the disks that it may leave, and what a replay makes of each.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::super::journal::{self, Fate, History, Record};
use super::world::{KEYS, Planted, State, Value, excludes, head, key_index, time, version};

/// The content of a disk after a cut of power.
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

/// Each name as at any moment since it was last synced; of two that exclude each other, one.
pub(super) fn disks(durable: &[Vec<Value>; KEYS.len()]) -> BTreeSet<State> {
    let mut disks = BTreeSet::from([State::default()]);
    for (key, values) in durable.iter().enumerate() {
        let with_key = |disk: State| {
            let clash = (0..key).find(|&other| excludes(key, other) && disk[other].is_some());
            values.iter().flat_map(move |&value| {
                let mut with = disk;
                with[key] = value;
                let clash = clash.filter(|_| value.is_some());
                clash.inspect(|&other| with[other] = None);
                [Some(with), clash.map(|_| disk)].into_iter().flatten()
            })
        };
        disks = disks.into_iter().flat_map(with_key).collect();
    }
    disks
}

/// The replay, as `journal::replay` does it: the records that are not settled, and the history that they make.
pub(super) struct Replay {
    records: Vec<Record>,
    history: History,
    planted: Planted,
}

impl Replay {
    /// The replay of whole `frames`, of which the records before `settled` are settled.
    pub(super) fn new(frames: &[Bytes], settled: u64, planted: Planted) -> Self {
        let mut records = Vec::new();
        for frame in frames {
            let head = head(frame);
            let read = head.read(frame.clone()).expect("a whole frame");
            let left = (head.first..).zip(read).filter(|(n, _)| *n >= settled);
            records.extend(left.map(|(_, record)| record));
        }
        let mut history = History::default();
        for record in &records {
            let is_cancel = matches!(record, Record::Cancel(_));
            if !(is_cancel && planted == Planted::NoCancel) {
                history.add(record);
            }
        }
        Self {
            records,
            history,
            planted,
        }
    }

    fn changes(&self) -> impl Iterator<Item = &journal::ChangeRecord> {
        self.records.iter().filter_map(|record| match record {
            Record::Change(change) => Some(change),
            Record::Cancel(_) => None,
        })
    }

    /// Replays on `disk`, cut off after `most` values are made.
    pub(super) fn run(&self, mut disk: Disk, most: usize) -> Disk {
        let history = &self.history;
        let mut made = 0;
        for change in self.changes() {
            let key = key_index(change.key.as_str());
            let may_count = if self.planted == Planted::ByVersion {
                self.is_highest(change)
            } else {
                history.may_count(change)
            };
            if !may_count {
                continue;
            }
            if made == most {
                break;
            }
            let found = disk.names[key];
            let mut fate = history.fate(change, found.map(version));
            // Times are those of versions here, which are drawn in their order.
            let changed = found.map_or(0, time);
            if fate == Fate::Foreign && History::is_older(change, changed.into()) {
                fate = Fate::Apply;
            }
            match (fate, change.result) {
                (Fate::Apply | Fate::Compare, Some(version)) => {
                    let version = version.nanos();
                    let others = (0..KEYS.len()).filter(|other| excludes(key, *other));
                    let mut in_the_way = others.clone().map(|other| disk.names[other]);
                    if !in_the_way
                        .all(|value| History::is_older(change, value.map_or(0, time).into()))
                    {
                        continue;
                    }
                    for other in others {
                        disk.names[other] = None;
                    }
                    disk.names[key] = Some(version);
                    disk.torn.remove(&version);
                    made += 1;
                }
                (Fate::Apply, None) => {
                    disk.names[key] = None;
                    made += 1;
                }
                _ => {}
            }
        }
        disk
    }

    /// As it was before: the highest version counts, whatever its place.
    pub(super) fn is_highest(&self, change: &journal::ChangeRecord) -> bool {
        let of_key = self.changes().filter(|other| other.key == change.key);
        let highest = of_key.map(|other| other.result).max().flatten();
        change.result == highest
    }
}
