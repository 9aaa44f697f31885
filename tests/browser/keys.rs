//! Proves the table: keys are found, paged, looked at, downloaded and deleted, with a mouse and without; and a key with a
//! hostile name is text.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::browse;
use crate::support::prelude::*;

#[test]
fn files_are_found_and_turned_over_by_pages() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        for n in 0..250 {
            server.dir.place(&format!("k{n:03}"), "x");
        }
        server.dir.place("other", "12345");
        let all: Vec<String> = (0..250).map(|n| format!("k{n:03}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        browser.visit(server.addr, "/?limit=100").await;
        browser.until_keys(&all[..100]).await;
        assert_eq!(
            browser
                .eval("document.getElementById('previous').hidden")
                .await,
            true
        );
        browser.click("#next").await;
        browser.until_keys(&all[100..200]).await;
        browser.click("#next").await;
        let last: Vec<&str> = all[200..].iter().copied().chain(["other"]).collect();
        browser.until_keys(&last).await;
        assert_eq!(
            browser.eval("document.getElementById('next').hidden").await,
            true
        );
        browser.click("#previous").await;
        browser.until_keys(&all[100..200]).await;
        browser.client.back().await.expect("back");
        browser.until_keys(&last).await;

        browser.type_into("#find", "k24").await;
        browser.until_keys(&all[240..]).await;
        browser
            .until_text(
                "#said",
                "10 files with k24 in the name, all 251 names searched",
            )
            .await;
        // The address holds the place.
        browser.client.refresh().await.expect("the page again");
        browser.until_keys(&all[240..]).await;
        browser.type_into("#find", "z").await;
        browser
            .until_text("#empty-title", "No name has “k24z” in it")
            .await;
        let title = "document.querySelector('#rows .size').title";
        browser.visit(server.addr, "/?prefix=oth").await;
        browser.until_keys(&["other"]).await;
        assert_eq!(browser.eval(title).await, "5 bytes");
    });
}

#[test]
fn a_download_is_what_was_stored() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        let value = pattern(1, 3_000_001);
        server.store("some%20value.bin", &value);
        browser.visit_keys(server.addr, "/").await;
        browser
            .click("a[aria-label='Download some value.bin']")
            .await;
        let downloaded = browser.downloaded("some value.bin").await;
        assert_eq!(downloaded.len(), value.len());
        assert!(downloaded == value, "other bytes");
    });
}

#[test]
fn a_value_is_deleted_after_a_question_and_only_the_version_shown() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("gone", "1");
        server.store("kept", "2");
        browser.visit_keys(server.addr, "/").await;
        browser.click("button[aria-label='Delete gone']").await;
        browser.until_text("#ask-title", "Delete gone?").await;
        browser.click("#ask-no").await;
        browser
            .until_true("!document.getElementById('ask').open")
            .await;
        server.dir.assert_holds(&["gone", "kept"]);
        browser.click("button[aria-label='Delete gone']").await;
        browser.click("#ask-yes").await;
        browser.until_keys(&["kept"]).await;
        server.dir.assert_holds(&["kept"]);

        browser.click("button[aria-label='Delete kept']").await;
        browser.until_text("#ask-title", "Delete kept?").await;
        server.store("kept", "a newer version");
        browser.click("#ask-yes").await;
        browser
            .until_text("#notes", "changed by someone else")
            .await;
        assert_eq!(server.dir.read("kept"), b"a newer version");
    });
}

#[test]
fn texts_and_images_are_looked_at() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
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
        let stored = ask(&mut server.connect(), "PUT", "/coded", coded, gzip);
        assert_eq!(stored.status, 200);
        browser.visit_keys(server.addr, "/").await;
        for (n, (key, expected)) in [
            ("broken.png", "This image cannot be shown."),
            ("coded", "a"),
            ("empty", "This file is empty."),
            ("long.txt", "The first 64.0 KiB of 78.1 KiB."),
            ("noise", "neither text nor an image"),
            ("picture.svg", ""),
            ("plain", "but <b>this</b> is text"),
        ]
        .into_iter()
        .enumerate()
        {
            browser
                .click(&format!("#rows tr:nth-child({}) .key", n + 1))
                .await;
            browser.until_text("#preview-title", key).await;
            browser.until_text("#preview-body", expected).await;
            if key == "picture.svg" {
                browser
                    .until_true("document.querySelector('#preview-body img')?.naturalWidth === 7")
                    .await;
            }
            browser.press(&Key::Escape.to_string()).await;
            browser
                .until_true("!document.getElementById('preview').open")
                .await;
        }
        assert_eq!(
            browser.client.title().await.expect("a title"),
            "data-server"
        );
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

