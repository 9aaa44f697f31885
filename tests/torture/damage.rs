//! What a journal meets that is damaged in any of its blocks, that is filled to a bound, that clocks step under, or
//! whose checkpoint finds no room: nothing that was acknowledged is lost in silence.

use std::io::Write;

use crate::clocks::faketime;
use crate::disk::{Disk, Image, Kind};
use crate::journal::SMALL;
use crate::prelude::*;

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
    disk.cut_under(&mut server);
}

/// How many changes are missing: values that are not there, and removed ones that are.
fn missing(server: &TestServer) -> (usize, usize) {
    let is_lost = |n: &usize| server.get(&key(*n)).body != pattern(*n as u64, 500);
    let is_back = |n: &usize| server.get(&removed(*n)).status != 404;
    let lost = (0..VALUES).filter(is_lost).count();
    (lost, (0..REMOVED).filter(is_back).count())
}

/// One thing that is done to the server's directory: what it is, how it is done, and of how many changes it cannot be
/// told then that they were acknowledged.
type Damage = (String, Box<dyn Fn(&Path)>, usize);

fn of_bytes(file: &str, what: &str, change: impl Fn(&mut Vec<u8>) + 'static) -> Damage {
    let path = file.to_owned();
    let apply = move |own: &Path| {
        let path = own.join(&path);
        let mut bytes = fs::read(&path).expect("a file");
        change(&mut bytes);
        fs::write(path, bytes).expect("written");
    };
    (format!("{file}: {what}"), Box::new(apply), 0)
}

fn removal(file: &str) -> Damage {
    let path = file.to_owned();
    let apply = move |own: &Path| {
        let path = own.join(&path);
        let gone = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        gone.expect("it was there");
    };
    (format!("{file}: removed"), Box::new(apply), 0)
}

/// Where blocks lie that are not all zeros.
fn used_blocks(segment: &[u8]) -> Vec<usize> {
    let blocks = segment.chunks(BLOCK).enumerate();
    let used = blocks.filter(|(_, block)| **block != [0; BLOCK][..block.len()]);
    used.map(|(n, _)| n * BLOCK).collect()
}

