//! Copies of a directory that are made while its server runs, by the programs that people make them with, and slowly in
//! several orders of the files: a server on each copy starts, and has of each key what was acknowledged before the copy
//! began, or something later.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use crate::disk::{Disk, Image, Kind, place};
use crate::prelude::*;

const WRITERS: usize = 8;

/// Of each writer.
const KEYS: usize = 6;

/// Values that are acknowledged while a slow copy has one file of the journal: more than fill a segment.
const MEANWHILE: u64 = 90;

/// How a copy is made.
#[derive(Clone, Copy, Debug)]
enum How {
    Cp,
    Rsync,
    Tar,
    /// File by file, in the order in which the directory has them, as `cp` and `tar`, but slowly.
    AsTheyLie,
    ByName,
    /// The values last.
    FromTheLastName,
    /// What says up to where the journal counts comes first.
    ControlFirst,
    ControlLast,
}

impl How {
    /// Whatever the programs say of files that changed meanwhile.
    fn copy(self, from: &Path, to: &Path, wait: &dyn Fn()) {
        let (source, target) = (text(from), text(to));
        let script = match self {
            Self::Cp => format!("cp -a {source} {target}"),
            Self::Rsync => format!("rsync -a {source}/ {target}/"),
            Self::Tar => {
                format!("mkdir -p {target}; tar -C {source} -cf - . | tar -C {target} -xf -")
            }
            _ => return self.copy_slowly(from, to, wait),
        };
        let output = Command::new("sh").args(["-c", &script]).output();
        output.expect("a shell");
    }

    fn copy_slowly(self, from: &Path, to: &Path, wait: &dyn Fn()) {
        // It goes with its last key.
        let Ok(entries) = fs::read_dir(from) else {
            return;
        };
        fs::create_dir_all(to).expect("a directory");
        let entries = entries.map_while(Result::ok);
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let is_control = |path: &Path| path.ends_with("control");
        match self {
            Self::ByName => paths.sort(),
            Self::FromTheLastName => paths.sort_by(|a, b| b.cmp(a)),
            Self::ControlFirst => paths.sort_by_key(|path| !is_control(path)),
            Self::ControlLast => paths.sort_by_key(|path| is_control(path)),
            _ => {}
        }
        for path in paths {
            let target = to.join(path.file_name().expect("a name"));
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                self.copy_slowly(&path, &target, wait);
                continue;
            }
            // With its times and attributes. It may be gone by now.
            let _ = run("cp", &["-a", text(&path), text(&target)]);
            if from.ends_with("journal") {
                wait();
            }
        }
    }
}

fn key(writer: usize, n: usize) -> String {
    match n % 3 {
        0 => format!("k{writer}-{n}"),
        1 => format!("shared/k{writer}-{n}"),
        _ => format!("own/{writer}/{n}/k"),
    }
}

/// The bytes say which round they are of; of each sixth round nothing is left.
fn value(writer: usize, n: usize, round: u64) -> Option<Vec<u8>> {
    let len = if n == 5 { 300_000 } else { 60_000 };
    let head = format!("{writer} {n} {round}\n").into_bytes();
    (round % 6 != 5).then(|| [head, pattern(round, len)].concat())
}

fn round_of(body: &[u8]) -> Option<u64> {
    let line = body.split(|&byte| byte == b'\n').next()?;
    let round = std::str::from_utf8(line).ok()?.split(' ').nth(2)?;
    round.parse().ok()
}

