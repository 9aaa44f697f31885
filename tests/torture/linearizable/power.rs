//! The same registers while power is cut under them: with `--durability disk` no acknowledged change is lost, and of
//! two swaps of one version one is acknowledged.
//!
//! After each cut the changes of a key that were acknowledged, some of those without an answer, and what the key has
//! then must have an order. What was read or refused before counts for nothing: a client may meet a change that is not
//! on the disk yet.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::player::{Player, Rules, Stage};
use super::register::{Asked, Only, Told, Value, at};
use super::remote::operations;
use super::{CLIENTS, Counts, KEYS, check, gather};
use crate::disk::{Disk, Image, Kind};
use crate::prelude::*;

/// Operations before a cut, at least.
const ENOUGH: usize = 800;

/// Registers on one disk, over any number of cuts.
struct Registers {
    disk: Image,
    args: &'static [&'static str],
    stage: Stage,
    dice: Random,
    /// What each had after the last cut.
    found: [Value; KEYS],
    counts: Counts,
}

impl Registers {
    fn new(disk: Image, args: &'static [&'static str], seed: u64) -> Self {
        Self {
            disk,
            args,
            stage: Stage::new(Rules::Power),
            dice: Random::with_seed(seed),
            found: [None; KEYS],
            counts: Counts::default(),
        }
    }

    /// A cut of power among changes, while strace does this to the server, if anything.
    fn cut(&mut self, strace: &[&str]) {
        let mut server = Launch::new(self.args).on(&self.disk.dir()).start();
        let tracer = (!strace.is_empty()).then(|| Attached::to(&server, strace));
        let (stage, addr) = (&self.stage, server.addr);
        stage.ending.unsay();
        stage.fails.store(false, Ordering::Release);
        let enough = ENOUGH + self.dice.usize(..ENOUGH);
        let mut players = [(); CLIENTS].map(|()| Player::new(self.dice.fork()));
        thread::scope(|scope| {
            for player in &mut players {
                scope.spawn(move || player.play(stage, &mut Client::new(addr)));
            }
            let _ending = stage.ending.when_dropped();
            operations(stage, enough);
            stage.fails.store(true, Ordering::Release);
            self.disk.cut();
            server.kill();
        });
        tracer.into_iter().for_each(Attached::abandon);
        self.disk.revive();
        let mut server = Launch::new(&[]).on(&self.disk.dir()).start();
        let (mut reader, mut client) = (Player::new(self.dice.fork()), Client::new(server.addr));
        for key in 0..KEYS {
            reader.round(key, Asked::Get, "", stage, &mut client);
        }
        server.stop();
        self.judge(players.into_iter().chain([reader]).collect());
    }

    /// Judges what the last of the players has read, and goes on from there.
    fn judge(&mut self, players: Vec<Player>) {
        for (key, mut events) in gather(players).into_iter().enumerate() {
            let last = events.pop().expect("the last word");
            self.counts.events.extend(&events);
            let written = |version| at(0, 0, Asked::Put(version, Only::Always), Told::Done);
            let before = self.found[key].map(written);
            events.retain(|event| matches!(event.told, Told::Done | Told::Unknown));
            let history: Vec<_> = before.into_iter().chain(events).chain([last]).collect();
            self.counts.lies += check(key, &history, false);
            let Told::Read(found) = last.told else {
                panic!("{last:?} is no read");
            };
            self.found[key] = found;
        }
    }
}

fn no_change_is_lost_on(what: &str, disk: Image, args: &'static [&'static str], cuts: usize) {
    let can_be_slow = can_trace();
    if !can_be_slow {
        left_out(&format!("{what}, slow"), "strace does not run here");
    }
    let seed = seed("linearizable-power");
    let mut registers = Registers::new(disk, args, seed);
    // On a slow device more changes are on their way at once.
    let delay = "inject=fdatasync:delay_enter=20000";
    let slow = ["-e", "trace=fdatasync", "-e", delay];
    for cycle in 0..cuts {
        let is_slow = can_be_slow && cycle % 2 == 0;
        registers.cut(if is_slow { &slow } else { &[] });
    }
    let counts = registers.counts;
    let told = [Told::Done, Told::Refused, Told::Unknown].map(|told| counts.told(told));
    let ([changes, refused, unknown], lies) = (told, counts.lies);
    counted!(
        "{what}: {cuts} cuts, {changes} acknowledged changes, {refused} refused, {unknown} without an answer; an order for each key; \
         {lies} planted lies refused; seed {seed}"
    );
    let is_enough = changes > 20 * cuts && refused > 0 && unknown > 0 && lies > 0;
    assert!(is_enough, "too few to prove anything");
}

const DISK: &[&str] = &["--durability", "disk"];

#[test]
fn no_acknowledged_change_is_lost_to_a_power_cut() {
    Image::each(&Kind::ALL, "registers and power cuts", |what, disk| {
        no_change_is_lost_on(what, disk, DISK, scaled(2, 100));
    });
}

/// Each value and name is synced by itself there.
#[test]
fn no_acknowledged_change_is_lost_to_a_power_cut_without_a_journal() {
    const ARGS: &[&str] = &["--durability", "disk", "--journal", "off"];
    let what = "registers and power cuts, no journal";
    Image::each(&[Kind::Ext4], what, |what, disk| {
        no_change_is_lost_on(what, disk, ARGS, scaled(1, 20));
    });
}

/// The harness is shown to fail: what the server calls synced is lost.
#[test]
fn a_server_without_syncs_has_no_order() {
    let what = "registers without syncs";
    tracing_only!(what);
    let disk = needed!(available(what, Image::new(Kind::Ext4)));
    let mut registers = Registers::new(disk, DISK, seed("linearizable-power, planted"));
    let lie = "inject=fsync,fdatasync,syncfs:retval=0";
    let lies = ["-e", "trace=fsync,fdatasync,syncfs", "-e", lie];
    // Or the next server refuses to start on what is left.
    let cut = AssertUnwindSafe(|| (0..5).for_each(|_| registers.cut(&lies)));
    assert!(catch_unwind(cut).is_err(), "nothing is lost");
}
