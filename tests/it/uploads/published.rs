//! Proves that what the last part publishes is what one PUT would have: preconditions, digests, fields, version,
//! changes.

use super::told;
use crate::support::prelude::*;

#[test]
fn preconditions_of_the_first_request_are_decided_at_the_last() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    server.store("k", "old");
    let etag = server.get("k").must("etag").to_owned();
    let raw = &mut server.connect();
    let if_match = format!("If-Match: {etag}\r\n");
    let (first, second) = (
        Resumable::create(raw, "k", &if_match, b"fir"),
        Resumable::create(raw, "k", &if_match, b"sec"),
    );
    let only_new = Resumable::create(raw, "new", "If-None-Match: *\r\n", b"n");
    server.store("new", "there meanwhile");
    assert_eq!(first.append(raw, 3, true, b"st").status, 200);
    for (upload, part) in [(&second, "ond"), (&only_new, "ew")] {
        let offset = upload.offset(raw);
        let refused = upload.append(raw, offset, true, part.as_bytes());
        assert_eq!(refused.status, 412, "{refused:?}");
        let found = refused.must("upload-complete");
        assert_eq!(found, "?1", "the value's own answer");
        assert_eq!(upload.state(raw).status, 404, "it cannot be resumed");
    }
    assert_eq!(server.get("k").body, b"first");
    assert_eq!(server.get("new").body, b"there meanwhile");
    server.dir.assert_holds(&["k", "new"]);
    // One that fails already refuses the upload.
    let kept = server.dir.uploads();
    let lines = "Upload-Complete: ?0\r\nIf-None-Match: *\r\n";
    let refused = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    assert_eq!(refused.status, 412);
    assert_eq!(server.dir.uploads(), kept);
    // And a key that is taken ends it.
    let upload = Resumable::create(raw, "a", "", b"x");
    server.store("a/b", "v");
    let refused = upload.append(raw, 1, true, b"y");
    let found = (refused.status, refused.must("upload-complete"));
    assert_eq!(found, (409, "?1"));
    assert_eq!(upload.state(raw).status, 404);
    server.dir.assert_holds(&["a/b", "k", "new"]);
}

#[test]
fn fields_of_the_first_request_are_kept_with_the_value() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let raw = &mut server.connect();
    let lines = "Content-Type: text/x-own\r\nContent-Encoding: br\r\nContent-Language: de\r\n\
        Cache-Control: max-age=60\r\nContent-Disposition: inline; filename=\"\u{e9}\"\r\n";
    let upload = Resumable::create(raw, "k", lines, b"a");
    assert_eq!(upload.append(raw, 1, true, b"b").status, 200);
    let got = server.get("k");
    assert_eq!(got.must("content-type"), "text/x-own");
    assert_eq!(got.must("content-encoding"), "br");
    assert_eq!(got.must("content-language"), "de");
    assert_eq!(got.must("cache-control"), "max-age=60");
    let found = got.must("content-disposition");
    assert_eq!(found, "inline; filename=\"\u{e9}\"");
    let lines = "Upload-Complete: ?0\r\nContent-Language: not a language!\r\n";
    let refused = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    assert_eq!(refused.status, 400, "a bad field is refused at once");
}

#[test]
fn a_part_that_has_not_its_digest_is_taken_back() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let value = pattern(1, 700_000);
    let (first, last) = value.split_at(300_000);
    for coding in ["", "Transfer-Encoding: chunked\r\n"] {
        let frame = |part: &[u8]| match coding {
            "" => part.to_vec(),
            _ => in_chunks(part, part.len()),
        };
        let raw = &mut server.connect();
        // Beside it the digest of the whole value may come, which is another.
        let [part, whole] = [first, &value].map(sha256);
        let lines = format!("{coding}Content-Digest: {part}\r\nRepr-Digest: {whole}\r\n");
        let upload = Resumable::create(raw, "k", &lines, &frame(first));
        let wrong = format!("{coding}Content-Digest: {}\r\n", sha256(b"other"));
        let refused = upload.append_with(raw, 300_000, true, &wrong, &frame(last));
        assert_eq!(told(&refused), (400, "?0", 300_000));
        let raw = &mut server.connect();
        assert_eq!(upload.offset(raw), 300_000);
        let right = format!("{coding}Content-Digest: {}\r\n", sha256(last));
        let stored = upload.append_with(raw, 300_000, true, &right, &frame(last));
        assert_eq!(stored.status, 200, "{stored:?}");
        assert!(server.get("k").body == value);
    }
}

