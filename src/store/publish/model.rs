//! A model of a directory and its disk beside the pipeline: the pipeline, the frames and the history that the server uses, on files and
//! a log that are played here.
//!
//! Up to four writers change a key, a key below it and a third by any means, while syncs end or fail, checkpoints settle, calls fail and a
//! hand writes. After each step the power is cut: each name may be as at any moment since it was last synced, bytes that were not synced may
//! be torn, of the frames that were not synced any number may be whole. A replay, cut off anywhere and begun again, must then leave
//! each key as an order of the writers' changes explains it that has all acknowledged ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;
use rustix::io::Errno;

use super::super::attributes::Attributes;
use super::super::batch_reply;
use super::super::changes::Changes;
use super::super::error::Error;
use super::super::journal::{self, Fate, FrameBuilder, Head, History, Log, Record};
use super::super::key::Key;
use super::super::meta::{Meta, Version};
use super::super::upload::NewValue;
use super::acknowledge::Acknowledger;
use super::change::{Applied, Change, Made, Outcome, Pending, Plan, Seen, Told};
use super::pipeline::{Files, Pipeline};

const KEYS: [&str; 3] = ["k", "k/x", "q"];
const LARGE: u64 = 1 << 20;

/// What a key stands for: a version, or nothing.
type Value = Option<i128>;

/// What all keys stand for.
type State = [Value; KEYS.len()];

/// What a writer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ask {
    key: usize,
    is_put: bool,
    is_large: bool,
    condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    None,
    /// `If-Match` of what was there at the beginning.
    First,
    /// `If-None-Match: *`.
    Absent,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many writers ask, and are appended together.
    Ask(usize),
    Sync,
    FailSync,
    Checkpoint,
    /// The next call that makes a change fails.
    FailCall,
    /// A hand writes this key.
    Hand(usize),
    /// A hand removes it.
    Remove(usize),
}

/// Faults that are planted, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Planted {
    /// Changes are decided by the files alone.
    no_pending: bool,
    /// The highest version of a key counts, not its last record.
    by_version: bool,
    /// What is not made stays in the log.
    no_cancel: bool,
    /// Answers do not wait for the sync.
    early: bool,
}

/// The kernel's view of the files, and what the disk may have of it.
struct World {
    planted: Planted,
    now: Cell<i128>,
    names: RefCell<State>,
    /// What each name stood for since it was last synced, that first.
    durable: RefCell<[Vec<Value>; KEYS.len()]>,
    /// Values whose bytes may not be on the disk.
    torn: RefCell<BTreeSet<i128>>,
    /// What was planned: by which writer, of which key, and what it makes of what.
    planned: RefCell<Vec<(usize, usize, Value, Value)>>,
    /// Who asks.
    asking: Arc<AtomicUsize>,
    fails: Cell<bool>,
}

fn key_index(key: &str) -> usize {
    KEYS.iter()
        .position(|other| *other == key)
        .expect("a key of the model")
}

/// Whether there can be no value with the name of the first while there is one with that of the second.
fn excludes(a: usize, b: usize) -> bool {
    matches!((a, b), (0, 1) | (1, 0))
}

fn version(nanos: i128) -> Version {
    Version::from_nanos(nanos)
}

fn meta(value: Value) -> Option<Meta> {
    value.map(|nanos| Meta {
        len: 1,
        version: version(nanos),
    })
}

fn nanos(meta: Option<Meta>) -> Value {
    meta.map(|meta| meta.version.nanos())
}

