//! T5: each system call of PUT, GET, DELETE and the listing made to fail, one at a time, by strace.
//!
//! Which calls an operation makes is read from a trace of it. After each fault: the status is the one that docs/http.md
//! lists, or 200 and true; without a 200 the old value is there; nothing is staged, no descriptor is kept, the process
//! lives and answers the next request. A sync that failed is not tried again on its file, and never answered 200.
//!
//! libfiu cannot take strace's place here: it is loaded between a program and libc, and what the store asks of the
//! kernel does not pass through libc (rustix makes its own system calls). With `fiu-run` failing every pwrite, pwritev,
//! fsync, fdatasync, rename, link and unlink, PUT with `--durability disk` and DELETE are answered 200, and truly. So
//! the random faults are strace's too: several calls at once, again and again, from a printed seed.

mod life;
mod matrix;
mod operation;
mod planted;
mod random;
mod verdict;

use matrix::{Fault, faults, first_path, spread};
use operation::{Reply, Scene, State, calls_of, is_of, on_disk, warm};
use verdict::{Seen, is_of_connection, judge, sync_retried};

use crate::prelude::*;
use crate::rest::Rest;

/// Has the fault hit `scene`, repeated until it does; false when it never did, otherwise what went wrong.
fn strike(subject: &Subject, fault: &Fault, seed: u64) -> Result<bool, String> {
    let Subject {
        scene,
        server,
        rest,
    } = subject;
    let operation = scene.operation;
    let mut state = operation.prepare(server, seed);
    warm(server, operation);
    let injection = fault.injection();
    let trace = format!("trace={},fsync,fdatasync", fault.call);
    let tracer = Attached::to(server, &["-e", &trace, "-e", &injection]);
    let (mut reply, mut tries) = (operation.perform(server, &state), 1);
    while !tracer.has_injected() && tries < matrix::DEPTH {
        subject.judge_unhurt(&state, &reply)?;
        state = operation.prepare(server, seed + 1_000_000 * tries as u64);
        reply = operation.perform(server, &state);
        tries += 1;
    }
    let calls = tracer.detach();
    let of_names = |call: &_| is_of(call, server.dir.path());
    // One of each thread may be hit: strace counts for each by itself. Any of the connection may have cost the answer.
    // What was acknowledged needs no name of a segment that is being made. Of the segment itself, the verdict has the
    // rule.
    let is_done = reply.as_ref().is_some_and(|answer| answer.status == 200);
    let makers = server.proc().thread_ids("disk-checkpoint");
    let is_journal = |path: &str| path.ends_with("/.data-server/journal");
    let is_made = |call: &&Call| {
        call.name == "fsync"
            && makers.contains(&call.thread)
            && first_path(call).is_some_and(is_journal)
    };
    let hits = calls.iter().filter(|call| call.is_injected());
    let mut hits = hits.filter(|call| !(is_done && is_made(call)));
    let of_connection = hits.clone().find(|call| is_of_connection(call));
    let hit = of_connection.filter(|_| reply.is_none());
    let hit = hit.or_else(|| hits.clone().next());
    let view = Seen {
        operation,
        state: &state,
        reply: &reply,
        after: on_disk(&server.dir),
        hit: hit.map(|call| (fault, call)),
        of_names: hits.any(of_names),
    };
    judge(&view).map_err(|why| format!("{why}: {:?}, {hit:?}", view.reply))?;
    if let Some(again) = sync_retried(&calls, of_names) {
        return Err(format!("a sync that failed was tried again: {again:?}"));
    }
    let next = operation.prepare(server, seed + 500_000);
    let reply = operation.perform(server, &next);
    let judged = subject.judge_unhurt(&next, &reply);
    judged.map_err(|why| format!("the next request: {why}"))?;
    warm(server, operation);
    rest.leaked(server, DEADLINE)?;
    Ok(hit.is_some())
}

/// A server of a scene, and what it holds on to at rest.
struct Subject {
    scene: Scene,
    server: TestServer,
    rest: Rest,
}

impl Subject {
    /// One that has answered before, so that what it starts when needed is there.
    fn start(scene: Scene) -> Self {
        let server = scene.launch().start();
        for seed in 0..2 {
            let state = scene.operation.prepare(&server, seed);
            scene.operation.perform(&server, &state);
        }
        warm(&server, scene.operation);
        let rest = Rest::settled(&server);
        Self {
            scene,
            server,
            rest,
        }
    }

    /// Judges a reply where nothing failed.
    fn judge_unhurt(&self, state: &State, reply: &Reply) -> Result<(), String> {
        judge(&Seen {
            operation: self.scene.operation,
            state,
            reply,
            after: on_disk(&self.server.dir),
            hit: None,
            of_names: false,
        })
    }
}

#[test]
fn each_call_of_each_operation_made_to_fail() {
    tracing_only!("faults of system calls");
    let (mut hit, mut missed, mut wrong) = (0, 0, Vec::new());
    let share = scaled(3, usize::MAX);
    for (number, scene) in Scene::all().into_iter().enumerate() {
        let mut subject = Subject::start(scene);
        let calls = calls_of(scene, &subject.server);
        // A hot value takes no more than these: accept4, recvfrom, fstat and sendmsg.
        let is_enough = calls.len() >= 4;
        assert!(is_enough, "{scene:?} makes next to no calls: {calls:?}");
        let all = faults(&calls, scaled(false, true));
        let skipped = scaled(number * 7 % all.len(), 0);
        let rotated = [&all[skipped..], &all[..skipped]].concat();
        for (seed, fault) in (10..).zip(spread(&rotated, share)) {
            match strike(&subject, &fault, seed) {
                Ok(true) => hit += 1,
                Ok(false) => missed += 1,
                Err(why) => {
                    eprintln!("{scene:?}, {}: {why}", fault.injection());
                    wrong.push(format!("{scene:?}, {}: {why}", fault.injection()));
                    subject = Subject::start(scene);
                }
            }
        }
        subject.server.stop();
    }
    counted!("faults: {hit} calls failed, {missed} faults met no call");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hit >= scaled(36, 600), "only {hit} calls failed");
}
