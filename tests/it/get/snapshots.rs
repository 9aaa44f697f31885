//! Proves the guarantees of a reader: a GET sends the version it began with or breaks, answers keep their order, and
//! every version has an `ETag` of its own.

use std::io::Write;

use crate::support::prelude::*;

const LARGE: usize = 16 * 1024 * 1024;
const GET_K: &str = "GET /k HTTP/1.1\r\nHost: t\r\n\r\n";

/// A GET whose head has been read and whose body is mostly still on the server.
fn slow_get(server: &TestServer) -> Raw {
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(GET_K);
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
fn so_it_does_beside_changes_by_hand() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&[]);
    let old = pattern(1, LARGE);
    server.dir.place("k", &old);
    let mut reader = slow_get(&server);
    let mut file = File::options()
        .append(true)
        .open(server.dir.file("k"))
        .expect("the value");
    file.write_all(b"more").expect("appended by hand");
    assert!(reader.take(LARGE) == old, "appended to by hand");
    let found = reader.ask(GET_K).length();
    assert_eq!(found, LARGE + 4, "the next request on the same connection");

    server.dir.place("k", &old);
    let mut reader = slow_get(&server);
    server.dir.rename("k", "moved");
    assert!(reader.take(LARGE) == old, "renamed by hand");
    let status = reader.ask(GET_K).status;
    assert_eq!(status, 404, "the next request on the same connection");
}

/// Small values leave in one write with their head, large ones by sendfile: the order holds across both.
#[test]
fn pipelined_answers_of_every_size_come_whole_and_in_order() {
    let server = TestServer::start(&["--threads", "1"]);
    let sizes = [
        0, 1, 65_535, 65_536, 65_537, 131_072, 262_145, 1_048_577, 3_000_000,
    ];
    let values = (1..).zip(sizes).map(|(seed, size)| pattern(seed, size));
    let values: Vec<_> = values.collect();
    for (n, value) in values.iter().enumerate() {
        server.dir.place(&format!("k{n}"), value);
    }
    let order = (0..60).map(|round| (round * 7 + round / 9) % values.len());
    let order: Vec<usize> = order.collect();
    let request = |method, n| format!("{method} /k{n} HTTP/1.1\r\nHost: t\r\n\r\n");
    let requests = order
        .iter()
        .flat_map(|n| ["GET", "HEAD"].map(|method| request(method, n)));
    let requests: String = requests.collect();
    let mut reader = Raw::connect_narrow(server.addr);
    reader.send(requests);
    for n in order {
        let got = reader.answer();
        assert_eq!(got.status, 200);
        let is_right = got.body == values[n];
        let (found, all) = (got.body.len(), values[n].len());
        assert!(is_right, "GET /k{n}: {found} bytes of {all}");
        let expected = got.header("etag");
        assert_eq!(reader.head().header("etag"), expected, "HEAD /k{n}");
    }
}

#[test]
fn a_file_cut_short_during_a_get_breaks_the_connection() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&[]);
    let value = pattern(1, LARGE);
    server.dir.place("k", &value);
    let mut reader = slow_get(&server);
    server.dir.set_len("k", 64 * 1024);
    let got = reader.rest();
    let sent = got.len();
    assert!(sent < LARGE, "{sent} bytes of a file that has 65,536");
    let now = server.get("k").body;
    assert_eq!(now, value[..64 * 1024], "it serves what is there now");
}

#[test]
fn every_change_of_a_value_changes_its_etag() {
    directory_only!("entity tags of single writes");
    let server = TestServer::start(&[]);
    let mut seen = Vec::new();
    for round in 0..50 {
        match round % 3 {
            0 => server.store("k", "same size"),
            1 => server.dir.place("k", "size same"),
            _ => {
                assert_eq!(server.ask("DELETE", "k").status, 200);
                server.store("k", "same size");
            }
        }
        let etag = server.get("k").header("etag").expect("an ETag").to_owned();
        // The same value has the same ETag.
        assert_eq!(server.ask("HEAD", "k").must("etag"), etag);
        let is_right = etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2;
        assert!(is_right, "{etag}");
        let is_right = !seen.contains(&etag);
        assert!(is_right, "round {round} has the ETag {etag} again");
        seen.push(etag);
    }
}
