//! Proves sorting: by name, size and time, both ways, where the list is whole; and that the order holds while keys change.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

async fn sort(browser: &Browser, column: &str) {
    browser
        .click(&format!("th[data-column={column}] button"))
        .await;
}

/// How each column is sorted, as a screen reader is told.
async fn sorted(browser: &Browser) -> serde_json::Value {
    let sorted = "[...document.querySelectorAll('#keys thead [data-column]')].map((it) => it.getAttribute('aria-sort'))";
    browser.eval(sorted).await
}

#[test]
fn a_whole_list_is_sorted_by_name_size_and_time() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        // By time the order is that of storing; no two sizes but those of a and c are the same.
        for (key, size) in [
            ("c", 5),
            ("a", 5),
            ("f/x", 1),
            ("d", 2000),
            ("b", 30),
            ("e/x", 9),
        ] {
            server.store(key, "x".repeat(size));
        }
        browser.visit(server.addr, "/").await;
        browser.until_keys(&["e/", "f/", "a", "b", "c", "d"]).await;
        assert_eq!(sorted(browser).await, json!(["ascending", null, null]));
        sort(browser, "size").await;
        browser.until_keys(&["e/", "f/", "d", "b", "a", "c"]).await;
        assert_eq!(sorted(browser).await, json!([null, "descending", null]));
        browser
            .until_text("#keys caption", "Files by size, largest first")
            .await;
        browser
            .until_text("#said", "Files by size, largest first")
            .await;
        sort(browser, "size").await;
        browser.until_keys(&["e/", "f/", "a", "c", "b", "d"]).await;
        assert_eq!(sorted(browser).await, json!([null, "ascending", null]));
        sort(browser, "time").await;
        browser.until_keys(&["e/", "f/", "b", "d", "a", "c"]).await;
        sort(browser, "time").await;
        browser.until_keys(&["e/", "f/", "c", "a", "d", "b"]).await;

        // What changes comes to its place, and the focus stays with the row that moves.
        browser.until_text("#state", "Live").await;
        browser
            .eval("document.querySelector('[aria-label=\"Download c\"]').focus()")
            .await;
        server.store("c", "newest");
        browser.until_keys(&["e/", "f/", "a", "d", "b", "c"]).await;
        let focused = "document.activeElement.getAttribute('aria-label')";
        assert_eq!(browser.eval(focused).await, "Download c");
        server.store("bb", "newer");
        browser
            .until_keys(&["e/", "f/", "a", "d", "b", "c", "bb"])
            .await;

        sort(browser, "key").await;
        browser
            .until_keys(&["e/", "f/", "a", "b", "bb", "c", "d"])
            .await;
        // By the keyboard.
        browser.press(&Key::Enter.to_string()).await;
        browser
            .until_keys(&["f/", "e/", "d", "c", "bb", "b", "a"])
            .await;
        assert_eq!(sorted(browser).await, json!(["descending", null, null]));
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn a_list_of_several_pages_is_sorted_by_no_column_and_says_why() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for (key, size) in [("a", 1), ("b", 2), ("c", 3)] {
            server.store(key, "x".repeat(size));
        }
        browser.visit(server.addr, "/?limit=2").await;
        browser.until_keys(&["a", "b"]).await;
        let refused = "[...document.querySelectorAll('.sort')].every((it) => it.disabled && it.title.includes('whole list'))";
        assert_eq!(browser.eval(refused).await, true);
        browser.click("#next").await;
        browser.until_keys(&["c"]).await;
        assert_eq!(
            browser.eval(refused).await,
            true,
            "the last page is not the whole list"
        );
        // A search that leaves one page can be sorted.
        browser.visit(server.addr, "/?limit=3").await;
        browser.until_keys(&["a", "b", "c"]).await;
        sort(browser, "size").await;
        browser.until_keys(&["c", "b", "a"]).await;
        // A file more makes it two pages; the order comes back with the whole list.
        browser.until_text("#state", "Live").await;
        server.store("aa", "xxxx");
        browser.until_keys(&["a", "aa", "b"]).await;
        assert_eq!(sorted(browser).await, json!(["ascending", null, null]));
        assert_eq!(server.ask("DELETE", "aa").status, 200);
        browser.until_keys(&["a", "b"]).await;
        browser.client.refresh().await.expect("the page again");
        browser.until_keys(&["a", "b", "c"]).await;
    });
}
