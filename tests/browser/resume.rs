//! Proves that an upload which breaks off goes on where it stopped: by itself, by a button, and after the page was
//! loaded anew; and that a server without resumable uploads gets it in one request.

use crate::browser::{Browser, browse, browse_keys};
use crate::support::prelude::*;
use crate::support::relay::Relay;
use crate::uploads::uploads_at;

const LARGE: usize = 60_000_000;
const SOME: usize = 8 << 20;

/// Counts the bytes that the page sends of files, and at which offsets it begins.
const COUNT: &str = "(() => { window.offsets = []; const set = XMLHttpRequest.prototype.setRequestHeader; \
    XMLHttpRequest.prototype.setRequestHeader = function (name, value) { if (name === 'Upload-Offset') window.offsets.push(value); return set.call(this, name, value); }; })()";

fn until_some_has_arrived(page: &Browser) {
    page.holds("$('#uploads li progress')?.value >= 8 * 2 ** 20");
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
    fn in_folder(page: &Browser, folder: &str) -> Self {
        let server = TestServer::start(&["--min-rate", "0"]);
        server.store(&format!("{folder}x"), "x");
        let relay = Relay::stalling(server.addr, SOME);
        let value = pattern(3, LARGE);
        let file = page.file("large.bin", &value);
        page.visit_keys(relay.addr(), &format!("/{folder}"));
        page.eval(COUNT);
        page.types("#files", file.display());
        until_some_has_arrived(page);
        Self {
            server,
            relay,
            file,
            value,
        }
    }
}

/// Whether the second part of the file began where the first broke off.
fn assert_went_on(page: &Browser) {
    let last = page.eval("window.offsets.at(-1)");
    let last = last.as_u64().expect("an offset");
    assert!(last > 0 && last < LARGE as u64, "{last}");
}

#[test]
fn a_break_is_mended_by_itself() {
    browse(|page| {
        let begun = Begun::in_folder(page, "");
        begun.relay.let_go();
        begun.relay.cut();
        page.says("#uploads-count", "1 of 1 uploaded");
        assert_went_on(page);
        assert!(begun.server.dir.read("large.bin") == begun.value);
        assert_eq!(page.eval("Unfinished.waiting().length"), 0);
    });
}

#[test]
fn what_is_not_mended_by_itself_goes_on_by_a_button() {
    browse(|page| {
        let begun = Begun::in_folder(page, "");
        // No request gets through any more, and no pause is waited for.
        let broken = "(() => { window.ask = window.fetch; window.fetch = async () => { throw new TypeError('broken'); }; \
            window.later = window.setTimeout; window.setTimeout = (then, millis, ...more) => window.later(then, Math.min(millis, 50), ...more); })()";
        page.eval(broken);
        begun.relay.let_go();
        begun.relay.cut();
        let fate = "not uploaded: the server cannot be reached";
        page.says("#uploads .failed .fate", fate);
        page.says("#uploads-count", "0 of 1 uploaded, 1 failed");
        page.picture("upload-failed.png");
        page.eval("(window.fetch = window.ask, window.setTimeout = window.later, 0)");
        page.click("[aria-label='Try again: large.bin']");
        page.says("#uploads-count", "1 of 1 uploaded");
        assert_went_on(page);
        assert!(begun.server.dir.read("large.bin") == begun.value);
    });
}

