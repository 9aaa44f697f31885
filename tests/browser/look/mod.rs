//! Proves that the page fits: on a phone and on a desk, light and dark; and that its own policy lets all of it work. The
//! pictures lie in `tmp/pictures` of the build directory.

mod pictures;

use crate::browser::{Shape, browse_as};
use crate::support::prelude::*;

#[test]
fn nothing_sticks_out_of_the_window() {
    let shapes = [(false, false), (false, true), (true, false), (true, true)];
    for (is_phone, is_dark) in shapes {
        let shape = Shape {
            is_phone,
            is_dark,
            ..Shape::default()
        };
        browse_as(shape, |page| {
            let server = TestServer::start(&[]);
            for (n, key) in [
                "backup-2026-11-20.tar.zst",
                "config.json",
                "notes.txt",
                "photo.svg",
                "report of the year.pdf",
            ]
            .into_iter()
            .enumerate()
            {
                let file = File::create(server.dir.file(key)).expect("a value by hand");
                let length = 700 * 23_u64.pow(u32::try_from(n).expect("few"));
                file.set_len(length).expect("its length");
            }
            let text = "{\n  \"threads\": 4,\n  \"durability\": \"disk\"\n}\n";
            server.dir.place("config.json", text);
            server
                .dir
                .place(&"a-very-long-key-without-a-space-".repeat(7), "x");
            let file = page.file("holiday.jpg", pattern(2, 2_000_000));
            page.visit(server.addr, "/");
            page.holds("$$('#rows a[data-key]').length === 6");
            page.upload(&file);
            page.holds("$$('#rows tr').length === 7");
            let name = |what: &str| {
                let size = ["desk", "phone"][usize::from(is_phone)];
                let colour = ["light", "dark"][usize::from(is_dark)];
                format!("{what}-{size}-{colour}.png")
            };
            // Nothing makes the page scroll sideways, and nothing that can be clicked is cut off.
            let fits = "document.documentElement.scrollWidth <= window.innerWidth \
                && $$('a, button, input').filter((it) => it.checkVisibility()) \
                .every((it) => { const box = it.getBoundingClientRect(); \
                return box.left >= 0 && box.right <= (it.closest('.card, dialog') ?? document.body).getBoundingClientRect().right; })";
            assert_eq!(page.eval(fits), true, "{}", name("keys"));
            // The header is one line.
            let lines = "new Set($$('.top > *').map((it) => it.getBoundingClientRect()) \
                .map((box) => Math.round((box.top + box.bottom) / 20))).size";
            page.says("#state", "Live");
            assert_eq!(page.eval(lines), 1, "{}", name("keys"));
            let heads = "new Set($$('#keys th:has(button)') \
                .map((it) => Math.round(it.querySelector('button').getBoundingClientRect().top))).size";
            assert_eq!(page.eval(heads), 1, "{}", name("keys"));
            let back = page.eval("getComputedStyle(document.body).backgroundColor");
            assert_eq!(back == "rgb(17, 20, 24)", is_dark, "{back}");
            page.picture(&name("keys"));
            // Who cannot see the colours of the kinds sees their shapes: no two of these are the same.
            let kinds = "new Set($$('#rows .key').map((it) => getComputedStyle(it, '::before').maskImage)).size";
            assert_eq!(page.eval(kinds), 5);
            page.click("#rows tr:nth-child(3) .key");
            page.says("#preview-body", "durability");
            assert_eq!(page.eval(fits), true, "{}", name("preview"));
            // No button has a line for itself, but on a phone the one that is used most.
            let widest = "Math.max(...$$('#preview .buttons > :not([hidden], .primary)') \
                .map((it) => it.offsetWidth)) < $('#preview .buttons').offsetWidth * 0.6";
            assert_eq!(page.eval(widest), true, "{}", name("preview"));
            page.picture(&name("preview"));
            page.click("#preview-rename");
            page.says("#rename-title", "config.json");
            assert_eq!(page.eval(fits), true, "{}", name("rename"));
            page.picture(&name("rename"));
            page.click("#rename-no");

            // A folder with keys and folders, of which all that can be is selected.
            let long = "a folder with a long name, of which there are some ".repeat(4);
            for key in words("a/deep/er/2026/one a/deep/er/2026/x/y a/deep/er/2026/two.txt") {
                server.dir.place(key, "x");
            }
            server
                .dir
                .place(&format!("a/deep/er/2026/{}/z", long.trim_end()), "x");
            page.visit(server.addr, "/a/deep/er/2026/");
            page.holds("$$('#rows .pick').length === 2");
            page.click("#pick-all");
            page.says("#picked-count", "2 files selected");
            assert_eq!(page.eval(fits), true, "{}", name("folder"));
            page.picture(&name("folder"));
            assert_eq!(page.complaints(), [""; 0]);
        });
    }
}
