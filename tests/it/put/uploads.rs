//! Proves that uploads of every size arrive unchanged, and that their files look as if `cp` had made them.

use crate::support::prelude::*;

const MIB: usize = 1024 * 1024;
const CHUNKED_HEAD: &str = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn values_of_every_size_come_back_unchanged() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect();
    let around = |size: usize| [size - 1, size, size + 1];
    let edges = [
        around(1),
        around(64 << 10),
        around(256 << 10),
        [2, MIB + 1, 9 * MIB + 7],
    ];
    for (seed, size) in (1..).zip(edges.concat()) {
        let value = pattern(seed, size);
        let found = connection.put("fixed", &value).status;
        assert_eq!(found, 200, "PUT of {size} bytes");
        connection.send(CHUNKED_HEAD);
        connection.send(chunked(value.chunks(10_007)));
        let status = connection.ask("0\r\n\r\n").status;
        assert_eq!(status, 200, "chunked PUT of {size} bytes");
        for key in ["fixed", "k"] {
            let is_right = server.dir.read(key) == value;
            assert!(is_right, "{size} bytes on disk as {key}");
            let got = connection.get(key);
            assert!(got.body == value, "GET of {size} bytes from {key}");
        }
    }
    server.dir.assert_holds(&["fixed", "k"]);
}

#[test]
fn values_and_folders_have_the_modes_that_the_umask_leaves() {
    directory_only!("the file system");
    for (umask, mode) in [("027", 0o640), ("022", 0o644), ("000", 0o666)] {
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let server = Launch::new(&[]).through(&["sh", "-c", &script]).start();
        server.store("small", "x");
        server.store("large", pattern(1, MIB));
        server.store("empty", "");
        server.dir.place("replaced", "by hand");
        // A narrower one it keeps: see inherited.rs.
        chmod(server.dir.file("replaced"), 0o777);
        server.store("replaced", "over the wire");
        server.store("a/b/k", "in folders");
        for folder in ["a", "a/b"] {
            let meta = fs::metadata(server.dir.file(folder)).expect("a folder");
            let executable = (mode >> 2) & 0o111;
            assert_eq!(meta.permissions().mode() & 0o777, mode | executable);
        }
        for key in ["small", "large", "empty", "replaced"] {
            let meta = fs::metadata(server.dir.file(key)).expect("the file");
            let found = meta.permissions().mode() & 0o7777;
            assert_eq!(found, mode, "umask {umask}: {key} has mode {found:o}");
        }
    }
}
