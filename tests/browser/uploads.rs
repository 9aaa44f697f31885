//! Proves uploading: by the button and by dropping, many and large ones, with progress, cancelled, refused and asked about.

use serde_json::json;

use crate::alice::ForAlice;
use crate::browser::{Browser, browse};
use crate::relay::Relay;
use crate::support::prelude::*;

/// Larger than what browser and kernel keep of it on its way.
const LARGE: usize = 100_000_000;

async fn choose(browser: &Browser, files: &[&std::path::Path]) {
    let paths = files.iter().map(|path| path.display().to_string());
    let paths: Vec<String> = paths.collect();
    browser.type_into("#files", &paths.join("\n")).await;
}

/// How many uploads the server keeps that have not become values.
pub(crate) fn uploads_at(server: &TestServer) -> usize {
    let uploads = server.dir.path().join(".data-server/uploads");
    std::fs::read_dir(uploads).map_or(0, Iterator::count)
}

#[test]
fn an_upload_appears_in_a_second_window_without_a_reload() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/").await;
        let first = browser.client.window().await.expect("a window");
        let second = browser.client.new_window(false).await.expect("a window");
        browser
            .client
            .switch_to_window(second.handle.clone())
            .await
            .expect("the second");
        browser.visit_keys(server.addr, "/").await;
        browser.eval("window.isTheSame = true").await;

        let value = pattern(7, 100_000);
        let file = browser.file("photo of a cat.bin", &value);
        browser
            .client
            .switch_to_window(first)
            .await
            .expect("the first");
        choose(browser, &[&file]).await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        browser.until_keys(&["photo of a cat.bin"]).await;
        assert!(server.dir.read("photo of a cat.bin") == value);

        browser
            .client
            .switch_to_window(second.handle)
            .await
            .expect("the second");
        browser.until_keys(&["photo of a cat.bin"]).await;
        assert_eq!(
            browser.eval("window.isTheSame").await,
            true,
            "it was loaded again"
        );
        // And goes there, too.
        assert_eq!(server.ask("DELETE", "photo%20of%20a%20cat.bin").status, 200);
        browser.until_keys(&[]).await;
    });
}

#[test]
fn several_files_and_one_of_40_mb_are_stored_as_they_are() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/").await;
        let values = [
            ("one.txt", pattern(1, 10)),
            ("large.bin", pattern(2, 40_000_000)),
            ("empty", Vec::new()),
        ];
        let files = values.iter().map(|(name, value)| browser.file(name, value));
        let files: Vec<_> = files.collect();
        let files: Vec<_> = files.iter().map(std::path::PathBuf::as_path).collect();
        choose(browser, &files).await;
        browser
            .until_text("#uploads-count", "3 of 3 uploaded, 38.1 MiB")
            .await;
        // What is new is not asked for first, which would be a failed request for each.
        assert_eq!(browser.console().await, [""; 0]);
        // What is done takes one line.
        let rows = "document.getElementById('uploads-list').checkVisibility() || document.getElementById('uploads-progress').checkVisibility()";
        assert_eq!(browser.eval(rows).await, false);
        for (name, value) in &values {
            assert!(server.dir.read(name) == *value, "{name}");
        }
        assert_eq!(
            server.get("one.txt").header("content-type"),
            Some("text/plain")
        );
        browser.until_keys(&["empty", "large.bin", "one.txt"]).await;
        browser.click("#uploads-clear").await;
        browser
            .until_true("document.getElementById('uploads').hidden")
            .await;
    });
}

#[test]
fn an_upload_shows_its_progress_and_is_cancelled() {
    browse(async |browser| {
        let server = TestServer::start(&["--min-rate", "0"]);
        let relay = Relay::to(server.addr, 8 << 20);
        let file = browser.file("large.bin", pattern(3, LARGE));
        browser.visit(relay.addr, "/").await;
        choose(browser, &[&file]).await;
        browser
            .until_true("document.querySelector('#uploads li progress').value >= 8 * 2 ** 20")
            .await;
        browser.until_text("#uploads .fate", " % of 95.4 MiB").await;
        browser
            .until_text("#uploads-count", "0 of 1 uploaded, ")
            .await;
        assert_eq!(
            browser
                .eval("document.querySelector('#uploads li progress').value < 1e8")
                .await,
            true
        );
        assert_eq!(server.get("large.bin").status, 404);
        browser
            .click("#uploads button[aria-label='Cancel large.bin']")
            .await;
        browser
            .until_text("#uploads-count", "0 of 1 uploaded, 1 cancelled")
            .await;
        // The server hears of it, and keeps nothing.
        relay.open();
        eventually("no upload is left", || uploads_at(&server) == 0);
        server.dir.assert_holds(&[]);

        // The same file, not cancelled.
        choose(browser, &[&file]).await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert!(server.dir.read("large.bin") == pattern(3, LARGE));
    });
}

