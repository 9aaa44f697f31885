//! Proves that text of which only the name is known is shown as it was written, and not as windows-1252.

use crate::browser::browse_served;
use crate::support::prelude::*;

const TEXT: &str =
    "na\u{ef}ve caf\u{e9} \u{2014} \u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{65e5}\u{672c}";

#[test]
fn utf8_text_is_shown_as_written() {
    browse_served(&[], |page, server| {
        let long = format!("{TEXT}{}", " \u{e9}".repeat(40_000));
        for (key, value) in [
            ("k.txt", TEXT.to_owned()),
            ("long.txt", long),
            ("k.html", format!("<p>{TEXT}</p>")),
            ("k.js", format!("// {TEXT}")),
        ] {
            server.store(key, &value);
            page.visit(server.addr, &format!("/{key}"));
            assert_eq!(page.eval("document.characterSet"), "UTF-8", "{key}");
            let shown = page.text("body");
            let is_right = shown.contains(TEXT);
            assert!(is_right, "{key}: {}", &shown[..shown.len().min(200)]);
        }
    });
}

#[test]
fn text_in_another_charset_is_left_to_the_browser() {
    browse_served(&[], |page, server| {
        server.store("latin.txt", b"caf\xe9");
        // What the text itself declares has the last word.
        server.store(
            "koi8.html",
            b"<meta charset=koi8-r><p>\xf0\xd2\xc9\xd7\xc5\xd4</p>",
        );
        for (key, shown) in [
            ("latin.txt", "caf\u{e9}"),
            ("koi8.html", "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
        ] {
            let got = ask(&mut server.connect(), "GET", &format!("/{key}"), "", b"");
            assert!(!got.must("content-type").contains("charset"), "{key}");
            page.visit(server.addr, &format!("/{key}"));
            assert_eq!(page.text("body").trim(), shown, "{key}");
        }
    });
}
