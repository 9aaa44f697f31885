//! A bound of age: values go that were not used, or were written, so long ago.

use super::{BLOCK, comes_to, place_old, start};
use crate::support::prelude::*;

/// Asserts that `keys` go, while `beside` is done again and again.
fn go(server: &TestServer, keys: &[&str], beside: impl Fn()) {
    let gone = within(DEADLINE, || {
        beside();
        pass(Duration::from_millis(20));
        keys.iter().all(|key| !server.dir.file(key).exists())
    });
    assert!(gone, "left: {:?}", server.dir.names());
}

#[test]
fn a_value_goes_at_its_age_since_the_last_use_or_since_it_was_written() {
    directory_only!("bounds");
    let of_use = r#"prefix = "use/", max-age = "2s""#;
    let of_write = r#"prefix = "write/", max-age = "2s", of = "write""#;
    let server = start(&["--bound", of_use, "--bound", of_write]);
    let mut events = Events::open(&server, "?prefix=use/", "");
    server.store_each("use/a use/b write/a write/b other", BLOCK);
    let begun = Instant::now();
    // One is used all the time, and by several at once.
    let done = Done::default();
    thread::scope(|scope| {
        let _done = done.when_dropped();
        for key in ["use/b", "write/b"] {
            let (done, server) = (&done, &server);
            scope.spawn(move || {
                let mut client = Client::new(server.addr);
                while !done.is_said() {
                    client.ask("GET", key);
                }
            });
        }
        go(&server, &["use/a", "write/a", "write/b"], || ());
    });
    assert!(begun.elapsed() >= Duration::from_secs(2), "too early");
    assert_eq!(server.get("use/b").body, BLOCK);
    let told = loop {
        let block = events.block().expect("more events");
        if block.contains("delete") {
            break block;
        }
    };
    assert!(told.contains(r#""key":"use/a","reason":"aged""#), "{told}");
    go(&server, &["use/b"], || ());
    super::assert_has(&server, "other");
}

#[test]
fn a_start_removes_what_is_too_old_where_it_may() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(&dir, &[("a", 300), ("b", 61), ("c", 59), ("d", 1)]);
    let age = ["--bound", r#"max-age = "1h", full = "refuse""#];
    let mut server = Launch::new(&age).on(&dir).start();
    server.stop();
    dir.assert_holds(&["a", "b", "c", "d"]);
    let server = Launch::new(&[&age[..], &["--evict-existing"]].concat());
    let server = server.on(&dir).start();
    comes_to(&server, "c d");
}
