//! Proves the listing in the page: a client that follows its links finds every key, and nothing but keys. tests/browser has
//! the tests of what its scripts make of it.

use super::ODD_NAMES;
use crate::support::prelude::*;

const HTML: &str = "Accept: text/html\r\n";

fn get(raw: &mut Raw, target: &str) -> Response {
    ask(raw, "GET", target, HTML, b"")
}

fn page(raw: &mut Raw, target: &str) -> HtmlPage {
    let got = get(raw, target);
    let seen = (got.status, got.must("content-type"));
    assert_eq!(seen, (200, "text/html; charset=utf-8"), "{target}");
    HtmlPage::parse(&got.body)
}

fn texts(page: &HtmlPage) -> Vec<String> {
    page.rows().into_iter().map(|row| row.text).collect()
}

/// The two forms of a listing in HTML: the page with scripts, and the index for programs.
const FORMS: [&str; 2] = [HTML, "Accept: */*\r\n"];

/// Where the links to keys and folders of a listing in this form lead, and where its next page is.
fn links(listing: &HtmlPage, form: &str) -> (Vec<Row>, Option<String>) {
    if form == HTML {
        return (listing.rows(), listing.next());
    }
    let href = |link: &Element| link.attribute("href").expect("an address").to_owned();
    let rows = listing.named("a").map(|link| Row {
        href: href(link),
        ..Row::default()
    });
    let mut of_head = listing.named("link");
    let next = of_head.find(|link| link.attribute("rel") == Some("next"));
    (rows.collect(), next.map(href))
}

/// Follows every link and those to next pages, from the root down, as a mirror does: what has no `/` at the end is a value.
fn mirror(raw: &mut Raw, form: &str) -> BTreeMap<String, Vec<u8>> {
    let (mut values, mut folders) = (BTreeMap::new(), vec![String::from("/")]);
    while let Some(folder) = folders.pop() {
        let mut query = Some(String::new());
        while let Some(here) = query {
            let listing = ask(raw, "GET", &format!("{folder}{here}"), form, b"");
            let (rows, next) = links(&HtmlPage::parse(&listing.body), form);
            for row in rows.into_iter().filter(|row| row.href != "../") {
                let target = format!("{folder}{}", row.href);
                if target.ends_with('/') {
                    folders.push(target);
                    continue;
                }
                let got = get(raw, &target);
                let size = row.size.unwrap_or(got.body.len() as u64);
                assert_eq!((got.status, got.body.len() as u64), (200, size));
                let key = percent_encoding::percent_decode_str(&target[1..]).decode_utf8();
                let key = key.expect("UTF-8").into_owned();
                assert_eq!(values.insert(key, got.body), None, "{target} twice");
            }
            query = next;
        }
    }
    values
}

#[test]
fn who_follows_the_links_finds_every_key() {
    let server = TestServer::start(&[]);
    let mut keys = BTreeMap::new();
    for (at, name) in ODD_NAMES.split('|').enumerate() {
        let deep = format!("deep/{name}/{name}/x");
        for key in [
            name.to_owned(),
            format!("in/{name}"),
            format!("{name}-/x"),
            deep,
        ] {
            // `-` names the server's own pages in front.
            if key == "-" || key.starts_with("-/") || !takes_key(&key) {
                continue;
            }
            let value = vec![b'x'; at + key.len()];
            server.dir.place(&key, &value);
            keys.insert(key, value);
        }
    }
    for form in FORMS {
        let found = mirror(&mut server.connect(), form);
        assert!(found.keys().eq(keys.keys()), "{form}: {:?}", found.keys());
        assert_eq!(found, keys, "{form}");
    }
}

#[test]
fn a_page_shows_one_level_of_a_folder() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for key in ["a", "f/a", "f/b/c/d", "f/b-c", "f/b0", "g/x"] {
        server.store(key, key);
    }
    assert_eq!(texts(&page(&mut raw, "/")), ["f/", "g/", "a"]);
    let found = page(&mut raw, "/f/");
    assert_eq!(texts(&found), ["../", "b/", "a", "b-c", "b0"]);
    let got = server.get("f/a");
    let rows = found.rows();
    let seen = (rows[2].size, rows[1].size, &rows[1].time);
    assert_eq!(seen, (Some(3), None, &None));
    let time = humantime::parse_rfc3339(rows[2].time.as_deref().expect("a time"));
    let time = httpdate::fmt_http_date(time.expect("RFC 3339"));
    assert_eq!(time, got.must("last-modified"));
    // A folder that is not there has no rows, and is the place for an upload.
    assert_eq!(texts(&page(&mut raw, "/nothing/")), ["../"]);
    for (query, expected) in [
        ("?prefix=b", vec!["../", "b/", "b-c", "b0"]),
        ("?prefix=b/", vec!["../", "b/c/"]),
        ("?prefix=b&after=f/b-c", vec!["../", "b/", "b0"]),
        ("?delimiter=", vec!["../", "a", "b-c", "b/c/d", "b0"]),
        ("?limit=2", vec!["../", "a", "b-c"]),
    ] {
        let found = page(&mut raw, &format!("/f/{query}"));
        assert_eq!(texts(&found), expected, "{query}");
    }
}

