//! The histories in an S3 store are shown to find what they look for: writes that are made and refused, and writes that are sent
//! twice.

use super::register::{Event, is_linearizable};
use super::remote::{REMOTE, addrs, operations, record, two_servers};
use crate::random::{Random, seed};
use crate::repeater::Repeater;
use crate::support::s3::{Bucket, Fault, Stub};

/// Plays a history on `stub`, reached as `bucket`, which has this fault now and then.
fn history(stub: &Stub, bucket: &Bucket, fault: &Fault) -> Vec<Vec<Event>> {
    let servers = two_servers([bucket.clone(), bucket.clone()]);
    for _ in 0..40 {
        stub.fail_now_and_then("PUT", fault.clone(), 5);
    }
    let mut dice = Random::new(seed("linearizable-planted"));
    let (keys, _) = record(&addrs(&servers), REMOTE, &mut dice, |stage| {
        operations(stage, 1_000);
    });
    keys
}

fn has_order(keys: &[Vec<Event>]) -> bool {
    keys.iter().all(|events| is_linearizable(events))
}

#[test]
fn a_write_that_is_made_and_refused_all_the_same_is_found() {
    let stub = Stub::start();
    let keys = history(&stub, &stub.bucket, &Fault::FailDone(412));
    assert!(!has_order(&keys), "the checker believes a false 412");
}

#[test]
fn a_write_that_is_sent_again_blindly_is_found() {
    // The same lost answers twice: as the server meets them, and behind what sends each write again.
    let stub = Stub::start();
    let keys = history(&stub, &stub.bucket, &Fault::LoseDone);
    assert!(has_order(&keys), "lost answers alone break the order");
    let stub = Stub::start();
    let repeater = Repeater::to(stub.bucket.endpoints[0]);
    let bucket = stub.bucket.at(&[repeater.accepting.addr]);
    let keys = history(&stub, &bucket, &Fault::LoseDone);
    assert!(repeater.repeated() > 10, "too few to prove anything");
    assert!(!has_order(&keys), "the checker believes blind retries");
}
