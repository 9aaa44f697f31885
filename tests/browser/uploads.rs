//! Proves uploading: by the button and by dropping, many and large ones, with progress, cancelled, refused and asked
//! about.

use serde_json::json;

use crate::alice::ForAlice;
use crate::browser::{Browser, browse, browse_keys, browse_served};
use crate::support::prelude::*;
use crate::support::relay::Relay;

/// Larger than what browser and kernel keep of it on its way.
const LARGE: usize = 100_000_000;

fn choose(page: &Browser, files: &[&Path]) {
    let paths: Vec<&str> = files.iter().map(|path| text(path)).collect();
    page.types("#files", paths.join("\n"));
}

/// How many uploads the server keeps that have not become values.
pub(crate) fn uploads_at(server: &TestServer) -> usize {
    fs::read_dir(server.dir.own("uploads")).map_or(0, Iterator::count)
}

#[test]
fn an_upload_appears_in_a_second_window_without_a_reload() {
    browse_keys(&[], |page, server| {
        let (first, second) = (page.window(), page.new_window());
        page.switch_to(&second);
        page.visit_keys(server.addr, "/");
        page.eval("window.isTheSame = true");

        let value = pattern(7, 100_000);
        let file = page.file("photo of a cat.bin", &value);
        page.switch_to(&first);
        choose(page, &[&file]);
        page.says("#uploads-count", "1 of 1 uploaded");
        page.shows(&["photo of a cat.bin"]);
        assert!(server.dir.read("photo of a cat.bin") == value);

        page.switch_to(&second);
        page.shows(&["photo of a cat.bin"]);
        assert!(page.is("window.isTheSame"), "it was loaded again");
        // And goes there, too.
        assert_eq!(server.ask("DELETE", "photo%20of%20a%20cat.bin").status, 200);
        page.shows(&[]);
    });
}

#[test]
fn several_files_and_one_of_40_mb_are_stored_as_they_are() {
    browse_keys(&[], |page, server| {
        let names = ["one.txt", "large.bin", "empty"];
        let values = [pattern(1, 10), pattern(2, 40_000_000), Vec::new()];
        let files = [0, 1, 2].map(|n: usize| page.file(names[n], &values[n]));
        choose(page, &files.each_ref().map(PathBuf::as_path));
        page.says("#uploads-count", "3 of 3 uploaded, 38.1 MiB");
        // What is new is not asked for first, which would be a failed request for each.
        assert_eq!(page.console(), [""; 0]);
        // What is done takes one line.
        for rows in ["#uploads-list", "#uploads-progress"] {
            assert!(!page.is(&format!("$('{rows}').checkVisibility()")));
        }
        for (name, value) in names.iter().zip(&values) {
            assert!(server.dir.read(name) == *value, "{name}");
        }
        let stored = server.get("one.txt");
        assert_eq!(stored.header("content-type"), Some("text/plain"));
        page.shows(&["empty", "large.bin", "one.txt"]);
        page.click("#uploads-clear");
        page.holds("$('#uploads').hidden");
    });
}

#[test]
fn an_upload_shows_its_progress_and_is_cancelled() {
    browse_served(&["--min-rate", "0"], |page, server| {
        let relay = Relay::stalling(server.addr, 8 << 20);
        let file = page.file("large.bin", pattern(3, LARGE));
        page.visit(relay.addr(), "/");
        choose(page, &[&file]);
        page.holds("$('#uploads li progress').value >= 8 * 2 ** 20");
        page.says("#uploads .fate", " % of 95.4 MiB");
        page.says("#uploads-count", "0 of 1 uploaded, ");
        assert!(page.is("$('#uploads li progress').value < 1e8"));
        assert_eq!(server.get("large.bin").status, 404);
        page.click("#uploads button[aria-label='Cancel large.bin']");
        page.says("#uploads-count", "0 of 1 uploaded, 1 cancelled");
        // The server hears of it, and keeps nothing.
        relay.let_go();
        eventually("no upload is left", || uploads_at(server) == 0);
        server.dir.assert_holds(&[]);

        // The same file, not cancelled.
        choose(page, &[&file]);
        page.says("#uploads-count", "1 of 1 uploaded");
        assert!(server.dir.read("large.bin") == pattern(3, LARGE));
    });
}

