//! Proves uploading folders, and into folders: chosen or dropped, each file with its path; and many files, of which the
//! page shows some.

use serde_json::json;

use crate::browser::{Browser, browse_at, browse_served};
use crate::support::prelude::*;
use crate::support::relay::Relay;

/// Drags what lies at `path` over the page and drops it, as a file manager does.
fn drop(page: &Browser, path: &std::path::Path) {
    for kind in ["dragEnter", "dragOver", "drop"] {
        let files = [path.display().to_string()];
        let data = json!({"items": [], "files": files, "dragOperationsMask": 1});
        let event = json!({"type": kind, "x": 300, "y": 300, "data": data});
        page.devtools_with("Input.dispatchDragEvent", &event);
    }
}

const PATHS: [&str; 4] = ["one", "sub/two", "sub/deep er/th#ree", "ü"];

#[test]
fn a_chosen_file_goes_into_the_folder_that_is_shown() {
    browse_served(&["--cache-control", "max-age=7"], |page, server| {
        server.store("a/b/x", "x");
        page.visit_keys(server.addr, "/a/b/");
        page.types("#files", page.file("new.txt", "new").display());
        page.shows(&["../", "new.txt", "x"]);
        assert_eq!(server.dir.read("a/b/new.txt"), b"new");
        // What the browser adds to a request is not kept with the value.
        let stored = server.get("a/b/new.txt");
        assert_eq!(stored.header("cache-control"), Some("max-age=7"));
    });
}

#[test]
fn a_chosen_folder_keeps_its_paths() {
    browse_at("/in/", &[], |page, server| {
        page.types("#folder", page.folder("album", &PATHS).display());
        page.says("#uploads-count", "4 of 4 uploaded");
        page.shows(&["../", "album/"]);
        for path in PATHS {
            assert_eq!(server.dir.read(format!("in/album/{path}")), path.as_bytes());
        }
        // And once more: each is there already, and one answer is for all.
        page.types("#folder", page.folder("album", &PATHS).display());
        page.says("#ask-title", "Replace in/album/");
        page.click("#ask-all");
        page.click("#ask-no");
        page.says("#uploads-count", "0 of 4 uploaded, 4 left as they were");
    });
}

#[test]
fn dropped_folders_and_files_keep_their_paths() {
    browse_at("/in/", &[], |page, server| {
        drop(page, &page.folder("album", &PATHS));
        page.says("#uploads-count", "4 of 4 uploaded");
        for path in PATHS {
            assert_eq!(server.dir.read(format!("in/album/{path}")), path.as_bytes());
        }
        drop(page, &page.file("single", "x"));
        page.says("#uploads-count", "1 of 1 uploaded");
        assert_eq!(server.dir.read("in/single"), b"x");
        page.shows(&["../", "album/", "single"]);
    });
}

#[test]
fn a_folder_that_is_uploaded_stays_and_empty_ones_are_made() {
    directory_only!("empty folders");
    browse_at("/", &[], |page, server| {
        let trip = page.folder("trip", &["a.jpg", "deep/b.jpg"]);
        fs::create_dir_all(trip.join("empty/one")).expect("folders");
        drop(page, &trip);
        page.says("#uploads-count", "2 of 2 uploaded");
        page.shows(&["trip/"]);
        page.until("the empty folders are made", || {
            server.dir.file("trip/empty/one").is_dir()
        });
        page.types("#folder", page.folder("album", &["x/y"]).display());
        page.says("#uploads-count", "1 of 1 uploaded");
        // Its files are moved out: the folders stay.
        for key in ["trip/a.jpg", "trip/deep/b.jpg", "album/x/y"] {
            assert_eq!(server.ask("DELETE", key).status, 200);
        }
        page.shows(&["album/", "trip/"]);
        for folder in ["trip/deep", "album/x"] {
            assert!(server.dir.file(folder).is_dir(), "{folder}");
        }
        // Alone, one that is empty is seen at once.
        let alone = page.folder("alone", &["x"]);
        fs::remove_file(alone.join("x")).expect("a file");
        drop(page, &alone);
        page.shows(&["album/", "alone/", "trip/"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// More than wait at a time, and more than a reader of folders gives at a time.
#[test]
fn many_files_are_uploaded_and_some_are_shown() {
    browse_served(&[], |page, server| {
        let paths: Vec<String> = (0..1100).map(|n| format!("{:02}/{n}", n % 7)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        page.visit_keys(server.addr, "/");
        // One of them cannot be stored: it stays in the list, and is counted.
        page.says("#state", "Live");
        server.store("many", "in the way of the folder");
        drop(page, &page.folder("many", &paths));
        page.says("#uploads-count", "failed");
        assert_eq!(server.ask("DELETE", "many").status, 200);
        // The deadline is for a hundred.
        let done = "$('#uploads-count').textContent.replaceAll(',', '').match(/\\d+/g)";
        for hundred in 1..=11 {
            let sum = "([stored, , failed]) => Number(stored) + Number(failed)";
            page.holds(&format!("({sum})({done}) >= {hundred}00"));
        }
        let shown = page.eval("$$('#uploads li').length");
        assert!(shown.as_u64() <= Some(100), "{shown} are shown");
        page.says("#uploads .failed .fate", "not uploaded");
        let text = page.text("#uploads-count");
        let stored = text.split(' ').next().expect("a number").replace(',', "");
        let stored: usize = stored.parse().expect("a number");
        assert_eq!(server.dir.names().len(), stored, "{text}");
    });
}

#[test]
fn all_uploads_are_cancelled_at_once() {
    browse_served(&["--min-rate", "0"], |page, server| {
        let relay = Relay::stalling(server.addr, 8 << 20);
        page.visit_keys(relay.addr(), "/");
        let large = page.folder("large", &["0"]);
        for n in 0..6 {
            let file = std::fs::File::create(large.join(n.to_string())).expect("a file");
            file.set_len(100_000_000).expect("its length");
        }
        page.types("#folder", large.display());
        page.holds("$$('#uploads li').length === 6");
        page.says("#uploads .fate", "of 95.4 MiB");
        page.click("#uploads-cancel");
        page.says("#uploads-count", "0 of 6 uploaded, 6 cancelled");
        relay.let_go();
        // The folder is one of the user's.
        server.dir.assert_holds(&["large"]);
        page.click("#uploads-clear");
        page.holds("$('#uploads').hidden");
    });
}
