//! The full form alone: other stores, and that each is found to be what it is. `tests/torture/stores` installs them.

use super::serve;
use crate::scale::{counted, is_full, left_out};
use crate::support::prelude::*;
use crate::support::s3::{Bucket, Kind, OtherStore};

/// Starts of a server on each store.
const STARTS: usize = 10;

fn store(kind: Kind) -> Option<OtherStore> {
    if is_full() {
        return OtherStore::start(kind);
    }
    left_out(&format!("{kind:?}"), "in the full form alone");
    None
}

/// Why the starts on this bucket are refused that are: each is said in one line.
fn refusals(bucket: &Bucket) -> Vec<String> {
    let starts = (0..STARTS).map(|n| Launch::new(&[]).on_bucket(&bucket.beneath(&n.to_string())));
    let ended = starts.filter_map(|launch| launch.start_or_end().err());
    let line = |stderr: String| {
        let lines = stderr.lines().filter(|line| line.contains("the store"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        lines[0].to_owned()
    };
    ended.map(|ended| line(ended.stderr)).collect()
}

#[test]
fn garage_is_refused_and_served_without_conditions() {
    let store = needed!(store(Kind::Garage));
    let refused = refusals(&store.bucket);
    let server = serve(&store.bucket.beneath("served"));
    let values = keeps_values(&server);
    ignores_no_condition(&server);
    counted!(
        "Garage",
        "refused at {} of {STARTS} starts; served without conditions: {values}",
        refused.len()
    );
    assert_eq!(refused.len(), STARTS);
    let reason = "PUT with If-None-Match: * over a value is made all the same";
    let offer = "--s3-conditions off serves it without them";
    let is_offered = |line: &String| line.contains(reason) && line.contains(offer);
    assert!(refused.iter().all(is_offered), "{refused:?}");
}

#[test]
fn s3s_fs_is_found_out() {
    let store = needed!(store(Kind::S3sFs));
    let refused = refusals(&store.bucket);
    let first = refused.first().cloned().unwrap_or_default();
    counted!(
        "s3s-fs",
        "refused at {} of {STARTS} starts, first: {first}",
        refused.len()
    );
    assert_eq!(refused.len(), STARTS);
    let is_race = |line: &String| line.contains("at once are made, in round");
    assert!(refused.iter().all(is_race), "{refused:?}");
}

#[test]
fn minio_is_served_but_for_conditional_removals() {
    let store = needed!(store(Kind::Minio));
    for n in 0..STARTS {
        let launch = Launch::new(&[]).on_bucket(&store.bucket.beneath(&n.to_string()));
        let server = launch.start();
        let tested = server.event("the store was tested");
        assert_eq!(tested.field("conditional_put"), "true");
        assert_eq!(tested.field("conditional_delete"), "false");
    }
    let server = Launch::new(&[]).on_bucket(&store.bucket).start();
    let values = keeps_values(&server);
    let conditions = keeps_conditions_of_put(&server);
    let removal = ask(
        &mut server.connect(),
        "DELETE",
        "/key",
        "If-Match: \"x\"\r\n",
        b"",
    );
    assert_eq!(removal.status, 501);
    counted!(
        "MinIO",
        "served at {STARTS} of {STARTS} starts, removals with conditions 501: {values}, {conditions}"
    );
}

/// Values of all lengths, known and not: stored, read whole and in part, listed and removed. What was tried.
fn keeps_values(server: &TestServer) -> String {
    let lengths = [0, 1, 1_000, 70_000, 1 << 20, 2_500_000];
    for (seed, len) in (1..).zip(lengths) {
        for key in [format!("known/{len}"), format!("unknown/{len}")] {
            let value = pattern(seed, len);
            if key.starts_with("known") {
                server.store(&key, &value);
            } else {
                let head =
                    format!("PUT /{key} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
                let body = chunked(value.chunks(70_000));
                let request = [head.as_bytes(), &body, b"0\r\n\r\n"].concat();
                assert_eq!(server.connect().ask(request).status, 200, "{key}");
            }
            let whole = server.get(&key);
            assert!(whole.status == 200 && whole.body == value, "{key}");
            assert!(whole.header("content-encoding").is_none(), "{key}");
            if len > 1 {
                let range = "Range: bytes=1-\r\n";
                let part = ask(&mut server.connect(), "GET", &format!("/{key}"), range, b"");
                assert!(part.status == 206 && part.body == value[1..], "{key}");
            }
        }
    }
    let list = || {
        let lines = "Accept: text/plain\r\n";
        let answer = ask(&mut server.connect(), "GET", "/?limit=1000", lines, b"");
        let text = String::from_utf8(answer.body).expect("keys");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let keys = list();
    assert_eq!(keys.len(), 2 * lengths.len(), "{keys:?}");
    for key in &keys {
        assert_eq!(server.ask("DELETE", key).status, 200, "{key}");
        assert_eq!(server.get(key).status, 404, "{key}");
    }
    eventually("nothing is listed", || list().is_empty());
    format!("{} values stored, read, listed and removed", keys.len())
}

fn put(server: &TestServer, lines: &str) -> u16 {
    ask(&mut server.connect(), "PUT", "/key", lines, b"value").status
}

/// What was tried.
fn keeps_conditions_of_put(server: &TestServer) -> String {
    assert_eq!(put(server, "If-Match: \"x\"\r\n"), 412);
    assert_eq!(put(server, "If-None-Match: *\r\n"), 200);
    assert_eq!(put(server, "If-None-Match: *\r\n"), 412);
    assert_eq!(put(server, "If-Match: \"x\"\r\n"), 412);
    let tag = server.get("key").must("etag").to_owned();
    assert_eq!(put(server, &format!("If-Match: {tag}\r\n")), 200);
    assert_eq!(put(server, &format!("If-Match: \"x\", {tag}\r\n")), 200);
    assert_eq!(put(server, "If-None-Match: \"x\"\r\n"), 200);
    "7 conditions of PUT kept".to_owned()
}

fn ignores_no_condition(server: &TestServer) {
    server.store("key", "old");
    for lines in [
        "If-None-Match: *\r\n",
        "If-Match: \"x\"\r\n",
        "If-Match: *\r\n",
    ] {
        assert_eq!(put(server, lines), 501, "{lines}");
    }
    assert_eq!(server.get("key").body, b"old");
}