#[test]
fn what_is_there_is_replaced_only_when_asked_for() {
    browse_keys(&[("a", "old a"), ("b", "old b")], |page, server| {
        let (a, b) = (page.file("a", "new a"), page.file("b", "new b"));
        choose(page, &[&a]);
        page.says("#ask-title", "Replace a?");
        // Of both it is said how long they are, and since when.
        page.says("#ask-facts", "There now5 B, changed ");
        page.says("#ask-facts", "Your file5 B, changed ");
        assert_eq!(page.text("#ask-no"), "Keep what is there");
        // There are no others to do the same with.
        page.holds("!$('#ask-all').checkVisibility()");
        page.click("#ask-no");
        page.says("#uploads-count", "0 of 1 uploaded, 1 left as it was");
        assert_eq!(server.dir.read("a"), b"old a");

        // While the question waits there is no rate, which would only fall.
        let c = page.file("c", "new c");
        let observe = "window.counts = []; const count = $('#uploads-count'); \
            new MutationObserver(() => counts.push(count.textContent)).observe(count, { childList: true })";
        page.eval(&format!("(() => {{ {observe}; }})()"));
        choose(page, &[&c, &a]);
        page.says("#ask-title", "Replace a?");
        let waiting = "counts.filter((it) => it.startsWith('1 of 2 uploaded, 50 %')).slice(2)";
        page.holds(&format!("{waiting}.length > 2"));
        let has_rate = format!("{waiting}.some((it) => it.includes('/s'))");
        assert!(!page.is(&has_rate));
        page.click("#ask-no");
        page.says("#uploads-count", "1 of 2 uploaded, 1 left");

        // One answer for both.
        choose(page, &[&a, &b]);
        page.holds("$('#ask').open");
        page.click("#ask-all");
        page.click("#ask-yes");
        page.says("#uploads-count", "2 of 2 uploaded");
        let stored = ["a", "b"].map(|key| server.get(key).text());
        assert_eq!(stored, ["new a", "new b"]);

        // Changed between the question and the answer: asked again, and no version is lost unseen.
        choose(page, &[&b]);
        page.holds("$('#ask').open");
        server.store("b", "of another");
        page.click("#ask-yes");
        page.holds("$('#ask').open");
        assert_eq!(server.dir.read("b"), b"of another");
        page.click("#ask-no");
        page.says("#uploads-count", "1 left as it was");
    });
}

#[test]
fn what_is_there_and_what_comes_are_both_kept() {
    browse_keys(
        &[("a.txt", "old"), ("a%20(1).txt", "older")],
        |page, server| {
            page.shows(&["a (1).txt", "a.txt"]);
            // One that the list does not have yet is passed over, too.
            page.eval("Live.begin = () => {}");
            server.dir.place("a (2).txt", "unseen");
            let files = [
                page.file("a.txt", "new"),
                page.file("b.bin", pattern(4, 200_000)),
            ];
            choose(page, &[&files[0]]);
            page.says("#ask-title", "Replace a.txt?");
            page.picture("keep-both.png");
            page.click("#ask-other");
            page.says("#uploads-count", "1 of 1 uploaded");
            page.says("#said", "a (3).txt is uploaded");
            let stored = ["a.txt", "a (1).txt", "a (2).txt", "a (3).txt"];
            let stored = stored.map(|key| server.dir.read(key));
            assert_eq!(stored, [&b"old"[..], b"older", b"unseen", b"new"]);
            // One that can be resumed; and one answer for all.
            for expected in ["b.bin", "b (1).bin"] {
                choose(page, &[&files[0], &files[1]]);
                page.says("#ask-title", "Replace ");
                page.click("#ask-all");
                page.click("#ask-other");
                page.says("#uploads-count", "2 of 2 uploaded");
                assert!(server.dir.read(expected) == pattern(4, 200_000));
            }
            assert_eq!(server.dir.read("a (5).txt"), b"new");
        },
    );
}

#[test]
fn who_may_not_replace_is_not_asked_to() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place("plan", "old");
        let alice = ForAlice::start(&dir, &[("", &["read", "create", "list", "watch"])]);
        alice.open(page, &["plan"]);
        choose(
            page,
            &[&page.file("plan", "new"), &page.file("other", "new")],
        );
        let fate = "not uploaded: it is there already, and you may not replace it";
        page.says("#uploads .failed .fate", fate);
        page.says("#uploads-count", "1 of 2 uploaded, 1 failed");
        assert!(!page.is("$('#ask').open"));
        assert_eq!(alice.server.dir.read("plan"), b"old");
    });
}

#[test]
fn files_are_dropped_on_the_page() {
    browse_keys(&[], |page, server| {
        let drop = "(() => { const data = new DataTransfer(); \
                    for (const name of arguments[0]) data.items.add(new File([`the value of ${name}`], name)); \
                    const fire = (type) => document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true })); \
                    fire('dragenter'); const isSeen = !$('#drop').hidden; fire('dragover'); fire('drop'); \
                    return isSeen && $('#drop').hidden; })()";
        let done = page.eval_with(drop, vec![json!(["x", "a ä?#%.txt"])]);
        assert_eq!(done, true, "where to drop is shown, and no longer");
        page.says("#uploads-count", "2 of 2 uploaded");
        page.shows(&["a ä?#%.txt", "x"]);
        let stored = server.dir.read("a ä?#%.txt");
        assert_eq!(stored, "the value of a ä?#%.txt".as_bytes());
    });
}

