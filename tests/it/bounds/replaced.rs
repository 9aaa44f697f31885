//! A value that takes the place of another at a bound that is full needs the room of the difference, by each door.

use super::start;
use crate::archives::tar;
use crate::support::form::{REPLACE, file};
use crate::support::prelude::*;

const LEN: usize = 16 << 10;

#[test]
fn a_value_of_the_same_size_replaces_another_by_each_door_and_no_other_goes() {
    directory_only!("bounds");
    for full in ["evict", "refuse"] {
        let bound = format!("max-size = \"64KiB\", full = \"{full}\"");
        let server = start(&["--bound", &bound]);
        server.store_each("a b c d", pattern(1, LEN));
        let value = |seed| pattern(seed, LEN);
        let archive = tar([("d", &value(5)[..])]);
        let in_parts = || {
            let mut raw = server.connect();
            let upload = Resumable::create(&mut raw, "d", "", &value(7)[..5_000]);
            upload.append(&mut raw, 5_000, true, &value(7)[5_000..])
        };
        let doors: [(&str, &dyn Fn() -> Response); 9] = [
            ("PUT", &|| server.put("d", value(2))),
            ("PUT of less", &|| server.put("d", pattern(2, 5_000))),
            ("PUT of as much again", &|| server.put("d", value(3))),
            ("chunks", &|| server.put_chunked("d", &value(4))),
            ("archive", &|| {
                server.request("PUT", "/?archive=tar", "", &archive)
            }),
            ("form", &|| {
                server.post("", &[(REPLACE, b"1"), (&file("d"), &value(6))])
            }),
            ("parts", &in_parts),
            ("COPY", &|| {
                server.request("COPY", "/a", "Destination: /d\r\n", b"")
            }),
            ("an end", &|| {
                server.request("PUT", "/d", "X-Delete-After: 600\r\n", &value(9))
            }),
        ];
        for (name, door) in doors {
            let status = door().status;
            let is_right = matches!(status, 200 | 201 | 204);
            assert!(is_right, "{full}, {name}: {status}");
            server.dir.assert_holds(&["a", "b", "c", "d"]);
        }
        let moved = server.request("MOVE", "/a", "Destination: /d\r\n", b"");
        assert_eq!(moved.status, 204);
        server.dir.assert_holds(&["b", "c", "d"]);
        server.store("a", value(1));
        let larger = server.put("d", pattern(1, LEN + 1));
        let left = server.dir.names().len();
        let found = (larger.status, left);
        let expected = if full == "evict" { (200, 3) } else { (507, 4) };
        assert_eq!(found, expected, "{full}: a larger one");
    }
}

/// The bytes that are staged of an upload count for the quota of its key: with no length told, twenty times its size
/// lay there.
#[test]
fn what_is_staged_of_uploads_counts_for_the_quota_of_their_key() {
    directory_only!("bounds");
    let quota = r#"prefix = "home/{name}/", max-size = "1MiB", full = "refuse""#;
    let server = start(&["--bound", quota]);
    let mut staged = 0;
    for n in 0..5 {
        let mut raw = server.connect();
        let lines = "Upload-Complete: ?0\r\n";
        let key = format!("home/ann/{n}");
        let answer = Resumable::ask_to_create(&mut raw, &key, lines, &pattern(n, 4 << 20));
        assert!(matches!(answer.status, 201 | 507), "{answer:?}");
        let uploads = fs::read_dir(server.dir.own("uploads")).expect("the uploads");
        let files = uploads.filter_map(|entry| entry.ok()?.metadata().ok());
        staged = files.map(|file| file.blocks() * 512).sum();
    }
    // No more than a step beyond the quota.
    let is_right = staged <= 5 << 20;
    assert!(is_right, "{staged} bytes are staged for a quota of 1 MiB");
    server.store("home/bob/1", pattern(1, 1 << 20));
}
