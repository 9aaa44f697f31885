//! Proves that the page fits, on a phone and on a desk, light and dark, in each of its states; that axe-core finds no
//! fault with any of them; and that its own policy lets all of it work. The pictures lie in `tmp/pictures` of the build
//! directory.
//!
//! axe-core comes from npm (`tests/clients/install`). Without it what it says is LEFT OUT.

mod pictures;

use serde_json::json;

use crate::browser::{Browser, Shape, browse_as};
use crate::support::prelude::*;

fn axe() -> Option<String> {
    // The directory of what is built for the tests is in that of the build.
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let script = "clients/npm/node_modules/axe-core/axe.min.js";
    let found = fs::read_to_string(built.parent()?.join(script)).ok();
    if found.is_none() {
        let why = "there is no axe-core, which tests/clients/install brings";
        left_out("what axe-core says of the page", why);
    }
    found
}

/// Nothing makes the page scroll sideways, and nothing that can be clicked is cut off.
const FITS: &str = "document.documentElement.scrollWidth <= window.innerWidth \
    && $$('a, button, input, select').filter((it) => it.checkVisibility()) \
    .every((it) => { const box = it.getBoundingClientRect(); \
    return box.left >= 0 && box.right <= (it.closest('.card, dialog') ?? document.body).getBoundingClientRect().right; })";

/// What is too small for a finger (WCAG 2.2, 2.5.8): less than 24 pixels wide or high.
const SMALL: &str = "$$('a, button, input:not([type=file]), select').filter((it) => it.checkVisibility() && !it.matches('.skip')) \
    .map((it) => [it.id || it.textContent, it.getBoundingClientRect()]).filter(([, box]) => Math.min(box.width, box.height) < 23.9).map(([name]) => name)";

/// Every rule but those of later versions of WCAG than 2.2 AA; what axe cannot decide is no fault.
const FAULTS: &str = "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then((found) => \
    done(found.violations.map((it) => [it.id, it.help, it.nodes.map((node) => node.target.join(' '))])), (error) => done([error.message]));";

/// A server with files of each kind, one of a long name, and a folder of folders.
fn start() -> TestServer {
    let server = TestServer::start(&["--max-body", "3MiB", "--threads", "4"]);
    let names =
        "backup-2026-11-20.tar.zst, config.json, notes.txt, photo.svg, report of the year.pdf";
    for (n, key) in (0..).zip(names.split(", ")) {
        server.dir.place(key, "");
        server.dir.set_len(key, 700 * 23_u64.pow(n));
    }
    let text = "{\n  \"threads\": 4,\n  \"durability\": \"disk\"\n}\n";
    server.dir.place("config.json", text);
    let long = "a folder with a long name, of which there are some ".repeat(4);
    let folder = "a/deep/er/2026";
    for name in ["one", "x/y", "two.txt", &format!("{}/z", long.trim_end())] {
        server.dir.place(&format!("{folder}/{name}"), "x");
    }
    let long = "a-very-long-key-without-a-space-".repeat(7);
    server.dir.place(&long, "x");
    server
}

#[test]
fn each_state_of_the_page_fits_and_has_no_fault() {
    let axe = axe();
    for (is_phone, is_dark) in [(false, false), (false, true), (true, false), (true, true)] {
        let shape = Shape {
            is_phone,
            is_dark,
            ..Shape::DESK
        };
        browse_as(shape, |page| {
            let size = ["desk", "phone"][usize::from(is_phone)];
            let colour = ["light", "dark"][usize::from(is_dark)];
            in_each_state(page, &start(), &|what| {
                let name = format!("{what}-{size}-{colour}");
                assert_eq!(page.eval(FITS), true, "{name}");
                if is_phone {
                    assert_eq!(page.eval(SMALL), json!([]), "{name}");
                }
                page.picture(&format!("{name}.png"));
                if let Some(axe) = &axe {
                    page.run(axe);
                    assert_eq!(page.call(FAULTS), json!([]), "{name}");
                }
            });
            let back = page.eval("getComputedStyle(document.body).backgroundColor");
            assert_eq!(back == "rgb(17, 20, 24)", is_dark, "{back}");
        });
    }
}

