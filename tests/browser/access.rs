//! Proves that the page can be used without seeing it and without a mouse: what a screen reader is told, what Tab reaches,
//! and that what is written stands out from what is behind it.

use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::alice::ForAlice;
use crate::browser::{Browser, Shape, browse, browse_as};
use crate::support::prelude::*;

/// What is operated, or stands for something that is not text: each has to have a name.
const NAMED: [&str; 12] = [
    "button",
    "link",
    "searchbox",
    "textbox",
    "checkbox",
    "progressbar",
    "dialog",
    "image",
    "table",
    "region",
    "navigation",
    "heading",
];

/// The least contrast of text that WCAG 2.2 (1.4.3) wants, of large text, and each text that has less: what it says, and how
/// much it has. What is disabled may have less.
const FAINT: &str = "(() => {
    const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
    const parse = (colour) => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
        return { rgb: [r, g, b], a: a / 255 };
    };
    const over = (front, back) => front.rgb.map((c, i) => c * front.a + back[i] * (1 - front.a));
    const behind = (element) => {
        if (element === null) return [255, 255, 255];
        const own = parse(getComputedStyle(element).backgroundColor);
        const isTop = element.matches('dialog');
        return own.a === 1 || isTop ? over(own, [255, 255, 255]) : over(own, behind(element.parentElement));
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const seen = [];
    const look = (element, style, text) => {
        const back = behind(element);
        let opacity = 1;
        for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
        const own = parse(style.color);
        const found = contrast(over({ rgb: own.rgb, a: own.a * opacity }, back), back);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        seen.push({ text, found, isFaint: found < (isLarge ? 3 : 4.5) });
    };
    for (const element of $$('body, body *')) {
        if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('.unseen, :disabled, script, svg, noscript')) continue;
        const text = [...element.childNodes].filter((it) => it.nodeType === 3).map((it) => it.data.trim()).join(' ').trim();
        if (text) look(element, getComputedStyle(element), text);
        if (element.placeholder) look(element, getComputedStyle(element, '::placeholder'), element.placeholder);
    }
    return { count: seen.length, faint: seen.filter((it) => it.isFaint).map((it) => `${it.found.toFixed(2)}: ${it.text}`) };
})()";

/// What can be operated now, in the order of the document: each by its name.
const CONTROLS: &str = "$$('a[href], button, input, [tabindex]') \
    .filter((it) => it.checkVisibility() && !it.disabled && it.tabIndex >= 0).map((it) => name(it))";

const NAME: &str = "const name = (it) => it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent.trim();";

fn open(page: &Browser, server: &TestServer, keys: &[&str]) {
    page.visit(server.addr, "/");
    page.shows(keys);
    page.says("#state", "Live");
}

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

fn assert_heard(page: &Browser, expected: &[(&str, &str)]) {
    let heard = heard(page);
    let mut left = heard.iter();
    for (role, name) in expected {
        let is_it = |(its_role, its_name): &(String, String)| its_role == role && its_name == name;
        let is_right = left.any(is_it);
        assert!(is_right, "no {role} {name:?} at its place in {heard:#?}");
    }
    let is_nameless =
        |(role, name): &&(String, String)| NAMED.contains(&&**role) && name.is_empty();
    let nameless: Vec<_> = heard.iter().filter(is_nameless).collect();
    assert!(nameless.is_empty(), "{nameless:?} in {heard:#?}");
}

