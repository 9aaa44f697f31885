//! A value that other values hold compressed: who gets which, with the fields of the value and the validators of the
//! sibling.

use super::{DOCS, UTF8, headers, serve};
use crate::support::prelude::*;
use crate::support::s3::Stub;
use crate::support::served_by_nobody_with;

const VALUE: &[u8] = b"export const answer = 42;";

/// A server with a script in a site, and siblings of it with these endings, each of which holds its name.
fn with_siblings(endings: &[&str]) -> TestServer {
    let server = serve(&[DOCS]);
    server.store("docs/a.js", VALUE);
    for ending in endings {
        store_sibling(&server, "docs/a.js", ending, format!("as {ending}"));
    }
    server
}

/// Stores a sibling of what this key has: where a store tells times in seconds, in a later one.
fn store_sibling(server: &TestServer, key: &str, ending: &str, bytes: impl AsRef<[u8]>) {
    store_sibling_as(server, key, ending, "", bytes.as_ref());
}

fn store_sibling_as(server: &TestServer, key: &str, ending: &str, lines: &str, bytes: &[u8]) {
    let sibling = format!("{key}.{ending}");
    let second = |key: &str| httpdate::parse_http_date(server.get(key).must("last-modified"));
    eventually("it is stored in a later second", || {
        server.store_as(&sibling, lines, bytes);
        by_engine(true, second(&sibling).unwrap() > second(key).unwrap())
    });
}

fn get(server: &TestServer, accept: &str, lines: &str) -> Response {
    let lines = format!("Accept-Encoding: {accept}\r\n{lines}");
    server.request("GET", "/docs/a.js", &lines, b"")
}

/// What is accepted, and the coding that is sent of those that there are.
const CHOICES: &[(&str, &[&str], Option<&str>)] = &[
    ("br", &["br", "gz", "zst"], Some("br")),
    ("gzip, deflate, br, zstd", &["br", "gz", "zst"], Some("br")),
    ("gzip, deflate, br, zstd", &["gz", "zst"], Some("zstd")),
    ("gzip, deflate, br, zstd", &["gz"], Some("gzip")),
    ("gzip, deflate, br, zstd", &[], None),
    ("gzip, deflate", &["br", "gz", "zst"], Some("gzip")),
    ("x-gzip", &["br", "gz", "zst"], Some("gzip")),
    ("br;q=0.5, gzip", &["br", "gz", "zst"], Some("gzip")),
    ("br;q=0.5, gzip", &["br", "zst"], Some("br")),
    ("br;q=0, *", &["br", "gz", "zst"], Some("zstd")),
    ("*", &["gz"], Some("gzip")),
    ("*;q=0", &["br", "gz", "zst"], None),
    ("br;q=0.2, identity;q=0.5", &["br"], None),
    ("identity", &["br", "gz", "zst"], None),
    ("deflate", &["br", "gz", "zst"], None),
    ("", &["br", "gz", "zst"], None),
];

#[test]
fn the_client_gets_the_coding_that_it_likes_best_of_those_that_there_are() {
    for (accept, endings, coding) in CHOICES {
        let server = with_siblings(endings);
        let got = get(&server, accept, "");
        let asked = format!("{accept:?} of {endings:?}");
        assert_eq!(got.status, 200, "{asked}");
        assert_eq!(got.header("content-encoding"), *coding, "{asked}");
        let expected = match coding {
            None => VALUE.to_vec(),
            Some("zstd") => b"as zst".to_vec(),
            Some("gzip") => b"as gz".to_vec(),
            Some(other) => format!("as {other}").into_bytes(),
        };
        assert_eq!(got.body, expected, "{asked}");
        let media_type = got.must("content-type").trim_end_matches(UTF8);
        assert_eq!(media_type, "text/javascript", "{asked}");
        assert_eq!(got.all("vary"), "accept-encoding", "{asked}");
        let lines = format!("Accept-Encoding: {accept}\r\n");
        let head = server.request("HEAD", "/docs/a.js", &lines, b"");
        assert_eq!(headers(&head), headers(&got), "{asked}");
    }
}

