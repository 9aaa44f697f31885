//! What a journal meets that is damaged in any of its blocks, that is filled to a bound, that clocks step under, or whose checkpoint finds
//! no room: nothing that was acknowledged is lost in silence.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::Signal;

use crate::disk::{Disk, Image, Kind};
use crate::random::{Random, seed};
use crate::scale::{available, counted, is_full, left_out, scaled};
use crate::support::{Attached, DataDir, Launch, TestServer, can_trace, eventually, pattern};
use crate::support::{run, text};

const SMALL: [&str; 4] = ["--durability", "disk", "--journal-size", "16MiB"];

/// What frames begin at multiples of, in bytes.
const BLOCK: usize = 4096;

const VALUES: usize = 60;
const REMOVED: usize = 20;

fn key(n: usize) -> String {
    format!("{}k{n:03}", if n.is_multiple_of(3) { "a/b/" } else { "" })
}

fn removed(n: usize) -> String {
    format!("removed/{n}")
}

/// Acknowledged values and removals that only the journal has, after a cut of power.
fn prepare(disk: &mut Image) {
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    for n in 0..REMOVED {
        server.store(&removed(n), "to be removed");
    }
    server.stop();
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    for n in 0..VALUES {
        server.store(&key(n), pattern(n as u64, 500));
    }
    for n in 0..REMOVED {
        assert_eq!(server.ask("DELETE", &removed(n)).status, 200);
    }
    cut(disk, &mut server);
}

fn cut(disk: &mut Image, server: &mut TestServer) {
    disk.cut();
    server.signal(Signal::KILL);
    server.exit();
    disk.revive();
}

/// How many changes are missing: values that are not there, and removed ones that are.
fn missing(server: &TestServer) -> (usize, usize) {
    let is_lost = |n: &usize| server.get(&key(*n)).body != pattern(*n as u64, 500);
    let is_back = |n: &usize| server.get(&removed(*n)).status != 404;
    let lost = (0..VALUES).filter(is_lost).count();
    (lost, (0..REMOVED).filter(is_back).count())
}

/// One thing that is done to the server's directory.
struct Damage {
    what: String,
    apply: Box<dyn Fn(&Path)>,
    /// Changes of which it cannot be told that they were acknowledged.
    may_lack: usize,
}

impl Damage {
    fn new(what: impl Into<String>, apply: impl Fn(&Path) + 'static) -> Self {
        Self {
            what: what.into(),
            apply: Box::new(apply),
            may_lack: 0,
        }
    }

    fn of_file(file: &str, what: &str, change: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        let path = file.to_owned();
        Self::new(format!("{file}: {what}"), move |own| {
            let path = own.join(&path);
            let mut bytes = fs::read(&path).expect("a file");
            change(&mut bytes);
            fs::write(path, bytes).expect("written");
        })
    }

    fn removes(file: &str) -> Self {
        let path = file.to_owned();
        Self::new(format!("{file}: removed"), move |own| {
            let path = own.join(&path);
            let gone = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            gone.expect("it was there");
        })
    }

    fn lacks(mut self, may_lack: usize) -> Self {
        self.may_lack = may_lack;
        self
    }
}

/// Where blocks lie that are not all zeros.
fn used_blocks(segment: &[u8]) -> Vec<usize> {
    let blocks = segment.chunks(BLOCK).enumerate();
    let used = blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0));
    used.map(|(n, _)| n * BLOCK).collect()
}

