//! Proves the search inside names: in a folder and below it, as it is typed, within a bound that is told and can be
//! raised.

use crate::browser::{browse_at, browse_served};
use crate::support::prelude::*;

#[test]
fn a_part_of_a_name_is_found_in_the_folders_below() {
    browse_served(&[], |page, server| {
        for key in words("file-042.json a/File-0423.txt a/042/deep a/b/x042 a/b/other 042/q z") {
            server.store(key, "x");
        }
        page.visit_keys(server.addr, "/");
        page.eval("window.isTheSame = true");
        page.types("#find", "042");
        let found = "042/ a/042/ a/b/x042 a/File-0423.txt file-042.json";
        page.shows(&words(found));
        let count = "2 folders and 3 files found, all 7 names searched";
        page.says("#count", count);
        assert_eq!(page.eval("location.search"), "?find=042");
        // What comes and goes shows, if it is found.
        page.says("#state", "Live");
        server.store_each("a/new-042 a/new", "x");
        assert_eq!(server.ask("DELETE", "file-042.json").status, 200);
        page.shows(&["042/", "a/042/", "a/b/x042", "a/File-0423.txt", "a/new-042"]);
        // In a folder, only what is in it; a path with a slash is looked for as a path.
        page.visit_keys(server.addr, "/a/");
        page.types("#find", "b/o");
        page.shows(&["../", "b/other"]);
        page.click("#rows a[data-key]");
        page.says("#preview-title", "a/b/other");
        assert_eq!(page.eval("location.search"), "?find=b%2Fo&view=b%2Fother");
        page.click("#preview-close");
        page.reload();
        page.shows(&["../", "b/other"]);
        page.types("#find", "zzz");
        page.says("#empty-title", "No name in a/ has “b/ozzz” in it");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_search_says_where_it_stopped_and_goes_on() {
    browse_served(&[], |page, server| {
        for n in 0..10_100 {
            server.dir.place(&format!("many/{n:05}"), "");
        }
        server.dir.place_each("zoo/wanted wanted-too", "x");
        page.visit_keys(server.addr, "/");
        page.types("#find", "wanted");
        // One that begins with the text is found however many names there are before it.
        page.shows(&["wanted-too"]);
        let count = "1 file found, only the first 10,000 names searched";
        page.says("#count", count);
        page.click("#search-on");
        page.shows(&["wanted-too", "zoo/wanted"]);
        page.says("#count", "2 files found, all 10,102 names searched");
        page.holds("$('#search-on').hidden");
    });
}

#[test]
fn a_prefix_in_the_address_is_said_and_left() {
    browse_at("/f/?prefix=a", &[("f/ab", "x"), ("f/b", "x")], |page, _| {
        page.shows(&["../", "ab"]);
        page.says("#prefix-text", "Only names that begin with “a”.");
        page.click("#prefix-all");
        page.shows(&["../", "ab", "b"]);
        assert!(page.is("$('#prefix').hidden"));
    });
}
