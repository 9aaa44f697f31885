//! Proves renaming and moving, by a dialog, the keyboard and dragging: the value and its fields stay, nothing is
//! overwritten or lost, and what is not known after a failure is said.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse, browse_keys, browse_served};
use crate::support::prelude::*;

/// Opens the page on the folder of this key, and the question for its new key.
fn begin(page: &Browser, server: &TestServer, key: &str) {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    let slash = if folder.is_empty() { "" } else { "/" };
    page.visit(server.addr, &format!("/{folder}{slash}"));
    page.find(&format!("button[aria-label='Delete {name}']"));
    page.look_at(name);
    page.click("#preview-rename");
    page.says("#naming-title", &format!("Rename {key}"));
}

fn finish(page: &Browser, folder: &str, name: &str) {
    let fill = "['folder', 'name'].forEach((it, at) => $('#naming-' + it).value = arguments[at])";
    page.eval_with(fill, vec![json!(folder), json!(name)]);
    page.click("#naming-yes");
}

/// Has the page run this before each request of `method`.
fn before(page: &Browser, method: &str, run: &str) {
    let stub = format!(
        "(() => {{ const ask = window.fetch; window.fetch = async (address, options) => {{ \
         if (options?.method === '{method}') {{ {run} }} return ask(address, options); }}; }})()"
    );
    page.eval(&stub);
}

#[test]
fn a_renamed_value_keeps_its_bytes_and_its_fields() {
    browse(|page| {
        let server = TestServer::start(&["--cache-control", "max-age=7"]);
        let value = pattern(5, 3_000_000);
        let fields = "content-type: application/x-special; v=1\r\ncontent-language: de, en\r\n\
                      content-disposition: attachment; filename=\"ä.bin\"\r\ncache-control: max-age=60\r\n";
        server.store_as("in/old%20%C3%A4", fields, &value);
        server.store("in/other", "x");
        begin(page, &server, "in/old ä");
        // The field has the name alone: all of it replaced, the file stays in its folder.
        page.press(format!(
            "{}a{}new #1{}",
            Key::Control,
            Key::Null,
            Key::Enter
        ));
        page.says("#notes", "in/old ä is now in/new #1");
        page.shows(&["../", "new #1", "other"]);
        server.dir.assert_holds(&["in/new #1", "in/other"]);
        assert!(server.dir.read("in/new #1") == value);
        let copy = server.get("in/new%20%231");
        for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
            assert_eq!(copy.header(name), Some(value));
        }

        // To another folder; empty; and with no field: none is made of what the server says of all values.
        server.store("in/empty", "");
        begin(page, &server, "in/empty");
        finish(page, "/out/deep", "empty");
        page.says("#notes", "in/empty is now out/deep/empty");
        assert_eq!(server.dir.read("out/deep/empty"), b"");
        let dir = server.dir.clone();
        drop(server);
        let again = Launch::new(&["--cache-control", "max-age=9"]).on(&dir);
        let renamed = again.start().get("out/deep/empty");
        assert_eq!(renamed.header("cache-control"), Some("max-age=9"));
    });
}