/// A part in chunks, with this trailer.
fn with_trailer(trailer: &str) -> Vec<u8> {
    let end = format!("0\r\n{trailer}\r\n\r\n");
    [&chunked([&b"part"[..]])[..], end.as_bytes()].concat()
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\nTrailer: Content-Digest, Repr-Digest\r\n";

#[test]
fn a_digest_of_a_part_or_of_the_value_may_follow_as_a_trailer() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let body = |of: &[u8]| with_trailer(&format!("Content-Digest: {}", sha256(of)));
    let upload = Resumable::create(&mut server.connect(), "part", "", b"");
    for wrong in [body(b"other"), with_trailer("Content-Digest: sha-1=:AAAA:")] {
        let refused = upload.append_with(&mut server.connect(), 0, true, CHUNKED, &wrong);
        assert_eq!(refused.status, 400);
        assert_eq!(refused.must("upload-offset"), "0", "it is taken back");
    }
    let stored = upload.append_with(&mut server.connect(), 0, true, CHUNKED, &body(b"part"));
    assert_eq!(stored.status, 200);

    let body = |of: &[u8]| with_trailer(&format!("Repr-Digest: {}", sha256(of)));
    for (of, status) in [(&b"other"[..], 400), (b"the part", 200)] {
        let upload = Resumable::create(&mut server.connect(), "k", "", b"the ");
        let raw = &mut server.connect();
        // It is no digest of a part before.
        let early = upload.append_with(raw, 4, false, CHUNKED, &body(b"the part"));
        assert_eq!((early.status, early.must("upload-offset")), (400, "4"));
        let ended = upload.append_with(raw, 4, true, CHUNKED, &body(of));
        assert_eq!(ended.status, status, "{ended:?}");
        // The same in one request.
        let lines = format!("Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n{CHUNKED}");
        let of = if status == 200 { &b"part"[..] } else { of };
        let mut raw = server.connect();
        let head = format!("PUT /whole HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
        raw.send([head.as_bytes(), &body(of)].concat());
        if by_protocol(false, true) {
            assert_eq!(raw.head().status, 104);
        }
        let whole = raw.answer();
        assert_eq!(whole.status, status, "{whole:?}");
        let found = server.get("k").status;
        assert_eq!(found, if status == 200 { 200 } else { 404 });
    }
}

#[test]
fn a_value_that_has_not_its_digest_is_not_published() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let value = pattern(1, 600_000);
    let (first, last) = value.split_at(200_000);
    // The digest of the whole comes with the first request, or with the last.
    for (at_first, at_last) in [(true, false), (false, true)] {
        for right in [false, true] {
            let of = if right { &value[..] } else { b"other" };
            let field = format!("Repr-Digest: {}\r\n", sha256(of));
            let lines = |given| if given { field.as_str() } else { "" };
            let raw = &mut server.connect();
            let upload = Resumable::create(raw, "k", lines(at_first), first);
            let answer = upload.append_with(raw, 200_000, true, lines(at_last), last);
            assert_eq!(answer.must("upload-complete"), "?1");
            assert_eq!(answer.status, if right { 200 } else { 400 }, "{answer:?}");
            if right {
                assert!(server.get("k").body == value);
                let want = ask(raw, "GET", "/k", "Want-Repr-Digest: sha-256=1\r\n", b"");
                assert_eq!(want.must("repr-digest"), sha256(&value));
                assert_eq!(server.ask("DELETE", "k").status, 200);
            } else {
                assert_eq!(upload.state(raw).status, 404);
                assert_eq!(server.get("k").status, 404);
            }
        }
    }
    server.dir.assert_holds(&[]);
}

#[test]
fn versions_grow_and_watchers_hear_of_it() {
    let server = needed!(TestServer::of_directory("watching", &[]));
    let mut events = Events::open(&server, "", "");
    let raw = &mut server.connect();
    let mut seen = Vec::new();
    for round in 0..3 {
        let upload = Resumable::create(raw, "k", "", b"x");
        let stored = upload.append(raw, 1, true, format!("{round}").as_bytes());
        seen.push(stored.must("etag").to_owned());
        let told = events.next().expect("a change");
        assert_eq!((told.key.as_str(), told.etag.as_ref()), ("k", seen.last()));
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}
