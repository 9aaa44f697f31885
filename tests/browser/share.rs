//! Proves links to share: offered where the server signs one for the client, shown with their end, copied, and good for
//! anybody.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse, origin};
use crate::support::prelude::*;

/// The file of rules: alice may share what begins with `pub/`, by this link key.
fn write(dir: &DataDir, by: &str, lasts: &str) -> String {
    let hash = bcrypt::hash("sesame", 5).expect("a hash");
    let text = format!(
        "[[subject]]\nname = \"alice\"\npassword = \"{hash}\"\nshares = \"{by}\"\n\
         [[rule]]\nwho = [\"alice\"]\nmay = [\"read\", \"list\", \"watch\"]\n\
         [[rule]]\nwho = [\"alice\"]\nprefix = \"pub/\"\nmay = [\"link\"]\n\
         [[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\nlasts = \"{lasts}\"\n"
    );
    dir.write_private("access.toml", &text)
}

fn open(page: &Browser, server: &TestServer, path: &str) {
    let plain = format!("{}{path}", origin(server.addr));
    page.go(&plain.replacen("://", "://alice:sesame@", 1));
    page.go(&plain);
}

#[test]
fn a_link_is_shown_with_its_end_and_copied() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.write_private("k1.key", "0123456789abcdef0123456789abcdef");
        let file = write(&dir, "k1", "3h");
        let server = Launch::new(&["--access", &file]).on(&dir).start();
        dir.place("pub/a #b", "of a b");
        dir.place("secret", "s");
        open(page, &server, "/pub/");
        page.look_at("a #b");
        page.says("#preview-body", "of a b");
        page.holds("!$('#preview-share').hidden");
        page.eval("$('#preview-share').focus()");
        page.press(Key::Enter);
        page.says("#share-title", "A link to pub/a #b");
        page.says("#share-state", "It is copied.");
        let link = page.eval("$('#share-link').value");
        let link = link.as_str().expect("text").to_owned();
        let target = link
            .strip_prefix(&origin(server.addr))
            .expect("the page's own origin");
        assert!(target.starts_with("/pub/a%20%23b?expires="), "{target}");
        assert_eq!(server.request("GET", target, "", b"").body, b"of a b");
        let end = target.split(['=', '&']).nth(1).expect("an end");
        let shown = "$('#share-text').textContent.includes(Format.full.format(new Date(1000 * arguments[0])))";
        let end: u64 = end.parse().expect("a number");
        assert_eq!(page.eval_with(shown, vec![json!(end)]), true);
        // For another time, by the keyboard; the links of its key last for three hours at most.
        let times = "[...$('#share-lasts').options].map((it) => it.text).join()";
        assert_eq!(page.eval(times), "1 hour,3 hours");
        assert_eq!(page.eval("$('#share-lasts').value"), "10800");
        page.eval("$('#share-lasts').focus()");
        page.press(Key::Up);
        page.says("#share-state", "It is another link now, for 1 hour");
        assert!(page.is("document.activeElement.id === 'share-lasts'"));
        let shorter = page.eval("$('#share-link').value");
        let shorter = shorter.as_str().expect("text").to_owned();
        assert_ne!(shorter, link);
        let until = page
            .eval("$('#share-link').value.match(/expires=([0-9]+)/)[1] * 1 - Date.now() / 1000");
        let until = until.as_f64().expect("a number");
        assert!((3500.0..=3601.0).contains(&until), "{until}");
        let link = shorter;
        // Once more by its button, and back to where it was asked for.
        page.eval("getSelection().removeAllRanges()");
        page.click("#share-copy");
        assert!(page.is("document.activeElement.id === 'share-link'"));
        page.press(Key::Escape);
        page.holds("!$('#share').open && $('#preview').open");
        page.holds("document.activeElement.id === 'preview-share'");
        page.press(Key::Escape);
        page.eval("$('#find').focus()");
        page.press(format!("{}v{}", Key::Control, Key::Null));
        page.holds(&format!("$('#find').value === {}", json!(link)));
        page.eval("$('#find').value = ''");

        // It is offered for what may be shared alone.
        open(page, &server, "/?view=secret");
        page.says("#preview-body", "s");
        assert!(page.is("$('#preview-share').hidden"));

        // The rules are others by now: what the server says is shown.
        open(page, &server, "/pub/?view=a%20%23b");
        page.says("#preview-body", "of a b");
        write(&dir, "k2", "3h");
        let before = server.events("reload: access reread").len();
        server.signal(Signal::HUP);
        eventually("the rules are reread", || {
            server.events("reload: access reread").len() > before
        });
        page.click("#preview-share");
        page.says(
            "#notes [role=alert]",
            "No link to pub/a #b was made: this server signs no links for you",
        );
        assert!(page.is("!$('#share').open"));
        open(page, &server, "/pub/?view=a%20%23b");
        page.says("#preview-body", "of a b");
        assert!(page.is("$('#preview-share').hidden"));
    });
}