impl World {
    fn new(first: State, planted: Planted) -> Self {
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

    fn next_version(&self) -> i128 {
        self.now.set(self.now.get() + 10);
        self.now.get()
    }

    fn set(&self, key: usize, value: Value) {
        self.names.borrow_mut()[key] = value;
        self.durable.borrow_mut()[key].push(value);
    }

    /// All that there is comes to the disk.
    fn settle(&self) {
        let names = *self.names.borrow();
        *self.durable.borrow_mut() = names.map(|value| vec![value]);
        self.torn.borrow_mut().clear();
    }

    fn is_occupied(&self, key: usize) -> bool {
        let names = self.names.borrow();
        (0..KEYS.len()).any(|other| excludes(key, other) && names[other].is_some())
    }
}

impl Files for World {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn see(&self, pending: &Pending, key: &Key<'_>) -> Seen {
        if self.planted.no_pending {
            return Seen::Nothing;
        }
        pending.see(key)
    }

    fn find(&self, change: &Change) -> Result<Option<Meta>, Error> {
        let key = key_index(change.key.as_str());
        if change.value.is_some() && self.is_occupied(key) {
            return Err(Error::Occupied(String::new()));
        }
        Ok(meta(self.names.borrow()[key]))
    }

    fn result(&self, change: &mut Change, base: Option<Meta>) -> Result<Option<Meta>, Error> {
        let result = change.value.as_ref().map(|_| self.next_version());
        let key = key_index(change.key.as_str());
        let planned = (self.asking.load(Relaxed), key, nanos(base), result);
        self.planned.borrow_mut().push(planned);
        Ok(meta(result))
    }

    fn small<'c>(&self, change: &'c Change) -> Option<(&'c Attributes, &'c [Bytes])> {
        let value = change.value.as_ref().filter(|value| value.len() != LARGE);
        value.and_then(NewValue::in_memory)
    }

    fn stage(&self, _: &mut Change, _: Plan) -> Result<(), Error> {
        Ok(())
    }

    fn make(&self, change: Change, plan: Plan) -> Applied {
        let key = key_index(change.key.as_str());
        if self.fails.take() {
            return Applied::Made(change.refuse(Error::new("link", Errno::IO)));
        }
        if change.value.is_some() && self.is_occupied(key) {
            return Applied::Made(change.refuse(Error::Occupied(String::new())));
        }
        if self.names.borrow()[key] != nanos(plan.base) {
            return Applied::Moved(change);
        }
        let result = nanos(plan.result);
        self.set(key, result);
        if result.is_some() && self.small(&change).is_none() {
            // Its bytes were synced before, and its name is, with all names of the folder, before it is answered.
            let mut durable = self.durable.borrow_mut();
            durable[key] = vec![result];
            for other in (0..KEYS.len()).filter(|other| excludes(key, *other)) {
                durable[other] = vec![None];
            }
        } else {
            self.torn.borrow_mut().extend(result);
        }
        Applied::Made(Made {
            key: Some(change.key),
            told: Told::Nothing,
            outcome: Ok(plan.result.or(plan.base).map(|meta| meta.version)),
            folders: Vec::new(),
            reply_to: change.reply_to,
        })
    }
}

/// The log: frames, of which the first are synced.
#[derive(Default)]
struct Frames {
    all: Vec<Bytes>,
    synced: usize,
    next: u64,
    /// Sequence numbers before this one are settled, and up to which are made.
    settled: u64,
    made: u64,
    failed: bool,
    /// When what is appended next was decided.
    time: i64,
    planted: Planted,
}

fn head(frame: &[u8]) -> Head {
    Head::parse(frame).expect("a frame")
}

impl Frames {
    fn synced_before(&self) -> u64 {
        self.all[..self.synced]
            .last()
            .map_or(1, |frame| head(frame).end())
    }

