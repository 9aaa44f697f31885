//! Proves `[[content]]` of the configuration file: below its prefix a value is stored under its SHA-256 and under no
//! other name, however it arrives, and what lies there by hand is served.

use sha2::{Digest, Sha256};

use crate::support::form::{FOLDER, file};
use crate::support::prelude::*;
use crate::support::s3::hex;

const FILE: &str = "[[content]]\nprefix = \"cas/\"\nname = \"sha256\"\n";

fn serve(args: &[&str]) -> TestServer {
    let dir = DataDir::temporary();
    let file = dir.write_private("options.toml", FILE);
    let args = [&["--config", &*file], args].concat();
    Launch::new(&args).on(&dir).start()
}

fn digest(value: &[u8]) -> String {
    hex(&Sha256::digest(value))
}

#[test]
fn a_value_is_stored_under_its_digest_and_under_no_other() {
    let server = serve(&[]);
    // In memory, and in a file.
    for length in [0, 1, 5_000, 100_000, 300_000] {
        let (value, other) = (pattern(1, length), pattern(2, length + 1));
        let (own, wrong) = (digest(&value), digest(&other));
        for before in ["cas/", "cas/sha256:", "cas/deep/er/"] {
            for chunked in [false, true] {
                let put = |name: &str| {
                    let key = format!("{before}{name}");
                    if chunked {
                        server.put_chunked(&key, &value)
                    } else {
                        server.put(&key, &value)
                    }
                };
                let refused = put(&wrong);
                assert_eq!(refused.status, 400, "{before} {length}");
                let said = refused.text();
                assert!(said.contains(&own) && said.contains(&wrong), "{said}");
                assert_eq!(said.lines().count(), 1, "{said}");
                server.dir.assert_holds(&[]);
                assert_eq!(put(&own).status, 200, "{before} {length}");
                let key = format!("{before}{own}");
                assert!(server.dir.read(&key) == value, "{before} {length}");
                server.dir.clear();
            }
        }
    }
}

#[test]
fn a_name_without_a_digest_and_one_that_contradicts_a_field_are_refused_at_the_head() {
    let server = serve(&[]);
    let right = digest(b"v");
    let lines = format!("Repr-Digest: {}\r\n", sha256(b"w"));
    for (name, lines) in [
        ("name", ""),
        (&*right.to_uppercase(), ""),
        (&right[1..], ""),
        (&format!("{right}00"), ""),
        (&format!("SHA256:{right}"), ""),
        (&format!("sha256:sha256:{right}"), ""),
        (&format!("{right}/x"), ""),
        (&right, &lines),
    ] {
        let mut raw = server.ask_to_put(&format!("cas/{name}"), 1, lines);
        let answer = raw.answer();
        assert_eq!(answer.status, 400, "{name} {lines}");
        let said = answer.text();
        let last = name.rsplit('/').next().expect("a name");
        let names_both = said.contains("\"cas/\"") && said.contains(last);
        assert!(names_both || !lines.is_empty(), "{said}");
        server.dir.assert_holds(&[]);
    }
    for free in ["cas", "ac/name", "x/cas/y"] {
        assert_eq!(server.put(free, "v").status, 200, "{free}");
        assert_eq!(server.ask("DELETE", free).status, 200);
    }
    server.dir.place("cas/by hand", "v");
    assert_eq!(server.get("cas/by%20hand").body, b"v");
    assert_eq!(server.ask("DELETE", "cas/by%20hand").status, 200);
}

#[test]
fn a_file_of_a_form_has_its_digest_as_its_name() {
    let server = serve(&[]);
    let large = pattern(1, 300_000);
    let post = |files: &[(&str, &[u8])]| {
        let names: Vec<_> = files.iter().map(|(name, _)| file(name)).collect();
        let files = names
            .iter()
            .zip(files)
            .map(|(name, (_, value))| (&**name, *value));
        let parts = [(FOLDER, &b"cas"[..])].into_iter().chain(files);
        server.post("", &parts.collect::<Vec<_>>()).status
    };
    let [small, long, other] = [&b"small"[..], &large, b"other"].map(digest);
    let keys = [&small, &long].map(|name| format!("cas/{name}"));
    let keys = keys.each_ref().map(String::as_str);
    assert_eq!(post(&[(&small, b"small"), (&long, &large)]), 200);
    server.dir.assert_holds(&keys);
    server.dir.clear();
    for wrong in [(&*other, &large[..]), (&*long, b"small"), ("name", b"v")] {
        assert_eq!(post(&[(&small, b"small"), wrong]), 400);
        // What came before it is stored.
        server.dir.assert_holds(&keys[..1]);
        server.dir.clear();
    }
}

#[test]
fn a_resumable_upload_is_compared_with_its_name_when_it_is_published() {
    directory_only!("keeps unfinished uploads");
    let server = serve(&[]);
    let mut raw = server.connect();
    let value = pattern(1, 100_000);
    let (right, wrong) = (digest(&value), digest(b"other"));
    for (name, status) in [(&wrong, 400), (&right, 200)] {
        let key = format!("cas/{name}");
        let upload = Resumable::create(&mut raw, &key, "", &value[..60_000]);
        let answer = upload.append(&mut raw, 60_000, true, &value[60_000..]);
        assert_eq!(answer.status, status, "{answer:?}");
        let all = Resumable::ask_to_create(&mut raw, &key, "Upload-Complete: ?1\r\n", &value);
        assert_eq!(all.status, status, "{all:?}");
    }
    server.dir.assert_holds(&[&format!("cas/{right}")]);
    let lines = "Upload-Complete: ?0\r\n";
    let named = Resumable::ask_to_create(&mut server.connect(), "cas/name", lines, b"");
    assert_eq!(named.status, 400);
}
