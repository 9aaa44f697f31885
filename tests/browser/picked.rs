//! Proves what is done to several files and folders at once: selected one by one, as a range or all, asked about once,
//! each file deleted as the version that was shown, and those that stay named.

use fantoccini::key::Key;
use serde_json::json;

use crate::alice::ForAlice;
use crate::browser::{Browser, browse, browse_keys};
use crate::support::prelude::*;

#[test]
fn several_keys_are_deleted_after_one_question() {
    let values = ["a", "b", "c", "d", "f/x"].map(|key| (key, "12345"));
    browse_keys(&values, |page, server| {
        page.shows(&["f/", "a", "b", "c", "d"]);
        assert!(page.is("$('#picked').hidden"));
        page.click("[aria-label='Select a']");
        page.click("[aria-label='Select c']");
        page.says("#picked-count", "2 files selected");
        let all = "(() => { const it = $('#pick-all'); return [it.checked, it.indeterminate]; })()";
        assert_eq!(page.eval(all), json!([false, true]));
        page.click("#picked-delete");
        page.says("#ask-title", "Delete 2 files?");
        page.says("#ask-text", "a, c: 10 B in all");
        page.click("#ask-no");
        page.holds("!$('#ask').open");
        server.dir.assert_holds(&["a", "b", "c", "d", "f/x"]);
        page.click("#picked-delete");
        page.click("#ask-yes");
        page.shows(&["f/", "b", "d"]);
        page.says("#notes", "2 files are deleted.");
        page.holds("$('#picked').hidden");
        server.dir.assert_holds(&["b", "d", "f/x"]);
        // The focus is where one goes on.
        page.holds("document.activeElement.textContent === 'f/'");

        // All, and none.
        page.click("#pick-all");
        page.says("#picked-count", "1 folder and 2 files selected");
        assert_eq!(page.eval(all), json!([true, false]));
        page.click("#picked-none");
        assert_eq!(page.eval(all), json!([false, false]));
        page.click("#pick-all");
        // With the keyboard, from the box to the question.
        page.eval("$('#picked-delete').focus()");
        page.press(Key::Enter);
        page.says("#ask-title", "Delete 1 folder and 2 files?");
        page.says(
            "#ask-text",
            "f/, b, d, with all that is in folders: 3 files, 15 B in all.",
        );
        page.confirm_by(Key::Enter);
        page.shows(&[]);
        page.says("#notes", "2 files are deleted. f/ is deleted, with 1 file.");
        server.dir.assert_holds(&[]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn what_others_changed_or_deleted_meanwhile_is_reported() {
    let values = ["a", "b", "c"].map(|key| (key, "12345"));
    browse_keys(&values, |page, server| {
        page.click("#pick-all");
        page.click("#picked-delete");
        page.says("#ask-title", "Delete 3 files?");
        server.store("b", "a newer version");
        assert_eq!(server.ask("DELETE", "c").status, 200);
        page.click("#ask-yes");
        let report = "2 files are deleted. 1 file was changed by someone else meanwhile, and is still there: b.";
        page.says("#notes [role=alert]", report);
        page.shows(&["b"]);
        assert_eq!(server.dir.read("b"), b"a newer version");
        // It stays selected: as the version that is shown now, it can be deleted.
        page.says("#picked-count", "1 file selected");
        page.holds("$('#rows .size').title === '15 bytes'");
        page.click("#picked-delete");
        page.click("#ask-yes");
        page.shows(&[]);
        server.dir.assert_holds(&[]);
    });
}

#[test]
fn a_refusal_of_several_is_reported_once() {
    browse(|page| {
        let dir = DataDir::temporary();
        let keys: Vec<String> = (0..30).map(|n| format!("k{n:02}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for key in &keys {
            dir.place(key, "x");
        }
        let alice = ForAlice::start(&dir, &[("", &["read", "list", "watch", "delete"])]);
        alice.open(page, &keys);
        alice.replace(&[("", &["read", "list", "watch"])]);
        page.click("#pick-all");
        page.click("#picked-delete");
        page.says("#ask-text", "k09 and 20 others");
        page.click("#ask-yes");
        page.says("#notes", "30 files were not deleted: k00");
        let why = "and 20 others: not allowed: this needs the right to delete here";
        page.says("#notes", why);
        assert_eq!(page.eval("$$('#notes .note').length"), 1);
        page.shows(&keys);
        page.says("#picked-count", "30 files selected");
    });
}

#[test]
fn a_page_that_is_left_takes_its_selection_along() {
    browse_keys(&[("a", "x"), ("b", "x"), ("f/x", "x")], |page, server| {
        page.click("#pick-all");
        page.says("#state", "Live");
        assert_eq!(server.ask("DELETE", "a").status, 200);
        page.says("#picked-count", "1 file selected");
        page.click("#rows a.key");
        page.shows(&["../", "x"]);
        assert!(page.is("$('#picked').hidden"));
        page.back();
        page.shows(&["f/", "b"]);
        assert_eq!(page.eval("$$('.pick:checked').length"), 0);
    });
}

/// The names of what is selected.
fn picked(page: &Browser) -> serde_json::Value {
    page.eval("$$('#rows .pick:checked').map((it) => it.value)")
}

#[test]
fn a_range_is_selected_by_shift_and_all_by_control_a() {
    let values = ["f/x", "g/x", "a", "b", "c", "d"].map(|key| (key, "x"));
    browse_keys(&values, |page, _| {
        page.shows(&["f/", "g/", "a", "b", "c", "d"]);
        let click = |name: &str| {
            let click = "$(`[aria-label='Select ${arguments[0]}']`) \
                .dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, shiftKey: true }))";
            page.eval_with(click, vec![json!(name)]);
        };
        page.click("[aria-label='Select g/']");
        click("c");
        assert_eq!(picked(page), json!(["g/", "a", "b", "c"]));
        page.says("#picked-count", "1 folder and 3 files selected");
        // From where the range began, also to before it.
        click("a");
        assert_eq!(picked(page), json!(["g/", "a"]));
        click("f/");
        assert_eq!(picked(page), json!(["f/", "g/"]));
        // What was selected apart from it stays.
        page.click("[aria-label='Select d']");
        click("c");
        assert_eq!(picked(page), json!(["f/", "g/", "c", "d"]));
        page.click("#picked-none");

        // By the keyboard, to and fro.
        page.eval("$(`#rows [data-key='a']`).focus()");
        page.press(format!("{}{}{}", Key::Shift, Key::Down, Key::Down));
        assert_eq!(picked(page), json!(["a", "b", "c"]));
        let focused = page.eval("document.activeElement.textContent");
        assert_eq!(focused, "c");
        page.press(format!("{}{}", Key::Shift, Key::Up));
        assert_eq!(picked(page), json!(["a", "b"]));
        page.press(format!("{}a", Key::Control));
        page.says("#picked-count", "2 folders and 4 files selected");
        // In a field the keys are those of texts.
        page.click("#picked-none");
        page.types("#find", format!("x{}a", Key::Control));
        assert!(page.is("$('#picked').hidden"));
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn folders_and_files_are_moved_and_downloaded_together() {
    directory_only!("moves of folders");
    let values = ["a/x", "b/y/z", "c", "d", "to/e"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.says("#state", "Live");
        page.shows(&["a/", "b/", "to/", "c", "d"]);
        for name in ["a/", "b/", "c"] {
            page.click(&format!("[aria-label='Select {name}']"));
        }
        page.click("#picked-download");
        let zip = page.downloaded("archive (3 selected).zip");
        let zip = String::from_utf8_lossy(&zip);
        for name in ["a/x", "b/y/z", "c"] {
            assert!(zip.contains(name), "{name}");
        }
        assert!(!zip.contains("to/e"));

        page.click("#picked-move");
        page.says("#naming-title", "Move 2 folders and 1 file");
        page.eval("$('#naming-folder').value = 'to'");
        page.click("#naming-yes");
        page.says("#notes", "2 folders and 1 file moved to to/.");
        page.shows(&["to/", "d"]);
        server
            .dir
            .assert_holds(&["d", "to/a/x", "to/b/y/z", "to/c", "to/e"]);
        // All that is selected goes along, but a folder not into itself.
        page.press(format!("{}a", Key::Control));
        page.says("#picked-count", "1 folder and 1 file selected");
        page.click("#picked-move");
        page.eval("$('#naming-folder').value = 'to'");
        page.click("#naming-yes");
        page.says("#notes", "1 file moved to to/.");
        page.shows(&["to/"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}
