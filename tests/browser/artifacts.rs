//! Proves that artifacts which are sites work in a browser from where one tar stored them: the documentation of rustdoc
//! with its search, coverage reports of coverage.py and of lcov, and a Storybook with its stories, also where each file
//! has a compressed sibling.
//!
//! Storybook comes from npm (`tests/clients/install`, which builds `tests/browser/storybook`). Without it, or one of
//! the programs, the test is LEFT OUT.

use crate::browser::{Browser, browse_served};
use crate::sites::SITE;
use crate::support::prelude::*;

/// The addresses of what the page loads and does not get. A browser asks by itself for a picture of each origin, which
/// there is not.
const FAILED: &str = "performance.getEntriesByType('resource').filter((it) => it.responseStatus >= 400 && !it.name.endsWith('/favicon.ico')).map((it) => it.name)";

/// True where this program is; otherwise the test is left out.
fn has(program: &str) -> bool {
    let has = is_on_path(program);
    if !has {
        left_out(&this_test(), &format!("there is no {program}"));
    }
    has
}

/// What a program prints that is run in this folder.
#[track_caller]
fn printed(folder: &Path, line: &str) -> Vec<u8> {
    let mut words = line.split(' ');
    let mut program = Command::new(words.next().expect("a program"));
    let done = program.args(words).current_dir(folder).output();
    let done = done.expect("the program runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{line}: {said}");
    done.stdout
}

