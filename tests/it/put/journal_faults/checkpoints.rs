//! A checkpoint that failed is remembered, by the server and by the next one, until all that it was to settle was
//! written anew.

use super::{DISK, cut, drop_bytes, of_segments, ready, segments, start_as_usual};
use crate::support::prelude::*;

const KEYS: [&str; 3] = ["k", "a/b/k", "empty"];

fn value(key: &str) -> Vec<u8> {
    match key {
        "empty" => Vec::new(),
        _ => pattern(key.len() as u64, 1_400),
    }
}

fn store_all(server: &TestServer) {
    for key in KEYS {
        server.store(key, value(key));
    }
}

/// The kernel has dropped what it could not write.
fn drop_all(dir: &DataDir) {
    for key in KEYS {
        drop_bytes(&dir.file(key));
    }
}

#[track_caller]
fn assert_all(server: &TestServer) {
    for key in KEYS {
        let answer = server.get(key);
        assert_eq!(answer.status, 200, "{key}");
        let is_right = answer.body == value(key);
        assert!(is_right, "{key}: {:?}", answer.body.get(..9));
    }
}

/// Each sync of the file system fails.
const FAIL: [&str; 4] = ["-e", "trace=syncfs", "-e", "inject=syncfs:error=EIO"];

/// Two syncs fail, that of the checkpoint and that of what it wrote anew: the kernel has told its error, and has
/// dropped the bytes of both. A third that goes well proves nothing of them.
#[test]
fn what_two_failed_syncs_dropped_is_written_anew_before_it_is_settled() {
    journal_only!("checkpoints that fail");
    let server = TestServer::start(&DISK);
    let calls = "trace=syncfs,linkat,rename,renameat,renameat2,pwrite64";
    let fail = "inject=syncfs:error=EIO:when=1..2";
    let tracer = Attached::to(&server, &["-e", calls, "-e", fail, "-s", "120"]);
    server.store("k", "value");
    eventually("both syncs fail", || tracer.seen("(INJECTED)") >= 2);
    server.store("other", "value");
    eventually("a checkpoint succeeds", || ready(&server) == 200);
    let calls = tracer.detach();
    let failed = calls.iter().filter(|call| call.is_injected());
    let failed = failed.map(|call| call.ended).max().expect("a sync");
    let is_settled = |call: &&Call| call.args.contains("is_suspect\\\":false");
    let settled = calls.iter().find(|c| is_settled(c) && c.began > failed);
    let settled = settled.expect("a checkpoint that succeeded").began;
    let synced = |call: &&Call| call.name == "syncfs" && call.result == "0";
    let synced = calls.iter().filter(|c| synced(c) && c.ended < settled);
    let synced = synced.map(|call| call.began).max().expect("a sync");
    let is_written = |call: &&Call| {
        let is_of_key = call.args.contains("data>, \"k\"") || call.args.contains("/data/k>");
        is_of_key && !call.result.starts_with('-') && (failed..synced).contains(&call.began)
    };
    let written = calls.iter().any(|call| is_written(&call));
    assert!(written, "not since the sync that failed: {calls:#?}");
}

/// The last checkpoint fails, as the disk does not take the bytes, and the kernel drops them. Then it is well again:
/// the kernel has nothing to write any more, and tells of it nothing, or with the first sync of the next server alone.
#[test]
fn a_start_after_a_checkpoint_that_failed_writes_all_anew() {
    journal_only!("starts after a failed checkpoint");
    let once = ["-e", "trace=syncfs", "-e", "inject=syncfs:error=EIO:when=1"];
    let trace =
        |options: &[&str]| Trace::with(options, "starts that fail").expect("strace runs here");
    for (end, failed_starts, is_told) in [
        ("stop", 0, false),
        ("stop", 1, false),
        ("kill", 0, false),
        ("kill", 1, false),
        ("kill", 0, true),
        ("cut", 0, true),
    ] {
        let dir = DataDir::temporary();
        let mut server = start_as_usual(&dir);
        let tracer = Attached::to(&server, &FAIL);
        store_all(&server);
        if end == "stop" {
            server.signal(Signal::TERM);
            server.exit();
        } else {
            eventually("a checkpoint fails", || ready(&server) == 503);
        }
        match end {
            "kill" => server.kill(),
            "cut" => cut(&mut server),
            _ => {}
        }
        drop(tracer);
        let launch = || Launch::new(&DISK).on(&dir);
        for _ in 0..failed_starts {
            drop(trace(&FAIL).around(launch()).start_or_end());
        }
        drop_all(&dir);
        if end == "kill" {
            let reads = Launch::new(&["--read-only"]).on(&dir).start_or_end();
            let ended = reads.err().expect("a replay is needed");
            ended.says(1, "start it once without --read-only");
        }
        let tells = trace(&once);
        let launch = if is_told {
            tells.around(launch())
        } else {
            launch()
        };
        let server = launch.start();
        assert_all(&server);
        eventually("it is ready", || is_told || ready(&server) == 200);
    }
}

