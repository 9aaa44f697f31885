//! What stands around the values: metrics, readiness, and the options.

use sha2::{Digest, Sha256};

use super::{send, serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub, hex};

#[test]
fn metrics_tell_how_the_store_does() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "1s"]);
    server.store("key", "value");
    stub.fail("GET", "key", Fault::Refuse(503, "SlowDown", Some(0)), 1);
    assert_eq!(server.get("key").status, 200);
    stub.fail("PUT", "key", Fault::LoseDone, 1);
    server.store("key", "again");
    stub.fail("PUT", "key", Fault::LoseUndone, 1);
    assert_eq!(server.put("key", "never").status, 502);
    let scrape = Scrape::of(server.addr);
    for (name, least) in [
        ("retries_total", 1),
        ("unknown_total", 1),
        ("resolved_total", 1),
        ("requests_total", 5),
        ("time_to_head_seconds_count", 5),
        ("requests_active", 0),
    ] {
        let count = scrape.count(&format!("data_server_store_{name}"), &[]);
        assert!(count >= least, "{name}: {count}");
    }
}

#[test]
fn the_connections_to_the_store_are_counted() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--threads", "1"]);
    let connections = || {
        let scrape = Scrape::of(server.addr);
        ["open", "idle"]
            .map(|which| scrape.count(&format!("data_server_store_connections_{which}"), &[]))
    };
    assert_eq!(connections(), [0, 0]);
    server.store("key", "value");
    eventually("one connection waits", || connections() == [1, 1]);
    stub.fail("GET", "key", Fault::StallUndone, 2);
    let mut waiting = [(); 2].map(|()| server.connect());
    for one in &mut waiting {
        one.send("GET /key HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    eventually("two are in use", || connections() == [2, 0]);
    drop(waiting);
    let comes = || connections() == [0, 0];
    eventually("they are closed with their requests", comes);
}

/// The look that finds the version was made twice.
#[test]
fn a_conditional_delete_asks_the_store_twice() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    server.store("key", "value");
    let same = format!("If-Match: {}\r\n", server.get("key").must("etag"));
    let before = stub.asked().len();
    assert_eq!(send(&server, "DELETE", "key", &same, b"").status, 200);
    let asked = stub.asked().split_off(before);
    let asked = asked.iter().filter(|asked| asked.key.contains("key"));
    assert!(asked.map(|asked| &*asked.method).eq(["HEAD", "DELETE"]));
}

#[test]
fn a_folder_without_a_key_is_refused() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &[]);
    let refused = server.request("MKCOL", "/a/", "", b"");
    refused.says(501, "no folder without one");
}

#[test]
fn a_store_that_does_not_answer_is_not_ready() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--s3-timeout", "1s"]);
    assert_eq!(server.get("-/ready").status, 200);
    stub.fail("HEAD", "", Fault::Refuse(403, "AccessDenied", None), 1000);
    let ready = || String::from_utf8_lossy(&server.get("-/ready").body).into_owned();
    let refused = "not ready: the store refuses the server's requests\n";
    eventually("it is not ready", || ready() == refused);
    let event = server.event("not ready");
    assert!(event.field("error").contains("403"), "{event:?}");
    stub.heal();
    for method in ["GET", "HEAD"] {
        stub.fail(method, "", Fault::StallUndone, 1000);
    }
    let silent = "not ready: the store did not answer in time\n";
    eventually("it says that it waits", || ready() == silent);
    let status = server.get("-/healthz").status;
    assert_eq!(status, 200, "a restart would change nothing");
    stub.heal();
    eventually("it is ready again", || server.get("-/ready").status == 200);
}

