//! What cases of the model are made of: what writers ask for, and the order in which it is asked, synced and disturbed.

use proptest::prelude::*;

use super::world::{KEYS, MOVED};

/// The change that a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub key: usize,
    pub is_put: bool,
    pub is_large: bool,
    pub condition: Condition,
    /// It is a move of the folder to the name of this key instead.
    pub is_move: bool,
}

/// The folder of the one name moves to the other.
pub(super) const MOVE: Ask = Ask {
    key: 2,
    is_put: true,
    is_large: false,
    condition: Condition::None,
    is_move: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    /// `If-Match` of what was there at the beginning.
    First,
    /// `If-None-Match: *`.
    Absent,
}

/// The next event of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many writers ask, and are appended together.
    Ask(usize),
    Sync,
    FailSync,
    /// The next sync that a move waits for fails.
    FailWait,
    Checkpoint,
    /// The next call that makes a change fails.
    FailCall,
    /// A hand writes this key.
    Hand(usize),
    /// A hand removes it.
    Remove(usize),
}

fn ask(key: usize, is_put: bool, is_large: bool, condition: Condition) -> Ask {
    Ask {
        key,
        is_put,
        is_large,
        condition,
        is_move: false,
    }
}

/// What a writer may ask of the folders, and of the keys in them and in their way.
pub(super) fn menu_of_moves() -> Vec<Ask> {
    let none = Condition::None;
    vec![
        MOVE,
        ask(0, true, false, none),
        ask(1, true, false, none),
        ask(1, true, true, none),
        ask(1, false, false, none),
        ask(3, true, false, none),
        ask(3, false, false, none),
    ]
}

/// All that a writer may ask of `k` and the key below it.
pub(super) fn menu() -> Vec<Ask> {
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

/// Orders of asking and syncing for so many writers: together, or with a sync between, or a step more after the first
/// frame.
pub(super) fn schedules(writers: usize, has_moves: bool) -> Vec<Vec<Step>> {
    let mut schedules = vec![
        vec![Step::Ask(writers)],
        vec![Step::Ask(writers), Step::FailSync],
        vec![Step::Ask(writers), Step::FailCall, Step::Sync],
    ];
    let hand = if has_moves { MOVED.0 } else { 0 };
    for gaps in 0..1_u32 << (writers - 1) {
        for more in [
            None,
            Some(Step::Checkpoint),
            Some(Step::FailSync),
            Some(Step::FailCall),
            Some(Step::Hand(hand)),
            Some(Step::Remove(hand)),
            Some(Step::FailWait),
        ] {
            if more == Some(Step::FailWait) && !has_moves {
                continue;
            }
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

pub(super) fn any_ask() -> impl Strategy<Value = Ask> {
    let condition = prop_oneof![
        Just(Condition::None),
        Just(Condition::First),
        Just(Condition::Absent)
    ];
    let any = (0..KEYS.len(), any::<bool>(), any::<bool>(), condition);
    let any =
        any.prop_map(|(key, is_put, is_large, condition)| ask(key, is_put, is_large, condition));
    prop_oneof![5 => any, 1 => Just(MOVE)]
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..4).prop_map(Step::Ask),
        3 => Just(Step::Sync),
        1 => Just(Step::FailSync),
        1 => Just(Step::FailWait),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::FailCall),
        1 => (0..KEYS.len()).prop_map(Step::Hand),
        1 => (0..KEYS.len()).prop_map(Step::Remove),
    ]
}