    fn fail(&mut self) {
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

    fn is_synced(&self, end: u64) -> bool {
        self.planted.early || end <= self.synced_before()
    }

    async fn wait(&mut self) -> Result<(), Error> {
        self.poll().unwrap_or(Ok(()))
    }

    fn poll(&mut self) -> Option<Result<(), Error>> {
        let failed = std::mem::take(&mut self.failed);
        failed.then(|| Err(Error::new("sync the journal", Errno::IO)))
    }

    fn publish(&mut self, end: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        make();
        if let Some(end) = end {
            self.made = end;
        }
    }
}

/// A change that was asked for, and what its writer has heard.
struct Writer {
    ask: Ask,
    reply: Option<batch_reply::Receiver<Outcome>>,
    outcome: Option<Outcome>,
}

impl Writer {
    /// Its answer, once.
    fn hear(&mut self) -> Option<&Outcome> {
        let reply = pin!(self.reply.as_mut()?);
        match reply.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return None,
            Poll::Ready(outcome) => self.outcome = outcome,
        }
        self.reply = None;
        self.outcome.as_ref()
    }

    /// Whether its change was made or not is not known.
    fn is_unknown(&self) -> bool {
        match &self.outcome {
            None | Some(Err(Error::Failed { .. })) => true,
            Some(_) => false,
        }
    }
}

/// One case: what is played, and what each key may stand for after a cut of power, but for what is not answered.
struct Case<'a> {
    first: State,
    asks: std::slice::Iter<'a, Ask>,
    world: &'a World,
    writers: Vec<Writer>,
    may_be: [BTreeSet<Value>; KEYS.len()],
}

/// Plays one case; what went wrong.
fn play(first: State, asks: &[Ask], steps: &[Step], planted: Planted) -> Result<(), String> {
    let world = World::new(first, planted);
    let mut log = Frames {
        planted,
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::after(version(0))));
    let mut pipeline = Pipeline::new(&world, &mut log, &acknowledger);
    let mut case = Case {
        first,
        asks: asks.iter(),
        world: &world,
        writers: Vec::new(),
        may_be: first.map(|value| BTreeSet::from([value])),
    };
    // In the end all syncs go well.
    for step in steps.iter().chain([&Step::Sync; 6]) {
        case.step(&mut pipeline, *step);
        case.cut(pipeline.log())
            .map_err(|why| format!("{why}\nafter {step:?}"))?;
    }
    match case.writers.iter().find(|writer| writer.reply.is_some()) {
        Some(writer) => Err(format!("{:?} is not answered", writer.ask)),
        None => Ok(()),
    }
}

