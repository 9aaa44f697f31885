//! A model of a bound and of a disk that is full, beside the pipeline with a log and without one. Each call that makes
//! room may fail or gain nothing: the removal of a value fails, for once or for ever, or it gives no space, or the
//! value was used meanwhile; names are taken; the bound, the floor of the disk or the kernel lacks room; syncs fail.
//! Blocks are not lengths.
//!
//! Each writer must be answered. The bound is never exceeded, no writer is refused for room while a value could go,
//! and a change that is refused for another reason has evicted nothing.

mod world;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::super::super::batch_reply;
use super::super::super::changes::Changes;
use super::super::super::new_value::NewValue;
use super::super::acknowledge::Acknowledger;
use super::super::change::{Change, ChangeRequest, PublishResult};
use super::super::pipeline::Pipeline;
use super::run_once;
use super::world::Frames;
use crate::value::{Error, Key};
use world::{Ask, FATES, Fate, Full, MENU, Planted, World};

/// How a case goes on after all have asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask(usize),
    Sync,
    FailSync,
}

/// Plays one case: what went wrong.
fn play(world: &World, asks: &[Ask], steps: &[Step], has_log: bool) -> Result<(), String> {
    let mut log = Frames {
        is_off: !has_log,
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::starting_at(0)));
    let mut pipeline = Pipeline::new(world, &mut log, &acknowledger);
    // Also what one writer stores may go for another.
    let values = world.files.borrow().len() + asks.len();
    let (mut replies, mut asks) = (Vec::new(), asks.iter());
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
            ChangeRequest::new(key.expect("a key"), kind, Some(condition), Some(reply_to))
        });
        let mut asked = asked.collect::<Vec<_>>().into_iter();
        for round in 0.. {
            run_once(&mut pipeline, || asked.next());
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