#[test]
fn each_coding_has_a_tag_and_preconditions_and_ranges_are_of_what_is_sent() {
    let server = with_siblings(&["br", "gz"]);
    let (plain, br, gz) = (
        get(&server, "", ""),
        get(&server, "br", ""),
        get(&server, "gzip", ""),
    );
    let own = server.get("docs/a.js.br");
    let tags = [&plain, &br, &gz, &own].map(|got| got.must("etag").to_owned());
    assert_eq!(BTreeSet::from(tags.clone()).len(), 4, "{tags:?}");
    assert_eq!(br.must("last-modified"), own.must("last-modified"));
    // A client that has one of them, or the value as it is, is told so, with the tag of what it has.
    for (accept, tag, status) in [
        ("br", &tags[1], 304),
        ("br", &tags[0], 304),
        ("br", &tags[2], 200),
        ("br", &tags[3], 200),
        ("", &tags[0], 304),
        ("", &tags[1], 200),
    ] {
        let got = get(&server, accept, &format!("If-None-Match: {tag}\r\n"));
        assert_eq!(got.status, status, "{accept} {tag}");
        if status == 304 {
            let seen = (got.must("etag"), got.all("vary"));
            assert_eq!(seen, (&**tag, "accept-encoding".to_owned()));
        }
        let got = get(&server, accept, &format!("If-Match: {tag}\r\n"));
        let expected = if status == 304 { 200 } else { 412 };
        assert_eq!(got.status, expected, "{accept} {tag}");
    }
    let part = get(&server, "br", "Range: bytes=3-\r\n");
    let found = (
        part.status,
        part.text(),
        part.must("content-range").to_owned(),
    );
    assert_eq!(found, (206, "br".to_owned(), "bytes 3-4/5".to_owned()));
    let wanted = ("br", &*tags[1]);
    assert_eq!((part.must("content-encoding"), part.must("etag")), wanted);
    assert_eq!(get(&server, "br", "Range: bytes=5-\r\n").status, 416);
    for (tag, status) in [(&tags[1], 206), (&tags[0], 200), (&tags[2], 200)] {
        let got = get(
            &server,
            "br",
            &format!("Range: bytes=3-\r\nIf-Range: {tag}\r\n"),
        );
        assert_eq!(got.status, status, "If-Range: {tag}");
    }
    let got = get(&server, "br", "Want-Repr-Digest: sha-256=1\r\n");
    assert_eq!(got.must("repr-digest"), sha256(b"as br"));
    // A write is of the value as it is.
    let put = |tag: &str| {
        server
            .request("PUT", "/docs/a.js", &format!("If-Match: {tag}\r\n"), b"v")
            .status
    };
    assert_eq!(put(&tags[1]), 412);
    assert_eq!(put(&tags[0]), 200);
}

/// A client would decode the framing of several parts.
/// With a journal the values of a batch get their times before their files.
#[test]
fn siblings_come_in_one_tar_with_their_values_behind_them() {
    directory_only!("an order within a second");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--site", DOCS, "--durability", durability]);
        let mut tar = tar::Builder::new(Vec::new());
        for n in 0..60 {
            for name in [".js", ".js.br", ".js.gz", ".js.zst"].map(|end| format!("{n}{end}")) {
                let mut header = tar::Header::new_gnu();
                header.set_size(name.len() as u64);
                tar.append_data(&mut header, &name, name.as_bytes())
                    .unwrap();
            }
        }
        let tar = tar.into_inner().unwrap();
        let put = server.request("PUT", "/docs/?archive=tar", "", &tar);
        assert_eq!(put.json()["stored"], 240);
        for n in 0..60 {
            for (coding, ending) in [("br", "br"), ("gzip", "gz"), ("zstd", "zst")] {
                let lines = format!("Accept-Encoding: {coding}\r\n");
                let got = server.request("GET", &format!("/docs/{n}.js"), &lines, b"");
                assert_eq!(got.text(), format!("{n}.js.{ending}"), "{durability}");
            }
        }
    }
}

#[test]
fn several_ranges_of_a_sibling_are_answered_with_all_of_it() {
    let server = with_siblings(&[]);
    let (plain, coded) = (pattern(1, 5000), pattern(2, 4000));
    server.store("docs/a.js", &plain);
    store_sibling(&server, "docs/a.js", "br", &coded);
    let two = "Range: bytes=0-0,3000-3000\r\n";
    assert_eq!(get(&server, "", two).status, 206);
    let got = get(&server, "br", two);
    assert!(got.status == 200 && got.body == coded, "{}", got.status);
}

