//! Proves of `--follow-symlinks` that a name is answered as what symbolic links lead to from it, with the rights to both
//! and never from outside; that nothing is changed, listed or counted through a link; and that a folder says what it
//! does not show.

use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::archives::tar;
use crate::support::policy::{bearer, rule, serve_on, subject};
use crate::support::prelude::*;

const FOLLOW: &str = "--follow-symlinks";
const HTML: &str = "Accept: text/html\r\n";
const JSON: &str = "Accept: application/json\r\n";

/// A directory with values, and links that lead to them: the name of each, and where it leads.
const LINKS: &str =
    "latest:v1 note:v1/a.txt chain:latest/deep/k v1/deep/up:../a.txt v1/over:../v1/./deep/../deep";

fn linked() -> DataDir {
    let dir = DataDir::temporary();
    dir.place_each("v1/a.txt v1/deep/k other", "value");
    link(&dir, LINKS);
    dir
}

fn link(dir: &DataDir, links: &str) {
    for (name, to) in links.split_whitespace().filter_map(|it| it.split_once(':')) {
        symlink(to, dir.file(name)).expect("a link");
    }
}

#[test]
fn a_name_is_answered_as_what_links_lead_to() {
    directory_only!("symbolic links");
    let dir = linked();
    let beside = dir.outside("beside");
    fs::create_dir(&beside).expect("a folder");
    fs::create_dir(dir.file("m")).expect("a folder");
    let mounted = Mounted::by(&["mount", "--bind", text(&beside)], &dir.file("m"));
    let mounted = available("a link to a mount", mounted);
    link(&dir, "to-mount:m/in");
    let server = Launch::new(&[FOLLOW, "--compress"]).on(&dir).start();
    let get = |path: &str, lines: &str| server.request("GET", path, lines, b"");
    if mounted.is_some() {
        fs::write(beside.join("in"), "mounted").expect("a file");
        assert_eq!(server.get("to-mount").body, b"mounted");
    }
    let cases = "note:v1/a.txt latest/a.txt:v1/a.txt chain:v1/deep/k latest/deep/up:v1/a.txt latest/over/k:v1/deep/k";
    for (name, key) in words(cases).iter().filter_map(|case| case.split_once(':')) {
        // Once more from the cache.
        for lines in [
            "",
            "Range: bytes=1-2\r\n",
            "If-None-Match: *\r\n",
            "Want-Repr-Digest: sha-256=1\r\n",
            "",
        ] {
            for method in ["GET", "HEAD"] {
                let ask = |path: &str| {
                    let mut got = server.request(method, &format!("/{path}"), lines, b"");
                    got.headers.retain(|(name, _)| name != "date");
                    (got.status, got.headers, got.body)
                };
                let (got, expected) = (ask(name), ask(key));
                assert_eq!(got, expected, "{method} {name} {lines}");
                assert!(got.0 < 400, "{method} {name} {lines}: {}", got.0);
            }
        }
    }
    // A folder has one address.
    for (path, lines, to) in [
        ("/latest/", HTML, "../v1/"),
        ("/latest/?limit=5", JSON, "../v1/?limit=5"),
        ("/latest/over/", "", "../../v1/deep/"),
        ("/latest", HTML, "v1/"),
    ] {
        let got = get(path, lines);
        assert_eq!(
            (got.status, got.header("location")),
            (302, Some(to)),
            "{path}"
        );
    }
    assert_eq!(get("/latest", JSON).status, 404);
    let packed = |path: &str| get(path, "").body;
    assert_eq!(packed("/latest/?archive=tar"), packed("/v1/?archive=tar"));
    assert_eq!(
        packed("/latest/?archive=zip&files=deep/"),
        packed("/v1/?archive=zip&files=deep/")
    );
    // A link that is set anew leads elsewhere at once.
    fs::remove_file(dir.file("note")).expect("it goes");
    link(&dir, "note:other");
    assert_eq!(
        server.get("note").must("etag"),
        server.get("other").must("etag")
    );
    // Nothing is twice in a list, and a page says which links there are.
    assert_eq!(
        server.get("?format=text&prefix=v").text(),
        "v1/a.txt\nv1/deep/k\n"
    );
    let page = HtmlPage::parse(&get("/", HTML).body);
    let said = &page.element("unlisted").text;
    for name in ["chain", "latest/", "note"] {
        assert!(said.contains(name), "{said}");
    }
    assert!(!said.contains("Not shown"), "{said}");
}

