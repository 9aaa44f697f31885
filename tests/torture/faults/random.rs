//! Several calls at once, again and again, from a printed seed: what a model of the value says must hold all the same.

use super::Subject;
use super::matrix::{ERRORS, is_possible};
use super::operation::{Operation, Reply, Scene, calls_of, on_disk};
use super::verdict::statuses;
use crate::prelude::*;

/// Operations of a round.
const OPERATIONS: u64 = 24;

/// Calls that are left alone here. A failed accept pauses accepting for up to a second; an unlink that fails may leave
/// a staged file until the next start, as it must; after a checkpoint that fails the journal's values are written anew,
/// beside the hand that prepares the next operation.
const LEFT: [&str; 4] = ["accept4", "ppoll", "unlinkat", "syncfs"];

/// Of the refusal to change a key whose record is kept.
const KEPT: &str = "make what the journal has of this key";

/// Three calls that fail now and then, each in its own way and rhythm.
fn injections(random: &mut Random, calls: &[String]) -> Vec<String> {
    let mut injections = Vec::new();
    while injections.len() < 3 {
        let (call, error) = (&calls[random.usize(..calls.len())], one_of(random, &ERRORS));
        if is_possible(call, error) && !injections.iter().any(|i: &String| i.contains(&**call)) {
            let (first, step) = (1 + random.u64(..8), 2 + random.u64(..6));
            injections.push(format!("inject={call}:error={error}:when={first}+{step}"));
        }
    }
    injections
}

/// What calls fail with under these words of strace. What comes into the journal behind a sync that failed is refused
/// as by a disk that fails, whatever the sync failed with.
fn errors(injections: &[String]) -> Vec<&str> {
    let words = injections.iter().flat_map(|words| words.split(':'));
    let of_calls = words.filter_map(|word| word.strip_prefix("error="));
    let has_sync = injections.iter().any(|words| words.contains("sync:"));
    of_calls.chain(has_sync.then_some("EIO")).collect()
}

/// True where the record of a key may be kept: what cannot be made of it was forbidden, or its folder was read-only.
fn may_be_kept(errors: &[&str]) -> bool {
    errors
        .iter()
        .any(|error| matches!(*error, "EACCES" | "EROFS"))
}

/// What one reply says, where it cannot be told which call failed.
fn judge(
    operation: Operation,
    errors: &[&str],
    before: bool,
    wanted: bool,
    reply: &Reply,
) -> Result<(), String> {
    // A body that cannot be received is one that broke off: 400. After a failed sync the change may have been made:
    // 500.
    let is_explained = |status| {
        matches!(status, 400 | 500) || errors.iter().any(|error| statuses(error).contains(&status))
    };
    match reply {
        Some(answer) if answer.status == 200 && !wanted => {
            Err("200, and the directory does not say so".into())
        }
        // The record of its key is kept, whatever fails now.
        Some(answer)
            if answer.status == 403 && may_be_kept(errors) && answer.text().contains(KEPT) =>
        {
            Ok(())
        }
        Some(answer) if answer.status != 200 && !is_explained(answer.status) => {
            Err(format!("{} {}", answer.status, answer.text()))
        }
        // A sync of names may have failed after the change; so may the sending of the answer.
        _ if !(before || wanted) => Err("neither the old value nor the new one".into()),
        _ if operation.is_read() && !before => Err("a read changed the value".into()),
        _ => Ok(()),
    }
}

/// One round under faults of these calls, drawn from `random`; how many failed.
fn round(scene: Scene, calls: &[String], mut random: Random) -> Result<usize, String> {
    let injections = injections(&mut random, calls);
    round_under(scene, &injections, calls, random)
}

