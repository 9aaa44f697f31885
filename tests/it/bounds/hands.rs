//! Files of other programs: what they place, remove and move is counted as what it is.

use super::{BLOCK, comes_to, start, store_all};
use crate::support::prelude::*;

const QUOTA: [&str; 2] = [
    "--bound",
    r#"prefix = "q/", max-size = "40KiB", full = "refuse""#,
];

/// Asserts that the quota has room for so many blocks, and no more.
#[track_caller]
fn has_room(server: &TestServer, blocks: usize) {
    let fits = || {
        // One that is refused changes nothing.
        let larger = server.put("q/probe", vec![1; blocks * 4096 + 1]).status;
        let largest = server.put("q/probe", vec![1; blocks * 4096]).status;
        let removed = server.ask("DELETE", "q/probe").status;
        [larger, largest, removed] == [507, 200, 200]
    };
    eventually(&format!("room for {blocks} blocks"), fits);
}

#[test]
fn files_that_are_placed_removed_and_moved_by_hand_are_counted() {
    directory_only!("bounds");
    let server = start(&QUOTA);
    let dir = &server.dir;
    store_all(&server, "q/a/1 q/a/2 q/b");
    has_room(&server, 7);
    dir.place("q/c/d/1", [1; 5000]);
    has_room(&server, 5);
    dir.remove("q/b");
    dir.place("q/b", [1; 9000]);
    has_room(&server, 3);
    dir.remove("q/c/d/1");
    has_room(&server, 5);
    dir.rename("q/a", "away");
    has_room(&server, 7);
    dir.rename("away", "q/back");
    has_room(&server, 5);
    let (from, to) = (dir.file("q/back"), dir.file("q/copy"));
    run("cp", &["-a", text(&from), text(&to)]).expect("a copy");
    has_room(&server, 3);
    fs::remove_dir_all(dir.file("q/copy")).expect("removed");
    fs::remove_file(dir.file("q/b")).expect("removed");
    has_room(&server, 8);
    symlink(dir.file("q/back/1"), dir.file("q/link")).expect("a link");
    has_room(&server, 8);
}

#[test]
fn what_is_placed_above_a_bound_that_evicts_is_evicted_by_itself() {
    directory_only!("bounds");
    let server = start(&["--max-size", "16KiB"]);
    store_all(&server, "a b c d");
    server.get("a");
    super::tick();
    server.dir.place_each("f/e f/f", BLOCK);
    let is_within = || super::taken(&server.dir, "") <= 16 << 10;
    eventually("nothing is above the bound", is_within);
    assert_eq!(server.dir.names().len(), 4);
    assert!(server.dir.file("a").exists(), "it was used");
}

/// As `cp`, `dd` and `wget` do: the file has its name before it has its bytes.
#[test]
fn a_file_that_is_written_in_place_is_counted_when_it_is_closed() {
    directory_only!("bounds");
    let server = start(&["--max-size", "1MiB"]);
    for key in ["a", "b", "c"] {
        server.store(key, vec![7; 128 << 10]);
        super::tick();
    }
    let is_counted = |bytes: u64| {
        let line = format!("data_server_bound_bytes{{prefix=\"\"}} {bytes}\n");
        eventually(&line, || server.get("-/metrics").text().contains(&line));
    };
    let mut file = File::create(server.dir.file("by-hand")).expect("a file");
    // The new name is looked at before there are bytes.
    eventually("it is listed", || {
        server.get("?").text().contains("by-hand")
    });
    is_counted(384 << 10);
    for _ in 0..10 {
        file.write_all(&vec![1; 64 << 10]).expect("bytes");
        server.get("?");
    }
    drop(file);
    is_counted(1 << 20);
    // And where it is written again under its name: then the oldest goes.
    let mut file = File::options()
        .append(true)
        .open(server.dir.file("by-hand"))
        .expect("a file");
    file.write_all(&vec![1; 64 << 10]).expect("bytes");
    drop(file);
    comes_to(&server, "b by-hand c");
    is_counted(960 << 10);
}

/// The files in it are there, and cannot be told.
#[test]
fn what_lies_in_a_folder_counts_as_long_as_the_server_may_read_it() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    let args = [&QUOTA[..], &["--listing-index", "1MiB"]].concat();
    dir.place("q/closed/below/k", BLOCK);
    let server = needed!(served_by_nobody_with(&dir, &args, "rights of folders"));
    let counts = |keys: u64| {
        let line = format!("data_server_bound_keys{{prefix=\"q/\"}} {keys}\n");
        eventually(&line, || server.get("-/metrics").text().contains(&line));
    };
    counts(1);
    for _ in 0..2 {
        chmod(server.dir.file("q/closed"), 0o700);
        counts(0);
        chmod(server.dir.file("q/closed"), 0o755);
        counts(1);
    }
}

#[test]
fn a_copied_folder_goes_by_the_times_of_its_files() {
    directory_only!("bounds");
    let server = start(&["--max-size", "24KiB", "--evict-existing"]);
    store_all(&server, "a b c");
    let outside = DataDir::at(server.dir.outside("other"));
    super::place_old(&outside, &[("o/1", 500), ("o/2", 400)]);
    let (from, to) = (outside.path().join("o"), server.dir.path().join("o"));
    run("cp", &["-a", text(&from), text(&to)]).expect("a copy");
    eventually("they are counted", || {
        let listing = server.get("?prefix=o/").text();
        listing.contains("o/1") && listing.contains("o/2")
    });
    store_all(&server, "d e");
    comes_to(&server, "a b c d e o/2");
}

#[test]
fn a_disk_with_no_more_than_min_free_evicts_first_and_refuses_then() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs("size=16m", "bounds on a disk that fills up"));
    let args = [
        "--min-free",
        "4MiB",
        "--bound",
        r#"prefix = "c/", max-size = "1GiB""#,
    ];
    let server = Launch::new(&args).on(&mount.dir()).start();
    let value = pattern(1, 1 << 20);
    server.store("kept", &value);
    for n in 0..30 {
        server.store(&format!("c/{n}"), &value);
    }
    // Small ones are given to the publisher as they are.
    for n in 0..300 {
        server.store(&format!("c/s{n}"), vec![1; 40_000]);
    }
    let free = rustix::fs::statvfs(server.dir.path()).expect("the space");
    assert!(free.f_bavail * free.f_frsize >= 4 << 20, "below --min-free");
    assert!(server.dir.file("c/s299").exists() && server.dir.file("kept").exists());
    // Where another program takes it all, nothing can be evicted any more.
    let fill = File::create(server.dir.outside("fill")).expect("a file");
    while (&fill).write_all(&value).is_ok() && server.dir.names().len() > 1 {}
    eventually("the values of the bound are gone", || {
        let _filled = (&fill).write_all(&value);
        server.dir.names() == [b"kept"]
    });
    server.put("c/more", &value).says(507, " left ");
    assert_eq!(server.get("kept").body, value);
}
