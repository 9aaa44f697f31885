//! One key that a replay cannot write costs that key alone: the start tells it, keeps its record, and serves all
//! others.

use super::{Kept, cut, start};
use crate::support::prelude::*;

#[test]
fn a_key_that_cannot_be_written_does_not_keep_all_others_from_being_served() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    let keys = ["a", "stuck/put", "stuck/removed", "z"];
    for key in keys {
        server.store(key, "first");
    }
    server.store_each("a stuck/put z", "second");
    assert_eq!(server.ask("DELETE", "stuck/removed").status, 200);
    cut(&mut server);
    for key in ["a", "stuck/put", "z"] {
        dir.remove(key);
    }
    dir.place("stuck/other", "by hand");
    let immutable = needed!(Immutable::new(
        dir.file("stuck"),
        "a key that cannot be written"
    ));
    // Also after an orderly end, and by every further start.
    for round in 0..3 {
        let mut server = start(&dir);
        for key in ["a", "z"] {
            assert_eq!(server.get(key).body, b"second", "{key}");
        }
        server.store("more", format!("value {round}"));
        // The record is of a key, which may lie below any folder.
        server.store("free/k", "value");
        let moved = server.request("MOVE", "/free/", "Destination: /moved/\r\n", b"");
        moved.says(403, "make what the journal has of some keys");
        // Lines of the log are written a moment later: they are there before the kill.
        server.event("cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
        if round == 1 {
            server.signal(rustix::process::Signal::TERM);
            server.exit();
        } else {
            cut(&mut server);
        }
        let log = server.log().join("\n");
        assert!(log.contains("stuck/put"), "{log}");
    }
    drop(immutable);
    let server = start(&dir);
    assert_eq!(server.get("stuck/put").body, b"second");
    assert_eq!(server.get("more").body, b"value 2");
    let moved = server.request("MOVE", "/free/", "Destination: /moved/\r\n", b"");
    assert_eq!(moved.status, 201);
    eventually("it is ready", || super::ready(&server) == 200);
}

/// Its bytes may be dropped, and cannot be written anew: a checkpoint had failed until a restart, and with it all reads
/// and writes.
#[test]
fn a_key_that_cannot_be_written_anew_keeps_no_checkpoint_failed() {
    journal_only!("a checkpoint that fails once");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&super::DISK).on(&dir).start();
    let once = "inject=syncfs:error=EIO:when=1";
    let tracer = Attached::to(&server, &["-e", "trace=syncfs", "-e", once]);
    server.store_each("stuck/k k", "value");
    let immutable = needed!(Immutable::new(
        dir.file("stuck"),
        "a key that cannot be written anew"
    ));
    eventually("the checkpoint fails", || tracer.has_injected());
    eventually("a checkpoint succeeds", || super::ready(&server) == 200);
    server.event("cannot make what the journal has of this key: its record is kept, and the key not changed, until a start can");
    assert_eq!(server.get("k").body, b"value");
    assert_eq!(server.get("stuck/k").status, 500, "its bytes may be lost");
    assert_eq!(server.put("stuck/k", "new").status, 403);
    server.store("k", "new");
    drop(tracer);
    server.stop();
    drop(immutable);
    super::drop_bytes(&dir.file("stuck/k"));
    let server = start(&dir);
    assert_eq!(server.get("stuck/k").body, b"value");
    server.store("stuck/k", "new");
}

/// What is kept of a key without its removal would bring back what was removed.
#[test]
fn the_removal_of_a_key_that_cannot_be_looked_at_is_kept_with_its_other_records() {
    journal_only!("a checkpoint that fails once");
    let dir = DataDir::temporary();
    let mut server = needed!(served_by_nobody_with(&dir, &super::DISK, "a closed folder"));
    let once = "inject=syncfs:error=EIO:when=1";
    let tracer = Attached::to(&server, &["-e", "trace=syncfs", "-e", once]);
    server.store("stuck/other", "value");
    server.store("stuck/k", "removed since");
    assert_eq!(server.ask("DELETE", "stuck/k").status, 200);
    chmod(dir.file("stuck"), 0o000);
    eventually("the checkpoint fails", || tracer.has_injected());
    eventually("a checkpoint succeeds", || super::ready(&server) == 200);
    drop(tracer);
    server.stop();
    chmod(dir.file("stuck"), 0o755);
    let server = start(&dir);
    assert_eq!(server.get("stuck/k").status, 404);
    assert_eq!(server.get("stuck/other").body, b"value");
}

