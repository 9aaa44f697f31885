//! A body that breaks off, of any framing and anywhere, leaves the old value and never looks whole.

use super::element;
use super::signed::{CHUNKED, UNSIGNED, ann, chunked, holds, lines_of, request, start};
use crate::support::policy::bearer;
use crate::support::prelude::*;
use crate::support::s3::Unsigned;
use crate::support::{Http2, Leave};

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

/// How a stream of HTTP/2 breaks off.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// The client ends it too early.
    End,
    /// The client resets it.
    Cancel,
    /// Its connection goes.
    Connection(Leave),
}

/// As `cut`, over HTTP/2.
fn cut_stream(server: &TestServer, of: &Unsigned<'_>, lines: &str, body: &[u8], how: Break) {
    let lines = [of.lines, lines].concat();
    let fields = lines.lines().map(|line| {
        let (name, value) = line.split_once(':').expect("a field");
        (name.to_ascii_lowercase(), value.trim())
    });
    let fields: Vec<_> = fields.collect();
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (&**name, *value))
        .collect();
    let mut client = Http2::connect(server.addr);
    let uri = format!("http://t{}", of.path);
    let asked = client.ask(of.method, &uri, &fields, false);
    let mut asked = asked.expect("a stream");
    let sent = asked.send(body.to_vec(), matches!(how, Break::End));
    sent.expect("sent");
    // What is answered later came later.
    assert_eq!(client.get("b/open").status, 200);
    match how {
        Break::End => {
            let answer = asked.answer();
            let is_refused = |status| (400..500).contains(&status);
            assert!(answer.is_err() || answer.is_ok_and(|it| is_refused(it.status)));
        }
        Break::Cancel => drop(asked),
        Break::Connection(leave) => drop(client.leave(leave)),
    }
}

/// Begins with an old value, and has each request that stores another broken off by `cut`: its body, and a place in it.
fn each_cut(mut cut: impl FnMut(&TestServer, &Unsigned<'_>, &str, &[u8], usize)) {
    let server = start(&["--http2-clear"]);
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
                if at < end {
                    cut(&server, &of, &signature, &body, at);
                    holds(&server, b"old");
                }
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
fn a_body_that_breaks_off_leaves_the_old_value() {
    directory_only!("buckets");
    each_cut(cut);
}

#[test]
fn a_body_that_breaks_off_over_http2_leaves_the_old_value() {
    directory_only!("buckets");
    let breaks = [
        Break::End,
        Break::Cancel,
        Break::Connection(Leave::Reset),
        Break::Connection(Leave::Fin),
    ];
    each_cut(|server, of, signature, body, at| {
        // What has a length of its own says so: the end of a stream is the end of other bodies.
        let length = format!("Content-Length: {}\r\n{signature}", body.len());
        let lines = if of.payload == UNSIGNED {
            &length
        } else {
            signature
        };
        for how in breaks {
            cut_stream(server, of, lines, &body[..at], how);
            holds(server, b"old");
        }
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
