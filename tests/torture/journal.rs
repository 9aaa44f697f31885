//! The journal of `--durability disk` at its own weak moments: power that is cut during a checkpoint, during a replay,
//! and on a full disk; and a server that is killed at each of its system calls, in turn, while it writes the journal,
//! ends, or replays.

use std::io::Write;

use rustix::fs::FallocateFlags;

use crate::disk::{Disk, Image, Kind};
use crate::power::{Moment, Report, moment};
use crate::prelude::*;

/// The smallest journal, whose segments are full soon.
pub(crate) const SMALL: [&str; 4] = ["--durability", "disk", "--journal-size", "16MiB"];

/// The calls that bring changes to the disk.
const CALLS: &str = "pwrite64 fdatasync fsync syncfs linkat renameat2 renameat rename write writev unlinkat mkdirat";

/// More calls of a kind than one thread of these servers makes.
const MOST: usize = 100;

const BOTH: [Kind; 2] = [Kind::Ext4, Kind::Xfs];

#[test]
fn cuts_of_power_in_checkpoints_lose_nothing() {
    tracing_only!("cuts of power in checkpoints");
    Image::each(&BOTH, "cuts of power in checkpoints", |what, mut disk| {
        let mut report = Report::of("journal");
        // Several segments are filled before each cut.
        report.more = 1500;
        let mut count = 0;
        for _ in 0..scaled(1, 50) {
            // The checkpoint is held up before it has synced anything, and after it has synced all.
            let delays = "inject=syncfs:delay_enter=50000:delay_exit=50000";
            let options = ["-e", "trace=syncfs", "-e", delays];
            let server = Launch::new(&SMALL).on(&disk.dir()).start();
            let tracer = Attached::to_thread(&server, "disk-checkpoint", &options);
            report.strike(&mut disk, Moment::Among, server);
            let mut checkpoints = tracer.lines();
            checkpoints.retain(|line| line.starts_with("syncfs"));
            assert!(!checkpoints.is_empty(), "no segment was full");
            count += checkpoints.len();
            report.look(Launch::new(&[]).on(&disk.dir()).start());
            report.assert_nothing_lost();
        }
        counted!("{what}: {report}; {count} checkpoints, each held up for 0.1 s");
    });
}

#[test]
fn cuts_of_power_in_replays_lose_nothing() {
    tracing_only!("cuts of power in replays");
    Image::each(&Kind::ALL, "cuts of power in replays", |what, mut disk| {
        let (mut report, mut replays, dir) = (Report::of("journal"), 0, disk.dir());
        for cycle in 0..scaled(1, 50) {
            let server = Launch::new(&["--durability", "disk"]).on(&dir).start();
            server.store("by-hand", "a value");
            report.strike(&mut disk, moment(cycle), server);
            for _ in 0..2 {
                // The server dies in the replay, and the power with it.
                let n = 1 + report.load.random().usize(..20);
                let trace = kills_at("rename,renameat,renameat2,linkat", n);
                let started = trace.around(Launch::new(&[])).on(&dir).start_or_end();
                replays += usize::from(started.is_err());
                disk.cut();
                if let Ok(mut server) = started {
                    server.kill();
                }
                disk.revive();
            }
            // A server that was started after a crash has versions that are 10 s ahead of the time.
            dir.place("by-hand", "by hand");
            dir.date("by-hand", SystemTime::now() + Duration::from_secs(20));
            let server = Launch::new(&[]).on(&dir).start();
            assert_eq!(server.get("by-hand").body, b"by hand");
            assert_eq!(server.ask("DELETE", "by-hand").status, 200);
            report.look(server);
            report.assert_nothing_lost();
        }
        counted!("{what}: {report}; {replays} in a replay");
    });
}