/// The journal was closed in order, but for the records that are kept of one key.
#[test]
fn kept_records_that_cannot_be_read_are_given_up_by_order_once() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    server.store_each("stuck/k stuck/later", "value");
    cut(&mut server);
    for key in ["stuck/k", "stuck/later"] {
        dir.remove(key);
    }
    dir.place("stuck/other", "by hand");
    let immutable = needed!(Immutable::new(
        dir.file("stuck"),
        "a key that cannot be written"
    ));
    start(&dir).stop();
    let elsewhere = dir.outside("elsewhere");
    let elsewhere = [&super::DISK[..], &["--journal-dir", text(&elsewhere)]].concat();
    let ended = Launch::new(&elsewhere).on(&dir).start_or_end().err();
    ended.expect("records are kept").says(1, "it was in");
    drop(immutable);
    let kept = dir.own("journal/kept");
    let mut bytes = fs::read(&kept).expect("kept records");
    bytes[70] ^= 1;
    fs::write(&kept, &bytes).expect("written");
    Launch::new(&super::DISK).on(&dir).run().says(1, "");
    let discard = [&super::DISK[..], &["--journal", "discard"]].concat();
    Launch::new(&discard).on(&dir).start().stop();
    let aside = super::offline::set_aside(&dir);
    assert_eq!(fs::read(aside[0].join("kept")).expect("it is aside"), bytes);
    let keys = fs::read(aside[0].join("keys")).expect("a list");
    assert_eq!(keys, b"stuck/later\n", "what is lost may be of it");
    let server = start(&dir);
    let status = server.get("stuck/later").status;
    assert_eq!(status, 404, "it may have been removed");
    server.store("stuck/k", "new");
}

/// The disk has the value before two changes. A hand that opens the folder moves its `ctime`, so that only the records
/// tell that it is older.
#[test]
fn all_records_of_a_key_that_cannot_be_written_are_kept_and_no_file_of_it_is_answered() {
    journal_only!();
    for is_removed in [false, true] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        server.store("stuck/k", "first");
        server.stop();
        let first = Kept::of(&dir, "stuck/k");
        let mut server = start(&dir);
        server.store("stuck/k", "second");
        server.store("stuck/other", "value");
        if is_removed {
            assert_eq!(server.ask("DELETE", "stuck/k").status, 200);
        } else {
            server.store("stuck/k", "third");
        }
        cut(&mut server);
        first.put_back();
        let immutable = needed!(Immutable::new(dir.file("stuck"), "a key that is kept"));
        let mut server = start(&dir);
        assert_eq!(server.get("stuck/k").status, 500, "an earlier value");
        assert_eq!(server.get("stuck/other").body, b"value");
        server.stop();
        let reads = Launch::new(&["--read-only"]).on(&dir).start_or_end();
        let ended = reads.err().expect("a replay is needed");
        ended.says(1, "start it once without --read-only");
        drop(immutable);
        first.put_back();
        let server = start(&dir);
        let (status, text) = if is_removed {
            (404, "")
        } else {
            (200, "third")
        };
        server.get("stuck/k").says(status, text);
    }
}

/// The kernel tells a failure once. It is of files of the log, and the replay of what is kept hears it.
#[test]
fn a_failure_that_the_replay_of_what_is_kept_hears_has_the_log_written_anew() {
    journal_only!("starts after a failed sync");
    let once = ["-e", "trace=syncfs", "-e", "inject=syncfs:error=EIO:when=1"];
    let trace = needed!(Trace::with(&once, "starts after a failed sync"));
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    server.store("stuck/k", "value");
    cut(&mut server);
    dir.remove("stuck/k");
    dir.place("stuck/other", "by hand");
    let _immutable = needed!(Immutable::new(dir.file("stuck"), "a key that is kept"));
    let mut server = start(&dir);
    server.store("k", "value");
    server.kill();
    super::drop_bytes(&dir.file("k"));
    let server = trace.around(Launch::new(&super::DISK).on(&dir)).start();
    assert_eq!(server.get("k").body, b"value");
}

/// A checkpoint fails and writes the journal's values anew while the change waits for its sync, or its cancellation to
/// be appended.
#[test]
fn a_change_that_is_refused_during_a_checkpoint_is_not_made_by_the_next_start() {
    journal_only!("a checkpoint that fails once");
    let late = [
        ("disk-journal", "fdatasync", 2),
        ("disk-publisher", "pwrite64", 3),
    ];
    for (thread, call, when) in late {
        let dir = DataDir::temporary();
        dir.place("stuck/other", "by hand");
        let mut server = needed!(served_by_nobody_with(&dir, &super::DISK, "a closed folder"));
        chmod(dir.file("stuck"), 0o777);
        server.store("stuck/k", "value");
        let once = "-e trace=syncfs -e inject=syncfs:error=EIO:when=1";
        let checkpoint = Attached::to_thread(&server, "disk-checkpoint", &words(once));
        let delay = format!("-e trace={call} -e inject={call}:delay_enter=9000000:when={when}");
        let delayed = Attached::to_thread(&server, thread, &words(&delay));
        server.store("k", "value");
        // That a file of another user keeps its name here shows only when the change is made.
        let root = std::os::unix::fs::chown(dir.file("stuck/k"), Some(0), None);
        root.expect("a file of root");
        chmod(dir.file("stuck"), 0o1777);
        assert_eq!(server.put("stuck/k", "refused").status, 403, "{call}");
        assert!(checkpoint.has_injected(), "no checkpoint failed meanwhile");
        drop((checkpoint, delayed));
        server.stop();
        chmod(dir.file("stuck"), 0o777);
        assert_eq!(start(&dir).get("stuck/k").body, b"value", "{call}");
    }
}

