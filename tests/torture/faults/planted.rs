//! Each question of the judge, asked of a server that lies: strace has it believe in what was never done.

use super::Subject;
use super::life::{drain, judge_end, start_with};
use super::matrix::Fault;
use super::operation::{Operation, Reply, Scene, State, on_disk};
use super::verdict::{Seen, judge, sync_retried};
use crate::support::prelude::*;

/// What a leak is waited for.
const A_MOMENT: Duration = Duration::from_millis(300);

const OVER: Scene = Scene {
    operation: Operation::Put {
        new: false,
        len: 3_000,
    },
    durable: true,
};

fn judge_under(lie: &str) -> Result<(), String> {
    let server = Subject::start(OVER).server;
    let state = OVER.operation.prepare(&server, 7);
    let tracer = Attached::to(&server, &["-e", lie]);
    let reply = OVER.operation.perform(&server, &state);
    let calls = tracer.detach();
    assert!(calls.iter().any(Call::is_injected), "the lie was told");
    let is_right = matches!(&reply, Some(answer) if answer.status == 200);
    assert!(is_right, "{reply:?}");
    judge(&Seen {
        operation: OVER.operation,
        state: &state,
        reply: &reply,
        after: on_disk(&server.dir),
        hit: None,
        of_names: false,
    })
}

#[test]
fn a_rename_that_never_was_is_found() {
    tracing_only!("a planted lie");
    let found = judge_under("inject=renameat,renameat2:retval=0").expect_err("a lie");
    assert!(found.contains("does not say so"), "{found}");
}

#[test]
fn a_descriptor_that_is_kept_is_found() {
    tracing_only!("a planted leak");
    let Subject { server, rest, .. } = Subject::start(OVER);
    let state = OVER.operation.prepare(&server, 7);
    let tracer = Attached::to(&server, &["-e", "inject=close:retval=0"]);
    OVER.operation.perform(&server, &state);
    tracer.detach();
    let found = rest.leaked(&server, A_MOMENT).expect_err("a leak");
    assert!(found.contains("at rest"), "{found}");
}

#[test]
fn a_staged_file_that_stays_is_found() {
    tracing_only!("a planted leftover");
    let Subject { server, rest, .. } = Subject::start(OVER);
    std::fs::write(server.dir.staging().join("9"), "left").expect("a staged file");
    rest.leaked(&server, A_MOMENT).expect_err("a leftover");
}

fn answer(status: u16) -> Response {
    Response {
        status,
        headers: Vec::new(),
        body: Vec::new(),
    }
}

fn call(name: &str, args: &str, result: &str, at: usize) -> Call {
    Call {
        thread: 1,
        name: name.into(),
        args: args.into(),
        result: result.into(),
        began: at,
        ended: at,
    }
}

#[test]
fn the_judge_condemns_what_a_server_must_not_do() {
    let state = State {
        before: Some(b"old".into()),
        wanted: Some(b"new".into()),
    };
    let judged = |reply: Reply, after: &str, call_name: &str, error, of_names| {
        let fault = Fault {
            call: call_name.into(),
            error,
            nth: 1,
        };
        let call = call(call_name, "7</data/#1>", "-1 (INJECTED)", 1);
        judge(&Seen {
            operation: OVER.operation,
            state: &state,
            reply: &reply,
            after: Some(after.into()),
            hit: Some((&fault, &call)),
            of_names,
        })
    };
    let ok = [
        judged(Some(answer(200)), "new", "openat2", "EINTR", false),
        judged(Some(answer(500)), "old", "fsync", "EIO", false),
        judged(Some(answer(500)), "new", "fsync", "EIO", true),
        judged(Some(answer(507)), "old", "pwritev", "ENOSPC", false),
        judged(None, "new", "epoll_ctl", "EIO", false),
    ];
    assert!(ok.iter().all(Result::is_ok), "{ok:?}");
    let wrong = [
        judged(Some(answer(200)), "new", "fsync", "EIO", false),
        judged(Some(answer(200)), "old", "renameat", "EIO", false),
        judged(Some(answer(500)), "new", "fsync", "EIO", false),
        judged(Some(answer(500)), "torn", "fsync", "EIO", true),
        judged(Some(answer(500)), "old", "pwritev", "ENOSPC", false),
        judged(Some(answer(500)), "old", "openat2", "EINTR", false),
        judged(Some(answer(404)), "old", "openat2", "EACCES", false),
        judged(None, "old", "pwritev", "EIO", false),
        judged(None, "torn", "epoll_ctl", "EIO", false),
    ];
    assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
}

#[test]
fn a_second_sync_of_a_file_is_found() {
    let of_names = |call: &Call| call.args.starts_with("3<");
    let failed = || call("fsync", "7</data/#1>", "-1 EIO (INJECTED)", 1);
    let again = vec![failed(), call("fsync", "7</data/#1>", "0", 2)];
    assert!(sync_retried(&again, of_names).is_some());
    let another = vec![failed(), call("fsync", "7</data/#2>", "0", 2)];
    assert!(sync_retried(&another, of_names).is_none());
}

#[test]
fn a_start_and_a_drain_that_end_without_a_reason_are_found() {
    tracing_only!("a planted end");
    let found = start_with("inject=flock:signal=KILL", true).expect_err("a start that was killed");
    assert!(found.contains("ends with None"), "{found}");
    let found = drain(&["-e", "inject=close:signal=KILL"]).expect_err("a drain that was killed");
    assert!(found.contains("ends with None"), "{found}");
    assert_eq!(judge_end(Some(1), "data-server: no memory\n", ""), Ok(()));
    let undocumented = [
        (Some(101), "data-server: a panic", ""),
        (Some(1), "thread 'main' panicked", ""),
        (Some(1), "data-server: cannot listen on 127.0.0.1:80", ""),
        (Some(1), "data-server: no memory", "listening on"),
    ];
    for (code, said, out) in undocumented {
        assert!(judge_end(code, said, out).is_err(), "{code:?} {said}");
    }
}
