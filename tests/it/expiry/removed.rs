//! The files of values that have ended go, by changes like any other, and nothing else does.

use std::sync::Barrier;

use super::{NOTE, end, now, put, removed};
use crate::support::prelude::*;

/// A server that walks all the time.
fn walking(args: &[&str]) -> Launch {
    Launch::new(args).env("DATA_SERVER_EXPIRY", "1")
}

#[test]
fn what_has_ended_leaves_the_disk_with_a_reason() {
    directory_only!("an end");
    for durability in ["os", "disk"] {
        let args = ["--durability", durability, "--log-level", "debug"];
        let server = walking(&args).start();
        let mut events = Events::open(&server, "", "");
        put(&server, "later", b"v");
        put(&server, "f/g/k", b"v");
        put(&server, "large", &pattern(1, 1_200_000));
        server.store("ever", "v");
        events.until("ever");
        end(&server.dir, "f/g/k");
        let told = events.next().expect("an event");
        assert_eq!((&*told.op, &*told.key), ("delete", "f/g/k"));
        assert_eq!(told.reason.as_deref(), Some("expired"));
        end(&server.dir, "large");
        assert_eq!(events.next().expect("an event").key, "large");
        assert_eq!(server.ask("DELETE", "ever").status, 200);
        assert_eq!(events.next().expect("an event").reason, None);
        server.dir.assert_holds(&["later"]);
        let is_right = !server.dir.path().join("f").exists();
        assert!(is_right, "folders go with the last");
        eventually("both are counted", || removed(&server) == 2);
        let logged = || server.events("a value is removed");
        eventually("both are logged", || logged().len() == 2);
        let logged: Vec<_> = logged()
            .iter()
            .map(|line| [line.field("key"), line.field("reason")])
            .collect();
        assert_eq!(logged, [["f/g/k", "expired"], ["large", "expired"]]);
    }
}

#[test]
fn a_folder_of_many_that_have_ended_is_emptied() {
    directory_only!("an end");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&[]).on(&dir).start();
    put(&server, "k", b"v");
    server.stop();
    // More than are found at once.
    for nth in 0..2500 {
        let key = format!("many/{nth}");
        dir.place(&key, b"v");
        end(&dir, &key);
    }
    let server = Launch::new(&[]).on(&dir).start();
    eventually("the walk of the start removes them", || {
        removed(&server) == 2500
    });
    // The folder is that of a hand.
    dir.assert_holds(&["k", "many"]);
}

#[test]
fn no_value_is_lost_that_is_stored_while_an_ended_one_is_removed() {
    directory_only!("an end");
    for durability in ["os", "disk"] {
        let server = walking(&["--durability", durability, "--threads", "2"]).start();
        let rounds = scaled(40, 400);
        let (all, server) = (&Barrier::new(8), &server);
        for round in 0..rounds {
            put(server, "k", b"ends");
            end(&server.dir, "k");
            let stored = thread::scope(|scope| {
                let write = |writer: usize| {
                    let value = format!("{writer} {round}");
                    let end = ["", "X-Delete-After: 1000\r\n"][writer % 2];
                    let mut raw = server.connect();
                    all.wait();
                    let stored = ask(&mut raw, "PUT", "/k", end, value.as_bytes());
                    (stored.status, stored.must("etag").to_owned(), value)
                };
                let writers: Vec<_> = (0..8)
                    .map(|writer| scope.spawn(move || write(writer)))
                    .collect();
                let stored = writers.into_iter().map(|it| it.join().expect("no panic"));
                stored.collect::<Vec<_>>()
            });
            assert!(stored.iter().all(|(status, ..)| *status == 200));
            // The version begins an ETag, and all have as many digits.
            let newest = stored
                .into_iter()
                .map(|(_, etag, value)| (etag, value))
                .max();
            let (etag, value) = newest.expect("eight values");
            let got = server.get("k");
            assert_eq!(got.status, 200, "{durability}, round {round}: lost");
            assert_eq!((got.must("etag"), &*got.body), (&*etag, value.as_bytes()));
        }
        assert!(removed(server) > 0, "no walk was in time");
    }
}

#[test]
fn an_end_survives_a_kill_and_a_replay() {
    directory_only!("an end");
    let dir = DataDir::temporary();
    for durability in ["os", "disk"] {
        let launch = || {
            let launch = Launch::new(&["--durability", durability]);
            launch
                .env("DATA_SERVER_CHECKPOINT", "600000")
                .on(&dir)
                .start()
        };
        let mut server = launch();
        let at = format!("X-Delete-At: {}\r\n", now() + 5000);
        for (key, length) in [("small", 100), ("large", 700_000)] {
            server.store_as(key, &at, pattern(1, length));
        }
        let ends = ["small", "large"].map(|key| server.get(key).must("x-delete-at").to_owned());
        server.kill();
        if durability == "disk" && can_journal() {
            // The disk had no more than the journal.
            assert!(dir.forget_mount());
            fs::remove_file(dir.file("small")).expect("removed");
        }
        let mut server = launch();
        assert!(dir.own(NOTE).exists());
        for (key, end) in ["small", "large"].into_iter().zip(ends) {
            let found = server.get(key);
            assert_eq!(found.must("x-delete-at"), end, "{durability} {key}");
        }
        server.stop();
    }
}
