//! The order of uses over restarts, and what a kill leaves.

use super::{BLOCK, assert_has, comes_to, place_old, store_all};
use crate::support::prelude::*;

const FOUR: [&str; 3] = ["--max-size", "16KiB", "--evict-existing"];

/// A directory of four values, and a server of it that was asked for the two that were used longest ago.
fn used() -> (DataDir, TestServer) {
    let dir = DataDir::in_memory();
    place_old(&dir, &[("a", 40), ("b", 30), ("c", 20), ("d", 10)]);
    let server = Launch::new(&FOUR).on(&dir).start();
    for key in ["a", "b"] {
        assert_eq!(server.get(key).status, 200);
    }
    (dir, server)
}

/// Files alone do not tell of uses: as on a file system without times of access.
fn forget_accesses(dir: &DataDir) {
    for key in ["a", "b", "c", "d"] {
        let time = dir.modified(key);
        let file = File::options().write(true).open(dir.file(key));
        let times = fs::FileTimes::new().set_accessed(time);
        file.and_then(|file| file.set_times(times)).expect("times");
    }
}

#[test]
fn the_order_of_uses_holds_over_an_orderly_stop() {
    directory_only!("bounds");
    let (dir, mut server) = used();
    server.stop();
    forget_accesses(&dir);
    let server = Launch::new(&FOUR).on(&dir).start();
    store_all(&server, "e f");
    assert_has(&server, "a b e f");
}

#[test]
fn damaged_notes_of_uses_are_as_none() {
    directory_only!("bounds");
    for damage in [&b""[..], b"dsuses1\n\x01\x02", b"dsuses2\n", &[0xff; 5000]] {
        let (dir, mut server) = used();
        server.stop();
        forget_accesses(&dir);
        fs::write(dir.own("uses"), damage).expect("damage");
        let server = Launch::new(&FOUR).on(&dir).start();
        store_all(&server, "e f");
        assert_has(&server, "c d e f");
    }
}

#[test]
fn after_a_kill_nothing_is_above_the_bound_and_nothing_outside_of_it_is_gone() {
    directory_only!("bounds");
    for way in super::WAYS {
        let dir = DataDir::temporary();
        let bound = ["--bound", r#"prefix = "c/", max-size = "16KiB""#];
        let launch = || {
            Launch::new(&[&*words(way), &bound].concat())
                .on(&dir)
                .start()
        };
        let mut server = launch();
        store_all(&server, "other c/1 c/2 c/3 c/4 c/5");
        server.kill();
        // As after a bound that was lowered, or files that were placed meanwhile.
        dir.place_each("c/6 c/7", BLOCK);
        let server = launch();
        let is_within = || super::taken(&dir, "c/") <= 16 << 10;
        eventually("nothing is above the bound", is_within);
        assert_eq!(server.dir.names().len(), 5, "{:?}", server.dir.names());
        assert_eq!(server.get("other").body, BLOCK);
        comes_to(&server, "c/4 c/5 c/6 c/7 other");
    }
}