#[test]
fn a_sibling_that_is_older_than_the_value_counts_for_nothing() {
    let server = with_siblings(&["br"]);
    assert_eq!(get(&server, "br", "").body, b"as br");
    // An S3 store tells times in seconds.
    directory_only!("an order within a second");
    server.store("docs/a.js", "new");
    let got = get(&server, "br, gzip", "");
    let found = (got.text(), got.header("content-encoding"));
    assert_eq!(found, ("new".to_owned(), None));
    server.store("docs/a.js.gz", "new as gz");
    assert_eq!(get(&server, "br, gzip", "").text(), "new as gz");
    server.store("docs/a.js.br", "new as br");
    assert_eq!(get(&server, "br, gzip", "").text(), "new as br");
    // Made by hand with the time of the value, as gzip makes it.
    let time = server.dir.modified("docs/a.js");
    server.dir.place("docs/a.js.br", "by hand!");
    server.dir.date("docs/a.js.br", time);
    assert_eq!(get(&server, "br", "").text(), "by hand!");
    server
        .dir
        .date("docs/a.js.br", time - Duration::from_nanos(1));
    assert_eq!(get(&server, "br", "").text(), "new");
    server.dir.remove("docs/a.js.gz");
    assert_eq!(get(&server, "br, gzip", "").text(), "new");
    // It stands for a value that is there.
    assert_eq!(server.ask("DELETE", "docs/a.js").status, 200);
    assert_eq!(get(&server, "br", "").status, 404);
}

/// A hand that restores a file restores its time, which is then older than that of the sibling that was there.
#[test]
fn a_value_that_was_restored_by_hand_is_not_answered_by_what_was_beside_it() {
    directory_only!("values restored by hand");
    let server = with_siblings(&[]);
    let first = server.dir.modified("docs/a.js");
    server.store("docs/a.js", "second");
    server.store("docs/a.js.gz", "second as gz");
    assert_eq!(get(&server, "gzip", "").text(), "second as gz");
    server.dir.place("docs/next", VALUE);
    server.dir.date("docs/next", first);
    server.dir.rename("docs/next", "docs/a.js");
    let got = get(&server, "gzip", "");
    assert_eq!((&*got.body, got.header("content-encoding")), (VALUE, None));
    // With the sibling that was made from it.
    server.dir.place("docs/a.js.gz", "first as gz");
    server.dir.date("docs/a.js.gz", first);
    assert_eq!(get(&server, "gzip", "").text(), "first as gz");
    server.store("docs/a.js.gz", "made anew");
    assert_eq!(get(&server, "gzip", "").text(), "made anew");
}

/// A hand can give a file any date, also one that is later than all values to come.
#[test]
fn a_sibling_that_is_dated_ahead_does_not_stand_for_a_later_value() {
    directory_only!("dates by hand");
    let server = with_siblings(&["gz"]);
    let ahead = SystemTime::now() + Duration::from_secs(1_000_000);
    server.dir.date("docs/a.js.gz", ahead);
    assert_eq!(get(&server, "gzip", "").text(), "as gz");
    eventually("the value is of a later tick of the clock", || {
        server.store("docs/a.js", "second");
        get(&server, "gzip", "").text() == "second"
    });
    server.store("docs/a.js", "third");
    assert_eq!(get(&server, "gzip", "").text(), "third");
}

#[test]
fn over_s3_a_sibling_of_the_second_of_its_value_counts_for_nothing() {
    let stub = Stub::start();
    let args = ["--site", DOCS, "--s3-conditions", "off"];
    let server = Launch::new(&args).on_bucket(&stub.bucket).start();
    server.store("docs/a.js.br", "of the old one");
    server.store("docs/a.js", "new");
    let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (sibling, text) in [(0, "new"), (1, "of the old one")] {
        stub.date("docs/a.js", second);
        stub.date("docs/a.js.br", second + Duration::from_secs(sibling));
        assert_eq!(get(&server, "br", "").text(), text);
    }
}

