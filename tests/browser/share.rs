//! Proves links to share: offered where the server signs one for the client, shown with their end, copied, and good for anybody.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, browse, origin};
use crate::support::prelude::*;

/// The file of rules: alice may share what begins with `pub/`, by this link key.
fn write(dir: &DataDir, by: &str) -> String {
    let hash = bcrypt::hash("sesame", 5).expect("a hash");
    let text = format!(
        "[[subject]]\nname = \"alice\"\npassword = \"{hash}\"\nshares = \"{by}\"\n\
         [[rule]]\nwho = [\"alice\"]\nmay = [\"read\", \"list\", \"watch\"]\n\
         [[rule]]\nwho = [\"alice\"]\nprefix = \"pub/\"\nmay = [\"link\"]\n\
         [[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\nlasts = \"3h\"\n"
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
        let file = write(&dir, "k1");
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
        write(&dir, "k2");
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
fn no_link_is_offered_without_rules() {
    browse(|page| {
        let server = TestServer::start(&[]);
        server.store("a", "x");
        page.visit_keys(server.addr, "/?view=a");
        page.says("#preview-body", "x");
        assert!(page.is("$('#preview-share').hidden"));
    });
}
