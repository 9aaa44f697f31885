//! Proves sorting: by name, size and time, both ways, of all names, also of those that take several pages; and that the
//! order holds while keys change.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

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
            // Values of one millisecond have no order by time on the page.
            let stored = SystemTime::now() + Duration::from_millis(2);
            while SystemTime::now() < stored {
                thread::yield_now();
            }
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
fn a_list_of_several_pages_is_sorted_as_a_whole_once_a_column_is_pressed() {
    let values = [
        ("a", "x"),
        ("b", "xx"),
        ("c", "xxx"),
        ("f1/x", "x"),
        ("f10/x", "x"),
    ];
    browse_at("/?limit=2", &values, |page, server| {
        page.shows(&["a", "b"]);
        assert_eq!(sorted(page), json!([null, null, null]));
        page.says("#keys caption", "one page of several");
        page.click("#next");
        page.shows(&["f1/", "c"]);
        sort(page, "size");
        page.shows(&["f1/", "f10/"]);
        assert_eq!(sorted(page), json!([null, "descending", null]));
        page.says("#count", "2 folders and 3 files (1 to 2 shown)");
        assert!(page.is("$('#previous').hidden"));
        page.click("#next");
        page.shows(&["c", "b"]);
        page.says("#count", "(3 to 4 shown)");
        page.click("#next");
        page.shows(&["a"]);
        assert!(page.is("$('#next').hidden"));
        page.click("#previous");
        page.shows(&["c", "b"]);
        // What others store comes to its place, on whichever page that is.
        page.says("#state", "Live");
        server.store("d", "xxxx");
        page.shows(&["d", "c"]);
        page.says("#count", "2 folders and 4 files");
        sort(page, "size");
        page.shows(&["f1/", "f10/"]);
        page.click("#next");
        page.shows(&["a", "b"]);
        // Another folder and back: pages of the server again.
        page.click("#previous");
        page.click("#rows a[href='/f1/']");
        page.shows(&["../", "x"]);
        page.visit(server.addr, "/?limit=2");
        page.shows(&["a", "b"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// It opened in the order of bytes, 1, 10, 100, and its head sorted 1, 2, 3.
#[test]
fn a_folder_of_several_pages_opens_in_the_order_of_its_head() {
    browse_served(&[], |page, server| {
        for n in 0..1_500 {
            server.dir.place(&format!("many/file-{n}"), "");
        }
        page.visit_keys(server.addr, "/many/");
        page.says("#count", "1,500 files (1 to 1,000 shown)");
        assert_eq!(sorted(page), json!(["ascending", null, null]));
        page.holds("$('#rows tr:nth-child(12) .key').textContent === 'file-10'");
        page.click("#next");
        page.says("#count", "(1,001 to 1,500 shown)");
        page.says("#state", "Live");
        server.store("many/file-1200a", "new");
        page.says("#count", "1,501 files (1,001 to 1,501 shown)");
        page.holds("$('#rows tr:nth-child(203) .key').textContent === 'file-1200a'");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn all_of_25_000_names_are_sorted_and_of_more_than_the_bound_it_is_said() {
    browse_served(&[], |page, server| {
        for n in 0..25_000 {
            server.dir.place(&format!("many/file-{n}"), "");
        }
        server.dir.place("many/file-7", "the largest");
        page.visit_keys(server.addr, "/many/");
        page.says("#count", "1,000 files on this page");
        sort(page, "size");
        page.says("#count", "25,000 files (1 to 1,000 shown)");
        page.holds("$('#rows tr:nth-child(2) .key').textContent === 'file-7'");
        // Numbers in names are numbers.
        sort(page, "key");
        page.holds("$('#rows tr:nth-child(12) .key').textContent === 'file-10'");
        page.click("#next");
        page.holds("$('#rows tr:nth-child(2) .key').textContent === 'file-1000'");
        // More than are read, as the server would say it.
        let more = "(() => { const ask = list; list = async (...all) => ({ ...(await ask(...all)), next: 'many/file-1' }); })()";
        page.eval(more);
        page.reload();
        page.holds("$('#keys').ariaBusy === 'false'");
        page.eval(more);
        sort(page, "time");
        page.says("#count", "are not sorted and not shown");
    });
}

/// The document has as many rows as the page shows: a browser draws each of them first.
#[test]
fn a_folder_of_20_000_files_opens_as_fast_as_one_of_1_000() {
    browse_served(&[], |page, server| {
        for n in 0..20_000 {
            server.dir.place(&format!("many/{n:05}"), "");
        }
        for n in 0..1_000 {
            server.dir.place(&format!("some/{n:05}"), "");
        }
        let mut took = [("/some/", Duration::MAX), ("/many/", Duration::MAX)];
        for _ in 0..5 {
            for (path, least) in &mut took {
                let begun = Instant::now();
                page.visit_keys(server.addr, path);
                *least = begun.elapsed().min(*least);
            }
        }
        let [(_, some), (_, many)] = took;
        eprintln!("until rows can be used: 1,000 files {some:?}, 20,000 {many:?}");
        assert!(many < some * 2, "{some:?}, {many:?}");
        page.says("#count", "1,000 files on this page");
    });
}