#[test]
fn no_link_leads_out_or_to_what_is_no_value() {
    directory_only!("symbolic links");
    let dir = linked();
    fs::create_dir(dir.outside("outside")).expect("a folder");
    fs::write(dir.outside("outside/k"), "secret").expect("the canary");
    dir.place_each(".env .hidden/k", "secret");
    let absolute = dir.file("other");
    link(
        &dir,
        "out:../outside/k up:.. etc:/etc/hostname away:../outside self:self one:two two:one none:nowhere",
    );
    link(
        &dir,
        "here:. hidden:.env below:.hidden own:.data-server/lock pages:.data-server back:../data/other fd:/proc/self/fd/3",
    );
    symlink(&absolute, dir.file("absolute")).expect("a link");
    let _listener = UnixListener::bind(dir.file("socket")).expect("a socket");
    link(&dir, "to-socket:socket");
    for sandbox in ["auto", "off"] {
        let args = [FOLLOW, "--hide", ".*", "--sandbox", sandbox];
        let server = Launch::new(&args).on(&dir).start();
        let names = "out up/outside/k etc away/k self one none hidden below/k own pages/lock back fd absolute to-socket";
        for name in words(names) {
            for method in ["GET", "HEAD"] {
                let got = server.ask(method, name);
                assert_eq!(got.status, 404, "{method} {name}");
            }
        }
        for folder in words("up away self one here below pages absolute") {
            let get = |query: &str, lines| {
                server.request("GET", &format!("/{folder}/{query}"), lines, b"")
            };
            assert_eq!(
                get("", JSON).text(),
                "{\"keys\":[],\"next\":null}\n",
                "{folder}"
            );
            assert_eq!(get("", HTML).status, 404, "{folder}");
            assert_eq!(get("?archive=tar", "").status, 404, "{folder}");
        }
    }
}

/// Each change of a name that is a link, or that a link is in the way to, is refused and changes nothing.
#[test]
fn nothing_is_changed_through_a_link() {
    directory_only!("symbolic links");
    let dir = linked();
    let server = Launch::new(&[FOLLOW]).on(&dir).start();
    let names = dir.names();
    let packed = tar([("new", &b"w"[..])]);
    let to = |to: &str| format!("Destination: /{to}\r\n");
    for (method, path, lines, body) in [
        ("PUT", "/note", "", &b"w"[..]),
        ("PUT", "/latest/new", "", b"w"),
        ("PUT", "/latest/a.txt", "", b"w"),
        ("PUT", "/latest/?archive=tar", "", &packed),
        ("DELETE", "/note", "", b""),
        ("DELETE", "/latest/a.txt", "", b""),
        ("DELETE", "/latest/", "", b""),
        ("MKCOL", "/latest/new/", "", b""),
        ("MOVE", "/note", &to("moved"), b""),
        ("MOVE", "/latest/a.txt", &to("moved"), b""),
        ("MOVE", "/latest/", &to("moved/"), b""),
        ("COPY", "/note", &to("copied"), b""),
        ("COPY", "/latest/", &to("copied/"), b""),
        ("COPY", "/other", &to("note"), b""),
        ("MOVE", "/other", &to("latest/new"), b""),
    ] {
        let got = server.request(method, path, lines, body);
        assert!(
            [404, 409].contains(&got.status),
            "{method} {path}: {}",
            got.status
        );
        assert_eq!(dir.names(), names, "{method} {path}");
        assert_eq!(dir.read("v1/a.txt"), b"value", "{method} {path}");
    }
}

#[test]
fn the_right_to_both_names_is_needed() {
    directory_only!("symbolic links");
    let dir = DataDir::temporary();
    dir.place_each("a/k b/k", "value");
    link(&dir, "a/link:../b/k a/folder:../b b/link:../a/k a/own:k");
    let may = ["read", "list"];
    let rules = [
        subject("ann"),
        subject("bob"),
        rule("ann", "", &may),
        rule("bob", "a/", &may),
    ];
    let server = serve_on(&dir, &rules.concat(), &[FOLLOW]);
    for (path, ann, bob) in [
        ("/a/link", 200, 404),
        ("/a/own", 200, 200),
        ("/b/link", 200, 403),
        ("/a/folder/k", 200, 404),
        ("/a/folder/?archive=tar", 200, 404),
        // Empty, as that of any name.
        ("/a/folder/?format=json", 302, 200),
        ("/b/?format=json", 200, 403),
    ] {
        for (who, status) in [("ann", ann), ("bob", bob)] {
            let got = server.request("GET", path, &bearer(who), b"");
            assert_eq!(got.status, status, "{path} by {who}");
        }
    }
    let said = |path: &str, who: &str| {
        let lines = [HTML, &bearer(who)].concat();
        let page = HtmlPage::parse(&server.request("GET", path, &lines, b"").body);
        page.element("unlisted").text.clone()
    };
    assert!(said("/a/", "bob").contains("folder/, link, own"));
    // The root is in the page of who may see a part of it alone.
    link(&dir, "seen-by-ann:a/k");
    assert_eq!(
        (said("/", "bob"), said("/", "ann")),
        (String::new(), "Symbolic links: seen-by-ann. ".to_owned())
    );
}

