//! Resumable uploads over a bucket: received in pieces of any length, by any server, and nothing is left of those that end.

use super::{each, reason, send, serve, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Bucket, Stub, VersityGw};

const MIB: usize = 1 << 20;

/// What servers keep of uploads in the bucket.
fn kept(bucket: &Bucket) -> Vec<String> {
    let names = bucket.objects().into_iter().map(|object| object.key);
    let kept = names.filter(|name| name.starts_with(".data-server/"));
    kept.collect()
}

fn nothing_is_left(bucket: &Bucket) {
    let comes = || kept(bucket).is_empty() && bucket.multipart_uploads() == 0;
    eventually("nothing is left in the bucket", comes);
}

fn kill(mut server: TestServer) {
    server.signal(Signal::KILL);
    assert_eq!(server.exit(), None);
}

/// Appends `value` from `offset` on in pieces of these lengths, the last of which is its rest.
fn append(server: &TestServer, upload: &Resumable, value: &[u8], from: usize, lens: &[usize]) {
    let (raw, mut offset) = (&mut server.connect(), from);
    for &len in lens {
        let answer = upload.append(raw, offset, false, &value[offset..offset + len]);
        assert_eq!(answer.status, 204, "{answer:?}");
        offset += len;
        assert_eq!(answer.must("upload-offset"), offset.to_string());
        assert_eq!(upload.offset(raw), offset);
    }
    let stored = upload.append(raw, offset, true, &value[offset..]);
    assert_eq!(stored.status, 200, "{stored:?}");
    assert_eq!(stored.must("upload-complete"), "?1");
    let got = server.get("a/k");
    assert!(got.body == value, "{lens:?}");
    assert_eq!(got.must("etag"), stored.must("etag"));
    let state = upload.state(raw);
    assert_eq!(state.must("upload-complete"), "?1");
    assert_eq!(state.must("upload-offset"), value.len().to_string());
}

#[test]
fn a_value_comes_in_pieces_of_any_length() {
    each("pieces", |server, bucket| {
        for (seed, (len, lens)) in (1..).zip([
            (0, vec![]),
            (10, vec![0, 3, 1]),
            (300_000, vec![1, 100_000, 70_000]),
            (6 * MIB, vec![5 * MIB - 1, 1, 7]),
            (7 * MIB, vec![MIB, 4 * MIB + 1]),
            (18 * MIB, vec![17 * MIB]),
        ]) {
            let value = pattern(seed, len);
            let lines = "Content-Type: text/x-own\r\nContent-Language: de\r\n";
            let upload = Resumable::create(&mut server.connect(), "a/k", lines, b"");
            append(server, &upload, &value, 0, &lens);
            let head = server.ask("HEAD", "a/k");
            assert_eq!(head.must("content-type"), "text/x-own");
            assert_eq!(head.must("content-language"), "de");
            assert_eq!(upload.cancel(&mut server.connect()).status, 204);
            assert!(server.get("a/k").body == value, "what is published stays");
            nothing_is_left(bucket);
        }
    });
}

#[test]
fn an_upload_goes_on_at_another_server_also_after_a_kill() {
    each("another", |first, bucket| {
        let value = pattern(1, 12 * MIB);
        let length = format!("Upload-Length: {}\r\n", value.len());
        let upload = Resumable::create(&mut first.connect(), "a/k", &length, &value[..100]);
        let second = serve(bucket, &[]);
        let raw = &mut second.connect();
        let state = upload.state(raw);
        assert_eq!(state.must("upload-length"), value.len().to_string());
        let part = &value[100..7 * MIB];
        assert_eq!(upload.append(raw, 100, false, part).status, 204);
        kill(second);
        let raw = &mut first.connect();
        assert_eq!(upload.offset(raw), 7 * MIB);
        let part = &value[7 * MIB..8 * MIB];
        assert_eq!(upload.append(raw, 7 * MIB, false, part).status, 204);
        let third = serve(bucket, &[]);
        append(&third, &upload, &value, 8 * MIB, &[MIB]);
    });
}

#[test]
fn what_was_sent_to_the_store_of_a_long_part_is_there_after_a_kill() {
    each("killed", |first, bucket| {
        let value = pattern(1, 18 * MIB);
        let upload = Resumable::create(&mut first.connect(), "a/k", "", b"");
        let second = serve(bucket, &[]);
        let mut raw = second.connect();
        raw.send(upload.append_head(0, true, value.len()));
        raw.send(&value[..17 * MIB]);
        let comes = || upload.offset(&mut first.connect()) >= 16 * MIB;
        eventually("some of it is kept", comes);
        kill(second);
        let offset = upload.offset(&mut first.connect());
        assert_eq!(offset, 16 * MIB);
        append(first, &upload, &value, offset, &[]);
    });
}

