//! The crash harness is shown to fail: a server that breaks one promise is found out, and without the lie is not.

use super::liar::{Liar, Lie};
use super::{PATIENCE, torture};
use crate::ledger::Fault;
use crate::load::Load;
use crate::support::prelude::*;

/// The fault that the harness finds in a server with this lie.
fn found(lie: Lie, cycles: usize) -> Option<Fault> {
    let mut liar = Liar::new(lie);
    let (counts, outcome) = torture(&mut liar, &mut Load::new("liar"), cycles, PATIENCE);
    match outcome {
        Ok(()) => {
            counts.assert_proves(cycles);
            None
        }
        Err((fault, told)) => {
            eprintln!("{fault:?}: {told}");
            Some(fault)
        }
    }
}

#[test]
fn the_crash_harness_finds_each_broken_promise_and_takes_an_honest_server() {
    use Fault::{Answer, Empty, Litter, Missing, Older, Resurrected, Tag, Torn, Unheard};
    let lies: [(Lie, &[Fault]); 6] = [
        (Lie::InPlace, &[Torn]),
        // Where a key was deleted before, what is missing is the new value; else the old one is still there.
        (Lie::PutLater, &[Missing, Older]),
        (Lie::DeleteLater, &[Resurrected]),
        // An empty value is told by its tag: one with the tag of another looks like that one.
        (Lie::TagOfLength, &[Tag, Older]),
        // What is missing after an unanswered DELETE looks like a loss, and an empty value that was not answered like one that lost its
        // bytes; a value that is cut off is half an answer.
        (Lie::HangsUp, &[Unheard, Missing, Empty, Answer]),
        (Lie::Unswept, &[Litter]),
    ];
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(found(Lie::None, 5), None));
        for (lie, expected) in lies {
            scope.spawn(move || {
                let fault = found(lie, 20);
                let is_expected = fault.is_some_and(|fault| expected.contains(&fault));
                assert!(is_expected, "{lie:?}: {fault:?}");
            });
        }
    });
}

#[test]
#[should_panic(expected = "too few cycles count")]
fn the_crash_harness_does_not_take_idle_cycles_for_a_proof() {
    let mut honest = Liar::new(Lie::None);
    let (counts, outcome) = torture(&mut honest, &mut Load::new("liar"), 20, Duration::ZERO);
    assert_eq!(outcome, Ok(()));
    counts.assert_proves(20);
}
