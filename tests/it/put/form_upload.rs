//! Proves POST of forms with files at `/-/upload`: what a browser sends without scripts is stored, as a PUT stores it,
//! and what is not understood, not allowed or cut off is not.

use crate::support::form::{BOUNDARY, FOLDER, FORM, REPLACE, file, form};
use crate::support::prelude::*;

const MIB: usize = 1 << 20;
const HTML: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

/// The head of a request that posts a form of this length.
fn head(lines: &str, length: usize) -> String {
    format!("POST /-/upload HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n{lines}{FORM}\r\n")
}

fn post(raw: &mut Raw, lines: &str, body: &[u8]) -> Response {
    ask(raw, "POST", "/-/upload", &format!("{lines}{FORM}"), body)
}

#[test]
fn files_are_stored_in_the_folder_of_the_form() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let large = pattern(1, 3 * MIB + 1);
    let body = form(&[
        (FOLDER, b"a b/c/"),
        (&file("small.txt"), b"small"),
        (&file("large"), &large),
        (&file("none"), b""),
    ]);
    let got = post(&mut raw, "", &body);
    let seen = (got.status, got.must("content-type"));
    assert_eq!(seen, (200, "application/json"));
    let keys = ["a b/c/small.txt", "a b/c/large", "a b/c/none"];
    let expected = keys.map(|key| {
        let path = key.replace(' ', "%20");
        serde_json::json!({"key": key, "etag": server.get(&path).must("etag")})
    });
    assert_eq!(got.json(), serde_json::Value::from(expected.to_vec()));
    server.dir.assert_holds(&keys);
    assert!(server.dir.read(keys[1]) == large);
    assert_eq!(server.dir.read(keys[0]), b"small");

    // The connection goes on, and a person is led to the page of the folder.
    for (folder, location) in [("a b/d", "../a%20b/d/"), ("", "../"), ("x:y/", "../x%3Ay/")] {
        let body = form(&[(FOLDER, folder.as_bytes()), (&file("x"), b"1")]);
        let got = post(&mut raw, HTML, &body);
        let seen = (got.status, got.must("location"));
        assert_eq!(seen, (303, location), "{folder}");
    }
}

/// A browser without scripts sends the form of the page as it stands there.
#[test]
fn the_form_of_the_page_works() {
    let server = TestServer::start(&[]);
    for (path, key) in [
        ("/", "new.txt"),
        ("/f/", "f/new.txt"),
        ("/f/%22%26%3C/", "f/\"&</new.txt"),
    ] {
        let mut raw = server.connect();
        let page = HtmlPage::parse(&ask(&mut raw, "GET", path, HTML, b"").body);
        let form_element = page.within("send").next().expect("a form");
        let action = form_element.attribute("action").expect("an action");
        let depth = path.matches('/').count() - 1;
        assert_eq!(action, format!("{}-/upload", "../".repeat(depth)));
        let attributes = ["method", "enctype"].map(|name| form_element.attribute(name));
        assert_eq!(attributes, [Some("post"), Some("multipart/form-data")]);
        let fields = page.within("send").filter(|it| it.name == "input");
        let parts: Vec<(String, Vec<u8>)> = fields
            .filter_map(|field| {
                let name = field.attribute("name")?;
                match field.attribute("type")? {
                    "hidden" => {
                        Some((format!("name=\"{name}\""), field.attribute("value")?.into()))
                    }
                    "file" => Some((
                        format!("name=\"{name}\"; filename=\"new.txt\""),
                        b"new".to_vec(),
                    )),
                    _ => None, // a box that is not checked
                }
            })
            .collect();
        let parts = parts.iter().map(|(head, data)| (&**head, &**data));
        let parts: Vec<_> = parts.collect();
        let got = post(&mut raw, HTML, &form(&parts));
        let found = (got.status, server.dir.read(key));
        assert_eq!(found, (303, b"new".to_vec()), "{path}");
        let location = got.must("location").strip_prefix("..").expect("relative");
        let page = HtmlPage::parse(&ask(&mut raw, "GET", location, HTML, b"").body);
        assert!(page.rows().iter().any(|row| row.text == "new.txt"));
    }
}

