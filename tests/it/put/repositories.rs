//! Proves `kind = "restic"`: the answers of restic's REST protocol, to the status; that a POST replaces nothing and
//! leaves nothing where it is refused; that lists have all files; and that a repository which was made otherwise is
//! taken over.

use sha2::{Digest as _, Sha256};

use crate::support::prelude::*;
use crate::support::s3::hex;

const CONTENT: [&str; 2] = ["--content", r#"prefix = "r/", kind = "restic""#];
const LIST: &str = "Accept: application/vnd.x.restic.rest.v2\r\n";

fn name_of(value: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(value))
}

/// The files of a kind, by name, with their sizes.
#[track_caller]
fn list(server: &TestServer, folder: &str) -> Vec<(String, u64)> {
    let got = server.request("GET", folder, LIST, b"");
    let media_type = got.header("content-type");
    let expected = ("application/vnd.x.restic.rest.v2", 200);
    assert_eq!((media_type.unwrap_or_default(), got.status), expected);
    let json: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    let files = json.as_array().expect("a list").iter().map(|file| {
        let name = file["name"].as_str().expect("a name").to_owned();
        (name, file["size"].as_u64().expect("a size"))
    });
    files.collect()
}

/// Requests with the body `w`, whose digest is W and begins with AB, their statuses, and what is there afterwards, as
/// it is before the next one. X is another digest.
const ANSWERS: &str = "
HEAD /r/a/config ; 404
POST /r/a/?create=true ; 200
POST /r/?create=true ; 200
POST /r/a/config ; 200 ; r/a/config
POST /r/a/config ; 403 ; r/a/config
POST /r/a/config ; 412 ; r/a/config ; If-None-Match: *
POST /r/a/config ; 412 ; r/a/config ; If-Match: *
HEAD /r/a/config ; 200 ; r/a/config
DELETE /r/a/config ; 200
DELETE /r/a/config ; 404
POST /r/a/config ; 412 ; ; If-Match: *
POST /r/a/data/W ; 200 ; r/a/data/AB/W
POST /r/a/data/W ; 403 ; r/a/data/AB/W
GET /r/a/data/W ; 200 ; r/a/data/AB/W
GET /r/a/data%2FW ; 200 ; r/a/data/AB/W
HEAD /r/a/data/W ; 200 ; r/a/data/AB/W
GET /r/a/data/W ; 206 ; r/a/data/AB/W ; Range: bytes=0-
GET /r/a/data/W ; 416 ; r/a/data/AB/W ; Range: bytes=1-
GET /r/a/data/AB/W ; 200 ; r/a/data/AB/W
DELETE /r/a/data/W ; 412 ; r/a/data/AB/W ; If-Match: \"x\"
DELETE /r/a/data/W ; 200
DELETE /r/a/data/W ; 404
GET /r/a/data/W ; 404
POST /r/a/data/AB/W ; 200 ; r/a/data/AB/W
DELETE /r/a/data/AB/W ; 200
POST /r/data/W ; 200 ; r/data/AB/W
DELETE /r/data/W ; 200
POST /r/data/config ; 200 ; r/data/config
DELETE /r/data/config ; 200
POST /r/a/keys/X ; 400
POST /r/a/data/X ; 400
POST /r/a/data/x/W ; 405
POST /r/a/data/xx/W ; 400
POST /r/a/keys/name ; 400
POST /r/a/locks/W ; 400 ; ; Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:
POST /r/a/locks/W ; 400 ; ; Content-Range: bytes 0-0/2
PUT /r/a/data/W ; 400
PUT /r/a/data/AB/X ; 400
PUT /r/a/data/AB/W ; 200 ; r/a/data/AB/W
MOVE /r/a/data/AB/W ; 400 ; r/a/data/AB/W ; Destination: /r/a/data/W
MOVE /r/a/data/ ; 409 ; r/a/data/AB/W ; Destination: /r/a/keys/
MOVE /r/a/ ; 409 ; r/a/data/AB/W ; Destination: /x/
MOVE /r/a/ ; 201 ; r/b/data/AB/W ; Destination: /r/b/
MOVE /r/b/ ; 201 ; r/a/data/AB/W ; Destination: /r/a/
DELETE /r/a/data/W ; 200
PUT /r/a/notes ; 200 ; r/a/notes
POST /r/a/notes ; 405 ; r/a/notes
DELETE /r/a/notes ; 200
POST /r/a/ ; 405
POST /r/a/?create=false ; 405
POST / ; 405
POST /config ; 405
POST /x/data/W ; 405
POST /x/?create=true ; 405
PUT /x/data/W ; 200 ; x/data/W
DELETE /x/data/W ; 200
";

