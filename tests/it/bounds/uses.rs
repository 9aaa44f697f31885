//! What counts as a use, and what is known of uses after a restart, a kill, a read of another program, and a folder's
//! way to and fro.

use super::{BLOCK, assert_has, comes_to, place_old, store_all, tick};
use crate::support::prelude::*;

const FOUR: [&str; 3] = ["--max-size", "16KiB", "--evict-existing"];

fn launch(dir: &DataDir) -> TestServer {
    Launch::new(&FOUR).on(dir).start()
}

/// A backup, a scan for viruses or grep is no client: what the server knows of uses is not changed by a time of access.
#[test]
fn a_read_of_another_program_is_no_use() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    let mut server = launch(&dir);
    store_all(&server, "a b c d");
    // Uses are noted by the second.
    pass(Duration::from_millis(1_100));
    server.get("a");
    server.stop();
    for key in ["a", "b", "c", "d"] {
        let time = dir.modified(key);
        let later = if key == "b" { SystemTime::now() } else { time };
        let times = fs::FileTimes::new().set_accessed(later).set_modified(time);
        let file = File::options().write(true).open(dir.file(key));
        file.and_then(|file| file.set_times(times)).expect("times");
    }
    let server = launch(&dir);
    store_all(&server, "e f g");
    assert_has(&server, "a e f g");
}

/// The order of one second is kept over an orderly restart.
#[test]
fn uses_of_one_second_keep_their_order_over_a_restart() {
    directory_only!("bounds");
    for _ in 0..3 {
        let dir = DataDir::in_memory();
        let mut server = launch(&dir);
        store_all(&server, "a b c d");
        pass(Duration::from_millis(1_100));
        for key in ["d", "b", "c", "a"] {
            server.get(key);
            tick();
        }
        server.stop();
        // As on a file system without times of access.
        for key in ["a", "b", "c", "d"] {
            let time = dir.modified("a");
            let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
            let file = File::options().write(true).open(dir.file(key));
            file.and_then(|file| file.set_times(times)).expect("times");
        }
        let server = launch(&dir);
        store_all(&server, "e");
        assert_has(&server, "a b c e");
        store_all(&server, "f");
        assert_has(&server, "a c e f");
    }
}

/// Uses are noted each minute; here, in a debug build, each tenth of a second. A kill loses what came after.
#[test]
fn after_a_kill_the_uses_of_the_minute_before_are_known() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(&dir, &[("a", 40), ("b", 30), ("c", 20), ("d", 10)]);
    let launch = || {
        let launch = Launch::new(&FOUR).on(&dir);
        launch.env("DATA_SERVER_USES", "100").start()
    };
    let mut server = launch();
    let noted = || fs::read(dir.own("uses")).unwrap_or_default();
    eventually("uses are noted", || !noted().is_empty());
    let before = noted();
    for key in ["a", "b"] {
        assert_eq!(server.get(key).status, 200);
    }
    eventually("these as well", || noted() != before);
    // Both of them: the first may have been noted alone.
    eventually("no more comes", || {
        let now = noted();
        pass(Duration::from_millis(300));
        noted() == now
    });
    server.kill();
    for key in ["a", "b"] {
        let time = dir.modified(key);
        let times = fs::FileTimes::new().set_accessed(time);
        let file = File::options().write(true).open(dir.file(key));
        file.and_then(|file| file.set_times(times)).expect("times");
    }
    let server = launch();
    store_all(&server, "e f");
    assert_has(&server, "a b e f");
}

/// It was taken for the youngest, of the year 2106.
#[test]
fn a_file_of_before_1970_was_used_longest_ago() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(&dir, &[("a", 40), ("b", 30), ("c", 20), ("d", 10)]);
    let early = SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    let times = fs::FileTimes::new().set_accessed(early).set_modified(early);
    let file = File::options().write(true).open(dir.file("d"));
    file.and_then(|file| file.set_times(times)).expect("times");
    // Twice, so that it is known by what the first has noted.
    launch(&dir).stop();
    let server = launch(&dir);
    store_all(&server, "e");
    assert_has(&server, "a b c e");
}

