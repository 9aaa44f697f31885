//! A model of a bound and of a disk that is full, beside the pipeline with a log and without one. Each call that makes room may fail or gain
//! nothing: the removal of a value fails, for once or for ever, or it gives no space, or the value was used meanwhile; names are taken; the bound, the
//! floor of the disk or the kernel lacks room; syncs fail. Blocks are not lengths.
//!
//! Each writer must be answered. The bound is never exceeded, nobody is refused for room while a value could go, and who is refused for
//! another reason has evicted nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use proptest::prelude::*;
use rustix::io::Errno;

use super::super::super::batch_reply;
use super::super::super::bounds::{self, Account, Choice, Room, Total, Victim};
use super::super::super::changes::Changes;
use super::super::super::new_value::{NewValue, Source};
use super::super::acknowledge::Acknowledger;
use super::super::change::{Change, ChangeRequest, FolderChange, Plan, PublishResult};
use super::super::decide::{Files, MadeAtOnce, lacks_room, plan};
use super::super::pipeline::Pipeline;
use super::world::Frames;
use crate::store::space::Free;
use crate::value::{Error, Key, Meta, Version};

const BLOCK: u64 = 4096;

/// What comes of the removal of an old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    /// It fails: the value lies in a snapshot, or is a mount.
    Fails,
    /// It fails once.
    FailsOnce,
    /// It goes, and its blocks stay taken on the disk: they have another name.
    GainsNothing,
    /// It is used once, after the removal was decided.
    Used,
}

const FATES: [Fate; 5] = [
    Fate::Goes,
    Fate::Fails,
    Fate::FailsOnce,
    Fate::GainsNothing,
    Fate::Used,
];

/// Where room lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Bound,
    /// The disk, as it is known before a value is written.
    Floor,
    /// The disk, as a write tells.
    Kernel,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ask {
    key: &'static str,
    blocks: u64,
    allows: bool,
}

const MENU: [Ask; 5] = [
    Ask {
        key: "a",
        blocks: 1,
        allows: true,
    },
    Ask {
        key: "b",
        blocks: 2,
        allows: true,
    },
    Ask {
        key: "c",
        blocks: 5,
        allows: true,
    },
    // It is a folder.
    Ask {
        key: "d",
        blocks: 2,
        allows: true,
    },
    Ask {
        key: "e",
        blocks: 2,
        allows: false,
    },
];

/// How a case goes on after all have asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask(usize),
    Sync,
    FailSync,
}

/// A fault of [`World`], to see it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A value whose removal failed is chosen again.
    NotStuck,
    /// Values are removed for a change before it is known that nothing else refuses it.
    RoomFirst,
    /// After the first removals no more are made for the change.
    GivesUp,
}

/// The kernel's view of the files, and the account and the room of them.
struct World {
    full: Full,
    planted: Planted,
    /// Blocks, by key.
    files: RefCell<BTreeMap<String, u64>>,
    room: Room,
    /// Blocks that are free on the disk, and that the bound has.
    free: Cell<u64>,
    max: u64,
    fates: RefCell<BTreeMap<String, (Fate, Arc<AtomicUsize>)>>,
    /// How many values each key had removed, and whether none could be at last.
    evicted: RefCell<BTreeMap<String, (usize, bool)>>,
    blocks: BTreeMap<&'static str, u64>,
}

fn lack() -> Error {
    Error::NoSpace("full".into())
}

impl World {
    /// Full of one value for each of the `fates`, each second of them of three blocks.
    fn new(full: Full, fates: &[Fate], planted: Planted) -> Self {
        let name = |n: usize| format!("old{n:05}");
        let old = (0..fates.len()).map(|n| (name(n), 1 + n as u64 % 2 * 2));
        let old: BTreeMap<_, _> = old.collect();
        let fates = (0..).zip(fates);
        let fates = fates.map(|(n, fate)| (name(n), (*fate, Arc::default())));
        let is_bound = full == Full::Bound;
        let blocks: u64 = old.values().sum();
        let max = if is_bound { blocks } else { 1 << 20 };
        let account = Account::of_blocks(max);
        for (key, blocks) in &old {
            account.place(key, Some(blocks * BLOCK));
        }
        Self {
            full,
            planted,
            room: Room::new(account),
            free: Cell::new(if is_bound { 1 << 20 } else { 0 }),
            max,
            files: RefCell::new(old),
            fates: RefCell::new(fates.collect()),
            evicted: RefCell::default(),
            blocks: MENU.iter().map(|ask| (ask.key, ask.blocks)).collect(),
        }
    }

