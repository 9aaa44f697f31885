//! The disk as a bound: its bytes and its inodes make values go, only what lacks, only where that gives something, and
//! only for what comes.

use super::{BLOCK, metric, place_old};
use crate::support::prelude::*;

/// The bound is far away, and the floor of the disk near.
const NEARLY_FULL: [&str; 5] = [
    "--min-free",
    "8MiB",
    "--evict-existing",
    "--bound",
    r#"prefix = "c/", max-size = "1GiB""#,
];

const MIB: u64 = 1 << 20;

fn free(dir: &DataDir) -> u64 {
    let space = rustix::fs::statvfs(dir.path()).expect("the space");
    space.f_bavail * space.f_frsize
}

/// How many values there are.
fn count(server: &TestServer) -> usize {
    server.dir.names().len()
}

/// Without it a cache of small values filled the inodes, and refused each PUT for ever.
#[test]
fn inodes_that_run_out_make_values_go() {
    directory_only!("bounds");
    for way in ["--durability os", "--durability disk --journal off"] {
        let options = "size=100m,nr_inodes=300";
        let mount = needed!(Mount::tmpfs(options, "a cache without inodes"));
        let launch = Launch::new(&[&*words(way), &["--max-size", "50MiB"]].concat());
        let server = launch.on(&mount.dir()).start();
        let mut client = Client::new(server.addr);
        for n in 0..600 {
            let key = format!("{}/{n}", n % 7);
            let put = client.put(&key, [1; 1000]);
            assert_eq!(put.status, 200, "{way}, {n}: {}", put.text());
        }
        // Large ones, copies and folders want inodes as well.
        server.store("large", pattern(1, 300_000));
        let found = server.put_chunked("chunked", &pattern(2, 300_000)).status;
        assert_eq!(found, 200);
        let copied = server.request("COPY", "/large", "Destination: /copy/of/it\r\n", b"");
        assert_eq!(copied.status, 201);
        // An upload in parts wants two before its first byte.
        for (key, is_complete) in [("parts", "?0"), ("whole", "?1")] {
            let fill = |n| fs::write(server.dir.file(format!("{key}-fill-{n}")), "");
            let filled = (1..100_000).take_while(|n| fill(*n).is_ok()).count();
            let lines = format!("Upload-Complete: {is_complete}\r\n");
            let begun = Resumable::ask_to_create(&mut server.connect(), key, &lines, b"v");
            let is_begun = matches!(begun.status, 200 | 201);
            assert!(is_begun, "{way}, {key}, {filled}: {}", begun.text());
        }
        assert!(count(&server) > 150, "{} are left", count(&server));
        assert!(server.dir.file("4/599").exists() || server.dir.file("copy/of/it").exists());
    }
}

/// A quota, and values that no bound names, stay: there the disk is full.
#[test]
fn inodes_that_run_out_take_nothing_that_may_not_go() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs(
        "size=100m,nr_inodes=100",
        "a quota without inodes"
    ));
    let quota = r#"prefix = "q/", max-size = "50MiB", full = "refuse""#;
    let server = Launch::new(&["--bound", quota]).on(&mount.dir()).start();
    let statuses = (0..120).map(|n| server.put(&format!("q/{n}"), "v").status);
    let statuses: Vec<_> = statuses.collect();
    let stored = statuses.iter().filter(|&&status| status == 200).count();
    assert_eq!(statuses[119], 507);
    assert_eq!(count(&server), stored);
}

#[test]
fn a_disk_that_is_smaller_than_the_bound_makes_values_go() {
    directory_only!("bounds");
    for min_free in ["0", "2MiB"] {
        let mount = needed!(Mount::tmpfs(
            "size=12m",
            "a bound that is larger than the disk"
        ));
        let args = ["--min-free", min_free, "--max-size", "10GiB"];
        let server = Launch::new(&args).on(&mount.dir()).start();
        let mut client = Client::new(server.addr);
        for (len, puts) in [(1 << 20, 20), (20_000, 700)] {
            for n in 0..puts {
                let put = client.put(&format!("{len}/{n}"), pattern(n, len));
                assert_eq!(put.status, 200, "{min_free}, {len}, {n}: {}", put.text());
            }
        }
        let chunked = server.put_chunked("chunked", &pattern(1, 2 << 20));
        assert_eq!(chunked.status, 200, "{min_free}: {}", chunked.text());
    }
}

