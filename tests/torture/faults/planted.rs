//! Each question of the judge, asked about what a server must not do.

use super::Subject;
use super::life::judge_end;
use super::matrix::Fault;
use super::operation::{Operation, Reply, Scene, State};
use super::verdict::{Seen, judge, sync_retried};
use crate::prelude::*;

/// What a leak is waited for.
const A_MOMENT: Duration = Duration::from_millis(300);

const OVER: Scene = Scene {
    operation: Operation::Put {
        new: false,
        len: 3_000,
    },
    durable: true,
};

#[test]
fn what_is_kept_is_found() {
    let Subject { server, rest, .. } = Subject::start(OVER);
    let mut kept = server.connect();
    let answer = kept.ask("GET /none HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(answer.status, 404);
    let found = rest.leaked(&server, A_MOMENT).expect_err("a leak");
    assert!(found.contains("at rest"), "{found}");
    drop(kept);
    assert_eq!(rest.leaked(&server, DEADLINE), Ok(()));
    fs::write(server.dir.staging().join("9"), "left").expect("a staged file");
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
    assert_eq!(judge_end(Some(1), "data-server: no memory\n", ""), Ok(()));
    for (code, said, out) in [
        (None, "data-server: killed", ""),
        (Some(101), "data-server: a panic", ""),
        (Some(1), "thread 'main' panicked", ""),
        (Some(1), "data-server: cannot listen on 127.0.0.1:80", ""),
        (Some(1), "data-server: no memory", "listening on"),
    ] {
        assert!(judge_end(code, said, out).is_err(), "{code:?} {said}");
    }
}
