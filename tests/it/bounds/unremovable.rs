//! Values that cannot be removed are passed over: others go in their place, none is counted as room, and who writes
//! waits for none of it.

use super::{BLOCK, assert_has, place_old, store_all};
use crate::support::prelude::*;

const EVICTS: [&str; 3] = ["--max-size", "800KiB", "--evict-existing"];

/// A mount of a folder over itself, which only reads.
fn read_only(folder: &Path) -> Result<Mounted, String> {
    let bound = Mounted::by(&["mount", "--bind", text(folder)], folder)?;
    run("mount", &["-o", "remount,bind,ro", text(folder)])?;
    Ok(bound)
}

/// Old values below `old/`.
fn place_many(dir: &DataDir, count: u64) {
    for n in 0..count {
        place_old(dir, &[(&format!("old/{n}"), 10_000 - n)]);
    }
}

/// The statuses of PUTs of one block each, and how often each came.
fn put_many(server: &TestServer, count: usize) -> BTreeMap<u16, usize> {
    let (mut client, mut statuses) = (Client::new(server.addr), BTreeMap::new());
    for n in 0..count {
        let status = client.put(&format!("new/{n}"), BLOCK).status;
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

/// Where the values used longest ago cannot go, the others make room, and the bound holds.
fn others_go(dir: &DataDir, way: &str, what: &str, old: u64, puts: usize) {
    let launch = Launch::new(&[&*words(way), &EVICTS].concat()).on(dir);
    let server = launch.start();
    let statuses = put_many(&server, puts);
    let expected = BTreeMap::from([(200, puts)]);
    assert_eq!(statuses, expected, "{way}: {what}");
    let is_within = || super::taken(dir, "") <= 800 << 10;
    eventually("the bound holds", is_within);
    let left = fs::read_dir(dir.file("old")).expect("the old ones");
    assert_eq!(left.count() as u64, old, "{way}: {what}");
    let last = dir.file(format!("new/{}", puts - 1));
    assert!(last.exists(), "{way}: {what}: the value used last");
}

#[test]
fn values_of_a_read_only_mount_are_passed_over() {
    directory_only!("bounds");
    for way in super::WAYS {
        // More than are chosen at once.
        for &old in scaled(&[150][..], &[3, 100, 150]) {
            let dir = DataDir::temporary();
            place_many(&dir, old);
            let mounted = read_only(&dir.file("old"));
            let _mounted = needed!(available("a read-only mount", mounted));
            others_go(&dir, way, "a read-only mount", old, 100);
        }
    }
}

#[test]
fn values_that_are_mount_points_are_passed_over() {
    directory_only!("bounds");
    for way in super::WAYS {
        for &old in scaled(&[70][..], &[1, 70]) {
            let dir = DataDir::temporary();
            place_many(&dir, old);
            let mount = |n| {
                let file = dir.file(format!("old/{n}"));
                run("mount", &["--bind", text(&file), text(&file)])
            };
            let mounted: Result<Vec<_>, _> = (0..old).map(mount).collect();
            let unmount = || {
                for n in 0..old {
                    let _ = run("umount", &["-l", text(&dir.file(format!("old/{n}")))]);
                }
            };
            if available("values that are mount points", mounted).is_none() {
                unmount();
                return;
            }
            let judged = std::panic::catch_unwind(|| {
                others_go(&dir, way, "mount points", old, 200);
            });
            unmount();
            judged.unwrap_or_else(|why| std::panic::resume_unwind(why));
        }
    }
}

#[test]
fn values_of_an_immutable_folder_are_passed_over() {
    directory_only!("bounds");
    for way in super::WAYS {
        let dir = DataDir::temporary();
        place_many(&dir, 150);
        let _immutable = needed!(Immutable::new(dir.file("old"), "an immutable folder"));
        others_go(&dir, way, "an immutable folder", 150, 100);
    }
}

/// Each PUT wrote gigabytes to the journal, and none was answered.
#[test]
fn where_none_can_go_a_put_is_refused_after_a_few_tries() {
    directory_only!("bounds");
    for way in super::WAYS {
        let dir = DataDir::temporary();
        place_many(&dir, 250);
        let mounted = read_only(&dir.file("old"));
        let _mounted = needed!(available("a read-only mount", mounted));
        let launch = Launch::new(&[&*words(way), &EVICTS].concat()).on(&dir);
        let server = launch.start();
        let statuses = put_many(&server, 20);
        assert_eq!(statuses, BTreeMap::from([(507, 20)]), "{way}");
        let io = fs::read_to_string(format!("/proc/{}/io", server.proc().0));
        let io = io.unwrap_or_default();
        let written = io
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        let written: u64 = written.map_or(0, |bytes| bytes.parse().expect("a number"));
        // Of which its journal is most, from the start.
        assert!(written < 512 << 20, "{way}: {written} bytes written");
    }
}

/// What could not go is one warning, however often it is in the way.
#[test]
fn a_value_that_cannot_go_is_told_once() {
    directory_only!("bounds");
    let dir = DataDir::temporary();
    place_many(&dir, 3);
    let mounted = read_only(&dir.file("old"));
    let _mounted = needed!(available("a read-only mount", mounted));
    let launch = Launch::new(&EVICTS).on(&dir);
    let mut server = launch.start();
    put_many(&server, 500);
    server.stop();
    let log = server.log();
    let warnings = log.iter().filter_map(|line| Event::parse(line));
    let warnings = warnings
        .filter(|event| event.level.eq_ignore_ascii_case("warn"))
        .count();
    assert!((1..=3).contains(&warnings), "{warnings} warnings");
}

/// It goes once it can.
#[test]
fn a_value_that_could_not_go_goes_when_it_can() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(&dir, &[("old/a", 40), ("b", 30), ("c", 20)]);
    let mounted = read_only(&dir.file("old"));
    let mounted = needed!(available("a read-only mount", mounted));
    let args = ["--max-size", "16KiB", "--evict-existing"];
    let server = Launch::new(&args).on(&dir).start();
    store_all(&server, "d e");
    assert_has(&server, "c d e old/a");
    mounted.end();
    server.store("old/a", [8; 4096]);
    super::tick();
    store_all(&server, "f g h i");
    // Its folder, which a hand has made, may stay.
    let left: Vec<_> = dir.values().into_keys().collect();
    assert_eq!(left, [b"f", b"g", b"h", b"i"]);
}

/// All of them went, and the PUT was a 500 at its end.
#[test]
fn a_put_that_needs_more_evictions_than_any_step_has_is_made() {
    directory_only!("bounds");
    // In the full form more than 1,024 steps of 64.
    let count = scaled(6_000, 66_000);
    let bound = format!("max-size = {}", count * BLOCK.len());
    let value = vec![1; (count - 5) * BLOCK.len()];
    for way in &super::WAYS[..scaled(1, 2)] {
        let dir = DataDir::in_memory();
        for n in 0..count {
            dir.place(&format!("f/{}/{n}", n % 100), BLOCK);
        }
        let bound = ["--evict-existing", "--bound", &bound];
        let launch = Launch::new(&[&*words(way), &bound].concat()).on(&dir);
        let server = launch.start();
        // Begun while they are counted, so that the server evicts ahead at the same time: it was refused where that had
        // chosen the last of them.
        let mut stored = server.put("new", &value);
        eventually("they are counted", || {
            if stored.status == 503 {
                stored = server.put("new", &value);
            }
            stored.status != 503
        });
        assert_eq!(stored.status, 200, "{way}: {}", stored.text());
        assert_eq!(server.get("new").body, value);
        let left = server.dir.values().len();
        assert!(left <= 6, "{left} are left");
    }
}
