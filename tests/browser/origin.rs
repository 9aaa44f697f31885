//! Attack class 27: what a stored document tries in a browser. It is shown, and cannot act as this origin.

use serde_json::Value;

use crate::browser::{browse, browse_served, origin};
use crate::support::prelude::*;

const ACT: &str = "document.title = 'pwned'; fetch('/pwned', { method: 'PUT', body: 'x' });";

/// Media type, and a document of it that would run [`ACT`].
fn documents() -> Vec<(&'static str, String)> {
    let xhtml = format!(
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>t</title></head><body><script>{ACT}</script></body></html>"
    );
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' onload=\"{ACT}\"><title>t</title><script>{ACT}</script></svg>"
    );
    let image = format!("<img src=x onerror=\"{ACT}\">");
    let html = format!("<!doctype html><title>t</title><script>{ACT}</script>{image}");
    vec![
        ("text/html", html.clone()),
        ("text/html; charset=utf-8", html.clone()),
        ("application/xhtml+xml", xhtml.clone()),
        ("image/svg+xml", svg),
        ("text/xml", xhtml.clone()),
        ("application/xml", xhtml),
        // Not for what it looks like either.
        ("text/plain", html.clone()),
        ("application/octet-stream", html),
    ]
}

#[test]
fn a_stored_document_runs_no_script() {
    browse_served(&[], |page, server| {
        for (n, (media_type, document)) in documents().into_iter().enumerate() {
            let key = format!("d{n}");
            server.store_as(&key, &format!("Content-Type: {media_type}\r\n"), document);
            page.visit(server.addr, &format!("/{key}"));
            // The script of a document has run, or never will, when its load is over; onerror needs the network.
            page.holds("document.readyState === 'complete'");
            assert_ne!(page.title(), "pwned", "{media_type}");
        }
        assert_eq!(server.dir.get("pwned"), None, "a stored document stored");
    });
}

/// Without its sandbox, each of those documents does what it tries: else the test above would show nothing.
#[test]
fn the_same_documents_act_where_nothing_stops_them() {
    browse(|page| {
        for (media_type, document) in documents().into_iter().take(6) {
            let all = percent_encoding::NON_ALPHANUMERIC;
            let document = percent_encoding::utf8_percent_encode(&document, all);
            page.go(&format!("data:{media_type},{document}"));
            let acts = format!("a document of {media_type} acts");
            page.until(&acts, || page.eval("document.title") == "pwned");
        }
    });
}

#[test]
fn a_stored_script_is_none_for_a_stored_page() {
    browse_served(&[], |page, server| {
        server.store("act.js", ACT);
        let value = "<!doctype html><title>t</title><script src='/act.js'></script><iframe src='/'></iframe>";
        server.store("page.html", value);
        page.visit(server.addr, "/page.html");
        page.holds("document.readyState === 'complete'");
        assert_eq!(page.title(), "t");
        // Our own page does not let itself be framed.
        let framed = page.eval("document.querySelector('iframe').contentDocument");
        assert_eq!(framed, Value::Null);
        assert_eq!(server.dir.get("pwned"), None);
    });
}

/// The owner of a name can point it to the loopback address.
#[test]
fn a_rebound_name_shows_nothing() {
    browse(|page| {
        let server = Launch::new(&[]).env("DATA_SERVER_ALLOWED_HOST", "").start();
        server.dir.place("secret.txt", "the secret");
        let port = server.addr.port();
        for (host, told) in [("127.0.0.1", true), ("plain.example", false)] {
            let at = origin(format_args!("{host}:{port}"));
            page.go(&format!("{at}/secret.txt"));
            let shown = page.text("body");
            assert_eq!(shown.contains("the secret"), told, "{host}: {shown}");
            assert_eq!(shown.contains("--allowed-host"), !told, "{host}: {shown}");
        }
    });
}
