//! The model's directory, its log and its disk: names that are made and not synced, frames of which the first are; and a cut of power, with
//! the disks that it may leave and what a replay makes of each.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use rustix::io::Errno;

use super::super::super::journal::{self, Fate, FrameBuilder, Head, History, Log, Record};
use super::super::super::new_value::Source;
use super::super::decide::{ChangeRequest, Files, Pending, PendingState, Plan};
use crate::value::{Error, Key, Meta, Version};

pub(super) const KEYS: [&str; 3] = ["k", "k/x", "q"];

/// The value of a key: a version, or nothing.
pub(super) type Value = Option<i128>;

/// The values of all keys.
pub(super) type State = [Value; KEYS.len()];

/// A fault that is planted, to see it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Planted {
    #[default]
    Nothing,
    /// Changes are decided by the files alone, without the table of keys in flight.
    NoPending,
    /// The highest version of a key counts, not its last record.
    ByVersion,
    /// A change that is not made stays in the log.
    NoCancel,
    /// Answers do not wait for the sync.
    Early,
}

/// The kernel's view of the files, and what the disk may have of it.
pub(super) struct World {
    pub(super) planted: Planted,
    pub(super) now: Cell<i128>,
    pub(super) names: RefCell<State>,
    /// The values that each name had since it was last synced, the synced one first.
    pub(super) durable: RefCell<[Vec<Value>; KEYS.len()]>,
    /// Values whose bytes may not be on the disk.
    pub(super) torn: RefCell<BTreeSet<i128>>,
    /// The plans: the writer, the key, the base and the result.
    pub(super) planned: RefCell<Vec<(usize, usize, Value, Value)>>,
    /// The writer whose change is decided.
    pub(super) asking: Arc<AtomicUsize>,
    pub(super) fails: Cell<bool>,
}

pub(super) fn key_index(key: &str) -> usize {
    KEYS.iter()
        .position(|other| *other == key)
        .expect("a key of the model")
}

/// Whether there can be no value with the name of the first while there is one with that of the second.
pub(super) fn excludes(a: usize, b: usize) -> bool {
    matches!((a, b), (0, 1) | (1, 0))
}

pub(super) fn version(nanos: i128) -> Version {
    Version::from_nanos(nanos)
}

pub(super) fn meta(value: Value) -> Option<Meta> {
    value.map(|nanos| Meta::new(1, version(nanos)))
}

pub(super) fn nanos(meta: Option<Meta>) -> Value {
    meta.map(|meta| meta.version.nanos())
}

impl World {
    pub(super) fn new(first: State, planted: Planted) -> Self {
        Self {
            planted,
            now: Cell::new(1000),
            names: RefCell::new(first),
            durable: RefCell::new(first.map(|value| vec![value])),
            torn: RefCell::default(),
            planned: RefCell::default(),
            asking: Arc::default(),
            fails: Cell::new(false),
        }
    }

    pub(super) fn next_version(&self) -> i128 {
        self.now.set(self.now.get() + 10);
        self.now.get()
    }

    pub(super) fn set(&self, key: usize, value: Value) {
        self.names.borrow_mut()[key] = value;
        self.durable.borrow_mut()[key].push(value);
    }

    /// All that there is comes to the disk.
    pub(super) fn settle(&self) {
        let names = *self.names.borrow();
        *self.durable.borrow_mut() = names.map(|value| vec![value]);
        self.torn.borrow_mut().clear();
    }

    pub(super) fn is_occupied(&self, key: usize) -> bool {
        let names = self.names.borrow();
        (0..KEYS.len()).any(|other| excludes(key, other) && names[other].is_some())
    }
}

impl Files for World {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn pending_state(&self, pending: &Pending, key: &Key<'_>) -> PendingState {
        if self.planted == Planted::NoPending {
            return PendingState::Nothing;
        }
        pending.state(key)
    }

    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error> {
        let key = key_index(change.key.as_str());
        if change.value.is_some() && self.is_occupied(key) {
            return Err(Error::Occupied(String::new()));
        }
        Ok(meta(self.names.borrow()[key]))
    }