#[test]
fn a_value_that_is_compressed_on_its_way_is_renamed_as_it_is() {
    browse_served(&["--compress"], |page, server| {
        let value = "the same line again and again\n".repeat(10_000);
        server.store("a.txt", &value);
        begin(page, server, "a.txt");
        finish(page, "", "b.txt");
        page.says("#notes", "a.txt is now b.txt");
        assert!(server.dir.read("b.txt") == value.as_bytes());
        server.dir.assert_holds(&["b.txt"]);
    });
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_renamed_stays() {
    browse_served(&[], |page, server| {
        server.store("a", "of a");
        server.store("b", "of b");
        server.store("c/d", "of d");
        begin(page, server, "a");
        for [folder, name, fault] in table(
            " ; b ; There is a file with this name already. Nothing was changed.
            c ; d ; There is a file with this name already. Nothing was changed.
             ; a ; This is its name already.
            x/.. ; y ; no file or folder has the name
             ; a/below ; It was not renamed:
             ; c ; It was not renamed:",
        ) {
            finish(page, folder, name);
            page.says("#naming-fault", fault);
        }
        let all = ["a", "b", "c/d"];
        server.dir.assert_holds(&all);
        assert_eq!(server.dir.read("b"), b"of b");
        // Changed since it was looked at.
        server.store("a", "newer");
        finish(page, "", "e");
        let fault = "Someone else has changed it meanwhile. Nothing was changed.";
        page.says("#naming-fault", fault);
        server.dir.assert_holds(&all);
        assert_eq!(server.ask("DELETE", "a").status, 200);
        finish(page, "", "e");
        page.says("#naming-fault", "It is gone. Nothing was changed.");
    });
}

#[test]
fn what_is_not_known_after_a_failure_is_said() {
    browse_served(&[], |page, server| {
        server.store_each("a b c", "old");
        begin(page, server, "a");
        before(page, "MOVE", "throw new TypeError('broken');");
        finish(page, "", "a2");
        page.says("#notes", "The connection broke off: a may be a2 now.");

        begin(page, server, "b");
        // The request waits until it is given up.
        let wait = "window.isWaiting = true; await new Promise((_, reject) => options.signal.addEventListener('abort', () => reject(new TypeError('gone'))));";
        before(page, "MOVE", wait);
        finish(page, "", "b2");
        page.holds("window.isWaiting === true");
        page.click("#naming-no");
        page.says("#notes", "Renaming was cancelled: b may be b2 now.");

        // A store without moves.
        begin(page, server, "c");
        before(
            page,
            "MOVE",
            "return new Response('no moves here', { status: 501 });",
        );
        finish(page, "", "c2");
        let fault = "The server cannot rename it: no moves here. Nothing was changed.";
        page.says("#naming-fault", fault);
        server.dir.assert_holds(&["a", "b", "c"]);
    });
}

/// What is dragged from a row, over and onto another element.
fn drag(page: &Browser, key: &str, onto: &str) {
    assert_eq!(drags(page, key, onto), true, "{key} onto {onto}");
}

/// What is dragged so, and whether it is taken there.
fn drags(page: &Browser, key: &str, onto: &str) -> serde_json::Value {
    let drag = "(() => { const dataTransfer = new DataTransfer(); \
        const fire = (it, type) => it.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer })); \
        const row = $(`#rows :is([data-key='${arguments[0]}'], [data-folder='${arguments[0]}'])`), to = $(arguments[1]); \
        fire(row, 'dragstart'); const isTaken = !fire(to, 'dragover'); \
        if (isTaken) fire(to, 'drop'); fire(row, 'dragend'); return isTaken; })()";
    page.eval_with(drag, vec![json!(key), json!(onto)])
}

#[test]
fn files_are_moved_by_dragging_their_rows_to_a_folder() {
    let values = ["a", "b", "c", "f/g/x"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.says("#state", "Live");
        page.shows(&["f/", "a", "b", "c"]);
        assert!(page.is("$$('#rows tr').every((it) => it.draggable)"));
        drag(page, "c", "#rows a[data-folder='f/']");
        page.says("#notes", "1 file moved to f/.");
        page.shows(&["f/", "a", "b"]);
        // All that is selected goes along, and what has the name there stays.
        server.store("f/a", "another");
        page.click("#pick-all");
        drag(page, "b", "#rows a[data-folder='f/']");
        page.says(
            "#notes [role=alert]",
            "1 file moved to f/. 1 file not moved: a: There is a file with this name already.",
        );
        page.shows(&["f/", "a"]);
        server
            .dir
            .assert_holds(&["a", "f/a", "f/b", "f/c", "f/g/x"]);
        // Up by the path, and by the row of the folder above.
        page.click("#rows a[data-folder='f/']");
        page.shows(&["../", "g/", "a", "b", "c"]);
        drag(page, "f/b", "#crumbs li:first-child a");
        page.shows(&["../", "g/", "a", "c"]);
        drag(page, "f/c", "#rows .up a");
        page.shows(&["../", "g/", "a"]);
        server.dir.assert_holds(&["a", "b", "c", "f/a", "f/g/x"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn files_are_moved_with_the_keyboard() {
    let values = ["a", "b", "f/x"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.shows(&["f/", "a", "b"]);
        page.eval("$(`#rows [data-key='a']`).focus()");
        page.press(Key::F2);
        page.says("#naming-title", "Rename a");
        assert!(page.is("document.activeElement.id === 'naming-name'"));
        page.press(Key::Tab);
        page.press(format!("f{}", Key::Enter));
        page.says("#notes", "a is now f/a");
        page.shows(&["f/", "b"]);
        page.click("[aria-label='Select b']");
        page.eval("$('#picked-move').focus()");
        page.press(Key::Enter);
        page.says("#naming-title", "Move 1 file");
        page.press(Key::Enter);
        page.says("#naming-fault", "They are in this folder already.");
        page.types("#naming-folder", format!("new/f/{}", Key::Enter));
        page.says("#notes", "1 file moved to new/f/.");
        server.dir.assert_holds(&["f/a", "f/x", "new/f/b"]);
    });
}

/// The question as the keyboard asks it: what is before the ending is selected, and typed over.
#[test]
fn a_file_is_renamed_in_its_row_and_copied_beside_itself() {
    let values = ["budget.csv", "f/x", ".profile"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.shows(&["f/", ".profile", "budget.csv"]);
        page.eval("$(`#rows [data-key='budget.csv']`).focus()");
        page.press(Key::F2);
        page.says("#naming-title", "Rename budget.csv");
        page.press(format!("plan{}", Key::Enter));
        page.says("#notes", "budget.csv is now plan.csv");
        page.shows(&["f/", ".profile", "plan.csv"]);
        page.click("button[aria-label='Rename, move or copy .profile']");
        page.says("#naming-title", "Rename .profile");
        let selected = "$('#naming-name').selectionEnd - $('#naming-name').selectionStart";
        assert_eq!(page.eval(selected), 8);
        page.click("#naming-no");

        // Two copies beside it, one elsewhere, and none over what is there.
        for n in 1..3 {
            page.click("button[aria-label='Rename, move or copy plan.csv']");
            page.click("#naming-other");
            let note = format!("plan.csv is copied to plan ({n}).csv");
            page.says("#notes .note:last-child", &note);
        }
        page.shows(&["f/", ".profile", "plan (1).csv", "plan (2).csv", "plan.csv"]);
        page.click("button[aria-label='Rename, move or copy plan.csv']");
        page.eval("[$('#naming-folder').value, $('#naming-name').value] = ['f', 'x']");
        page.click("#naming-other");
        page.says(
            "#naming-fault",
            "There is a file with this name already. Nothing was changed.",
        );
        page.eval("$('#naming-folder').value = 'new'");
        page.click("#naming-other");
        page.says("#notes .note:last-child", "plan.csv is copied to new/x");
        assert_eq!(server.dir.read("new/x"), b"budget.csv");
        assert_eq!(server.dir.read("f/x"), b"f/x");
        // The folder was named here: it stays without the file.
        assert_eq!(server.ask("DELETE", "new/x").status, 200);
        assert!(server.dir.file("new").is_dir());
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_folder_and_a_selection_are_copied() {
    directory_only!("folders");
    let values = ["a/x", "a/b/y", "c", "d/k"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.says("#state", "Live");
        page.shows(&["a/", "d/", "c"]);
        for n in 1..3 {
            page.click("button[aria-label='Rename, move or copy a/']");
            page.click("#naming-other");
            let note = format!("a/ is copied to a ({n})/");
            page.says("#notes .note:last-child", &note);
        }
        page.shows(&["a/", "a (1)/", "a (2)/", "d/", "c"]);
        assert_eq!(server.dir.read("a (2)/b/y"), b"a/b/y");
        for name in ["a/", "c"] {
            page.click(&format!("[aria-label='Select {name}']"));
        }
        page.click("#picked-move");
        page.eval("$('#naming-folder').value = 'd'");
        page.click("#naming-other");
        page.says(
            "#notes .note:last-child",
            "1 folder and 1 file copied to d/.",
        );
        page.click("#picked-move");
        page.eval("$('#naming-folder').value = 'd'");
        page.click("#naming-other");
        page.says("#notes [role=alert]", "1 folder and 1 file not copied: ");
        let copies =
            "a (1)/b/y, a (1)/x, a (2)/b/y, a (2)/x, a/b/y, a/x, c, d/a/b/y, d/a/x, d/c, d/k";
        server
            .dir
            .assert_holds(&copies.split(", ").collect::<Vec<_>>());
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// Whatever the reason, the sentence of the server is shown, in the words of the page.
#[test]
fn a_folder_that_the_server_does_not_move_stays_and_the_reason_is_shown() {
    browse_keys(&[("a/x", "x"), ("b/y", "y")], |page, server| {
        page.shows(&["a/", "b/"]);
        for (status, said, shown) in [
            (
                501,
                "no folder moves here",
                "The server cannot rename it: no folder moves here. Nothing was changed.",
            ),
            (
                412,
                "a folder is there",
                "It was not renamed: a folder is there. Nothing was changed.",
            ),
            (
                409,
                "a value is there",
                "It was not renamed: a file is there. Nothing was changed.",
            ),
        ] {
            page.click("button[aria-label='Rename, move or copy a/']");
            page.says("#naming-title", "Rename a/");
            let refuse = format!("return new Response('{said}', {{ status: {status} }});");
            before(page, "MOVE", &refuse);
            finish(page, "", "c");
            page.says("#naming-fault", shown);
            page.click("#naming-no");
            page.reload();
            page.shows(&["a/", "b/"]);
        }
        // It goes neither into itself nor to where it is.
        for onto in ["#rows a[data-folder='a/']", "#crumbs li:first-child a"] {
            assert_eq!(drags(page, "a/", onto), false, "{onto}");
        }
        server.dir.assert_holds(&["a/x", "b/y"]);
    });
}

#[test]
fn a_folder_is_renamed_and_moved_with_all_that_is_in_it() {
    directory_only!("moves of folders");
    let values = ["a/x", "a/y/z", "b/k", "d/k"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.says("#state", "Live");
        page.shows(&["a/", "b/", "d/"]);
        page.eval("$(`#rows [data-folder='a/']`).focus()");
        page.press(Key::F2);
        page.says("#naming-title", "Rename a/");
        page.holds("$('#naming-name').value === 'a'");
        page.press(format!("c #1{}", Key::Enter));
        page.says("#notes", "a/ is now c #1/");
        page.shows(&["b/", "c #1/", "d/"]);
        server
            .dir
            .assert_holds(&["b/k", "c #1/x", "c #1/y/z", "d/k"]);
        drag(page, "c #1/", "#rows a[data-folder='b/']");
        page.says("#notes", "1 folder moved to b/.");
        page.shows(&["b/", "d/"]);
        server
            .dir
            .assert_holds(&["b/c #1/x", "b/c #1/y/z", "b/k", "d/k"]);
        // Up by the path.
        page.click("#rows a[data-folder='b/']");
        page.shows(&["../", "c #1/", "k"]);
        drag(page, "b/c #1/", "#crumbs li:first-child a");
        page.says("#notes", "1 folder moved to the top folder.");
        page.shows(&["../", "k"]);
        server
            .dir
            .assert_holds(&["b/k", "c #1/x", "c #1/y/z", "d/k"]);
        // What is in the way stays, and the folder too.
        page.visit_keys(server.addr, "/");
        page.click("button[aria-label='Rename, move or copy d/']");
        finish(page, "", "b");
        page.says("#naming-fault", "It was not renamed: ");
        server
            .dir
            .assert_holds(&["b/k", "c #1/x", "c #1/y/z", "d/k"]);
        page.click("#naming-no");
        page.click("button[aria-label='Rename, move or copy d/']");
        finish(page, "new/deep", "d");
        page.says("#notes", "d/ is now new/deep/d/");
        page.shows(&["b/", "c #1/", "new/"]);
        server
            .dir
            .assert_holds(&["b/k", "c #1/x", "c #1/y/z", "new/deep/d/k"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}
