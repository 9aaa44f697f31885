//! Proves that a browser shows a replaced value at once, also one so old that it would keep it for days without being
//! told.

use std::fs::FileTimes;

use crate::browser::{browse_keys, browse_served, origin};
use crate::support::prelude::*;

/// Without Cache-Control, Chromium takes a value to be fresh for a tenth of its age.
const OLD: Duration = Duration::from_secs(100 * 24 * 3600);

/// Places a value by hand, written long ago.
fn place(server: &TestServer, key: &str, value: &str) {
    server.dir.place(key, value);
    let times = FileTimes::new().set_modified(SystemTime::now() - OLD);
    let file = File::options().write(true).open(server.dir.file(key));
    file.and_then(|file| file.set_times(times)).expect("a time");
}

#[test]
fn fetch_shows_a_value_that_appears_and_one_that_is_replaced() {
    browse_keys(&[], |page, server| {
        for key in ["k.txt", "k"] {
            let status = format!("fetch('/{key}').then((answer) => answer.status)");
            let fetched = format!("fetch('/{key}').then((answer) => answer.text())");
            for _ in 0..2 {
                assert_eq!(page.eval(&status), 404);
            }
            place(server, key, "old");
            assert_eq!(page.eval(&status), 200);
            for _ in 0..2 {
                assert_eq!(page.eval(&fetched), "old");
            }
            server.store(key, "new");
            assert_eq!(page.eval(&fetched), "new", "{key}");
        }
    });
}

#[test]
fn a_navigation_shows_a_replaced_value() {
    browse_served(&[], |page, server| {
        let url = |key: &str| format!("{}/{key}", origin(server.addr));
        place(server, "k.txt", "old");
        place(server, "other.txt", "other");
        let shown = "document.body.textContent";
        for _ in 0..2 {
            page.go(&url("k.txt"));
            assert_eq!(page.eval(shown), "old");
            // Going to where it is already would reload it.
            page.go(&url("other.txt"));
        }
        server.store("k.txt", "new");
        page.go(&url("k.txt"));
        assert_eq!(page.eval(shown), "new");
    });
}