/// A link, or a folder on the way, that is exchanged all the time for one that leads out.
#[test]
fn a_link_that_is_swapped_never_leads_out() {
    directory_only!("symbolic links");
    let dir = DataDir::in_memory();
    fs::create_dir(dir.outside("outside")).expect("a folder");
    fs::write(dir.outside("outside/k"), "secret").expect("the canary");
    dir.place_each("v1/k v2/k", "value");
    link(
        &dir,
        "link:v1/k bad:../outside/k folder:v1 worse:../outside",
    );
    let server = Launch::new(&[FOLLOW, "--threads", "2"]).on(&dir).start();
    let done = Done::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.is_said() {
                for (a, b) in [("link", "bad"), ("folder", "worse"), ("v1", "v2")] {
                    let (a, b) = (dir.file(a), dir.file(b));
                    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).expect("an exchange");
                }
            }
        });
        let _saying = done.when_dropped();
        let mut connection = server.connect();
        let (mut values, mut absent) = (0, 0);
        eventually("the race has been run", || {
            for key in ["link", "folder/k"].repeat(50) {
                let got = connection.get(key);
                let is_value = got.status == 200 && got.body == b"value";
                assert!(
                    is_value || got.status == 404,
                    "{}: {}",
                    got.status,
                    got.text()
                );
                values += i32::from(is_value);
                absent += i32::from(!is_value);
            }
            values > 200 && absent > 200
        });
    });
}

/// A link to a value that is replaced without rest is never absent.
#[test]
fn a_link_to_a_value_that_is_replaced_leads_to_it() {
    directory_only!("symbolic links");
    let dir = DataDir::in_memory();
    dir.place("k", "value");
    link(&dir, "link:k");
    let server = Launch::new(&[FOLLOW]).on(&dir).start();
    let done = Done::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            while !done.is_said() {
                connection.ask(b"PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nvalue");
            }
        });
        let _saying = done.when_dropped();
        let mut connection = server.connect();
        for _ in 0..500 {
            assert_eq!(connection.get("link").body, b"value");
        }
    });
}

#[test]
fn a_folder_says_what_it_does_not_show() {
    use std::os::unix::ffi::OsStrExt as _;
    directory_only!("symbolic links");
    let dir = linked();
    fs::create_dir(dir.file("-")).expect("a folder with the name of the pages");
    for name in [
        &b"latin-\xe9"[..],
        b".data-server-old",
        b".hidden",
        b".hidden-\xe9",
    ] {
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), "v").expect("a file");
    }
    let _listener = UnixListener::bind(dir.file("v1/socket")).expect("a socket");
    link(&dir, ".link:other v1/out:/etc");
    let said = |args: &[&str], path: &str| {
        let server = Launch::new(args).on(&dir).start();
        let page = HtmlPage::parse(&server.request("GET", path, HTML, b"").body);
        let page = page.element("unlisted").text.clone();
        let and = if path.contains('?') { '&' } else { '?' };
        let list = server
            .request("GET", &format!("{path}{and}unlisted"), "", b"")
            .json();
        assert!(page.ends_with(list["unlisted"].as_str().expect("a sentence")));
        let plain = server
            .request("GET", &format!("{path}{and}format=json"), "", b"")
            .json();
        assert!(plain.get("unlisted").is_none() && plain.get("links").is_none());
        page
    };
    let root = "Not shown: 3 symbolic links, 2 names that cannot be served";
    assert_eq!(said(&["--hide", ".*"], "/"), root);
    assert_eq!(
        said(&[], "/v1/"),
        "Not shown: 2 symbolic links, 1 pipe, socket or device"
    );
    let followed = "Symbolic links: over/. Not shown: 1 symbolic link that leads out or nowhere, 1 pipe, socket or device";
    assert_eq!(said(&[FOLLOW], "/v1/"), followed);
    assert_eq!(said(&[FOLLOW], "/v1/deep/"), "Symbolic links: up. ");
    assert_eq!(said(&[], "/v1/deep/?after=z"), "");
}