#[test]
fn after_a_new_load_it_goes_on_once_the_same_file_is_chosen() {
    browse(|page| {
        let Begun {
            server,
            relay,
            file,
            value,
        } = Begun::in_folder(page, "in/");
        relay.cut();
        page.reload();
        page.says("#uploads .name", "in/large.bin");
        page.says("#uploads .fate", "broke off at ");
        page.picture("upload-unfinished.png");
        relay.let_go();
        // Another file is not taken for it.
        let other = page.file("other.bin", "x");
        page.click("[aria-label='Choose the file: in/large.bin']");
        page.types("#again", other.display());
        page.says("#notes", "another file");
        page.eval(COUNT);
        page.click("[aria-label='Choose the file: in/large.bin']");
        page.types("#again", file.display());
        page.says("#uploads-count", "1 of 1 uploaded");
        page.holds("$$('#uploads li').length === 0");
        assert_went_on(page);
        assert!(server.dir.read("in/large.bin") == value);

        // Or it is given up, here and at the server.
        let relay = Relay::stalling(server.addr, SOME);
        let file = page.file("more.bin", &value);
        page.visit_keys(relay.addr(), "/");
        page.types("#files", file.display());
        until_some_has_arrived(page);
        relay.let_go();
        relay.cut();
        page.reload();
        page.click("[aria-label='Give more.bin up']");
        page.holds("$('#uploads').hidden");
        let unfinished = || server.dir.get("more.bin").is_none() && !has_unfinished(&server);
        eventually("the upload is given up", unfinished);
        assert_eq!(page.eval("Unfinished.waiting().length"), 0);
    });
}

/// The file may be chosen by the button for any file, too; and the rate is that of what this page sends.
#[test]
fn what_is_chosen_again_by_another_button_is_one_line_with_its_own_rate() {
    browse(|page| {
        let begun = Begun::in_folder(page, "");
        begun.relay.cut();
        page.reload();
        page.says("#uploads .fate", "broke off at ");
        begun.relay.let_go();
        // Sends 1 MB a second, as it says.
        let slow = "(() => { const send = XMLHttpRequest.prototype.send; window.rates = []; \
            XMLHttpRequest.prototype.send = function (body) { let loaded = 0; const timer = setInterval(() => { \
                this.upload.onprogress({ loaded: (loaded += 100_000) }); \
                const rate = /([\\d.]+ [KM])iB\\/s/.exec($('#uploads-count').textContent)?.[1]; if (rate) rates.push(rate); \
                if (loaded === 2_000_000) { clearInterval(timer); this.upload.onprogress = null; send.call(this, body); } }, 100); }; })()";
        page.eval(slow);
        page.types("#files", begun.file.display());
        page.holds("window.rates.length > 5");
        assert_eq!(page.eval("$$('#uploads li').length"), 1);
        page.says("#uploads-count", "1 of 1 uploaded");
        assert_eq!(page.eval("$$('#uploads li').length"), 0);
        let fast = "rates.filter((it) => it.endsWith('M') && parseFloat(it) > 1.5)";
        assert_eq!(page.eval(fast), serde_json::json!([]));
        assert!(begun.server.dir.read("large.bin") == begun.value);
    });
}

/// What is complete is kept for a client that has lost the answer, without its bytes.
fn has_unfinished(server: &TestServer) -> bool {
    let files = fs::read_dir(server.dir.own("uploads")).into_iter();
    let mut files = files.flatten().flatten();
    files.any(|file| file.metadata().is_ok_and(|file| file.len() > 1 << 20))
}

#[test]
fn a_server_without_resumable_uploads_gets_it_in_one_request() {
    browse_keys(&[], |page, server| {
        // As a store answers that has them not.
        let refuse = "(() => { const ask = window.fetch; window.fetch = async (address, options) => \
            options?.method === 'POST' ? new Response('not here', { status: 501 }) : ask(address, options); })()";
        page.eval(refuse);
        let value = pattern(6, 3_000_000);
        page.types("#files", page.file("a.bin", &value).display());
        page.says("#uploads-count", "1 of 1 uploaded");
        assert!(server.dir.read("a.bin") == value);
        assert_eq!(uploads_at(server), 0);
        // What is there is asked about before it is sent.
        let other = page.file("a.bin", pattern(7, 2_000_000));
        page.types("#files", other.display());
        page.says("#ask-title", "Replace a.bin?");
        page.says("#ask-facts", "There now2.86 MiB");
        page.click("#ask-yes");
        let is_replaced = || server.dir.read("a.bin").len() == 2_000_000;
        page.until("the file is replaced", is_replaced);
    });
}