#[test]
fn cuts_of_power_on_a_full_disk_lose_nothing() {
    /// Room for the journal, and for some of the values.
    const LEFT: u64 = 26 << 20;
    let what = "cuts of power on a full disk";
    Image::each(&Kind::ALL, what, |what, mut disk| {
        let (mut report, mut refused) = (Report::of("journal"), 0);
        let ballast = disk.dir().outside("ballast");
        for cycle in 0..scaled(1, 50) {
            fs::create_dir_all(disk.dir().path()).expect("a directory");
            let file = File::create(&ballast).expect("a file");
            let free = rustix::fs::fstatvfs(&file).expect("room");
            let taken = (free.f_bavail * free.f_frsize).saturating_sub(LEFT).max(1);
            let filled = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, taken);
            filled.expect("a file that takes nearly all room");
            drop(file);
            let server = Launch::new(&SMALL).on(&disk.dir()).start();
            report.strike(&mut disk, moment(cycle), server);
            let server = Launch::new(&[]).on(&disk.dir()).start_or_end();
            let server = server.unwrap_or_else(|ended| {
                // There was no room for what is only in the journal, which is kept.
                refused += 1;
                assert!(ended.stderr.contains("journal"), "{}", ended.stderr);
                fs::remove_file(&ballast).expect("removed");
                Launch::new(&[]).on(&disk.dir()).start()
            });
            report.look(server);
            report.assert_nothing_lost();
            let _removed_before = fs::remove_file(&ballast);
        }
        let refused = format!("{refused} starts refused until there was room");
        counted!("{what}: {report}; {refused}");
    });
}

/// While it runs, it needs no room to remove keys, nor to start again. A full btrfs cannot even be synced: what is
/// in the files is to be written anew, and a start may be refused until there is room.
#[test]
fn a_server_killed_on_a_full_disk_serves_again() {
    Image::each(&Kind::ALL, "a kill on a full disk", |what, disk| {
        let ballast = disk.dir().outside("ballast");
        fs::create_dir_all(disk.dir().path()).expect("a directory");
        let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
        let (mut known, mut refused) = (Known::default(), 0);
        known.change_all(&server);
        // On a full btrfs the note of the mount cannot be changed by hand.
        let rounds = if disk.kind == Kind::Btrfs { 1 } else { 2 };
        for is_as_after_a_cut in [false, true].into_iter().take(rounds) {
            let mut file = File::create(&ballast).expect("a file");
            while file.write_all(&[7; 4096]).is_ok() {}
            file.sync_all().expect("synced");
            drop(file);
            assert_eq!(server.put("more", pattern(1, 40_000)).status, 507);
            assert!(known.change(&server, "k2", None), "while it is full");
            server.kill();
            if is_as_after_a_cut {
                disk.dir().forget_mount();
            }
            let started = Launch::new(&SMALL).on(&disk.dir()).start_or_end();
            server = started.unwrap_or_else(|ended| {
                let has_no_room = ended.stderr.contains("no space left");
                assert!(disk.kind == Kind::Btrfs && has_no_room, "{}", ended.stderr);
                refused += 1;
                fs::remove_file(&ballast).expect("removed");
                Launch::new(&SMALL).on(&disk.dir()).start()
            });
            known.assert_there(&server, what);
            assert!(known.change(&server, "k1", None), "removed");
            known.assert_there(&server, what);
            let _removed_before = fs::remove_file(&ballast);
            for key in ["k1", "k2"] {
                assert!(known.change(&server, key, Some(&pattern(2, 40_000))));
            }
        }
        counted!("{what}: it serves, removes and takes values again; {refused} starts refused");
    });
}

/// Tries with a kill at each n-th call of each kind, until there was none: then `survives` says so. How many kills
/// there were.
fn at_each_call(survives: impl Fn(Launch, &str) -> bool) -> usize {
    let mut kills = 0;
    for call in CALLS.split(' ') {
        for n in (1..MOST).step_by(scaled(3, 1)) {
            let trace = kills_at(call, n);
            if survives(trace.around(Launch::new(&SMALL)), &format!("{call} {n}")) {
                break;
            }
            kills += 1;
            assert!(n + 3 < MOST, "{call} does not end");
        }
    }
    kills
}

/// The server writes the same changes each time and is killed at the n-th call of each kind, also in the checkpoint of
/// its end. What it acknowledged is there after the next start, which reads its journal as after a cut of power.
#[test]
fn a_server_killed_at_any_call_for_the_journal_has_what_it_acknowledged() {
    let what = "kills at each call for the journal";
    tracing_only!(what);
    let kills = at_each_call(|launch, at| {
        let (dir, mut known) = (DataDir::temporary(), Known::default());
        if let Ok(mut server) = launch.on(&dir).start_or_end() {
            known.change_all(&server);
            server.signal(Signal::TERM);
            if server.exit() == Some(0) {
                return true;
            }
        }
        dir.forget_mount();
        let server = Launch::new(&SMALL).on(&dir).start();
        known.assert_there(&server, &format!("killed at {at}"));
        false
    });
    counted!("{what}: {kills}, and an orderly end after each last call");
    assert!(kills > 12, "{kills} kills");
}

