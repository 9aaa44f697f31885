//! A model of a directory and its disk beside the pipeline: the pipeline, the frames and the history that the server
//! uses, on files and a log that are played here.
//!
//! Up to four writers change a key, a key below it and two more of the kind by any means, and move the folder of the
//! first to that of the other, while syncs end or fail, checkpoints settle, calls fail and a hand writes. After each
//! step the power is cut: each name may be as at any moment since it was last synced, bytes that were not synced may be
//! torn, of the frames that were not synced any number may be whole. A replay, cut off anywhere and begun again, must
//! then leave each key as an order of the writers' changes explains it that has all acknowledged ones.

mod asks;
mod cuts;
mod room;
mod world;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::batch_reply;
use super::super::changes::Changes;
use super::super::new_value::NewValue;
use super::acknowledge::Acknowledger;
use super::change::{Change, ChangeRequest, FolderChange, PublishResult};
use super::decide::Files;
use super::pipeline::Pipeline;
use crate::value::{Error, Key};
use asks::{Ask, Condition, MOVE, Step, any_ask, any_step, menu, menu_of_moves, schedules};
use cuts::{Disk, Replay, disks};
use world::{Frames, KEYS, MOVED, Planted, State, Value, World, nanos, time};

/// Has the pipeline take what `next` gives, as `Pipeline::run` does. Time does not pass here: each move of a folder has
/// its place in the queue.
fn run_once<F: Files>(
    pipeline: &mut Pipeline<'_, F, Frames<'_>>,
    next: impl FnMut() -> Option<ChangeRequest>,
) {
    pipeline.next_move = Instant::now();
    let mut batch = pin!(pipeline.run_batch(next));
    let mut context = Context::from_waker(Waker::noop());
    let is_over = (0..9).any(|_| batch.as_mut().poll(&mut context).is_ready());
    assert!(is_over, "the model's log is not waited for so long");
}

/// A change that was asked for, and what its writer has heard.
struct Writer {
    ask: Ask,
    reply: Option<batch_reply::ReplyReceiver<PublishResult>>,
    outcome: Option<PublishResult>,
}

impl Writer {
    /// Takes its answer, if there is one.
    fn hear(&mut self) {
        let Some(reply) = &mut self.reply else { return };
        if let Poll::Ready(outcome) = pin!(reply).poll(&mut Context::from_waker(Waker::noop())) {
            self.outcome = outcome;
            self.reply = None;
        }
    }

    /// True while it is not known whether its change was made.
    fn is_unknown(&self) -> bool {
        match &self.outcome {
            None | Some(Err(Error::Failed { .. } | Error::Unsynced(_))) => true,
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
        world: Some(&world),
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::starting_at(0)));
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
        case.cut(pipeline.log)
            .map_err(|why| format!("{why}\nafter {step:?}"))?;
    }
    match case.writers.iter().find(|writer| writer.reply.is_some()) {
        Some(writer) => Err(format!("{:?} is not answered", writer.ask)),
        None => Ok(()),
    }
}