/// One round under these faults.
fn round_under(
    scene: Scene,
    injections: &[String],
    calls: &[String],
    mut random: Random,
) -> Result<usize, String> {
    let Subject {
        mut server, rest, ..
    } = Subject::start(scene);
    let seed = random.u64(..) >> 32;
    let mut options: Vec<&str> = injections.iter().flat_map(|i| ["-e", i]).collect();
    let trace = format!("trace={}", calls.join(","));
    options.extend(["-e", &trace]);
    let errors = errors(injections);
    let tracer = Attached::to(&server, &options);
    for n in 0..OPERATIONS {
        let operation = one_of(&mut random, &Scene::all()).operation;
        let operation = match operation {
            Operation::Get { len, .. } => Operation::Get { hot: false, len },
            other => other,
        };
        let state = operation.prepare(&server, seed.wrapping_add(n));
        let reply = operation.perform_under(&errors, &server, &state);
        let after = on_disk(&server.dir);
        let (before, wanted) = (after == state.before, after == state.wanted);
        let judged = judge(operation, &errors, before, wanted, &reply);
        judged.map_err(|why| format!("{operation:?} under {injections:?}: {why}"))?;
    }
    let failed = tracer.detach();
    let failed = failed.iter().filter(|call| call.is_injected()).count();
    let next = |server: &TestServer| {
        let state = scene.operation.prepare(server, seed);
        match scene.operation.perform(server, &state) {
            Some(answer) if answer.status == 200 => Ok(()),
            answer => Err(answer),
        }
    };
    let refused = |reply: Reply| format!("the next request after {injections:?}: {reply:?}");
    match next(&server) {
        Ok(()) => {}
        // What may not be made of the journal is kept, and its key is not changed, until a start.
        Err(Some(answer)) if may_be_kept(&errors) && answer.text().contains(KEPT) => {
            server.stop();
            let mut started = scene.launch().on(&server.dir).start();
            next(&started).map_err(refused)?;
            started.stop();
            return Ok(failed);
        }
        Err(reply) => return Err(refused(reply)),
    }
    let let_go = rest.leaked(&server, DEADLINE);
    let_go.map_err(|why| format!("after {injections:?}: {why}"))?;
    server.stop();
    Ok(failed)
}

fn durable() -> Scene {
    let mut all = Scene::all().into_iter();
    all.find(|scene| scene.durable).expect("a durable scene")
}

#[test]
fn several_calls_at_once_fail_again_and_again() {
    tracing_only!("random faults of system calls");
    let scene = durable();
    let server = Subject::start(scene).server;
    let is_hot = |scene: &Scene| matches!(scene.operation, Operation::Get { hot: true, .. });
    let every = Scene::all().into_iter().filter(|scene| !is_hot(scene));
    let calls: BTreeSet<_> = every.flat_map(|scene| calls_of(scene, &server)).collect();
    let calls = calls.into_iter().filter(|call| !LEFT.contains(&&**call));
    let calls: Vec<String> = calls.collect();
    drop(server);
    let mut random = Random::with_seed(seed("random faults"));
    let (mut failed, mut rounds) = (0, 0);
    while failed < scaled(100, 10_000) {
        rounds += 1;
        assert!(rounds < scaled(100, 10_000), "only {failed} calls failed");
        let outcome = round(scene, &calls, random.fork());
        failed += outcome.unwrap_or_else(|why| panic!("round {rounds}: {why}"));
    }
    counted!("random faults: {failed} calls failed in {rounds} rounds");
}

/// Of every two changes of a name, one is only said to be made.
#[test]
fn a_change_that_never_was_is_found_among_random_faults() {
    tracing_only!("a planted lie among random faults");
    let lies = ["linkat", "renameat", "unlinkat"];
    let injections = lies.map(|call| format!("inject={call}:retval=0:when=1+2"));
    let found = round_under(
        durable(),
        &injections,
        &lies.map(String::from),
        // Draws a PUT or DELETE first: in an upload the lie is found by the server, which misses its record.
        Random::with_seed(4),
    );
    let found = found.expect_err("a lie");
    assert!(found.contains("does not say so"), "{found}");
}
