//! What the server answers when the store refuses, fails or does not answer: each status, its reason, and how long it
//! takes.

use super::{reason, send, serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub};

use Fault::{FailDone, LoseDone, LoseUndone, Overtake, Refuse, StallDone, StallUndone};

/// More often than any request is sent.
const ALWAYS: usize = 1000;

#[test]
fn each_failure_of_the_store_has_its_status() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &["--s3-timeout", "1s"]);
    server.store("key", "old");
    // What the store answers; and the server, to a GET and to a PUT.
    let refusals = "
        403 AccessDenied ; 500 store-refused
        404 NoSuchBucket ; 500 store-refused
        301 PermanentRedirect ; 500 store-refused
        503 SlowDown ; 503 store-busy
        429 TooManyRequests ; 503 store-busy
        409 ConditionalRequestConflict ; 503 store-busy
        409 ObjectParentIsFile ; 409 occupied
        507 InsufficientStorage ; 507 no-space
        400 QuotaExceeded ; 507 no-space
        400 EntityTooLarge ; 507 no-space
        500 InternalError ; 502 store-failed ; 502 outcome-unknown
        502 ; 502 store-failed ; 502 outcome-unknown";
    let refusals = table(refusals).map(|[refusal, get, put]| {
        let (status, code) = refusal.split_once(' ').unwrap_or((refusal, ""));
        let status = status.parse().expect("a status");
        let wait = (status == 503).then_some(9);
        (
            Refuse(status, code, wait),
            [get, if put.is_empty() { get } else { put }],
        )
    });
    let silences = [
        (LoseUndone, ["502 store-failed", "502 outcome-unknown"]),
        (StallUndone, ["504 store-timeout", "504 outcome-unknown"]),
    ];
    for (fault, answers) in refusals.chain(silences) {
        for (method, expected) in ["GET", "PUT"].into_iter().zip(answers) {
            let what = format!("{method}: {fault:?}");
            stub.fail(method, "key", fault.clone(), ALWAYS);
            let since = Instant::now();
            let answer = send(&server, method, "key", "", b"new");
            let took = since.elapsed();
            stub.heal();
            let found = format!("{} {}", answer.status, reason(&answer));
            assert_eq!(found, expected, "{what}");
            assert!(took < Duration::from_secs(60), "{what} took {took:?}");
            let waits = answer.header("retry-after");
            assert_eq!(waits.is_some(), answer.status == 503, "{what}");
            if let Refuse(503, _, Some(_)) = fault {
                assert_eq!(waits, Some("9"));
            }
            assert_eq!(server.get("key").body, b"old", "{what}");
        }
    }
    // A conflict without Retry-After is over sooner than a second.
    let conflict = Refuse(409, "ConditionalRequestConflict", None);
    stub.fail("PUT", "swapped", conflict, 4);
    assert_eq!(send(&server, "PUT", "swapped", "", b"new").status, 200);
    assert_eq!(stub.asked_for("PUT", "swapped").len(), 5);
}

#[test]
fn a_refusal_says_its_code_to_the_log_alone() {
    let stub = Stub::start();
    let mut server = serve_plainly(&stub.bucket, &[]);
    let refuse = Refuse(403, "AccessDeniedForThisKey", None);
    stub.fail("GET", "key", refuse, ALWAYS);
    let answer = send(&server, "GET", "key", "", b"");
    assert!(!String::from_utf8_lossy(&answer.body).contains("AccessDeniedForThisKey"));
    server.stop();
    let log = server.log().join("\n");
    assert!(log.contains("AccessDeniedForThisKey"), "{log}");
}

#[test]
fn a_write_that_was_made_is_acknowledged_although_its_answer_is_lost() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &["--s3-timeout", "1s"]);
    for len in [10, 300_000] {
        for (n, fault) in [
            FailDone(500),
            FailDone(504),
            // It asks for patience, and has made it: the retry meets its own write.
            FailDone(503),
            FailDone(429),
            LoseDone,
            StallDone,
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("key-{len}-{n}");
            let value = vec![b'v'; len];
            stub.fail("PUT", &key, fault.clone(), 1);
            let answer = send(&server, "PUT", &key, "If-None-Match: *\r\n", &value);
            let said = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.status, 200, "{len} {fault:?}: {said}");
            assert_eq!(answer.must("etag"), server.get(&key).must("etag"));
            let count = stub.asked_for("PUT", &key).len();
            // A value that is sent as it comes can be sent once.
            let is_retried = len == 10 && matches!(fault, FailDone(429 | 503));
            assert_eq!(count, 1 + usize::from(is_retried), "{len} {fault:?}");
        }
    }
}