/// Each kind of block, and each kind of damage.
fn damages(own: &Path, random: &mut Random) -> Vec<Damage> {
    let files = journal_of(own).into_iter().map(|(path, bytes)| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), used_blocks(&bytes))
    });
    let is_segment = |(name, _): &(String, _)| name.parse::<u32>().is_ok();
    let mut segments: Vec<_> = files.filter(is_segment).collect();
    // The one in use first.
    segments.sort_by_key(|(_, blocks)| std::cmp::Reverse(blocks.len()));
    let (name, frames) = &segments[0];
    let segment = &*format!("journal/{name}");
    let (count, last) = (frames.len(), frames.len() - 1);
    let (middle, end) = (frames[count / 2], frames[last] + BLOCK);
    let mut all = Vec::new();
    for frame in [0, 1, count / 2, last - 1, last] {
        let start = frames[frame];
        let what = format!("frame {frame} of {count} is zeros");
        let zeros = move |bytes: &mut Vec<u8>| bytes[start..start + BLOCK].fill(0);
        let mut of_frame = vec![of_bytes(segment, &what, zeros)];
        for offset in [0, 10, 30, 50, 60, 80, 300] {
            if is_full() || random.u64(..3) == 0 {
                let (at, bit) = (start + offset, 1 << random.u64(..8));
                let what = format!("bit of byte {offset} of frame {frame} of {count}");
                of_frame.push(of_bytes(segment, &what, move |bytes| bytes[at] ^= bit));
            }
        }
        for damage in &mut of_frame {
            damage.2 = usize::from(frame == last);
        }
        all.extend(of_frame);
    }
    let wheres = ["at the first frame", "in the middle", "behind the last"];
    for (at, where_to) in [frames[0], middle, end].into_iter().zip(wheres) {
        let what = format!("cut short {where_to}");
        all.push(of_bytes(segment, &what, move |bytes| bytes.truncate(at)));
    }
    all.extend([
        of_bytes(segment, "a frame over the next one", move |bytes| {
            bytes.copy_within(middle..middle + BLOCK, middle + BLOCK);
        }),
        of_bytes(segment, "other bytes behind the last", move |bytes| {
            bytes[end..end + BLOCK].fill(0x5a);
        }),
        of_bytes(segment, "other bytes at its end", |bytes| {
            let len = bytes.len();
            bytes[len - BLOCK..].fill(0x5a);
        }),
        removal("journal"),
    ]);
    if let Some((other, _)) = segments.get(1) {
        let (first, second) = (segment.to_owned(), format!("journal/{other}"));
        let swap = move |own: &Path| {
            let [first, second, aside] = [&*first, &second, "journal/other"].map(|it| own.join(it));
            for (from, to) in [(&first, &aside), (&second, &first), (&aside, &second)] {
                fs::rename(from, to).expect("renamed");
            }
        };
        let what = "two segments have each other's name".to_owned();
        all.push((what, Box::new(swap), 0));
    }
    let others = words("journal/control journal/id journal-state clock").into_iter();
    let files = [segment].into_iter().chain(others);
    for file in files.filter(|file| own.join(file).exists()) {
        all.push(of_bytes(file, "all zeros", |bytes| bytes.fill(0)));
        all.push(of_bytes(file, "empty", Vec::clear));
        if file != "journal-state" {
            // Without it the directory has no journal, as when all of the server's own is removed.
            all.push(removal(file));
        }
        for at in [3, 25].into_iter().filter(|_| file != segment) {
            all.push(of_bytes(file, &format!("bit of byte {at}"), move |bytes| {
                let at = at.min(bytes.len() - 1);
                bytes[at] ^= 4;
            }));
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    run("cp", &["-a", text(from), text(to)]).expect("a copy");
}

fn journal_of(own: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(own.join("journal")).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    let mut files: Vec<_> = paths.map(read).collect();
    files.sort();
    files
}

/// What is wrong with how a server starts on this directory, if anything is.
fn tried(damage: &Damage, base: &Path, case: &DataDir, refused: &mut usize) -> Option<String> {
    let own = case.own("");
    let (_, apply, may_lack) = damage;
    apply(&own);
    let before = journal_of(&own);
    let lacks = |server: &TestServer, may_lack: usize| {
        let (lost, back) = missing(server);
        let told = format!("{lost} of {VALUES} values lost, {back} of {REMOVED} removals undone");
        (lost + back > may_lack).then_some(told)
    };
    let ended = match Launch::new(&SMALL).on(case).start_or_end() {
        Ok(server) => return lacks(&server, *may_lack),
        Err(ended) => ended,
    };
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
    let mut server = match Launch::new(&SMALL).on(case).start_or_end() {
        Ok(server) => server,
        Err(ended) => return Some(format!("does not serve again: {}", ended.stderr)),
    };
    let lacks = lacks(&server, 0);
    server.stop();
    lacks.map(|lacks| format!("refused, and with its bytes back: {lacks}"))
}

#[test]
fn damage_of_any_block_loses_nothing_in_silence() {
    let kinds = scaled(&[Kind::Ext4][..], &Kind::ALL);
    Image::each(kinds, "damage of a journal", |what, mut disk| {
        let seed = seed("damage");
        prepare(&mut disk);
        let base = disk.dir();
        let case = DataDir::at(base.outside("case"));
        let mut damages = damages(&base.own(""), &mut Random::with_seed(seed));
        // The replay of what is whole.
        damages.push(("nothing".to_owned(), Box::new(|_: &Path| {}), 0));
        let (mut wrong, mut refused) = (Vec::new(), 0);
        for damage in &damages {
            copy(base.path(), case.path());
            let fault = tried(damage, base.path(), &case, &mut refused);
            wrong.extend(fault.map(|fault| format!("{}: {fault}", damage.0)));
            fs::remove_dir_all(case.path()).expect("removed");
        }
        let (count, bad) = (damages.len(), wrong.len());
        let counts = format!("{count} kinds, {refused} starts refused, {bad} wrong");
        counted!("{what}: {counts}; seed {seed}");
        assert!(wrong.is_empty(), "{SEED}={seed}: {wrong:#?}");
    });
}

/// Values about as long as whole blocks, at the bound of what goes to the journal, with the longest keys, and groups
/// about as long as a frame may be.
#[test]
fn frames_at_each_bound_are_read_again() {
    let what = "frames at their bounds";
    let mut disk = needed!(available(what, Image::new(Kind::Ext4)));
    let longest = |n: usize| {
        let folders = [(); 4].map(|()| "x".repeat(200)).join("/");
        format!("{folders}/{n:0>220}")
    };
    assert_eq!(longest(1).len(), 1024);
    let mut lengths: Vec<usize> = (BLOCK - 180..BLOCK + 4).step_by(scaled(4, 1)).collect();
    lengths.extend((2 * BLOCK - 180..2 * BLOCK + 4).step_by(scaled(16, 1)));
    lengths.extend([0, 1, 65_535, 65_536, 65_537]);
    let short = lengths.iter().map(|&len| (format!("k{len}"), len));
    let long = lengths.iter().map(|&len| (longest(len), len));
    let mut writes: Vec<(String, usize)> = short.chain(long).collect();
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    let value = |len: usize| pattern(len as u64, len);
    for (key, len) in &writes {
        server.store(key, value(*len));
    }
    // Groups: what comes while one is synced is the next.
    let alone = writes.len();
    if can_trace() {
        let delay = "inject=fdatasync:delay_enter=100000";
        let _tracer = Attached::to(&server, &["-e", "trace=fdatasync", "-e", delay]);
        let fulls = [15, 16, 17].map(|clients| (clients, 65_536));
        let others = [(17, 61_600), (40, 65_536), (40, 65_537), (64, 20_000)];
        for (round, (clients, len)) in fulls.into_iter().chain(others).enumerate() {
            let group = (0..clients).map(|client| (format!("g{round}-{client}"), len));
            let group: Vec<_> = group.collect();
            thread::scope(|scope| {
                for (key, len) in &group {
                    scope.spawn(|| server.store(key, value(*len)));
                }
            });
            writes.extend(group);
        }
    } else {
        left_out("groups at the bound of a frame", "strace does not run here");
    }
    disk.cut_under(&mut server);
    let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
    let wrong = |(key, len): &&(String, usize)| server.get(key).body != value(*len);
    let wrong: Vec<_> = writes.iter().filter(wrong).collect();
    server.stop();
    let (all, grouped, lost) = (writes.len(), writes.len() - alone, wrong.len());
    counted!("{what}: {all} values, {grouped} in groups: {lost} lost");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The clock is set a day ahead, back, and behind, each time while the server is away after a cut of power.
#[test]
fn clocks_that_step_lose_nothing() {
    let what = "clocks that step";
    let library = needed!(available(what, faketime()));
    Image::each(scaled(&[Kind::Ext4], &Kind::ALL), what, |what, mut disk| {
        let (mut round, mut tags, mut wrong) = (0, Vec::new(), Vec::new());
        let disk_only = || Launch::new(&["--durability", "disk"]);
        for _ in 0..scaled(1, 10) {
            for step in ["+0d", "+1d", "+0d", "-1d", "-3650d", "+0d"] {
                let launch = disk_only().on(&disk.dir()).env("FAKETIME", step);
                // What is timed goes on as it is.
                let launch = launch.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                let mut server = launch.env("LD_PRELOAD", &library).start();
                if round > 0 {
                    wrong.extend(stepped(&server, round).map(|fault| format!("{step}: {fault}")));
                }
                round += 1;
                for key in ["put", "put", "swapped", "anew", "large", "f/flat"] {
                    let tag = (key, change(&server, key, round));
                    assert!(!tags.contains(&tag), "{step}: {tag:?} again");
                    tags.push(tag);
                }
                assert_eq!(server.put("gone", "value").status, 200);
                assert_eq!(server.ask("DELETE", "gone").status, 200);
                disk.cut_under(&mut server);
            }
        }
        let server = disk_only().on(&disk.dir()).start();
        wrong.extend(stepped(&server, round));
        drop(server);
        counted!("{what}: {round} cuts with a step, {} wrong", wrong.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

fn body(key: &str, round: usize) -> Vec<u8> {
    let len = if key == "large" { 200_000 } else { 700 };
    pattern(round as u64, len)
}

/// Changes it as its name says; the new tag.
fn change(server: &TestServer, key: &str, round: usize) -> String {
    let before = server.get(key);
    let tag = before.header("etag").filter(|_| key == "swapped");
    let condition = tag.map_or_else(String::new, |tag| format!("If-Match: {tag}\r\n"));
    if key == "anew" && before.status == 200 {
        assert_eq!(server.ask("DELETE", key).status, 200);
    }
    let (raw, body) = (&mut server.connect(), body(key, round));
    let answer = ask(raw, "PUT", &format!("/{key}"), &condition, &body);
    assert_eq!(answer.status, 200, "{key}");
    answer.must("etag").to_owned()
}

/// What is not as it was acknowledged in this round.
fn stepped(server: &TestServer, round: usize) -> impl Iterator<Item = String> {
    let keys = ["put", "swapped", "anew", "large", "f/flat", "gone"].into_iter();
    let is_right = move |key: &str| match key {
        "gone" => server.get(key).status == 404,
        _ => server.get(key).body == body(key, round),
    };
    let wrong = keys.filter(move |key| !is_right(key));
    wrong.map(move |key| format!("{key} of round {round}"))
}

/// The file system has no room for what it was to write, nor for what is written anew, until some is made.
#[test]
fn a_checkpoint_without_room_loses_nothing() {
    let what = "a checkpoint without room";
    tracing_only!(what);
    Image::each(&[Kind::Ext4, Kind::Xfs], what, |what, mut disk| {
        let cycles = scaled(2, 20);
        for cycle in 0..cycles {
            let value = |n: usize| pattern((n + cycle) as u64, 30_000);
            let is_ready = |server: &TestServer| server.ask("GET", "-/ready").status == 200;
            let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
            let fail = ["-e", "trace=syncfs", "-e", "inject=syncfs:error=ENOSPC"];
            let tracer = Attached::to(&server, &fail);
            for n in 0..VALUES {
                server.store(&key(n), value(n));
            }
            let ballast = disk.dir().outside("ballast");
            let mut file = File::create(&ballast).expect("a file");
            for block in [1 << 16, 512] {
                while file.write_all(&vec![7; block]).is_ok() {}
            }
            drop(file);
            eventually("a checkpoint fails", || !is_ready(&server));
            drop(tracer);
            // In half of the cycles there is room before the cut.
            if cycle % 2 == 0 {
                fs::remove_file(&ballast).expect("removed");
                server.store("after", "value");
                eventually("it is ready", || is_ready(&server));
            }
            disk.cut_under(&mut server);
            let _may_be_gone = fs::remove_file(&ballast);
            let mut server = Launch::new(&SMALL).on(&disk.dir()).start();
            let is_wrong = |n: &usize| server.get(&key(*n)).body != value(*n);
            let wrong = (0..VALUES).filter(is_wrong).count();
            assert_eq!(wrong, 0, "{what}, cycle {cycle}: of {VALUES} values");
            server.stop();
        }
        counted!("{what}: {cycles} cuts, {VALUES} values each: nothing lost");
    });
}