/// Starts with `count` values of a MiB below `c/` and a floor of 8 MiB, of a disk of this size.
fn of_large_values(size: &str, count: u64, what: &str) -> Option<(TestServer, Mount)> {
    let mount = Mount::tmpfs(size, what)?;
    let args = ["--min-free", "8MiB", "--max-size", "1GiB"];
    let server = Launch::new(&args).on(&mount.dir()).start();
    for n in 0..count {
        server.store(&format!("c/{n}"), pattern(n, 1 << 20));
    }
    Some((server, mount))
}

/// All of the value's length went, in steps of 64 values.
#[test]
fn no_more_goes_than_the_disk_lacks() {
    directory_only!("bounds");
    let what = "evictions of what lacks";
    let (server, _mount) = needed!(of_large_values("size=100m", 50, what));
    let beyond = free(&server.dir) - 8 * MIB;
    let len = usize::try_from(beyond + 3 * MIB).expect("small");
    server.store("large", vec![1; len]);
    let gone = 50 - (count(&server) - 1);
    // A quarter of the floor is kept free ahead of need.
    assert!((3..=3 + 2 + 4).contains(&gone), "{gone} of 1 MiB each");
    // An upload in parts as well, and a value that is received in chunks.
    let beyond = free(&server.dir) - 8 * MIB;
    let len = usize::try_from(beyond + 2 * MIB).expect("small");
    let before = count(&server);
    let mut raw = server.connect();
    let lines = format!("Upload-Length: {len}\r\n");
    let upload = Resumable::create(&mut raw, "parts", &lines, &vec![2; len / 2]);
    let rest = vec![2; len - len / 2];
    let done = upload.append(&mut raw, len / 2, true, &rest);
    assert_eq!(done.status, 200, "{}", done.text());
    let gone = before - (count(&server) - 1);
    assert!((2..=2 + 2 + 4).contains(&gone), "{gone} of 1 MiB each");
}

/// One head of sixty bytes emptied the cache.
#[test]
fn what_is_announced_and_does_not_come_makes_nothing_go() {
    directory_only!("bounds");
    let what = "uploads that are announced";
    let (server, _mount) = needed!(of_large_values("size=64m", 50, what));
    let heads = [
        put_head("announced", 40 << 20),
        put_head("later", 40 << 20).replace("\r\n\r\n", "\r\nUpload-Complete: ?1\r\n\r\n"),
        put_head("?archive=tar", 40 << 20),
    ];
    let mut held = Vec::new();
    for head in heads {
        let mut raw = server.connect();
        raw.send(head);
        raw.send([0; 1_000]);
        eventually("the server has it", || raw.is_taken());
        held.push(raw);
    }
    let in_flight = || Scrape::of(server.addr).only("data_server_uploads_in_flight");
    eventually("they are received", || in_flight() >= 2.0);
    server.store("other", "v");
    assert!(count(&server) >= 50, "{} are left", count(&server));
    // Nor what breaks off early.
    drop(held);
    eventually("they are over", || in_flight() < 1.0);
    assert!(count(&server) >= 50, "{} are left", count(&server));
}

/// Room for their bytes was made before the file system refused their names.
#[test]
fn values_that_can_get_no_name_make_nothing_go() {
    directory_only!("bounds");
    let what = "a full disk with an immutable folder";
    let mount = needed!(Mount::tmpfs("size=12m", what));
    let args = ["--min-free", "0", "--max-size", "1GiB"];
    let server = Launch::new(&args).on(&mount.dir()).start();
    server.store("closed/v", "v");
    for n in 0..9 {
        server.store(&format!("c/{n}"), pattern(n, 1 << 20));
    }
    fill(&server.dir, 12_000);
    let immutable = needed!(Immutable::new(server.dir.file("closed"), what));
    for key in ["closed/v", "closed/new"] {
        server.put(key, pattern(1, 300_000)).says(403, "");
        server.put(key, pattern(3, 20_000)).says(403, "");
        let chunked = server.put_chunked(key, &pattern(2, 300_000));
        assert_eq!(chunked.status, 403, "{key}");
    }
    assert_eq!(count(&server), 10);
    drop(immutable);
    server.store("closed/v", pattern(1, 300_000));
    assert!(count(&server) < 10, "there was room");
}

/// Asserts that values stop going while many are left, though the disk stays full.
#[track_caller]
fn it_ends(server: &TestServer, at_least: usize) {
    let mut before = count(server);
    eventually("no more goes", || {
        // The keeper looks each second: a time without a change is what is tested.
        pass(Duration::from_millis(2_500));
        let now = count(server);
        std::mem::replace(&mut before, now) == now
    });
    assert!(before >= at_least, "{before} are left");
}

