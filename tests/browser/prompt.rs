//! Proves that the page works for one who answers the browser's prompt for a name and a password, and offers what may
//! be done.

use crate::alice::{ForAlice, Rule, credentials};
use crate::browser::{browse, origin};
use crate::support::prelude::*;

#[test]
fn one_who_answers_the_prompt_has_the_page_and_sees_what_is_theirs() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place_each("alice/letter bob/secret shared/all", "x");
        let own: Rule<'_> = ("alice/", &["read", "write", "list", "watch"]);
        let alice = ForAlice::start(&dir, &[own, ("shared/", &["read", "list"])]);
        alice.open(page, &["alice/", "shared/"]);
        let plain = format!("{}/", origin(alice.server.addr));
        page.go(&format!("{plain}shared/"));
        page.shows(&["../", "all"]);
        page.go(&format!("{plain}alice/"));
        page.shows(&["../", "letter"]);
        // Of what is stored by another program the page hears, for the browser proves who follows the changes.
        alice.server.store_as("alice/more", &credentials(), "y");
        page.shows(&["../", "letter", "more"]);
        page.upload(&page.file("photo.bin", b"pixels"));
        let comes = || dir.get("alice/photo.bin").is_some();
        eventually("the upload is a value", comes);
        assert_eq!(dir.read("alice/photo.bin"), b"pixels");
    });
}

/// What is seen of what changes and reads values: the names of buttons, links and boxes.
const OFFERED: &str = "$$('.tools button, #rows .actions > *, .pick, dialog[open] .buttons > *') \
    .filter((it) => it.checkVisibility()).map((it) => it.getAttribute('aria-label') ?? it.textContent.trim())";

/// A folder, its keys, and what is offered in it.
type Place<'a> = (&'a str, &'a [&'a str], &'a [&'a [&'a str]]);

#[test]
fn what_may_not_be_done_is_not_offered() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place_each("all/1 box/1 seen/1 some/1 some/mine-1", "x");
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
        alice.open(page, &folders);
        let all: &[&str] = &["Select all of this page"];
        let upload: &[&str] = &["Upload", "Upload a folder", "New folder"];
        // An empty text that may not be written once more is of no use.
        let text: &[&str] = &["New text file"];
        // Nothing is stored at the root; a folder `all` of files may be dropped there, which no button says. It may be
        // moved into `box`.
        let below: &[&str] = &[
            "Select all/",
            "Download all/ as zip",
            "Rename, move or copy all/",
            "Delete all/",
            "Select seen/",
            "Download seen/ as zip",
            "Rename, move or copy seen/",
            "Select some/",
            "Download some/ as zip",
            "Rename, move or copy some/",
        ];
        assert_offered(page, &[all, below]);
        let one: &[&str] = &["Select 1", "Download 1", "Rename, move or copy 1"];
        let delete: &[&str] = &["Delete 1"];
        let mine: &[&str] = &[
            "Select mine-1",
            "Download mine-1",
            "Rename, move or copy mine-1",
            "Delete mine-1",
        ];
        let places: [Place<'_>; 4] = [
            ("all/", &["1"], &[upload, text, all, one, delete]),
            ("box/", &["1"], &[upload, all]),
            ("seen/", &["1"], &[all, one]),
            ("some/", &["1", "mine-1"], &[all, one, mine]),
        ];
        for (folder, keys, offered) in places {
            // Followed by the scripts, in the same document.
            page.click(&format!("#rows a[data-folder='{folder}']"));
            page.shows(&[&["../"], keys].concat());
            assert_offered(page, offered);
            page.click("#rows a[data-key]");
            let text = if folder == "box/" { "No preview" } else { "x" };
            page.says("#preview-body", text);
            let in_preview: &[&str] = match folder {
                "all/" => &["Download", "Edit", "Rename or copy", "Delete"],
                "box/" => &[],
                _ => &["Download", "Rename or copy"],
            };
            assert_offered(page, &[offered, &[in_preview]].concat());
            page.click("#preview-close");
            page.click("#rows .up a");
            page.shows(&folders);
        }
    });
}

fn assert_offered(page: &crate::browser::Browser, expected: &[&[&str]]) {
    let offered = page.eval(OFFERED);
    let expected: Vec<&str> = expected.concat();
    assert_eq!(offered, serde_json::json!(expected));
}

#[test]
fn a_server_that_is_read_only_offers_no_change() {
    browse(|page| {
        let first = TestServer::start(&[]);
        first.store("a", "x");
        let server = Launch::new(&["--read-only"]).on(&first.dir).start();
        page.visit(server.addr, "/");
        page.shows(&["a"]);
        let all: &[&str] = &["Select all of this page", "Select a", "Download a"];
        assert_offered(page, &[all]);
        page.click("#rows a[data-key]");
        page.says("#preview-body", "x");
        assert_offered(page, &[all, &["Download"]]);
    });
}