/// Attack class 27, on our own page: a key is shown as the text it is, wherever it is shown.
#[test]
fn a_hostile_key_is_text_and_no_script_runs() {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='pwned'\">";
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server
            .dir
            .place(HOSTILE, "<script>document.title='pwned'</script>");
        server.dir.place("\u{202e}gpj.exe\n", "x");
        browser.visit_keys(server.addr, "/").await;
        browser
            .until_keys(&[HOSTILE, "\\u{202e}gpj.exe\\u{a}"])
            .await;
        browser.click("#rows .key").await;
        browser.until_text("#preview-title", HOSTILE).await;
        browser.until_text("#preview-body pre", "<script>").await;
        browser.click("#preview-delete").await;
        browser.until_text("#ask-title", HOSTILE).await;
        // An error names it, too.
        std::fs::remove_file(server.dir.file(HOSTILE)).expect("removed by hand");
        std::fs::create_dir(server.dir.file(HOSTILE)).expect("in its place");
        browser.click("#ask-yes").await;
        browser.until_keys(&["\\u{202e}gpj.exe\\u{a}"]).await;
        browser.type_into("#find", HOSTILE).await;
        browser.until_text("#empty-title", HOSTILE).await;
        assert_eq!(
            browser
                .eval("document.querySelectorAll('img, body script:not([src]) ~ img').length")
                .await,
            0
        );
        assert_eq!(
            browser.client.title().await.expect("a title"),
            "data-server"
        );
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn markup_in_the_page_would_not_run_either() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/").await;
        browser.until_keys(&[]).await;
        // What the policy refuses to a fault of ours, tried from inside.
        let tried = browser
            .eval("(() => { try { document.body.innerHTML = '<img src=x>'; return 'done'; } catch (error) { return error.name; } })()")
            .await;
        assert_eq!(tried, "TypeError", "trusted types");
        let inline = "(() => { const s = document.createElementNS('http://www.w3.org/2000/svg', 'script'); \
                      s.append('document.title = `pwned`'); document.body.append(s); return document.title; })()";
        browser
            .eval(&format!(
                "(() => {{ try {{ return {inline}; }} catch {{ return document.title; }} }})()"
            ))
            .await;
        assert_eq!(
            browser.client.title().await.expect("a title"),
            "data-server"
        );
    });
}

#[test]
fn everything_can_be_done_with_the_keyboard() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "the value of a");
        server.store("b", "x");
        browser.visit_keys(server.addr, "/").await;
        browser.until_keys(&["a", "b"]).await;
        browser
            .find("#find")
            .await
            .click()
            .await
            .expect("the field");
        let mut walked = Vec::new();
        let name = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()";
        for _ in 0..8 {
            browser.press(&Key::Tab.to_string()).await;
            walked.push(browser.eval(name).await);
        }
        let order = [
            "Upload",
            "Upload a folder",
            "Select all files of this page",
            "Name",
            "Size",
            "Changed",
            "a",
            "b",
        ];
        assert_eq!(json!(walked), json!(order), "the order of Tab");
        let outline = "getComputedStyle(document.activeElement).outlineStyle";
        assert_eq!(browser.eval(outline).await, "solid", "the focus is seen");

        // Within a row and from row to row by the arrows; `/` leads to the search, and back down again.
        for (key, focused) in [
            (Key::Right, "Download b"),
            (Key::Right, "Delete b"),
            (Key::Right, "Delete b"),
            (Key::Up, "a"),
            (Key::Left, "Select a"),
            (Key::End, "b"),
            (Key::Home, "a"),
        ] {
            browser.press(&key.to_string()).await;
            assert_eq!(browser.eval(name).await, focused);
        }
        browser.press("/").await;
        assert_eq!(browser.eval("document.activeElement.id").await, "find");
        browser.press(&Key::Down.to_string()).await;
        assert_eq!(browser.eval(name).await, "a");
        browser.press(" ").await;
        browser.until_text("#picked-count", "1 file selected").await;
        browser.press(" ").await;
        browser
            .until_true("document.getElementById('picked').hidden")
            .await;

        // Open, read and close a preview: the focus comes back to where it was.
        browser
            .eval("document.querySelector('#rows .key').focus()")
            .await;
        browser.press(&Key::Enter.to_string()).await;
        browser
            .until_text("#preview-body pre", "the value of a")
            .await;
        assert_eq!(
            browser
                .eval("document.getElementById('preview').contains(document.activeElement)")
                .await,
            true
        );
        browser.press(&Key::Escape.to_string()).await;
        browser
            .until_true("document.activeElement.textContent === 'a'")
            .await;

        // Delete: the question holds the focus, on what does no harm; then it is at the row that follows.
        browser
            .eval("document.querySelector('#rows .key').focus()")
            .await;
        browser.press(&Key::Delete.to_string()).await;
        browser.confirm_by(" ").await;
        browser.until_keys(&["b"]).await;
        browser
            .until_true("document.activeElement.textContent === 'b'")
            .await;
        server.dir.assert_holds(&["b"]);
    });
}
