//! Proves editing: a text is changed in place, only as the version that was opened; what someone else has stored is
//! shown beside, and nothing that was typed is lost unasked.

use fantoccini::key::Key;

use crate::browser::{Browser, browse_keys, browse_served};
use crate::support::prelude::*;

fn edit(page: &Browser, server: &TestServer, key: &str) {
    page.visit(server.addr, &format!("/?view={key}"));
    page.holds("$('#preview-edit').checkVisibility()");
    page.click("#preview-edit");
    page.holds("$('#edit').checkVisibility()");
}

fn value(page: &Browser) -> serde_json::Value {
    page.eval("$('#edit-text').value")
}

#[test]
fn a_text_is_edited_in_place_and_the_rest_of_it_stays() {
    browse_served(&[], |page, server| {
        let fields = "content-type: text/x-special; v=1\r\ncontent-language: de\r\ncache-control: max-age=60\r\n";
        server.store_as("a", fields, "\u{feff}eins\r\nzwei\r\n");
        edit(page, server, "a");
        assert_eq!(value(page), "\u{feff}eins\nzwei\n");
        page.press(format!("{}null ", Key::Right));
        page.click("#edit-save");
        page.says("#preview-body pre", "null eins");
        assert_eq!(server.get("a").text(), "\u{feff}null eins\r\nzwei\r\n");
        let saved = server.get("a");
        for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
            assert_eq!(saved.must(name), value);
        }
        // What an edit would change beside is not offered.
        for (key, bytes) in [("mixed", &b"a\r\nb\nc"[..]), ("latin.txt", b"caf\xe9")] {
            server.store(key, bytes);
            page.visit(server.addr, &format!("/?view={key}"));
            page.says("#preview-body", if key == "mixed" { "a" } else { "caf" });
            page.holds("$('#preview-edit').hidden");
        }
        // Behind the part that is shown this is found later; the message lies above the dialog and can be closed.
        server.store("late", "a\n".repeat(40_000) + "b\r\n");
        page.visit(server.addr, "/?view=late");
        page.holds("$('#preview-edit').checkVisibility()");
        page.click("#preview-edit");
        page.says("#notes", "cannot be edited");
        page.click("#notes .note button");
        page.holds("$$('#notes .note').length === 0");
        let state = "[$('#edit').hidden, $('#preview').open]";
        assert_eq!(page.eval(state), serde_json::json!([true, true]));
    });
}

#[test]
fn what_another_has_saved_meanwhile_is_shown_beside() {
    browse_served(&[], |page, server| {
        server.store("a", "old");
        edit(page, server, "a");
        page.types("#edit-text", "mine ");
        server.store("a", "theirs");
        page.click("#edit-save");
        page.says("#edit-their-text", "theirs");
        page.says("#edit-fault", "someone else has saved this file");
        page.picture("edit-clash.png");
        assert_eq!(server.dir.read("a"), b"theirs");
        // Again, meanwhile; then over what has been seen.
        server.store("a", "theirs again");
        page.click("#edit-save");
        page.says("#edit-their-text", "theirs again");
        let mine = value(page);
        page.click("#edit-save");
        page.holds("$('#edit').hidden");
        assert_eq!(mine, server.get("a").text());

        // What is there is taken; and what was deleted is stored anew.
        edit(page, server, "a");
        page.types("#edit-text", "x");
        server.store("a", "the last");
        page.click("#edit-save");
        page.says("#edit-their-text", "the last");
        page.click("#edit-take");
        assert_eq!(value(page), "the last");
        page.types("#edit-text", "y");
        assert_eq!(server.ask("DELETE", "a").status, 200);
        page.click("#edit-save");
        page.says("#edit-fault", "has deleted this file");
        assert_eq!(server.get("a").status, 404);
        page.click("#edit-save");
        page.holds("$('#edit').hidden");
        let stored = server.get("a").text();
        assert!(stored.ends_with("last") || stored.ends_with("lasty"));
    });
}

#[test]
fn what_was_typed_is_not_lost_unasked() {
    browse_keys(&[("a", "old")], |page, server| {
        page.click("#rows a[data-key]");
        page.click("#preview-edit");
        page.types("#edit-text", "mine ");
        // By Escape, and by the way back.
        for _ in 0..2 {
            page.press(Key::Escape);
            page.says("#ask-title", "Discard what you have typed?");
            page.click("#ask-no");
            page.holds("!$('#ask').open");
            page.back();
            page.holds("$('#ask').open");
            page.click("#ask-no");
            page.holds("!$('#ask').open");
            assert!(value(page).as_str().expect("text").contains("mine"));
        }
        page.click("#preview-close");
        page.click("#ask-yes");
        page.holds("!$('#preview').open");
        assert_eq!(server.dir.read("a"), b"old");
    });
}

#[test]
fn a_new_text_is_made_and_opened_to_be_written() {
    browse_keys(&[("f/a.txt", "x")], |page, server| {
        page.visit_keys(server.addr, "/f/");
        page.click("#new-file");
        page.says("#naming-title", "New text file in f/");
        page.press(format!("a{}", Key::Enter));
        page.says("#naming-fault", "There is a file with this name already.");
        page.press("b");
        page.click("#naming-yes");
        page.holds("document.activeElement.id === 'edit-text'");
        page.press("words");
        page.click("#edit-save");
        page.says("#preview-body pre", "words");
        page.press(Key::Escape);
        page.shows(&["../", "a.txt", "ab.txt"]);
        let stored = server.get("f/ab.txt");
        assert_eq!(stored.text(), "words");
        assert_eq!(stored.must("content-type"), "text/plain; charset=utf-8");
        assert_eq!(server.dir.read("f/a.txt"), b"x");
        assert_eq!(page.complaints(), [""; 0]);
    });
}