    fn find_source(&self, source: &Source, _to: &Key<'_>) -> Result<Option<Meta>, Error> {
        Ok(meta(self.names.borrow()[key_index(source.key.as_str())]))
    }

    fn result(
        &self,
        change: &mut ChangeRequest,
        base: Option<Meta>,
    ) -> Result<Option<Meta>, Error> {
        let result = change.value.as_ref().map(|_| self.next_version());
        let key = key_index(change.key.as_str());
        let planned = (self.asking.load(Relaxed), key, nanos(base), result);
        self.planned.borrow_mut().push(planned);
        Ok(meta(result))
    }

    fn stage(&self, _: &mut ChangeRequest, _: Plan) -> Result<(), Error> {
        Ok(())
    }

    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error> {
        let key = key_index(change.key.as_str());
        if self.fails.take() {
            return Err(Error::new("link", Errno::IO));
        }
        if change.value.is_some() && self.is_occupied(key) {
            return Err(Error::Occupied(String::new()));
        }
        if self.names.borrow()[key] != nanos(plan.base) {
            return Ok(false);
        }
        let result = nanos(plan.result);
        self.set(key, result);
        if result.is_some() && change.is_large() {
            // Its bytes were synced before, and its name is, with all names of the folder, before it is answered.
            let mut durable = self.durable.borrow_mut();
            durable[key] = vec![result];
            for other in (0..KEYS.len()).filter(|other| excludes(key, *other)) {
                durable[other] = vec![None];
            }
        } else {
            self.torn.borrow_mut().extend(result);
        }
        Ok(true)
    }
}

/// The log: frames, of which the first are synced.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) all: Vec<Bytes>,
    pub(super) synced: usize,
    pub(super) next: u64,
    /// Sequence numbers before this one are settled, and up to which are made.
    pub(super) settled: u64,
    pub(super) made: u64,
    pub(super) failed: bool,
    /// When what is appended next was decided.
    pub(super) time: i64,
    pub(super) planted: Planted,
}

pub(super) fn head(frame: &[u8]) -> Head {
    Head::parse(frame).expect("a frame")
}

impl Frames {
    pub(super) fn synced_before(&self) -> u64 {
        self.all[..self.synced]
            .last()
            .map_or(1, |frame| head(frame).end())
    }

    pub(super) fn fail(&mut self) {
        self.all.truncate(self.synced);
        self.next = self.synced_before();
        self.failed = true;
    }
}

impl Log for Frames {
    fn frame(&self) -> FrameBuilder {
        FrameBuilder::new(self.time)
    }

    fn has_room(&self, _: &FrameBuilder) -> bool {
        true
    }

    fn append(&mut self, frame: FrameBuilder) -> Result<(u64, u64), Error> {
        let first = self.next.max(1);
        let mut head = Head::new(7, 1, first);
        head.synced = self.synced_before();
        let frame = Bytes::from(frame.finish(head)?);
        let end = self::head(&frame).end();
        self.all.push(frame);
        self.next = end;
        Ok((first, end))
    }

    fn synced(&self) -> u64 {
        if self.planted == Planted::Early {
            return self.next;
        }
        self.synced_before()
    }

    async fn wait(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.failed) {
            return Err(Error::new("sync the journal", Errno::IO));
        }
        std::future::pending().await
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        drop(make());
        if let Some(end) = end {
            self.made = end;
        }
    }
}

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
            if fate == Fate::Foreign && History::is_older(change, changed) {
                fate = Fate::Apply;
            }
            match (fate, change.result) {
                (Fate::Apply | Fate::Compare, Some(version)) => {
                    let version = version.nanos();
                    let others = (0..KEYS.len()).filter(|other| excludes(key, *other));
                    let mut in_the_way = others.clone().map(|other| disk.names[other]);
                    if !in_the_way.all(|value| History::is_older(change, value.map_or(0, time))) {
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

pub(super) fn time(version: i128) -> i64 {
    i64::try_from(version).expect("a time")
}