    fn blocks(&self, key: &Key<'_>) -> u64 {
        self.blocks.get(key.as_str()).copied().unwrap_or(1)
    }

    /// What comes of the removal of `key`; what a writer has stored goes.
    fn fate(&self, key: &str) -> (Fate, Arc<AtomicUsize>) {
        let fate = self.fates.borrow().get(key).cloned();
        fate.unwrap_or((Fate::Goes, Arc::default()))
    }

    fn free(&self) -> Free {
        Free {
            bytes: self.free.get() * BLOCK,
            ..Free::default()
        }
    }

    /// Admits the value of `change`, where it has room.
    fn admit(&self, change: &mut ChangeRequest) -> Result<(), Error> {
        let mut room = change.room.take();
        let ask = self.ask(&change.key);
        let admitted = self.room.account.admit(&mut room, &ask);
        change.room = room;
        admitted?;
        let is_full = self.full == Full::Floor && self.blocks(&change.key) > self.free.get();
        if is_full { Err(lack()) } else { Ok(()) }
    }

    fn ask<'a>(&self, key: &'a Key<'_>) -> bounds::Ask<'a> {
        bounds::Ask {
            key: key.as_str(),
            bytes: self.blocks(key) * BLOCK,
            source: None,
            staged: 0,
        }
    }

    /// Who goes for `change`.
    fn choose(&self, change: &ChangeRequest) -> Choice {
        let held = change.room.as_ref();
        let ask = self.ask(&change.key);
        let in_bounds = held.and_then(|held| self.room.for_change(held, &ask));
        in_bounds.unwrap_or_else(|| {
            let lacks = self
                .blocks(&change.key)
                .saturating_sub(self.free.get())
                .max(1);
            let lacks = Total {
                bytes: lacks * BLOCK,
                keys: 0,
            };
            self.room
                .for_disk(Some(self.free()), lacks, &[change.key.as_str()])
        })
    }
}

impl Files for World {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error> {
        if self.planted == Planted::RoomFirst
            && change.value().is_some()
            && self.blocks(&change.key) > self.free.get()
        {
            return Err(lack());
        }
        if change.key.as_str() == "d" {
            return Err(Error::Occupied(String::new()));
        }
        let is_there = self.files.borrow().contains_key(change.key.as_str());
        Ok(is_there.then(|| Meta::new(1, Version::from_nanos(1))))
    }

    fn find_source(&self, _: &Source, _: &Key<'_>) -> Result<Option<Meta>, Error> {
        Ok(None)
    }

    fn result(&self, change: &mut ChangeRequest, _: Option<Meta>) -> Result<Option<Meta>, Error> {
        if change.value().is_none() {
            return Ok(None);
        }
        self.admit(change)?;
        Ok(Some(Meta::new(1, Version::from_nanos(1))))
    }

    fn change_folder(&self, _: &Key<'_>, _: &FolderChange) -> Result<(), Error> {
        Ok(())
    }

    fn stage(&self, change: &mut ChangeRequest, _: Plan) -> Result<(), Error> {
        if change.value().is_some() && self.blocks(&change.key) > self.free.get() {
            return Err(Error::new("write", Errno::NOSPC));
        }
        Ok(())
    }

    fn make(&self, change: &mut ChangeRequest, _: Plan) -> Result<bool, Error> {
        let key = change.key.as_str().to_owned();
        let blocks = self.blocks(&change.key);
        if change.value().is_some() {
            self.free
                .set(self.free.get().checked_sub(blocks).ok_or_else(lack)?);
            let before = self.files.borrow_mut().insert(key, blocks);
            self.free.set(self.free.get() + before.unwrap_or(0));
            self.room
                .account
                .place(change.key.as_str(), Some(blocks * BLOCK));
            return Ok(true);
        }
        match self.fate(&key).0 {
            Fate::FailsOnce => {}
            Fate::Fails => return Err(Error::ReadOnly),
            fate => {
                let went = self.files.borrow_mut().remove(&key).expect("a value");
                let is_free = fate != Fate::GainsNothing;
                self.free
                    .set(self.free.get() + if is_free { went } else { 0 });
                self.room.account.place(&key, None);
                return Ok(true);
            }
        }
        self.fates.borrow_mut().get_mut(&key).expect("it").0 = Fate::Goes;
        Err(Error::Exhausted("memory"))
    }

