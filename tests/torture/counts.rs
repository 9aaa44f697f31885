//! Nested bounds under clients that change values and whole folders, and a hand that places, writes in steps, moves and
//! removes beside them, over stops and kills: whenever all is at rest each bound counts what `du` does, holds what it
//! may, and the listing is the directory.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture counts` draws the same requests again.

use crate::prelude::*;

/// All values; those below `c/`, of which there is a number too; and a quota.
const BOUNDS: [(&str, &str, u64, usize); 3] = [
    ("", r#"prefix = "", max-size = "1MiB""#, 1 << 20, usize::MAX),
    ("c/", r#"prefix = "c/", max-keys = 60"#, u64::MAX, 60),
    (
        "q/",
        r#"prefix = "q/", max-size = "256KiB", full = "refuse""#,
        u64::MAX,
        usize::MAX,
    ),
];

const FOLDERS: [&str; 8] = ["c", "c/x", "c/x/y", "q", "q/y", "o", "o/z", "o/z/w"];

/// Where folders are moved to besides.
const AWAY: [&str; 4] = ["c/v", "q/v", "o/v", "v"];

const CLIENTS: u64 = 5;

/// On both sides of what the journal has, of a block, and of what is kept in memory.
const LENGTHS: [usize; 8] = [0, 1, 4_095, 4_097, 12_000, 20_000, 70_000, 150_000];

fn key(dice: &mut Random) -> String {
    format!("{}/{}", one_of(dice, &FOLDERS), dice.u8(..12))
}

/// A folder with its slash.
fn folder(dice: &mut Random) -> String {
    let all = [&FOLDERS[..], &AWAY].concat();
    format!("{}/", one_of(dice, &all))
}

/// What came of the requests, by method and status.
type Counts = BTreeMap<(&'static str, u16), usize>;

/// One client; false at the end of the server.
fn ask(client: &mut Client, dice: &mut Random, counts: &mut Counts) -> bool {
    let (key, other) = (key(dice), key(dice));
    let value = pattern(dice.u64(..), one_of(dice, &LENGTHS));
    let overwrite = one_of(dice, &["", "Overwrite: F\r\n"]);
    let to = |other: &str| format!("Destination: /{other}\r\n{overwrite}");
    let condition = one_of(
        dice,
        &["", "", "If-None-Match: *\r\n", "X-Delete-After: 1\r\n"],
    );
    let (method, path, lines, body) = match dice.u8(..20) {
        0..9 => ("PUT", key, condition.to_owned(), &value[..]),
        9 | 10 => ("GET", key, String::new(), &[][..]),
        11 | 12 => ("DELETE", key, String::new(), &[][..]),
        13 | 14 => ("MOVE", key, to(&other), &[][..]),
        15 => ("COPY", key, to(&other), &[][..]),
        16 => ("MKCOL", folder(dice), String::new(), &[][..]),
        17 => ("COPY", folder(dice), to(&folder(dice)), &[][..]),
        18 => ("MOVE", folder(dice), to(&folder(dice)), &[][..]),
        _ => (
            "DELETE",
            folder(dice),
            "Depth: infinity\r\n".to_owned(),
            &[][..],
        ),
    };
    let Heard::Answer(answer) = client.hear(method, &path, &lines, body) else {
        return false;
    };
    let status = answer.status;
    // A hand shortens a file that is read.
    let is_cut = status == 500 && answer.text().contains("cut short");
    let is_right = status < 500 || matches!(status, 503 | 507) || is_cut;
    assert!(
        is_right,
        "{method} /{path} {lines}: {status} {}",
        answer.text()
    );
    *counts.entry((method, status)).or_default() += 1;
    true
}

/// What a hand does at a time; where it cannot, it does nothing.
fn act(dir: &DataDir, dice: &mut Random) -> std::io::Result<()> {
    let (file, other) = (dir.file(key(dice)), dir.file(key(dice)));
    match dice.u8(..9) {
        0 | 1 => fs::write(file, pattern(dice.u64(..), one_of(dice, &LENGTHS)))?,
        // As `cp` and downloads write.
        2 | 3 => {
            let mut file = File::options().create(true).append(true).open(file)?;
            for _ in 0..3 {
                file.write_all(&pattern(1, 9_000))?;
                pass(Duration::from_millis(5));
            }
        }
        4 => fs::rename(file, other)?,
        5 => fs::remove_file(file)?,
        6 => File::options()
            .write(true)
            .open(file)?
            .set_len(dice.u64(..300_000))?,
        7 => fs::rename(dir.file(folder(dice)), dir.file(folder(dice)))?,
        _ => {
            let folder = dir.file(folder(dice));
            fs::create_dir_all(&folder)?;
            if dice.bool() {
                fs::remove_dir_all(folder)?;
            }
        }
    }
    Ok(())
}

/// The values below a prefix, and the bytes that they take.
fn taken(dir: &DataDir, prefix: &str) -> (usize, u64) {
    let names = dir.names().into_iter();
    let below = names.filter(|name| name.starts_with(prefix.as_bytes()));
    let files = below.filter_map(|name| fs::symlink_metadata(dir.file(name)).ok());
    let blocks = files
        .filter(fs::Metadata::is_file)
        .map(|file| file.blocks() * 512);
    blocks.fold((0, 0), |(keys, bytes), more| (keys + 1, bytes + more))
}

/// What differs between the counts of the bounds and the directory, and is not within a bound.
fn differs(server: &TestServer) -> Vec<String> {
    let scrape = Scrape::of(server.addr);
    let mut found = Vec::new();
    for (prefix, _, most, most_keys) in BOUNDS {
        let count = |name| scrape.count(name, &[("prefix", prefix)]);
        let counted = (
            count("data_server_bound_keys"),
            count("data_server_bound_bytes"),
        );
        let (keys, bytes) = taken(&server.dir, prefix);
        if counted != (keys as u64, bytes) || bytes > most || keys > most_keys {
            found.push(format!(
                "{prefix:?}: {counted:?} counted, du {keys}, {bytes}"
            ));
        }
    }
    found
}

/// Asserts that all counts are right, and the listing is the directory.
fn judge(what: &str, server: &TestServer) {
    let is_right = comes_true(|| differs(server).is_empty());
    assert!(is_right, "{what}: {:?}", differs(server));
    let is_right = comes_true(|| misses(server).is_empty());
    assert!(is_right, "{what}: {:?}", misses(server));
}

/// What differs between the listing and what is served; values end meanwhile, and lie there until the walk comes.
fn misses(server: &TestServer) -> Vec<String> {
    let listed = server.get("?limit=10000").json();
    let listed = listed["keys"].as_array().expect("keys").iter();
    let listed = listed.map(|key| key["key"].as_str().expect("a key").to_owned());
    let listed: BTreeSet<String> = listed.collect();
    let there = server.dir.values().into_keys();
    let there = there.map(|name| String::from_utf8(name).expect("text"));
    let all: BTreeSet<String> = listed.iter().cloned().chain(there).collect();
    let mut all = Vec::from_iter(all);
    all.retain(|name| listed.contains(name) != (server.get(name).status == 200));
    all
}

/// Lives of a server of this way, beside a hand if there is one.
fn live(way: &str, lives: usize, requests: usize, has_hand: bool) {
    let seed = seed(&format!("counts, {way}"));
    let dir = if way.ends_with("disk") {
        DataDir::temporary()
    } else {
        DataDir::in_memory()
    };
    let bounds = BOUNDS.map(|(_, bound, ..)| ["--bound", bound]).concat();
    let launch = || Launch::new(&[&*words(way), &bounds].concat()).on(&dir);
    let (mut counts, acts, mut evicted) = (Counts::new(), AtomicUsize::new(0), 0);
    let mut server = launch().start();
    for life in 0..lives {
        let done = Done::default();
        let addr = server.addr;
        let dice = |n: u64| nth(seed, life as u64 * 100 + n);
        thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|n| {
                scope.spawn(move || {
                    let (mut client, mut dice, mut counts) =
                        (Client::new(addr), dice(n), Counts::new());
                    let _all = (0..requests).all(|_| ask(&mut client, &mut dice, &mut counts));
                    counts
                })
            });
            let clients: Vec<_> = clients.collect();
            let (dir, acts, done) = (&dir, &acts, &done);
            let ends = done.when_dropped();
            if has_hand {
                scope.spawn(move || {
                    let mut dice = dice(99);
                    while !done.is_said() {
                        let acted = act(dir, &mut dice).is_ok();
                        acts.fetch_add(usize::from(acted), Ordering::Relaxed);
                        pass(Duration::from_millis(3));
                    }
                });
            }
            for client in clients {
                for (what, count) in client.join().expect("a client") {
                    *counts.entry(what).or_default() += count;
                }
            }
            drop(ends);
        });
        judge(&format!("{way}, life {life}, seed {seed}"), &server);
        evicted += Scrape::of(server.addr).count("data_server_removed_total", &[]);
        if life % 2 == 0 {
            server.kill();
        } else {
            server.stop();
        }
        server = launch().start();
        judge(&format!("{way}, start {life}, seed {seed}"), &server);
    }
    let all: usize = counts.values().sum();
    let of = |method: &str, status: u16| {
        let of = counts
            .iter()
            .filter(|((m, s), _)| *m == method && *s == status);
        of.map(|(_, count)| count).sum::<usize>()
    };
    let (moved, refused) = (of("MOVE", 201) + of("MOVE", 204), of("PUT", 507));
    let acts = acts.into_inner();
    counted!(
        "counts, {way}: {all} requests, {moved} moves, {refused} refused by a quota, {acts} acts by hand, {evicted} evicted, \
         {} times at rest: 0 wrong; seed {seed}",
        2 * lives
    );
    let is_enough = all > lives * requests && moved > 5 * lives && refused > 0 && evicted > 0;
    assert!(
        is_enough && (acts > 0 || !has_hand),
        "too little: {counts:?}"
    );
}

const WAYS: [&str; 4] = [
    "--durability os",
    "--durability os --listing-index 0",
    "--durability disk",
    "--durability disk --journal off",
];

#[test]
fn bounds_count_what_is_there_whatever_clients_do() {
    for way in WAYS {
        live(way, scaled(2, 20), scaled(250, 1_000), false);
    }
}

/// Without an index only an hourly count would see the hand.
#[test]
fn bounds_count_what_is_there_beside_a_hand() {
    for way in [WAYS[0], WAYS[2]] {
        live(way, scaled(2, 20), scaled(250, 1_000), true);
    }
}

/// The judge is shown to fail: without an index nobody sees what a hand does before the next count.
#[test]
fn a_count_that_is_not_right_is_found() {
    let bounds = BOUNDS.map(|(_, bound, ..)| ["--bound", bound]).concat();
    let server = TestServer::start(&[&["--listing-index", "0"], &bounds[..]].concat());
    server.store("c/x", "v");
    // The count of the start may have met the first of them.
    let mut files = 0;
    eventually("a file by hand is not counted", || {
        files += 1;
        server.dir.place(&format!("c/by-hand/{files}"), "v");
        differs(&server).len() == 2
    });
}
