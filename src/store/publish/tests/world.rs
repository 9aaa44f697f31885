//! The model's directory, its log and its disk: names that are made and not synced, and frames of which the first are.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

use bytes::Bytes;
use rustix::io::Errno;

use super::super::super::journal::{FrameBuilder, Head, Log};
use super::super::super::new_value::Source;
use super::super::change::{ChangeRequest, FolderChange, Plan};
use super::super::decide::{Files, Made, plan};
use super::super::pending::{Pending, PendingState};
use crate::value::{Error, Key, Meta, Version};

pub(super) const KEYS: [&str; 4] = ["k", "k/x", "q", "q/x"];

/// The key in the folder that moves, and the one that its value has then.
pub(super) const MOVED: (usize, usize) = (1, 3);

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
    /// A folder moves while the log has records of keys below it.
    NoSettle,
    /// The new name of a folder is not synced.
    NoName,
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
    /// The values that moved with their folder, and whose writers have not heard of it.
    pub(super) moved: RefCell<VecDeque<Value>>,
}

pub(super) fn key_index(key: &str) -> usize {
    KEYS.iter()
        .position(|other| *other == key)
        .expect("a key of the model")
}

/// Whether there can be no value with the name of the first while there is one with that of the second.
pub(super) fn excludes(a: usize, b: usize) -> bool {
    matches!((a, b), (0, 1) | (1, 0) | (2, 3) | (3, 2))
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
            moved: RefCell::default(),
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
        if change.value().is_some() && self.is_occupied(key) {
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
        let result = change.value().map(|_| self.next_version());
        let key = key_index(change.key.as_str());
        let planned = (self.asking.load(Relaxed), key, nanos(base), result);
        self.planned.borrow_mut().push(planned);
        Ok(meta(result))
    }

    /// Only one folder moves: it is there while there is a value in it.
    fn change_folder(&self, _: &Key<'_>, _: &FolderChange) -> Result<(), Error> {
        let (from, to) = MOVED;
        if self.fails.take() {
            return Err(Error::new("rename", Errno::IO));
        }
        let value = self.names.borrow()[from];
        if value.is_none() {
            return Err(Error::NoFolder);
        }
        if self.is_occupied(to) || self.names.borrow()[to].is_some() {
            return Err(Error::NameTaken("a folder"));
        }
        for (key, value) in [(from, None), (to, value)] {
            self.set(key, value);
            if self.planted != Planted::NoName {
                self.durable.borrow_mut()[key] = vec![value];
            }
        }
        self.moved.borrow_mut().push_back(value);
        Ok(())
    }

    fn stage(&self, _: &mut ChangeRequest, _: Plan) -> Result<(), Error> {
        Ok(())
    }

    fn make_at_once(&self, change: &mut ChangeRequest) -> Made {
        let current = self.find(change)?;
        let plan = plan(self, change, current)?;
        plan.map(|plan| Ok((plan, self.make(change, plan)?)))
            .transpose()
    }

    fn make(&self, change: &mut ChangeRequest, plan: Plan) -> Result<bool, Error> {
        let key = key_index(change.key.as_str());
        if self.fails.take() {
            return Err(Error::new("link", Errno::IO));
        }
        if change.value().is_some() && self.is_occupied(key) {
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
pub(super) struct Frames<'a> {
    /// The files that it has the changes of.
    pub(super) world: Option<&'a World>,
    pub(super) all: Vec<Bytes>,
    pub(super) synced: usize,
    pub(super) next: u64,
    /// Sequence numbers before this one are settled, and up to which are made.
    pub(super) settled: u64,
    pub(super) made: u64,
    pub(super) failed: bool,
    /// The next sync that is waited for fails.
    pub(super) fails: bool,
    /// When what is appended next was decided.
    pub(super) time: i64,
    pub(super) planted: Planted,
    /// There is no journal.
    pub(super) is_off: bool,
}

pub(super) fn head(frame: &[u8]) -> Head {
    Head::parse(frame).expect("a frame")
}

impl Frames<'_> {
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

    /// Tells once of a sync that failed.
    fn heard(&mut self) -> Result<(), Error> {
        let failed = || Error::new("sync the journal", Errno::IO);
        let has_failed = std::mem::take(&mut self.failed);
        (!has_failed).then_some(()).ok_or_else(failed)
    }
}

impl Log for Frames<'_> {
    fn frame(&self) -> Option<FrameBuilder> {
        (!self.is_off).then(|| FrameBuilder::new(self.time))
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
        self.heard()?;
        // A sync ends only for one who goes on waiting.
        let mut has_waited = false;
        let wait = poll_fn(|_| {
            if std::mem::replace(&mut has_waited, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        wait.await;
        if std::mem::take(&mut self.fails) {
            self.fail();
            return self.heard();
        }
        self.synced = self.all.len();
        Ok(())
    }

    fn checkpoint_all(&mut self) -> Result<(), Error> {
        if self.planted != Planted::NoSettle {
            self.settled = self.made;
            self.world.inspect(|world| world.settle());
        }
        Ok(())
    }

    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        drop(make());
        if let Some(end) = end {
            self.made = end;
        }
    }

    fn end(self) {}
}

pub(super) fn time(version: i128) -> i64 {
    i64::try_from(version).expect("a time")
}