/// The files lack what the journal has, as after a cut of power, and the server is killed at the n-th call of the
/// replay.
#[test]
fn a_replay_killed_at_any_call_is_made_good_by_the_next_start() {
    let what = "kills at each call of a replay";
    tracing_only!(what);
    let kills = at_each_call(|launch, at| {
        let (dir, mut known) = (DataDir::temporary(), Known::default());
        let mut server = Launch::new(&SMALL).on(&dir).start();
        known.change_all(&server);
        server.kill();
        known.values.keys().for_each(|key| dir.remove(key));
        dir.forget_mount();
        let is_whole = launch.on(&dir).start_or_end().is_ok();
        dir.forget_mount();
        let server = Launch::new(&SMALL).on(&dir).start();
        known.assert_there(&server, &format!("a replay killed at {at}"));
        is_whole
    });
    counted!("{what}: {kills}: nothing lost");
    assert!(kills > 6, "{kills} kills");
}

/// Has the thread die that makes the `n`th such call of its own, and the server with it.
fn kills_at(call: &str, n: usize) -> Trace {
    // With --seccomp-bpf strace does not send the signal.
    let calls = format!("trace={call}");
    let kill = format!("inject={call}:signal=KILL:when={n}");
    let options = ["-e", &calls, "-e", &kill];
    Trace::with(&options, "kills").expect("strace runs here")
}

/// What keys stand for, as far as it was acknowledged.
#[derive(Default)]
struct Known {
    values: BTreeMap<String, Vec<Vec<u8>>>,
}

/// No value: the key stands for nothing.
const NOTHING: &[u8] = b"nothing at all";

impl Known {
    /// Writes, replaces and removes small values, one after another, until the server is gone.
    fn change_all(&mut self, server: &TestServer) {
        for n in 0..12_usize {
            let key = format!("{}k{}", if n % 2 == 0 { "a/b/" } else { "" }, n % 5);
            let value = (n % 4 != 3).then(|| pattern(n as u64, 50 + 700 * n));
            if !self.change(server, &key, value.as_deref()) {
                return;
            }
        }
    }

    /// Whether it was acknowledged; else the key stands for either.
    fn change(&mut self, server: &TestServer, key: &str, value: Option<&[u8]>) -> bool {
        let may_be = self.values.entry(key.to_owned()).or_default();
        if may_be.is_empty() {
            may_be.push(NOTHING.to_vec());
        }
        may_be.push(value.unwrap_or(NOTHING).to_vec());
        let mut client = Client::new(server.addr);
        let method = if value.is_some() { "PUT" } else { "DELETE" };
        let Heard::Answer(answer) = client.hear(method, key, "", value.unwrap_or_default()) else {
            return false;
        };
        let is_made = answer.status == 200 || value.is_none() && answer.status == 404;
        assert!(is_made, "{method} {key}: {answer:?}");
        may_be.drain(..may_be.len() - 1);
        true
    }

    fn assert_there(&self, server: &TestServer, when: &str) {
        for (key, may_be) in &self.values {
            let answer = server.get(key);
            let is_gone = answer.status == 404;
            let found = if is_gone { NOTHING } else { &answer.body };
            let is_right = may_be.iter().any(|value| value == found);
            assert!(is_right, "{when}: {key} has {} bytes", found.len());
        }
    }
}

/// The disk need not know yet what a hand has removed or replaced shortly before: that does not keep out what was
/// acknowledged after it.
#[test]
fn what_a_hand_did_shortly_before_keeps_no_acknowledged_value_out() {
    let what = "changes by hand before a cut of power";
    Image::each(&Kind::ALL, what, |what, mut disk| {
        let dir = disk.dir();
        let start = || Launch::new(&["--durability", "disk"]).on(&dir).start();
        let mut server = start();
        for key in ["folder", "removed", "replaced", "deleted"] {
            server.store(key, "before");
        }
        server.stop();
        let mut server = start();
        for key in ["folder", "removed", "replaced", "deleted"] {
            dir.remove(key);
        }
        for key in ["replaced", "deleted"] {
            dir.place(key, "by hand");
        }
        for key in ["folder/key", "removed", "replaced"] {
            server.store(key, "acknowledged");
        }
        assert_eq!(server.ask("DELETE", "deleted").status, 200);
        disk.cut_under(&mut server);
        let server = start();
        for key in ["folder/key", "removed", "replaced"] {
            assert_eq!(server.get(key).body, b"acknowledged", "{what}: {key}");
        }
        assert_eq!(server.get("deleted").status, 404, "{what}");
    });
}