#[test]
fn nothing_is_replaced_unless_the_form_or_a_precondition_says_so() {
    let server = TestServer::start(&[]);
    server.store("f/b", "old");
    let [a, b, c] = ["a,1", "b", "c"].map(file);
    let parts: [(&str, &[u8]); 4] = [(FOLDER, b"f"), (&a, b"new"), (&b, b"new"), (&c, b"new")];
    let got = server.post("", &parts);
    let why = "f/b: the precondition does not hold; stored before: f/a%2C1";
    assert_eq!((got.status, got.text().trim_end()), (412, why));
    server.dir.assert_holds(&["f/a,1", "f/b"]);
    assert_eq!(server.dir.read("f/b"), b"old");
    let got = server.post("Accept: application/problem+json\r\n", &parts);
    let problem = got.json();
    let kind = "urn:data-server:problem:precondition-failed";
    assert_eq!(problem["type"], kind);
    let detail = "f/a%2C1: the precondition does not hold; nothing was stored before";
    assert_eq!(problem["detail"], detail);
    assert!(problem.get("stored").is_none());

    let replacing = |text: &'static [u8]| [&parts[..1], &[(REPLACE, text)], &parts[1..]].concat();
    for no in [&b""[..], b"off", b"0"] {
        assert_eq!(server.post("", &replacing(no)).status, 412);
    }
    for yes in [&b"on"[..], b"1", b"true"] {
        assert_eq!(server.post("", &replacing(yes)).status, 200);
    }
    assert_eq!(server.dir.read("f/b"), b"new");

    // Preconditions of the head are of each file, and take the place of the rule.
    let etag = server.get("f/b").must("etag").to_owned();
    let one: [(&str, &[u8]); 2] = [(FOLDER, b"f"), (&file("b"), b"newer")];
    let status = |lines: &str, parts: &[_]| server.post(lines, parts).status;
    assert_eq!(status("If-Match: \"other\"\r\n", &one), 412);
    assert_eq!(status("If-None-Match: *\r\n", &replacing(b"on")), 412);
    assert_eq!(server.dir.read("f/b"), b"new");
    assert_eq!(status(&format!("If-Match: {etag}\r\n"), &one), 200);
    assert_eq!(server.dir.read("f/b"), b"newer");
    // It says nothing of writes.
    let since = "If-Modified-Since: Sat, 21 Nov 2020 00:00:00 GMT\r\n";
    assert_eq!(status(since, &one), 412);
}

#[test]
fn names_become_keys_by_the_rules_of_keys() {
    let server = TestServer::start(&[]);
    for (folder, name, key) in [
        ("", "caf\u{e9} \u{1f980}.txt", "caf\u{e9} \u{1f980}.txt"),
        ("", "say %22hi%22.txt", "say \"hi\".txt"),
        ("", "100%25", "100%25"),
        ("d", "sub/deep.txt", "d/sub/deep.txt"),
        ("d/", "-", "d/-"),
    ] {
        let parts: [(&str, &[u8]); 2] = [(FOLDER, folder.as_bytes()), (&file(name), b"x")];
        server.post("", &parts).says(200, "");
        assert_eq!(server.dir.read(key), b"x");
    }
    server.dir.clear();
    let long = "x".repeat(256);
    let deep = format!("{}/", "x".repeat(250)).repeat(4);
    let too_long = "bad form: the field folder is too long";
    for (folder, name, status, problem) in [
        ("", "..", 400, "bad key: "),
        ("..", "x", 400, "bad key: "),
        ("/a", "x", 400, "bad key: "),
        ("a//", "x", 400, "bad key: "),
        ("a", "b//c", 400, "bad key: "),
        ("a", "/b", 400, "bad key: "),
        ("-", "x", 400, "bad key: "),
        (".data-server", "x", 400, "bad key: "),
        ("", &long, 414, "bad key: "),
        (&deep, "123456789012345678901", 414, "bad key: "),
        (&deep.repeat(2), "x", 400, too_long),
    ] {
        let parts: [(&str, &[u8]); 2] = [(FOLDER, folder.as_bytes()), (&file(name), b"x")];
        server.post("", &parts).says(status, problem);
    }
    server.store("a", "a value");
    server
        .post("", &[(FOLDER, b"a"), (&file("x"), b"x")])
        .says(409, "");
    server.dir.assert_holds(&["a"]);
}

