//! Proves the table: keys are found, paged, looked at, downloaded and deleted, with a mouse and without; and a key with
//! a hostile name is text.

use fantoccini::key::Key;

use crate::browser::{browse_keys, browse_served};
use crate::support::prelude::*;

#[test]
fn files_are_found_and_turned_over_by_pages() {
    browse_served(&[], |page, server| {
        let all: Vec<String> = (0..250).map(|n| format!("k{n:03}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for key in &all {
            server.dir.place(key, "x");
        }
        server.dir.place("other", "12345");
        page.visit(server.addr, "/?limit=100");
        page.shows(&all[..100]);
        assert!(page.is("$('#previous').hidden"));
        page.click("#next");
        page.shows(&all[100..200]);
        page.click("#next");
        let last = [&all[200..], &["other"]].concat();
        page.shows(&last);
        assert!(page.is("$('#next').hidden"));
        page.click("#previous");
        page.shows(&all[100..200]);
        page.back();
        page.shows(&last);

        page.types("#find", "k24");
        page.shows(&all[240..]);
        let said = "10 files with k24 in the name, all 251 names searched";
        page.says("#said", said);
        // The address holds the place.
        page.reload();
        page.shows(&all[240..]);
        page.types("#find", "z");
        page.says("#empty-title", "No name has “k24z” in it");
        page.visit(server.addr, "/?prefix=oth");
        page.shows(&["other"]);
        assert_eq!(page.eval("$('#rows .size').title"), "5 bytes");
    });
}

#[test]
fn a_download_is_what_was_stored() {
    browse_served(&[], |page, server| {
        let value = pattern(1, 3_000_001);
        server.store("some%20value.bin", &value);
        page.visit_keys(server.addr, "/");
        page.click("a[aria-label='Download some value.bin']");
        assert!(page.downloaded("some value.bin") == value, "other bytes");
    });
}

#[test]
fn a_value_is_deleted_after_a_question_and_only_the_version_shown() {
    browse_keys(&[("gone", "1"), ("kept", "2")], |page, server| {
        page.click("button[aria-label='Delete gone']");
        page.says("#ask-title", "Delete gone?");
        page.click("#ask-no");
        page.holds("!$('#ask').open");
        server.dir.assert_holds(&["gone", "kept"]);
        page.click("button[aria-label='Delete gone']");
        page.click("#ask-yes");
        page.shows(&["kept"]);
        page.says("#notes", "gone is deleted");
        server.dir.assert_holds(&["kept"]);

        page.click("button[aria-label='Delete kept']");
        page.says("#ask-title", "Delete kept?");
        server.store("kept", "a newer version");
        page.click("#ask-yes");
        page.says("#notes", "changed by someone else");
        assert_eq!(server.dir.read("kept"), b"a newer version");
    });
}

#[test]
fn texts_and_images_are_looked_at() {
    browse_served(&[], |page, server| {
        server.store("plain", "curl sends no type\nbut <b>this</b> is text");
        server.store("long.txt", "é".repeat(40_000));
        server.store("empty", "");
        server.store("noise", [0, 1, 2, 255].repeat(100));
        let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='7' height='5'><script>document.title='pwned'</script></svg>";
        server.store("picture.svg", svg);
        server.store("broken.png", "no picture");
        // A stored coding is the browser's to decode.
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0";
        let coded = "Content-Encoding: gzip\r\nContent-Type: text/plain\r\n";
        server.store_as("coded", coded, gzip);
        page.visit_keys(server.addr, "/");
        for [key, expected] in table(
            "broken.png ; This image cannot be shown.
            coded ; a
            empty ; This file is empty.
            long.txt ; The first 64.0 KiB of 78.1 KiB.
            noise ; neither text nor an image
            picture.svg
            plain ; but <b>this</b> is text",
        ) {
            page.click(&format!("#rows .key[data-key='{key}']"));
            page.says("#preview-title", key);
            page.says("#preview-body", expected);
            if key == "picture.svg" {
                page.holds("$('#preview-body img')?.naturalWidth === 7");
            }
            page.press(Key::Escape);
            page.holds("!$('#preview').open");
        }
        assert_eq!(page.title(), "data-server");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// Attack class 27, on our own page: a key is shown as the text it is, wherever it is shown.
#[test]
fn a_hostile_key_is_text_and_no_script_runs() {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='pwned'\">";
    browse_served(&[], |page, server| {
        let script = "<script>document.title='pwned'</script>";
        server.dir.place(HOSTILE, script);
        server.dir.place("\u{202e}gpj.exe\n", "x");
        page.visit_keys(server.addr, "/");
        page.shows(&[HOSTILE, "\\u{202e}gpj.exe\\u{a}"]);
        page.click("#rows .key");
        page.says("#preview-title", HOSTILE);
        page.says("#preview-body pre", "<script>");
        page.click("#preview-delete");
        page.says("#ask-title", HOSTILE);
        // It is gone before it is deleted: the error names it, too.
        server.dir.remove(HOSTILE);
        page.click("#ask-yes");
        page.shows(&["\\u{202e}gpj.exe\\u{a}"]);
        page.types("#find", HOSTILE);
        page.says("#empty-title", HOSTILE);
        assert_eq!(page.eval("$$('img').length"), 0);
        assert_eq!(page.title(), "data-server");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn markup_in_the_page_would_not_run_either() {
    browse_keys(&[], |page, _| {
        page.shows(&[]);
        // What the policy refuses to a fault of ours, tried from inside.
        let markup = "(() => { try { document.body.innerHTML = '<img src=x>'; return 'done'; } catch (error) { return error.name; } })()";
        assert_eq!(page.eval(markup), "TypeError", "trusted types");
        let inline = "(() => { const s = document.createElementNS('http://www.w3.org/2000/svg', 'script'); \
                      s.append('document.title = `pwned`'); document.body.append(s); return document.title; })()";
        page.eval(&format!(
            "(() => {{ try {{ return {inline}; }} catch {{ return 0; }} }})()"
        ));
        assert_eq!(page.title(), "data-server");
    });
}

#[test]
fn everything_can_be_done_with_the_keyboard() {
    browse_keys(&[("a", "the value of a"), ("b", "x")], |page, server| {
        page.shows(&["a", "b"]);
        page.click("#find");
        let name = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()";
        (0..10).for_each(|_| page.press(Key::Tab));
        assert_eq!(page.eval(name), "b");
        let outline = "getComputedStyle(document.activeElement).outlineStyle";
        assert_eq!(page.eval(outline), "solid", "the focus is seen");

        // Within a row and from row to row by the arrows; `/` leads to the search, and back down again.
        for (key, focused) in [
            (Key::Right, "Download b"),
            (Key::Right, "Rename, move or copy b"),
            (Key::Right, "Delete b"),
            (Key::Right, "Delete b"),
            (Key::Up, "a"),
            (Key::Left, "Select a"),
            (Key::End, "b"),
            (Key::Home, "a"),
        ] {
            page.press(key.to_string());
            assert_eq!(page.eval(name), focused);
        }
        page.press("/");
        assert_eq!(page.eval("document.activeElement.id"), "find");
        page.press(Key::Down);
        assert_eq!(page.eval(name), "a");
        page.press(" ");
        page.says("#picked-count", "1 file selected");
        page.press(" ");
        page.holds("$('#picked').hidden");

        // Open, read and close a preview: the focus comes back to where it was.
        page.eval("$('#rows .key').focus()");
        page.press(Key::Enter);
        page.says("#preview-body pre", "the value of a");
        assert!(page.is("$('#preview').contains(document.activeElement)"));
        page.press(Key::Escape);
        page.holds("document.activeElement.textContent === 'a'");

        // Delete: the question holds the focus, on what does no harm; after no it is back, also by Tab backwards; after
        // yes it is at the row that follows.
        page.eval("$('#rows .key').focus()");
        page.press(Key::Delete);
        page.holds("document.activeElement.id === 'ask-no'");
        page.press(Key::Enter);
        page.holds("!$('#ask').open");
        assert_eq!(page.eval(name), "a");
        page.press(Key::Tab);
        page.press(format!("{}{}", Key::Shift, Key::Tab));
        assert_eq!(page.eval(name), "a");
        server.dir.assert_holds(&["a", "b"]);
        page.press(Key::Delete);
        page.confirm_by(" ");
        page.shows(&["b"]);
        page.holds("document.activeElement.textContent === 'b'");
        server.dir.assert_holds(&["b"]);
    });
}