    fn make_at_once(
        &self,
        change: &mut ChangeRequest,
        make_room: &mut dyn FnMut(&ChangeRequest) -> bool,
    ) -> MadeAtOnce {
        let current = self.find(change)?;
        let mut planned = plan(self, change, current);
        if planned.as_ref().is_err_and(lacks_room) && make_room(change) {
            planned = plan(self, change, current);
        }
        let made = |plan| {
            let made = self
                .stage(change, plan)
                .and_then(|()| self.make(change, plan));
            (plan, made)
        };
        Ok(planned?.map(made))
    }

    fn evictions(&self, change: &ChangeRequest) -> Option<Vec<ChangeRequest>> {
        let mut evicted = self.evicted.borrow_mut();
        let (count, none_left) = evicted.entry(change.key.as_str().to_owned()).or_default();
        if self.planted == Planted::GivesUp && *count > 0 {
            return None;
        }
        let victims = match self.choose(change) {
            Choice::Evict(victims) => victims,
            Choice::Wait => Vec::new(),
            Choice::Nobody => {
                *none_left = true;
                return None;
            }
        };
        *count += victims.len();
        let evict = |victim: Victim| {
            let (fate, asked) = self.fate(victim.key.as_str());
            let (account, key) = (Arc::clone(&self.room.account), victim.key.clone());
            let mut eviction = ChangeRequest::eviction(victim);
            let allows = eviction.condition.take().expect("a condition");
            eviction.condition = Some(Box::new(move |current| {
                if fate == Fate::Used && asked.fetch_add(1, Relaxed) == 1 {
                    account.use_again(key.as_str());
                }
                allows(current)
            }));
            eviction
        };
        Some(victims.into_iter().map(evict).collect())
    }

    fn evicted(&self) {
        self.room.gone(|| Some(self.free()));
    }

    fn withdraw(&self, change: &mut ChangeRequest, error: Option<&Error>) {
        change.room = None;
        let is_stuck = error.is_some_and(|error| !matches!(error, Error::Precondition));
        if change.removal().is_some() && is_stuck && self.planted != Planted::NotStuck {
            self.room.account.set_stuck(change.key.as_str(), true);
        }
    }
}

/// Plays one case: what went wrong.
fn play(world: &World, asks: &[Ask], steps: &[Step], has_log: bool) -> Result<(), String> {
    let mut log = Frames {
        is_off: !has_log,
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::starting_at(0)));
    let mut pipeline = Pipeline::new(world, &mut log, &acknowledger);
    let (mut replies, mut asks) = (Vec::new(), asks.iter());
    let values = world.files.borrow().len();
    let ends = std::iter::repeat_n(&Step::Sync, 3 * values + 6);
    for step in steps.iter().chain(ends) {
        let mut asked = Vec::new();
        match step {
            Step::Ask(count) => asked.extend(asks.by_ref().take(*count)),
            Step::Sync => pipeline.log.synced = pipeline.log.all.len(),
            Step::FailSync => pipeline.log.fail(),
        }
        let asked = asked.into_iter().map(|ask: &Ask| {
            let (reply_to, reply) = batch_reply::channel();
            replies.push((ask, Some(reply), None));
            let (key, kind) = (
                Key::new(ask.key),
                Change::Put(NewValue::without_bytes(false)),
            );
            let allows = ask.allows;
            let condition = Box::new(move |_| allows);
            ChangeRequest::new(key.expect("a key"), kind, Some(condition), reply_to)
        });
        let mut asked = asked.collect::<Vec<_>>().into_iter();
        for round in 0.. {
            pipeline.next_move = Instant::now();
            let is_over = {
                let mut batch = pin!(pipeline.run_batch(|| asked.next()));
                let mut context = Context::from_waker(Waker::noop());
                (0..9).any(|_| batch.as_mut().poll(&mut context).is_ready())
            };
            assert!(is_over, "the model's log is not waited for so long");
            let counted: u64 = world.files.borrow().values().sum();
            if counted > world.max {
                return Err(format!("the bound is exceeded: {counted}"));
            }
            if !pipeline.is_left() {
                break;
            }
            if round > 4 * values + 16 {
                return Err("it goes on for ever".to_owned());
            }
        }
        for _ in 0..2 {
            for (_, reply, outcome) in &mut replies {
                let Some(waiting) = reply else { continue };
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(told) = pin!(waiting).poll(&mut context) {
                    (*reply, *outcome) = (None, told);
                }
            }
        }
    }
    for (key, (fate, asked)) in world.fates.borrow().iter() {
        // The last that was asked is the use of it.
        let was_used = *fate == Fate::Used && asked.load(Relaxed) == 2;
        if was_used && !world.files.borrow().contains_key(key) {
            return Err(format!("{key} was used, and is gone"));
        }
    }
    replies
        .iter()
        .try_for_each(|(ask, _, outcome)| check(world, ask, outcome.as_ref()))
}

