//! Proves that names are links to the files themselves, that a file that is looked at has an address of its own, and
//! that one goes on to the next from there; and that times read well.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse_at, browse_keys, browse_served};

fn until_shown(page: &Browser, text: &str) {
    page.says("#preview-body pre", text);
}

#[test]
fn a_name_is_a_link_to_the_file() {
    let values = [("f/a%20b%23.txt", "the text of a b")];
    browse_at("/f/", &values, |page, server| {
        let name = "$('#rows a[data-key]')";
        let href = page.eval(&format!("{name}.getAttribute('href')"));
        assert_eq!(href, "/f/a%20b%23.txt");
        assert!(!page.takes_a_click_with_control("#rows a[data-key]"));
        page.visit(server.addr, href.as_str().expect("text"));
        page.says("body", "the text of a b");
    });
}

#[test]
fn a_look_has_an_address_and_the_way_back_closes_it() {
    let values = ["f/a", "f/b", "f/c"].map(|key| (key, key));
    browse_at("/f/", &values, |page, server| {
        page.click("#rows a[data-key='f/a']");
        until_shown(page, "f/a");
        assert_eq!(page.address(), "/f/?view=a");
        page.back();
        page.holds("!$('#preview').open");
        assert_eq!(page.address(), "/f/");
        page.holds("document.activeElement.textContent === 'a'");
        page.forward();
        until_shown(page, "f/a");
        page.press(Key::Escape);
        page.holds("!$('#preview').open");
        page.holds("location.pathname + location.search === '/f/'");

        // From one to the next by arrows and buttons, to the last; the way back leads to the list at once.
        page.click("#rows a[data-key='f/a']");
        until_shown(page, "f/a");
        let offered = "['previous', 'next'].map((it) => document.getElementById(`preview-${it}`).checkVisibility())";
        assert_eq!(page.eval(offered), json!([false, true]));
        page.press(Key::Right);
        until_shown(page, "f/b");
        assert_eq!(page.address(), "/f/?view=b");
        page.click("#preview-next");
        until_shown(page, "f/c");
        assert_eq!(page.eval(offered), json!([true, false]));
        page.press(Key::Left);
        until_shown(page, "f/b");
        page.back();
        page.holds("!$('#preview').open");
        page.holds("document.activeElement.dataset.key === 'f/b'");

        // In a tab of its own, also of a file that the list does not show.
        page.visit(server.addr, "/f/?view=b&prefix=c");
        until_shown(page, "f/b");
        page.shows(&["../", "c"]);
        page.click("#preview-close");
        page.holds("!$('#preview').open");
        assert_eq!(page.address(), "/f/?prefix=c");
        page.visit(server.addr, "/f/?view=gone");
        page.says("#preview-body", "There is no such file.");
        let offered = "$$('#preview-buttons > :not([hidden])').length";
        assert_eq!(page.eval(offered), 0, "nothing can be done with it");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn times_say_how_long_ago_and_when() {
    browse_keys(&[("a", "x")], |page, _| {
        let time = "$('#rows time')";
        assert_eq!(page.text("#rows time"), "just now");
        let title = page.eval(&format!("{time}.title"));
        let year = page.eval("new Date().getFullYear().toString()");
        let (title, year) = (title.as_str().expect("text"), year.as_str().expect("text"));
        assert!(title.contains(year) && title.contains("day, "), "{title}");
        let machine = format!("{time}.dateTime === new Date({time}.dateTime).toISOString()");
        assert!(page.is(&machine));
        let ago = "[30, 61, 3000, 7200, 90000, 500000].map((seconds) => Format.ago(new Date(Date.now() - seconds * 1000)))";
        let told = "just now, 1 min ago, 50 min ago, 2 h ago, 1 day ago, 6 days ago";
        assert_eq!(page.eval(&format!("{ago}.join(', ')")), told);
        assert!(page.is("Format.ago(new Date('2001-02-03T12:00:00Z')).includes('2001')"));
    });
}

/// True where `zip` has a member of this name.
fn has(zip: &[u8], name: &str) -> bool {
    zip.windows(name.len()).any(|part| part == name.as_bytes())
}

#[test]
fn selected_files_are_downloaded_as_one_zip() {
    let values = ["a.bin", "b.bin", "c.bin", "f/g/a&.bin"].map(|key| (key, key));
    browse_keys(&values, |page, server| {
        page.click("[aria-label='Select a.bin']");
        page.click("[aria-label='Select c.bin']");
        page.click("#picked-download");
        let zip = page.downloaded("archive (2 selected).zip");
        assert!(zip.starts_with(b"PK\x03\x04"));
        assert!(has(&zip, "a.bin") && has(&zip, "c.bin") && !has(&zip, "b.bin"));
        page.says("#picked-count", "2 files selected");
        // One alone is itself.
        page.click("#picked-none");
        page.click("[aria-label='Select b.bin']");
        page.click("#picked-download");
        assert_eq!(page.downloaded("b.bin"), b"b.bin");
        // What a search has found in folders below.
        page.visit_keys(server.addr, "/f/?find=bin");
        server.store("f/h.bin", "h");
        page.shows(&["../", "g/a&.bin", "h.bin"]);
        page.click("#pick-all");
        page.click("#picked-download");
        let zip = page.downloaded("f (2 selected).zip");
        assert!(has(&zip, "h.bin") && has(&zip, "g/a&.bin") && !has(&zip, "f/h.bin"));
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_selection_that_is_too_long_for_a_request_is_said_to_be() {
    browse_served(&[], |page, server| {
        for n in 0..300 {
            server
                .dir
                .place(&format!("{n:03}-{}", "long".repeat(60)), "x");
        }
        page.visit_keys(server.addr, "/");
        page.click("#pick-all");
        page.says("#picked-count", "300 files selected");
        page.click("#picked-download");
        page.says("#notes [role=alert]", "The names of 300 files are too much for one request: select fewer of them, or download the whole folder as zip.");
        // Nearly as many are one request still.
        page.eval("[...$$('#rows .pick')].slice(0, 75).forEach((box) => box.click())");
        page.says("#picked-count", "225 files selected");
        page.click("#picked-download");
        assert!(
            page.downloaded("archive (225 selected).zip")
                .starts_with(b"PK")
        );
    });
}

#[test]
fn a_link_leads_past_what_is_above_the_files() {
    browse_keys(&[("a", "x")], |page, _| {
        page.press(Key::Tab);
        assert_eq!(page.eval("document.activeElement.id"), "skip");
        page.holds("document.activeElement.getBoundingClientRect().top >= 0");
        page.press(Key::Enter);
        page.holds("document.activeElement.textContent === 'a'");
    });
}