/// Stores what lies below `folder`, as docs/sites.md tells; the number of values.
#[track_caller]
fn publish(server: &TestServer, folder: &Path, prefix: &str) -> u64 {
    let tar = printed(folder, "tar --sort=name -cf - .");
    let put = server.request("PUT", &format!("/{prefix}?archive=tar"), "", &tar);
    assert_eq!(put.status, 200);
    put.json()["stored"].as_u64().expect("a number")
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a directory");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// Nothing that the page loads is missing, and the console has no complaint but these.
#[track_caller]
fn is_whole(page: &Browser, usual: &str) {
    assert_eq!(page.eval(FAILED), serde_json::json!([]));
    let mut complaints = page.complaints();
    complaints.retain(|line| !line.contains("favicon") && !line.contains(usual));
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn rustdoc_is_read_and_searched_where_it_is_stored() {
    needed!(has("rustdoc").then_some(()));
    let source = "//! A tiny crate.\n/// What a [`Turnip`](garden::Turnip) does.\npub mod garden { /// A root.\n pub struct Turnip; }\n";
    let place = folder(&[("tiny.rs", source)]);
    printed(place.path(), "rustdoc tiny.rs --out-dir doc");
    browse_served(&SITE, |page, server| {
        let stored = publish(server, &place.path().join("doc"), "site/doc/");
        assert!(stored > 20, "{stored}");
        // Without the slash at the end, as people type it; links are relative.
        page.visit(server.addr, "/site/doc/tiny");
        page.says("h1", "tiny");
        assert_eq!(page.address(), "/site/doc/tiny/");
        page.click("a.mod[href='garden/index.html']");
        page.says("h1", "garden");
        page.visit(server.addr, "/site/doc/tiny/?search=turnip");
        page.says("#search", "Turnip");
        page.click("#search a[href*='struct.Turnip.html']");
        page.says("h1", "Turnip");
        // rustdoc's own pages load fonts before they are used, in a way that Chromium does not like.
        is_whole(page, "A preload for");
    });
}

/// Its scripts sort and filter the files.
#[test]
fn a_report_of_coverage_py_is_sorted_filtered_and_opened() {
    needed!(has("python3-coverage").then_some(()));
    let garden = "import beet\ndef grow(days):\n    if days > 30:\n        return 2\n    return 1\nprint(grow(3))\n";
    let place = folder(&[
        ("garden.py", garden),
        ("beet.py", "def beet(n):\n    return n\n"),
    ]);
    printed(place.path(), "python3-coverage run --source=. garden.py");
    printed(place.path(), "python3-coverage html -d report");
    browse_served(&SITE, |page, server| {
        publish(server, &place.path().join("report"), "site/cover/");
        page.visit(server.addr, "/site/cover");
        let files = "$$('tbody tr').filter((it) => it.checkVisibility()).map((it) => it.cells[0].textContent.trim()).join()";
        let files_are = |files_now: &str| page.holds(&format!("{files} === '{files_now}'"));
        files_are("beet.py,garden.py");
        page.click("th[data-shortcut=s]");
        files_are("garden.py,beet.py");
        page.picture("coverage-py.png");
        page.types("#filter", "beet");
        files_are("beet.py");
        page.click("a[href='beet_py.html']");
        page.holds("$$('p.mis').length === 1");
        assert!(page.is("getComputedStyle($('main')).position === 'relative'"));
        is_whole(page, "favicon");
    });
}

/// Its pages run no script: it is read in the sandbox too.
#[test]
fn a_report_of_lcov_is_read_with_its_pictures_and_styles() {
    needed!(has("genhtml").then_some(()));
    let place = folder(&[("turnip.c", "int grow(int n) {\n  return n;\n}\n")]);
    let at = place.path().display();
    let counts = format!("SF:{at}/turnip.c\nDA:1,1\nDA:2,0\nend_of_record\n");
    fs::write(place.path().join("counts"), counts).expect("a file");
    printed(place.path(), "genhtml -q -o report counts");
    let args = [&SITE[..], &["--site", "prefix = \"plain/\""]].concat();
    browse_served(&args, |page, server| {
        for prefix in ["site/", "plain/"] {
            publish(server, &place.path().join("report"), prefix);
            page.visit(server.addr, &format!("/{prefix}"));
            page.click("a[href$='/index.html']");
            page.holds("$$('img').every((it) => it.naturalWidth > 0)");
            page.picture("lcov.png");
            page.click("a[href='turnip.c.gcov.html']");
            page.says(".lineNoCov, .tlaUNC", "return n");
            assert!(page.is("getComputedStyle($('.title')).textAlign === 'center'"));
            is_whole(page, "favicon");
        }
    });
}

/// What `tests/clients/install` built.
fn storybook() -> Option<PathBuf> {
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let book = built.parent()?.join("clients/storybook");
    let is_there = book.join("index.html").is_file();
    if !is_there {
        let why = "there is no Storybook, which tests/clients/install brings";
        left_out(&this_test(), why);
    }
    is_there.then_some(book)
}

/// The frame of the story, a page of its own, has a button with this text.
fn shows_story(page: &Browser, text: &str) {
    let frame = "$('#storybook-preview-iframe')?.contentDocument";
    let button = "querySelector('#storybook-root button')?.textContent";
    page.holds(&format!("{frame}?.{button} === '{text}'"));
}

#[test]
fn a_storybook_shows_its_stories_plainly_and_by_siblings() {
    let book = needed!(storybook());
    let place = folder(&[]);
    printed(place.path(), &format!("cp -R {} book", book.display()));
    browse_served(&SITE, |page, server| {
        for (prefix, by_siblings) in [("site/book", false), ("site/coded", true)] {
            if by_siblings {
                printed(place.path(), "gzip -kr book");
            }
            publish(server, &place.path().join("book"), &format!("{prefix}/"));
            let story = "?path=/story/garden-button--dig";
            page.visit(server.addr, &format!("/{prefix}{story}"));
            shows_story(page, "Dig it up");
            assert_eq!(page.address(), format!("/{prefix}/{story}"));
            page.holds("[...document.fonts].some((it) => it.family.includes('Nunito') && it.status === 'loaded')");
            page.picture("storybook.png");
            page.click("#garden-button--plant");
            shows_story(page, "Plant a turnip");
            assert!(page.address().ends_with("garden-button--plant"));
            let coded = "performance.getEntriesByType('resource').filter((it) => it.name.endsWith('.js')) \
                .map((it) => it.encodedBodySize < it.decodedBodySize)";
            let coded: Vec<bool> = serde_json::from_value(page.eval(coded)).expect("answers");
            let is_right = coded.len() > 2 && coded.iter().all(|it| *it == by_siblings);
            assert!(is_right, "{prefix}: {coded:?}");
            is_whole(page, "will become mandatory in Storybook");
            let frame = "iframe.html?id=garden-button--plant&viewMode=story";
            page.visit(server.addr, &format!("/{prefix}/{frame}"));
            page.says("#storybook-root", "Plant a turnip");
            is_whole(page, "favicon");
        }
    });
}
