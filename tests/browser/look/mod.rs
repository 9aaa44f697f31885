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
        browse_as(shape, async |browser| {
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
            let file = browser.file("holiday.jpg", pattern(2, 2_000_000));
            browser.visit(server.addr, "/").await;
            browser
                .until_true("document.querySelectorAll('#rows a[data-key]').length === 6")
                .await;
            browser.upload(&file).await;
            browser
                .until_true("document.querySelectorAll('#rows tr').length === 7")
                .await;
            let name = |what: &str| {
                let size = ["desk", "phone"][usize::from(is_phone)];
                let colour = ["light", "dark"][usize::from(is_dark)];
                format!("{what}-{size}-{colour}.png")
            };
            // Nothing makes the page scroll sideways, and nothing that can be clicked is cut off.
            let fits = "document.documentElement.scrollWidth <= window.innerWidth \
                && [...document.querySelectorAll('a, button, input')].filter((it) => it.checkVisibility()) \
                .every((it) => { const box = it.getBoundingClientRect(); \
                return box.left >= 0 && box.right <= (it.closest('.card, dialog') ?? document.body).getBoundingClientRect().right; })";
            assert_eq!(browser.eval(fits).await, true, "{}", name("keys"));
            // The header is one line.
            let lines = "new Set([...document.querySelectorAll('.top > *')].map((it) => it.getBoundingClientRect()) \
                .map((box) => Math.round((box.top + box.bottom) / 20))).size";
            browser.until_text("#state", "Live").await;
            assert_eq!(browser.eval(lines).await, 1, "{}", name("keys"));
            let heads = "new Set([...document.querySelectorAll('#keys th:has(button)')] \
                .map((it) => Math.round(it.querySelector('button').getBoundingClientRect().top))).size";
            assert_eq!(browser.eval(heads).await, 1, "{}", name("keys"));
            let back = browser
                .eval("getComputedStyle(document.body).backgroundColor")
                .await;
            assert_eq!(back == "rgb(17, 20, 24)", is_dark, "{back}");
            browser.picture(&name("keys")).await;
            // Who cannot see the colours of the kinds sees their shapes: no two of these are the same.
            let kinds = "new Set([...document.querySelectorAll('#rows .key')].map((it) => getComputedStyle(it, '::before').maskImage)).size";
            assert_eq!(browser.eval(kinds).await, 5);
            browser.click("#rows tr:nth-child(3) .key").await;
            browser.until_text("#preview-body", "durability").await;
            assert_eq!(browser.eval(fits).await, true, "{}", name("preview"));
            // No button has a line for itself, but on a phone the one that is used most.
            let widest = "Math.max(...[...document.querySelectorAll('#preview .buttons > :not([hidden], .primary)')] \
                .map((it) => it.offsetWidth)) < document.querySelector('#preview .buttons').offsetWidth * 0.6";
            assert_eq!(browser.eval(widest).await, true, "{}", name("preview"));
            browser.picture(&name("preview")).await;
            browser.click("#preview-rename").await;
            browser.until_text("#rename-title", "config.json").await;
            assert_eq!(browser.eval(fits).await, true, "{}", name("rename"));
            browser.picture(&name("rename")).await;
            browser.click("#rename-no").await;

            // A folder with keys and folders, of which all that can be is selected.
            let long = "a folder with a long name, of which there are some ".repeat(4);
            for key in words("a/deep/er/2026/one a/deep/er/2026/x/y a/deep/er/2026/two.txt") {
                server.dir.place(key, "x");
            }
            server
                .dir
                .place(&format!("a/deep/er/2026/{}/z", long.trim_end()), "x");
            browser.visit(server.addr, "/a/deep/er/2026/").await;
            browser
                .until_true("document.querySelectorAll('#rows .pick').length === 2")
                .await;
            browser.click("#pick-all").await;
            browser
                .until_text("#picked-count", "2 files selected")
                .await;
            assert_eq!(browser.eval(fits).await, true, "{}", name("folder"));
            browser.picture(&name("folder")).await;
            assert_eq!(browser.complaints().await, [""; 0]);
        });
    }
}
