//! The crash harness is shown to fail: a server that breaks one promise is found out, and without the lie is not.

use std::time::Duration;

use super::liar::{Liar, Lie};
use super::{PATIENCE, torture};
use crate::ledger::Fault;
use crate::load::Load;

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
fn the_crash_harness_takes_an_honest_server() {
    assert_eq!(found(Lie::None, 5), None);
}

#[test]
fn the_crash_harness_finds_a_server_that_writes_in_place() {
    assert_eq!(found(Lie::InPlace, 20), Some(Fault::Torn));
}

#[test]
fn the_crash_harness_finds_a_server_that_acknowledges_a_put_too_early() {
    // Where a key was deleted before, what is missing is the new value; else the old one is still there.
    let fault = found(Lie::PutLater, 20);
    assert!(
        matches!(fault, Some(Fault::Missing | Fault::Older)),
        "{fault:?}"
    );
}

#[test]
fn the_crash_harness_finds_a_server_that_acknowledges_a_delete_too_early() {
    assert_eq!(found(Lie::DeleteLater, 20), Some(Fault::Resurrected));
}

#[test]
fn the_crash_harness_finds_an_etag_that_is_used_twice() {
    // An empty value is told by its tag: one with the tag of another looks like that one.
    let fault = found(Lie::TagOfLength, 20);
    assert!(
        matches!(fault, Some(Fault::Tag | Fault::Older)),
        "{fault:?}"
    );
}

#[test]
fn the_stop_harness_finds_a_server_that_does_and_does_not_answer() {
    // What is missing after an unanswered DELETE looks like a loss, and an empty value that was not answered like one that
    // lost its bytes; a value that is cut off is half an answer.
    let fault = found(Lie::HangsUp, 20);
    let is_found = matches!(
        fault,
        Some(Fault::Unheard | Fault::Missing | Fault::Empty | Fault::Answer)
    );
    assert!(is_found, "{fault:?}");
}

#[test]
fn the_crash_harness_finds_what_was_left_in_staging() {
    assert_eq!(found(Lie::Unswept, 20), Some(Fault::Litter));
}

#[test]
#[should_panic(expected = "too few cycles count")]
fn the_crash_harness_does_not_take_idle_cycles_for_a_proof() {
    let mut honest = Liar::new(Lie::None);
    let (counts, outcome) = torture(&mut honest, &mut Load::new("liar"), 20, Duration::ZERO);
    assert_eq!(outcome, Ok(()));
    counts.assert_proves(20);
}
