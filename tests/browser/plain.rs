//! Proves the page without JavaScript: folders are opened, values read and files sent by what the server wrote into it.

use crate::browser::{Browser, Shape, browse_as, origin};
use crate::support::prelude::*;

/// Sends these files by the form of the page.
pub(crate) fn send(page: &Browser, files: &[&Path]) {
    let paths: Vec<&str> = files.iter().map(|path| text(path)).collect();
    page.types("#send input[type=file]", paths.join("\n"));
    page.click("#send button");
}

fn until_seen(page: &Browser, css: &str, expected: &[&str]) {
    let what = format!("{css} shows {expected:?}");
    page.until(&what, || {
        page.seen(css).is_some_and(|texts| texts == expected)
    });
}

#[test]
fn folders_are_opened_and_files_are_sent_without_scripts() {
    browse_as(Shape::PLAIN, |page| {
        let server = TestServer::start(&[]);
        server.store("a/b/deep.txt", "deep");
        server.store("top.txt", "top");
        page.visit(server.addr, "/");
        until_seen(page, "#rows .key", &["a/", "top.txt"]);
        until_seen(page, "button, #state", &["Upload"]);
        page.click("#rows .key");
        until_seen(page, "#rows .key", &["../", "b/"]);

        let large = pattern(1, 700_000);
        let (new, coffee) = (page.file("new.txt", "new"), page.file("café.bin", &large));
        send(page, &[&new, &coffee]);
        let keys = ["../", "b/", "café.bin", "new.txt"];
        until_seen(page, "#rows .key", &keys);
        assert!(server.dir.read("a/café.bin") == large);
        assert_eq!(server.get("a/new.txt").must("content-type"), "text/plain");

        // The same once more is refused, until the box is checked.
        for is_checked in [false, true] {
            if is_checked {
                page.click("#send input[type=checkbox]");
            }
            send(page, &[&page.file("new.txt", "newer")]);
            if is_checked {
                let is_replaced = || server.dir.read("a/new.txt") == b"newer";
                page.until("the file is replaced", is_replaced);
            } else {
                until_seen(page, "h1", &["“a/new.txt” is there already"]);
                until_seen(page, "nav a", &["Back to the folder", "All files"]);
                page.click("nav a");
                until_seen(page, "#rows .key", &keys);
            }
        }
        page.click("#crumbs a");
        until_seen(page, "#rows .key", &["a/", "top.txt"]);
    });
}

#[test]
fn each_failure_is_a_page_with_a_way_back() {
    browse_as(Shape::PLAIN, |page| {
        let server = TestServer::start(&["--max-body", "1KiB"]);
        server.store("a/one.txt", "1");
        page.visit(server.addr, "/a/none.txt");
        until_seen(page, "h1", &["There is no such file"]);
        page.picture("failure.png");
        page.click("nav a");
        until_seen(page, "#rows .key", &["../", "one.txt"]);
        send(page, &[&page.file("large.bin", pattern(1, 5000))]);
        until_seen(page, "h1", &["This is too large"]);
        page.click("nav a");
        until_seen(page, "#rows .key", &["../", "one.txt"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// A browser tells the relation of a page only to servers that it trusts, as those on loopback addresses: to others the
/// origin alone, which depends on the page's referrer policy.
#[test]
fn the_form_is_sent_by_its_own_page_where_the_origin_alone_tells() {
    browse_as(Shape::PLAIN, |page| {
        let server = TestServer::start(&["--allowed-host", "plain.example"]);
        let host = format!("plain.example:{}", server.addr.port());
        page.go(&format!("{}/f/", origin(host)));
        send(page, &[&page.file("new.txt", "new")]);
        until_seen(page, "#rows .key", &["../", "new.txt"]);
        assert_eq!(server.dir.read("f/new.txt"), b"new");
    });
}
