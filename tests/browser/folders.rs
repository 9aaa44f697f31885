//! Proves folders: they are rows with links, are gone into and back out of, are found again by their address, and come
//! and go with their keys.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse_at, browse_served};
use crate::support::prelude::*;

/// Runs `test` at this path of a server with keys in folders, at its root and at two depths.
fn at(path: &str, test: impl FnOnce(&Browser, &TestServer)) {
    let keys = words("a-b a/b/deep a/one a/two%20%23%3F%25 z %C3%A4%20b/c");
    let values: Vec<_> = keys.into_iter().map(|key| (key, key)).collect();
    browse_at(path, &values, test);
}

const ROOT: [&str; 4] = ["a/", "ä b/", "a-b", "z"];
const A: [&str; 4] = ["../", "b/", "one", "two #?%"];

#[test]
fn folders_are_gone_into_and_back_out_of_without_a_new_document() {
    at("/", |page, _| {
        page.shows(&ROOT);
        page.says("#count", "2 folders and 2 files");
        page.eval("window.isTheSame = true");
        page.click("#rows a[href='/a/']");
        page.shows(&A);
        assert_eq!(page.address(), "/a/");
        assert_eq!(page.text("#crumbs"), "Filesa");
        assert_eq!(page.title(), "a/ – data-server");
        page.click("#rows a[href='/a/b/']");
        page.shows(&["../", "deep"]);
        assert_eq!(page.text("#crumbs"), "Filesab");

        // Back and forward, up by the row, and to the root by the first of the path.
        page.back();
        page.shows(&A);
        page.forward();
        page.shows(&["../", "deep"]);
        page.click("#rows .up a");
        page.shows(&A);
        page.click("#crumbs li:first-child a");
        page.shows(&ROOT);
        assert_eq!(page.address(), "/");
        assert_eq!(page.title(), "data-server");
        page.click("#rows a[href='/%C3%A4%20b/']");
        page.shows(&["../", "c"]);
        assert!(page.is("window.isTheSame"));
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn the_address_of_a_folder_opens_it_also_in_another_tab() {
    at("/%C3%A4%20b/", |page, server| {
        page.shows(&["../", "c"]);
        page.says("#crumbs", "ä b");
        page.visit(server.addr, "/a/");
        page.shows(&A);
        page.reload();
        page.shows(&A);
        assert!(!page.takes_a_click_with_control("#rows a[href='/a/b/']"));
        assert_eq!(page.address(), "/a/");
    });
}

#[test]
fn keys_are_found_paged_looked_at_and_deleted_within_a_folder() {
    at("/a/", |page, server| {
        for n in 0..120 {
            server.dir.place(&format!("many/k{n:03}"), "x");
        }
        page.types("#find", "t");
        page.shows(&["../", "two #?%"]);
        assert_eq!(page.address(), "/a/?find=t");
        page.types("#find", "z");
        page.says("#empty-title", "No name in a/ has “tz” in it");
        page.reload();
        page.says("#empty-title", "No name in a/ has “tz” in it");
        // A prefix may reach into a folder.
        page.visit(server.addr, "/?prefix=a/");
        page.shows(&["a/b/", "a/one", "a/two #?%"]);

        page.visit(server.addr, "/many/?prefix=k&limit=100");
        page.says("#count", "100 files on this page");
        page.click("#next");
        page.says("#count", "20 files on this page");
        let found = page.address();
        assert_eq!(found, "/many/?prefix=k&after=many%2Fk099&limit=100");

        page.visit(server.addr, "/a/");
        page.click("button[aria-label='Delete two #?%']");
        page.says("#ask-title", "Delete a/two #?%?");
        page.click("#ask-yes");
        page.shows(&["../", "b/", "one"]);
        page.click("#rows a[data-key]");
        page.says("#preview-title", "a/one");
        page.says("#preview-body", "a/one");
    });
}

#[test]
fn a_folder_comes_with_its_first_key_and_goes_with_its_last() {
    at("/a/", |page, server| {
        page.shows(&A);
        page.says("#state", "Live");
        // What comes shows without the listing being read: not even the root's.
        page.eval("window.fetch = () => { throw new Error('the listing was read') }");
        server.store_each("a/new/x/y other/x", "1");
        page.shows(&["../", "b/", "new/", "one", "two #?%"]);
        server.store_each("a/new/z a/n", "1");
        page.shows(&["../", "b/", "new/", "n", "one", "two #?%"]);
        page.reload();
        page.says("#state", "Live");
        page.shows(&["../", "b/", "new/", "n", "one", "two #?%"]);
        // One that still holds a key stays.
        assert_eq!(server.ask("DELETE", "a/new/z").status, 200);
        assert_eq!(server.ask("DELETE", "a/b/deep").status, 200);
        page.shows(&["../", "new/", "n", "one", "two #?%"]);
        assert_eq!(server.ask("DELETE", "a/new/x/y").status, 200);
        page.shows(&["../", "n", "one", "two #?%"]);
        // The last key of the folder that is shown: it goes with that, and can be made again.
        for key in ["n", "one", "two%20%23%3F%25"] {
            assert_eq!(server.ask("DELETE", &format!("a/{key}")).status, 200);
        }
        page.shows(&["../"]);
        page.says("#empty-title", "There is no folder a/");
        page.says("#empty-hint", "Uploading a file here makes it.");
        server.store("a/again", "1");
        page.shows(&["../", "again"]);
    });
}

#[test]
fn folders_are_walked_with_the_keyboard() {
    at("/", |page, _| {
        page.shows(&ROOT);
        let focused = "document.activeElement.textContent";
        page.eval("$(\"#rows a[href='/a/']\").focus()");
        page.press(Key::Enter);
        page.shows(&A);
        page.holds(&format!("{focused} === '../'"));
        page.says("#said", "1 folder and 2 files in a/");
        // The focus comes back to the folder that was left.
        page.press(Key::Enter);
        page.shows(&ROOT);
        page.holds(&format!("{focused} === 'a/'"));
    });
}

#[test]
fn a_hostile_folder_is_text() {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='pwned'\">";
    browse_served(&[], |page, server| {
        let hostile = format!("{HOSTILE}/javascript:alert(1)/x");
        server.dir.place(&hostile, "x");
        server.dir.place("\u{202e}gpj/x", "x");
        page.visit(server.addr, "/");
        page.shows(&[&format!("{HOSTILE}/"), "\\u{202e}gpj/"]);
        page.click("#rows a.key");
        page.shows(&["../", "javascript:alert(1)/"]);
        page.says("#crumbs", HOSTILE);
        page.click("#rows tr:last-child a.key");
        page.shows(&["../", "x"]);
        page.reload();
        page.shows(&["../", "x"]);
        assert_eq!(page.eval("$$('img, svg script').length"), 0);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// The rows of the document are there until the script has its own: a list is never empty in between.
#[test]
fn the_rows_of_the_document_stay_until_the_script_has_read_the_keys() {
    at("/", |page, server| {
        // Nothing is fetched until the test says so.
        let gate = "{ const ask = window.fetch; const gate = new Promise((resolve) => { window.release = resolve; }); \
                    window.fetch = async (...what) => { await gate; return ask(...what); }; }";
        let source = json!({ "source": gate });
        page.devtools_with("Page.addScriptToEvaluateOnNewDocument", &source);
        page.visit(server.addr, "/a/");
        page.says("#state", "Live");
        let rows = "$$('#rows .key').map((it) => it.textContent)";
        assert_eq!(page.eval(rows), json!(A));
        let count = "$$('#rows a[data-key]').length";
        assert_eq!(page.eval(count), 0);
        let watch = "new MutationObserver(() => { window.wasEmpty ||= $$('#rows .key').length !== 4; }).observe($('#rows'), { childList: true })";
        page.eval(watch);
        page.eval("window.release()");
        page.shows(&A);
        assert_eq!(page.eval(count), 2);
        assert!(!page.is("window.wasEmpty"));
    });
}

#[test]
fn a_new_folder_is_made_and_is_shown_while_it_is_empty() {
    at("/a/", |page, server| {
        page.shows(&A);
        page.click("#new-folder");
        page.says("#naming-title", "New folder in a/");
        page.holds("document.activeElement.id === 'naming-name'");
        for (name, fault) in [
            ("one", "It was not made: "),
            ("b", "It was not made: a folder has this name"),
            ("none/new", "make it first"),
            ("..", "no file or folder has the name"),
            (
                &"x".repeat(256),
                "this name cannot be: a name has at most 255 bytes",
            ),
        ] {
            page.eval_with("$('#naming-name').value = arguments[0]", vec![json!(name)]);
            page.click("#naming-yes");
            page.says("#naming-fault", fault);
        }
        page.eval("$('#naming-name').value = ''");
        page.types("#naming-name", format!("new #1{}", Key::Enter));
        page.says("#notes", "a/new #1/ is made");
        page.shows(&["../", "b/", "new #1/", "one", "two #?%"]);
        assert!(server.dir.file("a/new #1").is_dir());
        page.click("#rows a[href='/a/new%20%231/']");
        page.says("#empty-title", "No files in a/new #1/ yet");
        assert!(page.is("$('#zip').hidden"));
        page.back();
        page.shows(&["../", "b/", "new #1/", "one", "two #?%"]);
    });
}

#[test]
fn a_folder_is_deleted_with_all_that_is_in_it_after_a_question_that_says_how_much() {
    at("/", |page, server| {
        page.shows(&ROOT);
        fs::create_dir_all(server.dir.file("a/b/empty")).expect("a folder");
        page.eval("$(`#rows a[href='/a/']`).focus()");
        page.press(Key::Delete);
        page.says("#ask-title", "Delete a/ with all that is in it?");
        page.says("#ask-text", "3 files, 30 B. This cannot be undone.");
        page.click("#ask-no");
        page.holds("!$('#ask').open");
        assert!(server.dir.file("a/b/deep").is_file());
        page.click("button[aria-label='Delete a/']");
        page.holds("$('#ask').open");
        page.click("#ask-yes");
        page.says("#notes", "a/ is deleted, with 3 files");
        page.shows(&ROOT[1..]);
        assert!(!server.dir.file("a").exists());

        // A link is no value: it stays, and so does its folder.
        std::os::unix::fs::symlink("elsewhere", server.dir.file("ä b/link")).expect("a link");
        page.click("button[aria-label='Delete ä b/']");
        page.says("#ask-text", "1 file, ");
        page.click("#ask-yes");
        page.says(
            "#notes [role=alert]",
            "ä b/ is still there. 1 file deleted, ",
        );
        // The server has it in no list: it came with its values.
        page.shows(&ROOT[2..]);
        assert!(!server.dir.file("ä b/c").exists());
    });
}

#[test]
fn a_folder_says_what_it_does_not_show() {
    browse_served(&["--follow-symlinks"], |page, server| {
        server.dir.place("a/k", "v");
        for (name, to) in [("a/link", "k"), ("a/out", "/etc")] {
            std::os::unix::fs::symlink(to, server.dir.file(name)).expect("a link");
        }
        page.visit_keys(server.addr, "/");
        assert!(page.is("$('#unlisted').hidden"));
        page.click("#rows a[href='/a/']");
        page.says(
            "#unlisted",
            "Symbolic links: link. Not shown: 1 symbolic link that leads out or nowhere",
        );
        assert_eq!(
            page.eval("$('#unlisted a').getAttribute('href')"),
            "/a/link"
        );
        page.back();
        page.holds("$('#unlisted').hidden");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// The deletion waits until the test lets it go: what is deleted meanwhile stands for what the server does.
#[test]
fn a_folder_that_is_being_deleted_says_how_far_and_is_left_alone() {
    at("/", |page, server| {
        page.says("#state", "Live");
        page.shows(&ROOT);
        let gate = "(() => { const ask = window.fetch; window.asked = 0; window.fetch = async (address, options) => { \
            if (options?.method === 'DELETE') { window.asked += 1; await new Promise((resolve) => (window.release = resolve)); } \
            return ask(address, options); }; })()";
        page.eval(gate);
        let leaves =
            || page.is("window.dispatchEvent(new Event('beforeunload', { cancelable: true }))");
        assert!(leaves());
        page.eval("$(`#rows a[href='/a/']`).focus()");
        // Pressed twice, it asks once.
        let press = "[0, 1].forEach(() => $(\"button[aria-label='Delete a/']\").click())";
        page.eval(press);
        page.says("#ask-text", "3 files, ");
        page.click("#ask-yes");
        page.says("#notes", "Deleting a/: 3 files");
        assert_eq!(page.text("#said"), "Deleting a/");
        page.says("tr[aria-busy=true]", "being deleted");
        assert!(page.is("$('tr[aria-busy=true] .actions').inert"));
        assert!(!leaves());
        page.eval("$(`#rows a[href='/a/']`).focus()");
        for key in [Key::Delete, Key::F2] {
            page.press(key);
        }
        assert!(page.is("!$('dialog[open]')"));
        for key in ["a/b/deep", "a/one"] {
            assert_eq!(server.ask("DELETE", key).status, 200);
        }
        page.says("#notes", "Deleting a/: 2 of 3 files");
        // Another folder and back: it is so still.
        page.click("#rows a[href='/%C3%A4%20b/']");
        page.shows(&["../", "c"]);
        page.back();
        page.shows(&ROOT);
        page.says("tr[aria-busy=true]", "being deleted");
        page.picture("deleting.png");
        page.eval("window.release()");
        page.says("#notes", "a/ is deleted, with 1 file");
        page.shows(&ROOT[1..]);
        assert!(leaves());
        assert_eq!(
            page.eval("[window.asked, $$('.stays').length]"),
            json!([1, 0])
        );
    });
}

#[test]
fn a_folder_is_downloaded_as_a_zip() {
    at("/", |page, _| {
        page.shows(&ROOT);
        page.click("a[aria-label='Download a/ as zip']");
        assert!(page.downloaded("a.zip").starts_with(b"PK\x03\x04"));
        assert_eq!(page.text("#zip"), "Download all as zip");
        page.click("#rows a[href='/%C3%A4%20b/']");
        page.shows(&["../", "c"]);
        page.click("#zip");
        let zip = page.downloaded("ä b.zip");
        assert!(zip.starts_with(b"PK\x03\x04"));
        assert_eq!(page.address(), "/%C3%A4%20b/");
        assert_eq!(page.complaints(), [""; 0]);
    });
}
