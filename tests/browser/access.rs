//! Proves that the page can be used without seeing it and without a mouse: what a screen reader is told, and what Tab
//! reaches. That everything has a name, and that text stands out from what is behind it, is for axe-core to say.

use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::alice::ForAlice;
use crate::browser::{Browser, browse, browse_keys, browse_served};
use crate::support::prelude::*;

/// What can be operated now, in the order of the document: each by its name.
const CONTROLS: &str = "$$('a[href], button, input, [tabindex]') \
    .filter((it) => it.checkVisibility() && !it.disabled && it.tabIndex >= 0).map((it) => name(it))";

const NAME: &str = "const name = (it) => it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent.trim();";

/// What a screen reader is told of the page: role and name, in its order.
fn heard(page: &Browser) -> Vec<(String, String)> {
    let tree = page.devtools("Accessibility.getFullAXTree");
    let nodes = tree["nodes"].as_array().expect("nodes");
    let by_id: HashMap<&Value, &Value> = nodes.iter().map(|node| (&node["nodeId"], node)).collect();
    let text = |node: &Value, of: &str| node[of]["value"].as_str().unwrap_or_default().to_owned();
    let (mut ahead, mut heard) = (vec![&nodes[0]], Vec::new());
    while let Some(node) = ahead.pop() {
        if node["ignored"] != true {
            heard.push((text(node, "role"), text(node, "name")));
        }
        let children = node["childIds"].as_array().into_iter().flatten();
        ahead.extend(children.rev().filter_map(|id| by_id.get(id)));
    }
    heard
}

/// Of rows of a role and a name each is heard, in this order.
fn assert_heard(page: &Browser, expected: &str) {
    let heard = heard(page);
    let mut left = heard.iter();
    for [role, name] in table(expected) {
        let is_right = left.any(|(its_role, its_name)| its_role == role && its_name == name);
        assert!(is_right, "no {role} {name:?} at its place in {heard:#?}");
    }
}

const LIST: &str = "
    link ; Skip to the files
    heading ; data-server
    navigation ; Views
    link ; Files
    link ; Activity
    status ; Changes show as they happen, and those that other programs make in the directory within 10 seconds
    main
    heading ; Files
    searchbox ; Search names, here and in the folders below
    button ; Upload
    button ; Upload a folder
    button ; New folder
    button ; New text file
    table ; Files by name
    columnheader ; Name
    columnheader ; Size
    columnheader ; Changed
    columnheader ; Actions
    rowheader ; a
    link ; a
    cell ; 14 B
    link ; Download a
    button ; Rename, move or copy a
    button ; Delete a
    navigation ; Pages
";

const SELECTED: &str = "
    checkbox ; Select all of this page
    checkbox ; Select a
    region ; Selected
    button ; Select none
    button ; Delete
";

#[test]
fn a_screen_reader_is_told_what_everything_is() {
    browse_served(&["--threads", "2"], |page, server| {
        server.store("a", "the value of a");
        page.visit_keys(server.addr, "/");
        page.says("#state", "Live");
        assert_heard(page, LIST);
        page.click("button[aria-label='Delete a']");
        page.says("#ask-title", "Delete a?");
        let question = "heading ; Delete a?\nbutton ; Cancel\nbutton ; Delete";
        assert_heard(page, &format!("dialog ; Delete a?\n{question}"));
        page.click("#ask-no");
        page.click("#rows .key");
        page.says("#preview-body", "the value of a");
        let look = "button ; Close\nregion ; Text of the file\nlink ; Download\nbutton ; Delete";
        assert_heard(page, &format!("dialog ; a\n{look}"));
        page.click("#preview-rename");
        let rename = "textbox ; Name\ncombobox ; Folder; empty is the top\nbutton ; Cancel\nbutton ; Make a copy\nbutton ; Rename";
        let title = "dialog ; Rename a\nheading ; Rename a";
        assert_heard(page, &format!("{title}\n{rename}"));
        page.press(Key::Escape);
        page.click("[aria-label='Select a']");
        assert_heard(page, SELECTED);
        page.click("#to-reactors");
        page.holds("$$('#reactor-rows tr').length === 3");
        let reactors = "table ; By thread, over the last second\ncolumnheader ; p99\nrowheader ; 0";
        assert_heard(page, &format!("heading ; Activity\n{reactors}"));
    });
}

/// What happens while one looks elsewhere is said aloud, and a fault at once.
#[test]
fn changes_and_faults_are_said() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place("a", "x");
        let alice = ForAlice::start(&dir, &[("", &["read", "write", "list", "watch", "delete"])]);
        alice.open(page, &["a"]);
        alice.replace(&[("", &["read", "list", "watch"])]);
        let is_live = |id: &str| format!("$('#{id}').matches('[role=status], [aria-live=polite]')");
        for id in ["state", "said", "notes"] {
            assert!(page.is(&is_live(id)), "{id}");
        }
        page.says("#said", "1 file");
        page.click("button[aria-label='Delete a']");
        page.click("#ask-yes");
        page.says("#notes [role=alert]", "this needs the right to delete here");
        page.types("#files", page.file("new", "x").display());
        page.says("#said", "new was not uploaded");
    });
}

#[test]
fn tab_reaches_all_there_is() {
    browse_keys(&[("a", "x"), ("b", "y"), ("d", "w")], |page, _| {
        page.says("#state", "Live");
        page.upload(&page.file("c", "z"));
        page.shows(&["a", "b", "c", "d"]);
        let controls = format!("(() => {{ {NAME} return {CONTROLS}; }})()");
        let controls = page.eval(&controls);
        let is_right = controls.as_array().is_some_and(|all| all.len() >= 15);
        assert!(is_right, "{controls}");
        page.eval("document.activeElement.blur()");
        page.eval("getSelection().collapse(document.body, 0)");
        let focused = format!("(() => {{ {NAME} return name(document.activeElement); }})()");
        let mut walked = Vec::new();
        for _ in 0..controls.as_array().map_or(0, Vec::len) {
            page.press(Key::Tab);
            walked.push(page.eval(&focused));
        }
        assert_eq!(json!(walked), controls, "what Tab reaches, in its order");
    });
}
