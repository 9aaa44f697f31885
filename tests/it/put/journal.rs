//! The journal of `--durability disk`: what is on the disk before the answer, and what a start makes of it. A cut of
//! power is played here: the server is killed, its note no longer names the mount, and the files are changed. `power`,
//! of the torture suite, cuts for real.

use super::journal_faults::{DISK, cut, of_segments, segments, start};
use crate::support::prelude::*;

const REPLAYED: &str = "replayed the journal: a server was not ended in order";

fn version(server: &TestServer, key: &str) -> String {
    server.get(key).header("etag").expect("an ETag").to_owned()
}

#[test]
fn a_change_is_in_the_journal_on_the_disk_before_it_has_its_name_and_its_answer() {
    plain_only!("its system calls");
    journal_only!();
    let calls = "trace=fsync,fdatasync,linkat,renameat2,unlinkat,sendto,sendmsg";
    let left_out = "the order of syncs with a journal";
    let trace = needed!(Trace::with(&["-e", calls, "-s", "300"], left_out));
    let args = [&["--threads", "1"][..], &DISK].concat();
    let mut server = trace.around(Launch::new(&args)).start();
    let etags = [(); 2].map(|()| {
        let answer = server.put("k", pattern(1, 100));
        assert_eq!(answer.status, 200);
        let etag = answer.header("etag").expect("an ETag").to_owned();
        etag.trim_matches('"').to_owned()
    });
    assert_eq!(server.ask("DELETE", "k").status, 200);
    server.stop();

    let calls = trace.calls();
    let answer = |part: &str| {
        let sent = |call: &&Call| call.name.starts_with("send") && call.args.contains(part);
        calls.iter().find(sent).expect("an answer")
    };
    let is_change = |call: &&Call| {
        let of_key = call.args.contains("data>, \"k\"") && call.result == "0";
        of_key && matches!(call.name.as_str(), "linkat" | "renameat2" | "unlinkat")
    };
    let mut changes = calls.iter().filter(is_change);
    let mut since = 0;
    for etag in [Some(&etags[0]), Some(&etags[1]), None] {
        let change = changes.next().expect("a change");
        let is_sync = |call: &&Call| {
            let is_journal = call.args.contains("/.data-server/journal/0>");
            is_journal && call.name == "fdatasync" && call.began > since && call.result == "0"
        };
        let synced = calls.iter().find(is_sync).expect("a sync of the journal");
        assert!(synced.ended < change.began, "{synced:?}, {change:?}");
        if let Some(etag) = etag {
            let answered = answer(etag);
            assert!(change.ended < answered.began, "{change:?}, {answered:?}");
            let of_values = |call: &&Call| {
                let is_value = call.args.contains("/data") && !call.args.contains("/journal");
                let waits = call.name.starts_with("fsync") && is_value;
                waits && call.began > synced.began && call.ended < answered.began
            };
            assert_eq!(calls.iter().find(of_values).map(|call| &call.args), None);
        }
        since = change.ended;
    }
}

#[test]
fn a_checkpoint_settles_only_what_the_file_system_has_synced() {
    journal_only!();
    let calls = "trace=syncfs,linkat,pwrite64";
    let left_out = "the order of a checkpoint";
    let trace = needed!(Trace::with(&["-e", calls, "-s", "120"], left_out));
    let mut server = trace.around(Launch::new(&DISK)).start();
    server.store("k", "value");
    server.stop();
    let calls = trace.calls();
    let first = |name: &str, args: &str, since: usize| {
        let is_it =
            |call: &&Call| call.name == name && call.args.contains(args) && call.began > since;
        calls.iter().find(is_it).expect("such a call")
    };
    let published = first("linkat", "data>, \"k\"", 0);
    let synced = first("syncfs", "", published.ended);
    let settled = first("pwrite64", "is_suspect\\\":false", published.ended);
    assert!(settled.args.contains("/journal/control>"), "{settled:?}");
    assert_eq!(synced.result, "0");
    assert!(synced.ended < settled.began, "{synced:?}, {settled:?}");
}

/// Sixteen clients write at once, so many values of this length each.
fn write_at_once(server: &TestServer, each: u64, len: usize) {
    thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || {
                let mut session = Client::new(server.addr);
                for n in 0..each {
                    let key = format!("{client}-{}", n % 10);
                    assert_eq!(session.put(&key, pattern(n, len)).status, 200);
                }
            });
        }
    });
}

#[test]
fn writers_at_the_same_time_share_a_sync() {
    journal_only!("shared syncs of the journal");
    let server = TestServer::start(&DISK);
    let tracer = Attached::to(&server, &["-e", "inject=fdatasync:delay_enter=200000"]);
    write_at_once(&server, 3, 100);
    let calls = tracer.detach();
    let syncs = calls.iter().filter(|call| call.name == "fdatasync").count();
    assert!((3..=24).contains(&syncs), "{syncs} syncs for 48 values");
}

