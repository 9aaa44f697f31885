//! Of changes of one key, or of a key and its folder, the last one that was acknowledged counts after a cut of power.

use std::sync::mpsc;

use super::{Kept, cut, start};
use crate::support::prelude::*;

/// Sends it and answers the status, or nothing where the server has died.
fn change(server: &TestServer, method: &str, condition: &str, value: &[u8]) -> Option<u16> {
    match Client::new(server.addr).hear(method, "k", condition, value) {
        Heard::Answer(answer) => Some(answer.status),
        _ => None,
    }
}

/// A swap is acknowledged, power is cut at once, and seven others that named the same version have no answer yet.
fn one_swap_of_eight(condition: fn(&str) -> String, first: &str, other: &str, is_there: bool) {
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    let mut before = None;
    let mut tag = String::new();
    if is_there {
        server.store("k", "before");
        server.get("k").must("etag").clone_into(&mut tag);
        before = Some(Kept::of(&dir, "k"));
        server.stop();
        server = start(&dir);
    }
    // The clock of versions is synced now, and not again within ten seconds.
    server.store("another", "value");
    let condition = condition(&tag);
    // The first is on its way to the disk while the others come, and these are while the first is answered.
    let tracer = Attached::injecting(&server, "fdatasync", "delay_enter=1000000");
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let send = |method: &str, value: String| {
            let (method, tell) = (method.to_owned(), tell.clone());
            let (server, condition) = (&server, &condition);
            scope.spawn(move || {
                let status = change(server, &method, condition, value.as_bytes());
                let _is_over = tell.send((value, status));
            });
        };
        send(first, "the first".into());
        eventually("the first is synced", || tracer.seen("fdatasync(") > 0);
        for n in 0..7 {
            send(other, format!("other {n}"));
        }
        // Those that lose may be told so before the one that wins, in the same moment.
        let acknowledged = told.iter().find(|(value, _)| value == "the first");
        server.signal(rustix::process::Signal::KILL);
        assert_eq!(acknowledged, Some(("the first".to_owned(), Some(200))));
    });
    tracer.abandon();
    cut(&mut server);
    // The disk has nothing newer than what was settled.
    match &before {
        Some(before) => before.put_back(),
        None => dir.remove("k"),
    }
    let server = start(&dir);
    let found = server.get("k");
    if first == "DELETE" {
        let got = found.status;
        assert_eq!(got, 404, "{}", String::from_utf8_lossy(&found.body));
    } else {
        assert_eq!(String::from_utf8_lossy(&found.body), "the first");
    }
}

fn if_match(tag: &str) -> String {
    format!("If-Match: {tag}\r\n")
}

fn if_none_match(_: &str) -> String {
    "If-None-Match: *\r\n".to_owned()
}

/// A swap or a create, and of a DELETE and swaps the one that was acknowledged.
#[test]
fn a_conditional_change_that_was_acknowledged_stays_beside_others_of_the_same_version() {
    journal_only!();
    tracing_only!("swaps of one version");
    thread::scope(|scope| {
        scope.spawn(|| one_swap_of_eight(if_match, "PUT", "PUT", true));
        scope.spawn(|| one_swap_of_eight(if_none_match, "PUT", "PUT", false));
        scope.spawn(|| one_swap_of_eight(if_match, "DELETE", "PUT", true));
        scope.spawn(|| one_swap_of_eight(if_match, "PUT", "DELETE", true));
    });
}

/// The version of a large value is older than the removal that was made while the value was synced.
#[test]
fn a_large_value_stays_that_was_published_after_a_delete() {
    journal_only!();
    tracing_only!("a large value beside a DELETE");
    for is_replaced in [false, true] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        server.store("k", "old");
        let large = pattern(1, 300_000);
        let tracer = Attached::injecting(&server, "fsync", "delay_enter=1500000");
        thread::scope(|scope| {
            let put = scope.spawn(|| server.put("k", &large).status);
            eventually("the value is synced", || tracer.seen("fsync(") > 0);
            if is_replaced {
                server.store("k", "newer");
            }
            assert_eq!(server.ask("DELETE", "k").status, 200);
            assert!(!put.is_finished());
            assert_eq!(put.join().expect("an answer"), 200);
        });
        drop(tracer);
        assert!(server.get("k").body == large);
        cut(&mut server);
        let found = start(&dir).get("k");
        assert_eq!(found.status, 200, "replaced before: {is_replaced}");
        assert!(found.body == large);
    }
}

/// The disk has the folder that the value was in, or was to be in, and not its end.
#[test]
fn an_empty_folder_does_not_keep_an_acknowledged_value_out() {
    journal_only!();
    for below in ["a/b", "a/b/c/d"] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        server.store(below, "below");
        assert_eq!(server.ask("DELETE", below).status, 200);
        server.store("a", "value");
        cut(&mut server);
        dir.remove("a");
        let folder = dir.file(below);
        fs::create_dir_all(folder.parent().expect("a folder")).expect("a folder");
        let server = start(&dir);
        assert_eq!(server.get("a").body, b"value", "{below}");
    }
}
