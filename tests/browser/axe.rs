//! Proves that axe-core finds no fault with the page: in a window and on a phone, light and dark, with its dialogs open.
//!
//! axe-core comes from npm (`tests/clients/install`). Without it the test says LEFT OUT and passes.

use serde_json::json;

use crate::browser::{Browser, Shape, browse_as};
use crate::support::prelude::*;

fn axe() -> Option<String> {
    // The directory of what is built for the tests is in that of the build.
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let script = built
        .parent()?
        .join("clients/npm/node_modules/axe-core/axe.min.js");
    let found = fs::read_to_string(script).ok();
    if found.is_none() {
        left_out(
            &this_test(),
            "there is no axe-core, which tests/clients/install brings",
        );
    }
    found
}

/// Every rule but those of later versions of WCAG than 2.2 AA; what axe cannot decide is no fault.
fn assert_no_fault(page: &Browser, what: &str) {
    let run = "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then((found) => \
        done(found.violations.map((it) => [it.id, it.help, it.nodes.map((node) => node.target.join(' '))])), (error) => done([error.message]));";
    assert_eq!(page.call(run), json!([]), "{what}");
}

#[test]
fn axe_finds_no_fault() {
    let axe = needed!(axe());
    for (is_phone, is_dark) in [(false, false), (false, true), (true, false), (true, true)] {
        let shape = Shape {
            is_phone,
            is_dark,
            ..Shape::default()
        };
        browse_as(shape, |page| {
            let server = TestServer::start(&["--max-body", "1MiB"]);
            for key in ["folder/x", "a.txt", "b.png", "c.mp4"] {
                server.store(key, "the text of a file");
            }
            let what = |what: &str| format!("{what}, phone: {is_phone}, dark: {is_dark}");
            let load = || page.run(&axe);
            page.visit_keys(server.addr, "/");
            page.says("#state", "Live");
            load();
            assert_no_fault(page, &what("the list"));
            let file = page.file("large.bin", pattern(1, 2 << 20));
            page.types("#files", file.display());
            page.says("#uploads-count", "1 failed");
            page.click("[aria-label='Select a.txt']");
            page.eval("note('a message', true)");
            page.eval("note('something went well')");
            assert_no_fault(page, &what("uploads, a selection and a message"));
            page.eval("$('#notes button').click()");
            page.click("#rows a[data-key='a.txt']");
            page.says("#preview-body", "the text");
            assert_no_fault(page, &what("a look at a text"));
            page.click("#preview-edit");
            page.types("#edit-text", "mine");
            server.store("a.txt", "theirs");
            page.click("#edit-save");
            page.says("#edit-their-text", "theirs");
            assert_no_fault(page, &what("an edit, and a clash"));
            page.click("#edit-cancel");
            page.click("#preview-rename");
            page.says("#rename-title", "a.txt");
            page.click("#rename-yes");
            page.says("#rename-fault", "its name already");
            assert_no_fault(page, &what("a rename that is refused"));
            page.click("#rename-no");
            page.click("[aria-label='Delete b.png']");
            page.says("#ask-title", "Delete");
            assert_no_fault(page, &what("a question"));
            page.click("#ask-no");
            page.visit_keys(server.addr, "/folder/?find=none");
            load();
            assert_no_fault(page, &what("nothing found"));
            page.visit(server.addr, "/#activity");
            page.holds("$$('#reactor-rows tr').length > 1");
            load();
            assert_no_fault(page, &what("the activity"));
            page.visit(server.addr, "/none");
            page.says("h1", "There is no such file");
            load();
            assert_no_fault(page, &what("a failure"));
        });
    }
}
