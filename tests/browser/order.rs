//! Proves sorting: by name, size and time, both ways, where the list is whole; and that the order holds while keys change.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse_at, browse_served};
use crate::support::words;

fn sort(page: &Browser, column: &str) {
    page.click(&format!("th[data-column={column}] button"));
}

/// How each column is sorted, as a screen reader is told.
fn sorted(page: &Browser) -> serde_json::Value {
    let sorted = "$$('#keys thead [data-column]').map((it) => it.getAttribute('aria-sort'))";
    page.eval(sorted)
}

#[test]
fn a_whole_list_is_sorted_by_name_size_and_time() {
    browse_served(&[], |page, server| {
        // By time the order is that of storing; no two sizes but those of a and c are the same.
        let sizes = [5, 5, 1, 2000, 30, 9];
        for (key, size) in words("c a f/x d b e/x").into_iter().zip(sizes) {
            server.store(key, "x".repeat(size));
        }
        page.visit(server.addr, "/");
        page.shows(&["e/", "f/", "a", "b", "c", "d"]);
        assert_eq!(sorted(page), json!(["ascending", null, null]));
        sort(page, "size");
        page.shows(&["e/", "f/", "d", "b", "a", "c"]);
        assert_eq!(sorted(page), json!([null, "descending", null]));
        page.says("#keys caption", "Files by size, largest first");
        page.says("#said", "Files by size, largest first");
        sort(page, "size");
        page.shows(&["e/", "f/", "a", "c", "b", "d"]);
        assert_eq!(sorted(page), json!([null, "ascending", null]));
        sort(page, "time");
        page.shows(&["e/", "f/", "b", "d", "a", "c"]);
        sort(page, "time");
        page.shows(&["e/", "f/", "c", "a", "d", "b"]);

        // What changes comes to its place, and the focus stays with the row that moves.
        page.says("#state", "Live");
        page.eval("$('[aria-label=\"Download c\"]').focus()");
        server.store("c", "newest");
        page.shows(&["e/", "f/", "a", "d", "b", "c"]);
        let focused = "document.activeElement.getAttribute('aria-label')";
        assert_eq!(page.eval(focused), "Download c");
        server.store("bb", "newer");
        page.shows(&["e/", "f/", "a", "d", "b", "c", "bb"]);

        sort(page, "key");
        page.shows(&["e/", "f/", "a", "b", "bb", "c", "d"]);
        // By the keyboard.
        page.press(Key::Enter);
        page.shows(&["f/", "e/", "d", "c", "bb", "b", "a"]);
        assert_eq!(sorted(page), json!(["descending", null, null]));
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_list_of_several_pages_is_sorted_by_no_column_and_says_why() {
    let values = [("a", "x"), ("b", "xx"), ("c", "xxx")];
    browse_at("/?limit=2", &values, |page, server| {
        page.shows(&["a", "b"]);
        let refused = "$$('.sort').every((it) => it.disabled && it.title.includes('whole list'))";
        assert!(page.is(refused));
        page.click("#next");
        page.shows(&["c"]);
        assert!(page.is(refused), "the last page is not the whole list");
        // A search that leaves one page can be sorted.
        page.visit(server.addr, "/?limit=3");
        page.shows(&["a", "b", "c"]);
        sort(page, "size");
        page.shows(&["c", "b", "a"]);
        // A file more makes it two pages; the order comes back with the whole list.
        page.says("#state", "Live");
        server.store("aa", "xxxx");
        page.shows(&["a", "aa", "b"]);
        assert_eq!(sorted(page), json!(["ascending", null, null]));
        assert_eq!(server.ask("DELETE", "aa").status, 200);
        page.shows(&["a", "b"]);
        page.reload();
        page.shows(&["a", "b", "c"]);
    });
}
