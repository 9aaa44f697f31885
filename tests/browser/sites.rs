//! Proves that a site works in a browser: a folder of pages with module scripts, WebAssembly, JSON and frames; and that
//! the sandbox stays elsewhere.

use crate::browser::{Browser, browse_served};
use crate::support::prelude::*;

pub(crate) const SITE: [&str; 2] = ["--site", "prefix = \"site/\", scripts = true"];

/// `(module)`, the shortest WebAssembly that there is.
const WASM: &[u8] = b"\0asm\x01\0\0\0";

fn store_pages(server: &TestServer, prefix: &str) {
    let index = "<!doctype html><title>t</title><link rel=stylesheet href=css/a.css><h1>Report</h1>\
        <p id=module><p id=json><p id=wasm><p id=frame></p><a href='sub/'>sub</a><script type=module src=js/app.js></script>";
    let app = "import { answer } from './lib/answer.mjs'; const say = (id, text) => document.getElementById(id).textContent = text;
        say('module', answer);
        say('json', (await (await fetch('search.json?format=1')).json()).found);
        await WebAssembly.compileStreaming(fetch(new URL('../a.wasm', import.meta.url))); say('wasm', 'compiled');
        const frame = document.createElement('iframe'); frame.src = 'sub/?id=a--b&viewMode=story';
        frame.onload = () => say('frame', frame.contentDocument.title); document.body.append(frame);";
    for (name, value) in [
        ("index.html", index.as_bytes()),
        ("js/app.js", app.as_bytes()),
        ("js/lib/answer.mjs", b"export const answer = 'forty-two';"),
        ("search.json", br#"{"found": "a term"}"#),
        ("a.wasm", WASM),
        ("css/a.css", b"h1 { color: rgb(1, 2, 3) }"),
        (
            "sub/index.html",
            b"<!doctype html><title>the sub page</title><h1>Sub</h1>",
        ),
    ] {
        server.store(&format!("{prefix}{name}"), value);
    }
}

fn has_color(page: &Browser) -> bool {
    page.is("getComputedStyle($('h1')).color === 'rgb(1, 2, 3)'")
}

#[test]
fn pages_with_modules_wasm_json_and_frames_work() {
    browse_served(&SITE, |page, server| {
        store_pages(server, "site/report/");
        page.visit(server.addr, "/site/report");
        page.says("#frame", "the sub page");
        for (id, text) in [
            ("#module", "forty-two"),
            ("#json", "a term"),
            ("#wasm", "compiled"),
        ] {
            assert_eq!(page.text(id), text);
        }
        assert!(has_color(page));
        page.click("a[href='sub/']");
        page.says("h1", "Sub");
        assert_eq!(page.address(), "/site/report/sub/");
        // A browser asks for a picture of each origin, which there is not.
        let mut complaints = page.complaints();
        complaints.retain(|line| !line.contains("favicon"));
        assert_eq!(complaints, [""; 0]);
    });
}

/// The same pages where no operator lifts the sandbox: in a site without scripts, and beside a site that has them.
#[test]
fn without_scripts_they_are_in_the_sandbox() {
    let args = [&SITE[..], &["--site", "prefix = \"plain/\""]].concat();
    browse_served(&args, |page, server| {
        for (prefix, at) in [("plain/", "/plain/"), ("beside/", "/beside/index.html")] {
            store_pages(server, prefix);
            page.visit(server.addr, at);
            page.says("h1", "Report");
            page.holds("document.readyState === 'complete'");
            assert_eq!(page.text("#module"), "", "{at}");
            assert!(has_color(page), "{at}");
            assert!(page.is("window.origin === 'null'"), "{at}");
        }
    });
}

/// A sibling is decoded by the browser, and its type is that of the value: a module runs.
#[test]
fn a_browser_decodes_the_siblings_that_it_takes() {
    browse_served(&SITE, |page, server| {
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let script = b"document.title = 'from the sibling'";
        coder.write_all(script).expect("gzip");
        let index = "<!doctype html><script type=module src=a.js></script>";
        server.store("site/index.html", index);
        server.store("site/a.js", "document.title = 'from the value'");
        server.store("site/a.js.gz", coder.finish().expect("gzip"));
        page.visit(server.addr, "/site/");
        page.until("the sibling runs", || page.title() == "from the sibling");
    });
}

/// The page of the server is a question away, and leads through the folders of a site as through others.
#[test]
fn the_page_is_still_there_below_a_site() {
    browse_served(&SITE, |page, server| {
        let all = [
            "../",
            "css/",
            "js/",
            "sub/",
            "a.wasm",
            "index.html",
            "search.json",
        ];
        store_pages(server, "site/");
        page.visit_keys(server.addr, "/site/?format=html");
        page.shows(&all);
        page.visit_keys(server.addr, "/");
        page.click("a[data-folder='site/']");
        page.shows(&all);
    });
}