#[test]
fn writers_go_on_when_a_segment_ends_while_a_group_is_made() {
    journal_only!();
    let server = TestServer::start(&[&DISK[..], &["--journal-size", "16MiB"]].concat());
    let each = scaled(80, 300);
    write_at_once(&server, each, 60_000);
    let waits =
        Scrape::of(server.addr).count("data_server_journal_wait_duration_seconds_count", &[]);
    assert!(waits > each / 15, "{waits} segments were begun");
}

#[test]
fn after_a_cut_of_power_the_files_have_what_was_acknowledged() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    let keys = words("lost torn older removed whole a/b/lost empty hand");
    for key in keys {
        server.store(key, "first");
    }
    server.store("typed", "x");
    // The disk has folders that values were in, and not their end.
    for (folder, below) in [("f", "f/b"), ("g", "g/b/c/d")] {
        server.store(below, "below");
        assert_eq!(server.ask("DELETE", below).status, 200);
        server.store(folder, format!("second of {folder}"));
    }
    let older = fs::read(dir.file("older")).expect("a file");
    let first = ["older", "removed"].map(|key| (key, dir.modified(key)));
    for key in ["lost", "torn", "older", "a/b/lost", "hand"] {
        server.store(key, format!("second of {key}"));
    }
    assert_eq!(server.ask("DELETE", "removed").status, 200);
    assert_eq!(server.ask("DELETE", "empty").status, 200);
    server.store("empty", "");
    let large = pattern(1, 300_000);
    server.store("large", &large);
    let before =
        ["lost", "torn", "older", "whole", "a/b/lost", "empty"].map(|k| version(&server, k));
    cut(&mut server);

    let torn = dir.modified("torn");
    fs::remove_file(dir.file("lost")).expect("it is there");
    fs::remove_dir_all(dir.path().join("a")).expect("it is there");
    for (folder, left) in [("f", "f"), ("g", "g/b/c")] {
        dir.remove(folder);
        fs::create_dir_all(dir.file(left)).expect("a folder");
    }
    fs::write(dir.file("torn"), "second of t\0\0\0").expect("written");
    dir.date("torn", torn);
    fs::write(dir.file("older"), older).expect("written");
    for (key, first) in first {
        let mut options = fs::File::options();
        let file = options.append(true).create(true).open(dir.file(key));
        drop(file.expect("a file"));
        dir.date(key, first);
    }
    fs::write(dir.file("hand"), "by hand").expect("written");

    let server = Launch::new(&["--durability", "os"]).on(&dir).start();
    let replayed = server.event(REPLAYED);
    assert_eq!(replayed.number("changed_by_hand"), 1);
    let found = replayed.number("written");
    assert_eq!(found, 6, "lost, torn, older, a/b/lost, f, g");
    assert_eq!(replayed.number("removed"), 1);
    assert!(replayed.number("records") >= 17);
    for key in ["lost", "torn", "older", "a/b/lost", "f", "g"] {
        assert_eq!(server.get(key).body, format!("second of {key}").as_bytes());
    }
    assert_eq!(server.get("removed").status, 404);
    assert_eq!(server.get("hand").body, b"by hand");
    assert!(server.get("large").body == large);
    let after =
        ["lost", "torn", "older", "whole", "a/b/lost", "empty"].map(|k| version(&server, k));
    assert_eq!(before, after, "the versions that were acknowledged");
    drop(server);
    assert_eq!(start(&dir).events(REPLAYED).len(), 0, "once");
}

#[test]
fn a_change_that_is_refused_is_not_in_the_journal() {
    journal_only!("changes that are refused beside others");
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    // Both are in the journal before one of them is made.
    let tracer = Attached::to(&server, &["-e", "inject=fdatasync:delay_enter=1000000"]);
    let ask = |value: &str| {
        let condition = "If-None-Match: *\r\n";
        match Client::new(server.addr).hear("PUT", "k", condition, value.as_bytes()) {
            Heard::Answer(answer) => answer.status,
            heard => panic!("{heard:?}"),
        }
    };
    let statuses = thread::scope(|scope| {
        let others =
            ["one", "two", "three", "four"].map(|value| (value, scope.spawn(|| ask(value))));
        others.map(|(value, asked)| (value, asked.join().expect("an answer")))
    });
    drop(tracer);
    let stored = statuses.iter().filter(|(_, status)| *status == 200);
    let stored: Vec<_> = stored.collect();
    assert_eq!(stored.len(), 1, "{statuses:?}");
    cut(&mut server);
    fs::remove_file(dir.file("k")).expect("it is there");
    let server = start(&dir);
    assert_eq!(server.event(REPLAYED).number("records"), 1);
    assert_eq!(server.get("k").body, stored[0].0.as_bytes(), "{statuses:?}");
}