/// The store made the write and said that it is busy. What comes then does not tell that the write was not made.
#[test]
fn a_write_that_was_perhaps_made_is_not_said_to_have_failed() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &["--s3-timeout", "1s"]);
    let denied = Refuse(403, "AccessDenied", None);
    // The first answer, those to its retries, and those to HEAD after it.
    let faults = [
        [FailDone(503), Fault::None, Refuse(503, "", Some(0))],
        [FailDone(503), denied, Refuse(503, "", Some(0))],
        // Without an entity tag.
        [FailDone(200), Fault::None, Refuse(503, "", Some(0))],
        [FailDone(503), LoseUndone, LoseUndone],
        [Overtake(503), Fault::None, Fault::None],
        [Overtake(503), Refuse(503, "", Some(0)), Fault::None],
        [Refuse(503, "", Some(9)), Fault::None, LoseUndone],
    ];
    // Sent from memory, sent as it comes, and from a file.
    for (len, coding) in [(10, ""), (300_000, ""), (300_000, "chunked")] {
        for (n, [first, retries, heads]) in faults.iter().enumerate() {
            let key = format!("key-{len}-{coding}-{n}");
            server.store(&key, "old");
            let tag = server.get(&key).must("etag").to_owned();
            // A longer value under a condition is sent after a HEAD.
            stub.fail("HEAD", &key, Fault::None, usize::from(len > 10));
            stub.fail("HEAD", &key, heads.clone(), ALWAYS);
            stub.fail("PUT", &key, first.clone(), 1);
            stub.fail("PUT", &key, retries.clone(), ALWAYS);
            let value = vec![b'v'; len];
            let mut raw = server.connect();
            let (field, body) = match coding {
                "" => (format!("Content-Length: {len}"), value),
                _ => (format!("Transfer-Encoding: {coding}"), {
                    [chunked(value.chunks(70_000)), b"0\r\n\r\n".to_vec()].concat()
                }),
            };
            raw.send(format!(
                "PUT /{key} HTTP/1.1\r\nHost: t\r\nIf-Match: {tag}\r\n\
                 Accept: application/problem+json\r\n{field}\r\n\r\n"
            ));
            raw.send(&body);
            let answer = raw.answer();
            stub.heal();
            let found = (answer.status, &*reason(&answer));
            let what = format!("{len} {coding} {first:?} {retries:?} {heads:?}");
            assert_eq!(found, (502, "outcome-unknown"), "{what}");
        }
    }
}

/// The retry met what the first try had done, and was answered 404 or 412.
#[test]
fn a_removal_that_was_made_is_not_said_to_have_failed_its_condition() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    for status in [503, 429] {
        server.store("k", "value");
        let lines = format!("If-Match: {}\r\n", server.get("k").must("etag"));
        stub.fail("DELETE", "k", FailDone(status), 1);
        let removed = send(&server, "DELETE", "k", &lines, b"");
        let found = (removed.status, &*reason(&removed));
        assert_eq!(found, (502, "outcome-unknown"), "{status}");
        assert_eq!(server.get("k").status, 404);
        server.store("k", "value");
        stub.fail("DELETE", "k", FailDone(status), 1);
        assert_eq!(send(&server, "DELETE", "k", "", b"").status, 200);
    }
    for expected in [200, 502] {
        for heads in [Fault::None, LoseUndone] {
            server.store("k", "value");
            let tag = server.get("k").must("etag").to_owned();
            let condition = (expected == 502).then(|| format!("If-Match: {tag}\r\n"));
            let lines = condition.unwrap_or_default();
            stub.fail("HEAD", "k", Fault::None, 1 + usize::from(expected == 502));
            stub.fail("HEAD", "k", heads.clone(), ALWAYS);
            stub.fail("DELETE", "k", FailDone(503), ALWAYS);
            let answer = send(&server, "DELETE", "k", &lines, b"");
            stub.heal();
            let expected = if heads == Fault::None { expected } else { 502 };
            assert_eq!(answer.status, expected, "{lines} {heads:?}");
        }
    }
    // One that was not made has its own answer.
    server.store("k", "value");
    stub.fail("DELETE", "k", Refuse(503, "", Some(0)), ALWAYS);
    let busy = send(&server, "DELETE", "k", "", b"");
    assert_eq!((busy.status, &*reason(&busy)), (503, "store-busy"));
    stub.heal();
    let other = send(&server, "DELETE", "k", "If-Match: \"x\"\r\n", b"");
    assert_eq!(other.status, 412);
}