/// The index has its link in its head: one among the others would be taken for a key by programs.
#[test]
fn pages_lead_to_the_next_by_a_link_and_a_field() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    for at in 0..7 {
        server.dir.place(&format!("a b/{at}"), "");
        server.dir.place(&format!("a b/{at} &/x"), "");
    }
    for form in FORMS {
        let (mut query, mut all) = (String::from("?limit=3&format=html"), Vec::new());
        loop {
            let got = ask(&mut raw, "GET", &format!("/a%20b/{query}"), form, b"");
            let (rows, next) = links(&HtmlPage::parse(&got.body), form);
            all.extend(rows.into_iter().skip(1).map(|row| row.href));
            let link = next.as_ref().map(|next| format!("<{next}>; rel=\"next\""));
            assert_eq!(got.header("link"), link.as_deref());
            let Some(next) = next else { break };
            query = next;
        }
        // Folders are the first of each page.
        all.sort_unstable();
        let each = (0..7).flat_map(|at| [at.to_string(), format!("{at}%20%26/")]);
        assert_eq!(all, each.collect::<Vec<_>>(), "{form}");
    }
}

/// Clients that follow no next link find up to 10,000 keys. Compute threads write so long a page.
#[test]
fn a_page_is_as_long_as_can_be_when_the_client_does_not_say() {
    let server = Launch::new(&[]).on(&crate::support::DataDir::in_memory());
    let server = server.start();
    for at in 0..10_001 {
        server.dir.place(&format!("big/{at:05}"), "");
    }
    let mut raw = server.connect();
    let cpu = |name| server.proc().cpu_of(name);
    let before = (cpu("compute-"), cpu("reactor-"));
    let found = page(&mut raw, "/big/");
    for _ in 0..3 {
        get(&mut raw, "/big/");
    }
    let compute = cpu("compute-").saturating_sub(before.0);
    let reactors = cpu("reactor-").saturating_sub(before.1);
    // Reactors send the pages, which a busy machine makes dearer. Had they written them, the compute threads would have done nothing.
    let is_right = compute * 10 > reactors;
    assert!(
        is_right,
        "who writes? reactors {reactors:?}, compute threads {compute:?}"
    );
    assert_eq!(found.rows().len(), 10_001, "../ and 10,000 keys");
    let next = found.next().expect("a next page");
    let got = texts(&page(&mut raw, &format!("/big/{next}")));
    assert_eq!(got, ["../", "10000"]);
}

#[test]
fn the_entity_tag_is_of_what_is_shown() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let mut tag = |target: &str| get(&mut raw, target).must("etag").to_owned();
    let empty = tag("/f/");
    server.store("f/a", "1");
    let one = tag("/f/");
    assert_ne!(one, empty);
    assert_eq!(tag("/f/"), one);
    server.store("g", "elsewhere");
    assert_eq!(tag("/f/"), one);
    assert_ne!(tag("/f/?limit=1000&prefix=b"), one);
    server.store("f/a", "12");
    assert_ne!(tag("/f/"), one);

    let known = format!("{HTML}If-None-Match: {}\r\n", tag("/f/"));
    let mut raw = server.connect();
    server.store("f/c", "");
    let got = ["GET", "HEAD"].map(|method| ask(&mut raw, method, "/f/", &known, b""));
    assert_eq!(got.each_ref().map(|got| got.status), [200, 200]);
    assert_eq!(got[0].must("etag"), got[1].must("etag"));
    let stale = format!("{HTML}If-Match: \"other\"\r\n");
    assert_eq!(ask(&mut raw, "GET", "/f/", &stale, b"").status, 412);
}

/// What works only with scripts is hidden until they run, and nothing else is.
#[test]
fn without_scripts_nothing_is_shown_that_does_not_work() {
    let server = TestServer::start(&[]);
    let found = page(&mut server.connect(), "/");
    let controls = ["button", "input", "dialog", "progress"];
    for control in controls.into_iter().flat_map(|name| found.named(name)) {
        let needs = ["for-script", "for-plain", "hidden", "dialog"];
        let is_right = needs.into_iter().any(|it| control.is_within(it));
        assert!(is_right, "{control:?} is shown");
    }
    for shown in ["keys", "rows", "empty"] {
        assert!(
            !found.element(shown).is_within("for-script")
                && !found.element(shown).is_within("hidden")
        );
    }
    assert_eq!(found.named("noscript").count(), 0);
}
