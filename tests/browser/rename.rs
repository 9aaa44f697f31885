//! Proves renaming: a copy and a delete that keep the value and its fields, overwrite nothing, lose nothing of others, and
//! say what remains after a failure in the middle.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse, browse_served};
use crate::support::prelude::*;

/// Opens the page on the folder of this key, and the question for its new key.
fn begin(page: &Browser, server: &TestServer, key: &str) {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    let slash = if folder.is_empty() { "" } else { "/" };
    page.visit(server.addr, &format!("/{folder}{slash}"));
    page.find(&format!("button[aria-label='Delete {name}']"));
    page.look_at(name);
    page.click("#preview-rename");
    page.says("#rename-title", &format!("Rename {key}"));
}

fn finish(page: &Browser, new: &str) {
    page.eval_with("$('#rename-key').value = arguments[0]", vec![json!(new)]);
    page.click("#rename-yes");
}

/// Has the page run this before each request of `method`.
fn before(page: &Browser, method: &str, run: &str) {
    let stub = format!(
        "(() => {{ const ask = window.fetch; window.fetch = async (address, options) => {{ \
         if (options?.method === '{method}') {{ {run} }} return ask(address, options); }}; }})()"
    );
    page.eval(&stub);
}

#[test]
fn a_renamed_value_keeps_its_bytes_and_its_fields() {
    browse(|page| {
        let server = TestServer::start(&["--cache-control", "max-age=7"]);
        let value = pattern(5, 3_000_000);
        let fields = "content-type: application/x-special; v=1\r\ncontent-language: de, en\r\n\
                      content-disposition: attachment; filename=\"ä.bin\"\r\ncache-control: max-age=60\r\n";
        server.store_as("in/old%20%C3%A4", fields, &value);
        server.store("in/other", "x");
        begin(page, &server, "in/old ä");
        // Only the name within the folder is selected: typing replaces it.
        page.press(format!("new #1{}", Key::Enter));
        page.says("#notes", "in/old ä is now in/new #1");
        page.shows(&["../", "new #1", "other"]);
        server.dir.assert_holds(&["in/new #1", "in/other"]);
        assert!(server.dir.read("in/new #1") == value);
        let copy = server.get("in/new%20%231");
        for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
            assert_eq!(copy.header(name), Some(value));
        }

        // To another folder; empty; and with no field: none is made of what the server says of all values.
        server.store("in/empty", "");
        begin(page, &server, "in/empty");
        finish(page, "out/deep/empty");
        page.says("#notes", "in/empty is now out/deep/empty");
        assert_eq!(server.dir.read("out/deep/empty"), b"");
        let dir = server.dir.clone();
        drop(server);
        let again = Launch::new(&["--cache-control", "max-age=9"]).on(&dir);
        let renamed = again.start().get("out/deep/empty");
        assert_eq!(renamed.header("cache-control"), Some("max-age=9"));
    });
}

#[test]
fn a_value_that_is_compressed_on_its_way_is_renamed_as_it_is() {
    browse_served(&["--compress"], |page, server| {
        let value = "the same line again and again\n".repeat(10_000);
        server.store("a.txt", &value);
        begin(page, server, "a.txt");
        finish(page, "b.txt");
        page.says("#notes", "a.txt is now b.txt");
        assert!(server.dir.read("b.txt") == value.as_bytes());
        server.dir.assert_holds(&["b.txt"]);
    });
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_renamed_stays() {
    browse_served(&[], |page, server| {
        server.store("a", "of a");
        server.store("b", "of b");
        begin(page, server, "a");
        for [new, fault] in table(
            "b ; There is a file with this name already. Nothing was changed.
            a ; This is its name already.
            x/../y ; bad key
            a/below ; The copy was not stored:",
        ) {
            finish(page, new);
            page.says("#rename-fault", fault);
        }
        server.dir.assert_holds(&["a", "b"]);
        assert_eq!(server.dir.read("b"), b"of b");
        // Changed since it was looked at.
        server.store("a", "newer");
        finish(page, "c");
        let fault = "someone else has changed it meanwhile. Nothing was changed.";
        page.says("#rename-fault", fault);
        server.dir.assert_holds(&["a", "b"]);
        page.press(Key::Escape);

        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0";
        server.store_as("coded", "Content-Encoding: gzip\r\n", gzip);
        begin(page, server, "coded");
        finish(page, "d");
        page.says("#rename-fault", "stored with Content-Encoding gzip");
        server.dir.assert_holds(&["a", "b", "coded"]);
    });
}

#[test]
fn what_remains_after_a_failure_in_the_middle_is_said() {
    browse_served(&[], |page, server| {
        for key in ["a", "b", "c", "d"] {
            server.store(key, "old");
        }
        // Another client changes the value between the copy and the delete: both stay.
        begin(page, server, "a");
        let put = "await ask('/a', { method: 'PUT', body: 'newer' });";
        before(page, "DELETE", put);
        finish(page, "a2");
        let note = "a was changed by someone else after it was copied, and is still there. a2 has the earlier version.";
        page.says("#notes", note);
        let stored = ["a", "a2"].map(|key| server.get(key).text());
        assert_eq!(stored, ["newer", "old"]);

        // Another client deletes it: that is what was wanted.
        begin(page, server, "b");
        before(page, "DELETE", "await ask('/b', { method: 'DELETE' });");
        finish(page, "b2");
        page.says("#notes", "b is now b2");

        begin(page, server, "c");
        before(page, "DELETE", "throw new TypeError('broken');");
        finish(page, "c2");
        let note = "c2 is stored, but c was not deleted: the server cannot be reached.";
        page.says("#notes", note);

        begin(page, server, "d");
        before(page, "PUT", "throw new TypeError('broken');");
        finish(page, "d2");
        let note =
            "The connection broke off while the copy was sent: d2 may be stored. d is still there.";
        page.says("#notes", note);
        server.dir.assert_holds(&["a", "a2", "b2", "c", "c2", "d"]);
    });
}

#[test]
fn a_rename_is_cancelled_while_the_copy_is_read_and_while_it_is_sent() {
    browse_served(&[], |page, server| {
        server.store("a", "x");
        for [method, text] in table(
            "undefined ; Renaming was cancelled. Nothing was changed.
            PUT ; Renaming was cancelled while the copy was sent: b may be stored. a is still there.",
        ) {
            begin(page, server, "a");
            // The request waits until it is given up.
            let wait = "window.isWaiting = true; await new Promise((resolve) => options.signal.addEventListener('abort', resolve));";
            before(page, method, wait);
            if method == "undefined" {
                let stub = format!(
                    "(() => {{ const ask = window.fetch; window.fetch = async (address, options) => {{ if (options?.headers?.['If-Match']) {{ {wait} }} return ask(address, options); }}; }})()"
                );
                page.eval(&stub);
            }
            finish(page, "b");
            page.holds("window.isWaiting === true");
            page.click("#rename-no");
            page.says("#notes", text);
            server.dir.assert_holds(&["a"]);
        }
    });
}
