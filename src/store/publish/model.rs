//! A model of a directory and its disk beside the pipeline: the pipeline, the frames and the history that the server uses, on files and
//! a log that are played here.
//!
//! Up to four writers change a key, a key below it and a third by any means, while syncs end or fail, checkpoints settle, calls fail and a
//! hand writes. After each step the power is cut: each name may be as at any moment since it was last synced, bytes that were not synced may
//! be torn, of the frames that were not synced any number may be whole. A replay, cut off anywhere and begun again, must then leave
//! each key as an order of the writers' changes explains it that has all acknowledged ones.

mod case;
mod cut;
mod world;

use proptest::prelude::*;

use case::{Ask, Condition, Step, play};
use world::{KEYS, Planted, State};

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