#[test]
fn the_answers_are_those_that_restic_asks_for() {
    let server = TestServer::start(&CONTENT);
    let (of_value, other) = (name_of("w"), name_of("x"));
    let names = |text: &str| {
        let text = text.replace("AB", &of_value[..2]).replace('W', &of_value);
        text.replace("/X", &format!("/{other}"))
    };
    for [request, status, holds, lines] in table(ANSWERS) {
        if is_s3() && (request.starts_with("MOVE") || lines.starts_with("If-Match")) {
            continue;
        }
        let [method, target] = words(request)[..] else {
            panic!("{request}")
        };
        let lines = match lines {
            "" => String::new(),
            lines => names(lines) + "\r\n",
        };
        let has_body = matches!(method, "POST" | "PUT");
        let body: &[u8] = if has_body { b"w" } else { b"" };
        let got = server.request(method, &names(target), &lines, body);
        assert_eq!(got.status.to_string(), status, "{request} {lines}");
        let holds = names(holds);
        server.dir.assert_holds(&words(&holds));
    }
}

#[test]
fn a_file_that_breaks_off_or_comes_twice_at_once_is_stored_whole_or_not() {
    let server = TestServer::start(&CONTENT);
    let value = pattern(1, 300_000);
    let (target, key) = (
        format!("/r/data/{}", name_of(&value)),
        format!("r/data/{}/{}", &name_of(&value)[..2], name_of(&value)),
    );
    let lines = format!("Content-Length: {}\r\n", value.len());
    let begin = || {
        let mut raw = server.begin("POST", &target, &lines);
        raw.send(&value[..200_000]);
        raw
    };
    let (first, mut second, mut third) = (begin(), begin(), begin());
    eventually("they are received", || server.receiving() == 3);
    drop(first);
    eventually("one has broken off", || server.receiving() == 2);
    server.dir.assert_holds(&[]);
    let mut answers = [&mut second, &mut third].map(|raw| {
        raw.send(&value[200_000..]);
        raw.answer().status
    });
    answers.sort_unstable();
    assert_eq!(answers, [200, 403]);
    assert!(server.dir.read(&key) == value);
    server.dir.assert_holds(&[&key]);
}

/// More than a piece of a list, and than a page of a listing, in folders that an index has and that none has.
#[test]
fn a_repository_that_was_made_otherwise_is_read_and_listed_whole() {
    let dir = DataDir::in_memory();
    let mut files: Vec<_> = (0..2_300)
        .map(|n| (name_of(n.to_string()), n.to_string()))
        .collect();
    for (name, value) in &files {
        dir.place(&format!("r/old/data/{}/{name}", &name[..2]), value);
        dir.place(&format!("r/old/index/{name}"), value);
    }
    // None of these is a file of the repository, in data or in index.
    let (name, _) = &files[0];
    for other in [
        "README",
        &name[1..],
        &format!("00/{name}-tmp"),
        &format!("zz/{name}"),
        &format!("abc/{name}"),
        &format!("x/index/{name}"),
    ] {
        dir.place(&format!("r/old/data/{other}"), "");
        dir.place(&format!("r/old/index/x/{other}"), "");
    }
    dir.place(&format!("r/old/data/{name}"), "at no place of its own");
    let server = Launch::new(&CONTENT).on(&dir).start();
    let got = server.get(&format!("r/old/data/{name}"));
    assert_eq!((got.status, &*got.body), (200, &b"0"[..]));
    files.sort();
    let expected: Vec<_> = files
        .into_iter()
        .map(|(name, value)| (name, value.len() as u64))
        .collect();
    for kind in ["data", "index"] {
        let found = list(&server, &format!("/r/old/{kind}/"));
        assert!(found == expected, "{kind}: {} files", found.len());
    }
    assert_eq!(list(&server, "/r/old/snapshots/"), []);
    assert_eq!(list(&server, "/r/none/keys/"), []);
    // Others get the listings that they always got.
    let plain = server.request(
        "GET",
        "/r/old/data/?limit=1",
        "Accept: application/json\r\n",
        b"",
    );
    assert_eq!(plain.header("content-type"), Some("application/json"));
    let elsewhere = server.request("GET", "/r/old/", LIST, b"");
    assert_ne!(
        elsewhere.header("content-type"),
        Some("application/vnd.x.restic.rest.v2")
    );
}

#[test]
fn repositories_lie_in_a_folder() {
    for (table, why) in [
        (
            r#"prefix = "r", kind = "restic""#,
            "whose name ends with '/'",
        ),
        (
            r#"prefix = "r/", name = "sha256", kind = "restic""#,
            "one of them",
        ),
    ] {
        Launch::new(&["--content", table]).run().says(2, why);
    }
    let modes = [&["--read-only"][..], &["--compat"], &["--discard"]];
    for args in &modes[..if is_s3() { 1 } else { 3 }] {
        let server = Launch::new(&[&CONTENT[..], *args].concat()).start();
        let refused = if *args == ["--read-only"] { 403 } else { 405 };
        let refused = if *args == ["--compat"] { 404 } else { refused };
        for target in ["/r/config", "/r/?create=true"] {
            let got = server.request("POST", target, "", b"w");
            assert_eq!(got.status, refused, "{args:?} {target}");
        }
        assert_eq!(server.dir.names().len(), 0, "{args:?}");
    }
}
