//! Resumable uploads over a bucket that break off, that have not their digest, whose preconditions fail, or whose requests
//! to the store are lost.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

use super::{each, each_with, serve};
use crate::support::prelude::*;
use crate::support::s3::{Bucket, Fault, Stub};

const MIB: usize = 1 << 20;

fn digest(value: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(value)))
}

#[test]
fn all_that_arrived_of_a_part_that_breaks_off_is_kept() {
    each("broken", |server, bucket| {
        let value = pattern(1, 6 * MIB + 5);
        let upload = Resumable::create(&mut server.connect(), "k", "", b"");
        for sixteenth in 1..16 {
            let offset = upload.offset(&mut server.connect());
            let end = value.len() / 16 * sixteenth;
            let mut raw = server.connect();
            raw.send(upload.append_head(offset, true, value.len() - offset));
            raw.send(&value[offset..end]);
            raw.finish();
            assert_eq!(raw.head().status, 400);
            assert_eq!(upload.offset(&mut server.connect()), end, "{sixteenth}/16");
        }
        let offset = upload.offset(&mut server.connect());
        let stored = upload.append(&mut server.connect(), offset, true, &value[offset..]);
        assert_eq!(stored.status, 200, "{stored:?}");
        assert!(server.get("k").body == value);
        assert_eq!(bucket.multipart_uploads(), 0);
    });
}

#[test]
fn an_upload_that_was_told_by_a_104_goes_on() {
    each_with("interim", &[], |server, _| {
        let value = pattern(1, 8 * MIB);
        let mut raw = server.connect();
        let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
        let len = value.len();
        raw.send(format!(
            "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: {len}\r\n{lines}\r\n"
        ));
        let interim = raw.head();
        assert_eq!(interim.status, 104);
        let upload = Resumable::of(&interim);
        raw.send(&value[..6 * MIB]);
        raw.finish();
        assert_eq!(raw.head().status, 400);
        assert_eq!(upload.offset(&mut server.connect()), 6 * MIB);
        let stored = upload.append(&mut server.connect(), 6 * MIB, true, &value[6 * MIB..]);
        assert_eq!(stored.status, 200);
        assert!(server.get("k").body == value);
    });
}

#[test]
fn a_request_for_the_offset_ends_a_part_that_hangs() {
    each("hangs", |server, _| {
        let value = pattern(1, 6 * MIB);
        let upload = Resumable::create(&mut server.connect(), "k", "", b"");
        let mut hangs = server.connect();
        hangs.send(upload.append_head(0, true, value.len()));
        hangs.send(&value[..4 * MIB]);
        eventually("it is taken", || hangs.is_taken());
        let offset = upload.offset(&mut server.connect());
        assert_eq!(hangs.head().status, 409);
        let stored = upload.append(&mut server.connect(), offset, true, &value[offset..]);
        assert_eq!(stored.status, 200);
        assert!(server.get("k").body == value);
    });
}

#[test]
fn a_part_that_has_not_its_digest_is_taken_back() {
    // Of a long one some has gone to the store when its end shows that it is wrong.
    let test = |server: &TestServer, bucket: &Bucket, len: usize| {
        let value = pattern(1, 300_000 + len);
        let (first, rest) = value.split_at(300_000);
        let upload = Resumable::create(&mut server.connect(), "k", "", first);
        for is_last in [false, true] {
            let wrong = format!("Content-Digest: {}\r\n", digest(b"other"));
            let raw = &mut server.connect();
            let refused = upload.append_with(raw, 300_000, is_last, &wrong, rest);
            assert_eq!(refused.status, 400, "{refused:?}");
            assert_eq!(refused.must("upload-offset"), "300000");
            assert_eq!(upload.offset(&mut server.connect()), 300_000);
        }
        let right = format!("Content-Digest: {}\r\n", digest(rest));
        let raw = &mut server.connect();
        let stored = upload.append_with(raw, 300_000, true, &right, rest);
        assert_eq!(stored.status, 200, "{stored:?}");
        assert!(server.get("k").body == value);
        assert_eq!(bucket.multipart_uploads(), 0);
    };
    each("part-digest", |server, bucket| test(server, bucket, 1000));
    let stub = Stub::start();
    test(&serve(&stub.bucket, &[]), &stub.bucket, 17 * MIB);
}