#[test]
fn options_of_a_directory_are_refused_with_a_reason() {
    let stub = Stub::start();
    let options = "--dir /tmp|--cache 1MiB|--durability os|--min-free 1MiB|--listing-index 1MiB|--follow-symlinks|--compress|--compat|--max-size 1MiB|--bound max-keys=1|--content prefix='ac/',kind='bazel-ac'";
    for option in options.split('|').map(words) {
        let ended = Launch::new(&option).on_bucket(&stub.bucket).run();
        ended.says(2, &format!("{} cannot be had with --store: ", option[0]));
    }
    assert_eq!(stub.asked().len(), 0, "the store is not asked");
    for store in ["http://bucket", "s3://", "s3://b", "s3://bucket/../x"] {
        let ended = Launch::new(&["--store", store, "--listen", "127.0.0.1:0"]);
        ended.bare().run().says(2, "--store");
    }
}

#[test]
fn a_named_field_is_metadata_of_the_object() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--keep-field", "x-artifact-tag"]);
    let lines = "X-Artifact-Tag: t\r\nCache-Control: no-store\r\n";
    server.store_as("key", lines, "v");
    for method in ["GET", "HEAD"] {
        let got = server.ask(method, "key");
        assert_eq!(got.header("x-artifact-tag"), Some("t"), "{method}");
        assert_eq!(got.header("cache-control"), Some("no-store"), "{method}");
    }
    let object = stub.bucket.ask("HEAD", "key", "", b"");
    assert_eq!(object.header("x-amz-meta-x-artifact-tag"), Some("t"));
    drop(server);
    let server = serve_plainly(&stub.bucket, &[]);
    assert_eq!(server.get("key").header("x-artifact-tag"), None);
    let options = ["--keep-field", "x-tag", "--redirect-from", "1MiB"];
    let ended = Launch::new(&options).on_bucket(&stub.bucket).run();
    ended.says(2, "--keep-field cannot be had with --redirect-from: ");
}

/// The limit of S3 counts what the server keeps for itself, and some stores count the beginning of each name.
#[test]
fn named_fields_that_the_metadata_of_an_object_has_no_room_for_are_refused_before_the_body() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--keep-field", "x-one,x-two"]);
    let put = |key: &str, len: usize| {
        let lines = format!("X-One: {}\r\nX-Two: b\r\n", "a".repeat(len));
        server.request("PUT", key, &lines, b"v")
    };
    let metadata = |key: &str| {
        let object = stub.bucket.ask("HEAD", key, "", b"");
        let mut fields = object.headers.iter();
        let size = |(name, value): &(String, String)| name.len() + value.len();
        let is_metadata = |field: &&(String, String)| field.0.starts_with("x-amz-meta-");
        fields.by_ref().filter(is_metadata).map(size).sum::<usize>()
    };
    assert_eq!(put("/short", 10).status, 200);
    let room = 10 + 2048 - metadata("short");
    assert_eq!(put("/long", room).status, 200);
    assert_eq!(metadata("long"), 2048);
    let asked = stub.asked().len();
    for len in [room + 1, 2048] {
        let refused = put("/longer", len);
        refused.says(400, "are longer than");
    }
    assert_eq!(stub.asked().len(), asked, "the store is not asked");
}

#[test]
fn a_value_whose_key_is_another_digest_never_reaches_the_store() {
    let stub = Stub::start();
    let place = TempDir::new().expect("a directory");
    let file = place.path().join("options.toml");
    fs::write(&file, "[[content]]\nprefix = 'cas/'\nname = 'sha256'\n").expect("a file");
    let file = file.to_str().expect("text");
    let server = serve_plainly(&stub.bucket, &["--config", file]);
    for length in [5, 100_000, 9_000_000] {
        let value = pattern(1, length);
        let name = |value: &[u8]| format!("cas/{}", hex(&Sha256::digest(value)));
        let (right, wrong) = (name(&value), name(b"other"));
        assert_eq!(server.put(&wrong, &value).status, 400, "{length}");
        assert_eq!(server.get(&wrong).status, 404, "{length}");
        assert_eq!(server.put(&right, &value).status, 200, "{length}");
        assert!(server.get(&right).body == value, "{length}");
    }
    assert_eq!(server.put("cas/name", "v").status, 400);
}
