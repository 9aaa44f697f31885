//! The harness against faults that are there on purpose: a server whose syncs do nothing, and values changed by hand.
//!
//! The syncs are skipped at the kernel's door, by strace: a library that is preloaded to skip them (eatmydata) would
//! not be asked, for the server makes its system calls itself.

use crate::disk::{Disk, Image, Kind};
use crate::ledger::Fault;
use crate::load::Load;
use crate::nbd::{Nbd, Weakness};
use crate::power::{ENOUGH, Moment, Report, write_some};
use crate::prelude::*;

/// Cuts the power of a server that skips syncs as strace is told here, until that is found out.
fn losses_are_reported(what: &str, disk: Result<impl Disk, String>, of_names_alone: bool) {
    let what = format!("the control without {what}");
    let mut disk = needed!(available(&what, disk));
    let dir = disk.dir();
    let lie = "inject=fsync,fdatasync,syncfs:retval=0";
    let trace = "trace=fsync,fdatasync,syncfs";
    let mut options = vec!["--seccomp-bpf", "-e", trace, "-e", lie];
    let mut report = Report::of("planted");
    let folders = report.load.folders();
    let folders: Vec<_> = folders.iter().map(|path| dir.file(path)).collect();
    if of_names_alone {
        options.extend(["-P", text(dir.path())]);
        options.extend(folders.iter().flat_map(|path| ["-P", text(path)]));
    }
    let trace = needed!(Trace::with(&options, &what));
    let launch = || trace.around(Launch::new(&["--durability", "disk"]));
    find_out(&what, &mut disk, report, launch);
}

/// Cuts the power of the server that `launch` starts until the harness says that something is lost, or until the next
/// server refuses to start on what is left.
fn find_out(what: &str, disk: &mut impl Disk, mut report: Report, launch: impl Fn() -> Launch) {
    let mut refused = 0;
    while report.tally.losses() == 0 && refused == 0 && report.cuts < 5 {
        let server = launch().on(&disk.dir()).start();
        report.strike(disk, Moment::After, server);
        match Launch::new(&[]).on(&disk.dir()).start_or_end() {
            Ok(server) => report.look(server),
            Err(_) => refused += 1,
        }
    }
    let found = report.tally.losses() + refused;
    assert_ne!(found, 0, "{what}, nothing is lost: {report}");
    counted!("{what}: {report}; {refused} starts refused");
}

#[test]
fn a_server_without_syncs_is_found_out() {
    Kind::each(&[Kind::Ext4, Kind::Btrfs], |kind| {
        losses_are_reported(&format!("syncs, {}", kind.name()), Image::new(kind), false);
    });
    let disk = Nbd::new(Weakness::VolatileCache);
    losses_are_reported("syncs, volatile cache", disk, false);
}

/// No server can keep what such a device forgets.
#[test]
fn a_disk_that_lies_about_flushes_is_found_out() {
    let what = "a disk that lies about flushes";
    let mut disk = needed!(available(what, Nbd::new(Weakness::LyingCache)));
    let launch = || Launch::new(&["--durability", "disk"]);
    find_out(what, &mut disk, Report::of("planted"), launch);
}

#[test]
fn a_server_without_syncs_of_the_directory_is_found_out() {
    Kind::each(&[Kind::Ext4, Kind::Xfs], |kind| {
        let what = format!("syncs of names, {}", kind.name());
        losses_are_reported(&what, Image::new(kind), true);
    });
}

/// A directory that goes back to an earlier state, and values cut short, emptied and written in place.
#[test]
fn values_changed_by_hand_are_found_out() {
    let mut load = Load::new("planted");
    let mut server = TestServer::start(&[]);
    let dir = server.dir.clone();
    for _ in 0..2 {
        write_some(&server, &mut load, 2 * ENOUGH);
        server.kill();
        server = Launch::new(&[]).on(&dir).start();
        let tally = load.look(&server);
        assert_eq!(tally.losses(), 0, "{tally}: {:?}", tally.examples);
    }

    let long = |(_, value): &(Vec<u8>, Vec<u8>)| value.len() >= 1000;
    let mut earlier = dir.values();
    // Three are changed below, and most values are short.
    while earlier.values().filter(|value| value.len() >= 1000).count() < 3 {
        write_some(&server, &mut load, ENOUGH);
        earlier = dir.values();
    }
    write_some(&server, &mut load, 4 * ENOUGH);
    dir.clear();
    for (key, value) in &earlier {
        dir.place(std::str::from_utf8(key).expect("UTF-8"), value);
    }
    let tally = load.look(&server);
    for fault in [Fault::Missing, Fault::Older, Fault::Resurrected] {
        assert!(tally.of(fault) > 0, "{tally}");
    }

    let values = dir.values().into_iter().filter(long);
    let mut long = values.map(|(key, _)| String::from_utf8(key).expect("UTF-8"));
    let mut next = || long.next().expect("a long value");
    dir.set_len(&next(), 0);
    dir.set_len(&next(), 999);
    dir.place(&next(), vec![b'x'; 2000]);
    let tally = load.look(&server);
    let found = [Fault::Empty, Fault::Torn].map(|fault| tally.of(fault));
    assert_eq!((found, tally.losses()), ([1, 2], 3), "{tally}");
}
