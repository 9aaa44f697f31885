//! Proves editing: a text is changed in place, only as the version that was opened; what someone else has stored is shown
//! beside, and nothing that was typed is lost unasked.

use fantoccini::key::Key;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

async fn edit(browser: &Browser, server: &TestServer, key: &str) {
    browser.visit(server.addr, &format!("/?view={key}")).await;
    browser
        .until_true("document.getElementById('preview-edit').checkVisibility()")
        .await;
    browser.click("#preview-edit").await;
    browser
        .until_true("document.getElementById('edit').checkVisibility()")
        .await;
}

async fn value(browser: &Browser) -> serde_json::Value {
    browser
        .eval("document.getElementById('edit-text').value")
        .await
}

async fn until_closed(browser: &Browser) {
    browser
        .until_true("document.getElementById('edit').hidden")
        .await;
}

#[test]
fn a_text_is_edited_in_place_and_the_rest_of_it_stays() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        let fields = "Content-Type: text/x-special; v=1\r\nContent-Language: de\r\nCache-Control: max-age=60\r\n";
        let stored = ask(
            &mut server.connect(),
            "PUT",
            "/a",
            fields,
            "\u{feff}eins\r\nzwei\r\n".as_bytes(),
        );
        assert_eq!(stored.status, 200);
        edit(browser, &server, "a").await;
        assert_eq!(value(browser).await, "\u{feff}eins\nzwei\n");
        browser.press(&format!("{}null ", Key::Right)).await;
        browser.click("#edit-save").await;
        browser.until_text("#preview-body pre", "null eins").await;
        assert_eq!(
            server.dir.read("a"),
            "\u{feff}null eins\r\nzwei\r\n".as_bytes()
        );
        let saved = server.get("a");
        for (name, value) in [
            ("content-type", "text/x-special; v=1"),
            ("content-language", "de"),
            ("cache-control", "max-age=60"),
        ] {
            assert_eq!(saved.must(name), value);
        }
        // What an edit would change beside is not offered.
        for (key, bytes) in [("mixed", &b"a\r\nb\nc"[..]), ("latin.txt", b"caf\xe9")] {
            server.store(key, bytes);
            browser.visit(server.addr, &format!("/?view={key}")).await;
            browser
                .until_text("#preview-body", if key == "mixed" { "a" } else { "caf" })
                .await;
            let is_hidden = "document.getElementById('preview-edit').hidden";
            browser.until_true(is_hidden).await;
        }
        // Behind the part that is shown this is found later; the message lies above the dialog and can be closed.
        server.store("late", "a\n".repeat(40_000) + "b\r\n");
        browser.visit(server.addr, "/?view=late").await;
        browser
            .until_true("document.getElementById('preview-edit').checkVisibility()")
            .await;
        browser.click("#preview-edit").await;
        browser.until_text("#notes", "cannot be edited").await;
        browser.click("#notes .note button").await;
        browser
            .until_true("document.querySelectorAll('#notes .note').length === 0")
            .await;
        let state =
            "[document.getElementById('edit').hidden, document.getElementById('preview').open]";
        assert_eq!(browser.eval(state).await, serde_json::json!([true, true]));
    });
}

#[test]
fn what_another_has_saved_meanwhile_is_shown_beside() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "old");
        edit(browser, &server, "a").await;
        browser.type_into("#edit-text", "mine ").await;
        server.store("a", "theirs");
        browser.click("#edit-save").await;
        browser.until_text("#edit-their-text", "theirs").await;
        browser
            .until_text("#edit-fault", "someone else has saved this file")
            .await;
        browser.picture("edit-clash.png").await;
        assert_eq!(server.dir.read("a"), b"theirs");
        // Again, meanwhile; then over what has been seen.
        server.store("a", "theirs again");
        browser.click("#edit-save").await;
        browser.until_text("#edit-their-text", "theirs again").await;
        let mine = value(browser).await;
        browser.click("#edit-save").await;
        until_closed(browser).await;
        assert_eq!(
            server.dir.read("a"),
            mine.as_str().expect("text").as_bytes()
        );

        // What is there is taken; and what was deleted is stored anew.
        edit(browser, &server, "a").await;
        browser.type_into("#edit-text", "x").await;
        server.store("a", "the last");
        browser.click("#edit-save").await;
        browser.until_text("#edit-their-text", "the last").await;
        browser.click("#edit-take").await;
        assert_eq!(value(browser).await, "the last");
        browser.type_into("#edit-text", "y").await;
        assert_eq!(server.ask("DELETE", "a").status, 200);
        browser.click("#edit-save").await;
        browser
            .until_text("#edit-fault", "has deleted this file")
            .await;
        assert_eq!(server.get("a").status, 404);
        browser.click("#edit-save").await;
        until_closed(browser).await;
        assert!(
            server.dir.read("a").ends_with(b"last") || server.dir.read("a").ends_with(b"lasty")
        );
    });
}

#[test]
fn what_was_typed_is_not_lost_unasked() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "old");
        browser.visit_keys(server.addr, "/").await;
        browser.click("#rows a[data-key]").await;
        browser.click("#preview-edit").await;
        browser.type_into("#edit-text", "mine ").await;
        // By Escape, and by the way back.
        for _ in 0..2 {
            browser.press(&Key::Escape.to_string()).await;
            browser
                .until_text("#ask-title", "Discard what you have typed?")
                .await;
            browser.click("#ask-no").await;
            browser
                .until_true("!document.getElementById('ask').open")
                .await;
            browser.client.back().await.expect("back");
            browser
                .until_true("document.getElementById('ask').open")
                .await;
            browser.click("#ask-no").await;
            browser
                .until_true("!document.getElementById('ask').open")
                .await;
            assert!(
                value(browser)
                    .await
                    .as_str()
                    .expect("text")
                    .contains("mine")
            );
        }
        browser.click("#preview-close").await;
        browser.click("#ask-yes").await;
        browser
            .until_true("!document.getElementById('preview').open")
            .await;
        assert_eq!(server.dir.read("a"), b"old");
    });
}