#[test]
fn a_screen_reader_is_told_what_everything_is() {
    browse(|page| {
        let server = TestServer::start(&["--threads", "2"]);
        server.store("a", "the value of a");
        open(page, &server, &["a"]);
        let list = [
            ("link", "Skip to the files"),
            ("heading", "data-server"),
            ("navigation", "Views"),
            ("link", "Files"),
            ("link", "Activity"),
            ("status", "Changes show as they happen"),
            ("main", ""),
            ("heading", "Files"),
            ("searchbox", "Search names, here and in the folders below"),
            ("button", "Upload"),
            ("table", "Files by name"),
            ("columnheader", "Name"),
            ("columnheader", "Size"),
            ("columnheader", "Changed"),
            ("columnheader", "Actions"),
            ("rowheader", "a"),
            ("link", "a"),
            ("cell", "14 B"),
            ("link", "Download a"),
            ("button", "Delete a"),
            ("navigation", "Pages"),
        ];
        assert_heard(page, &list);
        page.click("button[aria-label='Delete a']");
        page.says("#ask-title", "Delete a?");
        let question = [
            ("dialog", "Delete a?"),
            ("heading", "Delete a?"),
            ("button", "Cancel"),
            ("button", "Delete"),
        ];
        assert_heard(page, &question);
        page.click("#ask-no");
        page.click("#rows .key");
        page.says("#preview-body", "the value of a");
        let look = [
            ("dialog", "a"),
            ("button", "Close"),
            ("region", "Text of the file"),
            ("button", "Delete"),
            ("link", "Download"),
        ];
        assert_heard(page, &look);
        page.click("#preview-rename");
        let rename = [
            ("dialog", "Rename a"),
            ("heading", "Rename a"),
            ("textbox", "New name, with its folders"),
            ("button", "Cancel"),
            ("button", "Rename"),
        ];
        assert_heard(page, &rename);
        page.press(Key::Escape);
        page.click("[aria-label='Select a']");
        let selected = [
            ("checkbox", "Select all files of this page"),
            ("checkbox", "Select a"),
            ("region", "Selected files"),
            ("button", "Select none"),
            ("button", "Delete"),
        ];
        assert_heard(page, &selected);
        page.click("#to-reactors");
        page.holds("$$('#reactor-rows tr').length === 3");
        let reactors = [
            ("heading", "Activity"),
            ("table", "By thread, over the last second"),
            ("columnheader", "p99"),
            ("rowheader", "0"),
        ];
        assert_heard(page, &reactors);
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
        page.says("#notes [role=alert]", "it takes the right to delete here");
        let file = page.file("new", "x");
        page.types("#files", file.display());
        page.says("#said", "new was not uploaded");
    });
}

#[test]
fn tab_reaches_all_there_is_and_a_value_is_deleted_without_a_mouse() {
    browse(|page| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        server.store("b", "y");
        server.store("d", "w");
        let file = page.file("c", "z");
        open(page, &server, &["a", "b", "d"]);
        page.upload(&file);
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
        assert_eq!(
            json!(walked),
            controls,
            "what Tab reaches, and in which order"
        );

        // On, backwards, to the file that is deleted; the question is answered with no, then with yes.
        let delete = || {
            for _ in 0..20 {
                if page.eval(&focused) == "b" {
                    return page.press(Key::Delete);
                }
                page.press(&format!("{}{}", Key::Shift, Key::Tab));
            }
            panic!("Tab goes not back to b");
        };
        delete();
        page.holds("document.activeElement.id === 'ask-no'");
        page.press(Key::Enter);
        page.holds("!$('#ask').open");
        assert_eq!(page.eval(&focused), "b", "the focus is back");
        server.dir.assert_holds(&["a", "b", "c", "d"]);
        delete();
        page.confirm_by(Key::Enter);
        page.shows(&["a", "c", "d"]);
        server.dir.assert_holds(&["a", "c", "d"]);
    });
}

#[test]
fn text_stands_out_in_light_and_in_dark() {
    for is_dark in [false, true] {
        let shape = Shape {
            is_phone: false,
            is_dark,
            ..Shape::default()
        };
        browse_as(shape, |page| {
            let server = TestServer::start(&["--threads", "2", "--max-body", "1KiB"]);
            server.store("a", "the value of a");
            let (small, large) = (page.file("b", "x"), page.file("c", pattern(1, 5000)));
            open(page, &server, &["a"]);
            let files = format!("{}\n{}", small.display(), large.display());
            page.types("#files", &files);
            page.says("#uploads-count", "1 of 2 uploaded, 1 failed");
            page.eval("note('something went well')");
            page.eval("note('something went wrong', true)");
            assert_stands_out(page, 20);
            page.click("#rows .key");
            page.says("#preview-body", "the value of a");
            assert_stands_out(page, 20);
            page.click("#preview-delete");
            page.says("#ask-title", "Delete a?");
            assert_stands_out(page, 20);
            page.click("#ask-no");
            page.click("#rows .key");
            page.click("#preview-rename");
            page.click("#rename-yes");
            page.says("#rename-fault", "its name already");
            assert_stands_out(page, 20);
            page.press(Key::Escape);
            page.click("#pick-all");
            page.says("#picked-count", "2 files");
            assert_stands_out(page, 20);
            page.click("#to-reactors");
            page.holds("$$('#reactor-rows tr').length === 3");
            assert_stands_out(page, 20);
            page.visit(server.addr, "/?prefix=none");
            page.says("#empty-title", "No name begins with");
            assert_stands_out(page, 5);
        });
    }
}

/// At least so many texts are seen, and all of them well.
fn assert_stands_out(page: &Browser, at_least: u64) {
    let found = page.eval(FAINT);
    assert!(found["count"].as_u64() >= Some(at_least), "{found}");
    assert_eq!(found["faint"], json!([]));
}
