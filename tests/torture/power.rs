//! T2: power is cut under load on ext4, xfs and btrfs, again and again. With `--durability disk` all that was
//! acknowledged is there afterwards; with `os` it is counted what is not.
//!
//! A cut falls among the writes, or right after the last one, when nothing later could have brought the names of earlier
//! ones to the disk, or when a stranger has made the file system record some of it.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::thread;

use rustix::process::Signal;

use crate::disk::{Disk, Image, Kind};
use crate::ledger::Tally;
use crate::load::{Load, Progress, Silence, Terms};
use crate::scale::{available, counted, scaled};
use crate::support::{Launch, TestServer, Trace, eventually, text};

/// Acknowledged writes, without which a cut counts for nothing.
pub(crate) const ENOUGH: usize = 100;

/// A disk that fails: what needs it may be refused, and is then made or not.
pub(crate) const FAILING_DISK: Terms = Terms {
    is_excused: |status| status >= 500,
    silence: Silence::Unknown,
};

/// What cuts of power did.
#[derive(Default)]
pub(crate) struct Report {
    /// Writes before each cut beside those that make it count.
    pub(crate) more: usize,
    pub(crate) cuts: usize,
    pub(crate) writes: usize,
    pub(crate) tally: Tally,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cuts, {} acknowledged writes, {}",
            self.cuts, self.writes, self.tally
        )
    }
}

/// When the power is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// While clients write.
    Among,
    /// Right after the last write.
    After,
    /// After that, and after a stranger has synced a file of its own: the file system may have recorded names by then
    /// whose bytes it has not.
    AfterAStranger,
}

impl Report {
    /// One cut of power, and the look at what is left.
    pub(crate) fn cut(
        &mut self,
        disk: &mut impl Disk,
        load: &mut Load,
        moment: Moment,
        launch: impl Fn() -> Launch,
    ) {
        self.strike(disk, load, moment, launch().on(&disk.dir()).start());
        self.look(Launch::new(&[]).on(&disk.dir()).start(), load);
    }

    /// One cut of power under `server`.
    pub(crate) fn strike(
        &mut self,
        disk: &mut impl Disk,
        load: &mut Load,
        moment: Moment,
        mut server: TestServer,
    ) {
        let enough = ENOUGH + self.more + load.random().place(3 * ENOUGH);
        let progress = Progress::under(FAILING_DISK);
        let writes = load.work(server.addr, &progress, || {
            progress.reach(enough);
            let writes = progress.acknowledged();
            if moment == Moment::Among {
                progress.let_break();
                disk.cut();
                progress.go_on_for(20);
            }
            writes
        });
        let writes = writes.expect("no broken promise before the power is back");
        assert!(
            writes >= ENOUGH,
            "{writes} writes before the cut count for nothing"
        );
        if moment == Moment::AfterAStranger {
            let stranger = File::create(disk.dir().outside("stranger"));
            let synced =
                stranger.and_then(|mut file| file.write_all(b"?").and_then(|()| file.sync_all()));
            synced.expect("a stranger's sync");
        }
        if moment != Moment::Among {
            disk.cut();
        }
        server.signal(Signal::KILL);
        server.exit();
        disk.revive();
        self.cuts += 1;
        self.writes += writes;
    }

    /// Looks at what is left, by a `server` that was started since.
    pub(crate) fn look(&mut self, mut server: TestServer, load: &mut Load) {
        self.tally.add(load.look(&server));
        server.store("after", "served again");
        assert_eq!(server.get("after").body, b"served again");
        assert_eq!(server.ask("DELETE", "after").status, 200);
        server.stop();
    }

    #[track_caller]
    pub(crate) fn assert_nothing_lost(&self, load: &Load) {
        let (seed, examples) = (load.seed, &self.tally.examples);
        assert_eq!(
            self.tally.losses(),
            0,
            "DATA_SERVER_TORTURE_SEED={seed}: {self}; {examples:?}"
        );
    }
}

/// Each moment in turn.
pub(crate) fn moment(cycle: usize) -> Moment {
    [Moment::Among, Moment::After, Moment::AfterAStranger][cycle % 3]
}

/// The disk of this kind, or a word on what is not tested.
fn disk(kind: Kind, what: &str) -> Option<Image> {
    available(&format!("{what} on {}", kind.name()), Image::new(kind))
}

