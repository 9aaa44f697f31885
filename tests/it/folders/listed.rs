//! Folders that stay are in listings with a delimiter, with and without the index, for those who may list below them.

use super::{make, remove};
use crate::http::forms::{FORMS, INDEX, JSON, PAGE, TEXT, walk};
use crate::support::prelude::*;

/// What each form of a listing has of `target`.
fn listed(server: &TestServer, target: &str, form: &str) -> Vec<String> {
    walk(&mut server.connect(), target, form).concat()
}

#[test]
fn a_folder_without_a_value_is_listed_as_others_are() {
    directory_only!("folders of the directory");
    for index in ["0", "128MiB"] {
        let dir = DataDir::temporary();
        let server = Launch::new(&["--listing-index", index]).on(&dir).start();
        for folder in ["a", "a-b", "a/b", "a/b/c", "m"] {
            assert_eq!(make(&server, folder), 201);
        }
        fs::create_dir_all(dir.file("hand/below")).expect("folders");
        for n in 0..2_000 {
            // Beyond what is walked where there is an index.
            dir.place(&format!("m/{n:04}"), "");
        }
        server.store("z/k", "v");
        let by_hand = ["a-b/", "a/", "hand/", "m/", "z/"];
        for round in 0..2 {
            for form in [JSON, TEXT, INDEX, PAGE] {
                for (target, expected) in [
                    ("/?delimiter=/", &by_hand[..]),
                    ("/?delimiter=/&limit=1", &by_hand),
                    ("/?delimiter=/&limit=2", &by_hand),
                    ("/?delimiter=/&prefix=a", &["a-b/", "a/"]),
                    ("/?delimiter=/&prefix=a/", &["a/b/"]),
                    ("/a/?delimiter=/", &["a/b/"]),
                    ("/a/b/?delimiter=/", &["a/b/c/"]),
                    ("/a/b/c/?delimiter=/", &[]),
                    ("/hand/?delimiter=/", &["hand/below/"]),
                    ("/?delimiter=/&after=a-b/", &["a/", "hand/", "m/", "z/"]),
                    ("/?delimiter=/&after=a/", &["hand/", "m/", "z/"]),
                    ("/?delimiter=/&prefix=z/", &["z/k"]),
                    ("/a/", &[]),
                    ("/?prefix=hand", &[]),
                ] {
                    let is_by_folder = target.contains("delimiter");
                    if form == INDEX && !is_by_folder {
                        continue;
                    }
                    let found = listed(&server, target, form);
                    assert_eq!(found, expected, "{index} {round} {target} {form}");
                }
            }
            // The index is there by now, where there is one.
            assert_eq!(listed(&server, "/?limit=10000", JSON).len(), 2_001);
        }
        // The index follows what comes and goes.
        assert_eq!(make(&server, "new"), 201);
        fs::remove_dir(dir.file("a-b")).expect("a folder");
        fs::rename(dir.file("hand"), dir.file("moved")).expect("a folder");
        assert_eq!(server.ask("DELETE", "z/k").status, 200);
        assert_eq!(remove(&server, "a/").status, 200);
        let seen = listed(&server, "/?delimiter=/", JSON);
        assert_eq!(seen, ["m/", "moved/", "new/"]);
        let wanted = ["moved/below/"];
        assert_eq!(listed(&server, "/moved/?delimiter=/", JSON), wanted);
        // A browser that leaves out the slash is led to it.
        let got = server.request(
            "GET",
            "/new",
            "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n",
            b"",
        );
        let is_right = got.status == 302 && got.must("location").ends_with("new/");
        assert!(is_right, "{got:?}");
    }
}

/// A killed PUT can leave a folder that goes with its last value, and has none.
#[test]
fn a_folder_that_goes_is_not_listed_without_a_value() {
    directory_only!("folders of the directory");
    for index in ["0", "128MiB"] {
        let server = TestServer::start(&["--listing-index", index]);
        server.store("a/b/k", "v");
        fs::rename(server.dir.file("a/b/k"), server.dir.file("k")).expect("a move by hand");
        for form in FORMS {
            let found = listed(&server, "/?delimiter=/", form);
            assert_eq!(found, ["k"], "{index} {form}");
        }
        assert_eq!(make(&server, "a/b/stays"), 201);
        assert_eq!(listed(&server, "/?delimiter=/", JSON), ["a/", "k"]);
        assert_eq!(listed(&server, "/a/?delimiter=/", JSON), ["a/b/"]);
    }
}

