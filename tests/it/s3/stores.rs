//! The stores of the tests themselves: both answer signed requests alike, and the one in memory fails where it is told to.

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Fault, Keys, Stub, VersityGw};

/// A real store, where there is one, and the one in memory.
#[test]
fn both_keep_objects_decide_conditions_list_in_byte_order_and_check_what_they_receive() {
    let (real, stub) = (VersityGw::start(1), Stub::start());
    let real = real.as_ref().map(|store| &store.bucket);
    for bucket in real.into_iter().chain([&stub.bucket]) {
        keeps_and_decides(bucket);
        lists_and_refuses(bucket);
        checks_trailers(bucket);
    }
}

fn keeps_and_decides(bucket: &Bucket) {
    let put = |lines: &str, value: &[u8]| bucket.ask("PUT", "folder/a key", lines, value);
    assert_eq!(put("If-Match: \"x\"\r\n", b"none").status, 404);
    let first = put(
        "If-None-Match: *\r\nx-amz-meta-one: 1\r\nContent-Type: text/plain\r\n",
        b"first",
    );
    assert_eq!(first.status, 200);
    assert_eq!(first.must("etag"), "\"8b04d5e3775d298e78455efc5ca404d5\"");
    assert_eq!(put("If-None-Match: *\r\n", b"second").status, 412);
    assert_eq!(put("If-Match: \"x\"\r\n", b"second").status, 412);
    assert_eq!(bucket.read("folder/a key").as_deref(), Some(&b"first"[..]));
    let head = bucket.ask("HEAD", "folder/a key", "", b"");
    assert_eq!(head.status, 200);
    assert_eq!(head.must("x-amz-meta-one"), "1");
    assert_eq!(head.must("content-type"), "text/plain");
    let part = bucket.ask("GET", "folder/a key", "Range: bytes=1-2\r\n", b"");
    let found = (part.status, &part.body[..], part.must("content-range"));
    assert_eq!(found, (206, &b"ir"[..], "bytes 1-2/5"));
    let found = bucket
        .ask("GET", "folder/a key", "Range: bytes=9-\r\n", b"")
        .status;
    assert_eq!(found, 416);
    let same = format!("If-Match: {}\r\n", first.must("etag"));
    assert_eq!(put(&same, b"second").status, 200);
    let found = bucket.ask("DELETE", "folder/a key", &same, b"").status;
    assert_eq!(found, 412);
    assert_eq!(bucket.ask("DELETE", "folder/a key", "", b"").status, 204);
    assert_eq!(bucket.read("folder/a key"), None);
}

fn lists_and_refuses(bucket: &Bucket) {
    let keys = ["B", "a", "a&b <c>", "b/c", "é"];
    for key in keys {
        bucket.beneath("here").place(key, key);
    }
    bucket.place("elsewhere", "");
    let listed = bucket.beneath("here").objects();
    let found: Vec<&str> = listed.iter().map(|item| item.key.as_str()).collect();
    assert_eq!(found, keys);
    assert_eq!(bucket.objects().len(), 6);
    let wrong = "x-amz-checksum-sha256: 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\r\n";
    assert_eq!(bucket.ask("PUT", "wrong", wrong, b"not empty").status, 400);
    assert_eq!(bucket.read("wrong"), None);
    assert_eq!(bucket.multipart_uploads(), 0);
}

fn checks_trailers(bucket: &Bucket) {
    let lines = "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nContent-Encoding: aws-chunked\r\n\
                 x-amz-trailer: x-amz-checksum-crc64nvme\r\nx-amz-decoded-content-length: 9\r\n";
    // The published check value of CRC-64/NVME.
    for (sum, status) in [("rosUhgp5mIg=", 200), ("AAAAAAAAAAA=", 400)] {
        let body = format!("9\r\n123456789\r\n0\r\nx-amz-checksum-crc64nvme:{sum}\r\n\r\n");
        let answer = bucket.ask("PUT", "chunked", lines, body.as_bytes());
        answer.says(status, "");
        assert_eq!(bucket.read("chunked").as_deref(), Some(&b"123456789"[..]));
    }
}

#[test]
fn the_gateways_of_a_store_share_its_objects_and_start_again() {
    let mut store = needed!(VersityGw::start(2));
    let [first, second] =
        [0, 1].map(|gateway| store.bucket.at(&store.bucket.endpoints[gateway..=gateway]));
    first.place("shared", "by both");
    assert_eq!(second.read("shared").as_deref(), Some(&b"by both"[..]));
    store.kill(0);
    assert!(Raw::try_connect(first.endpoints[0]).is_err());
    store.restart(0);
    assert_eq!(first.read("shared").as_deref(), Some(&b"by both"[..]));
}

#[test]
fn the_store_in_memory_fails_where_it_is_told_to() {
    let stub = Stub::start();
    stub.fail("PUT", "key", Fault::Refuse(503, "SlowDown", Some(7)), 1);
    stub.fail("PUT", "key", Fault::FailDone(500), 1);
    let refused = stub.bucket.ask("PUT", "key", "", b"refused");
    assert_eq!((refused.status, refused.must("retry-after")), (503, "7"));
    assert_eq!(stub.bucket.read("key"), None);
    assert_eq!(stub.bucket.ask("PUT", "key", "", b"done").status, 500);
    assert_eq!(stub.bucket.read("key").as_deref(), Some(&b"done"[..]));
    stub.bucket.place("key", "healthy");
    assert_eq!(stub.asked_for("PUT", "key").len(), 3);
    stub.accept(&[Keys::new("other", "secret")]);
    assert_eq!(stub.bucket.ask("GET", "key", "", b"").status, 403);
}

#[test]
fn the_store_in_memory_lies_where_it_is_told_to() {
    let stub = Stub::lying(lies!(ignores_create, ignores_delete));
    for (method, lines, status) in [
        ("PUT", "If-None-Match: *\r\n", 200),
        ("PUT", "If-Match: \"x\"\r\n", 412),
        ("DELETE", "If-Match: \"x\"\r\n", 204),
    ] {
        let answer = stub.bucket.ask(method, "key", lines, b"");
        assert_eq!(answer.status, status, "{method} {lines}");
    }
}
