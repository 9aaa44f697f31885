//! Proves that a browser shows a replaced value at once, also one so old that it would keep it for days without being told.

use std::fs::FileTimes;

use crate::browser::{browse, origin};
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
fn fetch_shows_a_replaced_value() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit(server.addr, "/").await;
        for key in ["k.txt", "k"] {
            place(&server, key, "old");
            let fetched = format!("fetch('/{key}').then((answer) => answer.text())");
            for _ in 0..2 {
                assert_eq!(browser.eval(&fetched).await, "old");
            }
            server.store(key, "new");
            assert_eq!(browser.eval(&fetched).await, "new", "{key}");
        }
    });
}

#[test]
fn a_navigation_shows_a_replaced_value() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        let url = |key: &str| format!("{}/{key}", origin(server.addr));
        place(&server, "k.txt", "old");
        place(&server, "other.txt", "other");
        let shown = "document.body.textContent";
        for _ in 0..2 {
            browser.go(&url("k.txt")).await;
            assert_eq!(browser.eval(shown).await, "old");
            // Going to where it is already would reload it.
            browser.go(&url("other.txt")).await;
        }
        server.store("k.txt", "new");
        browser.go(&url("k.txt")).await;
        assert_eq!(browser.eval(shown).await, "new");
    });
}

#[test]
fn a_value_that_appears_is_seen_after_a_404() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit(server.addr, "/").await;
        let status = "fetch('/k').then((answer) => answer.status)";
        for _ in 0..2 {
            assert_eq!(browser.eval(status).await, 404);
        }
        server.store("k", "value");
        assert_eq!(browser.eval(status).await, 200);
    });
}