#[test]
fn a_digest_that_follows_a_part_takes_back_what_was_kept_of_it() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    let value = pattern(1, 17 * MIB);
    let upload = Resumable::create(&mut server.connect(), "k", "", b"");
    let lines = "Transfer-Encoding: chunked\r\n";
    let body = |of: &[u8]| {
        let trailer = format!("0\r\nContent-Digest: {}\r\n\r\n", digest(of));
        [&chunked(value.chunks(100_000))[..], trailer.as_bytes()].concat()
    };
    let refused = upload.append_with(&mut server.connect(), 0, true, lines, &body(b"other"));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(upload.offset(&mut server.connect()), 0);
    let stored = upload.append_with(&mut server.connect(), 0, true, lines, &body(&value));
    assert_eq!(stored.status, 200, "{stored:?}");
    assert!(server.get("k").body == value);
}

#[test]
fn a_value_that_has_not_its_digest_is_not_published() {
    each("whole-digest", |server, bucket| {
        let value = pattern(1, 6 * MIB + 9);
        let (first, last) = value.split_at(6 * MIB);
        for (at_first, right) in [(true, false), (true, true), (false, false), (false, true)] {
            let of = if right { &value[..] } else { b"other" };
            let field = format!("Repr-Digest: {}\r\n", digest(of));
            let lines = |given| if given { field.as_str() } else { "" };
            let upload = Resumable::create(&mut server.connect(), "k", lines(at_first), first);
            let raw = &mut server.connect();
            let answer = upload.append_with(raw, first.len(), true, lines(!at_first), last);
            assert_eq!(answer.must("upload-complete"), "?1");
            assert_eq!(answer.status, if right { 200 } else { 400 }, "{answer:?}");
            let gone = upload.state(&mut server.connect()).status == 404;
            assert_eq!(gone, !right);
            let status = server.ask("DELETE", "k").status;
            assert_eq!(status, if right { 200 } else { 404 });
            eventually("no parts are left", || bucket.multipart_uploads() == 0);
        }
    });
}

#[test]
fn a_sha_512_of_the_whole_is_compared_where_it_was_named_first() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    let value = pattern(1, 300_000);
    let field = |of: &[u8]| {
        let digest = STANDARD.encode(Sha512::digest(of));
        format!("Repr-Digest: sha-512=:{digest}:\r\n")
    };
    for (of, status) in [(&value[..], 200), (b"other", 400)] {
        let upload = Resumable::create(&mut server.connect(), "k", &field(of), &value[..9]);
        let answer = upload.append(&mut server.connect(), 9, true, &value[9..]);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let upload = Resumable::create(&mut server.connect(), "k", "", &value[..9]);
    let raw = &mut server.connect();
    let late = upload.append_with(raw, 9, true, &field(&value), &value[9..]);
    assert_eq!(late.status, 501, "{late:?}");
    assert_eq!(upload.offset(&mut server.connect()), 9);
}

#[test]
fn preconditions_of_the_first_request_are_decided_at_the_last() {
    each("decided", |server, bucket| {
        for len in [1000, 7 * MIB] {
            let value = pattern(1, len);
            for lines in [
                "If-None-Match: *\r\n",
                "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n",
            ] {
                let lost = Resumable::create(&mut server.connect(), "k", lines, &value);
                server.store("k", "meanwhile");
                let refused = lost.append(&mut server.connect(), len, true, b"");
                assert_eq!(refused.status, 412, "{refused:?}");
                assert_eq!(refused.must("upload-complete"), "?1");
                assert_eq!(lost.state(&mut server.connect()).status, 404);
                let lines = format!("Upload-Complete: ?0\r\n{lines}");
                let early = Resumable::ask_to_create(&mut server.connect(), "k", &lines, b"");
                assert_eq!(early.status, 412);
                let swap = format!("If-Match: {}\r\n", server.get("k").must("etag"));
                let swap = Resumable::create(&mut server.connect(), "k", &swap, &value);
                let status = swap.append(&mut server.connect(), len, true, b"").status;
                assert_eq!(status, 200);
                assert!(server.get("k").body == value);
                assert_eq!(server.ask("DELETE", "k").status, 200);
                eventually("no parts are left", || bucket.multipart_uploads() == 0);
            }
        }
    });
}