#[test]
fn a_sibling_that_cannot_be_read_fails_no_value() {
    directory_only!("modes of files");
    let dir = DataDir::temporary();
    let args = ["--site", DOCS];
    let Some(server) = served_by_nobody_with(&dir, &args, "a sibling that is closed") else {
        return;
    };
    server.store("docs/a.js", VALUE);
    server.store("docs/a.js.br", "as br");
    server.store("docs/a.js.gz", "as gz");
    chmod(dir.file("docs/a.js.br"), 0);
    assert_eq!(get(&server, "br, gzip", "").text(), "as gz");
    let got = get(&server, "br", "");
    assert_eq!((got.status, &*got.body), (200, VALUE));
    server.event("the file system denies access");
    // By its own name it is refused.
    assert_eq!(server.get("docs/a.js.br").status, 403);
}

#[test]
fn only_values_of_a_site_that_are_worth_it_have_siblings() {
    let server = serve(&[DOCS]);
    let coded = "Content-Encoding: gzip\r\n";
    for (key, lines, may) in [
        ("docs/a.css", "", true),
        ("docs/index.html", "", true),
        ("docs/search.json", "", true),
        ("docs/a.bin", "Content-Type: text/plain\r\n", true),
        ("docs/a.png", "", false),
        ("docs/a.js.gz", "", false),
        ("docs/own.js", coded, false),
        ("docs/a.svgz", "", false),
        ("a.css", "", false),
        ("doc/a.css", "", false),
    ] {
        server.store_as(key, lines, "plain");
        store_sibling(&server, key, "br", "as br");
        let got = server.request("GET", &format!("/{key}"), "Accept-Encoding: br\r\n", b"");
        assert_eq!(got.text() == "as br", may, "{key}");
        assert_eq!(got.header("vary").is_some(), may, "{key}");
        let found = got.must("content-type");
        assert_ne!(found, "application/octet-stream", "{key}");
    }
    // By its own name a sibling is a value like others; so is it to a folder that is opened.
    let own = server.request("GET", "/docs/a.css.br", "Accept-Encoding: br\r\n", b"");
    let seen = (own.text(), own.header("content-encoding"));
    assert_eq!(seen, ("as br".to_owned(), None));
    let index = server.request("GET", "/docs/", "Accept-Encoding: br\r\n", b"");
    let expected = ("as br".to_owned(), "br");
    assert_eq!((index.text(), index.must("content-encoding")), expected);
    assert_eq!(index.all("vary"), "accept, accept-encoding");
}

/// The fields that are kept with the value are sent with its sibling, and those of the sibling are not.
#[test]
fn the_fields_are_those_of_the_value() {
    let server = serve(&["prefix = \"docs/\", scripts = true"]);
    let lines = "Content-Type: text/html\r\nCache-Control: max-age=60\r\nContent-Language: de\r\n";
    server.store_as("docs/a", lines, "plain");
    let lines = "Content-Type: image/png\r\nCache-Control: no-store\r\nContent-Encoding: gzip\r\n";
    store_sibling_as(&server, "docs/a", "br", lines, b"as br");
    let got = server.request("GET", "/docs/a", "Accept-Encoding: br\r\n", b"");
    for (name, value) in [
        ("content-type", "text/html"),
        ("cache-control", "max-age=60"),
        ("content-language", "de"),
        ("content-encoding", "br"),
    ] {
        assert_eq!(got.must(name), value);
    }
    let found = (got.text(), got.header("content-security-policy"));
    assert_eq!(found, ("as br".to_owned(), None));
}

#[test]
fn with_compress_a_sibling_goes_before_what_the_server_would_compress() {
    directory_only!("compression");
    let args = ["--compress", "--site", DOCS];
    let server = TestServer::start(&args);
    let text = "a text that is worth it\n".repeat(100);
    server.store("docs/a.js", &text);
    let gzip = |server: &TestServer| get(server, "gzip, br;q=0.5", "");
    assert!(gzip(&server).must("etag").ends_with("-gzip\""));
    server.store("docs/a.js.br", "x".repeat(2000));
    let got = get(&server, "br, gzip", "");
    assert_eq!((got.must("content-encoding"), got.body.len()), ("br", 2000));
    assert!(got.must("etag").ends_with("-br\""));
}
