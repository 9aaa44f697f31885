//! A restore moved the directory away and replaced it while the server ran: PUTs were acknowledged into the moved one,
//! and readiness was 200.

use crate::support::prelude::*;

/// A 503 with the reason in one line.
#[track_caller]
fn assert_displaced(answer: &Response, what: &str) {
    answer.says(503, what);
    assert_eq!(answer.text().lines().count(), 1);
}

#[track_caller]
fn assert_writes_are_refused(server: &TestServer, what: &str) {
    for value in [&b"lost"[..], &pattern(1, 300_000)] {
        for key in ["k", "new"] {
            assert_displaced(&server.put(key, value), what);
        }
    }
    // A large value is refused before it is received.
    assert_displaced(&server.connect().ask(put_head("large", 5_000_000)), what);
    assert_displaced(&server.ask("DELETE", "k"), what);
    // A probe of the disk is valid for a second.
    eventually("it is not ready", || {
        let (status, why) = server.ready();
        status == 503 && why.starts_with("not ready: ") && why.contains(what)
    });
    assert_eq!(server.get("-/healthz").status, 200);
}

#[track_caller]
fn assert_comes_back(server: &TestServer) {
    server.store("k", "back");
    assert_eq!(server.get("k").body, b"back");
    eventually("it is ready again", || server.ready().0 == 200);
    assert_eq!(server.ask("DELETE", "k").status, 200);
    server.store("k", "old");
}

fn serving_old() -> TestServer {
    let server = TestServer::start(&["--min-free", "0"]);
    server.store("k", "old");
    server
}

#[test]
fn puts_into_a_moved_directory_are_503() {
    directory_only!("hands in the directory");
    let server = serving_old();
    let (dir, aside) = (server.dir.path(), server.dir.outside("aside"));
    for restored in [true, false] {
        fs::rename(dir, &aside).expect("DIR moved away");
        if restored {
            fs::create_dir(dir).expect("another in its place");
            fs::write(dir.join("k"), "restored").expect("a value restored");
        }
        assert_writes_are_refused(&server, "moved or replaced");
        assert_eq!(server.get("k").body, b"old", "reads go on");
        assert_eq!(fs::read(aside.join("k")).expect("the value"), b"old");
        assert!(!aside.join("new").exists() && !dir.join("new").exists());
        if restored {
            fs::remove_dir_all(dir).expect("the other removed");
        }
        fs::rename(&aside, dir).expect("DIR moved back");
        assert_comes_back(&server);
    }
    let told = server.events("the data directory is back: writing goes on");
    assert_eq!(told.len(), 2, "it is said once each time");
    server.dir.assert_holds(&["k"]);
}

#[test]
fn a_second_server_on_the_new_directory_stops_the_first() {
    directory_only!("hands in the directory");
    let server = serving_old();
    let (dir, aside) = (server.dir.path(), server.dir.outside("aside"));
    fs::rename(dir, &aside).expect("DIR moved away");
    fs::create_dir(dir).expect("another in its place");
    let second = Launch::new(&[]).on(&server.dir).start();
    second.store("k", "of the second");
    assert_writes_are_refused(&server, "moved or replaced");
    assert_eq!(second.get("k").body, b"of the second");
    // The new directory has the locked files of the first, but it is still another directory.
    drop(second);
    fs::remove_dir_all(dir.join(".data-server")).expect("the second's own");
    fs::rename(aside.join(".data-server"), dir.join(".data-server")).expect("the first's own");
    assert_writes_are_refused(&server, "moved or replaced");
}

#[test]
fn a_server_whose_own_files_were_removed_stops_writing() {
    directory_only!("hands in the directory");
    let server = serving_old();
    let own = server.dir.path().join(".data-server");
    let aside = server.dir.outside("aside");
    fs::rename(&own, &aside).expect("moved away");
    assert_writes_are_refused(&server, ".data-server");
    assert_eq!(server.get("k").body, b"old", "reads go on");
    // A second server has created its own `.data-server`, and only that server writes.
    let second = Launch::new(&[]).on(&server.dir).start();
    assert_writes_are_refused(&server, ".data-server");
    second.store("k", "of the second");
    drop(second);
    fs::remove_dir_all(&own).expect("the second's own");
    fs::rename(&aside, &own).expect("moved back");
    assert_comes_back(&server);
    fs::remove_dir_all(&own).expect("removed for good");
    assert_writes_are_refused(&server, ".data-server");
}

/// The directory is given as a link, which is switched to another directory, as in a release.
#[test]
fn a_switched_link_is_another_directory() {
    directory_only!("hands in the directory");
    let place = DataDir::temporary();
    let (one, two, link) = (place.file("one"), place.file("two"), place.file("link"));
    fs::create_dir(&one).expect("a directory");
    fs::create_dir(&two).expect("a directory");
    symlink(&one, &link).expect("a link");
    let server = Launch::new(&["--min-free", "0"]).on(&DataDir::at(&link));
    let server = server.start();
    server.store("k", "old");
    fs::remove_file(&link).expect("the link removed");
    symlink(&two, &link).expect("a link");
    assert_writes_are_refused(&server, "moved or replaced");
}

#[test]
fn a_read_only_server_on_a_replaced_directory_is_not_ready() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    dir.place("k", "old");
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(server.ready().0, 200);
    let aside = dir.outside("aside");
    fs::rename(dir.path(), &aside).expect("DIR moved away");
    eventually("the move shows", || server.ready().0 == 503);
    assert_eq!(server.get("k").body, b"old", "reads go on");
    fs::rename(&aside, dir.path()).expect("DIR moved back");
    eventually("it is ready again", || server.ready().0 == 200);
}