/// Fills the disk beyond its floor.
fn fill(dir: &DataDir, floor: u64) {
    let file = File::create(dir.outside("fill")).expect("a file");
    while free(dir) >= floor {
        (&file).write_all(&[1; 8 << 10]).expect("room");
    }
}

const OLD: usize = 1_500;

/// A file system below the directory gives nothing to the one that is full.
#[test]
fn values_of_another_file_system_do_not_go_for_this_disk() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs(
        "size=32m",
        "a disk that is full beside another"
    ));
    let dir = mount.dir();
    fs::create_dir(dir.path()).expect("the directory");
    let tmpfs = words("mount -t tmpfs -o size=32m tmpfs");
    let other = Mounted::by(&tmpfs, &dir.file("c/other"));
    let other = needed!(available("another file system below", other));
    for n in 0..OLD {
        place_old(&dir, &[(&format!("c/other/{n}"), 600)]);
    }
    let server = Launch::new(&NEARLY_FULL).on(&dir).start();
    for n in 0..10 {
        server.store(&format!("c/{n}"), BLOCK);
    }
    fill(&dir, 8 * MIB);
    eventually("those of this disk are gone", || {
        !server.dir.file("c/9").exists()
    });
    it_ends(&server, OLD);
    server.put("c/more", vec![1; 100_000]).says(507, " left ");
    it_ends(&server, OLD);
    drop(server);
    other.end();
}

/// What goes has another name, which keeps its blocks, as in a snapshot: it went on until nothing was left.
#[test]
fn evictions_that_free_nothing_end() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs("size=32m", "evictions that free nothing"));
    let dir = mount.dir();
    fs::create_dir(dir.path()).expect("the directory");
    for n in 0..OLD {
        place_old(&dir, &[(&format!("c/{n}"), 600)]);
    }
    run(
        "cp",
        &["-al", text(&dir.file("c")), text(&dir.outside("links"))],
    )
    .expect("links");
    let server = Launch::new(&NEARLY_FULL).on(&dir).start();
    eventually("they are counted", || {
        metric(&server, "data_server_bound_keys") == OLD as u64
    });
    fill(&dir, 8 * MIB);
    // Some are tried.
    it_ends(&server, OLD / 2);
    let before = count(&server);
    for _ in 0..5 {
        server.put("c/more", vec![1; 100_000]).says(507, " left ");
    }
    let is_right = count(&server) >= before - 5 * 64;
    assert!(is_right, "{} are left", count(&server));
    it_ends(&server, OLD / 2 - 5 * 64);
    // When there is space again all goes on.
    fs::remove_file(dir.outside("fill")).expect("removed");
    eventually("there is room", || {
        server.put("c/more", vec![1; 100_000]).status == 200
    });
}

/// Of those that came together some were refused, though all that was stored could go for them.
#[test]
fn clients_at_the_floor_of_the_disk_are_not_refused_while_values_may_go() {
    directory_only!("bounds");
    let what = "clients at the floor of an ext4";
    let mount = needed!(Mount::ext4_of(64 << 20, what));
    let args = ["--min-free", "16MiB", "--max-size", "1GiB"];
    let server = Launch::new(&args).on(&mount.dir()).start();
    let next = AtomicUsize::new(0);
    let store = |clients: usize, puts: usize| {
        let end = next.load(Ordering::Relaxed) + puts;
        thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    let mut connection = server.connect();
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= end {
                            return;
                        }
                        // Small ones that the publisher makes room for, and large ones that do it themselves.
                        let value = pattern(n as u64, 1_000 + n * 7_919 % 99_000);
                        let stored = connection.put(&format!("c/{n}"), &value);
                        assert_eq!(stored.status, 200, "{clients} clients: {}", stored.text());
                    }
                });
            }
        });
    };
    store(8, 800);
    for clients in [1, 2, 4, 8, 16] {
        store(clients, scaled(200, 1_500));
    }
    assert!(count(&server) < 1_000, "the disk is not full");
    assert!(free(&server.dir) >= 15 * MIB, "below --min-free");
    // It was said some hundred times a second.
    for told in [
        "no more than --min-free is free, and uploads are refused: free space, or give a lower --min-free",
        "there is space again: uploads are taken",
    ] {
        assert_eq!(server.events(told).len(), 0, "{told}");
    }
    assert_eq!(server.ready(), (200, "ready\n".to_owned()));
}