#[test]
fn nothing_is_replayed_after_an_orderly_end_or_a_kill_while_the_system_runs() {
    journal_only!();
    for is_killed in [false, true] {
        let dir = DataDir::temporary();
        let mut server = start(&dir);
        server.store("k", "value");
        server.store("removed", "value");
        if is_killed {
            server.kill();
        } else {
            server.stop();
        }
        let note = fs::read_to_string(dir.own("journal-state")).expect("a note");
        if is_killed {
            let why = "this kernel cannot tell mounts apart";
            only_where!(note.contains("open on "), "no replay after a kill", why);
        } else {
            assert_eq!(note.lines().nth(1), Some("clean"), "{note}");
        }
        dir.remove("removed");
        let server = start(&dir);
        assert_eq!(server.get("k").body, b"value");
        assert_eq!(server.get("removed").status, 404, "removed by hand");
        assert_eq!(server.events(REPLAYED).len(), 0);
    }
}

#[test]
fn a_directory_that_needs_a_replay_is_not_served_read_only() {
    journal_only!();
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    server.store("k", "value");
    let beside = Launch::new(&["--read-only"]).on(&dir).start();
    let body = beside.get("k").body;
    assert_eq!(body, b"value", "beside the server that writes");
    drop(beside);
    cut(&mut server);
    dir.remove("k");
    let ended = Launch::new(&["--read-only"]).on(&dir).run();
    ended.says(1, "start it once without --read-only");
    start(&dir).stop();
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(server.get("k").body, b"value");
}

#[test]
fn a_journal_elsewhere_is_asked_for_and_belongs_to_one_directory() {
    journal_only!();
    let place = DataDir::temporary();
    let at = place.outside("fast");
    let at = at.to_str().expect("UTF-8");
    let args = [&DISK[..], &["--journal-dir", at]].concat();
    let dir = DataDir::temporary();
    let mut server = Launch::new(&args).on(&dir).start();
    server.store("k", "value");
    assert!(fs::metadata(place.outside("fast").join("0")).is_ok());
    let other = DataDir::temporary();
    let refused = |dir: &DataDir, args: &[&str], why: &str| {
        Launch::new(args).on(dir).run().says(1, why);
    };
    refused(&other, &args, "has the journal of another directory");
    cut(&mut server);
    refused(&other, &args, "has the journal of another directory");
    refused(&dir, &DISK, &format!("it was in {at}"));
    refused(&dir, &[], &format!("it was in {at}"));
    dir.remove("k");
    let mut server = Launch::new(&args).on(&dir).start();
    assert_eq!(server.get("k").body, b"value");
    server.stop();
    // Closed in order, it needs the other place no more.
    start(&dir).stop();
}

#[test]
fn a_sync_of_the_journal_that_fails_is_not_acknowledged_nor_repeated() {
    journal_only!();
    let dir = DataDir::temporary();
    // Files are told apart once they are there.
    start(&dir).stop();
    let segments = segments(&dir);
    let options = of_segments(&["-e", "inject=fdatasync:error=EIO:when=3"], &segments);
    let trace = needed!(Trace::with(&options, "a failed sync of the journal"));
    let mut server = trace.around(Launch::new(&DISK).on(&dir)).start();
    let statuses = (0..6).map(|n| server.put("k", format!("{n}")).status);
    let statuses: Vec<_> = statuses.collect();
    assert_eq!(statuses, [200, 200, 500, 200, 200, 200]);
    assert_eq!(server.get("k").body, b"5");
    let failures = Scrape::of(server.addr).count("data_server_journal_failures_total", &[]);
    assert_eq!(failures, 1);
    let comes = || server.ask("GET", "-/ready").status == 200;
    eventually("a checkpoint settles what is in the failed segment", comes);
    server.stop();
    let calls = trace.calls();
    let of_segments = calls.iter().filter(|call| call.name == "fdatasync");
    let of_segments: Vec<_> = of_segments.collect();
    let failed = of_segments.iter().position(|call| call.is_injected());
    let failed = failed.expect("a sync that failed");
    let again = |call: &&&Call| call.args == of_segments[failed].args;
    let again = of_segments[failed + 1..].iter().find(again);
    assert_eq!(again.map(|call| &call.args), None);
    let ended = fs::read_to_string(dir.own("journal-state")).expect("a note");
    assert_eq!(ended.lines().nth(1), Some("clean"));
}
