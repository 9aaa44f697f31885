//! The histories in an S3 store are shown to find what they look for: writes that are made and refused, and writes that
//! are sent twice.

use super::register::is_linearizable;
use super::remote::{REMOTE, addrs, operations, record, two_servers};
use crate::random::{Random, seed};
use crate::support::s3::{Fault, Stub};

/// Whether a history has an order that is played on a store which has this fault now and then.
fn has_order(fault: &Fault) -> bool {
    let stub = Stub::start();
    let servers = two_servers([stub.bucket.clone(), stub.bucket.clone()]);
    for _ in 0..40 {
        stub.fail_now_and_then("PUT", fault.clone(), 5);
    }
    let mut dice = Random::with_seed(seed("linearizable-planted"));
    let keys = record(&addrs(&servers), REMOTE, &mut dice, &mut 0, |stage| {
        operations(stage, 1_000);
    });
    keys.iter().all(|events| is_linearizable(events))
}

#[test]
fn a_write_that_is_made_and_refused_all_the_same_is_found() {
    let is_taken = has_order(&Fault::FailDone(412));
    assert!(!is_taken, "the checker believes a false 412");
}

#[test]
fn a_write_that_is_sent_again_blindly_is_found() {
    // The same lost answers twice: as the server meets them, and behind what sends each write again.
    let is_taken = has_order(&Fault::LoseDone);
    assert!(is_taken, "lost answers alone break the order");
    let is_taken = has_order(&Fault::Twice);
    assert!(!is_taken, "the checker believes blind retries");
}
