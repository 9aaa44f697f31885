//! The stores of the tests themselves: both answer signed requests alike, and the one in memory fails where it is told to.

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Fault, Keys, Stub, VersityGw};

/// Runs `test` on a real store, where there is one, and on the one in memory.
fn each(test: impl Fn(&Bucket)) {
    if let Some(store) = VersityGw::start(1) {
        test(&store.bucket);
    }
    test(&Stub::start().bucket);
}

fn status(answer: &Response) -> u16 {
    answer.status
}

#[test]
fn both_keep_objects_and_decide_conditions() {
    each(|bucket| {
        let put = |lines: &str, value: &[u8]| bucket.ask("PUT", "folder/a key", lines, value);
        assert_eq!(status(&put("If-Match: \"x\"\r\n", b"none")), 404);
        let first = put(
            "If-None-Match: *\r\nx-amz-meta-one: 1\r\nContent-Type: text/plain\r\n",
            b"first",
        );
        assert_eq!(first.status, 200);
        assert_eq!(first.must("etag"), "\"8b04d5e3775d298e78455efc5ca404d5\"");
        assert_eq!(status(&put("If-None-Match: *\r\n", b"second")), 412);
        assert_eq!(status(&put("If-Match: \"x\"\r\n", b"second")), 412);
        assert_eq!(bucket.read("folder/a key").as_deref(), Some(&b"first"[..]));
        let head = bucket.ask("HEAD", "folder/a key", "", b"");
        assert_eq!(
            (
                head.status,
                head.must("x-amz-meta-one"),
                head.must("content-type")
            ),
            (200, "1", "text/plain")
        );
        let part = bucket.ask("GET", "folder/a key", "Range: bytes=1-2\r\n", b"");
        let found = (part.status, &part.body[..], part.must("content-range"));
        assert_eq!(found, (206, &b"ir"[..], "bytes 1-2/5"));
        let found = status(&bucket.ask("GET", "folder/a key", "Range: bytes=9-\r\n", b""));
        assert_eq!(found, 416);
        let same = format!("If-Match: {}\r\n", first.must("etag"));
        assert_eq!(status(&put(&same, b"second")), 200);
        let found = status(&bucket.ask("DELETE", "folder/a key", &same, b""));
        assert_eq!(found, 412);
        assert_eq!(status(&bucket.ask("DELETE", "folder/a key", "", b"")), 204);
        assert_eq!(bucket.read("folder/a key"), None);
    });
}

#[test]
fn both_list_in_byte_order_and_refuse_wrong_checksums() {
    each(|bucket| {
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
    });
}

#[test]
fn both_check_the_trailer_of_an_upload_in_chunks() {
    let lines = "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nContent-Encoding: aws-chunked\r\n\
                 x-amz-trailer: x-amz-checksum-crc64nvme\r\nx-amz-decoded-content-length: 9\r\n";
    each(|bucket| {
        // The published check value of CRC-64/NVME.
        for (sum, status) in [("rosUhgp5mIg=", 200), ("AAAAAAAAAAA=", 400)] {
            let body = format!("9\r\n123456789\r\n0\r\nx-amz-checksum-crc64nvme:{sum}\r\n\r\n");
            let answer = bucket.ask("PUT", "chunked", lines, body.as_bytes());
            let found = answer.status;
            assert_eq!(found, status, "{}", String::from_utf8_lossy(&answer.body));
            assert_eq!(bucket.read("chunked").as_deref(), Some(&b"123456789"[..]));
        }
    });
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
    stub.bucket.place("key", "first");
    assert_eq!(
        stub.bucket
            .ask("PUT", "key", "If-None-Match: *\r\n", b"second")
            .status,
        200
    );
    assert_eq!(
        stub.bucket
            .ask("PUT", "key", "If-Match: \"x\"\r\n", b"third")
            .status,
        412
    );
    assert_eq!(
        stub.bucket
            .ask("DELETE", "key", "If-Match: \"x\"\r\n", b"")
            .status,
        204
    );
}
