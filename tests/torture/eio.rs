//! T6: a disk whose writes or reads fail with EIO for a while, also where only the kernel's own writing in the
//! background meets the error. Nothing is acknowledged that cannot be read afterwards, and the server lives on.

use crate::disk::Disk;
use crate::load::{Load, Progress};
use crate::nbd::{Nbd, Weakness};
use crate::power::{ENOUGH, FAILING_DISK, Report};
use crate::prelude::*;

fn disk(percent: u8, what: &str) -> Option<Nbd> {
    available(what, Nbd::new(Weakness::Errors { percent }))
}

fn launch(disk: &Nbd) -> Launch {
    Launch::new(&["--durability", "disk", "--compress"]).on(&disk.dir())
}

/// Ends a server that must still be alive, forgets all that is in memory, and starts one anew.
fn again(server: &mut TestServer, disk: &mut Nbd) -> TestServer {
    server.stop();
    disk.revive();
    launch(disk).start()
}

#[test]
fn what_a_failing_disk_did_not_take_is_not_acknowledged() {
    let mut report = Report::of("eio");
    let (mut refused, mut healed_by_itself) = (0, 0);
    for run in 0..scaled(1, 50) {
        let percent = [100, 40, 10, 3][run % 4];
        let mut disk = needed!(disk(percent, "a disk that fails under load"));
        report.load = Load::new("eio");
        let mut server = launch(&disk).start();
        server.store("canary", "alive");
        // Small values that are not settled are refused when the disk fails.
        server.settle();
        let progress = Progress::under(FAILING_DISK);
        let writes = report.load.work(server.addr, &progress, || {
            progress.reach(ENOUGH);
            progress.let_break();
            disk.fail_writes(true);
            progress.go_on_for(60);
            disk.fail_writes(false);
            progress.go_on_for(20);
            progress.acknowledged()
        });
        report.writes += writes.expect("no broken promise while the disk fails");
        refused += progress.refused();
        assert_eq!(server.get("canary").body, b"alive");
        healed_by_itself += usize::from(server.put("canary", "alive").status == 200);
        let mut server = again(&mut server, &mut disk);
        report.cuts += 1;
        assert_eq!(server.get("canary").body, b"alive");
        assert_eq!(server.ask("DELETE", "canary").status, 200);
        report.tally.add(report.load.look(&server));
        report.assert_nothing_lost();
        server.stop();
    }
    assert_ne!(refused, 0, "no request failed: {report}");
    let healed = format!("{healed_by_itself} times served without a new mount");
    counted!("write errors, disk, ext4: {report}; {refused} requests refused; {healed}");
}

/// The first half of a value is written to the failing disk while the second is still on its way. The disk is well
/// again when the value is synced; the sync must tell nonetheless, and must not be asked twice.
///
/// Where the journal of ext4 meets the error too, the disk is read-only until it is mounted anew: 507 is as right as
/// 500.
#[test]
fn an_error_that_only_the_background_met_is_not_acknowledged() {
    const HALF: usize = 1 << 20;
    let what = "a disk that fails in the background";
    let (mut failed_syncs, mut read_only) = (0, 0);
    let enough = scaled(1, 50);
    while failed_syncs < enough {
        assert!(read_only <= enough + 9, "the disk is read-only each time");
        let mut disk = needed!(disk(100, what));
        let trace = needed!(Trace::with(&["-e", "trace=fsync,fdatasync,close"], what));
        let mut server = trace.around(launch(&disk)).start();
        server.store("k", "old");
        let value = pattern(6, 2 * HALF);
        let mut upload = server.connect();
        upload.send(put_head("k", value.len()));
        upload.send(&value[..HALF]);
        let staged = written_so_far(&server, HALF);
        disk.fail_writes(true);
        // Begins to write it, and waits for that. The error is told here too, on another descriptor than the server's.
        let [begin, wait] = ["sync_range -w 0 1m", "sync_range -a 0 1m"];
        let written = run("xfs_io", &["-c", begin, "-c", wait, &staged]);
        written.expect_err("the writing in the background fails");
        disk.fail_writes(false);
        upload.send(&value[HALF..]);
        let answer = upload.answer();
        assert!(matches!(answer.status, 500 | 507), "{answer:?}");
        assert_eq!(server.get("k").body, b"old");
        eventually("nothing is left of it", || server.proc().staged() == 0);
        let mut stored = server.put("k", &value).status;
        let mut server = again(&mut server, &mut disk);
        if stored == 507 {
            read_only += 1;
            assert_eq!(server.get("k").body, b"old", "after a new mount");
            stored = server.put("k", &value).status;
        }
        assert_eq!(stored, 200, "the disk is well again");
        let mut server = again(&mut server, &mut disk);
        assert!(server.get("k").body == value, "what was acknowledged");
        server.stop();
        let failed = sync_that_failed(&trace.calls());
        assert!(failed || answer.status == 507, "{answer:?} without a sync");
        failed_syncs += usize::from(failed);
    }
    let counts = format!("{failed_syncs} failed syncs, none asked twice");
    counted!("background write errors, disk, ext4: {counts}; {read_only} disks read-only");
}

