//! T2: power is cut under load on ext4, xfs and btrfs, again and again. With `--durability disk` all that was
//! acknowledged is there afterwards; with `os` it is counted what is not.
//!
//! A cut falls among the writes, or right after the last one, when nothing later could have brought the names of
//! earlier ones to the disk, or when a stranger has made the file system record some of it.

use std::fmt;

use crate::disk::{Disk, Image, Kind, sync_of_a_stranger};
use crate::ledger::Tally;
use crate::load::{Load, Progress, Silence, Terms};
use crate::prelude::*;

/// Acknowledged writes, without which a cut counts for nothing.
pub(crate) const ENOUGH: usize = 100;

/// A disk that fails: what needs it may be refused, and is then made or not.
pub(crate) const FAILING_DISK: Terms = Terms {
    is_excused: |status| status >= 500,
    silence: Silence::Unknown,
};

/// The load that cuts of power meet, and what they did.
pub(crate) struct Report {
    pub(crate) load: Load,
    /// Writes before each cut beside those that make it count.
    pub(crate) more: usize,
    pub(crate) cuts: usize,
    pub(crate) writes: usize,
    pub(crate) tally: Tally,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, writes, .. } = self;
        let (tally, seed) = (&self.tally, self.load.seed);
        write!(
            f,
            "{cuts} cuts, {writes} acknowledged writes, {tally}; seed {seed}"
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
    /// After that, and after the sync of a stranger.
    AfterAStranger,
}

impl Report {
    pub(crate) fn of(test: &str) -> Self {
        Self {
            load: Load::new(test),
            more: 0,
            cuts: 0,
            writes: 0,
            tally: Tally::default(),
        }
    }

    /// One cut of power under a server with this durability, and the look at what is left.
    fn cut(&mut self, disk: &mut impl Disk, cycle: usize, durability: &str) {
        let launch = Launch::new(&["--durability", durability]);
        self.strike(disk, moment(cycle), launch.on(&disk.dir()).start());
        self.look(Launch::new(&[]).on(&disk.dir()).start());
    }

    /// One cut of power under `server`.
    pub(crate) fn strike(&mut self, disk: &mut impl Disk, moment: Moment, mut server: TestServer) {
        let enough = ENOUGH + self.more + self.load.random().usize(..3 * ENOUGH);
        let progress = Progress::under(FAILING_DISK);
        let writes = self.load.work(server.addr, &progress, || {
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
        assert!(writes >= ENOUGH, "{writes} writes count for nothing");
        if moment == Moment::AfterAStranger {
            sync_of_a_stranger(&disk.dir());
        }
        if moment != Moment::Among {
            disk.cut();
        }
        server.kill();
        disk.revive();
        self.cuts += 1;
        self.writes += writes;
    }

    /// Looks at what is left, by a `server` that was started since.
    pub(crate) fn look(&mut self, mut server: TestServer) {
        self.tally.add(self.load.look(&server));
        server.store("after", "served again");
        assert_eq!(server.get("after").body, b"served again");
        assert_eq!(server.ask("DELETE", "after").status, 200);
        server.stop();
    }

    #[track_caller]
    pub(crate) fn assert_nothing_lost(&self) {
        let Tally { examples, .. } = &self.tally;
        assert_eq!(self.tally.losses(), 0, "{SEED}: {self}; {examples:?}");
    }
}

/// Each moment in turn.
pub(crate) fn moment(cycle: usize) -> Moment {
    [Moment::Among, Moment::After, Moment::AfterAStranger][cycle % 3]
}

/// Cuts the power of a disk that keeps what it says, under servers with `--durability disk`.
pub(crate) fn nothing_acknowledged_is_lost(what: &str, disk: Result<impl Disk, String>) {
    let what = format!("{what}, disk");
    let mut disk = needed!(available(&what, disk));
    let mut report = Report::of("power");
    for cycle in 0..scaled(3, 100) {
        report.cut(&mut disk, cycle, "disk");
        report.assert_nothing_lost();
    }
    counted!("{what}: {report}");
}

/// What `os` promises of a cut of power is that the server starts again, with no other names than those it was given,
/// and serves. Losses are counted.
pub(crate) fn it_serves_again(
    what: &str,
    disk: Result<impl Disk, String>,
    first: usize,
) -> Option<Report> {
    let what = format!("{what}, os");
    let mut disk = available(&what, disk)?;
    let mut report = Report::of("power");
    for cycle in first..first + scaled(1, 30) {
        keep_some(&mut disk, &mut report.load);
        report.cut(&mut disk, cycle, "os");
    }
    counted!("{what}: {report}");
    Some(report)
}

#[test]
fn disk_loses_nothing_to_a_power_cut() {
    Image::each(&Kind::ALL, "power cut", |what, disk| {
        nothing_acknowledged_is_lost(what, Ok(disk));
    });
}

#[test]
fn os_serves_again_after_a_power_cut_and_its_losses_are_counted() {
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let lines = format!("power cut, {}", kind.name());
        it_serves_again(&lines, Image::new(kind), number);
    }
}

/// xfs calls the sync of a directory done when it has shut down and dropped the names instead. Here it shuts down
/// between the change of a name and that sync.
#[test]
fn a_sync_that_xfs_calls_done_after_shutting_down_is_not_acknowledged() {
    let what = "a shutdown of xfs between a change and its sync";
    let mut disk = needed!(available(what, Image::new(Kind::Xfs)));
    let dir = disk.dir();
    let delay = "inject=fsync:delay_enter=1000000";
    let options = ["-P", text(dir.path()), "-e", delay];
    let trace = needed!(Trace::with(&options, what));
    // With a journal nothing waits for the sync of a name.
    let launch = || Launch::new(&["--durability", "disk", "--journal", "off"]).on(&dir);
    let mut server = launch().start();
    server.store("removed", "value");
    server.stop();
    for (method, key) in [("PUT", "new"), ("DELETE", "removed")] {
        let mut server = trace.around(launch()).start();
        let answer = thread::scope(|scope| {
            let change = scope.spawn(|| match method {
                "PUT" => server.put(key, "value"),
                _ => server.ask(method, key),
            });
            let is_made = || dir.file(key).exists() == (method == "PUT");
            eventually("the name is changed", is_made);
            disk.cut();
            change.join().expect("an answer")
        });
        assert_eq!(answer.status, 500, "{answer:?}");
        server.kill();
        disk.revive();
        let (new, removed) = (dir.file("new").exists(), dir.file("removed").exists());
        assert!(removed && !new, "the change is lost");
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
fn keep_some(disk: &mut impl Disk, load: &mut Load) {
    let mut server = Launch::new(&[]).on(&disk.dir()).start();
    write_some(&server, load, 2 * ENOUGH);
    assert_eq!(load.look(&server).losses(), 0, "before any cut");
    server.stop();
    disk.revive();
}