/// The last round of a key that was begun, and the last that was acknowledged.
#[derive(Default)]
struct Rounds {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

fn write(addr: std::net::SocketAddr, writer: usize, rounds: &[Rounds], over: &Done) {
    let mut client = Client::new(addr);
    while !over.is_said() {
        for (n, rounds) in rounds.iter().enumerate() {
            let round = rounds.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let status = match value(writer, n, round) {
                Some(value) => client.put(&key(writer, n), value).status,
                None => client.ask("DELETE", &key(writer, n)).status,
            };
            assert_eq!(status, 200, "round {round} of {}", key(writer, n));
            rounds.acknowledged.store(round, Ordering::SeqCst);
        }
    }
}

/// A copy, and of each key, by its writer, the rounds that may be in it.
fn copied(disk: &Image, how: How, to: &Path) -> Vec<(u64, u64)> {
    let args = ["--durability", "disk", "--journal-size", "16MiB"];
    let mut server = Launch::new(&args).on(&disk.dir()).start();
    let rounds: Vec<Vec<Rounds>> = (0..WRITERS)
        .map(|_| (0..KEYS).map(|_| Rounds::default()).collect())
        .collect();
    let over = Done::default();
    let count = |of: fn(&Rounds) -> &AtomicU64| -> Vec<u64> {
        let all = rounds.iter().flatten();
        all.map(|rounds| of(rounds).load(Ordering::SeqCst))
            .collect()
    };
    let (floor, ceiling) = thread::scope(|scope| {
        let _over = over.when_dropped();
        for (writer, rounds) in rounds.iter().enumerate() {
            let (addr, over) = (server.addr, &over);
            scope.spawn(move || write(addr, writer, rounds, over));
        }
        let acknowledged = || count(|rounds| &rounds.acknowledged);
        // The journal has gone round once.
        let sum = || acknowledged().iter().sum::<u64>();
        eventually("values are acknowledged", || {
            sum() > 400 && !acknowledged().contains(&0)
        });
        let floor = acknowledged();
        let wait = || {
            let enough = sum() + MEANWHILE;
            eventually("values are acknowledged meanwhile", || sum() >= enough);
        };
        how.copy(disk.dir().path(), to, &wait);
        (floor, count(|rounds| &rounds.begun))
    });
    server.stop();
    // The next copy begins with nothing.
    disk.dir().clear();
    floor.into_iter().zip(ceiling).collect()
}

/// What is wrong with this key of a copy, which may have one of these rounds.
fn wrong(
    server: &TestServer,
    writer: usize,
    n: usize,
    bounds: RangeInclusive<u64>,
) -> Option<String> {
    let key = key(writer, n);
    let Response { status, body, .. } = server.get(&key);
    let has = round_of(&body);
    let is_whole = |round: u64| value(writer, n, round).is_some_and(|v| v == body);
    let is_right = match status {
        404 => bounds
            .clone()
            .any(|round| value(writer, n, round).is_none()),
        _ => has.is_some_and(|round| bounds.contains(&round) && is_whole(round)),
    };
    (!is_right).then(|| format!("/{key} has {has:?} ({status}), not one of {bounds:?}"))
}

#[test]
fn a_server_starts_on_each_copy_made_while_another_runs() {
    use How::{AsTheyLie, ByName, ControlFirst, ControlLast, Cp, FromTheLastName, Rsync, Tar};
    let what = "copies of a directory whose server runs";
    let disk = needed!(available(what, Image::new(Kind::Ext4)));
    let (mut faults, mut copies, mut keys) = (Vec::new(), 0, 0);
    let by_hand = [
        AsTheyLie,
        ByName,
        FromTheLastName,
        ControlFirst,
        ControlLast,
    ];
    for how in [Cp, Rsync, Tar].into_iter().chain(by_hand) {
        for _ in 0..scaled(1, 10) {
            // On another file system, as a backup is.
            let target = place().expect("a place");
            let copy = DataDir::at(target.path().join("copy"));
            let bounds = copied(&disk, how, copy.path());
            copies += 1;
            let launch = Launch::new(&["--durability", "disk"]).on(&copy);
            let mut server = match launch.start_or_end() {
                Ok(server) => server,
                Err(ended) => {
                    faults.push(format!("{how:?}: {}", ended.stderr));
                    continue;
                }
            };
            keys += bounds.len();
            for (at, (floor, ceiling)) in bounds.into_iter().enumerate() {
                let fault = wrong(&server, at / KEYS, at % KEYS, floor..=ceiling);
                faults.extend(fault.map(|fault| format!("{how:?}: {fault}")));
            }
            server.store("after", "value");
            server.stop();
        }
    }
    counted!(
        "{what}: {copies} copies, {keys} keys, {} wrong",
        faults.len()
    );
    assert!(faults.is_empty(), "{faults:#?}");
}
