//! A directory at its bound under writers at once, killed again and again: what was acknowledged is there whole, or was evicted in its
//! turn; the disk never has more than the bound; and what no bound names is all there.

use crate::prelude::*;

const MOST: u64 = 512 << 10;
const WRITERS: usize = 8;

/// Values written before each kill: some times what there is room for.
const BEFORE_KILL: usize = 300;

/// Of two uses that are closer than this it is not known which the server saw first.
const TICK: Duration = Duration::from_millis(20);

/// A value that was acknowledged, of a key that is written once.
struct Stored {
    key: String,
    seed: u64,
    begun: Instant,
    ended: Instant,
}

fn len(seed: u64) -> usize {
    usize::try_from(seed * 7919 % (5 * 4096)).expect("small")
}

/// One writer, until the server is gone.
fn write(addr: SocketAddr, life: usize, writer: usize, count: &AtomicUsize) -> Vec<Stored> {
    let (mut client, mut stored) = (Client::new(addr), Vec::new());
    for n in 0.. {
        // Some in folders of their own; some that no bound names.
        let key = match n % 10 {
            9 => format!("kept/{life}-{writer}-{n}"),
            n if n % 3 == 0 => format!("c/{life}/{writer}/{n}/k"),
            _ => format!("c/{life}-{writer}-{n}"),
        };
        let key = key + &format!("-{n}");
        let (seed, begun) = (
            (life * 1_000_000 + writer * 10_000 + n) as u64,
            Instant::now(),
        );
        let Heard::Answer(answer) = client.hear("PUT", &key, "", &pattern(seed, len(seed))) else {
            return stored;
        };
        assert_eq!(answer.status, 200, "{key}: {}", answer.text());
        let ended = Instant::now();
        stored.push(Stored {
            key,
            seed,
            begun,
            ended,
        });
        count.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("a range without an end")
}

/// The bytes of the disk that the values of the bound take.
fn taken(dir: &DataDir) -> u64 {
    let names = dir.names().into_iter();
    let below = names.filter(|name| name.starts_with(b"c/"));
    let file = |name: Vec<u8>| fs::metadata(dir.file(name)).ok();
    let files = below.filter_map(file).filter(fs::Metadata::is_file);
    files.map(|file| file.blocks() * 512).sum()
}

/// Stops a server, and waits until no thread of it runs; a thread that waits for a disk makes no other change after that.
fn stop(server: &TestServer) {
    server.signal(Signal::STOP);
    eventually("all threads stand", || {
        let tasks = format!("/proc/{}/task", server.proc().0);
        let mut tasks = fs::read_dir(tasks).expect("its threads");
        tasks.all(|task| {
            let stat = task.and_then(|task| fs::read_to_string(task.path().join("stat")));
            stat.is_ok_and(|stat| stat.contains(") T "))
        })
    });
}

/// Fills the directory until the server is killed, and samples it; what was stored, and the most that it took.
fn fill(server: &mut TestServer, life: usize) -> (Vec<Stored>, u64) {
    let (count, mut most) = (AtomicUsize::new(0), 0);
    let (addr, dir) = (server.addr, server.dir.clone());
    let stored = thread::scope(|scope| {
        let count = &count;
        let writers = (0..WRITERS).map(|n| scope.spawn(move || write(addr, life, n, count)));
        let writers: Vec<_> = writers.collect();
        let is_enough = || count.load(Ordering::Relaxed) >= BEFORE_KILL;
        within(DEADLINE, || {
            stop(server);
            most = most.max(taken(&dir));
            server.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(10));
            is_enough()
        });
        server.kill();
        let ended = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"));
        ended.collect()
    });
    (stored, most)
}

/// Judges what there is; returns what is left of what was stored, and how many were evicted.
fn judge(what: &str, server: &TestServer, stored: Vec<Stored>) -> (Vec<Stored>, usize) {
    let mut evicted: Option<Stored> = None;
    let (mut left, mut gone) = (Vec::new(), 0);
    for value in stored {
        let asked = Instant::now();
        let answer = server.get(&value.key);
        if answer.status == 200 {
            let is_whole = answer.body == pattern(value.seed, len(value.seed));
            assert!(is_whole, "{what}: {} is torn", value.key);
            left.push((value, asked, Instant::now()));
            continue;
        }
        assert_eq!(answer.status, 404);
        assert!(value.key.starts_with("c/"), "{what}: {} is lost", value.key);
        gone += 1;
        if evicted.as_ref().is_none_or(|last| last.begun < value.begun) {
            evicted = Some(value);
        }
    }
    let values = left.iter().map(|(value, ..)| value);
    let bounded = values.filter(|value| value.key.starts_with("c/"));
    let oldest = bounded.min_by_key(|value| value.ended);
    if let (Some(evicted), Some(oldest)) = (evicted, oldest) {
        let is_in_turn = evicted.begun < oldest.ended + TICK;
        let (gone, kept) = (&evicted.key, &oldest.key);
        assert!(is_in_turn, "{what}: {gone} is gone, and {kept} is older");
    }
    // They were used now.
    let left = left.into_iter().map(|(value, begun, ended)| Stored {
        begun,
        ended,
        ..value
    });
    (left.collect(), gone)
}

#[test]
fn a_bounded_directory_that_is_killed_has_what_was_acknowledged_and_no_more_than_its_bound() {
    let ways = [
        "--durability os",
        "--durability disk",
        "--durability disk --journal off",
    ];
    let bound = ["--bound", r#"prefix = "c/", max-size = "512KiB""#];
    for way in ways {
        let dir = if way.ends_with("disk") {
            DataDir::temporary()
        } else {
            DataDir::in_memory()
        };
        let launch = || {
            Launch::new(&[&words(way)[..], &bound].concat())
                .on(&dir)
                .start()
        };
        let (mut server, mut left) = (launch(), Vec::new());
        let (mut evicted, mut most, lives) = (0, 0, scaled(2, 40));
        for life in 0..lives {
            let (stored, sampled) = fill(&mut server, life);
            most = most.max(sampled);
            server = launch();
            let at_start = taken(&dir);
            assert!(at_start <= MOST, "{way}: {at_start} after a kill");
            assert!(
                at_start > MOST / 2,
                "{way}: more is gone than was needed: {at_start}"
            );
            left.extend(stored);
            let (kept, gone) = judge(way, &server, left);
            (left, evicted) = (kept, evicted + gone);
        }
        counted!("bounds, {way}: {lives} kills, {evicted} evicted, at most {most} of {MOST} bytes");
        assert!(most <= MOST, "{way}: {most} bytes");
        assert!(
            most > MOST / 2 && evicted > 50 * lives,
            "{way}: too little to prove anything"
        );
    }
}
