//! What stands around the values: metrics, readiness, and the options.

use super::serve_plainly;
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub};

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
    let text = server.get("-/metrics").text();
    let sum = |name: &str| -> f64 {
        let is_of = |line: &&str| line.split([' ', '{']).next() == Some(name);
        let values = text.lines().filter(is_of);
        let values = values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    };
    assert!(sum("data_server_store_retries_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_unknown_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_resolved_total") >= 1.0, "{text}");
    assert!(sum("data_server_store_requests_total") >= 5.0, "{text}");
    let is_right = sum("data_server_store_time_to_head_seconds_count") >= 5.0;
    assert!(is_right, "{text}");
    assert!(text.contains("data_server_store_requests_active"), "{text}");
}

#[test]
fn the_connections_to_the_store_are_counted() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &["--threads", "1"]);
    let connections = || {
        let text = server.get("-/metrics").text();
        ["open", "idle"].map(|which| -> u64 {
            let name = format!("data_server_store_connections_{which} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            value.expect("a gauge").parse().expect("a number")
        })
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
    assert!(
        event.field("error").contains("403"),
        "{}",
        event.field("error")
    );
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
    for (option, value) in [
        ("--dir", "/tmp"),
        ("--cache", "1MiB"),
        ("--durability", "os"),
        ("--min-free", "1MiB"),
        ("--listing-index", "1MiB"),
        ("--compress", ""),
        ("--compat", ""),
    ] {
        let args = [option, value].into_iter().filter(|word| !word.is_empty());
        let args: Vec<&str> = args.collect();
        let ended = Launch::new(&args).on_bucket(&stub.bucket).run();
        assert_eq!(ended.code, Some(2), "{option}: {}", ended.stderr);
        let line = format!("{option} cannot be had with --store: ");
        assert!(ended.stderr.contains(&line), "{option}: {}", ended.stderr);
    }
    assert_eq!(stub.asked().len(), 0, "the store is not asked");
    for store in ["http://bucket", "s3://", "s3://b", "s3://bucket/../x"] {
        let ended = Launch::new(&["--store", store, "--listen", "127.0.0.1:0"])
            .bare()
            .run();
        assert_eq!(ended.code, Some(2), "{store}: {}", ended.stderr);
        let is_right = ended.stderr.contains("--store");
        assert!(is_right, "{store}: {}", ended.stderr);
    }
}
