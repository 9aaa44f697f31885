//! Proves uploading folders, and into folders: chosen or dropped, each file with its path; and many files, of which the
//! page shows some.

use serde_json::json;

use crate::browser::{Browser, browse};
use crate::relay::Relay;
use crate::support::prelude::*;

async fn choose(browser: &Browser, css: &str, path: &std::path::Path) {
    browser.type_into(css, &path.display().to_string()).await;
}

/// Drags what lies at `path` over the page and drops it, as a file manager does.
async fn drop(browser: &Browser, path: &std::path::Path) {
    for kind in ["dragEnter", "dragOver", "drop"] {
        let data =
            json!({"items": [], "files": [path.display().to_string()], "dragOperationsMask": 1});
        let event = json!({"type": kind, "x": 300, "y": 300, "data": data});
        browser
            .devtools_with("Input.dispatchDragEvent", event)
            .await;
    }
}

const PATHS: [&str; 4] = ["one", "sub/two", "sub/deep er/th#ree", "ü"];

#[test]
fn a_chosen_file_goes_into_the_folder_that_is_shown() {
    browse(async |browser| {
        let server = TestServer::start(&["--cache-control", "max-age=7"]);
        server.store("a/b/x", "x");
        browser.visit_keys(server.addr, "/a/b/").await;
        choose(browser, "#files", &browser.file("new.txt", "new")).await;
        browser.until_keys(&["../", "new.txt", "x"]).await;
        assert_eq!(server.dir.read("a/b/new.txt"), b"new");
        // What the browser adds to a request is not kept with the value.
        let stored = server.get("a/b/new.txt");
        assert_eq!(stored.header("cache-control"), Some("max-age=7"));
    });
}

#[test]
fn a_chosen_folder_keeps_its_paths() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/in/").await;
        choose(browser, "#folder", &browser.folder("album", &PATHS)).await;
        browser
            .until_text("#uploads-count", "4 of 4 uploaded")
            .await;
        browser.until_keys(&["../", "album/"]).await;
        for path in PATHS {
            assert_eq!(server.dir.read(format!("in/album/{path}")), path.as_bytes());
        }
        // And once more: each is there already, and one answer is for all.
        choose(browser, "#folder", &browser.folder("album", &PATHS)).await;
        browser.until_text("#ask-title", "Replace in/album/").await;
        browser.click("#ask-all").await;
        browser.click("#ask-no").await;
        browser
            .until_text("#uploads-count", "0 of 4 uploaded, 4 left as they were")
            .await;
    });
}

#[test]
fn dropped_folders_and_files_keep_their_paths() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/in/").await;
        drop(browser, &browser.folder("album", &PATHS)).await;
        browser
            .until_text("#uploads-count", "4 of 4 uploaded")
            .await;
        for path in PATHS {
            assert_eq!(server.dir.read(format!("in/album/{path}")), path.as_bytes());
        }
        drop(browser, &browser.file("single", "x")).await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert_eq!(server.dir.read("in/single"), b"x");
        browser.until_keys(&["../", "album/", "single"]).await;
    });
}

/// More than wait at a time, and more than a reader of folders gives at a time.
#[test]
fn many_files_are_uploaded_and_some_are_shown() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        let paths: Vec<String> = (0..1100).map(|n| format!("{:02}/{n}", n % 7)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        browser.visit_keys(server.addr, "/").await;
        // One of them cannot be stored: it stays in the list, and is counted.
        browser.until_text("#state", "Live").await;
        server.store("many", "in the way of the folder");
        let folder = browser.folder("many", &paths);
        drop(browser, &folder).await;
        browser.until_text("#uploads-count", "failed").await;
        assert_eq!(server.ask("DELETE", "many").status, 200);
        // The deadline is for a hundred.
        let done = "document.getElementById('uploads-count').textContent.replaceAll(',', '').match(/\\d+/g)";
        for hundred in 1..=11 {
            let some = format!(
                "(([stored, , failed]) => Number(stored) + Number(failed) >= {hundred}00)({done})"
            );
            browser.until_true(&some).await;
        }
        let shown = browser
            .eval("document.querySelectorAll('#uploads li').length")
            .await;
        assert!(shown.as_u64() <= Some(100), "{shown} are shown");
        browser
            .until_text("#uploads .failed .fate", "not uploaded")
            .await;
        let text = browser.text("#uploads-count").await;
        let stored = text.split(' ').next().expect("a number").replace(',', "");
        let stored: usize = stored.parse().expect("a number");
        assert_eq!(server.dir.names().len(), stored, "{text}");
    });
}

#[test]
fn all_uploads_are_cancelled_at_once() {
    browse(async |browser| {
        let server = TestServer::start(&["--min-rate", "0"]);
        let relay = Relay::to(server.addr, 8 << 20);
        browser.visit_keys(relay.addr, "/").await;
        let large = browser.folder("large", &["0"]);
        for n in 0..6 {
            let file = std::fs::File::create(large.join(n.to_string())).expect("a file");
            file.set_len(100_000_000).expect("its length");
        }
        choose(browser, "#folder", &large).await;
        browser
            .until_true("document.querySelectorAll('#uploads li').length === 6")
            .await;
        browser.until_text("#uploads .fate", "of 95.4 MiB").await;
        browser.click("#uploads-cancel").await;
        browser
            .until_text("#uploads-count", "0 of 6 uploaded, 6 cancelled")
            .await;
        relay.open();
        server.dir.assert_holds(&[]);
        browser.click("#uploads-clear").await;
        browser
            .until_true("document.getElementById('uploads').hidden")
            .await;
    });
}
