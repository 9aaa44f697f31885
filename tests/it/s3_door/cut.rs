//! A body that breaks off, of any framing and anywhere, leaves the old value and never looks whole.

use super::element;
use super::signed::{CHUNKED, UNSIGNED, ann, chunked, holds, lines_of, request, start};
use crate::support::policy::bearer;
use crate::support::prelude::*;
use crate::support::s3::Unsigned;

/// Sends the request, and of its body all before `at`; hangs up once the server has that.
fn cut(server: &TestServer, of: &Unsigned<'_>, signature: &str, body: &[u8], at: usize) {
    let target = [of.path, of.query].join(if of.query.is_empty() { "" } else { "?" });
    let (method, lines, len) = (of.method, of.lines, body.len());
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: t\r\nContent-Length: {len}\r\n{lines}{signature}\r\n"
    );
    let at_rest = server.in_flight();
    let mut raw = server.connect();
    raw.send([head.as_bytes(), &body[..at]].concat());
    eventually("the server has it", || raw.is_taken());
    holds(server, b"old");
    drop(raw);
    eventually("it is over", || server.in_flight() <= at_rest);
}

#[test]
fn a_body_that_breaks_off_leaves_the_old_value() {
    directory_only!("buckets");
    let server = start(&[]);
    let old = server.request(
        "PUT",
        "/b/key",
        &format!("Content-Length: 3\r\n{}", bearer("ann")),
        b"old",
    );
    assert_eq!(old.status, 200);
    let names = server.dir.names();
    for len in [5, 250_000, 700_000] {
        let value = pattern(len as u64, len);
        for payload in CHUNKED.into_iter().chain([UNSIGNED]) {
            let is_plain = payload == UNSIGNED;
            let lines = if is_plain {
                String::new()
            } else {
                lines_of(payload, len)
            };
            let of = request("PUT", "/b/key", &lines, payload);
            let signature = ann().sign(&of);
            let body = if is_plain {
                value.clone()
            } else {
                chunked(&of, &signature, &value)
            };
            // In the first line, in a chunk, behind one, in the last line, before its end.
            let end = body.len();
            for at in [1, end / 2, 100_095, end - 4, end - 1] {
                if at >= end {
                    continue;
                }
                cut(&server, &of, &signature, &body, at);
                holds(&server, b"old");
            }
        }
    }
    assert_eq!(server.dir.names(), names);
    let staging = server.dir.staging();
    eventually("nothing is staged", || {
        fs::read_dir(&staging).map_or(true, |mut found| found.next().is_none())
    });
}

#[test]
fn a_part_that_breaks_off_is_none() {
    directory_only!("uploads in parts");
    let server = start(&[]);
    let lines = format!("Content-Length: 3\r\n{}", bearer("ann"));
    server.request("PUT", "/b/key", &lines, b"old");
    let lines = format!("Content-Length: 0\r\n{}", bearer("ann"));
    let begun = ask(&mut server.connect(), "POST", "/b/key?uploads", &lines, b"").text();
    let query = format!("partNumber=1&uploadId={}", element(&begun, "UploadId"));
    let value = pattern(3, 250_000);
    for payload in CHUNKED {
        let lines = lines_of(payload, value.len());
        let of = Unsigned {
            query: &query,
            ..request("PUT", "/b/key", &lines, payload)
        };
        let signature = ann().sign(&of);
        let body = chunked(&of, &signature, &value);
        for at in [body.len() / 2, body.len() - 3] {
            cut(&server, &of, &signature, &body, at);
        }
    }
    let target = format!("/b/key?{}", &query["partNumber=1&".len()..]);
    let listed = server.request("GET", &target, &bearer("ann"), b"").text();
    assert!(
        listed.contains("<IsTruncated>false") && !listed.contains("<Part>"),
        "{listed}"
    );
}
