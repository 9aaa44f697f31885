//! Proves the page without JavaScript: folders are opened, values read and files sent by what the server wrote into it.

use fantoccini::Locator;

use crate::browser::{Browser, Shape, browse_as, origin};
use crate::support::prelude::*;

const PLAIN: Shape = Shape {
    is_phone: false,
    is_dark: false,
    is_plain: true,
};

/// The texts of what this selector finds, as they are seen: nothing of what is hidden. `None` while the page changes.
async fn seen(browser: &Browser, css: &str) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    for element in browser.client.find_all(Locator::Css(css)).await.ok()? {
        if element.is_displayed().await.ok()? {
            texts.push(element.text().await.ok()?);
        }
    }
    Some(texts)
}

async fn until_seen(browser: &Browser, css: &str, expected: &[&str]) {
    let what = format!("{css} shows {expected:?}");
    browser
        .until(&what, async || {
            seen(browser, css)
                .await
                .is_some_and(|texts| texts == expected)
        })
        .await;
}

#[test]
fn folders_are_opened_and_files_are_sent_without_scripts() {
    browse_as(PLAIN, async |browser| {
        let server = TestServer::start(&[]);
        server.store("a/b/deep.txt", "deep");
        server.store("top.txt", "top");
        browser.visit(server.addr, "/").await;
        until_seen(browser, "#rows .key", &["a/", "top.txt"]).await;
        until_seen(browser, "button, #state", &["Upload"]).await;
        browser.click("#rows .key").await;
        until_seen(browser, "#rows .key", &["../", "b/"]).await;

        let large = pattern(1, 700_000);
        let files = [
            browser.file("new.txt", "new"),
            browser.file("caf\u{e9}.bin", &large),
        ];
        let field = browser.find("#send input[type=file]").await;
        let paths = files.map(|file| file.display().to_string()).join("\n");
        field.send_keys(&paths).await.expect("the files");
        browser.click("#send button").await;
        until_seen(
            browser,
            "#rows .key",
            &["../", "b/", "caf\u{e9}.bin", "new.txt"],
        )
        .await;
        assert!(server.dir.read("a/caf\u{e9}.bin") == large);
        assert_eq!(server.get("a/new.txt").must("content-type"), "text/plain");

        // The same once more is refused, until the box is checked.
        for is_checked in [false, true] {
            let file = browser.file("new.txt", "newer");
            let field = browser.find("#send input[type=file]").await;
            let path = file.display().to_string();
            field.send_keys(&path).await.expect("the file");
            if is_checked {
                browser.click("#send input[type=checkbox]").await;
            }
            browser.click("#send button").await;
            if is_checked {
                browser
                    .until("the file is replaced", async || {
                        server.dir.read("a/new.txt") == b"newer"
                    })
                    .await;
            } else {
                until_seen(
                    browser,
                    "h1",
                    &["\u{201c}a/new.txt\u{201d} is there already"],
                )
                .await;
                until_seen(browser, "nav a", &["Back to the folder", "All files"]).await;
                browser.click("nav a").await;
                until_seen(
                    browser,
                    "#rows .key",
                    &["../", "b/", "caf\u{e9}.bin", "new.txt"],
                )
                .await;
            }
        }
        browser.click("#crumbs a").await;
        until_seen(browser, "#rows .key", &["a/", "top.txt"]).await;
    });
}

#[test]
fn each_failure_is_a_page_with_a_way_back() {
    browse_as(PLAIN, async |browser| {
        let server = TestServer::start(&["--max-body", "1KiB"]);
        server.store("a/one.txt", "1");
        browser.visit(server.addr, "/a/none.txt").await;
        until_seen(browser, "h1", &["There is no such file"]).await;
        browser.picture("failure.png").await;
        browser.click("nav a").await;
        until_seen(browser, "#rows .key", &["../", "one.txt"]).await;
        let file = browser.file("large.bin", pattern(1, 5000));
        let path = file.display().to_string();
        browser.type_into("#send input[type=file]", &path).await;
        browser.click("#send button").await;
        until_seen(browser, "h1", &["This is too large"]).await;
        browser.click("nav a").await;
        until_seen(browser, "#rows .key", &["../", "one.txt"]).await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

/// A browser tells the relation of a page only to servers that it trusts, as those on loopback addresses: to others the
/// origin alone, which depends on the page's referrer policy.
#[test]
fn the_form_is_sent_by_its_own_page_where_the_origin_alone_tells() {
    browse_as(PLAIN, async |browser| {
        let server = TestServer::start(&["--allowed-host", "plain.example"]);
        let url = format!(
            "{}/f/",
            origin(format_args!("plain.example:{}", server.addr.port()))
        );
        browser.go(&url).await;
        let file = browser.file("new.txt", "new");
        let field = browser.find("#send input[type=file]").await;
        let path = file.display().to_string();
        field.send_keys(&path).await.expect("the file");
        browser.click("#send button").await;
        until_seen(browser, "#rows .key", &["../", "new.txt"]).await;
        assert_eq!(server.dir.read("f/new.txt"), b"new");
    });
}