/// Whatever is written meanwhile.
#[test]
fn while_checkpoints_fail_the_server_is_not_ready_and_frees_nothing() {
    journal_only!("checkpoints that go on failing");
    let dir = DataDir::temporary();
    let args = [&DISK[..], &["--journal-size", "16MiB"]].concat();
    let mut server = Launch::new(&args).on(&dir).start();
    let tracer = Attached::to(&server, &FAIL);
    store_all(&server);
    // Segments are filled, so that checkpoints come soon.
    for n in 0..150 {
        server.store(&format!("more-{n}"), pattern(n, 60_000));
    }
    eventually("two checkpoints fail", || tracer.seen("(INJECTED)") >= 4);
    assert_eq!(ready(&server), 503);
    server.kill();
    drop(tracer);
    drop_all(&dir);
    let server = Launch::new(&args).on(&dir).start();
    assert_all(&server);
    for n in 0..150 {
        assert!(server.get(&format!("more-{n}")).body == pattern(n, 60_000));
    }
}

/// What the kernel has dropped reads as zeros. Before the server can write it anew, it answers none of them for a
/// value; what was settled before is read as always.
#[test]
fn while_checkpoints_fail_no_value_is_read_that_the_kernel_may_have_dropped() {
    journal_only!("reads while checkpoints fail");
    let server = TestServer::start(&DISK);
    server.store("settled", "value");
    server.settle();
    let tracer = Attached::to(&server, &FAIL);
    store_all(&server);
    eventually("a checkpoint fails", || ready(&server) == 503);
    eventually("what was written anew fails too", || {
        tracer.seen("(INJECTED)") >= 2
    });
    drop_all(&server.dir);
    for method in ["GET", "HEAD"] {
        for key in KEYS {
            let answer = server.ask(method, key);
            assert_eq!(answer.status, 500, "{method} {key}: {answer:?}");
        }
    }
    assert_eq!(server.get("settled").body, b"value");
    drop(tracer);
    eventually("a checkpoint succeeds", || ready(&server) == 200);
    assert_all(&server);
}

/// The DELETE is refused, and whole in the journal as the kernel sees it; or the journal cannot be read.
#[test]
fn a_value_is_doubted_whatever_was_refused_after_it_or_cannot_be_read() {
    journal_only!("reads while checkpoints fail");
    for fail in ["fdatasync:error=EIO:when=2+", "pread64:error=EIO"] {
        let dir = DataDir::temporary();
        start_as_usual(&dir).stop();
        let server = start_as_usual(&dir);
        server.store("before", "value");
        let calls = format!(
            "-e trace=syncfs,fdatasync,pread64 -e inject=syncfs:error=EIO -e inject={fail}"
        );
        let options = [&words(&calls)[..], &["-P", text(dir.path())]].concat();
        let _tracer = Attached::to(&server, &of_segments(&options, &segments(&dir)));
        server.store("k", "value");
        if fail.starts_with("fdatasync") {
            assert_eq!(server.ask("DELETE", "k").status, 500);
        }
        let is_doubted = || server.get("k").status == 500;
        eventually("the value is not answered", is_doubted);
    }
}

/// Everything is on the disk, and the journal cannot say so the first time. Nobody writes any more.
#[test]
fn a_server_whose_checkpoint_could_not_be_noted_becomes_ready_without_a_write() {
    journal_only!("a checkpoint that cannot be noted");
    let dir = DataDir::temporary();
    start_as_usual(&dir).stop();
    let server = Launch::new(&DISK).env("DATA_SERVER_CHECKPOINT", "1000");
    let server = server.on(&dir).start();
    let control = dir.own("journal/control");
    // The first by the thread of the checkpoint; the publisher notes the segment.
    let fail = "inject=fdatasync:error=EIO:when=1";
    let options = ["-e", "trace=fdatasync", "-e", fail, "-P", text(&control)];
    let tracer = Attached::to_thread(&server, "disk-checkpoint", &options);
    server.store("k", "value");
    eventually("the note fails", || tracer.has_injected());
    eventually("it is not ready", || ready(&server) == 503);
    eventually("it is ready", || ready(&server) == 200);
}