#[test]
fn what_is_not_understood_is_refused_with_the_reason() {
    let server = TestServer::start(&[]);
    let refused = |parts: &[(&str, &[u8])], why: &str| {
        server.post("", parts).says(400, why);
        server.dir.assert_holds(&[]);
    };
    let x = file("x");
    let x = &*x;
    refused(&[], "there is no file in the form");
    // Of each kind one: src/http/forms has the others.
    refused(&[(&file(""), b"")], "no file was chosen");
    refused(&[(FOLDER, b"\xff"), (x, b"x")], "not UTF-8");
    refused(&[(REPLACE, b"maybe"), (x, b"x")], "replace is not one of");
    for (field, value, name) in [(FOLDER, &b"a"[..], "folder"), (REPLACE, b"on", "replace")] {
        let got = server.post("", &[(x, b"x"), (field, value)]);
        let why = format!("{name} comes after a file; it belongs before the first");
        got.says(400, &why);
        got.says(400, "; stored before: x");
        server.dir.assert_holds(&["x"]);
        server.dir.clear();
    }
    let raw_form = |body: &[u8]| post(&mut server.connect(), "", body);
    let whole = form(&[(x, b"x")]);
    let end = whole.len() - format!("--{BOUNDARY}--\r\n").len();
    for malformed in [
        &b""[..],
        b"no form",
        &whole[..end],
        &whole[..end + 10],
        format!("--{BOUNDARY}\r\nno head\r\n\r\nx\r\n--{BOUNDARY}--").as_bytes(),
    ] {
        raw_form(malformed).says(400, "bad form: a part is malformed");
    }
    // The delimiter ends the file, whatever follows it.
    let begun = [&whole[..end], format!("--{BOUNDARY}x").as_bytes()].concat();
    raw_form(&begun).says(400, "; stored before: x");
    server.dir.assert_holds(&["x"]);
    server.dir.clear();
    // A head without end is not kept.
    let begins = format!("--{BOUNDARY}\r\nX: ");
    let endless = [begins.as_bytes(), &vec![b'x'; 4 * MIB]].concat();
    let mut raw = server.connect();
    raw.send(head("", endless.len()));
    // The server may close before it has read all of this.
    let _ = raw.offer(&endless);
    let got = raw.answer();
    got.says(400, "head of a part is too long");
    assert!(got.closes());
    server.dir.assert_holds(&[]);
}

