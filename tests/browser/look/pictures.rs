//! Proves that the pictures of the documents show what the page is: each one is taken anew, and what it is of stands in
//! it whole.
//!
//! `WRITE_DOCS=1 cargo test --test browser -- look::pictures` makes them anew. Their pixels are not compared: fonts
//! differ.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::browser::{Browser, Shape, browse_as};
use crate::plain::send;
use crate::support::prelude::*;

/// A value, its length, and how many minutes ago it was written.
const VALUES: [(&str, u64, u64); 7] = [
    ("backups/2026-11-25.dump", 1, 1),
    ("photos/lake.jpg", 1, 1),
    ("backup-2026-11-20.tar.zst", 1_288_490_188, 4 * 24 * 60),
    ("config.json", 0, 5),
    ("report of the year.pdf", 820_400, 3 * 60),
    ("sketch.png", 96_300, 1),
    ("talk.mp4", 188_743_680, 40),
];

const CONFIG: &str =
    "{\n  \"listen\": \"127.0.0.1:8080\",\n  \"threads\": 4,\n  \"durability\": \"disk\"\n}\n";

fn values() -> DataDir {
    let dir = DataDir::temporary();
    for (key, length, minutes) in VALUES {
        dir.place(key, if key == "config.json" { CONFIG } else { "" });
        if length > 0 {
            dir.set_len(key, length);
        }
        dir.date(key, SystemTime::now() - Duration::from_secs(60 * minutes));
    }
    dir
}

/// Takes a picture of the window down to the end of what `last` selects, in so many pixels of the picture for one of
/// the page. All that `shown` selects has to be in it, whole.
fn take(page: &Browser, name: &str, last: &str, shown: &[&str], scale: f64) {
    let end = "$$(arguments[0]).at(-1).getBoundingClientRect().bottom";
    let end = page.eval_with(end, vec![json!(last)]);
    let height = end.as_f64().expect("a number").ceil() + 20.0;
    let width = page.eval("window.innerWidth");
    let width = width.as_f64().expect("a number");
    for css in shown {
        let is_whole = "$$(arguments[0]).filter((it) => it.checkVisibility()).map((it) => it.getBoundingClientRect()) \
            .map((box) => box.width > 0 && box.top >= 0 && box.bottom <= arguments[1] && box.left >= 0 && box.right <= arguments[2])";
        let arguments = vec![json!(css), json!(height), json!(width)];
        let whole = page.eval_with(is_whole, arguments);
        let whole: Vec<bool> = serde_json::from_value(whole).expect("answers");
        let are_whole = !whole.is_empty() && !whole.contains(&false);
        assert!(are_whole, "{name}: {css} {whole:?}");
    }
    let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": scale});
    let how = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
    let taken = page.devtools_with("Page.captureScreenshot", &how);
    let taken = STANDARD.decode(taken["data"].as_str().expect("a picture"));
    let taken = taken.expect("base64");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &taken).expect("the picture");
    }
    let kept = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(kept.len() < 60 << 10, "{name} has {} bytes", kept.len());
    // Letters are wider or narrower elsewhere: the height may differ by some lines.
    let ((wide, high), (kept_wide, kept_high)) = (size(&taken), size(&kept));
    assert_eq!(wide, kept_wide, "{name}");
    let is_near = high.abs_diff(kept_high) < high / 10;
    assert!(is_near, "{name}: {high} and {kept_high}");
}

/// The width and the height of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG"), "no PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

/// Runs `test` in this shape with a server that has these values.
fn with_values(shape: Shape, test: impl FnOnce(&Browser, &TestServer)) {
    browse_as(shape, |page| {
        if !shape.is_phone {
            // As wide as a page of the documents.
            page.set_size(1000, 790);
        }
        test(page, &Launch::new(&[]).on(&values()).start());
    });
}

fn visit(page: &Browser, server: &TestServer) {
    page.visit(server.addr, "/");
    page.says("#state", "Live");
    // The folder of each of the first three, and the name of the others.
    let shown = |(key, ..): &(&'static str, _, _)| key.split_inclusive('/').next();
    page.shows(&VALUES.iter().filter_map(shown).collect::<Vec<_>>());
    page.says("#rows", "5 min ago");
}

#[test]
fn on_a_desk_in_the_light_and_in_the_dark() {
    for (name, is_dark) in [("page.png", false), ("page-dark.png", true)] {
        with_values(
            Shape {
                is_dark,
                ..Shape::DESK
            },
            |page, server| {
                visit(page, server);
                let shown = ["#rows tr", "#find", "#upload", "#state", "#rows .icon"];
                take(page, name, "#count", &shown, 1.0);
                // It speaks of files, not of what the server is made of.
                for view in ["#activity", "#files"] {
                    page.visit(server.addr, &format!("/{view}"));
                    page.says("#state", "Live");
                    let words = "[document.body.innerText, ...$$('[aria-label], [title], [placeholder]') \
                    .map((it) => [it.ariaLabel, it.title, it.placeholder].join(' '))].join(' ').match(/\\b(keys?|values?|reactors?)\\b/i)";
                    assert_eq!(page.eval(words), json!(null), "{view}");
                }
            },
        );
    }
}

#[test]
fn on_a_phone() {
    let is_phone = true;
    with_values(
        Shape {
            is_phone,
            ..Shape::DESK
        },
        |page, server| {
            visit(page, server);
            let shown = ["#rows tr", "#find", "#upload", "#state"];
            take(page, "page-phone.png", "#count", &shown, 0.5);
        },
    );
}

#[test]
fn uploads_under_way() {
    with_values(Shape::DESK, |page, server| {
        visit(page, server);
        let lengths = [3_000, 2_400_000, 9_000_000].into_iter();
        let files = lengths.zip(["notes.txt", "survey.csv", "holiday.mp4"]);
        let files = files.map(|(length, name)| page.file(name, pattern(2, length)));
        let files: Vec<_> = files.map(|file| text(&file).to_owned()).collect();
        let slow = json!({"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 600_000});
        page.devtools("Network.enable");
        page.devtools_with("Network.emulateNetworkConditions", &slow);
        page.types("#files", files.join("\n"));
        page.says("#uploads-count", "left");
        let shown = ["", "-progress", "-cancel", "-list progress"];
        let shown = shown.map(|part| format!("#uploads{part}"));
        let shown = shown.each_ref().map(String::as_str);
        take(page, "page-upload.png", "#uploads", &shown, 1.0);
    });
}

#[test]
fn a_text_being_edited_beside_what_someone_else_has_saved() {
    with_values(Shape::DESK, |page, server| {
        page.visit(server.addr, "/?view=config.json");
        page.says("#preview-body", "durability");
        page.click("#preview-edit");
        page.types("#edit-text", "// mine\n");
        server.store("config.json", CONFIG.replace('4', "8"));
        page.click("#edit-save");
        page.says("#edit", "\"threads\": 8");
        let shown = ["#edit-text", "#edit-save"];
        take(page, "page-edit.png", "dialog[open]", &shown, 1.0);
    });
}

#[test]
fn a_failure_without_scripts() {
    with_values(Shape::PLAIN, |page, server| {
        page.visit(server.addr, "/");
        send(page, &[&page.file("config.json", "newer")]);
        page.says("h1", "is there already");
        take(page, "page-failure.png", "main", &["h1", "nav a"], 1.0);
    });
}
