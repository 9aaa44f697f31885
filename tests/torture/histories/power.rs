//! The same while power is cut: with `--durability disk` no acknowledged change is lost, and what moved is under one
//! name.
//!
//! After each cut the changes that were acknowledged, some of those without an answer, and what there is then must have
//! an order. What was read or refused before counts for nothing: a client may meet a change that is not on the disk
//! yet.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::client::Rules;
use super::{AT_ONCE, CLIENTS, Counts, PLAIN, Play, REQUESTS, addrs, clear, end_among, start};
use crate::disk::{Disk, Image, Kind, sync_of_a_stranger};
use crate::power::{Moment, moment};
use crate::prelude::*;
use crate::support::history::{Asked, Event, Told};

const RULES: Rules = Rules {
    is_cut: true,
    ..PLAIN
};

/// Histories on one disk, over any number of cuts.
struct Cuts {
    disk: Image,
    rules: Rules,
    args: &'static [&'static str],
    seed: u64,
    done: usize,
    counts: Counts,
}

impl Cuts {
    fn new(disk: Image, rules: Rules, args: &'static [&'static str], seed: u64) -> Self {
        Self {
            disk,
            rules,
            args,
            seed,
            done: 0,
            counts: Counts::default(),
        }
    }

    /// A cut of power among changes or after them, while strace does this to the server, if anything.
    fn cut(&mut self, strace: &[&str]) {
        let (mut dice, dir) = (nth(self.seed, self.done as u64), self.disk.dir());
        let mut server = start(self.rules, self.args, &dir);
        let tracer = (!strace.is_empty()).then(|| Attached::to(&server, strace));
        let mut plays = Play::some(self.done, self.rules, &dir, &mut dice);
        let all = AT_ONCE * CLIENTS * REQUESTS;
        let moment = moment(self.done);
        let enough = if moment == Moment::Among {
            dice.usize(all / 4..all * 3 / 4)
        } else {
            all
        };
        let addrs_of_first = addrs(&server, self.rules);
        end_among(&addrs_of_first, &mut plays, enough, || {
            if moment == Moment::AfterAStranger {
                sync_of_a_stranger(&dir);
            }
            self.disk.cut();
            server.kill();
        });
        tracer.into_iter().for_each(Attached::abandon);
        self.disk.revive();
        let mut server = start(self.rules, &[], &dir);
        for play in plays {
            let ended = play.stage.now();
            let mut actors = play.end(&addrs(&server, self.rules));
            for events in &mut actors {
                events.retain(|event| event.call >= ended || is_change(event));
                for event in events {
                    event.is_cut = true;
                }
            }
            self.counts.add(&actors, false);
        }
        clear(&server);
        server.stop();
        self.done += 1;
    }
}

/// True of what the disk keeps, if it was acknowledged.
fn is_change(event: &Event) -> bool {
    !event.is_pure() && event.told != Told::Taken
}

fn no_change_is_lost_on(
    what: &str,
    disk: Image,
    rules: Rules,
    args: &'static [&'static str],
    cuts: usize,
) {
    let can_be_slow = can_trace();
    if !can_be_slow {
        left_out(&format!("{what}, slow"), "strace does not run here");
    }
    let seed = seed("histories, power");
    let mut histories = Cuts::new(disk, rules, args, seed);
    // On a slow device more changes are on their way at once.
    let delay = "inject=fdatasync:delay_enter=20000";
    let slow = ["-e", "trace=fdatasync", "-e", delay];
    for cut in 0..cuts {
        let is_slow = can_be_slow && cut % 2 == 0;
        histories.cut(if is_slow { &slow } else { &[] });
    }
    let counts = histories.counts;
    counted!("{what}: {cuts} cuts: {counts}; seed {seed}");
    let moved = counts.done(|asked| matches!(asked, Asked::Move(..)));
    let folders = counts.done(|asked| matches!(asked, Asked::MoveFolder(_)));
    let unknown = counts.count(|event| event.told == Told::Unknown);
    // A slow disk has few moves of folders in few cuts.
    let has_moved = moved >= cuts && (folders >= cuts / 2 || cuts < 10);
    let is_enough = has_moved && unknown >= cuts && counts.lies > 0;
    assert!(is_enough, "too few to prove anything");
}

const DISK: &[&str] = &["--durability", "disk"];

#[test]
fn no_acknowledged_change_of_folders_and_values_is_lost_to_a_power_cut() {
    Image::each(&Kind::ALL, "histories and power cuts", |what, disk| {
        no_change_is_lost_on(what, disk, RULES, DISK, scaled(4, 100));
    });
}

/// Each value and name is synced by itself there.
#[test]
fn no_acknowledged_change_of_folders_and_values_is_lost_to_a_power_cut_without_a_journal() {
    const ARGS: &[&str] = &["--durability", "disk", "--journal", "off"];
    let what = "histories and power cuts, no journal";
    Image::each(&Kind::ALL, what, |what, disk| {
        no_change_is_lost_on(what, disk, RULES, ARGS, scaled(3, 60));
    });
}

/// What clients of S3 are told is kept as what others are: a 204 says that the object is gone.
#[test]
fn no_acknowledged_change_of_clients_of_s3_is_lost_to_a_power_cut() {
    const MIXED: Rules = Rules { s3: true, ..RULES };
    let what = "histories and power cuts, s3 clients";
    Image::each(&Kind::ALL, what, |what, disk| {
        no_change_is_lost_on(what, disk, MIXED, DISK, scaled(4, 60));
    });
}

/// The harness is shown to fail: what the server calls synced is lost.
#[test]
fn a_server_without_syncs_has_no_order() {
    let what = "histories without syncs";
    tracing_only!(what);
    let disk = needed!(available(what, Image::new(Kind::Ext4)));
    let mut histories = Cuts::new(disk, RULES, DISK, seed("histories, power, planted"));
    let lie = "inject=fsync,fdatasync,syncfs:retval=0";
    let lies = ["-e", "trace=fsync,fdatasync,syncfs", "-e", lie];
    // Or the next server refuses to start on what is left.
    let cut = AssertUnwindSafe(|| (0..5).for_each(|_| histories.cut(&lies)));
    assert!(catch_unwind(cut).is_err(), "nothing is lost");
}
