//! Files that a hand has dated, and clocks that were wrong: two writes had one version, changes had numbers that others
//! had before, and a date moved although nothing had changed.

use httpdate::{fmt_http_date, parse_http_date};

use crate::support::prelude::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A server on a directory whose versions have run ahead of the time by a day: the system's clock was wrong once.
fn start_ahead(dir: &DataDir) -> TestServer {
    Launch::default().on(dir).start().stop();
    write_clock(dir, SystemTime::now() + DAY);
    Launch::default().on(dir).start()
}

fn write_clock(dir: &DataDir, bound: SystemTime) {
    let bound = bound.duration_since(SystemTime::UNIX_EPOCH);
    let bound = bound.expect("a time");
    fs::write(dir.own("clock"), format!("{:>24}", bound.as_nanos())).expect("a bound");
}

/// Stores `value`; the entity tag that the PUT and a GET after it tell.
#[track_caller]
fn stored(server: &TestServer, value: &str) -> String {
    let put = server.put("k", value);
    assert_eq!(put.status, 200);
    let got = server.get("k");
    let found = (got.must("etag"), &*got.body);
    assert_eq!(found, (put.must("etag"), value.as_bytes()));
    put.must("etag").to_owned()
}

/// A hand places a file of the same date again and again; the second date is later than ext4 and xfs can tell.
#[test]
fn writes_over_files_dated_ahead_have_versions_of_their_own() {
    directory_only!("hands in the directory");
    for date in [
        "Fri, 01 Jan 2038 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        let dir = DataDir::temporary();
        let mut server = Launch::default().on(&dir).start();
        let mut seen = HashSet::new();
        for round in 0..3 {
            if round == 2 {
                server.kill();
                server = Launch::default().on(&dir).start();
            }
            dir.place("k", "by hand");
            dir.date("k", parse_http_date(date).expect("a date"));
            for value in ["first", "second"] {
                let tag = stored(&server, value);
                assert!(seen.insert(tag.clone()), "{tag} was another write's");
            }
        }
        let modified = dir.modified("k");
        assert!(modified <= SystemTime::now() + DAY, "{modified:?}");
    }
}

/// ext4 cuts times to the year 2446, and every version was that time.
#[test]
fn a_version_that_the_file_system_cannot_tell_is_not_answered() {
    directory_only!("a clock in a file");
    for args in [&[][..], &["--durability", "disk"]] {
        let dir = DataDir::temporary();
        Launch::new(args).on(&dir).start().stop();
        write_clock(&dir, SystemTime::now() + 600 * 365 * DAY);
        let server = Launch::new(args).on(&dir).start();
        for value in [vec![b'x'], vec![b'x'; 100_000]] {
            let put = server.put("k", &value);
            let got = server.get("k");
            if put.status == 200 {
                assert_eq!(got.must("etag"), put.must("etag"));
            } else {
                assert_eq!((put.status, got.status), (500, 404));
            }
        }
    }
}

#[test]
fn numbers_of_changes_are_not_used_again_where_versions_are_ahead_of_the_time() {
    directory_only!("watching");
    for is_killed in [false, true] {
        for (before, after) in [(1, 1), (50, 60)] {
            let dir = DataDir::in_memory();
            let mut server = start_ahead(&dir);
            if is_killed {
                server.store("k", "v");
                server.kill();
                server = Launch::default().on(&dir).start();
            }
            let mut events = Events::open(&server, "", "");
            for nth in 0..before {
                server.store(&format!("before{nth}"), "v");
                assert_eq!(server.ask("DELETE", &format!("before{nth}")).status, 200);
            }
            server.store("seen", "v");
            let seen = events.until("seen").pop().expect("the last change").seq;
            drop(events);
            server.stop();
            let server = Launch::default().on(&dir).start();
            // Changes are kept from the first watcher on.
            let _other = Events::open(&server, "", "");
            for nth in 0..after {
                server.store(&format!("missed{nth}"), "v");
                assert_eq!(server.ask("DELETE", &format!("missed{nth}")).status, 200);
            }
            let mut again = Events::open(&server, &format!("?since={seen}"), "");
            server.store("later", "v");
            let told = again.next().expect("an event");
            let is_right = told.is_resync() || told.key == "missed0";
            assert!(is_right, "{told:?} after {seen}, {before} and {after}");
        }
    }
}

#[test]
fn a_longer_file_of_the_same_time_has_another_tag() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let date = SystemTime::now() - DAY;
    let place = |value: &str| {
        server.dir.place("k", value);
        server.dir.date("k", date);
    };
    place("old");
    let tag = server.get("k").must("etag").to_owned();
    place("new and longer");
    let ask = |method, lines: &str| server.request(method, "/k", &format!("{lines}\r\n"), b"");
    for lines in [
        format!("If-None-Match: {tag}"),
        format!("Range: bytes=3-\r\nIf-Range: {tag}"),
    ] {
        ask("GET", &lines).says(200, "new and longer");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let status = ask(method, &format!("If-Match: {tag}")).status;
        assert_eq!(status, 412, "{method}");
    }
}

/// The date was that of the moment in which the file was opened.
#[test]
fn a_value_dated_ahead_keeps_the_date_that_clients_were_told() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    let server = start_ahead(&dir);
    for (key, length) in [("short", 10), ("long", 100_000)] {
        let value = pattern(1, length);
        let by_put = server.put(key, &value);
        let by_hand = format!("{key} by hand");
        dir.place(&by_hand, &value);
        dir.date(&by_hand, SystemTime::now() + DAY);
        let path = by_hand.replace(' ', "%20");
        let told = [(key, by_put), (&*path, server.get(&path))];
        let date = |answer: &Response, name| parse_http_date(answer.must(name)).expect("a date");
        let since = date(&told[1].1, "date");
        eventually("a second has passed", || {
            date(&server.get(&path), "date") > since + Duration::from_secs(1)
        });
        for (path, told) in told {
            let modified = told.must("last-modified");
            assert!(date(&told, "last-modified") <= SystemTime::now());
            let with = |method, name, date: &str| {
                let lines = format!("{name}: {date}\r\n");
                let path = format!("/{path}");
                server.request(method, &path, &lines, &value).status
            };
            let before = fmt_http_date(date(&told, "last-modified") - DAY);
            for method in ["GET", "PUT"] {
                let status = with(method, "If-Unmodified-Since", &before);
                assert_eq!(status, 412, "{method} {path}");
            }
            assert_eq!(with("GET", "If-Modified-Since", modified), 304, "{path}");
            assert_eq!(with("GET", "If-Unmodified-Since", modified), 200, "{path}");
            assert_eq!(with("PUT", "If-Unmodified-Since", modified), 200, "{path}");
        }
    }
    let told = "the clock of versions is ahead of the system's, which was wrong once or is now: new values are dated in the future";
    assert_eq!(server.events(told).len(), 1);
}