#[test]
fn other_media_types_are_no_forms() {
    let server = TestServer::start(&[]);
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    for media_type in [
        "",
        "application/x-www-form-urlencoded",
        "multipart/mixed; boundary=x",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        &long,
    ] {
        let lines =
            format!("Content-Type: {media_type}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n");
        let request = format!("POST /-/upload HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
        let got = server.connect().ask(request);
        let seen = (got.status, got.closes());
        assert_eq!(seen, (415, true), "no 100 before it: {media_type}");
    }
}

#[test]
fn read_only_refuses_discard_drops_and_the_admin_listener_has_no_forms() {
    let parts: [(&str, &[u8]); 2] = [(FOLDER, b"f"), (&file("x"), b"value")];
    let read_only = TestServer::start(&["--read-only"]);
    read_only
        .post("", &parts)
        .says(403, "this server is read-only");
    let server = TestServer::start(&["--discard"]);
    server.post("", &parts).says(200, "[{\"key\":\"f/x\"}]");
    assert_eq!(server.post(HTML, &parts).must("location"), "../f/");
    server.dir.assert_holds(&[]);
    let parted = TestServer::start(&["--admin", "127.0.0.1:0"]);
    let mut admin = Raw::connect(parted.admin());
    assert_eq!(post(&mut admin, "", &form(&parts)).status, 404);
}

/// However the bytes come: in chunks of any size, with a delimiter divided anywhere, and data that look like one.
#[test]
fn parts_are_found_however_the_bytes_come() {
    let server = TestServer::start(&[]);
    let part = &BOUNDARY[..20];
    let almost = format!("\r\n--{part}\r\n\r\n--\r\r\n-{BOUNDARY}\r\n--{BOUNDARY}");
    let almost = almost.replace(&format!("\r\n--{BOUNDARY}"), "\n--") + "\r";
    let values = [
        almost.into_bytes(),
        b"\r\n".to_vec(),
        vec![],
        pattern(3, 200),
    ];
    let names = ["a", "b", "c", "d"].map(file);
    let parts = names.iter().zip(&values);
    let parts: Vec<_> = parts.map(|(name, value)| (&**name, &**value)).collect();
    let parts = [&[(FOLDER, &b"f"[..]), (REPLACE, b"on")], &parts[..]].concat();
    let body = [b"a preamble\r\n", &*form(&parts), b"an epilogue"].concat();
    let mut raw = server.connect();
    let head = format!(
        "POST /-/upload HTTP/1.1\r\nHost: t\r\nContent-Type: multipart/form-data; boundary=\"{BOUNDARY}\"\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    for size in (1..80).chain([127, 500, body.len()]) {
        raw.send([head.as_bytes(), &chunked(body.chunks(size)), b"0\r\n\r\n"].concat());
        raw.answer().says(200, "");
        for (name, value) in ["f/a", "f/b", "f/c", "f/d"].into_iter().zip(&values) {
            let is_right = server.dir.read(name) == *value;
            assert!(is_right, "{name} in chunks of {size}");
        }
        server.dir.clear();
    }
}

#[test]
fn an_upload_cut_off_leaves_nothing_of_its_file_and_those_before() {
    let server = TestServer::start(&[]);
    let at_rest = server.in_flight();
    let large = pattern(4, MIB);
    let body = form(&[
        (&file("first"), b"1"),
        (&file("second"), &large),
        (&file("third"), b"3"),
    ]);
    let first_ends = 300;
    for at in [first_ends, body.len() / 2, body.len() - 400] {
        let mut raw = server.connect();
        raw.send(head("", body.len()));
        raw.send(&body[..at]);
        let comes = || server.get("first").status == 200;
        eventually("the first file is stored", comes);
        if at > first_ends {
            eventually("the second reaches the disk", || server.receiving() > 0);
        }
        raw.reset();
        eventually("the upload is forgotten", || server.in_flight() == at_rest);
        server.dir.assert_holds(&["first"]);
        server.dir.clear();
    }
    if is_http2() {
        return; // a request that its client takes back has no answer
    }
    // Half closed, the client is still told.
    let mut raw = server.connect();
    raw.send(head("", body.len()));
    raw.send(&body[..first_ends]);
    raw.finish();
    let got = raw.answer();
    let why = "second: the request's body was cut off or malformed; stored before: first";
    assert_eq!((got.status, got.text().trim_end()), (400, why));
}

#[test]
fn limits_are_of_each_value() {
    let server = TestServer::start(&["--max-body", "1000"]);
    let (fits, long) = (vec![b'x'; 1000], vec![b'x'; 1001]);
    let got = server.post("", &[(&file("a"), &fits), (&file("b"), &fits)]);
    assert_eq!(got.status, 200, "more than the limit together");
    let [c, d, e] = ["c", "d", "e"].map(file);
    let got = server.post("", &[(&c, &fits), (&d, &long), (&e, b"")]);
    got.says(413, "(1000 bytes); stored before: c");
    server.dir.assert_holds(&["a", "b", "c"]);

    let server = TestServer::start(&["--max-key-depth", "3"]);
    let parts: &[(&str, &[u8])] = &[(FOLDER, b"a/b"), (&file("k"), b"v"), (&file("c/k"), b"v")];
    server.post("", parts).says(400, "(3, --max-key-depth)");
    server.dir.assert_holds(&["a/b/k"]);

    let (quota, all) = by_engine(("1MiB", MIB), ("64KiB", 64 << 10));
    let server = TestServer::start(&["--max-staged", quota, "--max-staged-per-client", "0"]);
    let mut other = server.connect();
    other.send(put_head("other", all));
    other.send("the beginning");
    let comes = || Scrape::of(server.addr).sum("data_server_uploads_in_flight", &[]) > 0.5;
    eventually("the other upload has the quota", comes);
    server
        .post("", &[(&file("a"), b""), (&file("b"), &fits)])
        .says(503, "stored before: a");
    server.dir.assert_holds(&["a"]);
}

/// And the type that a browser says is kept, unless it says that it knows none: then the name tells, as for a PUT
/// without one.
#[test]
fn a_client_that_waits_is_told_to_go_on_and_the_media_type_of_a_part_is_kept() {
    let server = TestServer::start(&[]);
    let body = form(&[(&file("x"), b"value")]);
    let mut raw = server.connect();
    raw.send(head("Expect: 100-continue\r\n", body.len()));
    assert_eq!(raw.head().status, 100);
    assert_eq!(raw.ask(&body).status, 200);
    let old = raw.ask("POST /-/upload HTTP/1.0\r\nHost: t\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n");
    assert_eq!(old.status, 411);
    server.dir.assert_holds(&["x"]);
    for (name, sent, kept) in [
        ("a.txt", "image/png", "image/png"),
        ("b.png", "application/octet-stream", "image/png"),
        ("c.png", "no type", "image/png"),
    ] {
        let head = format!("{}\r\nContent-Type: {sent}", file(name));
        assert_eq!(server.post("", &[(&head, b"x")]).status, 200);
        assert_eq!(server.get(name).must("content-type"), kept, "{name}");
    }
}

/// One frame at a time, whatever the rate of the client, and however slow the disk.
#[test]
fn memory_does_not_grow_with_the_form() {
    let server = Launch::new(&["--threads", "1"]).on(&DataDir::in_memory());
    let server = server.start();
    let warm = form(&[(&file("warm"), &pattern(8, MIB))]);
    assert_eq!(post(&mut server.connect(), "", &warm).status, 200);
    let before = server.proc().peak_rss_kib();
    let body = form(&[(&file("x"), &pattern(9, 64 * MIB))]);
    assert_eq!(post(&mut server.connect(), "", &body).status, 200);
    let grown = server.proc().peak_rss_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB");
}

#[test]
fn a_form_that_a_bound_has_no_room_for_evicts_none_of_its_own_files() {
    directory_only!("bounds");
    let server = TestServer::start(&["--max-size", "16KiB"]);
    server.store("old", [1; 4096]);
    pass(Duration::from_millis(20)); // a tick of the clock of uses
    let names: Vec<_> = (0..6).map(|n| file(&n.to_string())).collect();
    let parts: Vec<_> = names.iter().map(|name| (&**name, &[7; 4096][..])).collect();
    let refused = server.post("", &parts);
    refused.says(
        507,
        "the bound of all values is full (max-size 16.0 KiB): all of this",
    );
    server.dir.assert_holds(&["0", "1", "2", "3"]);
}
