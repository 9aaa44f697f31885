//! Proves folders: they are rows with links, are gone into and back out of, are found again by their address, and come and
//! go with their keys.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

/// A server with keys in folders, at its root and at two depths.
fn start() -> TestServer {
    let server = TestServer::start(&[]);
    for key in words("a-b a/b/deep a/one a/two%20%23%3F%25 z %C3%A4%20b/c") {
        server.store(key, key);
    }
    server
}

async fn address(browser: &Browser) -> String {
    let address = browser.eval("location.pathname + location.search").await;
    address.as_str().expect("an address").to_owned()
}

const ROOT: [&str; 4] = ["a/", "ä b/", "a-b", "z"];
const A: [&str; 4] = ["../", "b/", "one", "two #?%"];

#[test]
fn folders_are_gone_into_and_back_out_of_without_a_new_document() {
    browse(async |browser| {
        let server = start();
        browser.visit(server.addr, "/").await;
        browser.until_keys(&ROOT).await;
        browser.until_text("#count", "2 folders and 2 files").await;
        browser.eval("window.isTheSame = true").await;
        browser.click("#rows a[href='/a/']").await;
        browser.until_keys(&A).await;
        assert_eq!(address(browser).await, "/a/");
        assert_eq!(browser.text("#crumbs").await, "Filesa");
        let expected = "a/ – data-server";
        assert_eq!(browser.client.title().await.expect("a title"), expected);
        browser.click("#rows a[href='/a/b/']").await;
        browser.until_keys(&["../", "deep"]).await;
        assert_eq!(browser.text("#crumbs").await, "Filesab");

        // Back and forward, up by the row, and to the root by the first of the path.
        browser.client.back().await.expect("back");
        browser.until_keys(&A).await;
        browser.client.forward().await.expect("forward");
        browser.until_keys(&["../", "deep"]).await;
        browser.click("#rows .up a").await;
        browser.until_keys(&A).await;
        browser.click("#crumbs li:first-child a").await;
        browser.until_keys(&ROOT).await;
        assert_eq!(address(browser).await, "/");
        let expected = "data-server";
        assert_eq!(browser.client.title().await.expect("a title"), expected);
        browser.click("#rows a[href='/%C3%A4%20b/']").await;
        browser.until_keys(&["../", "c"]).await;
        assert_eq!(browser.eval("window.isTheSame").await, true);
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn the_address_of_a_folder_opens_it_also_in_another_tab() {
    browse(async |browser| {
        let server = start();
        browser.visit(server.addr, "/%C3%A4%20b/").await;
        browser.until_keys(&["../", "c"]).await;
        browser.until_text("#crumbs", "ä b").await;
        browser.visit(server.addr, "/a/").await;
        browser.until_keys(&A).await;
        browser.client.refresh().await.expect("the page again");
        browser.until_keys(&A).await;
        // With a modifier the link is the browser's own.
        let click = "(() => { const link = document.querySelector(\"#rows a[href='/a/b/']\"); \
                     let isOurs = null; window.addEventListener('click', (event) => { isOurs = event.defaultPrevented; event.preventDefault(); }, { once: true }); \
                     link.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: true })); return isOurs; })()";
        assert_eq!(browser.eval(click).await, false);
        assert_eq!(address(browser).await, "/a/");
    });
}

#[test]
fn keys_are_found_paged_looked_at_and_deleted_within_a_folder() {
    browse(async |browser| {
        let server = start();
        for n in 0..120 {
            server.dir.place(&format!("many/k{n:03}"), "x");
        }
        browser.visit(server.addr, "/a/").await;
        browser.until_keys(&A).await;
        browser.type_into("#find", "t").await;
        browser.until_keys(&["../", "two #?%"]).await;
        assert_eq!(address(browser).await, "/a/?find=t");
        browser.type_into("#find", "z").await;
        browser
            .until_text("#empty-title", "No name in a/ has “tz” in it")
            .await;
        browser.client.refresh().await.expect("the page again");
        browser
            .until_text("#empty-title", "No name in a/ has “tz” in it")
            .await;
        // A prefix may reach into a folder.
        browser.visit(server.addr, "/?prefix=a/").await;
        browser.until_keys(&["a/b/", "a/one", "a/two #?%"]).await;

        browser
            .visit(server.addr, "/many/?prefix=k&limit=100")
            .await;
        browser.until_text("#count", "100 files on this page").await;
        browser.click("#next").await;
        browser.until_text("#count", "20 files on this page").await;
        let expected = "/many/?prefix=k&after=many%2Fk099&limit=100";
        assert_eq!(address(browser).await, expected);

        browser.visit(server.addr, "/a/").await;
        browser.click("button[aria-label='Delete two #?%']").await;
        browser.until_text("#ask-title", "Delete a/two #?%?").await;
        browser.click("#ask-yes").await;
        browser.until_keys(&["../", "b/", "one"]).await;
        browser.click("#rows a[data-key]").await;
        browser.until_text("#preview-title", "a/one").await;
        browser.until_text("#preview-body", "a/one").await;
    });
}

#[test]
fn a_folder_comes_with_its_first_key_and_goes_with_its_last() {
    browse(async |browser| {
        let server = start();
        browser.visit(server.addr, "/a/").await;
        browser.until_keys(&A).await;
        browser.until_text("#state", "Live").await;
        // What comes shows without the listing being read: not even the root's.
        browser
            .eval("window.fetch = () => { throw new Error('the listing was read') }")
            .await;
        server.store("a/new/x/y", "1");
        server.store("other/x", "1");
        browser
            .until_keys(&["../", "b/", "new/", "one", "two #?%"])
            .await;
        server.store("a/new/z", "1");
        server.store("a/n", "1");
        browser
            .until_keys(&["../", "b/", "new/", "n", "one", "two #?%"])
            .await;
        browser.client.refresh().await.expect("the page again");
        browser.until_text("#state", "Live").await;
        browser
            .until_keys(&["../", "b/", "new/", "n", "one", "two #?%"])
            .await;
        // One that still holds a key stays.
        assert_eq!(server.ask("DELETE", "a/new/z").status, 200);
        assert_eq!(server.ask("DELETE", "a/b/deep").status, 200);
        browser
            .until_keys(&["../", "new/", "n", "one", "two #?%"])
            .await;
        assert_eq!(server.ask("DELETE", "a/new/x/y").status, 200);
        browser.until_keys(&["../", "n", "one", "two #?%"]).await;
        // The last key of the folder that is shown: it is empty, and can be filled again.
        for key in ["n", "one", "two%20%23%3F%25"] {
            assert_eq!(server.ask("DELETE", &format!("a/{key}")).status, 200);
        }
        browser.until_keys(&["../"]).await;
        browser
            .until_text("#empty-title", "No files in a/ yet")
            .await;
        server.store("a/again", "1");
        browser.until_keys(&["../", "again"]).await;
    });
}

#[test]
fn folders_are_walked_with_the_keyboard() {
    browse(async |browser| {
        let server = start();
        browser.visit(server.addr, "/").await;
        browser.until_keys(&ROOT).await;
        let focused = "document.activeElement.textContent";
        browser
            .eval("document.querySelector(\"#rows a[href='/a/']\").focus()")
            .await;
        browser.press(&Key::Enter.to_string()).await;
        browser.until_keys(&A).await;
        browser.until_true(&format!("{focused} === '../'")).await;
        browser
            .until_text("#said", "1 folder and 2 files in a/")
            .await;
        // The focus comes back to the folder that was left.
        browser.press(&Key::Enter.to_string()).await;
        browser.until_keys(&ROOT).await;
        browser.until_true(&format!("{focused} === 'a/'")).await;
    });
}

#[test]
fn a_hostile_folder_is_text() {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='pwned'\">";
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server
            .dir
            .place(&format!("{HOSTILE}/javascript:alert(1)/x"), "x");
        server.dir.place("\u{202e}gpj/x", "x");
        browser.visit(server.addr, "/").await;
        browser
            .until_keys(&[&format!("{HOSTILE}/"), "\\u{202e}gpj/"])
            .await;
        browser.click("#rows a.key").await;
        browser.until_keys(&["../", "javascript:alert(1)/"]).await;
        browser.until_text("#crumbs", HOSTILE).await;
        browser.click("#rows tr:last-child a.key").await;
        browser.until_keys(&["../", "x"]).await;
        browser.client.refresh().await.expect("the page again");
        browser.until_keys(&["../", "x"]).await;
        let markup = "document.querySelectorAll('img, svg script').length";
        assert_eq!(browser.eval(markup).await, json!(0));
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

/// The rows of the document are there until the script has its own: a list is never empty in between.
#[test]
fn the_rows_of_the_document_stay_until_the_script_has_read_the_keys() {
    browse(async |browser| {
        let server = start();
        // Nothing is fetched until the test says so.
        let gate = "{ const ask = window.fetch; const gate = new Promise((resolve) => { window.release = resolve; }); \
                    window.fetch = async (...what) => { await gate; return ask(...what); }; }";
        let source = json!({ "source": gate });
        browser
            .devtools_with("Page.addScriptToEvaluateOnNewDocument", source)
            .await;
        browser.visit(server.addr, "/a/").await;
        browser.until_text("#state", "Live").await;
        let rows = "[...document.querySelectorAll('#rows .key')].map((it) => it.textContent)";
        assert_eq!(browser.eval(rows).await, json!(A));
        let count = "document.querySelectorAll('#rows a[data-key]').length";
        assert_eq!(browser.eval(count).await, 0);
        let watch = "new MutationObserver(() => { window.wasEmpty ||= document.querySelectorAll('#rows .key').length !== 4; }).observe(document.getElementById('rows'), { childList: true })";
        browser.eval(watch).await;
        browser.eval("window.release()").await;
        browser.until_keys(&A).await;
        assert_eq!(browser.eval(count).await, 2);
        assert_eq!(browser.eval("window.wasEmpty").await, false);
    });
}
