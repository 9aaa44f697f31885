//! PROPFIND: what is said of values and folders, of how many, and what bodies are taken.

use super::{lock, send, start};
use crate::support::policy::{bearer, one_who_may, rule, subject};
use crate::support::prelude::*;

fn find(server: &TestServer, target: &str, depth: &str, xml: &str) -> Response {
    send(
        server,
        "PROPFIND",
        target,
        &format!("Depth: {depth}\r\n"),
        xml,
    )
}

/// A body that asks for these properties of the RFC.
fn prop(names: &str) -> String {
    let names = format!("<D:{}/>", names.replace(' ', "/><D:"));
    format!(
        "<?xml version=\"1.0\"?>\n<D:propfind xmlns:D=\"DAV:\"><D:prop>{names}</D:prop></D:propfind>"
    )
}

#[test]
fn values_and_folders_have_their_properties() {
    directory_only!("folders");
    let server = start(&[]);
    server.dir.place("f/a & <b>.txt", "12345");
    assert_eq!(server.ask("MKCOL", "f/empty").status, 201);
    let got = find(&server, "/f", "1", "");
    assert_eq!(
        (got.status, got.must("content-type")),
        (207, "application/xml; charset=utf-8")
    );
    let text = got.text();
    let tag = server
        .get("f/a%20%26%20%3Cb%3E.txt")
        .must("etag")
        .replace('"', "&quot;");
    for part in [
        "<D:href>/f/</D:href>",
        "<D:href>/f/empty/</D:href>",
        "<D:href>/f/a%20%26%20%3Cb%3E.txt</D:href>",
        "<D:displayname>a &amp; &lt;b&gt;.txt</D:displayname>",
        "<D:getcontentlength>5</D:getcontentlength>",
        "<D:getcontenttype>text/plain</D:getcontenttype>",
        "<D:resourcetype><D:collection/></D:resourcetype>",
        "<D:exclusive/>",
        &format!("<D:getetag>{tag}</D:getetag>"),
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(text.matches("<D:response>").count(), 3);
    let one = find(
        &server,
        "/f/a%20%26%20%3Cb%3E.txt",
        "0",
        &prop("getcontentlength nothing"),
    )
    .text();
    assert!(
        one.contains("<D:getcontentlength>5<")
            && one.contains("<D:nothing/></D:prop><D:status>HTTP/1.1 404"),
        "{one}"
    );
    let own = find(&server, "/f/", "0", &prop("quota-available-bytes getetag")).text();
    assert!(
        own.contains("<D:quota-available-bytes>")
            && own.contains("<D:getetag/></D:prop><D:status>HTTP/1.1 404"),
        "{own}"
    );
    let shown = lock(&server, "/f/", "");
    let token = shown.split(['<', '>']).nth(1).expect("a token");
    assert!(
        find(&server, "/f/empty", "0", "").text().contains(token),
        "a lock of the folder above"
    );
    assert_eq!(find(&server, "/none", "0", "").status, 404);
    assert_eq!(
        find(&server, "/", "1", "")
            .text()
            .matches("<D:response>")
            .count(),
        2
    );
}

#[test]
fn of_any_depth_and_in_any_xml_is_refused() {
    directory_only!("folders");
    let server = start(&[]);
    for depth in ["infinity", "Infinity"] {
        let got = find(&server, "/", depth, "");
        assert_eq!(got.status, 403);
        assert!(got.text().contains("<D:propfind-finite-depth/>"));
    }
    assert_eq!(send(&server, "PROPFIND", "/", "", "").status, 403);
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbbbb\"><!ENTITY c \"&b;&b;&b;&b;\">]><a>&c;</a>";
    let deep = "<a>".repeat(2_000) + &"</a>".repeat(2_000);
    let outside = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>";
    for xml in [bomb, &deep, outside, "<a", "x"] {
        assert_eq!(find(&server, "/", "0", xml).status, 400, "{xml:.60}");
    }
    let long = format!("<a>{}</a>", " ".repeat(70_000));
    assert_eq!(find(&server, "/", "0", &long).status, 413);
    for (field, status) in [("(<a>", 400), ("(<a>)", 412), ("(Not <a>)", 201)] {
        let got = send(
            &server,
            "PUT",
            &format!("/{status}"),
            &format!("If: {field}\r\n"),
            "x",
        );
        assert_eq!(got.status, status, "{field}");
    }
}

/// webdav4 asks for a file without Depth, which is "infinity".
#[test]
fn a_value_has_its_properties_at_any_depth() {
    directory_only!("folders");
    let server = start(&[]);
    server.dir.place("a", "12345");
    for depth in ["", "Depth: infinity\r\n", "Depth: 1\r\n"] {
        let got = send(&server, "PROPFIND", "/a", depth, "");
        assert_eq!(got.status, 207, "{depth}");
        assert!(got.text().contains("<D:getcontentlength>5<"), "{depth}");
    }
}

/// `OpenDAL`, which sccache is made with, takes no folder without a date.
#[test]
fn a_folder_has_the_date_of_its_last_change() {
    directory_only!("folders");
    let dir = DataDir::temporary();
    for name in ["in/f/a", "in/g/a", "out/a"] {
        dir.place(name, "");
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let folder = File::open(dir.file("in/g")).expect("a folder");
    folder.set_modified(time).expect("a time set by hand");
    let text = one_who_may("ann", &["list"]) + &subject("bob") + &rule("bob", "in/f/", &["list"]);
    let access = dir.write_private("access.toml", &text);
    let launch = Launch::new(&["--access", &access]);
    let server = launch.listen("dav+http://127.0.0.1:0").on(&dir).start();
    let dates = |who: &str, target: &str| {
        let lines = format!("Depth: 1\r\n{}", bearer(who));
        let text = send(&server, "PROPFIND", target, &lines, "").text();
        let dates = text.split("<D:getlastmodified>").skip(1);
        let dates = dates.map(|it| it.split('<').next().unwrap_or_default().to_owned());
        dates.collect::<Vec<_>>()
    };
    let date = |name: &str| httpdate::fmt_http_date(dir.modified(name));
    let of_g = "Sun, 09 Sep 2001 01:46:40 GMT".to_owned();
    assert_eq!(dates("ann", "/in/"), [date("in"), date("in/f"), of_g]);
    let hidden = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
    assert_eq!(dates("bob", "/in/"), [hidden, date("in/f")]);
}

#[test]
fn a_long_folder_is_told_whole() {
    directory_only!("folders");
    let dir = DataDir::in_memory();
    for n in 0..2_500 {
        dir.place(&format!("f/{n}"), "");
    }
    let server = Launch::new(&[])
        .listen("dav+http://127.0.0.1:0")
        .on(&dir)
        .start();
    let text = find(&server, "/f/", "1", &prop("resourcetype")).text();
    for n in 0..2_500 {
        assert!(text.contains(&format!("<D:href>/f/{n}</D:href>")), "{n}");
    }
    assert_eq!(text.matches("<D:response>").count(), 2_501);
    assert!(text.ends_with("</D:multistatus>\n"));
}