/// The path of the staged file, once it holds so many bytes.
fn written_so_far(server: &TestServer, len: usize) -> String {
    let descriptors = format!("/proc/{}/fd", server.proc().0);
    let is_staged = |link: &PathBuf| {
        let path = fs::read_link(link).unwrap_or_default();
        let is_unnamed = path.to_string_lossy().ends_with(" (deleted)");
        is_unnamed && fs::metadata(link).is_ok_and(|file| file.len() >= len as u64)
    };
    let mut found = None;
    eventually("half of the value is written", || {
        let links = fs::read_dir(&descriptors).expect("the descriptors");
        let mut links = links.filter_map(|link| Some(link.ok()?.path()));
        found = links.find(is_staged);
        found.is_some()
    });
    text(&found.expect("just found")).to_owned()
}

/// Whether a sync failed, which then was not tried again.
#[track_caller]
fn sync_that_failed(calls: &[Call]) -> bool {
    let is_failed = |call: &&Call| call.name == "fsync" && call.result.contains("EIO");
    let Some(failed) = calls.iter().find(is_failed) else {
        return false;
    };
    let descriptor = |call: &Call| call.args.split('<').next().map(str::to_owned);
    let of_it = |call: &&Call| descriptor(call) == descriptor(failed) && call.began > failed.ended;
    let next = calls.iter().filter(of_it).min_by_key(|call| call.began);
    let next = next.unwrap_or_else(|| panic!("{failed:?} is not closed: {calls:#?}"));
    assert_eq!(next.name, "close", "{failed:?}, {next:?}");
    true
}

/// Whatever the value's size, and also where the head could leave before anything was read.
#[test]
fn a_value_that_cannot_be_read_is_refused() {
    let sizes = [100, 5000, 20_000, 70_000, 1_000_000, 5_000_000];
    let mut refused = 0;
    for _ in 0..scaled(1, 50) {
        let mut disk = needed!(disk(100, "a disk whose reads fail"));
        let mut server = launch(&disk).start();
        let key = |size: usize| format!("{size}.txt");
        for size in sizes {
            server.store(&key(size), pattern(1, size));
        }
        let mut server = again(&mut server, &mut disk);
        disk.forget();
        disk.fail_reads(true);
        for size in sizes {
            for asked in [
                "Accept: */*",
                "Range: bytes=9-",
                "Range: bytes=0-0, 9-",
                "Accept-Encoding: gzip",
                "Want-Repr-Digest: sha-256=9",
            ] {
                let (mut connection, key) = (server.connect(), key(size));
                connection.send(format!("GET /{key} HTTP/1.1\r\nHost: t\r\n{asked}\r\n\r\n"));
                let answer = connection.head();
                assert_eq!(answer.status, 500, "{size} {asked}: {answer:?}");
                refused += 1;
            }
        }
        disk.fail_reads(false);
        for size in sizes {
            let is_right = server.get(&key(size)).body == pattern(1, size);
            assert!(is_right, "{size}, on a disk that is well again");
        }
        server.stop();
    }
    let counts = format!("{refused} GETs refused, none answered wrong");
    counted!("read errors, ext4: {counts}");
}

/// Its beginning is in memory, so the answer has begun when the rest cannot be read.
#[test]
fn a_value_whose_end_cannot_be_read_is_cut_off_there() {
    const SIZE: usize = 5_000_000;
    const BEGUN: usize = 1 << 20;
    let mut disk = needed!(disk(100, "a disk whose reads fail"));
    let value = pattern(2, SIZE);
    let mut server = launch(&disk).start();
    server.store("k", &value);
    let mut server = again(&mut server, &mut disk);
    // Asks the disk for as much again, at least.
    let range = format!("Range: bytes=0-{}\r\n", BEGUN - 1);
    let begun = server.request("GET", "/k", &range, b"");
    assert!(begun.body == value[..BEGUN], "{}", begun.status);
    disk.fail_reads(true);
    let mut connection = server.begin("GET", "/k", "");
    let answer = connection.head();
    assert_eq!((answer.status, answer.length()), (200, SIZE), "{answer:?}");
    let body = connection.rest();
    assert!((BEGUN..SIZE).contains(&body.len()), "{} bytes", body.len());
    assert!(value.starts_with(&body), "wrong bytes");
    disk.fail_reads(false);
    assert!(server.get("k").body == value, "on a disk that is well");
    server.stop();
}