#[test]
fn what_is_there_is_replaced_only_when_asked_for() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("a", "old a");
        server.store("b", "old b");
        browser.visit_keys(server.addr, "/").await;
        let (a, b) = (browser.file("a", "new a"), browser.file("b", "new b"));
        choose(browser, &[&a]).await;
        browser.until_text("#ask-title", "Replace a?").await;
        // Of both it is said how long they are, and since when.
        browser
            .until_text("#ask-facts", "There now5 B, changed ")
            .await;
        browser
            .until_text("#ask-facts", "Your file5 B, changed ")
            .await;
        assert_eq!(browser.text("#ask-no").await, "Keep what is there");
        browser.click("#ask-no").await;
        browser
            .until_text("#uploads-count", "0 of 1 uploaded, 1 left as it was")
            .await;
        assert_eq!(server.dir.read("a"), b"old a");

        // While the question waits there is no rate, which would only fall.
        let c = browser.file("c", "new c");
        let observe = "window.counts = []; const count = document.getElementById('uploads-count'); \
            new MutationObserver(() => counts.push(count.textContent)).observe(count, { childList: true })";
        browser.eval(&format!("(() => {{ {observe}; }})()")).await;
        choose(browser, &[&c, &a]).await;
        browser.until_text("#ask-title", "Replace a?").await;
        let waiting = "counts.filter((it) => it.startsWith('1 of 2 uploaded, 50 %')).slice(2)";
        browser.until_true(&format!("{waiting}.length > 2")).await;
        let has_rate = format!("{waiting}.some((it) => it.includes('/s'))");
        assert_eq!(browser.eval(&has_rate).await, false);
        browser.click("#ask-no").await;
        browser
            .until_text("#uploads-count", "1 of 2 uploaded, 1 left")
            .await;

        // One answer for both.
        choose(browser, &[&a, &b]).await;
        browser
            .until_true("document.getElementById('ask').open")
            .await;
        browser.click("#ask-all").await;
        browser.click("#ask-yes").await;
        browser
            .until_text("#uploads-count", "2 of 2 uploaded")
            .await;
        assert_eq!(
            (server.dir.read("a"), server.dir.read("b")),
            (b"new a".to_vec(), b"new b".to_vec())
        );

        // Changed between the question and the answer: asked again, and no version is lost unseen.
        choose(browser, &[&b]).await;
        browser
            .until_true("document.getElementById('ask').open")
            .await;
        server.store("b", "of another");
        browser.click("#ask-yes").await;
        browser
            .until_true("document.getElementById('ask').open")
            .await;
        assert_eq!(server.dir.read("b"), b"of another");
        browser.click("#ask-no").await;
        browser
            .until_text("#uploads-count", "1 left as it was")
            .await;
    });
}

#[test]
fn files_are_dropped_on_the_page() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/").await;
        let drop = "(() => { const data = new DataTransfer(); \
                    for (const name of arguments[0]) data.items.add(new File([`the value of ${name}`], name)); \
                    const fire = (type) => document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true })); \
                    fire('dragenter'); const isSeen = !document.getElementById('drop').hidden; fire('dragover'); fire('drop'); \
                    return isSeen && document.getElementById('drop').hidden; })()";
        let done = browser
            .eval_with(drop, vec![json!(["x", "a ä?#%.txt"])])
            .await;
        assert_eq!(done, true, "where to drop is shown, and no longer");
        browser
            .until_text("#uploads-count", "2 of 2 uploaded")
            .await;
        browser.until_keys(&["a ä?#%.txt", "x"]).await;
        assert_eq!(
            server.dir.read("a ä?#%.txt"),
            "the value of a ä?#%.txt".as_bytes()
        );
    });
}

#[test]
fn a_refusal_is_shown_in_the_words_of_the_server() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        dir.place("a", "x");
        let alice = ForAlice::start(&dir, &[("", &["read", "write", "list", "watch", "delete"])]);
        alice.open(browser, &["a"]).await;
        alice.replace(&[("", &["read", "list", "watch"])]);
        let small = browser.file("new", "x");
        let large = browser.file("large", pattern(1, 8 << 20));
        choose(browser, &[&small, &large]).await;
        for n in [1, 2] {
            let fate = format!("#uploads li:nth-child({n}) .fate");
            browser
                .until_text(
                    &fate,
                    "not uploaded: not allowed: it takes the right to create here",
                )
                .await;
        }
        browser.click("button[aria-label='Delete a']").await;
        browser.click("#ask-yes").await;
        browser
            .until_text(
                "#notes",
                "a was not deleted: not allowed: it takes the right to delete here",
            )
            .await;
        browser.until_keys(&["a"]).await;
        let name = "x".repeat(200) + &"é".repeat(20); // of 255 bytes for a file, and more for a key with its extension
        let add = "document.getElementById('uploads-clear').click() ?? (() => { const data = new DataTransfer(); data.items.add(new File(['x'], arguments[0])); \
                   document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); })()";
        for (name, expected) in [
            ("..".to_owned(), "bad key"),
            (name.repeat(2), "not uploaded"),
        ] {
            browser.eval_with(add, vec![json!(name)]).await;
            browser.until_text("#uploads .failed .fate", expected).await;
        }
    });
}
