//! Proves renaming: a copy and a delete that keep the value and its fields, overwrite nothing, lose nothing of others, and
//! say what remains after a failure in the middle.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

/// Opens the page on the folder of this key, and the question for its new key.
async fn begin(browser: &Browser, server: &TestServer, key: &str) {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    let slash = if folder.is_empty() { "" } else { "/" };
    browser
        .visit(server.addr, &format!("/{folder}{slash}"))
        .await;
    let row = format!("button[aria-label='Delete {name}']");
    browser.find(&row).await;
    let open = "[...document.querySelectorAll('#rows a[data-key]')].find((it) => it.textContent === arguments[0]).click()";
    browser.eval_with(open, vec![json!(name)]).await;
    browser.click("#preview-rename").await;
    browser
        .until_text("#rename-title", &format!("Rename {key}"))
        .await;
}

async fn finish(browser: &Browser, new: &str) {
    browser
        .eval_with(
            "document.getElementById('rename-key').value = arguments[0]",
            vec![json!(new)],
        )
        .await;
    browser.click("#rename-yes").await;
}

/// Has the page run this before each request of `method`.
async fn before(browser: &Browser, method: &str, run: &str) {
    let stub = format!(
        "(() => {{ const ask = window.fetch; window.fetch = async (address, options) => {{ \
         if (options?.method === '{method}') {{ {run} }} return ask(address, options); }}; }})()"
    );
    browser.eval(&stub).await;
}

#[test]
fn a_renamed_value_keeps_its_bytes_and_its_fields() {
    browse(async |browser| {
        let server = TestServer::start(&["--cache-control", "max-age=7"]);
        let value = pattern(5, 3_000_000);
        let fields = "Content-Type: application/x-special; v=1\r\nContent-Language: de, en\r\n\
                      Content-Disposition: attachment; filename=\"ä.bin\"\r\nCache-Control: max-age=60\r\n";
        let mut raw = server.connect();
        let status = ask(&mut raw, "PUT", "/in/old%20%C3%A4", fields, &value).status;
        assert_eq!(status, 200);
        server.store("in/other", "x");
        begin(browser, &server, "in/old ä").await;
        // Only the name within the folder is selected: typing replaces it.
        browser.press(&format!("new #1{}", Key::Enter)).await;
        browser
            .until_text("#notes", "in/old ä is now in/new #1")
            .await;
        browser.until_keys(&["../", "new #1", "other"]).await;
        server.dir.assert_holds(&["in/new #1", "in/other"]);
        assert!(server.dir.read("in/new #1") == value);
        let copy = server.get("in/new%20%231");
        for (name, value) in [
            ("content-type", "application/x-special; v=1"),
            ("content-language", "de, en"),
            ("content-disposition", "attachment; filename=\"ä.bin\""),
            ("cache-control", "max-age=60"),
        ] {
            assert_eq!(copy.header(name), Some(value));
        }

        // To another folder; empty; and with no field: none is made of what the server says of all values.
        server.store("in/empty", "");
        begin(browser, &server, "in/empty").await;
        finish(browser, "out/deep/empty").await;
        browser
            .until_text("#notes", "in/empty is now out/deep/empty")
            .await;
        assert_eq!(server.dir.read("out/deep/empty"), b"");
        let dir = server.dir.clone();
        drop(server);
        let again = Launch::new(&["--cache-control", "max-age=9"]).on(&dir);
        let again = again.start();
        assert_eq!(
            again.get("out/deep/empty").header("cache-control"),
            Some("max-age=9")
        );
    });
}

