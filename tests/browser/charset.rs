//! Proves that text of which only the name is known is shown as it was written, and not as windows-1252.

use crate::browser::browse_served;
use crate::support::prelude::*;

const TEXT: &str = "naïve café — Привет 日本";

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
            assert!(page.text("body").contains(TEXT), "{key}");
        }
    });
}

#[test]
fn text_in_another_charset_is_left_to_the_browser() {
    browse_served(&[], |page, server| {
        server.store("latin.txt", b"caf\xe9");
        // What the text itself declares has the last word.
        let koi8 = b"<meta charset=koi8-r><p>\xf0\xd2\xc9\xd7\xc5\xd4</p>";
        server.store("koi8.html", koi8);
        for (key, shown) in [("latin.txt", "café"), ("koi8.html", "Привет")] {
            let got = ask(&mut server.connect(), "GET", &format!("/{key}"), "", b"");
            assert!(!got.must("content-type").contains("charset"), "{key}");
            page.visit(server.addr, &format!("/{key}"));
            assert_eq!(page.text("body").trim(), shown, "{key}");
        }
    });
}