/// A mount of its own, of the same file system, that nothing can be written to.
#[test]
fn a_key_whose_folder_is_read_only_keeps_no_server_from_starting() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    server.store_each("d/k k", "value");
    cut(&mut server);
    dir.remove("d/k");
    let folder = dir.file("d");
    let read_only = Mounted::by(&["mount", "--bind", "-o", "ro", text(&folder)], &folder);
    let mounted = needed!(available("a folder that is read-only", read_only));
    let mut server = start(&dir);
    assert_eq!(server.get("k").body, b"value");
    assert_eq!(server.put("d/k", "new").status, 403);
    server.stop();
    mounted.end();
    assert_eq!(start(&dir).get("d/k").body, b"value");
}

/// The folder is another file system by now, which may have an older file of that name.
#[test]
fn a_key_whose_folder_is_another_file_system_now_keeps_no_server_from_starting() {
    journal_only!();
    for is_there in [false, true] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        let place = DataDir::temporary();
        let left_out = "a folder on another file system";
        let other = Mounted::by(&["mount", "-t", "tmpfs", "tmpfs"], &place.outside("other"));
        let other = needed!(available(left_out, other));
        if is_there {
            fs::write(other.path().join("k"), "theirs").expect("a file");
        }
        server.store_each("d/k k", "value");
        cut(&mut server);
        let moved = ["mount", "--bind", text(other.path())];
        let mounted = Mounted::by(&moved, &dir.file("d")).expect("it is mounted");
        let mut server = start(&dir);
        assert_eq!(server.get("k").body, b"value");
        let status = if is_there { 500 } else { 404 };
        assert_eq!(server.get("d/k").status, status, "it is not the last value");
        assert_eq!(server.put("d/k", "new").status, 403);
        server.stop();
        mounted.end();
        dir.remove("d/k");
        assert_eq!(start(&dir).get("d/k").body, b"value");
    }
}

/// The value that is replaced lies in the staging directory then, until the next start.
#[test]
fn a_replaced_value_is_removed_though_its_first_removal_fails() {
    journal_only!("removals that fail");
    let server = TestServer::start(&super::DISK);
    server.store("k", "old");
    let fail = words("-e trace=unlinkat -e inject=unlinkat:error=EIO:when=1");
    let tracer = Attached::to(&server, &fail);
    server.store("k", "new");
    eventually("a removal fails", || tracer.has_injected());
    server.dir.assert_nothing_staged();
    assert_eq!(server.get("k").body, b"new");
}

/// A change of a folder that is a mount is refused: a kill at any call of it leaves no record, which would keep the key
/// from being read for as long as the mount is there.
#[test]
fn what_a_mount_refuses_leaves_no_record_to_keep() {
    journal_only!("a kill before a refusal");
    for (method, from, to) in [
        ("PUT", "d/k", ""),
        ("MOVE", "k", "Destination: /d/k\r\n"),
        ("MOVE", "d/k", "Destination: /k\r\n"),
    ] {
        let dir = DataDir::temporary();
        dir.place("d/k", "theirs");
        dir.place("k", "value");
        let folder = dir.file("d");
        let bound = Mounted::by(&["mount", "--bind", text(&folder)], &folder);
        let mounted = needed!(available("a folder that is a mount", bound));
        let mut server = start(&dir);
        let calls = "linkat,renameat,renameat2,utimensat";
        let kill = format!("-e trace={calls} -e inject={calls}:signal=KILL");
        let tracer = Attached::to_thread(&server, "disk-publisher", &words(&kill));
        let lines = format!("{to}Content-Length: 0\r\n");
        let mut raw = server.begin(method, &format!("/{from}"), &lines);
        if let Some(head) = raw.try_head() {
            assert_eq!(head.status, 409, "{method} /{from}");
            cut(&mut server);
        } else {
            assert_eq!(server.exit(), None, "killed");
            assert!(dir.forget_mount(), "the note of a server that ran");
        }
        drop(tracer);
        let server = start(&dir);
        assert_eq!(server.get("d/k").body, b"theirs", "{method} /{from}");
        assert_eq!(server.get("k").body, b"value", "{method} /{from}");
        drop(server);
        mounted.end();
    }
}
