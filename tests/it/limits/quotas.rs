//! Proves the quotas: connections of one client with `--max-connections-per-ip`, and the bytes of all uploads under way
//! with `--max-staged`.

use rustix::process::getuid;

use crate::support::prelude::*;

const MIB: usize = 1 << 20;

#[test]
fn an_address_or_a_user_at_its_limit_gets_no_more_connections() {
    let dir = TempDir::new().expect("a directory");
    let socket = dir.path().join("socket");
    let user = format!("unix:uid={}", getuid().as_raw());
    for (dispatch, client) in [
        ("round-robin", "127.0.0.2"),
        ("reuse-port", "127.0.0.2"),
        ("reuse-port", &user),
    ] {
        let args = format!("--threads 3 --max-connections-per-ip 3 --dispatch {dispatch}");
        let args = format!("{args} --listen unix:{}", socket.display());
        let mut server = TestServer::start(&words(&args));
        server.dir.place("here", "value");
        let from = |host: u8| match host {
            2 if client == user => Raw::connect_unix(&socket),
            _ => Raw::connect_from([127, 0, 0, host], server.addr),
        };
        let mut open: Vec<Raw> = (0..3).map(|_| from(2)).collect();
        for connection in &mut open {
            assert_eq!(connection.get("here").body, b"value", "{dispatch}");
        }
        for _ in 0..20 {
            from(2).assert_closed();
        }
        let body = from(3).get("here").body;
        assert_eq!(body, b"value", "{dispatch}: another address");
        for connection in &mut open {
            let found = connection.get("here").body;
            assert_eq!(found, b"value", "{dispatch}: still open");
        }

        open.pop();
        let mut again = None;
        eventually("there is room for one more once one is closed", || {
            let mut next = from(2);
            let is_open = next.offer(get_head("here")).is_ok() && next.try_head().is_some();
            again = is_open.then_some(next);
            is_open
        });
        from(2).assert_closed();
        drop(again);

        let warning = server.event("too many connections from one address");
        assert_eq!(warning.level, "WARN");
        assert!(warning.field("address").starts_with(client), "{warning:?}");
        assert_eq!(warning.number("max"), 3);
        let warnings = server.events("too many connections from one address").len();
        assert!(warnings < 4, "{warnings} lines for some 20 refusals");
        let refused = Scrape::of(server.addr).count("data_server_connections_refused_total", &[]);
        assert!(refused >= 21, "{refused}");
        server.stop();
        let is_right = server.event("drained").number("refused") >= 21;
        assert!(is_right, "{dispatch}");
    }
}

/// A server with `--max-staged 4MiB` and an upload of 3 MiB that waits for its last byte: of known length, where such a
/// one is staged.
fn three_quarters_full() -> (TestServer, Raw, Vec<u8>) {
    let server = TestServer::start(&["--max-staged", "4MiB", "--max-staged-per-client", "0"]);
    let value = pattern(1, 3 * MIB);
    let mut waiting = server.connect();
    if is_s3() {
        waiting.send("PUT /held HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        waiting.send(chunked([&value[..]]));
    } else {
        waiting.send(put_head("held", value.len()));
        waiting.send(&value[..value.len() - 1]);
    }
    let comes = || Scrape::of(server.addr).count("data_server_staged_bytes", &[]) >= 3 << 20;
    eventually("the first upload has its share", comes);
    (server, waiting, value)
}

#[test]
fn an_upload_beyond_max_staged_is_503_before_its_body() {
    directory_only!("staging of known lengths");
    let (server, mut waiting, value) = three_quarters_full();
    let mut refused = server.connect();
    let head = put_head("refused", 2 * MIB);
    let answer = refused.ask(head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"));
    let found = (answer.status, answer.header("retry-after"));
    assert_eq!(found, (503, Some("1")), "{answer:?}");
    assert!(answer.closes(), "what follows may be the body");
    let is_right = String::from_utf8_lossy(&answer.body).contains("--max-staged");
    assert!(is_right, "{answer:?}");
    refused.assert_closed();

    // A PUT that fits is stored, also a small one, which needs no file.
    server.store("fits", pattern(2, MIB));
    server.store("small", "value");
    waiting.send(&value[value.len() - 1..]);
    assert_eq!(waiting.answer().status, 200);
    server.store("refused", pattern(3, 2 * MIB));
    assert!(server.dir.read("held") == value);
    server
        .dir
        .assert_holds(&["fits", "held", "refused", "small"]);
}

#[test]
fn a_chunked_upload_is_503_at_max_staged_and_leaves_nothing() {
    let (server, waiting, _) = three_quarters_full();
    server.dir.place("k", "old");
    let head = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    let value = pattern(2, 2 * MIB);
    let mut refused = server.connect();
    refused.send(head);
    // The server may close before it has read all of this.
    let _ = refused.offer(chunked(value.chunks(60_000)));
    let answer = refused.answer();
    let found = (answer.status, answer.header("retry-after"));
    assert_eq!(found, (503, Some("1")), "{answer:?}");
    assert!(answer.closes(), "its body was not read to the end");
    assert_eq!(server.get("k").body, b"old");

    // The rest of the quota can be used to the last byte: beside a share that grows by 256 KiB, all but so many.
    let value = &value[..by_engine(value.len(), value.len() - (256 << 10))];
    let rest = value.len() - MIB;
    let mut fits = server.connect();
    fits.send(head);
    fits.send(chunked(value[..rest].chunks(60_000)));
    fits.send("0\r\n\r\n");
    assert_eq!(fits.answer().status, 200);
    assert!(server.dir.read("k") == value[..rest]);

    waiting.reset();
    let comes = || server.put("k", value).status == 200;
    eventually("an upload that was cut off gives up its share", comes);
    server.dir.assert_holds(&["k"]);
}

/// Such a value can never be stored, so 503, which invites a retry, would be wrong.
#[test]
fn a_value_longer_than_max_staged_is_413() {
    let server = TestServer::start(&["--max-staged", "1MiB", "--max-staged-per-client", "0"]);
    let answer = server.connect().ask(put_head("k", MIB + 1));
    assert_eq!((answer.status, answer.header("retry-after")), (413, None));
    server.store("k", pattern(1, MIB));
    let discarding = TestServer::start(&["--max-staged", "1KiB", "--discard"]);
    let status = discarding.put("k", pattern(1, MIB)).status;
    assert_eq!(status, 200, "nothing is staged");
}