/// Where a value may have an end, each item is looked up.
#[test]
fn folders_are_listed_beside_values_that_have_ended() {
    directory_only!("an end");
    for index in ["0", "128MiB"] {
        let server = TestServer::start(&["--listing-index", index]);
        assert_eq!(make(&server, "stays"), 201);
        assert_eq!(make(&server, "stays/below"), 201);
        server.store_as("stays/below/k", "X-Delete-After: 1\r\n", "v");
        server.store_as("goes/k", "X-Delete-After: 1\r\n", "v");
        eventually("both have ended", || server.get("goes/k").status == 404);
        let seen = listed(&server, "/?delimiter=/", JSON);
        assert_eq!(seen, ["stays/"], "{index}");
        let expected = ["stays/below/"];
        assert_eq!(listed(&server, "/stays/?delimiter=/", JSON), expected);
        assert_eq!(listed(&server, "/stays/below/?delimiter=/", JSON), [""; 0]);
        let removed = remove(&server, "stays/");
        assert_eq!(super::report(&removed), (0, 0, vec![]), "{index}");
    }
}

const BROWSER: &str = "Accept: text/html,*/*;q=0.8\r\n";

/// A wrong or old link looks like "they put nothing in", where it opens as an empty folder.
#[test]
fn the_page_of_a_folder_that_is_not_there_is_404_and_says_so() {
    let server = TestServer::start(&[]);
    let open = |method: &str, target: &str, lines: &str| {
        server.request(method, target, &format!("{BROWSER}{lines}"), b"")
    };
    let absent = "There is no folder none/. Uploading a file here makes it";
    for target in ["/none/", "/none/?limit=5", "/none/?format=html"] {
        let page = open("GET", target, "");
        assert_eq!(page.status, 404, "{target}");
        assert!(page.text().contains(absent), "{target}");
        assert!(page.text().contains("href=\"../\""), "{target}");
    }
    let head = open("HEAD", "/none/", "");
    assert_eq!((head.status, head.body.len()), (404, 0));
    // Part of it, and the top, are what they are.
    for target in ["/none/?prefix=n", "/none/?after=n", "/"] {
        assert_eq!(open("GET", target, "").status, 200, "{target}");
    }
    // Programs ask for keys that begin so, of which there are none.
    for lines in ["", "Accept: application/json\r\n", "Accept: text/plain\r\n"] {
        let list = server.request("GET", "/none/", lines, b"");
        assert_eq!(list.status, 200, "{lines}");
    }
    // It comes with a value, and goes with it, also for one who saw it.
    server.store("none/k", "v");
    let page = open("GET", "/none/", "");
    assert_eq!(page.status, 200);
    assert_eq!(server.ask("DELETE", "none/k").status, 200);
    for tag in [page.must("etag"), head.must("etag"), "*"] {
        let known = format!("If-None-Match: {tag}\r\n");
        assert_eq!(open("GET", "/none/", &known).status, 404, "{tag}");
    }
}

#[test]
fn the_page_of_an_empty_folder_that_stays_is_no_absent_one() {
    directory_only!("folders of the directory");
    for index in ["0", "128MiB"] {
        let server = TestServer::start(&["--listing-index", index]);
        assert_eq!(make(&server, "made"), 201);
        let page = server.request("GET", "/made/", BROWSER, b"");
        assert_eq!(page.status, 200, "{index}");
        assert!(page.text().contains("No files yet"), "{index}");
        assert_eq!(remove(&server, "made/").status, 200);
        let page = server.request("GET", "/made/", BROWSER, b"");
        assert_eq!(page.status, 404, "{index}");
    }
    let read_only = TestServer::start(&["--read-only"]);
    let page = read_only.request("GET", "/none/", BROWSER, b"");
    assert_eq!(page.status, 404);
    assert!(page.text().contains("There is no folder none/<"));
}
