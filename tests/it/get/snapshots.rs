//! Proves the guarantees of a reader: a GET sends the version it began with or breaks, and every version has an `ETag`
//! of its own.

use crate::support::prelude::*;

const LARGE: usize = 16 * 1024 * 1024;

/// A GET whose head has been read and whose body is mostly still on the server.
fn slow_get(server: &TestServer) -> Raw {
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(get_head("k"));
    let head = reader.head();
    assert_eq!((head.status, head.length()), (200, LARGE));
    reader
}

#[test]
fn a_get_that_has_begun_sends_the_value_it_began_with() {
    let server = TestServer::start(&[]);
    let (old, new) = (pattern(1, LARGE), pattern(2, LARGE));
    server.dir.place("k", &old);

    let mut reader = slow_get(&server);
    server.store("k", &new);
    assert!(reader.take(LARGE) == old, "replaced over the wire");

    let mut reader = slow_get(&server);
    assert_eq!(server.ask("DELETE", "k").status, 200);
    assert_eq!(server.get("k").status, 404);
    assert!(reader.take(LARGE) == new, "deleted over the wire");
}

#[test]
fn so_it_does_beside_changes_by_hand_or_breaks_the_connection() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let old = pattern(1, LARGE);
    server.dir.place("k", &old);
    let mut reader = slow_get(&server);
    let file = File::options().append(true).open(server.dir.file("k"));
    let mut file = file.expect("the value");
    file.write_all(b"more").expect("appended by hand");
    assert!(reader.take(LARGE) == old, "appended to by hand");
    let found = reader.get("k").length();
    assert_eq!(found, LARGE + 4, "the next request on the same connection");

    server.dir.place("k", &old);
    let mut reader = slow_get(&server);
    server.dir.rename("k", "moved");
    assert!(reader.take(LARGE) == old, "renamed by hand");
    let status = reader.get("k").status;
    assert_eq!(status, 404, "the next request on the same connection");

    // Cut short, there is no more of it.
    server.dir.place("k", &old);
    let mut reader = slow_get(&server);
    server.dir.set_len("k", 64 * 1024);
    let sent = reader.rest().len();
    assert!(sent < LARGE, "{sent} bytes of a file that has 65,536");
    let now = server.get("k").body;
    assert_eq!(now, old[..64 * 1024], "it serves what is there now");
}