#[test]
fn a_store_that_comes_back_is_used_at_once() {
    let mut store = needed!(crate::support::s3::VersityGw::start(1));
    let server = serve_plainly(&store.bucket, &[]);
    server.store("key", "value");
    store.kill(0);
    for method in ["GET", "PUT", "DELETE"] {
        let answer = send(&server, method, "key", "", b"new");
        let found = (answer.status, &*reason(&answer));
        assert_eq!(found, (503, "store-unreachable"), "{method}");
        assert_eq!(answer.must("retry-after"), "1");
    }
    store.restart(0);
    let since = Instant::now();
    eventually("the store is used", || server.get("key").status == 200);
    let is_right = since.elapsed() < Duration::from_secs(20);
    assert!(is_right, "{:?}", since.elapsed());
    assert_eq!(server.get("key").body, b"value");
}

#[test]
fn one_gateway_of_two_is_enough() {
    let mut store = needed!(crate::support::s3::VersityGw::start(2));
    let server = serve_plainly(&store.bucket, &[]);
    server.store("key", "value");
    store.kill(0);
    for n in 0..10 {
        assert_eq!(server.get("key").body, b"value");
        server.store("key", "value");
        let status = send(&server, "PUT", &format!("new-{n}"), "", b"x").status;
        assert_eq!(status, 200);
    }
}

/// HEAD is answered without a body, which would name the bucket.
#[test]
fn a_bucket_that_is_gone_is_no_absent_value() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    server.store("key", "value");
    let gone = Refuse(404, "NoSuchBucket", None);
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        stub.fail(method, "", gone.clone(), ALWAYS);
    }
    for (method, lines) in [
        ("GET", ""),
        ("GET", "If-None-Match: \"x\"\r\n"),
        ("GET", "Range: bytes=0-0\r\nIf-Match: \"x\"\r\n"),
        ("HEAD", ""),
        ("PUT", "If-Match: \"x\"\r\n"),
        ("PUT", "If-Match: *\r\n"),
        ("DELETE", ""),
        ("DELETE", "If-Match: \"x\"\r\n"),
    ] {
        let status = send(&server, method, "key", lines, b"").status;
        assert_eq!(status, 500, "{method} {lines}");
    }
    stub.heal();
    for (method, lines) in [
        ("GET", "If-None-Match: \"x\"\r\n"),
        ("HEAD", ""),
        ("DELETE", ""),
    ] {
        let status = send(&server, method, "absent", lines, b"").status;
        assert_eq!(status, 404, "{method} {lines}");
    }
}

/// HEAD is answered without a body, also at the start.
#[test]
fn the_reason_of_a_store_is_told() {
    let stub = Stub::start();
    let wrong = Refuse(403, "SignatureDoesNotMatch", None);
    for (fault, reason) in [
        (wrong.clone(), "403 SignatureDoesNotMatch: by order"),
        (Fault::Elsewhere("eu-west-1"), "is in the region eu-west-1"),
        // A web server that is no store.
        (Refuse(404, "", None), "is this the endpoint of a store?"),
        (Refuse(404, "NoSuchBucket", None), "cannot use the store"),
    ] {
        for method in ["GET", "HEAD"] {
            stub.fail(method, "", fault.clone(), ALWAYS);
        }
        let launch = Launch::new(&[]).on_bucket(&stub.bucket);
        launch.run().says(1, reason);
        stub.heal();
    }
    let nobody = Launch::new(&[]).on_bucket(&stub.bucket);
    let nobody = nobody.env("AWS_ACCESS_KEY_ID", "").env("HOME", "/none");
    let why = "no credentials: AWS_ACCESS_KEY_ID is not set, ~/.aws has no keys";
    nobody.run().says(1, why);
    let mut other = stub.bucket.clone();
    other.keys = crate::support::s3::Keys::new("unknown", "top-secret-key");
    let refused = Launch::new(&[]).on_bucket(&other).run();
    refused.says(1, "cannot use the store");
    let is_told = refused.stderr.contains("top-secret-key");
    assert!(!is_told, "{}", refused.stderr);
    // While it runs, too.
    let mut server = serve_plainly(&stub.bucket, &[]);
    stub.fail("GET", "key", wrong.clone(), ALWAYS);
    stub.fail("HEAD", "key", wrong, ALWAYS);
    assert_eq!(send(&server, "HEAD", "key", "", b"").status, 500);
    server.stop();
    let log = server.log().join("\n");
    assert!(log.contains("SignatureDoesNotMatch"), "{log}");
}