/// Its values were new to the account, and those in memory went on under the old entries: they were evicted though each
/// was read.
#[test]
fn uses_are_noted_of_a_folder_that_went_away_and_came_back() {
    directory_only!("bounds");
    let server = super::start(&["--max-size", "80KiB"]);
    let hot = ["hot/1", "hot/2", "hot/3"];
    for key in hot {
        server.dir.place(key, BLOCK);
    }
    let hits = || Scrape::of(server.addr).count("data_server_cache_hits_total", &[]);
    for key in hot {
        eventually("it is in memory", || {
            let before = hits();
            server.get(key);
            hits() > before
        });
    }
    let keys = || super::metric(&server, "data_server_bound_keys");
    eventually("they are counted", || keys() == 3);
    server.dir.rename("hot", "away");
    eventually("it is seen", || {
        server.get("?prefix=away/").text().contains("away/3")
    });
    server.dir.rename("away", "hot");
    eventually("it is seen", || {
        server.get("?prefix=hot/").text().contains("hot/3")
    });
    for n in 0..60 {
        for key in hot {
            assert_eq!(server.get(key).status, 200, "{key} in round {n}");
        }
        store_all(&server, &format!("cold/{n}"));
    }
}

/// In minutes.
const MONTH: u64 = 60 * 24 * 40;

/// An operator who allowed a size has not allowed an age.
#[test]
fn the_approval_of_a_size_removes_nothing_by_its_age() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    let size = r#"prefix = "c/", max-size = "1MiB""#;
    let age = r#"max-age = "30days", of = "write""#;
    let both = format!("{size}, {age}");
    // Of no values, so that it may remove from its first start on.
    let probe = format!("prefix = \"probe/\", {age}");
    let run = |bound: &str, more: &[&str]| {
        let args = [&["--bound", bound, "--bound", &probe], more].concat();
        Launch::new(&args).on(&dir).start()
    };
    let mut server = run(size, &[]);
    store_all(&server, "c/1 c/2 c/3");
    server.stop();
    place_old(&dir, &[("c/1", MONTH), ("c/2", MONTH)]);
    place_old(&dir, &[("probe/x", MONTH)]);
    let mut server = run(&both, &[]);
    eventually("ages are looked at", || !dir.file("probe/x").exists());
    let _may_be_gone = fs::remove_dir(dir.file("probe"));
    assert_has(&server, "c/1 c/2 c/3");
    server.stop();
    let mut server = run(&both, &["--evict-existing"]);
    comes_to(&server, "c/3");
    server.stop();
    // What was allowed once stays so, also when the size changes.
    place_old(&dir, &[("c/4", MONTH)]);
    let smaller = both.replace("1MiB", "512KiB");
    let server = run(&smaller, &[]);
    comes_to(&server, "c/3");
}

/// Reads and tries of conditions prolong what counts from the last use, and not what counts from the writing.
#[test]
fn a_304_and_a_head_are_uses_of_an_age() {
    directory_only!("bounds");
    let of_use = r#"prefix = "u/", max-age = "3s""#;
    let of_write = r#"prefix = "w/", max-age = "3s", of = "write""#;
    let server = super::start(&["--bound", of_use, "--bound", of_write]);
    store_all(&server, "w/read w/idle u/read u/idle u/head");
    let tag = server.ask("HEAD", "u/read").must("etag").to_owned();
    let lines = format!("If-None-Match: {tag}\r\n");
    let ask = |method, key: &str, lines: &str| {
        server
            .request(method, &format!("/{key}"), lines, b"")
            .status
    };
    let gone = within(DEADLINE, || {
        let asked = [ask("GET", "u/read", &lines), ask("HEAD", "u/head", "")];
        assert_eq!(asked, [304, 200]);
        ask("GET", "w/read", "");
        pass(Duration::from_millis(50));
        let gone = ["w/read", "w/idle", "u/idle"];
        gone.iter().all(|key| !server.dir.file(key).exists())
    });
    assert!(gone, "left: {:?}", server.dir.names());
    assert_has(&server, "u/head u/read");
}