#[test]
fn a_value_that_is_compressed_on_its_way_is_renamed_as_it_is() {
    browse(async |browser| {
        let server = TestServer::start(&["--compress"]);
        let value = "the same line again and again\n".repeat(10_000);
        server.store("a.txt", &value);
        begin(browser, &server, "a.txt").await;
        finish(browser, "b.txt").await;
        browser.until_text("#notes", "a.txt is now b.txt").await;
        assert!(server.dir.read("b.txt") == value.as_bytes());
        server.dir.assert_holds(&["b.txt"]);
    });
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_renamed_stays() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "of a");
        server.store("b", "of b");
        begin(browser, &server, "a").await;
        for (new, fault) in [
            (
                "b",
                "There is a file with this name already. Nothing was changed.",
            ),
            ("a", "This is its name already."),
            ("x/../y", "bad key"),
            ("a/below", "The copy was not stored: "),
        ] {
            finish(browser, new).await;
            browser.until_text("#rename-fault", fault).await;
        }
        server.dir.assert_holds(&["a", "b"]);
        assert_eq!(server.dir.read("b"), b"of b");
        // Changed since it was looked at.
        server.store("a", "newer");
        finish(browser, "c").await;
        browser
            .until_text(
                "#rename-fault",
                "someone else has changed it meanwhile. Nothing was changed.",
            )
            .await;
        server.dir.assert_holds(&["a", "b"]);
        browser.press(&Key::Escape.to_string()).await;

        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0";
        let mut raw = server.connect();
        let lines = "Content-Encoding: gzip\r\n";
        let stored = ask(&mut raw, "PUT", "/coded", lines, gzip);
        assert_eq!(stored.status, 200);
        begin(browser, &server, "coded").await;
        finish(browser, "d").await;
        browser
            .until_text("#rename-fault", "stored with Content-Encoding gzip")
            .await;
        server.dir.assert_holds(&["a", "b", "coded"]);
    });
}

#[test]
fn what_remains_after_a_failure_in_the_middle_is_said() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["a", "b", "c", "d"] {
            server.store(key, "old");
        }
        // Another client changes the value between the copy and the delete: both stay.
        begin(browser, &server, "a").await;
        before(
            browser,
            "DELETE",
            "await ask('/a', { method: 'PUT', body: 'newer' });",
        )
        .await;
        finish(browser, "a2").await;
        browser
            .until_text("#notes", "a was changed by someone else after it was copied, and is still there. a2 has the earlier version.")
            .await;
        assert_eq!(
            (server.dir.read("a"), server.dir.read("a2")),
            (b"newer".to_vec(), b"old".to_vec())
        );

        // Another client deletes it: that is what was wanted.
        begin(browser, &server, "b").await;
        before(browser, "DELETE", "await ask('/b', { method: 'DELETE' });").await;
        finish(browser, "b2").await;
        browser.until_text("#notes", "b is now b2").await;

        begin(browser, &server, "c").await;
        before(browser, "DELETE", "throw new TypeError('broken');").await;
        finish(browser, "c2").await;
        browser
            .until_text(
                "#notes",
                "c2 is stored, but c was not deleted: the server cannot be reached.",
            )
            .await;

        begin(browser, &server, "d").await;
        before(browser, "PUT", "throw new TypeError('broken');").await;
        finish(browser, "d2").await;
        browser
            .until_text("#notes", "The connection broke off while the copy was sent: d2 may be stored. d is still there.")
            .await;
        server.dir.assert_holds(&["a", "a2", "b2", "c", "c2", "d"]);
    });
}

#[test]
fn a_rename_is_cancelled_while_the_copy_is_read_and_while_it_is_sent() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        for (method, text) in [
            ("undefined", "Renaming was cancelled. Nothing was changed."),
            (
                "PUT",
                "Renaming was cancelled while the copy was sent: b may be stored. a is still there.",
            ),
        ] {
            begin(browser, &server, "a").await;
            // The request waits until it is given up.
            let wait = "window.isWaiting = true; await new Promise((resolve) => options.signal.addEventListener('abort', resolve));";
            before(browser, method, wait).await;
            if method == "undefined" {
                let stub = format!(
                    "(() => {{ const ask = window.fetch; window.fetch = async (address, options) => {{ if (options?.headers?.['If-Match']) {{ {wait} }} return ask(address, options); }}; }})()"
                );
                browser.eval(&stub).await;
            }
            finish(browser, "b").await;
            browser.until_true("window.isWaiting === true").await;
            browser.click("#rename-no").await;
            browser.until_text("#notes", text).await;
            server.dir.assert_holds(&["a"]);
        }
    });
}
