//! A folder that is a mount, of a file system of its own or of the same one, or has one below it: what cannot be done
//! is refused and says why, and nothing is lost.

use super::{make, remove, report};
use crate::support::prelude::*;

/// By the journal, and without an index too.
const WAYS: [&[&str]; 3] = [&[], &["--durability", "disk"], &["--listing-index", "0"]];

/// What is mounted: a file system, or a folder beside the directory.
const KINDS: [bool; 2] = [false, true];

/// A server with values, and a mount at `a/m`.
fn started(args: &[&str], is_same: bool) -> Option<(TestServer, Mounted)> {
    let dir = DataDir::temporary();
    for key in ["a/1", "a/m/below", "a/z/3", "b/2"] {
        dir.place(key, key);
    }
    let beside = dir.outside("beside");
    fs::create_dir(&beside).expect("a folder");
    let tmpfs = words("mount -t tmpfs -o size=1m tmpfs");
    let bind = ["mount", "--bind", text(&beside)];
    let command = if is_same { &bind[..] } else { &tmpfs };
    let mounted = Mounted::by(command, &dir.file("a/m"));
    let mounted = available("folders with mounts", mounted)?;
    dir.place("a/m/in", "in");
    Some((Launch::new(args).on(&dir).start(), mounted))
}

#[test]
fn a_folder_that_is_a_mount_stays_where_it_is() {
    directory_only!("mounts");
    for (args, is_same) in WAYS.iter().flat_map(|args| KINDS.map(|is| (*args, is))) {
        let (server, mounted) = needed!(started(args, is_same));
        let to = |method, from: &str, to: &str| {
            let lines = format!("Destination: {to}\r\n");
            server.request(method, from, &lines, b"")
        };
        for (method, from, name) in [("MOVE", "/a/m/", "/n/"), ("MOVE", "/b/", "/a/m/b/")] {
            let refused = to(method, from, name);
            assert_eq!(refused.status, 409, "{method} {from}: {}", refused.text());
            assert!(!refused.text().contains("failed"), "{}", refused.text());
        }
        assert_eq!(make(&server, "a/m/x/"), 201);
        // What is stored is renamed from its staging, which is not of that file system.
        let refused = to("COPY", "/b/", "/a/m/b/");
        assert_eq!(refused.status, 409, "{}", refused.text());
        let copied = to("COPY", "/a/m/", "/c/");
        assert_eq!(copied.status, 200, "{}", copied.text());
        for key in ["a/m/in", "c/in", "b/2"] {
            assert_eq!(server.get(key).status, 200, "{key}");
        }
        drop(server);
        mounted.end();
    }
}

/// What is in it goes; the folder itself stays, and the answer says that it is a mount.
#[test]
fn a_delete_names_the_mount_that_stays() {
    directory_only!("mounts");
    for (args, is_same) in WAYS.iter().flat_map(|args| KINDS.map(|is| (*args, is))) {
        let (server, mounted) = needed!(started(args, is_same));
        let removed = remove(&server, "a/");
        assert_eq!(removed.status, 409, "{}", removed.text());
        let (values, stayed, names) = report(&removed);
        let found = (values, stayed, &names[..]);
        assert_eq!(found, (3, 1, &["a/m/".to_owned()][..]));
        let why = removed.json()["why"][0]["reason"].to_string();
        assert!(why.contains("mount"), "{why}");
        assert_eq!(server.get("b/2").status, 200);
        drop(server);
        mounted.end();
    }
}