#[test]
fn a_link_lasts_no_longer_than_its_key_allows() {
    browse(|page| {
        for (lasts, offered, chosen) in [
            ("30m", "30 minutes", 1800),
            ("1h", "1 hour", 3600),
            ("1d", "1 hour,1 day", 86_400),
            ("7d", "1 hour,1 day,7 days", 86_400),
            ("36h", "1 hour,1 day,36 hours", 86_400),
            ("30d", "1 hour,1 day,7 days,30 days", 86_400),
        ] {
            let dir = DataDir::temporary();
            dir.write_private("k1.key", "0123456789abcdef0123456789abcdef");
            let file = write(&dir, "k1", lasts);
            let server = Launch::new(&["--access", &file]).on(&dir).start();
            dir.place("pub/a", "x");
            open(page, &server, "/pub/?view=a");
            page.says("#preview-body", "x");
            page.click("#preview-share");
            page.says("#share-title", "A link to pub/a");
            let times = "[...$('#share-lasts').options].map((it) => it.text).join()";
            assert_eq!(page.eval(times), offered, "{lasts}");
            let value = page.eval("Number($('#share-lasts').value)");
            assert_eq!(value, chosen, "{lasts}");
            // The longest is signed, too.
            page.eval("(() => { $('#share-lasts').selectedIndex = $('#share-lasts').length - 1; $('#share-lasts').dispatchEvent(new Event('change')); })()");
            page.says("#share-state", "It is another link now");
            let end = page.eval("$('#share-link').value.match(/expires=([0-9]+)/)[1] * 1 - Date.now() / 1000 - $('#share-lasts').value");
            let end = end.as_f64().expect("a number");
            assert!((-60.0..=1.0).contains(&end), "{lasts} {end}");
        }
    });
}

#[test]
fn no_link_is_offered_without_rules() {
    browse(|page| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        page.visit_keys(server.addr, "/?view=a");
        page.says("#preview-body", "x");
        assert!(page.is("$('#preview-share').hidden"));
    });
}

/// A folder, by a key of the server's own: for one to read, and for one to hand files in.
#[test]
fn a_folder_is_shared_to_be_read_or_to_hand_files_in() {
    browse(|page| {
        let dir = DataDir::temporary();
        let server = Launch::new(&["--links"]).on(&dir).start();
        dir.place("in/there", "v");
        let link = |page: &Browser| {
            let link = page.eval("$('#share-link').value");
            link.as_str().expect("text").to_owned()
        };
        page.go(&format!("{}/in/", origin(server.addr)));
        page.holds("!$('#share-folder').hidden");
        page.click("#share-folder");
        page.says("#share-title", "A link to in/");
        page.says("#share-text", "read the folder until");
        let read = link(page);
        page.eval("$('#share-may').selectedIndex = 1");
        page.eval("$('#share-may').dispatchEvent(new Event('change'))");
        page.says(
            "#share-text",
            "put files into the folder, and see and replace none",
        );
        let hand_in = link(page);
        page.go(&read);
        page.says("#keys", "there");
        page.holds("$('#share-folder').hidden");
        page.go(&hand_in);
        page.says("#keys-view", "Drop files here");
        page.holds("!$('#keys').textContent.includes('there')");
    });
}
