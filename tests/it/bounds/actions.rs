//! Entries of Bazel's action cache: one is there while all that it names is, and a hit of it is a use of all that.

use crate::support::prelude::*;

use super::{BLOCK, assert_has, tick};

const AC: &str = r#"prefix = "b/ac/", kind = "bazel-ac""#;

/// A field of a message that has a length, of a number below 16.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let (bytes, mut head) = (bytes.as_ref(), vec![number << 3 | 2]);
    let mut len = bytes.len();
    while len > 0x7f {
        head.push(u8::try_from(len & 0x7f).expect("seven bits") | 0x80);
        len >>= 7;
    }
    head.push(u8::try_from(len).expect("seven bits"));
    [&head, bytes].concat()
}

/// The name of an output, and its digest.
fn output(name: char, len: u16) -> (String, Vec<u8>) {
    let hash = name.to_string().repeat(64);
    let [low, high] = [len & 0x7f | 0x80, len >> 7];
    let [low, high] = [low, high].map(|bits| u8::try_from(bits).expect("a byte"));
    let digest = [field(1, &hash), vec![2 << 3, low, high]].concat();
    (format!("b/cas/{hash}"), digest)
}

#[test]
fn an_entry_is_there_while_all_that_it_names_is() {
    directory_only!("an action cache");
    let bound = r#"prefix = "b/", max-size = "1MiB""#;
    let server = TestServer::start(&["--content", AC, "--bound", bound]);
    let all =
        ["a", "c", "d", "e", "f"].map(|name| output(name.chars().next().expect("a name"), 4096));
    let [file, printed, tree, in_tree, below] = &all;
    let files = |digest: &Vec<u8>| field(1, field(1, field(2, digest)));
    let listed = [files(&in_tree.1), field(2, field(1, field(2, &below.1)))].concat();
    let tree_len = u16::try_from(listed.len()).expect("a length");
    let tree = (tree.0.clone(), output('d', tree_len).1);
    let entry = [
        field(2, [field(1, "out/file"), field(2, &file.1)].concat()),
        field(3, [field(1, "out/tree"), field(3, &tree.1)].concat()),
        field(6, &printed.1),
        // No bytes have to be nowhere.
        field(8, output('0', 0).1),
    ]
    .concat();
    let (key, kept) = ("b/ac/entry", DataDir::temporary());
    server.store(key, entry);
    server.store(&tree.0, &listed);
    for name in [file, printed, in_tree, below].map(|(name, _)| name) {
        assert_eq!(server.get(key).status, 404, "without {name}");
        server.store(name, BLOCK);
    }
    assert_eq!(server.get(key).status, 200);
    let tag = server.get(key).must("etag").to_owned();
    let head =
        |tag: &str| format!("HEAD /{key} HTTP/1.1\r\nHost: t\r\nIf-None-Match: {tag}\r\n\r\n");
    assert_eq!(server.connect().ask(head(tag.as_str())).status, 304);
    for name in [file, &tree, printed, in_tree, below].map(|(name, _)| name) {
        let aside = kept.file("aside");
        fs::rename(server.dir.file(name), &aside).expect("a file that goes");
        assert_eq!(server.get(key).status, 404, "without {name}");
        assert_eq!(server.connect().ask(head("none")).status, 404, "{name}");
        // Of another length it is no output of that action.
        server.dir.place(name, "short");
        assert_eq!(server.get(key).status, 404, "with another {name}");
        fs::rename(&aside, server.dir.file(name)).expect("and comes again");
        assert_eq!(server.get(key).status, 200, "with {name}");
    }
    let scrape = Scrape::of(server.addr);
    let of = |result| scrape.count("data_server_bound_requests_total", &[("result", result)]);
    assert_eq!((of("hit"), of("miss")), (3 + 5, 4 + 15));
    // What is no entry is none; elsewhere it is a value.
    for (key, status) in [("b/ac/other", 404), ("b/acc", 200), ("b/cas/x", 200)] {
        server.store(key, "\u{7}no message");
        assert_eq!(server.get(key).status, status, "{key}");
    }
}

#[test]
fn a_hit_of_an_entry_is_a_use_of_its_outputs() {
    directory_only!("an action cache");
    let server = super::start(&["--content", AC, "--max-size", "16KiB"]);
    let (name, digest) = output('a', 4096);
    let entry = field(2, field(2, digest));
    for (key, value) in [(&*name, &BLOCK[..]), ("b/ac/e", &entry), ("other", &BLOCK)] {
        server.store(key, value);
        tick();
    }
    assert_eq!(server.get("b/ac/e").status, 200);
    tick();
    super::store_all(&server, "x y");
    assert_has(&server, &format!("b/ac/e {name} x y"));
    // Both were used longest ago now, and one is of no use without the other.
    super::store_all(&server, "z");
    assert_eq!(server.get("b/ac/e").status, 404);
}

#[test]
fn an_action_cache_needs_its_right_and_a_prefix_that_has_outputs() {
    directory_only!("an action cache");
    let dir = DataDir::temporary();
    let rules = "[[rule]]\nwho = ['anonymous']\nprefix = 'b/cas/'\nmay = ['read', 'write']\n";
    let access = dir.write_private("access.toml", rules);
    dir.place("b/ac/e", "");
    let server = Launch::new(&["--content", AC, "--access", &access])
        .on(&dir)
        .start();
    assert_eq!(server.get("b/ac/e").status, 401);
    for (table, why) in [
        (r#"prefix = "b/", kind = "bazel-ac""#, "ends with ac/"),
        (r#"prefix = "mac/", kind = "bazel-ac""#, "ends with ac/"),
        (r#"prefix = "ac/""#, "one of them"),
        (
            r#"prefix = "ac/", name = "sha256", kind = "bazel-ac""#,
            "one of them",
        ),
    ] {
        Launch::new(&["--content", table]).run().says(2, why);
    }
}