fn nothing_acknowledged_is_lost_on(kind: Kind) {
    let Some(mut disk) = disk(kind, "cuts of power with --durability disk") else {
        return;
    };
    let mut load = Load::new("power");
    let mut report = Report::default();
    for cycle in 0..scaled(3, 100) {
        report.cut(&mut disk, &mut load, moment(cycle), || {
            Launch::new(&["--durability", "disk"])
        });
        report.assert_nothing_lost(&load);
    }
    counted(
        &format!("power cut, disk, {}", kind.name()),
        &format!("{report}; seed {}", load.seed),
    );
}

#[test]
fn disk_loses_nothing_to_a_power_cut_on_ext4() {
    nothing_acknowledged_is_lost_on(Kind::Ext4);
}

#[test]
fn disk_loses_nothing_to_a_power_cut_on_xfs() {
    nothing_acknowledged_is_lost_on(Kind::Xfs);
}

#[test]
fn disk_loses_nothing_to_a_power_cut_on_btrfs() {
    nothing_acknowledged_is_lost_on(Kind::Btrfs);
}

/// xfs calls the sync of a directory done when it has shut down and dropped the names instead. Here it shuts down
/// between the change of a name and that sync.
#[test]
fn a_sync_that_xfs_calls_done_after_shutting_down_is_not_acknowledged() {
    let what = "a shutdown between a change and its sync";
    let Some(mut disk) = disk(Kind::Xfs, what) else {
        return;
    };
    let dir = disk.dir();
    let options = [
        "-P",
        text(dir.path()),
        "-e",
        "inject=fsync:delay_enter=1000000",
    ];
    let Some(trace) = Trace::with(&options, what) else {
        return;
    };
    // With a journal nothing waits for the sync of a name.
    let launch = || Launch::new(&["--durability", "disk", "--journal", "off"]).on(&dir);
    let mut server = launch().start();
    server.store("removed", "value");
    server.stop();
    for removes in [false, true] {
        let mut server = trace.around(launch()).start();
        let answer = thread::scope(|scope| {
            let server = &server;
            let change = scope.spawn(move || {
                if removes {
                    server.ask("DELETE", "removed")
                } else {
                    server.put("new", "value")
                }
            });
            let is_made = || {
                if removes {
                    !dir.file("removed").exists()
                } else {
                    dir.file("new").exists()
                }
            };
            eventually("the name is changed", is_made);
            disk.cut();
            change.join().expect("an answer")
        });
        assert_eq!(answer.status, 500, "{answer:?}");
        server.signal(Signal::KILL);
        server.exit();
        disk.revive();
        assert!(
            dir.file("removed").exists() && !dir.file("new").exists(),
            "the change is lost"
        );
    }
}

/// Has so many writes acknowledged by a server that lacks nothing.
pub(crate) fn write_some(server: &TestServer, load: &mut Load, writes: usize) {
    let progress = Progress::under(Terms {
        is_excused: |_| false,
        silence: Silence::Unknown,
    });
    let worked = load.work(server.addr, &progress, || progress.reach(writes));
    worked.expect("no broken promise");
}

/// Brings values to the disk that the writes before the cut will replace and remove.
pub(crate) fn keep_some(disk: &mut impl Disk, load: &mut Load) {
    let mut server = Launch::new(&[]).on(&disk.dir()).start();
    write_some(&server, load, 2 * ENOUGH);
    assert_eq!(load.look(&server).losses(), 0, "before any cut");
    server.stop();
    disk.revive();
}

/// What `os` promises of a cut of power is that the server starts again, with no other names than those it was given,
/// and serves. Losses are counted.
#[test]
fn os_serves_again_after_a_power_cut_and_its_losses_are_counted() {
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let Some(mut disk) = disk(kind, "cuts of power with --durability os") else {
            continue;
        };
        let mut load = Load::new("power");
        let mut report = Report::default();
        for cycle in number..number + scaled(1, 30) {
            keep_some(&mut disk, &mut load);
            report.cut(&mut disk, &mut load, moment(cycle), || {
                Launch::new(&["--durability", "os"])
            });
        }
        counted(
            &format!("power cut, os, {}", kind.name()),
            &format!("{report}; seed {}", load.seed),
        );
    }
}