#[test]
fn a_refusal_is_shown_in_the_words_of_the_server() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place("a", "x");
        let alice = ForAlice::start(&dir, &[("", &["read", "write", "list", "watch", "delete"])]);
        alice.open(page, &["a"]);
        alice.replace(&[("", &["read", "list", "watch"])]);
        let small = page.file("new", "x");
        choose(page, &[&small, &page.file("large", pattern(1, 8 << 20))]);
        let fate = "not uploaded: not allowed: this needs the right to create here";
        page.says("#uploads li:nth-child(1) .fate", fate);
        page.says("#uploads li:nth-child(2) .fate", fate);
        page.click("button[aria-label='Delete a']");
        page.click("#ask-yes");
        let note = "a was not deleted: not allowed: this needs the right to delete here";
        page.says("#notes", note);
        page.shows(&["a"]);
        let name = "x".repeat(200) + &"é".repeat(20); // of 255 bytes for a file, and more for a key with its extension
        let add = "$('#uploads-clear').click() ?? (() => { const data = new DataTransfer(); data.items.add(new File(['x'], arguments[0])); \
                   document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); })()";
        for (name, expected) in [
            ("..", "no file or folder has the name"),
            (&name.repeat(2), "a name has at most 255 bytes"),
        ] {
            page.eval_with(add, vec![json!(name)]);
            page.says("#uploads .failed .fate", expected);
        }
    });
}

/// The rows of a burst are shown together, for each change of a table has it laid out anew: 800 files took 7 to 9 s
/// where they were not, and take 2 to 4 s. The test counts how often they are shown, and prints the time beside that of
/// bare requests.
#[test]
fn eight_hundred_small_files_are_shown_once_in_a_second() {
    browse_keys(&[], |page, server| {
        page.says("#state", "Live");
        let names: Vec<String> = (0..800).map(|n| format!("file-{n:03}.txt")).collect();
        let files: Vec<PathBuf> = names.iter().map(|name| page.file(name, name)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let watch = "(() => { window.draws = window.flashes = window.made = 0; let begun = 0; \
            const show = Rows.show; Rows.show = (...all) => { window.draws += 1; show(...all); window.flashes += $$('#rows .changed').length; }; \
            new MutationObserver((all) => { for (const { addedNodes } of all) window.made += addedNodes.length; }).observe($('#rows'), { childList: true }); \
            $('#files').addEventListener('change', () => { begun = performance.now(); }, true); \
            new MutationObserver(() => { if ($('#uploads-count').textContent.startsWith('800 of 800')) window.took ??= performance.now() - begun; }) \
            .observe($('#uploads-count'), { childList: true }); })()";
        page.eval(watch);
        choose(page, &files);
        page.says("#uploads-count", "800 of 800 uploaded");
        page.holds("$$('#rows tr').length === 800");
        let number = |what: &str| page.eval(what).as_f64().expect("a number");
        let seconds = number("window.took") / 1000.0;
        // Once in a second, and some at either end; not ten times in a second.
        let draws = number("window.draws");
        assert!(draws < 8.0 + 2.0 * seconds, "{draws} in {seconds} s");
        assert!(number("window.flashes") < 100.0);
        // Each row is made once, and stays where it is.
        let made = number("window.made");
        assert!((800.0..=900.0).contains(&made), "{made} rows");
        assert_eq!(server.dir.read("file-799.txt"), b"file-799.txt");
        let bare = "(() => { const [begun, all] = [performance.now(), [...Array(800).keys()]]; window.bare = 0; \
            const work = async () => { for (let n = all.pop(); n !== undefined; n = all.pop()) await fetch(`/bare/${n}`, { method: 'PUT', body: `${n}` }); }; \
            Promise.all(Array.from({ length: 4 }, work)).then(() => { window.bare = performance.now() - begun; }); })()";
        page.eval(bare);
        page.holds("window.bare > 0");
        let bare = number("window.bare") / 1000.0;
        eprintln!("800 uploads took {seconds:.1} s, bare requests {bare:.1} s");
    });
}

#[test]
fn a_file_keeps_its_date() {
    browse_keys(&[("later", "x")], |page, server| {
        page.says("#state", "Live");
        let date = SystemTime::UNIX_EPOCH + Duration::from_millis(981_173_106_500);
        let files = [("old.txt", 5), ("old.bin", 200_000)].map(|(name, length)| {
            let path = page.file(name, pattern(1, length));
            let file = fs::File::options().write(true).open(&path).expect("a file");
            file.set_modified(date).expect("a date");
            path
        });
        choose(page, &[&files[0], &files[1]]);
        page.says("#uploads-count", "2 of 2 uploaded");
        page.shows(&["later", "old.bin", "old.txt"]);
        let years = "$$('#rows time').map((it) => it.dateTime.slice(0, 4) === '2001' && it.textContent.includes('2001'))";
        assert_eq!(page.eval(years), json!([false, true, true]));
        for key in ["old.txt", "old.bin"] {
            assert_eq!(server.get(key).header("x-oc-mtime"), Some("981173106.5"));
        }
        // So says the question, and the column once the page is loaded anew.
        choose(page, &[&files[0]]);
        page.says("#ask-facts", "There now5 B, changed Feb 3, 2001");
        page.click("#ask-no");
        page.reload();
        page.shows(&["later", "old.bin", "old.txt"]);
        assert_eq!(page.eval(years), json!([false, true, true]));
        page.click("[data-column=time] .sort");
        page.shows(&["later", "old.bin", "old.txt"]);
        page.click("[data-column=time] .sort");
        page.shows(&["old.bin", "old.txt", "later"]);
        assert_eq!(page.complaints(), [""; 0]);
    });
}
