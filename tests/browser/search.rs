//! Proves the search inside names: in a folder and below it, as it is typed, within a bound that is told and can be raised.

use crate::browser::browse;
use crate::support::prelude::*;

#[test]
fn a_part_of_a_name_is_found_in_the_folders_below() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in words("file-042.json a/File-0423.txt a/042/deep a/b/x042 a/b/other 042/q z") {
            server.store(key, "x");
        }
        browser.visit_keys(server.addr, "/").await;
        browser.eval("window.isTheSame = true").await;
        browser.type_into("#find", "042").await;
        let found = [
            "042/",
            "a/042/",
            "a/b/x042",
            "a/File-0423.txt",
            "file-042.json",
        ];
        browser.until_keys(&found).await;
        browser
            .until_text(
                "#count",
                "2 folders and 3 files found, all 7 names searched",
            )
            .await;
        assert_eq!(browser.eval("location.search").await, "?find=042");
        // What comes and goes shows, if it is found.
        browser.until_text("#state", "Live").await;
        server.store("a/new-042", "x");
        server.store("a/new", "x");
        assert_eq!(server.ask("DELETE", "file-042.json").status, 200);
        let found = ["042/", "a/042/", "a/b/x042", "a/File-0423.txt", "a/new-042"];
        browser.until_keys(&found).await;
        // In a folder, only what is in it; a path with a slash is looked for as a path.
        browser.visit_keys(server.addr, "/a/").await;
        browser.type_into("#find", "b/o").await;
        browser.until_keys(&["../", "b/other"]).await;
        browser.click("#rows a[data-key]").await;
        browser.until_text("#preview-title", "a/b/other").await;
        assert_eq!(
            browser.eval("location.search").await,
            "?find=b%2Fo&view=b%2Fother"
        );
        browser.click("#preview-close").await;
        browser.client.refresh().await.expect("the page again");
        browser.until_keys(&["../", "b/other"]).await;
        browser.type_into("#find", "zzz").await;
        browser
            .until_text("#empty-title", "No name in a/ has “b/ozzz” in it")
            .await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn a_search_says_where_it_stopped_and_goes_on() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for n in 0..10_100 {
            server.dir.place(&format!("many/{n:05}"), "");
        }
        server.dir.place("zoo/wanted", "x");
        server.dir.place("wanted-too", "x");
        browser.visit_keys(server.addr, "/").await;
        browser.type_into("#find", "wanted").await;
        // One that begins with the text is found however many names there are before it.
        browser.until_keys(&["wanted-too"]).await;
        browser
            .until_text(
                "#count",
                "1 file found, only the first 10,000 names searched",
            )
            .await;
        browser.click("#search-on").await;
        browser.until_keys(&["wanted-too", "zoo/wanted"]).await;
        browser
            .until_text("#count", "2 files found, all 10,102 names searched")
            .await;
        browser
            .until_true("document.getElementById('search-on').hidden")
            .await;
    });
}

#[test]
fn a_prefix_in_the_address_is_said_and_left() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["f/ab", "f/b"] {
            server.store(key, "x");
        }
        browser.visit(server.addr, "/f/?prefix=a").await;
        browser.until_keys(&["../", "ab"]).await;
        browser
            .until_text("#prefix-text", "Only names that begin with “a”.")
            .await;
        browser.click("#prefix-all").await;
        browser.until_keys(&["../", "ab", "b"]).await;
        assert_eq!(
            browser
                .eval("document.getElementById('prefix').hidden")
                .await,
            true
        );
    });
}