/// Each kind of block, and each kind of damage.
fn damages(own: &Path, random: &mut Random) -> Vec<Damage> {
    let entries = fs::read_dir(own.join("journal")).expect("a journal");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut segments: Vec<String> = names
        .filter_map(|name| name.ok().filter(|name| name.parse::<u32>().is_ok()))
        .collect();
    let blocks =
        |name: &String| used_blocks(&fs::read(own.join("journal").join(name)).expect("a segment"));
    // The one in use first.
    segments.sort_by_key(|name| {
        std::cmp::Reverse(blocks(name).iter().max().map_or(0, |_| blocks(name).len()))
    });
    let segment = format!("journal/{}", segments[0]);
    let frames = blocks(&segments[0]);
    let (count, last) = (frames.len(), frames.len() - 1);
    let end = frames[last] + BLOCK;
    let mut all = Vec::new();
    for frame in [0, 1, count / 2, last - 1, last] {
        for offset in [0, 10, 30, 50, 60, 80, 300] {
            if !is_full() && random.below(3) != 0 {
                continue;
            }
            let (at, bit) = (frames[frame] + offset, 1 << random.below(8));
            let what = format!("bit of byte {offset} of frame {frame} of {count}");
            let damage = Damage::of_file(&segment, &what, move |bytes| bytes[at] ^= bit);
            all.push(damage.lacks(usize::from(frame == last)));
        }
        let at = frames[frame];
        let what = format!("frame {frame} of {count} is zeros");
        let damage = Damage::of_file(&segment, &what, move |bytes| bytes[at..at + BLOCK].fill(0));
        all.push(damage.lacks(usize::from(frame == last)));
    }
    for (frame, what) in [
        (0, "cut short at the first frame"),
        (count / 2, "cut short in the middle"),
    ] {
        let at = frames[frame];
        all.push(Damage::of_file(&segment, what, move |bytes| {
            bytes.truncate(at);
        }));
    }
    let middle = frames[count / 2];
    all.extend([
        Damage::of_file(&segment, "cut short behind the last frame", move |bytes| {
            bytes.truncate(end);
        }),
        Damage::of_file(&segment, "a frame over the next one", move |bytes| {
            bytes.copy_within(middle..middle + BLOCK, middle + BLOCK);
        }),
        Damage::of_file(
            &segment,
            "other bytes behind the last frame",
            move |bytes| {
                bytes[end..end + BLOCK].fill(0x5a);
            },
        ),
        Damage::of_file(&segment, "other bytes at its end", |bytes| {
            let len = bytes.len();
            bytes[len - BLOCK..].fill(0x5a);
        }),
        Damage::of_file(&segment, "all zeros", |bytes| bytes.fill(0)),
        Damage::of_file(&segment, "empty", Vec::clear),
        Damage::removes(&segment),
        Damage::removes("journal"),
    ]);
    if let [first, second, ..] = &segments[..] {
        let (first, second) = (format!("journal/{first}"), format!("journal/{second}"));
        all.push(Damage::new(
            "two segments have each other's name",
            move |own| {
                let other = own.join("journal/other");
                fs::rename(own.join(&first), &other).expect("renamed");
                fs::rename(own.join(&second), own.join(&first)).expect("renamed");
                fs::rename(&other, own.join(&second)).expect("renamed");
            },
        ));
    }
    for file in ["journal/control", "journal/id", "journal-state", "clock"] {
        if !own.join(file).exists() {
            continue;
        }
        for at in [3, 25] {
            let flip = move |bytes: &mut Vec<u8>| {
                let at = at.min(bytes.len() - 1);
                bytes[at] ^= 4;
            };
            all.push(Damage::of_file(file, &format!("bit of byte {at}"), flip));
        }
        all.push(Damage::of_file(file, "all zeros", |bytes| bytes.fill(0)));
        all.push(Damage::of_file(file, "empty", Vec::clear));
        if file != "journal-state" {
            // Without it the directory has no journal, as when all of the server's own is removed.
            all.push(Damage::removes(file));
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    run("cp", &["-a", text(from), text(to)]).expect("a copy");
}

fn journal_of(own: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(own.join("journal")).into_iter().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    paths.into_iter().map(read).collect()
}

/// What is wrong with how a server starts on this directory, if anything is.
fn tried(damage: &Damage, base: &Path, case: &DataDir, refused: &mut usize) -> Option<String> {
    let own = case.path().join(".data-server");
    (damage.apply)(&own);
    let before = journal_of(&own);
    let lacks = |server: &TestServer| {
        let (lost, back) = missing(server);
        (lost + back > 0)
            .then(|| format!("{lost} of {VALUES} values lost, {back} of {REMOVED} removals undone"))
    };
    let mut server = match Launch::new(&SMALL).on(case).start_or_end() {
        Ok(server) => {
            let (lost, back) = missing(&server);
            return (lost + back > damage.may_lack)
                .then(|| lacks(&server))
                .flatten();
        }
        Err(ended) => {
            *refused += 1;
            let said = ended.stderr.lines().last().unwrap_or_default().to_owned();
            if ended.code != Some(1) || !said.contains("journal") && !said.contains("clock") {
                return Some(format!("ends with {:?}: {said}", ended.code));
            }
            if journal_of(&own) != before {
                return Some(format!("refused, and the journal was changed: {said}"));
            }
            // With its bytes back nothing is lost.
            fs::remove_dir_all(&own).expect("removed");
            copy(&base.join(".data-server"), &own);
            match Launch::new(&SMALL).on(case).start_or_end() {
                Ok(server) => server,
                Err(ended) => return Some(format!("does not serve again: {}", ended.stderr)),
            }
        }
    };
    let lacks = lacks(&server);
    server.stop();
    lacks.map(|lacks| format!("refused, and with its bytes back: {lacks}"))
}

#[test]
fn damage_of_any_block_loses_nothing_in_silence() {
    let kinds = scaled(&[Kind::Ext4][..], &Kind::ALL[..]);
    for &kind in kinds {
        let what = format!("damage of a journal on {}", kind.name());
        let Some(mut disk) = available(&what, Image::new(kind)) else {
            continue;
        };
        let seed = seed("damage");
        prepare(&mut disk);
        let base = disk.dir();
        // The replay of what is whole.
        let case = DataDir::at(base.outside("case"));
        let damages = damages(&base.path().join(".data-server"), &mut Random::new(seed));
        let (mut wrong, mut refused) = (Vec::new(), 0);
        let nothing = Damage::new("nothing", |_| {});
        for damage in std::iter::once(&nothing).chain(&damages) {
            copy(base.path(), case.path());
            if let Some(fault) = tried(damage, base.path(), &case, &mut refused) {
                wrong.push(format!("{}: {fault}", damage.what));
            }
            fs::remove_dir_all(case.path()).expect("removed");
        }
        let count = damages.len();
        counted(
            &what,
            &format!(
                "{count} kinds, {refused} starts refused, {} wrong; seed {seed}",
                wrong.len()
            ),
        );
        assert!(
            wrong.is_empty(),
            "DATA_SERVER_TORTURE_SEED={seed}: {wrong:#?}"
        );
    }
}

/// Values about as long as whole blocks, at the bound of what goes to the journal, with the longest keys, and groups about as long as
/// a frame may be.
#[test]
fn frames_at_each_bound_are_read_again() {
    let what = "frames at their bounds";
    let Some(mut disk) = available(what, Image::new(Kind::Ext4)) else {
        return;
    };
    let longest = |n: usize| {
        let folders = [(); 4].map(|()| "x".repeat(200)).join("/");
        format!("{folders}/{n:0>220}")
    };
    assert_eq!(longest(1).len(), 1024);
    let mut lengths: Vec<usize> = (BLOCK - 180..BLOCK + 4).step_by(scaled(4, 1)).collect();
    lengths.extend((2 * BLOCK - 180..2 * BLOCK + 4).step_by(scaled(16, 1)));
    lengths.extend([0, 1, 65_535, 65_536, 65_537]);
    let mut writes: Vec<(String, usize)> = lengths
        .iter()
        .map(|&len| (format!("k{len}"), len))
        .collect();
    writes.extend(lengths.iter().map(|&len| (longest(len), len)));
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    let value = |len: usize| pattern(len as u64, len);
    for (key, len) in &writes {
        server.store(key, value(*len));
    }
    // Groups: what comes while one is synced is the next.
    let mut grouped = 0;
    if can_trace() {
        let delay = [
            "-e",
            "trace=fdatasync",
            "-e",
            "inject=fdatasync:delay_enter=100000",
        ];
        let tracer = Attached::to(&server, &delay);
        for (round, &(clients, len)) in [
            (15, 65_536),
            (16, 65_536),
            (17, 65_536),
            (17, 61_600),
            (40, 65_536),
            (40, 65_537),
            (64, 20_000),
        ]
        .iter()
        .enumerate()
        {
            let server = &server;
            thread::scope(|scope| {
                for client in 0..clients {
                    scope.spawn(move || server.store(&format!("g{round}-{client}"), value(len)));
                }
            });
            writes.extend((0..clients).map(|client| (format!("g{round}-{client}"), len)));
            grouped += clients;
        }
        drop(tracer);
    } else {
        left_out("groups at the bound of a frame", "strace does not run here");
    }
    cut(&mut disk, &mut server);
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    let wrong = |(key, len): &&(String, usize)| server.get(key).body != value(*len);
    let wrong: Vec<_> = writes
        .iter()
        .filter(wrong)
        .map(|(key, len)| format!("{len}: {key:.20}"))
        .collect();
    server.stop();
    counted(
        what,
        &format!(
            "{} values, {grouped} in groups: {} lost",
            writes.len(),
            wrong.len()
        ),
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The clock is set a day ahead, back, and behind, each time while the server is away after a cut of power.
#[test]
fn clocks_that_step_lose_nothing() {
    let what = "clocks that step";
    let Some(library) = faketime() else {
        return left_out(what, "libfaketime is not installed");
    };
    let kinds = scaled(&[Kind::Ext4][..], &Kind::ALL[..]);
    for &kind in kinds {
        let what = format!("{what} on {}", kind.name());
        let Some(mut disk) = available(&what, Image::new(kind)) else {
            continue;
        };
        let mut tags = Vec::new();
        let (mut round, mut wrong) = (0, Vec::new());
        for _ in 0..scaled(1, 10) {
            for step in ["+0d", "+1d", "+0d", "-1d", "-3650d", "+0d"] {
                let launch = Launch::new(&["--durability", "disk"]).on(&disk.dir());
                let launch = launch.env("LD_PRELOAD", &library).env("FAKETIME", step);
                // What is timed goes on as it is.
                let mut server = launch.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").start();
                if round > 0 {
                    wrong.extend(stepped(&server, round).map(|fault| format!("{step}: {fault}")));
                }
                round += 1;
                for key in ["put", "put", "swapped", "anew", "large", "f/flat"] {
                    let tag = change(&server, key, round);
                    assert!(
                        !tags.contains(&(key, tag.clone())),
                        "{step}: {key} has {tag} again"
                    );
                    tags.push((key, tag));
                }
                assert_eq!(server.put("gone", "value").status, 200);
                assert_eq!(server.ask("DELETE", "gone").status, 200);
                cut(&mut disk, &mut server);
            }
        }
        let server = Launch::new(&["--durability", "disk"])
            .on(&disk.dir())
            .start();
        wrong.extend(stepped(&server, round));
        drop(server);
        counted(
            &what,
            &format!("{round} cuts with a step, {} wrong", wrong.len()),
        );
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// What has a program see another time. (The command of that name is not the parent of what it starts.)
fn faketime() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").ok()?.map_while(Result::ok);
    let mut paths = libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    paths.find(|path| path.exists())
}

fn body(key: &str, round: usize) -> Vec<u8> {
    let len = if key == "large" { 200_000 } else { 700 };
    pattern(round as u64, len)
}

/// Changes it as its name says; the new tag.
fn change(server: &TestServer, key: &str, round: usize) -> String {
    let before = server.get(key);
    let condition = match before.header("etag").filter(|_| key == "swapped") {
        Some(tag) => format!("If-Match: {tag}\r\n"),
        None => String::new(),
    };
    if key == "anew" && before.status == 200 {
        assert_eq!(server.ask("DELETE", key).status, 200);
    }
    let body = body(key, round);
    let head = format!(
        "PUT /{key} HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n{condition}\r\n",
        body.len()
    );
    let answer = server.connect().ask([head.as_bytes(), &body].concat());
    assert_eq!(answer.status, 200, "{key}");
    answer.must("etag").to_owned()
}

/// What is not as it was acknowledged in this round.
fn stepped(server: &TestServer, round: usize) -> impl Iterator<Item = String> {
    let keys = ["put", "swapped", "anew", "large", "f/flat"].into_iter();
    let is_wrong = move |key: &&str| server.get(key).body != body(key, round);
    let wrong: Vec<_> = keys
        .filter(is_wrong)
        .map(|key| format!("{key} of round {round}"))
        .collect();
    let gone = server.get("gone").status;
    wrong
        .into_iter()
        .chain((gone != 404).then(|| "gone is back".to_owned()))
}

/// The file system has no room for what it was to write, nor for what is written anew, until some is made.
#[test]
fn a_checkpoint_without_room_loses_nothing() {
    let what = "a checkpoint without room";
    if !can_trace() {
        return left_out(what, "strace does not run here");
    }
    for kind in [Kind::Ext4, Kind::Xfs] {
        let what = format!("{what} on {}", kind.name());
        let Some(mut disk) = available(&what, Image::new(kind)) else {
            continue;
        };
        for cycle in 0..scaled(2, 20) {
            let is_ready = |server: &TestServer| server.ask("GET", "-/ready").status == 200;
            let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
            let fail = ["-e", "trace=syncfs", "-e", "inject=syncfs:error=ENOSPC"];
            let tracer = Attached::to(&server, &fail);
            for n in 0..VALUES {
                server.store(&key(n), pattern((n + cycle) as u64, 30_000));
            }
            let ballast = disk.dir().outside("ballast");
            let mut file = File::create(&ballast).expect("a file");
            let block = vec![7; 1 << 16];
            while file.write_all(&block).is_ok() {}
            while file.write_all(&[7; 512]).is_ok() {}
            drop(file);
            eventually("a checkpoint fails", || !is_ready(&server));
            drop(tracer);
            // In half of the cycles there is room before the cut.
            if cycle % 2 == 0 {
                fs::remove_file(&ballast).expect("removed");
                server.store("after", "value");
                eventually("it is ready", || is_ready(&server));
            }
            cut(&mut disk, &mut server);
            let _may_be_gone = fs::remove_file(&ballast);
            let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
            let is_wrong =
                |n: &usize| server.get(&key(*n)).body != pattern((*n + cycle) as u64, 30_000);
            let wrong = (0..VALUES).filter(is_wrong).count();
            assert_eq!(
                wrong, 0,
                "{what}, cycle {cycle}: of {VALUES} acknowledged values"
            );
            server.stop();
        }
        counted(
            &what,
            &format!("{} cuts, {VALUES} values each: nothing lost", scaled(2, 20)),
        );
    }
}