impl Case<'_> {
    fn step(&mut self, pipeline: &mut Pipeline<'_, World, Frames>, step: Step) {
        let asked = match step {
            Step::Ask(count) => self.ask(count),
            _ => Vec::new(),
        };
        match step {
            Step::FailCall => self.world.fails.set(true),
            Step::Hand(key) if !self.world.is_occupied(key) => {
                let value = Some(self.world.next_version());
                self.world.set(key, value);
                // Its name is on the disk, or not.
                self.may_be[key].insert(value);
            }
            // What a hand makes and removes while a change of that key is on its way is not told from what it makes later.
            Step::Remove(key) if self.writers.iter().all(|w| w.reply.is_none()) => {
                self.world.set(key, None);
                // What a hand removes may come back; where it is a large value, the one before it.
                let planned = self.world.planned.borrow();
                let of_key = planned.iter().filter(|(_, of, ..)| *of == key);
                self.may_be[key].extend(of_key.map(|(.., result)| *result));
                self.may_be[key].insert(None);
            }
            _ => {}
        }
        let world = self.world;
        let now = time(world.now.get());
        pipeline.play(asked, |log| {
            log.time = now;
            match step {
                Step::Sync => log.synced = log.all.len(),
                Step::FailSync => log.fail(),
                Step::Checkpoint => {
                    log.settled = log.made;
                    world.settle();
                }
                _ => {}
            }
        });
        for writer in &mut self.writers {
            let ask = writer.ask;
            if let Some(Ok(version)) = writer.hear()
                && (ask.is_put || version.is_some())
            {
                let made = version.filter(|_| ask.is_put).map(Version::nanos);
                self.may_be[ask.key] = BTreeSet::from([made]);
            }
        }
    }

    fn ask(&mut self, count: usize) -> Vec<Change> {
        let asks: Vec<_> = self.asks.by_ref().take(count).copied().collect();
        asks.into_iter().map(|ask| self.change(ask)).collect()
    }

    fn change(&mut self, ask: Ask) -> Change {
        let (reply_to, reply) = batch_reply::channel();
        let (writer, asking) = (self.writers.len(), Arc::clone(&self.world.asking));
        self.writers.push(Writer {
            ask,
            reply: Some(reply),
            outcome: None,
        });
        let first = self.first[ask.key];
        let len = if ask.is_large { LARGE } else { 1 };
        Change {
            key: Key::new(KEYS[ask.key]).expect("a key").to_owned(),
            value: ask.is_put.then(|| NewValue::of_length(len)),
            condition: Some(Box::new(move |current| {
                asking.store(writer, Relaxed);
                match ask.condition {
                    Condition::None => true,
                    Condition::First => nanos(current) == first,
                    Condition::Absent => current.is_none(),
                }
            })),
            tries: 0,
            was_logged: false,
            reply_to,
        }
    }

    /// Cuts the power in every way, and looks at what replays leave.
    fn cut(&self, log: &Frames) -> Result<(), String> {
        let may_be = self.may_be();
        let durable = self.world.durable.borrow();
        let torn = self.world.torn.borrow();
        for whole in log.synced..=log.all.len() {
            let replay = Replay {
                frames: &log.all[..whole],
                settled: log.settled,
                planted: self.world.planted,
            };
            for names in disks(&durable) {
                let disk = Disk {
                    names,
                    torn: torn.clone(),
                };
                // A replay may be cut off, and is begun again.
                for made in [usize::MAX, 0, 1] {
                    let left = replay.run(replay.run(disk.clone(), made), usize::MAX);
                    left.check(&may_be).map_err(|why| {
                        let frames = log.all.len();
                        format!("{why}: the disk had {names:?}, {whole} of {frames} frames, the replay was cut off after {made}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What each key may stand for, with what unanswered changes may make of it.
    fn may_be(&self) -> [BTreeSet<Value>; KEYS.len()] {
        let mut may_be = self.may_be.clone();
        let planned = self.world.planned.borrow();
        loop {
            let mut is_more = false;
            for &(writer, key, base, result) in planned.iter() {
                if self.writers[writer].is_unknown() && may_be[key].contains(&base) {
                    is_more |= may_be[key].insert(result);
                }
            }
            if !is_more {
                return may_be;
            }
        }
    }
}

/// What a disk has.
#[derive(Clone)]
struct Disk {
    names: State,
    torn: BTreeSet<i128>,
}

impl Disk {
    /// Whether each key stands for what it may, whole.
    fn check(&self, may_be: &[BTreeSet<Value>; KEYS.len()]) -> Result<(), String> {
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
fn disks(durable: &[Vec<Value>; KEYS.len()]) -> BTreeSet<State> {
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
struct Replay<'a> {
    frames: &'a [Bytes],
    settled: u64,
    planted: Planted,
}

impl Replay<'_> {
    fn each(&self, mut show: impl FnMut(&Record, u64)) {
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
    fn run(&self, mut disk: Disk, most: usize) -> Disk {
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
    fn is_highest(&self, change: &journal::Change) -> bool {
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

fn time(version: i128) -> i64 {
    i64::try_from(version).expect("a time")
}

/// All that a writer may ask of `k` and the key below it.
fn menu() -> Vec<Ask> {
    let ask = |key, is_put, is_large, condition| Ask {
        key,
        is_put,
        is_large,
        condition,
    };
    let (none, first, absent) = (Condition::None, Condition::First, Condition::Absent);
    vec![
        ask(0, true, false, none),
        ask(0, true, false, first),
        ask(0, true, false, absent),
        ask(0, true, true, none),
        ask(0, true, true, first),
        ask(0, false, false, none),
        ask(0, false, false, first),
        ask(1, true, false, none),
        ask(1, false, false, none),
    ]
}

/// Orders of asking and syncing for so many writers: together, or with a sync between, or a step more after the first frame.
fn schedules(writers: usize) -> Vec<Vec<Step>> {
    let mut schedules = vec![
        vec![Step::Ask(writers)],
        vec![Step::Ask(writers), Step::FailSync],
        vec![Step::Ask(writers), Step::FailCall, Step::Sync],
    ];
    for gaps in 0..1_u32 << (writers - 1) {
        for more in [
            None,
            Some(Step::Checkpoint),
            Some(Step::FailSync),
            Some(Step::FailCall),
            Some(Step::Hand(0)),
            Some(Step::Remove(0)),
        ] {
            let mut steps = Vec::new();
            for writer in 0..writers {
                steps.push(Step::Ask(1));
                if gaps >> writer & 1 == 1 {
                    steps.push(Step::Sync);
                }
                if writer == 0 {
                    steps.extend(more);
                }
            }
            schedules.push(steps);
        }
    }
    schedules
}

const FIRSTS: [State; 3] = [
    [Some(1), None, None],
    [None, None, None],
    [None, Some(2), None],
];

/// All cases of so many writers, by all schedules; the first that goes wrong.
fn exhaust(writers: u32, planted: Planted) -> (u64, Option<String>) {
    let (menu, schedules) = (menu(), schedules(writers as usize));
    let mut cases = 0;
    for case in 0..menu.len().pow(writers) {
        let asks: Vec<_> = (0..writers)
            .map(|i| menu[case / menu.len().pow(i) % menu.len()])
            .collect();
        for first in FIRSTS {
            for steps in &schedules {
                cases += 1;
                if let Err(why) = play(first, &asks, steps, planted) {
                    return (cases, Some(format!("{first:?} {asks:?} {steps:?}: {why}")));
                }
            }
        }
    }
    (cases, None)
}

#[test]
fn every_order_of_three_writers_keeps_what_was_acknowledged() {
    let (cases, wrong) = exhaust(3, Planted::default());
    eprintln!("{cases} cases");
    assert_eq!(wrong, None);
}

#[test]
fn each_planted_fault_is_found() {
    for (name, planted) in [
        (
            "no table of what is decided",
            Planted {
                no_pending: true,
                ..Planted::default()
            },
        ),
        (
            "the highest version counts",
            Planted {
                by_version: true,
                ..Planted::default()
            },
        ),
        (
            "what failed stays in the log",
            Planted {
                no_cancel: true,
                ..Planted::default()
            },
        ),
        (
            "answers before the sync",
            Planted {
                early: true,
                ..Planted::default()
            },
        ),
    ] {
        let (cases, wrong) = exhaust(3, planted);
        eprintln!(
            "{name}, found in case {cases}: {}",
            wrong.as_deref().unwrap_or("nothing")
        );
        assert!(wrong.is_some(), "{name}");
    }
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let condition = prop_oneof![
        Just(Condition::None),
        Just(Condition::First),
        Just(Condition::Absent)
    ];
    (0..KEYS.len(), any::<bool>(), any::<bool>(), condition).prop_map(
        |(key, is_put, is_large, condition)| Ask {
            key,
            is_put,
            is_large,
            condition,
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..4).prop_map(Step::Ask),
        3 => Just(Step::Sync),
        1 => Just(Step::FailSync),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::FailCall),
        1 => (0..KEYS.len()).prop_map(Step::Hand),
        1 => (0..KEYS.len()).prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn any_order_of_any_writers_keeps_what_was_acknowledged(
        first in 0..FIRSTS.len(),
        asks in proptest::collection::vec(any_ask(), 1..8),
        steps in proptest::collection::vec(any_step(), 1..12),
    ) {
        prop_assert_eq!(play(FIRSTS[first], &asks, &steps, Planted::default()), Ok(()));
    }
}
