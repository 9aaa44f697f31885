//! The power is cut: with `--durability disk` all parts and values that were acknowledged are there afterwards. With
//! `os` the uploads of another start of the machine are gone, and nothing is left of them.

use super::{Run, assert_staged};
use crate::disk::{Disk, Image, Kind, sync_of_a_stranger};
use crate::prelude::*;
use crate::resumable::start_the_machine_anew;

fn cuts_of_power_on(what: &str, mut disk: Image) {
    let (seed, cuts) = (seed("parts, power"), scaled(4, 100));
    let mut run = Run::new(disk.dir(), "disk", Random::with_seed(seed));
    for cut in 0..cuts {
        let (server, dir) = (run.start(), run.dir.clone());
        run.work(server, |server| {
            if cut % 2 == 0 {
                sync_of_a_stranger(&dir);
            }
            disk.cut_under(server);
        });
        start_the_machine_anew(&dir, "parts");
        let looked = run.look();
        looked.unwrap_or_else(|why| panic!("{what}, {SEED}={seed}: {why}"));
    }
    let finished = run.finish();
    finished.unwrap_or_else(|why| panic!("{what}, {SEED}={seed}: {why}"));
    counted!("{what}: disk: {}; seed {seed}", run.counts);
    run.counts.assert_proves();

    let cuts = scaled(1, 10);
    for _ in 0..cuts {
        let mut run = Run::new(disk.dir(), "os", Random::with_seed(seed));
        let (server, dir) = (run.start(), run.dir.clone());
        run.work(server, |server| disk.cut_under(server));
        start_the_machine_anew(&dir, "parts");
        let mut server = run.start();
        assert_eq!(assert_staged(&server), Ok(0), "{what}: of another start");
        server.stop();
    }
    counted!("{what}: os: {cuts} cuts: no upload is left");
}

#[test]
fn acknowledged_parts_and_values_survive_a_power_cut() {
    Image::each(&Kind::ALL, "power cut, parts", cuts_of_power_on);
}

/// As of other names: see `power::a_sync_that_xfs_calls_done_after_shutting_down_is_not_acknowledged`.
#[test]
fn the_name_of_a_part_that_xfs_has_dropped_is_not_acknowledged() {
    let what = "a shutdown of xfs between a part and its sync";
    let mut disk = needed!(available(what, Image::new(Kind::Xfs)));
    let run = Run::new(disk.dir(), "disk", Random::new());
    let (mut server, dir) = (run.start(), run.dir.clone());
    let begun = server.request("POST", "/b/k?uploads", "Content-Length: 0\r\n", b"");
    let id = super::element(&begun.text(), "UploadId").expect("an id");
    server.stop();
    let parts = dir.own("parts");
    let delay = "inject=fsync:delay_enter=1000000";
    let trace = needed!(Trace::with(&["-P", text(&parts), "-e", delay], what));
    let launch = Launch::new(&run.args)
        .on(&dir)
        .listen("s3+http://127.0.0.1:0");
    let mut server = trace.around(launch).start();
    let target = format!("/b/k?partNumber=1&uploadId={id}");
    let answer = thread::scope(|scope| {
        let part = scope.spawn(|| server.request("PUT", &target, "", b"a part"));
        let is_named = || parts.join(format!("{id}.1")).exists();
        eventually("the part has its name", is_named);
        disk.cut();
        part.join().expect("an answer")
    });
    assert!(answer.status >= 500, "{answer:?}");
    server.kill();
    disk.revive();
    assert!(!parts.join(format!("{id}.1")).exists(), "the part is lost");
}