/// On a disk that takes nothing, each refused writer asks for a checkpoint.
#[test]
fn checkpoints_that_fail_one_after_the_other_do_not_fill_the_log() {
    journal_only!("a disk that takes nothing");
    let server = TestServer::start(&DISK);
    let began = Instant::now();
    let fail = "inject=syncfs,fdatasync:error=EIO";
    let tracer = Attached::to(&server, &["-e", "trace=syncfs,fdatasync", "-e", fail]);
    let mut refused = 0;
    while tracer.seen("syncfs(") < 40 {
        refused += usize::from(server.put("k", "value").status == 500);
    }
    assert!(refused > 0);
    let told = server.events("a checkpoint of the journal failed: its segments stay");
    let most = 2 + began.elapsed().as_secs() / 5;
    assert!((1..=most).contains(&(told.len() as u64)), "{told:#?}");
}

/// Each segment of the journal is retired, as none can be synced, and none is removed, as no checkpoint succeeds.
#[test]
fn the_first_write_on_a_disk_that_is_well_again_is_stored_though_all_segments_were_retired() {
    journal_only!("a disk that is well again");
    let fail = "inject=syncfs,fdatasync:error=EIO";
    let heals = |_: &u32| {
        let server = TestServer::start(&DISK);
        let tracer = Attached::to(&server, &["-e", "trace=syncfs,fdatasync", "-e", fail]);
        // Each 10 s the clock of versions is synced: where that is refused first, no segment is begun.
        let has_no_segment = (0..12).any(|_| {
            let refused = server.put("k", "refused");
            assert_eq!(refused.status, 500, "the disk is sick, and not full");
            String::from_utf8_lossy(&refused.body).contains("sync the file system")
        });
        drop(tracer);
        server.store("k", "value");
        has_no_segment
    };
    assert_eq!((0..9).filter(heals).take(3).count(), 3);
}

/// The last segment of the journal was retired, and no write has begun another. What was refused comes back under no
/// name.
#[test]
fn a_folder_moves_on_a_disk_that_is_well_again_without_a_write_before() {
    journal_only!("a disk that is well again");
    for fails in ["fdatasync", "syncfs,fdatasync", "pwrite64"] {
        let dir = DataDir::temporary();
        let mut server = start_as_usual(&dir);
        server.store("a/k", "value");
        let options = format!("-e trace={fails} -e inject={fails}:error=EIO");
        let tracer = Attached::to(&server, &words(&options));
        for key in ["a/k", "a/other"] {
            assert_eq!(server.put(key, "refused").status, 500, "{fails}");
        }
        drop(tracer);
        let moved = server.request("MOVE", "/a/", "Destination: /b/\r\n", b"");
        assert_eq!(moved.status, 201, "{fails}: {moved:?}");
        assert_eq!(ready(&server), 200);
        cut(&mut server);
        drop(server);
        drop(start_as_usual(&dir));
        dir.assert_holds(&["b/k"]);
        assert_eq!(fs::read(dir.file("b/k")).expect("a file"), b"value");
    }
}

/// A thread of the journal panics, by order of the environment: `DATA_SERVER_PANIC=thread:NAME`.
#[test]
fn a_panic_of_a_thread_of_the_journal_ends_the_server() {
    journal_only!();
    let (panics, why) = (cfg!(debug_assertions), "a release does not panic by order");
    only_where!(panics, "panics of the journal's threads", why);
    for thread in ["disk-checkpoint", "disk-journal"] {
        let dir = DataDir::temporary();
        let launch = Launch::new(&DISK).env("DATA_SERVER_PANIC", format!("thread:{thread}"));
        let mut server = launch.on(&dir).start();
        let mut client = crate::support::Client::new(server.addr);
        let _may_have_no_answer = client.hear("PUT", "k", "", b"value");
        assert_ne!(server.exit(), Some(0), "{thread}");
        let log = server.log();
        let is_said = log.iter().any(|line| line.contains(thread));
        assert!(is_said, "{thread}: {log:#?}");
        // The next one serves.
        start_as_usual(&dir).store("k", "value");
    }
}