impl Case<'_> {
    fn step(&mut self, pipeline: &mut Pipeline<'_, World, Frames<'_>>, step: Step) {
        let log = &mut *pipeline.log;
        let mut asked = Vec::new();
        match step {
            Step::Ask(count) => asked.extend(self.asks.by_ref().take(count).copied()),
            Step::Sync => log.synced = log.all.len(),
            Step::FailSync => log.fail(),
            Step::FailWait => log.fails = true,
            Step::Checkpoint => {
                log.settled = log.made;
                self.world.settle();
            }
            Step::FailCall => self.world.fails.set(true),
            Step::Hand(key) if !self.world.is_occupied(key) => {
                let value = Some(self.world.next_version());
                self.world.set(key, value);
                // Its name is on the disk, or not.
                self.may_be[key].insert(value);
            }
            // A hand that makes and removes a file while a change of that key is in flight cannot be told from one that
            // comes later.
            Step::Remove(key) if self.writers.iter().all(|w| w.reply.is_none()) => {
                self.world.set(key, None);
                // A value that a hand removes may come back; where it is a large value, the one before it.
                let planned = self.world.planned.borrow();
                let of_key = planned.iter().filter(|(_, of, ..)| *of == key);
                self.may_be[key].extend(of_key.map(|(.., result)| *result));
                self.may_be[key].insert(None);
            }
            Step::Hand(_) | Step::Remove(_) => {}
        }
        pipeline.log.time = time(self.world.now.get());
        let asked: Vec<_> = asked.into_iter().map(|ask| self.change(ask)).collect();
        let mut asked = asked.into_iter();
        // As `Pipeline::run` does, as long as there is nothing to wait for but by a move.
        loop {
            run_once(pipeline, || asked.next());
            if !pipeline.is_left() {
                break;
            }
        }
        let waited: Vec<_> = self.writers.iter().map(|w| w.reply.is_some()).collect();
        // Twice, as the writer that is woken hands on the replies of the others.
        for _ in 0..2 {
            self.writers.iter_mut().for_each(Writer::hear);
        }
        for (writer, waited) in self.writers.iter().zip(waited) {
            let ask = writer.ask;
            if ask.is_move {
                if waited && let Some(Ok(_)) = writer.outcome {
                    self.world
                        .planned
                        .borrow_mut()
                        .retain(|&(writer, key, ..)| {
                            let is_over = self.writers[writer].reply.is_none();
                            !(is_over && [MOVED.0, MOVED.1].contains(&key))
                        });
                    let moved = self.world.moved.borrow_mut().pop_front();
                    self.may_be[MOVED.0] = BTreeSet::from([None]);
                    self.may_be[MOVED.1] = moved.into_iter().collect();
                }
            } else if waited
                && let Some(Ok(meta)) = writer.outcome
                && (ask.is_put || meta.is_some())
            {
                let made = meta.filter(|_| ask.is_put).map(|meta| meta.version.nanos());
                self.may_be[ask.key] = BTreeSet::from([made]);
            }
        }
    }

    fn change(&mut self, ask: Ask) -> ChangeRequest {
        let (reply_to, reply) = batch_reply::channel();
        let (writer, asking) = (self.writers.len(), Arc::clone(&self.world.asking));
        self.writers.push(Writer {
            ask,
            reply: Some(reply),
            outcome: None,
        });
        let first = self.first[ask.key];
        let key = |key: usize| Key::new(KEYS[key]).expect("a key").into_owned();
        let kind = if ask.is_move {
            Change::Folder(FolderChange::Move { from: key(0) })
        } else if ask.is_put {
            Change::Put(NewValue::without_bytes(ask.is_large))
        } else {
            Change::Remove(None)
        };
        let condition = move |current| {
            asking.store(writer, Relaxed);
            match ask.condition {
                Condition::None => true,
                Condition::First => nanos(current) == first,
                Condition::Absent => current.is_none(),
            }
        };
        ChangeRequest::new(
            key(ask.key),
            kind,
            Some(Box::new(condition)),
            Some(reply_to),
        )
    }

    /// Cuts the power in every way, and looks at what replays leave.
    fn cut(&self, log: &Frames<'_>) -> Result<(), String> {
        let may_be = self.may_be();
        let disks = disks(&self.world.durable.borrow());
        let torn = self.world.torn.borrow();
        for whole in log.synced..=log.all.len() {
            let replay = Replay::new(&log.all[..whole], log.settled, self.world.planted);
            for &names in &disks {
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

    /// The values that each key may have, those that unanswered changes may give it among them.
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

const FIRSTS: [State; 3] = [
    [Some(1), None, None, None],
    [None; 4],
    [None, Some(2), None, None],
];

/// All cases of so many writers, who ask for what is on the `menu`, by all schedules; the first that goes wrong.
fn exhaust(writers: u32, menu: &[Ask], planted: Planted) -> (u64, Option<String>) {
    let schedules = schedules(writers as usize, menu.contains(&MOVE));
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
    let (cases, wrong) = exhaust(3, &menu(), Planted::Nothing);
    eprintln!("{cases} cases");
    assert_eq!(wrong, None);
}

#[test]
fn every_order_with_a_folder_that_moves_keeps_what_was_acknowledged() {
    let (cases, wrong) = exhaust(3, &menu_of_moves(), Planted::Nothing);
    eprintln!("{cases} cases");
    assert_eq!(wrong, None);
}

#[test]
fn each_planted_fault_is_found() {
    for (menu, planted) in [
        (menu(), Planted::NoPending),
        (menu(), Planted::ByVersion),
        (menu(), Planted::NoCancel),
        (menu(), Planted::Early),
        (menu_of_moves(), Planted::NoSettle),
        (menu_of_moves(), Planted::NoName),
    ] {
        let (cases, wrong) = exhaust(3, &menu, planted);
        let why = wrong.as_deref().unwrap_or("nothing");
        eprintln!("{planted:?}, found in case {cases}: {why}");
        assert!(wrong.is_some(), "{planted:?}");
    }
}

/// One client that moves a folder to and fro does not stop all others.
#[test]
fn the_next_move_of_a_folder_waits_while_others_write() {
    let first = [None, Some(1), None, None];
    let world = World::new(first, Planted::Nothing);
    let mut log = Frames {
        world: Some(&world),
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::starting_at(0)));
    let mut pipeline = Pipeline::new(&world, &mut log, &acknowledger);
    let put = menu_of_moves()[2];
    let mut case = Case {
        first,
        asks: [].iter(),
        world: &world,
        writers: Vec::new(),
        may_be: Default::default(),
    };
    let mut play = |asks: &[Ask], wait| {
        let asked: Vec<_> = asks.iter().map(|ask| case.change(*ask)).collect();
        let mut asked = asked.into_iter();
        pipeline.next_move = Instant::now() + wait;
        for _ in 0..9 {
            pipeline.log.synced = pipeline.log.all.len();
            let mut batch = pin!(pipeline.run_batch(|| asked.next()));
            let mut context = Context::from_waker(Waker::noop());
            assert!((0..9).any(|_| batch.as_mut().poll(&mut context).is_ready()));
        }
        for _ in 0..2 {
            case.writers.iter_mut().for_each(Writer::hear);
        }
        let is_answered = |writer: &Writer| matches!(writer.outcome, Some(Ok(_)));
        case.writers.iter().map(is_answered).collect::<Vec<_>>()
    };
    let (hour, now) = (Duration::from_secs(3600), Duration::ZERO);
    assert_eq!(play(&[put, MOVE, put], hour), [true, false, true]);
    assert_eq!(play(&[put], hour), [true, false, true, true]);
    assert_eq!(play(&[], now), [true; 4]);
}

proptest! {
    #[test]
    fn any_order_of_any_writers_keeps_what_was_acknowledged(
        first in 0..FIRSTS.len(),
        asks in proptest::collection::vec(any_ask(), 1..8),
        steps in proptest::collection::vec(any_step(), 1..12),
    ) {
        prop_assert_eq!(play(FIRSTS[first], &asks, &steps, Planted::Nothing), Ok(()));
    }
}

impl NewValue {
    /// A value without bytes, which the journal is to hold unless it `is_large`.
    fn without_bytes(is_large: bool) -> Self {
        Self {
            len: 1,
            small: (!is_large).then(Vec::new),
            is_journaled: !is_large,
            ..Self::default()
        }
    }
}