#[test]
fn of_two_servers_that_append_at_once_one_does() {
    each("race", |first, bucket| {
        let second = &serve(bucket, &[]);
        for (round, len) in (1..).zip([1000, 1000, 6 * MIB]) {
            let values = [pattern(round, len), pattern(round + 100, len)];
            let upload = &Resumable::create(&mut first.connect(), "a/k", "", b"");
            let statuses = thread::scope(|scope| {
                let racers = [(first, &values[0]), (second, &values[1])];
                let racers = racers.map(|(server, value)| {
                    let append = move || upload.append(&mut server.connect(), 0, false, value);
                    scope.spawn(move || append().status)
                });
                racers.map(|racer| racer.join().expect("an answer"))
            });
            let won = statuses.iter().position(|&status| status == 204);
            let won = won.unwrap_or_else(|| panic!("{statuses:?}"));
            assert_eq!(statuses[1 - won], 409, "{statuses:?}");
            append(second, upload, &values[won], len, &[]);
        }
    });
}

#[test]
fn a_cancelled_upload_leaves_nothing() {
    each("cancelled", |server, bucket| {
        for len in [0, 1000, 7 * MIB] {
            let raw = &mut server.connect();
            let upload = Resumable::create(raw, "a/k", "", &pattern(1, len));
            assert!(!kept(bucket).is_empty());
            for list in ["", "?delimiter=/"] {
                let keys = String::from_utf8(server.get(list).body).expect("text");
                assert!(!keys.contains(".data-server"), "it is no value: {keys}");
            }
            assert_eq!(upload.cancel(raw).status, 204);
            assert_eq!(upload.cancel(raw).status, 404);
            assert_eq!(upload.state(raw).status, 404);
            nothing_is_left(bucket);
        }
    });
}

#[test]
fn an_upload_that_its_client_never_heard_of_leaves_nothing() {
    each("unheard", |server, bucket| {
        let mut raw = server.connect();
        raw.send(
            "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\nUpload-Complete: ?0\r\n\r\n",
        );
        raw.send(pattern(1, 7 * MIB));
        eventually("it is there", || !kept(bucket).is_empty());
        raw.finish();
        assert_eq!(raw.head().status, 400);
        nothing_is_left(bucket);
    });
}

#[test]
fn uploads_expire_with_all_that_they_have() {
    let test = |bucket: &Bucket| {
        let server = serve(bucket, &["--upload-expiry", "2s"]);
        let uploads = [10, 7 * MIB].map(|len| {
            let raw = &mut server.connect();
            Resumable::create(raw, "a/k", "", &pattern(1, len))
        });
        nothing_is_left(bucket);
        for upload in uploads {
            assert_eq!(upload.state(&mut server.connect()).status, 404);
        }
        let upload = Resumable::create(&mut server.connect(), "a/k", "", b"x");
        let status = upload.append(&mut server.connect(), 1, true, b"y").status;
        assert_eq!(status, 200);
        nothing_is_left(bucket);
        assert_eq!(server.get("a/k").body, b"xy");
        let scrape = Scrape::of(server.addr);
        assert_eq!(scrape.count("data_server_uploads_expired_total", &[]), 2);
        assert_eq!(scrape.count("data_server_uploads_unfinished", &[]), 0);
    };
    // Both stores at once: most of the time is the server's, between two searches.
    std::thread::scope(|both| {
        if let Some(store) = VersityGw::shared() {
            both.spawn(move || test(&store.bucket.beneath("expiry")));
        }
        test(&Stub::start().bucket);
    });
}

/// A start ended all uploads in parts that had begun a day before, whichever program had begun them.
#[test]
fn a_start_ends_no_upload_in_parts_of_another_program() {
    // All its uploads in parts began in the year 2000.
    let stub = Stub::start();
    stub.bucket.begin_multipart("other");
    let server = serve(&stub.bucket, &["--upload-expiry", "2s"]);
    Resumable::create(&mut server.connect(), "a/k", "", &pattern(1, 7 * MIB));
    assert_eq!(stub.bucket.multipart_uploads(), 2);
    server.event("resumable uploads that expired are removed");
    assert_eq!(stub.bucket.multipart_uploads(), 1, "the other's is there");
}

#[test]
fn a_store_without_conditions_has_no_uploads() {
    let stub = Stub::start();
    let server = serve_plainly(&stub.bucket, &[]);
    let refused = send(&server, "PUT", "k", "Upload-Complete: ?0\r\n", b"x");
    assert_eq!(refused.status, 501);
    assert_eq!(reason(&refused), "no-resumable-uploads");
    let path = "-/uploads/0123456789abcdef0123456789abcdef";
    assert_eq!(send(&server, "HEAD", path, "", b"").status, 501);
    for of in ["k", path] {
        let options = send(&server, "OPTIONS", of, "", b"");
        assert_eq!(options.status, 204);
        assert_eq!(options.header("upload-limit"), None, "{of}");
    }
    let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
    let stored = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"whole");
    assert_eq!((stored.status, stored.must("upload-complete")), (200, "?1"));
    assert_eq!(server.get("k").body, b"whole");
    assert_eq!(kept(&stub.bucket), [""; 0]);
}
