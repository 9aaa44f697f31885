//! Proves several deletions at once: selected one by one or all, asked about once, each deleted as the version that was
//! shown, and those that stay named.

use fantoccini::key::Key;
use serde_json::json;

use crate::alice::ForAlice;
use crate::browser::{Browser, browse};
use crate::support::prelude::*;

async fn open(browser: &Browser, server: &TestServer, keys: &[&str]) {
    browser.visit(server.addr, "/").await;
    browser.until_keys(keys).await;
}

#[test]
fn several_keys_are_deleted_after_one_question() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["a", "b", "c", "d", "f/x"] {
            server.store(key, "12345");
        }
        open(browser, &server, &["f/", "a", "b", "c", "d"]).await;
        assert_eq!(
            browser
                .eval("document.getElementById('picked').hidden")
                .await,
            true
        );
        // A folder cannot be selected.
        assert_eq!(
            browser
                .eval("document.querySelectorAll('#rows .pick').length")
                .await,
            4
        );
        browser.click("[aria-label='Select a']").await;
        browser.click("[aria-label='Select c']").await;
        browser
            .until_text("#picked-count", "2 files selected")
            .await;
        let all = "(() => { const it = document.getElementById('pick-all'); return [it.checked, it.indeterminate]; })()";
        assert_eq!(browser.eval(all).await, json!([false, true]));
        browser.click("#picked-delete").await;
        browser.until_text("#ask-title", "Delete 2 files?").await;
        browser.until_text("#ask-text", "a, c: 10 B in all").await;
        browser.click("#ask-no").await;
        browser
            .until_true("!document.getElementById('ask').open")
            .await;
        server.dir.assert_holds(&["a", "b", "c", "d", "f/x"]);
        browser.click("#picked-delete").await;
        browser.click("#ask-yes").await;
        browser.until_keys(&["f/", "b", "d"]).await;
        browser.until_text("#notes", "2 files are deleted.").await;
        browser
            .until_true("document.getElementById('picked').hidden")
            .await;
        server.dir.assert_holds(&["b", "d", "f/x"]);
        // The focus is where one goes on.
        browser
            .until_true("document.activeElement.textContent === 'f/'")
            .await;

        // All, and none.
        browser.click("#pick-all").await;
        browser
            .until_text("#picked-count", "2 files selected")
            .await;
        assert_eq!(browser.eval(all).await, json!([true, false]));
        browser.click("#picked-none").await;
        assert_eq!(browser.eval(all).await, json!([false, false]));
        browser.click("#pick-all").await;
        // With the keyboard, from the box to the question.
        browser
            .eval("document.getElementById('picked-delete').focus()")
            .await;
        browser.press(&Key::Enter.to_string()).await;
        browser.confirm_by(&Key::Enter.to_string()).await;
        browser.until_keys(&["f/"]).await;
        server.dir.assert_holds(&["f/x"]);
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn what_others_changed_or_deleted_meanwhile_is_reported() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["a", "b", "c"] {
            server.store(key, "12345");
        }
        open(browser, &server, &["a", "b", "c"]).await;
        browser.click("#pick-all").await;
        browser.click("#picked-delete").await;
        browser.until_text("#ask-title", "Delete 3 files?").await;
        server.store("b", "a newer version");
        assert_eq!(server.ask("DELETE", "c").status, 200);
        browser.click("#ask-yes").await;
        let report = "2 files are deleted. 1 file was changed by someone else meanwhile, and is still there: b.";
        browser.until_text("#notes [role=alert]", report).await;
        browser.until_keys(&["b"]).await;
        assert_eq!(server.dir.read("b"), b"a newer version");
        // It stays selected: as the version that is shown now, it can be deleted.
        browser.until_text("#picked-count", "1 file selected").await;
        browser
            .until_true("document.querySelector('#rows .size').title === '15 bytes'")
            .await;
        browser.click("#picked-delete").await;
        browser.click("#ask-yes").await;
        browser.until_keys(&[]).await;
        server.dir.assert_holds(&[]);
    });
}

#[test]
fn a_refusal_of_several_is_reported_once() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        let keys: Vec<String> = (0..30).map(|n| format!("k{n:02}")).collect();
        for key in &keys {
            dir.place(key, "x");
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let alice = ForAlice::start(&dir, &[("", &["read", "list", "watch", "delete"])]);
        alice.open(browser, &keys).await;
        alice.replace(&[("", &["read", "list", "watch"])]);
        browser.click("#pick-all").await;
        browser.click("#picked-delete").await;
        browser.until_text("#ask-text", "k09 and 20 others").await;
        browser.click("#ask-yes").await;
        browser
            .until_text("#notes", "30 files were not deleted: k00")
            .await;
        browser
            .until_text(
                "#notes",
                "and 20 others: not allowed: it takes the right to delete here",
            )
            .await;
        assert_eq!(
            browser
                .eval("document.querySelectorAll('#notes .note').length")
                .await,
            1
        );
        browser.until_keys(&keys).await;
        browser
            .until_text("#picked-count", "30 files selected")
            .await;
    });
}

#[test]
fn a_page_that_is_left_takes_its_selection_along() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["a", "b", "f/x"] {
            server.store(key, "x");
        }
        open(browser, &server, &["f/", "a", "b"]).await;
        browser.click("#pick-all").await;
        browser.until_text("#state", "Live").await;
        assert_eq!(server.ask("DELETE", "a").status, 200);
        browser.until_text("#picked-count", "1 file selected").await;
        browser.click("#rows a.key").await;
        browser.until_keys(&["../", "x"]).await;
        assert_eq!(
            browser
                .eval("document.getElementById('picked').hidden")
                .await,
            true
        );
        browser.client.back().await.expect("back");
        browser.until_keys(&["f/", "b"]).await;
        assert_eq!(
            browser
                .eval("document.querySelectorAll('.pick:checked').length")
                .await,
            0
        );
    });
}
