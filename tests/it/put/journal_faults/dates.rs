//! Files that are dated into the future by `rsync -a`, `touch` or a clock that was wrong: what was acknowledged after
//! them stays.

use super::{Kept, cut, date, of_segments, segments, start};
use crate::support::prelude::*;

fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3_600)
}

/// A directory with a value that is dated ahead.
fn dated_ahead() -> (DataDir, Kept) {
    let dir = DataDir::temporary();
    dir.place("k", "old");
    date(&dir.file("k"), in_an_hour());
    let kept = Kept::of(&dir, "k");
    (dir, kept)
}

/// Also where its name was free before, or was taken for free, as the server takes it after many creates in a row.
#[test]
fn a_put_over_a_file_dated_ahead_stays() {
    journal_only!();
    for is_removed in [true, false] {
        let (dir, kept) = dated_ahead();
        let mut server = start(&dir);
        if is_removed {
            assert_eq!(server.ask("DELETE", "k").status, 200);
        } else {
            (0..40).for_each(|n| server.store(&format!("c{n}"), "created"));
        }
        server.store("k", "new");
        let tag = server.get("k").must("etag").to_owned();
        cut(&mut server);
        if !is_removed {
            kept.put_back();
        }
        let found = start(&dir).get("k");
        assert_eq!((found.status, &*found.body), (200, &b"new"[..]));
        assert_eq!(found.must("etag"), tag, "removed: {is_removed}");
    }
}

#[test]
fn a_put_stays_that_a_hand_came_before_with_a_file_dated_ahead() {
    journal_only!("a hand between a decision and its change");
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    // The clock of versions is synced now, and not again within ten seconds.
    server.store("another", "value");
    let tracer = Attached::injecting(&server, "fdatasync", "delay_enter=1000000");
    let by_hand = thread::scope(|scope| {
        let put = scope.spawn(|| server.put("k", "new").status);
        eventually("the journal is synced", || tracer.seen("fdatasync(") > 0);
        dir.place("k", "by hand");
        date(&dir.file("k"), in_an_hour());
        let by_hand = Kept::of(&dir, "k");
        assert!(!put.is_finished());
        assert_eq!(put.join().expect("an answer"), 200);
        by_hand
    });
    drop(tracer);
    assert_eq!(server.get("k").body, b"new");
    cut(&mut server);
    by_hand.put_back();
    assert_eq!(start(&dir).get("k").text(), "new");
}

#[test]
fn two_puts_at_once_over_a_file_dated_ahead_have_tags_of_their_own_also_after_a_cut() {
    journal_only!("two PUTs in one group");
    let (dir, kept) = dated_ahead();
    let mut server = start(&dir);
    // The clock of versions is synced now, and not again within ten seconds.
    server.store("another", "value");
    let tracer = Attached::injecting(&server, "fdatasync", "delay_enter=500000");
    let tags = thread::scope(|scope| {
        let server = &server;
        let put = |value: &'static str| scope.spawn(move || server.put("k", value));
        let first = put("first");
        eventually("the first is synced", || tracer.seen("fdatasync(") > 0);
        let puts = [first, put("second")];
        puts.map(|put| {
            let answer = put.join().expect("an answer");
            assert_eq!(answer.status, 200);
            answer.must("etag").to_owned()
        })
    });
    drop(tracer);
    assert_ne!(tags[0], tags[1]);
    let before = server.get("k");
    let found = (before.must("etag"), &*before.body);
    assert_eq!(found, (&*tags[1], &b"second"[..]));
    cut(&mut server);
    kept.put_back();
    let after = start(&dir).get("k");
    assert_eq!(after.body, b"second");
    assert_eq!(after.must("etag"), tags[1], "the first had {}", tags[0]);
}

/// ext4 tells no time after 2446: the write is refused. The server is killed between its record and the one that takes
/// it back.
#[test]
fn a_record_of_a_version_that_the_file_system_cannot_tell_ends_no_start() {
    journal_only!("a kill between two records");
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    server.store("k", "value");
    server.stop();
    let far = SystemTime::now() + Duration::from_secs(600 * 365 * 86_400);
    let far = far.duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    fs::write(dir.own("clock"), format!("{:>24}", far.as_nanos())).expect("a bound");
    let mut server = start(&dir);
    let kill = words("-e trace=pwrite64 -e inject=pwrite64:signal=KILL:when=3");
    let _tracer = Attached::to(&server, &of_segments(&kill, &segments(&dir)));
    let mut raw = server.connect();
    raw.send(put_head("k", 3) + "new");
    if raw.try_head().is_some() {
        left_out("a time that is cut", "this file system can tell it");
        return;
    }
    assert_eq!(server.exit(), None, "killed");
    assert!(dir.forget_mount(), "the note of a server that ran");
    assert_eq!(start(&dir).get("k").body, b"value");
}
