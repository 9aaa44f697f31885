//! A disk that does not take the data of values for some seconds, and then is well again, while it takes all else: the
//! kernel drops what it could not write, tells that once, and has nothing to write any more. All that was acknowledged
//! is there nonetheless, read from the disk.

use crate::disk::{Disk, Kind, place};
use crate::journal::SMALL;
use crate::nbd::{BAD, Nbd, Weakness};
use crate::prelude::*;

const VALUES: usize = 20;

/// What comes when the disk is well again.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// One more value, of the same server.
    GoesOn,
    /// The server is killed, and starts again.
    IsKilled,
    /// The server is stopped, and starts again.
    IsStopped,
}

fn key(n: usize) -> String {
    format!("{}k{n}", if n.is_multiple_of(2) { "a/b/" } else { "" })
}

fn value(n: usize) -> Vec<u8> {
    [BAD.as_bytes(), &pattern(n as u64, 1_400)].concat()
}

fn is_ready(server: &TestServer) -> bool {
    server.ask("GET", "-/ready").status == 200
}

fn nothing_is_lost_on(kind: Kind, then: Then) {
    let what = format!("a disk that heals, {}, {then:?}", kind.name());
    let mut disk = needed!(available(&what, Nbd::of(kind, Weakness::Data)));
    for run in 0..scaled(1, 10) {
        // The journal has bytes of values too, and is on a disk that is well.
        let beside = place().expect("a place");
        let journal = beside.path().join("journal");
        let args = [&SMALL[..], &["--journal-dir", text(&journal)]].concat();
        let start = |disk: &Nbd| Launch::new(&args).on(&disk.dir()).start();
        let mut server = start(&disk);
        disk.fail_writes(true);
        for n in 0..VALUES {
            server.store(&key(n), value(n));
        }
        eventually("a checkpoint fails", || !is_ready(&server));
        disk.fail_writes(false);
        match then {
            Then::GoesOn => server.store("after", "value"),
            Then::IsKilled => {
                server.kill();
                server = start(&disk);
            }
            Then::IsStopped => {
                server.signal(Signal::TERM);
                server.exit();
                server = start(&disk);
            }
        }
        eventually("it is ready", || is_ready(&server));
        server.stop();
        disk.revive();
        let mut server = start(&disk);
        let is_lost = |n: &usize| server.get(&key(*n)).body != value(*n);
        let lost: Vec<_> = (0..VALUES).filter(is_lost).collect();
        assert_eq!(lost, [0; 0], "{what}, run {run}: of {VALUES}");
        server.stop();
    }
    let runs = scaled(1, 10);
    counted!("{what}: {runs} runs, {VALUES} values each: nothing lost");
}

#[test]
fn nothing_is_lost_on_a_disk_that_heals() {
    Kind::each(&[Kind::Ext4, Kind::Xfs], |kind| {
        for then in [Then::GoesOn, Then::IsKilled, Then::IsStopped] {
            nothing_is_lost_on(kind, then);
        }
    });
}
