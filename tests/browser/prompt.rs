//! Proves that the page works for one who answers the browser's prompt for a name and a password, and offers what may be done.

use crate::alice::{ForAlice, credentials};
use crate::browser::{browse, origin};
use crate::support::prelude::*;

#[test]
fn one_who_answers_the_prompt_has_the_page_and_sees_what_is_theirs() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        dir.place("alice/letter", "x");
        dir.place("bob/secret", "x");
        dir.place("shared/all", "x");
        let rules: &[_] = &[
            ("alice/", &["read", "write", "list", "watch"][..]),
            ("shared/", &["read", "list"]),
        ];
        let alice = ForAlice::start(&dir, rules);
        alice.open(browser, &["alice/", "shared/"]).await;
        let plain = format!("{}/", origin(alice.server.addr));
        browser.go(&format!("{plain}shared/")).await;
        browser.until_keys(&["../", "all"]).await;
        browser.go(&format!("{plain}alice/")).await;
        browser.until_keys(&["../", "letter"]).await;
        // Of what is stored by another program the page hears, for the browser proves who follows the changes.
        let mut connection = alice.server.connect();
        let stored = ask(&mut connection, "PUT", "/alice/more", &credentials(), b"y");
        assert_eq!(stored.status, 200);
        browser.until_keys(&["../", "letter", "more"]).await;
        let photo = browser.file("photo.bin", b"pixels");
        browser.upload(&photo).await;
        let comes = || dir.get("alice/photo.bin").is_some();
        eventually("the upload is a value", comes);
        assert_eq!(dir.read("alice/photo.bin"), b"pixels");
    });
}

/// What is seen of what changes and reads values: the names of buttons, links and boxes.
const OFFERED: &str = "[...document.querySelectorAll('.tools button, #rows .actions > *, .pick, dialog[open] .buttons > *')] \
    .filter((it) => it.checkVisibility()).map((it) => it.getAttribute('aria-label') ?? it.textContent.trim())";

/// A folder, its keys, and what is offered in it.
type Place<'a> = (&'a str, &'a [&'a str], &'a [&'a [&'a str]]);

#[test]
fn what_may_not_be_done_is_not_offered() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        for key in ["all/1", "box/1", "seen/1", "some/1", "some/mine-1"] {
            dir.place(key, "x");
        }
        let rules: &[_] = &[
            ("", &["list", "watch"][..]),
            ("all/", &["read", "write", "delete"]),
            ("box/", &["create"]),
            ("seen/", &["read"]),
            ("some/", &["read"]),
            ("some/mine-", &["delete"]),
        ];
        let alice = ForAlice::start(&dir, rules);
        let folders = ["all/", "box/", "seen/", "some/"];
        alice.open(browser, &folders).await;
        let all: &[&str] = &["Select all files of this page"];
        let upload: &[&str] = &["Upload", "Upload a folder"];
        // Nothing is stored at the root; a folder `all` of files may be dropped there, which no button says.
        assert_offered(browser, &[all]).await;
        let places: [Place<'_>; 4] = [
            (
                "all/",
                &["1"],
                &[upload, all, &["Select 1", "Download 1", "Delete 1"]],
            ),
            ("box/", &["1"], &[upload, all]),
            ("seen/", &["1"], &[all, &["Select 1", "Download 1"]]),
            (
                "some/",
                &["1", "mine-1"],
                &[
                    all,
                    &[
                        "Select 1",
                        "Download 1",
                        "Select mine-1",
                        "Download mine-1",
                        "Delete mine-1",
                    ],
                ],
            ),
        ];
        for (folder, keys, offered) in places {
            // Followed by the scripts, in the same document.
            browser
                .click(&format!("#rows a[data-folder='{folder}']"))
                .await;
            browser.until_keys(&[&["../"], keys].concat()).await;
            assert_offered(browser, offered).await;
            browser.click("#rows a[data-key]").await;
            let text = if folder == "box/" { "No preview" } else { "x" };
            browser.until_text("#preview-body", text).await;
            let in_preview: &[&str] = match folder {
                "all/" => &["Delete", "Rename", "Edit", "Download"],
                "box/" => &[],
                _ => &["Download"],
            };
            assert_offered(browser, &[offered, &[in_preview]].concat()).await;
            browser.click("#preview-close").await;
            browser.click("#rows .up a").await;
            browser.until_keys(&folders).await;
        }
    });
}

async fn assert_offered(browser: &crate::browser::Browser, expected: &[&[&str]]) {
    let offered = browser.eval(OFFERED).await;
    let expected: Vec<&str> = expected.concat();
    assert_eq!(offered, serde_json::json!(expected));
}

#[test]
fn a_server_that_is_read_only_offers_no_change() {
    browse(async |browser| {
        let first = TestServer::start(&[]);
        first.store("a", "x");
        let server = Launch::new(&["--read-only"]).on(&first.dir).start();
        browser.visit(server.addr, "/").await;
        browser.until_keys(&["a"]).await;
        let all: &[&str] = &["Select all files of this page", "Select a", "Download a"];
        assert_offered(browser, &[all]).await;
        browser.click("#rows a[data-key]").await;
        browser.until_text("#preview-body", "x").await;
        assert_offered(browser, &[all, &["Download"]]).await;
    });
}
