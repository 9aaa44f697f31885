//! Proves that an upload which breaks off goes on where it stopped: by itself, by a button, and after the page was loaded
//! anew; and that a server without resumable uploads gets it in one request.

use crate::browser::{Browser, browse};
use crate::relay::Relay;
use crate::support::prelude::*;
use crate::uploads::uploads_at;

const LARGE: usize = 60_000_000;
const SOME: usize = 8 << 20;

async fn choose(browser: &Browser, css: &str, file: &std::path::Path) {
    browser.type_into(css, &file.display().to_string()).await;
}

/// Counts the bytes that the page sends of files, and at which offsets it begins.
const COUNT: &str = "(() => { window.offsets = []; const set = XMLHttpRequest.prototype.setRequestHeader; \
    XMLHttpRequest.prototype.setRequestHeader = function (name, value) { if (name === 'Upload-Offset') window.offsets.push(value); return set.call(this, name, value); }; })()";

async fn until_some_has_arrived(browser: &Browser) {
    browser
        .until_true("document.querySelector('#uploads li progress')?.value >= 8 * 2 ** 20")
        .await;
}

/// An upload of which some has arrived, through a relay that can be cut.
struct Begun {
    server: TestServer,
    relay: Relay,
    file: PathBuf,
    value: Vec<u8>,
}

impl Begun {
    /// Of a large file, by the page of `folder`.
    async fn in_folder(browser: &Browser, folder: &str) -> Self {
        let server = TestServer::start(&["--min-rate", "0"]);
        server.store(&format!("{folder}x"), "x");
        let relay = Relay::to(server.addr, SOME);
        let value = pattern(3, LARGE);
        let file = browser.file("large.bin", &value);
        browser.visit_keys(relay.addr, &format!("/{folder}")).await;
        browser.eval(COUNT).await;
        choose(browser, "#files", &file).await;
        until_some_has_arrived(browser).await;
        Self {
            server,
            relay,
            file,
            value,
        }
    }
}

/// Whether the second part of the file began where the first broke off.
async fn assert_went_on(browser: &Browser) {
    let last = browser.eval("window.offsets.at(-1)").await;
    let last = last.as_u64().expect("an offset");
    assert!(last > 0 && last < LARGE as u64, "{last}");
}

#[test]
fn a_break_is_mended_by_itself() {
    browse(async |browser| {
        let begun = Begun::in_folder(browser, "").await;
        begun.relay.cut(None);
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert_went_on(browser).await;
        assert!(begun.server.dir.read("large.bin") == begun.value);
        assert_eq!(browser.eval("Unfinished.waiting().length").await, 0);
    });
}

#[test]
fn what_is_not_mended_by_itself_goes_on_by_a_button() {
    browse(async |browser| {
        let Begun {
            server,
            relay,
            value,
            ..
        } = Begun::in_folder(browser, "").await;
        // No request gets through any more, and no pause is waited for.
        let broken = "(() => { window.ask = window.fetch; window.fetch = async () => { throw new TypeError('broken'); }; \
            window.later = window.setTimeout; window.setTimeout = (then, millis, ...more) => window.later(then, Math.min(millis, 50), ...more); })()";
        browser.eval(broken).await;
        relay.cut(None);
        browser
            .until_text(
                "#uploads .failed .fate",
                "not uploaded: the server cannot be reached",
            )
            .await;
        browser
            .until_text("#uploads-count", "0 of 1 uploaded, 1 failed")
            .await;
        browser.picture("upload-failed.png").await;
        browser
            .eval("(window.fetch = window.ask, window.setTimeout = window.later, 0)")
            .await;
        browser.click("[aria-label='Try again: large.bin']").await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert_went_on(browser).await;
        assert!(server.dir.read("large.bin") == value);
    });
}

#[test]
fn after_a_new_load_it_goes_on_once_the_same_file_is_chosen() {
    browse(async |browser| {
        let Begun {
            server,
            relay,
            file,
            value,
        } = Begun::in_folder(browser, "in/").await;
        relay.cut(Some(SOME));
        browser.client.refresh().await.expect("the page again");
        browser.until_text("#uploads .name", "in/large.bin").await;
        browser.until_text("#uploads .fate", "broke off at ").await;
        browser.picture("upload-unfinished.png").await;
        relay.open();
        // Another file is not taken for it.
        let other = browser.file("other.bin", "x");
        browser
            .click("[aria-label='Choose the file: in/large.bin']")
            .await;
        choose(browser, "#again", &other).await;
        browser.until_text("#notes", "another file").await;
        browser.eval(COUNT).await;
        browser
            .click("[aria-label='Choose the file: in/large.bin']")
            .await;
        choose(browser, "#again", &file).await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert_went_on(browser).await;
        assert!(server.dir.read("in/large.bin") == value);

        // Or it is given up, here and at the server.
        let relay = Relay::to(server.addr, SOME);
        let file = browser.file("more.bin", &value);
        browser.visit_keys(relay.addr, "/").await;
        choose(browser, "#files", &file).await;
        until_some_has_arrived(browser).await;
        relay.cut(None);
        browser.client.refresh().await.expect("the page again");
        browser.click("[aria-label='Give more.bin up']").await;
        browser
            .until_true("document.getElementById('uploads').hidden")
            .await;
        let unfinished = || server.dir.get("more.bin").is_none() && !has_unfinished(&server);
        eventually("the upload is given up", unfinished);
        assert_eq!(browser.eval("Unfinished.waiting().length").await, 0);
    });
}

/// What is complete is kept for a client that has lost the answer, without its bytes.
fn has_unfinished(server: &TestServer) -> bool {
    let uploads = server.dir.path().join(".data-server/uploads");
    let lengths = std::fs::read_dir(uploads).into_iter().flatten().flatten();
    let mut lengths = lengths
        .filter_map(|file| file.metadata().ok())
        .map(|it| it.len());
    lengths.any(|length| length > 1 << 20)
}

#[test]
fn a_server_without_resumable_uploads_gets_it_in_one_request() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit_keys(server.addr, "/").await;
        // As a store answers that has them not.
        let refuse = "(() => { const ask = window.fetch; window.fetch = async (address, options) => \
            options?.method === 'POST' ? new Response('not here', { status: 501 }) : ask(address, options); })()";
        browser.eval(refuse).await;
        let value = pattern(6, 3_000_000);
        choose(browser, "#files", &browser.file("a.bin", &value)).await;
        browser
            .until_text("#uploads-count", "1 of 1 uploaded")
            .await;
        assert!(server.dir.read("a.bin") == value);
        assert_eq!(uploads_at(&server), 0);
        // What is there is asked about before it is sent.
        choose(
            browser,
            "#files",
            &browser.file("a.bin", pattern(7, 2_000_000)),
        )
        .await;
        browser.until_text("#ask-title", "Replace a.bin?").await;
        browser.until_text("#ask-facts", "There now2.86 MiB").await;
        browser.click("#ask-yes").await;
        browser
            .until("the file is replaced", async || {
                server.dir.read("a.bin").len() == 2_000_000
            })
            .await;
    });
}
