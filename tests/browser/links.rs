//! Proves that names are links to the files themselves, that a file that is looked at has an address of its own, and that one
//! goes on to the next from there; and that times read well.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

async fn address(browser: &Browser) -> serde_json::Value {
    browser.eval("location.pathname + location.search").await
}

async fn until_shown(browser: &Browser, text: &str) {
    browser.until_text("#preview-body pre", text).await;
}

async fn until_closed(browser: &Browser) {
    browser
        .until_true("!document.getElementById('preview').open")
        .await;
}

#[test]
fn a_name_is_a_link_to_the_file() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("f/a%20b%23.txt", "the text of a b");
        browser.visit_keys(server.addr, "/f/").await;
        let name = "document.querySelector('#rows a[data-key]')";
        let href = browser.eval(&format!("{name}.getAttribute('href')")).await;
        assert_eq!(href, "/f/a%20b%23.txt");
        // With a modifier or another button it is the browser's own: another tab, another window.
        let click = "(() => { let isOurs = null; window.addEventListener('click', (event) => { isOurs = event.defaultPrevented; event.preventDefault(); }, { once: true }); \
                     document.querySelector('#rows a[data-key]').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: true })); return isOurs; })()";
        assert_eq!(browser.eval(click).await, false);
        browser
            .go(&format!(
                "{}{}",
                crate::browser::origin(server.addr),
                href.as_str().expect("text")
            ))
            .await;
        browser.until_text("body", "the text of a b").await;
    });
}

#[test]
fn a_look_has_an_address_and_the_way_back_closes_it() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["f/a", "f/b", "f/c"] {
            server.store(key, format!("text of {key}"));
        }
        browser.visit_keys(server.addr, "/f/").await;
        browser.click("#rows a[data-key='f/a']").await;
        until_shown(browser, "text of f/a").await;
        assert_eq!(address(browser).await, "/f/?view=a");
        browser.client.back().await.expect("back");
        until_closed(browser).await;
        assert_eq!(address(browser).await, "/f/");
        browser
            .until_true("document.activeElement.textContent === 'a'")
            .await;
        browser.client.forward().await.expect("forward");
        until_shown(browser, "text of f/a").await;
        browser.press(&Key::Escape.to_string()).await;
        until_closed(browser).await;
        browser
            .until_true("location.pathname + location.search === '/f/'")
            .await;

        // From one to the next by arrows and buttons, to the last; the way back leads to the list at once.
        browser.click("#rows a[data-key='f/a']").await;
        until_shown(browser, "text of f/a").await;
        let offered = "['previous', 'next'].map((it) => document.getElementById(`preview-${it}`).checkVisibility())";
        assert_eq!(browser.eval(offered).await, json!([false, true]));
        browser.press(&Key::Right.to_string()).await;
        until_shown(browser, "text of f/b").await;
        assert_eq!(address(browser).await, "/f/?view=b");
        browser.click("#preview-next").await;
        until_shown(browser, "text of f/c").await;
        assert_eq!(browser.eval(offered).await, json!([true, false]));
        browser.press(&Key::Left.to_string()).await;
        until_shown(browser, "text of f/b").await;
        browser.client.back().await.expect("back");
        until_closed(browser).await;
        let on_the_last = "document.activeElement.dataset.key === 'f/b'";
        browser.until_true(on_the_last).await;

        // In a tab of its own, also of a file that the list does not show.
        browser.visit(server.addr, "/f/?view=b&prefix=c").await;
        until_shown(browser, "text of f/b").await;
        browser.until_keys(&["../", "c"]).await;
        browser.click("#preview-close").await;
        until_closed(browser).await;
        assert_eq!(address(browser).await, "/f/?prefix=c");
        browser.visit(server.addr, "/f/?view=gone").await;
        browser
            .until_text("#preview-body", "There is no such file.")
            .await;
        let offered = "document.querySelectorAll('#preview-buttons > :not([hidden])').length";
        assert_eq!(
            browser.eval(offered).await,
            0,
            "nothing can be done with it"
        );
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn times_say_how_long_ago_and_when() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        browser.visit_keys(server.addr, "/").await;
        let time = "document.querySelector('#rows time')";
        assert_eq!(browser.text("#rows time").await, "just now");
        let title = browser.eval(&format!("{time}.title")).await;
        let year = browser.eval("new Date().getFullYear().toString()").await;
        let (title, year) = (title.as_str().expect("text"), year.as_str().expect("text"));
        assert!(title.contains(year) && title.contains("day, "), "{title}");
        let machine = format!("{time}.dateTime === new Date({time}.dateTime).toISOString()");
        assert_eq!(browser.eval(&machine).await, true);
        let ago = "[30, 61, 3000, 7200, 90000, 500000].map((seconds) => Format.ago(new Date(Date.now() - seconds * 1000)))";
        let expected = [
            "just now",
            "1 min ago",
            "50 min ago",
            "2 h ago",
            "1 day ago",
            "6 days ago",
        ];
        assert_eq!(browser.eval(ago).await, json!(expected));
        let old = "Format.ago(new Date('2001-02-03T12:00:00Z')).includes('2001')";
        assert_eq!(browser.eval(old).await, true);
    });
}

#[test]
fn selected_files_are_downloaded_one_by_one() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for key in ["a.bin", "b.bin", "c.bin"] {
            server.store(key, format!("bytes of {key}"));
        }
        browser.visit_keys(server.addr, "/").await;
        browser.click("[aria-label='Select a.bin']").await;
        browser.click("[aria-label='Select c.bin']").await;
        browser.click("#picked-download").await;
        assert_eq!(browser.downloaded("a.bin").await, b"bytes of a.bin");
        assert_eq!(browser.downloaded("c.bin").await, b"bytes of c.bin");
        browser
            .until_text("#picked-count", "2 files selected")
            .await;
    });
}

#[test]
fn a_link_leads_past_what_is_above_the_files() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        browser.visit_keys(server.addr, "/").await;
        browser.press(&Key::Tab.to_string()).await;
        assert_eq!(browser.eval("document.activeElement.id").await, "skip");
        let seen = "document.activeElement.getBoundingClientRect().top >= 0";
        browser.until_true(seen).await;
        browser.press(&Key::Enter.to_string()).await;
        browser
            .until_true("document.activeElement.textContent === 'a'")
            .await;
    });
}