/// Whether this may be the answer of a writer who asked for it.
fn check(world: &World, ask: &Ask, outcome: Option<&PublishResult>) -> Result<(), String> {
    let evicted = world.evicted.borrow();
    let (count, none_left) = evicted.get(ask.key).copied().unwrap_or_default();
    let is_right = match outcome {
        None => false,
        Some(Ok(_)) => ask.key != "d" && ask.allows,
        Some(Err(Error::NoSpace(_))) => none_left && ask.key != "d" && ask.allows,
        Some(Err(Error::Precondition)) => !ask.allows && count == 0,
        Some(Err(Error::Occupied(_))) => ask.key == "d" && count == 0,
        // A sync has failed.
        Some(Err(_)) => true,
    };
    let what =
        || format!("{ask:?} is answered {outcome:?}, {count} evicted, none left: {none_left}");
    is_right.then_some(()).ok_or_else(what)
}

/// All cases of three old values and two writers; the first that goes wrong.
fn exhaust(planted: Planted) -> (u64, Option<String>) {
    let schedules: [&[Step]; 4] = [
        &[Step::Ask(2)],
        &[Step::Ask(1), Step::Ask(1), Step::Sync],
        &[Step::Ask(1), Step::Sync, Step::Ask(1)],
        &[Step::Ask(2), Step::FailSync],
    ];
    let mut cases = 0;
    for full in [Full::Bound, Full::Floor, Full::Kernel] {
        for (has_log, steps) in [
            (true, 0),
            (true, 1),
            (true, 2),
            (true, 3),
            (false, 0),
            (false, 2),
        ] {
            for case in 0..FATES.len().pow(3) * MENU.len().pow(2) {
                let fate = |n: u32| FATES[case / FATES.len().pow(n) % FATES.len()];
                let fates = [fate(0), fate(1), fate(2)];
                let ask = |n: u32| MENU[case / FATES.len().pow(3) / MENU.len().pow(n) % MENU.len()];
                let asks = [ask(0), ask(1)];
                cases += 1;
                let world = World::new(full, &fates, planted);
                if let Err(why) = play(&world, &asks, schedules[steps], has_log) {
                    let case = format!(
                        "{full:?} {fates:?} {asks:?} {:?} log: {has_log}",
                        schedules[steps]
                    );
                    return (cases, Some(format!("{case}: {why}")));
                }
            }
        }
    }
    (cases, None)
}

#[test]
fn whoever_lacks_room_gets_what_can_be_made_and_others_cost_nothing() {
    let (cases, wrong) = exhaust(Planted::Nothing);
    eprintln!("{cases} cases");
    assert_eq!(wrong, None);
}

#[test]
fn each_planted_fault_of_room_is_found() {
    for planted in [Planted::NotStuck, Planted::RoomFirst, Planted::GivesUp] {
        let (cases, wrong) = exhaust(planted);
        let why = wrong.as_deref().unwrap_or("nothing");
        eprintln!("{planted:?}, found in case {cases}: {why}");
        assert!(wrong.is_some(), "{planted:?}");
    }
}

/// No count ends it: each value alone is small.
#[test]
fn a_value_is_stored_that_takes_the_room_of_thousands() {
    for has_log in [true, false] {
        let mut world = World::new(Full::Bound, &[Fate::Goes; 2500], Planted::Nothing);
        world.blocks.insert("a", 5000);
        let outcome = play(&world, &MENU[..1], &[Step::Ask(1)], has_log);
        assert_eq!(outcome, Ok(()));
        let files = world.files.borrow();
        assert_eq!(files.iter().collect::<Vec<_>>(), [(&"a".to_owned(), &5000)]);
    }
}

proptest! {
    #[test]
    fn any_writers_at_once_get_what_can_be_made(
        full in prop_oneof![Just(Full::Bound), Just(Full::Floor), Just(Full::Kernel)],
        fates in proptest::collection::vec(proptest::sample::select(&FATES[..]), 0..9),
        asks in proptest::collection::vec(proptest::sample::select(&MENU[..]), 1..7),
        steps in proptest::collection::vec(prop_oneof![
            4 => (1_usize..4).prop_map(Step::Ask), 3 => Just(Step::Sync), 1 => Just(Step::FailSync)
        ], 1..9),
        has_log: bool,
    ) {
        let world = World::new(full, &fates, Planted::Nothing);
        prop_assert_eq!(play(&world, &asks, &steps, has_log), Ok(()));
    }
}
