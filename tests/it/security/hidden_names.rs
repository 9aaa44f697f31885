//! Proves that a name which `--hide` hides is neither read nor stored, listed, packed, counted or removed, whatever
//! asks for it, and that a hidden file stays as it is.

use crate::archives::tar;
use crate::support::form::{FOLDER, FORM, REPLACE, file, form};
use crate::support::prelude::*;

const HIDE: [&str; 4] = ["--hide", ".*", "--hide", "*~"];

/// What is hidden, and what is not.
const HIDDEN: &str = ".env .git/config a/.ssh/id a/k~ a/b~/c .a/.b/.c";
const SHOWN: &str = "a/k a/k~2 v.env";

fn place(server: &TestServer) {
    for key in words(HIDDEN).into_iter().chain(words(SHOWN)) {
        server.dir.place(key, format!("of {key}"));
    }
}

/// Asserts that each file is as it was placed.
#[track_caller]
fn assert_untouched(server: &TestServer) {
    for key in words(HIDDEN) {
        assert_eq!(server.dir.read(key), format!("of {key}").as_bytes());
    }
}

#[test]
fn a_hidden_name_is_neither_read_nor_stored() {
    let server = needed!(TestServer::of_directory("hands in the directory", &HIDE));
    place(&server);
    let absent = ".none a/.none/x .n new~";
    for key in words(HIDDEN).into_iter().chain(words(absent)) {
        for method in ["GET", "HEAD", "PUT", "DELETE", "MKCOL"] {
            let encoded = key.replace('.', "%2E");
            for path in [key, &encoded] {
                let got = server.request(method, &format!("/{path}"), "Content-Length: 0\r\n", b"");
                assert_eq!(got.status, 404, "{method} {path}");
                let says = method == "HEAD" || got.text().contains("is hidden here");
                assert!(says, "{method} {path}: {}", got.text());
            }
        }
        for method in ["MOVE", "COPY"] {
            let to = |to: &str| format!("Destination: /{to}\r\n");
            let from = server.request(method, &format!("/{key}"), &to("got"), b"");
            assert_eq!(from.status, 404, "{method} from {key}");
            let into = server.request(method, "/a/k", &to(key), b"");
            assert_eq!(into.status, 404, "{method} to {key}");
        }
        let parts: [(&str, &[u8]); 3] = [(FOLDER, b""), (REPLACE, b"1"), (&file(key), b"w")];
        let lines = format!("{FORM}Accept: application/json\r\n");
        server.request("POST", "/-/upload", &lines, &form(&parts));
        let packed = tar([(key, &b"w"[..])]);
        let unpacked = server.request("PUT", "/?archive=tar", "", &packed);
        assert_eq!(unpacked.status, 404, "a tar of {key}");
        let chosen = format!("/?archive=tar&files={key}");
        assert_eq!(
            server.request("GET", &chosen, "", b"").status,
            404,
            "{chosen}"
        );
    }
    assert_untouched(&server);
    for folder in ["/.git/", "/a/.ssh/?archive=zip", "/.git/?format=json"] {
        assert_eq!(
            server.request("GET", folder, "", b"").status,
            404,
            "{folder}"
        );
    }
    server.store("a/k", "of a/k");
    for key in ["got", ".none", "a/.none", ".n", "new~", "none"] {
        assert!(!server.dir.file(key).exists(), "{key}");
    }
}

#[test]
fn a_hidden_name_is_listed_nowhere_and_counts_for_nothing() {
    for index in ["0", "128MiB"] {
        let mut args = HIDE.to_vec();
        args.extend(["--listing-index", index]);
        let server = needed!(TestServer::of_directory("hands in the directory", &args));
        place(&server);
        for query in [
            "",
            "prefix=.",
            "prefix=.git/",
            "prefix=a/",
            "delimiter=/",
            "after=.",
        ] {
            let listed = server.request("GET", &format!("/?{query}&format=text"), "", b"");
            let listed = listed.text();
            assert!(
                !listed.contains('~') || listed.contains("~2"),
                "{query}: {listed}"
            );
            let is_hidden = |line: &str| line.starts_with('.') || line.contains("/.");
            assert!(!listed.lines().any(is_hidden), "{index} {query}: {listed}");
        }
        let all = server.request("GET", "/?format=text", "", b"");
        assert_eq!(words(&all.text()), words(SHOWN));
        let packed = server.request("GET", "/?archive=tar", "", b"");
        let packed = String::from_utf8_lossy(&packed.body).into_owned();
        assert!(
            packed.contains("of a/k") && !packed.contains("of .env"),
            "{index}"
        );
        // What is no key keeps its folder, as a link does.
        let removed = server.request("DELETE", "/a/", "Depth: infinity\r\n", b"");
        assert_eq!(removed.status, 409, "{}", removed.text());
        assert_eq!(removed.json()["removed"], 2);
        assert_untouched(&server);
    }
    let args = [&HIDE[..], &["--max-size", "1GiB"]].concat();
    let server = needed!(TestServer::of_directory("hands in the directory", &args));
    place(&server);
    server.store("more", "1");
    eventually("the values are counted", || {
        Scrape::of(server.addr).count("data_server_bound_keys", &[]) == 4
    });
}

/// A record of a name that is hidden since is replayed all the same: else no start would read the journal.
#[test]
fn a_journal_may_hold_names_that_are_hidden_since() {
    journal_only!("a replay");
    let dir = DataDir::temporary();
    let args = ["--durability", "disk"];
    let mut server = Launch::new(&args).on(&dir).start();
    server.store(".env", "secret");
    server.store("k", "v");
    assert_eq!(
        server
            .request("MOVE", "/k", "Destination: /.moved\r\n", b"")
            .status,
        201
    );
    server.kill();
    assert!(dir.forget_mount(), "the note of a server that ran");
    let mut server = Launch::new(&[&args[..], &HIDE].concat()).on(&dir).start();
    assert_eq!(server.get(".env").status, 404);
    server.stop();
    assert_eq!(
        (dir.read(".env"), dir.read(".moved")),
        (b"secret".to_vec(), b"v".to_vec())
    );
}

#[test]
fn an_upload_to_a_name_that_is_hidden_since_publishes_nothing() {
    directory_only!("resumable uploads");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&[]).on(&dir).start();
    let upload = Resumable::create(&mut server.connect(), ".env", "", b"one ");
    server.stop();
    let server = Launch::new(&HIDE).on(&dir).start();
    let refused = upload.append(&mut server.connect(), 4, true, b"two");
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("is hidden here"));
    assert!(!dir.file(".env").exists());
}