#[test]
fn lost_answers_of_the_store_cost_no_upload() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    for (len, fault) in [(1000, Fault::FailDone(500)), (7 * MIB, Fault::LoseDone)] {
        let value = pattern(1, len);
        for (method, of, after) in [
            // What is kept of the upload, its parts, its tail; what publishes it.
            ("PUT", ".data-server/uploads", 0),
            ("PUT", ".data-server/uploads", 1),
            ("PUT", ".data-server/uploads", 2),
            ("PUT", ".data-server/uploads", 3),
            ("PUT", "k", 0),
            ("PUT", "k", 1),
            ("POST", "k", 0),
            ("POST", "k", 1),
        ] {
            let what = format!("{method} {of} {after} {fault:?} {len}");
            let most = len - 100;
            let lines = "If-None-Match: *\r\n";
            let upload = Resumable::create(&mut server.connect(), "k", lines, &value[..9]);
            stub.fail(method, of, Fault::None, after);
            stub.fail(method, of, fault.clone(), 1);
            let begun_before = stub.bucket.multipart_uploads();
            let raw = &mut server.connect();
            let part = upload.append(raw, 9, false, &value[9..most]);
            assert_eq!(part.status, 204, "{what}: {part:?}");
            let stored = upload.append(raw, most, true, &value[most..]);
            assert_eq!(stored.status, 200, "{what}: {stored:?}");
            stub.heal();
            assert!(server.get("k").body == value, "{what}");
            // What is begun twice is swept later.
            let begun_twice = usize::from(len > MIB && (method, after) == ("POST", 0));
            let begun = stub.bucket.multipart_uploads() - begun_before;
            assert_eq!(begun, begun_twice, "{what}");
            assert_eq!(server.ask("DELETE", "k").status, 200, "{what}");
        }
    }
}

/// It was 500, in a store behind a network that breaks.
#[test]
fn a_tail_that_goes_while_it_is_read_belongs_to_an_upload_that_was_taken() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    let value = pattern(1, 300_000);
    let upload = Resumable::create(&mut server.connect(), "k", "", &value[..200_000]);
    let id = upload.path.rsplit('/').next().expect("a name");
    let tail = format!("{id}.");
    stub.fail("GET", &tail, Fault::CutAt(100_000), 1);
    stub.fail("GET", &tail, Fault::Refuse(404, "NoSuchKey", None), 9);
    let part = upload.append(&mut server.connect(), 200_000, true, &value[200_000..]);
    assert_eq!(part.status, 409, "{part:?}");
    stub.heal();
    let offset = upload.offset(&mut server.connect());
    let stored = upload.append(&mut server.connect(), offset, true, &value[offset..]);
    assert_eq!(stored.status, 200, "{stored:?}");
    assert!(server.get("k").body == value);
}

#[test]
fn a_client_that_lost_the_answer_of_the_last_part_learns_that_it_was_published() {
    for len in [1000, 7 * MIB] {
        let stub = Stub::start();
        let server = serve(&stub.bucket, &[]);
        let value = pattern(1, len);
        let lines = "If-None-Match: *\r\n";
        let upload = Resumable::create(&mut server.connect(), "k", lines, &value);
        // It is published, and that is not kept; of a long one the length is kept before.
        let before = usize::from(len > MIB);
        stub.fail("PUT", ".data-server/uploads", Fault::None, before);
        let refuse = Fault::Refuse(500, "InternalError", None);
        stub.fail("PUT", ".data-server/uploads", refuse, 1);
        let stored = upload.append(&mut server.connect(), len, true, b"");
        assert_eq!(stored.status, 200, "{stored:?}");
        let raw = &mut server.connect();
        assert_eq!(upload.state(raw).must("upload-complete"), "?0");
        let again = upload.append(raw, len, true, b"");
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.must("etag"), stored.must("etag"));
        assert_eq!(upload.state(raw).must("upload-complete"), "?1");
        assert!(server.get("k").body == value);
    }
}