/// Brings the page into each of its states, and has `look` judge it there.
fn in_each_state(page: &Browser, server: &TestServer, look: &dyn Fn(&str)) {
    let file = page.file("holiday.jpg", pattern(2, 2_000_000));
    page.visit(server.addr, "/");
    page.holds("$$('#rows a[data-key]').length === 6");
    page.upload(&file);
    page.holds("$$('#rows tr').length === 8");
    page.says("#state", "Live");
    look("keys");
    // The header is one line, and so are the heads of columns.
    let lines = "new Set($$('.top > *').map((it) => it.getBoundingClientRect()) \
        .map((box) => Math.round((box.top + box.bottom) / 20))).size";
    assert_eq!(page.eval(lines), 1);
    let heads = "new Set($$('#keys th:has(button)') \
        .map((it) => Math.round(it.querySelector('button').getBoundingClientRect().top))).size";
    assert_eq!(page.eval(heads), 1);
    // Who cannot see the colours of the kinds sees their shapes: no two of these are the same.
    let kinds = "new Set($$('#rows a[data-key]').map((it) => getComputedStyle(it, '::before').maskImage)).size";
    assert_eq!(page.eval(kinds), 5);

    let file = page.file("large.bin", pattern(1, 4 << 20));
    page.types("#files", file.display());
    page.says("#uploads-count", "1 failed");
    page.click("[aria-label='Select notes.txt']");
    page.eval("note('a message', true)");
    page.eval("note('something went well')");
    look("messages");
    page.eval("$('#notes button').click()");
    page.eval("$('#picked-none').click()");
    page.click("#rows a[data-key='config.json']");
    page.says("#preview-body", "durability");
    look("preview");
    // No button has a line for itself, but on a phone the one that is used most.
    let widest = "Math.max(...$$('#preview .buttons > :not([hidden], .primary)') \
        .map((it) => it.offsetWidth)) < $('#preview .buttons').offsetWidth * 0.6";
    assert_eq!(page.eval(widest), true);
    assert_eq!(page.complaints(), [""; 0]);

    // The server has no rules, by which a link can be made.
    let signed = "window.fetched = window.fetch; window.fetch = async () => new Response('/config.json?expires=1900000000&by=share-1&signature=' + 'x'.repeat(43)); \
        Rights.lasts = () => 30 * 86400; $('#preview-share').hidden = false;";
    page.eval(&format!("(() => {{ {signed} }})()"));
    look("preview-share");
    page.click("#preview-share");
    page.says("#share-text", "2030");
    look("share");
    page.click("#share-close");
    page.eval("(() => { window.fetch = window.fetched; $('#preview-share').hidden = true; })()");

    page.click("#preview-edit");
    page.types("#edit-text", "mine");
    server.store("config.json", "theirs");
    page.click("#edit-save");
    page.says("#edit-their-text", "theirs");
    look("clash");
    page.click("#edit-cancel");
    // What is offered once the file is read moves the other buttons.
    page.holds("$('#preview-edit').checkVisibility()");
    page.click("#preview-rename");
    page.says("#naming-title", "config.json");
    look("rename");
    page.click("#naming-yes");
    page.says("#naming-fault", "its name already");
    look("refused");
    page.click("#naming-no");
    page.click("[aria-label='Delete photo.svg']");
    page.says("#ask-title", "Delete");
    look("question");
    page.click("#ask-no");

    page.click("#new-folder");
    page.says("#naming-title", "New folder");
    look("new-folder");
    page.click("#naming-no");
    page.click("[aria-label='Delete a/']");
    page.says("#ask-title", "Delete a/");
    look("delete-folder");
    page.click("#ask-no");
    page.eval("$$('#notes button').forEach((it) => it.click())");
    page.click("#pick-all");
    page.click("#picked-move");
    page.says("#naming-title", "Move 1 folder and 7 files");
    look("move");
    page.click("#naming-no");
    page.visit(server.addr, "/?limit=3");
    page.says("#count", "on this page");
    page.click("th[data-column=size] button");
    page.says("#count", "shown");
    look("sorted");

    page.visit(server.addr, "/a/deep/er/2026/");
    page.holds("$$('#rows .pick').length === 4");
    page.click("#pick-all");
    page.says("#picked-count", "2 folders and 2 files selected");
    look("folder");
    page.visit_keys(server.addr, "/a/?find=none");
    look("nothing-found");
    page.visit(server.addr, "/#activity");
    page.holds("$$('#reactor-rows tr').length === 5");
    look("reactors");
    page.visit(server.addr, "/none");
    page.says("h1", "There is no such file");
    look("failure");
}
