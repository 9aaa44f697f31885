//! Requests of clients of S3 and Azure that mean something else were taken for a plain PUT or DELETE and answered 200:
//! a copy emptied the value, a tag replaced it, the end of a multipart upload removed it. A checksum that clients of S3
//! send was not compared. Proves that such a request is refused and leaves the value, and that its user is told why.
//! `src/http/values/other_store.rs` has each parameter and field, and those that change nothing.

use crate::support::prelude::*;

const SIGNED: &str =
    "Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c\r\n";

/// Asks for this of a server whose `b/k` is `precious`, and asserts that it still is.
#[track_caller]
fn refused(server: &TestServer, method: &str, target: &str, lines: &str, body: &[u8]) -> Response {
    server.store("b/k", "precious");
    let lines = if method == "POST" {
        format!("Content-Length: {}\r\n{lines}", body.len())
    } else {
        lines.to_owned()
    };
    let answer = server.request(method, target, &lines, body);
    let what = format!("{method} {target} {lines}");
    assert_eq!(server.get("b/k").body, b"precious", "after {what}");
    assert!(answer.status >= 400, "{}: {what}", answer.status);
    answer
}

#[test]
fn what_clients_of_other_stores_ask_for_replaces_and_removes_nothing() {
    let server = TestServer::start(&[]);
    let asked = "
        PUT /b/k ; x-amz-copy-source: b/other
        PUT /b/k?tagging
        DELETE /b/k?uploadId=u
        DELETE /b/k?%76ersionId=v
        POST /b/k?uploads
        PUT /b/k ; x-ms-version: 2026-02-06|x-ms-blob-type: AppendBlob
        DELETE /b/k?generation=1 ; x-goog-api-client: x
        DELETE /b/k ; x-amz-if-match-size: 99999
        PUT /b/k ; x-amz-server-side-encryption-customer-algorithm: AES256
        PUT /b/k ; x-amz-of-tomorrow: 1
        GET /b/k ; x-ms-range: bytes=0-1";
    for [request, lines] in table(asked) {
        let (method, target) = request.split_once(' ').expect("both");
        let lines = lines.split_terminator('|');
        let lines = lines.map(|line| format!("{line}\r\n"));
        let lines = &lines.collect::<String>();
        let answer = refused(&server, method, target, lines, b"other");
        answer.says(501, "this server is no S3 or Azure store");
    }
}

#[test]
fn what_is_signed_for_s3_works_for_one_object_or_is_told_why_not() {
    let server = TestServer::start(&[]);
    let mut raw = server.connect();
    let mut signed = |method, target, body: &[u8]| ask(&mut raw, method, target, SIGNED, body);
    assert_eq!(signed("PUT", "/b/k?x-id=PutObject", b"v").status, 200);
    assert_eq!(signed("GET", "/b/k?x-id=GetObject", b"").body, b"v");
    assert_eq!(signed("HEAD", "/b/k", b"").status, 200);
    assert_eq!(signed("DELETE", "/b/k", b"").status, 200);
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/b?list-type=2&prefix="),
        ("GET", "/b/?location"),
        ("GET", "/b/k?tagging"),
        ("POST", "/b?delete"),
        // Buckets: as values of these names, they would leave no room for keys below.
        ("PUT", "/bucket"),
        ("DELETE", "/bucket"),
    ] {
        let answer = refused(&server, method, target, SIGNED, b"");
        answer.says(501, "<Message>this server is no S3 store");
        // The form in which clients show the sentence to their users.
        assert_eq!(answer.must("content-type"), "application/xml");
    }
    assert_eq!(server.get("bucket").status, 404);
    let link = "/b/k?acl&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=c";
    assert_eq!(refused(&server, "GET", link, "", b"").status, 501);
}

#[test]
fn a_signature_of_s3_is_no_wrong_password() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let rules = "[[rule]]\nwho = [\"anonymous\"]\nprefix = \"\"\nmay = [\"read\", \"create\"]\n";
    std::fs::write(file.path(), rules).expect("rules");
    let server = Launch::new(&["--access", file.path().to_str().expect("a path")]).start();
    for _ in 0..40 {
        let answer = server.request("GET", "/b/k", SIGNED, b"");
        answer.says(501, "checks no signatures of S3");
    }
}

#[test]
fn the_checksums_of_s3_are_compared_and_those_that_cannot_be_are_refused() {
    let server = TestServer::start(&[]);
    // Of `123456789`: the check values of the catalogue of CRCs, and digests by Python.
    let right = "
        x-amz-checksum-crc32 ; y/Q5Jg==
        x-amz-checksum-crc32c ; 4waSgw==
        x-amz-checksum-crc64nvme ; rosUhgp5mIg=
        x-amz-checksum-sha1 ; 98O8HYCOBHMq32eZZczDTKeuNEE=
        x-amz-checksum-sha256 ; FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=
        x-amz-content-sha256 ; 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
    for [name, right] in table(right) {
        let lines = format!("{name}: {right}\r\n");
        let good = server.request("PUT", "/b/c", &lines, b"123456789");
        assert_eq!(good.status, 200, "{name}: {}", good.text());
        let wrong = refused(&server, "PUT", "/b/k", &lines, b"123456780");
        assert_eq!(wrong.status, 400, "{name}");
    }
    for name in ["crc32", "sha1", "sha256"] {
        let lines = format!("x-amz-checksum-{name}: AAA=\r\n");
        let status = refused(&server, "PUT", "/b/k", &lines, b"1").status;
        assert_eq!(status, 400, "{name}");
    }
    let two = "x-amz-checksum-crc32: y/Q5Jg==\r\nx-amz-checksum-crc32c: 4waSgw==\r\n";
    let status = refused(&server, "PUT", "/b/k", two, b"123456789").status;
    assert_eq!(status, 400);
    let unknown = "x-amz-checksum-xxhash64: AAAAAAAAAAA=\r\n";
    let answer = refused(&server, "PUT", "/b/k", unknown, b"123456789");
    answer.says(501, "cannot check x-amz-checksum-xxhash64");
    // What says how a checksum was made is none.
    let lines = "x-amz-checksum-type: FULL_OBJECT\r\nx-amz-sdk-checksum-algorithm: CRC32\r\n";
    assert_eq!(server.request("PUT", "/b/c", lines, b"v").status, 200);
}

#[test]
fn a_body_in_the_framing_of_s3_is_refused_however_it_says_so() {
    let server = TestServer::start(&[]);
    for lines in [
        "Content-Encoding: aws-chunked\r\n",
        "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n",
    ] {
        let answer = refused(&server, "PUT", "/b/k", lines, b"1\r\nx\r\n0\r\n\r\n");
        answer.says(415, "request_checksum_calculation = when_required");
    }
}
