//! Proves that axe-core finds no fault with the page: in a window and on a phone, light and dark, with its dialogs open.
//!
//! axe-core comes from npm (`tests/clients/install`). Without it the test says LEFT OUT and passes.

use serde_json::{Value, json};

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
        let test = thread::current().name().unwrap_or("a test").to_owned();
        left_out(
            &test,
            "there is no axe-core, which tests/clients/install brings",
        );
    }
    found
}

/// Every rule but those of later versions of WCAG than 2.2 AA; what axe cannot decide is no fault.
async fn assert_no_fault(browser: &Browser, what: &str) {
    let run = "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then((found) => \
        done(found.violations.map((it) => [it.id, it.help, it.nodes.map((node) => node.target.join(' '))])), (error) => done([error.message]));";
    let found = browser.client.execute_async(run, vec![]).await;
    let found: Value = found.expect("axe runs");
    assert_eq!(found, json!([]), "{what}");
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
        browse_as(shape, async |browser| {
            let server = TestServer::start(&["--max-body", "1MiB"]);
            for key in ["folder/x", "a.txt", "b.png", "c.mp4"] {
                server.store(key, "the text of a file");
            }
            let what = |what: &str| format!("{what}, phone: {is_phone}, dark: {is_dark}");
            let load = async || {
                browser
                    .client
                    .execute(&axe, vec![])
                    .await
                    .expect("axe is loaded");
            };
            browser.visit_keys(server.addr, "/").await;
            browser.until_text("#state", "Live").await;
            load().await;
            assert_no_fault(browser, &what("the list")).await;
            let file = browser.file("large.bin", pattern(1, 2 << 20));
            browser
                .type_into("#files", &file.display().to_string())
                .await;
            browser.until_text("#uploads-count", "1 failed").await;
            browser.click("[aria-label='Select a.txt']").await;
            browser.eval("note('a message', true)").await;
            assert_no_fault(browser, &what("uploads, a selection and a message")).await;
            browser
                .eval("document.querySelector('#notes button').click()")
                .await;
            browser.click("#rows a[data-key='a.txt']").await;
            browser.until_text("#preview-body", "the text").await;
            assert_no_fault(browser, &what("a look at a text")).await;
            browser.click("#preview-edit").await;
            browser.type_into("#edit-text", "mine").await;
            server.store("a.txt", "theirs");
            browser.click("#edit-save").await;
            browser.until_text("#edit-their-text", "theirs").await;
            assert_no_fault(browser, &what("an edit, and a clash")).await;
            browser.click("#edit-cancel").await;
            browser.click("#preview-rename").await;
            browser.until_text("#rename-title", "a.txt").await;
            assert_no_fault(browser, &what("a rename")).await;
            browser.click("#rename-no").await;
            browser.click("[aria-label='Delete b.png']").await;
            browser.until_text("#ask-title", "Delete").await;
            assert_no_fault(browser, &what("a question")).await;
            browser.click("#ask-no").await;
            browser.visit_keys(server.addr, "/folder/?find=none").await;
            load().await;
            assert_no_fault(browser, &what("nothing found")).await;
            browser.visit(server.addr, "/#activity").await;
            browser
                .until_true("document.querySelectorAll('#reactor-rows tr').length > 1")
                .await;
            load().await;
            assert_no_fault(browser, &what("the activity")).await;
            browser.visit(server.addr, "/none").await;
            browser.until_text("h1", "There is no such file").await;
            load().await;
            assert_no_fault(browser, &what("a failure")).await;
        });
    }
}
