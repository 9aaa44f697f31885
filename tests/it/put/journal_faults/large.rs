//! Large values beside the journal: their records do not make frames too long to be read, and a journal that fails is
//! no failure of theirs.

use super::{DISK, cut, of_segments, ready, segments, start};
use crate::support::prelude::*;

/// What the journal says of many large values with long keys, and a full group, are more than a frame once took.
#[test]
fn all_frames_can_be_read_whose_changes_were_acknowledged() {
    const LARGE: usize = 990;
    const CLIENTS: usize = 10;
    const SMALL: usize = 40;
    journal_only!("long frames of the journal");
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    let folders = ["x".repeat(250), "y".repeat(250), "z".repeat(250)].join("/");
    let large = |n: usize| format!("{folders}/{n:0>240}");
    let body = vec![7; 66_000];
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, body) = (&server, &body);
            scope.spawn(move || {
                let mut connection = Client::new(server.addr);
                for n in (1..LARGE).filter(|n| n % CLIENTS == client) {
                    assert_eq!(connection.put(&large(n), body).status, 200);
                }
            });
        }
    });
    // The last one takes a while to get its name. All others wait for it.
    let tracer = Attached::injecting(&server, "linkat,renameat2", "delay_enter=2000000:when=1");
    let value = |n: usize| pattern(n as u64, 61_600);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(server.put(&large(0), &body).status, 200));
        eventually("it is to get its name", || tracer.seen("linkat(") > 0);
        for n in 0..SMALL {
            let server = &server;
            scope.spawn(move || server.store(&format!("k{n}"), value(n)));
        }
    });
    drop(tracer);
    for n in SMALL..SMALL + 30 {
        server.store(&format!("k{n}"), "small");
    }
    cut(&mut server);
    for n in 0..SMALL + 30 {
        dir.remove(&format!("k{n}"));
    }
    let server = start(&dir);
    let is_lost = |n: &usize| {
        let is_small = *n >= SMALL;
        let expected = if is_small {
            b"small".to_vec()
        } else {
            value(*n)
        };
        server.get(&format!("k{n}")).body != expected
    };
    let lost = (0..SMALL + 30).filter(is_lost).count();
    assert_eq!(lost, 0, "of {} acknowledged values", SMALL + 30);
}

/// The journal fails while a resumable upload is completed, which does not need it.
#[test]
fn a_journal_that_fails_takes_no_finished_upload_with_it() {
    journal_only!("uploads beside a journal that fails");
    let dir = DataDir::temporary();
    // Files are told apart once they are there.
    start(&dir).stop();
    let server = Launch::new(&DISK).on(&dir).start();
    let value = pattern(1, 300_000);
    let mut raw = server.connect();
    let upload = Resumable::create(&mut raw, "large", "", &value[..200_000]);
    let fail = "inject=fdatasync:error=EIO:delay_enter=2000000:when=1";
    let (options, segments) = (["-e", "trace=fdatasync", "-e", fail], segments(&dir));
    let tracer = Attached::to(&server, &of_segments(&options, &segments));
    let stored = thread::scope(|scope| {
        let small = scope.spawn(|| server.put("small", "value").status);
        eventually("the journal is synced", || tracer.seen("fdatasync(") > 0);
        let stored = upload.append(&mut raw, 200_000, true, &value[200_000..]);
        assert_eq!(small.join().expect("an answer"), 500);
        stored
    });
    assert!(tracer.has_injected());
    drop(tracer);
    if stored.status != 200 {
        let mut raw = server.connect();
        let state = upload.state(&mut raw);
        assert_eq!(state.status, 204, "{stored:?}; it is gone: {state:?}");
        assert_eq!(state.must("upload-offset"), "300000");
        eventually("the journal is well again", || ready(&server) == 200);
        let again = upload.append(&mut raw, 300_000, true, b"");
        assert_eq!(again.status, 200, "{again:?}");
    }
    assert!(server.get("large").body == value);
}

/// A journal that cannot be written at all.
#[test]
fn a_large_value_is_stored_while_the_journal_fails() {
    journal_only!("large values beside a journal that fails");
    let dir = DataDir::temporary();
    start(&dir).stop();
    let server = Launch::new(&DISK).on(&dir).start();
    let options = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO"];
    let tracer = Attached::to(&server, &of_segments(&options, &segments(&dir)));
    assert_eq!(server.put("small", "value").status, 500);
    let value = pattern(1, 300_000);
    for n in 0..3 {
        let key = format!("large-{n}");
        assert_eq!(server.put(&key, &value).status, 200, "{key}");
        assert!(server.get(&key).body == value);
    }
    drop(tracer);
}
