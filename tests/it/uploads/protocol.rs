//! Proves the protocol: creation, offset, append and cancellation, and what is refused.

use super::told;
use crate::support::prelude::*;

/// Longer than what is taken over, and not.
const LENGTHS: [usize; 3] = [10, 100_000, 2_500_000];

#[track_caller]
fn of_draft(response: &Response, problem: &str) {
    let body = response.json();
    let expected = format!("https://iana.org/assignments/http-problem-types#{problem}");
    assert_eq!(body["type"], expected.as_str(), "{body}");
}

#[test]
fn a_value_comes_in_parts_and_is_published_by_the_last() {
    directory_only!("resumable uploads");
    for takeover in ["on", "off"] {
        let server = Launch::new(&[]).env("DATA_SERVER_TAKEOVER", takeover);
        let server = server.start();
        let raw = &mut server.connect();
        for length in LENGTHS {
            let value = pattern(1, length);
            let (third, half) = (length / 3, length / 2);
            let lines = format!("Upload-Complete: ?0\r\nUpload-Length: {length}\r\n");
            let created = Resumable::ask_to_create(raw, "a/k", &lines, &value[..third]);
            assert_eq!(told(&created), (201, "?0", third));
            assert!(created.must("upload-limit").contains("max-age=86400"));
            let upload = Resumable::of_key(&created, "a/k");
            let id = upload.path.strip_prefix("/-/uploads/").expect("a path");
            assert_eq!(id.len(), 32, "{id}");

            let state = upload.state(raw);
            assert_eq!(told(&state), (204, "?0", third));
            assert_eq!(state.must("upload-length"), length.to_string());
            assert_eq!(state.must("cache-control"), "no-store");
            state.must("upload-limit");
            assert_eq!(ask(raw, "GET", &upload.path, "", b"").status, 204);
            assert_eq!(server.get("a/k").status, 404, "nothing is published yet");

            let appended = upload.append(raw, third, false, &value[third..half]);
            assert_eq!(told(&appended), (204, "?0", half));
            // RFC 9110, section 8.6.
            assert_eq!(appended.header("content-length"), None, "{appended:?}");

            let stored = upload.append(raw, half, true, &value[half..]);
            assert_eq!(told(&stored), (200, "?1", length));
            let got = server.get("a/k");
            assert!(got.body == value);
            assert_eq!(got.must("etag"), stored.must("etag"));

            let state = upload.state(raw);
            assert_eq!(told(&state), (204, "?1", length));
            assert_eq!(state.must("upload-length"), length.to_string());
            let again = upload.append(raw, length, true, b"");
            assert_eq!(again.status, 409);
            assert_eq!(again.must("upload-complete"), "?0");
            assert_eq!(server.ask("DELETE", "a/k").status, 200);
        }
        server.dir.assert_holds(&[]);
    }
}

#[test]
fn the_first_request_may_bring_nothing_or_chunks_by_put_or_by_post_and_the_last_as_well() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let raw = &mut server.connect();
    let upload = Resumable::create(raw, "k", "", b"");
    assert_eq!(upload.state(raw).header("upload-length"), None);
    assert_eq!(upload.append(raw, 0, false, b"some").status, 204);
    let stored = upload.append(raw, 4, true, b"");
    assert_eq!(stored.status, 200, "{stored:?}");
    assert_eq!(server.get("k").body, b"some");
    let empty = Resumable::create(raw, "empty", "Upload-Length: 0\r\n", b"");
    assert_eq!(empty.append(raw, 0, true, b"").status, 200);
    assert_eq!(server.get("empty").body, b"");

    let value = pattern(1, 700_000);
    let (first, last) = value.split_at(300_000);
    let lines = "Transfer-Encoding: chunked\r\n";
    let upload = Resumable::create(raw, "chunks", lines, &in_chunks(first, 9_000));
    let stored = upload.append_with(raw, 300_000, true, lines, &in_chunks(last, 9_000));
    assert_eq!(stored.status, 200, "{stored:?}");
    assert!(server.get("chunks").body == value);

    let lines = "Content-Length: 0\r\nUpload-Complete: ?0\r\nUpload-Length: 3\r\n";
    let created = ask(raw, "POST", "/post", lines, b"");
    assert_eq!(created.status, 201, "{created:?}");
    let stored = Resumable::of(&created).append(raw, 0, true, b"abc");
    assert_eq!(stored.status, 200);
    assert_eq!(server.get("post").body, b"abc");
    // It creates an upload and nothing else.
    for lines in ["", "Upload-Complete: 1\r\n"] {
        let lines = format!("Content-Length: 0\r\n{lines}");
        assert_eq!(ask(raw, "POST", "/post", &lines, b"").status, 405);
    }
    server.dir.assert_nothing_staged();
}

#[test]
fn a_part_at_another_offset_is_refused_with_the_right_one() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let upload = Resumable::create(&mut server.connect(), "k", "", b"0123");
    for offset in [0, 3, 5, 1_000_000] {
        let raw = &mut server.connect();
        let problem = "Accept: application/problem+json\r\n";
        let refused = upload.append_with(raw, offset, true, problem, b"x");
        assert_eq!(told(&refused), (409, "?0", 4));
        of_draft(&refused, "mismatching-upload-offset");
        let body = refused.json();
        assert_eq!(body["expected-offset"], 4);
        assert_eq!(body["provided-offset"], offset);
    }
    let stored = upload.append(&mut server.connect(), 4, true, b"4");
    assert_eq!(stored.status, 200);
    assert_eq!(server.get("k").body, b"01234");
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let problem = "Accept: application/problem+json\r\n";
    for lines in [
        "Upload-Complete: ?1\r\nUpload-Length: 4\r\n",
        "Upload-Complete: ?0\r\nUpload-Length: 2\r\n",
    ] {
        let lines = format!("{lines}{problem}");
        let refused = Resumable::ask_to_create(&mut server.connect(), "k", &lines, b"abc");
        assert_eq!(refused.status, 400, "{refused:?}");
        of_draft(&refused, "inconsistent-upload-length");
    }
    let upload = Resumable::create(&mut server.connect(), "k", "Upload-Length: 4\r\n", b"ab");
    for (is_last, lines, part) in [
        (true, "", &b"c"[..]),
        (true, "", b"cde"),
        (false, "", b"cde"),
        (false, "Upload-Length: 5\r\n", b"c"),
        (true, "", b""),
    ] {
        let lines = format!("{lines}{problem}");
        let refused = upload.append_with(&mut server.connect(), 2, is_last, &lines, part);
        assert_eq!(refused.status, 400, "{part:?}: {refused:?}");
        of_draft(&refused, "inconsistent-upload-length");
        assert_eq!(upload.offset(&mut server.connect()), 2);
    }
    // What has no length is found to be too long when it has arrived, and then is no good any more.
    let body = in_chunks(b"cde", 3);
    let lines = format!("Transfer-Encoding: chunked\r\n{problem}");
    let refused = upload.append_with(&mut server.connect(), 2, true, &lines, &body);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(upload.state(&mut server.connect()).status, 404);
    server.dir.assert_holds(&[]);
}

#[test]
fn a_part_needs_its_media_type_its_offset_and_whether_it_is_the_last() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let upload = Resumable::create(&mut server.connect(), "k", "", b"");
    let media_type = "Content-Type: application/partial-upload\r\n";
    let (offset, complete) = ("Upload-Offset: 0\r\n", "Upload-Complete: ?0\r\n");
    for (lines, status) in [
        (format!("{offset}{complete}"), 415),
        (format!("Content-Type: a/b\r\n{offset}{complete}"), 415),
        (format!("{media_type}{complete}"), 400),
        (format!("{media_type}{offset}"), 400),
        (format!("{media_type}Upload-Offset: -1\r\n{complete}"), 400),
        (format!("{media_type}{offset}Upload-Complete: 0\r\n"), 400),
        (format!("{media_type}{offset}{complete}"), 204),
    ] {
        let lines = format!("Content-Length: 0\r\n{lines}");
        let answer = server.request("PATCH", &upload.path, &lines, b"");
        assert_eq!(answer.status, status, "{lines}");
        let accepted = answer.header("accept-patch");
        assert_eq!(accepted.is_some(), status == 415, "{lines}");
    }
}

#[test]
fn a_cancelled_upload_is_gone_and_what_names_none_is_not_there() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let raw = &mut server.connect();
    let upload = Resumable::create(raw, "k", "", &pattern(1, 300_000));
    assert_eq!(server.dir.uploads().len(), 2);
    assert_eq!(upload.cancel(raw).status, 204);
    assert_eq!(upload.cancel(raw).status, 404);
    assert_eq!(upload.state(raw).status, 404);
    let refused = upload.append(&mut server.connect(), 300_000, true, b"x");
    assert_eq!(refused.status, 404);
    server.dir.assert_no_uploads();
    server.dir.assert_holds(&[]);
    let none = "00000000000000000000000000000000";
    for name in ["", "x", "../uploads/x", none, "%2e%2e"] {
        for method in ["HEAD", "DELETE"] {
            let path = format!("/-/uploads/{name}");
            assert_eq!(server.request(method, &path, "", b"").status, 404, "{path}");
        }
    }
    let refused = server.request("PUT", &format!("/-/uploads/{none}"), "", b"x");
    assert_eq!(refused.status, 405);
    assert_eq!(refused.must("allow"), "GET, HEAD, PATCH, DELETE, OPTIONS");
}

#[test]
fn options_tells_the_limits() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&["--max-body", "1000", "--upload-expiry", "1h"]);
    let raw = &mut server.connect();
    for path in ["/k", "*", "/"] {
        let options = ask(raw, "OPTIONS", path, "", b"");
        assert_eq!(options.status, 204);
        assert_eq!(options.must("upload-limit"), "max-size=1000, max-age=3600");
        assert_eq!(options.header("accept-patch"), None);
    }
    let upload = Resumable::create(raw, "k", "", b"");
    let options = ask(raw, "OPTIONS", &upload.path, "", b"");
    assert_eq!(options.must("accept-patch"), "application/partial-upload");
    assert_eq!(options.must("allow"), "GET, HEAD, PATCH, DELETE, OPTIONS");
}

fn begin(server: &TestServer, lines: &str, length: usize, first: &[u8]) -> Raw {
    let mut raw = server.connect();
    let head = format!("PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n{lines}\r\n");
    raw.send([head.as_bytes(), first].concat());
    raw
}

/// Also when its whole body came with its head, so that nothing was waited for: an upload that then failed was known to
/// nobody.
#[test]
fn a_client_of_the_same_draft_is_told_where_it_can_resume() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let lengths = [2, 100_000, 2_500_000].into_iter().chain(LENGTHS);
    for (seed, length) in (1..).zip(lengths) {
        for with_head in [length / 2, length] {
            let value = pattern(seed, length);
            let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
            let mut raw = begin(&server, lines, length, &value[..with_head]);
            let interim = raw.head();
            assert_eq!(interim.status, 104, "{with_head} of {length}");
            assert_eq!(interim.must("upload-draft-interop-version"), "8");
            interim.must("upload-limit");
            let upload = Resumable::of(&interim);
            raw.send(&value[with_head..]);
            let stored = raw.answer();
            assert_eq!(stored.status, 200, "{with_head} of {length}");
            assert_eq!(stored.must("upload-complete"), "?1");
            assert!(server.get("k").body == value, "{with_head} of {length}");
            let state = upload.state(&mut server.connect());
            assert_eq!(state.must("upload-complete"), "?1");
            // The connection goes on.
            assert_eq!(upload.cancel(&mut raw).status, 204);
        }
    }
}

#[test]
fn with_interim_off_nobody_is_told_anything_before_the_answer() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&["--interim", "off"]);
    for length in LENGTHS {
        let value = pattern(1, length);
        let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
        let mut raw = begin(&server, lines, length, &value[..length / 2]);
        raw.send(&value[length / 2..]);
        let stored = raw.head();
        assert_eq!(stored.status, 200, "the first that is heard");
        assert_eq!(stored.must("upload-complete"), "?1");
        assert!(server.get("k").body == value);
    }
    // An upload in parts needs no 104.
    let mut raw = server.connect();
    let lines = "Upload-Draft-Interop-Version: 8\r\n";
    let upload = Resumable::create(&mut raw, "parts", lines, b"first ");
    assert_eq!(upload.append(&mut raw, 6, true, b"last").status, 200);
    assert_eq!(server.get("parts").body, b"first last");
    // And 100 is none of it.
    let head = "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    raw.send(head);
    assert_eq!(raw.head().status, 100);
    raw.send("v");
    assert_eq!(raw.answer().status, 200);
}

#[test]
fn an_upload_that_breaks_off_goes_on_where_it_was() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let length = 2_500_000;
    let value = pattern(1, length);
    let lines =
        "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\nExpect: 100-continue\r\n";
    let mut raw = begin(&server, lines, length, b"");
    let upload = Resumable::of(&raw.head());
    assert_eq!(raw.head().status, 100, "104 does not stand for it");
    raw.send(&value[..1_000_000]);
    raw.break_off();
    let raw = &mut server.connect();
    let kept = upload.offset(raw);
    // A request that HTTP/2 takes back takes with it what has not been read.
    let is_right = kept == 1_000_000 || is_http2() && kept < 1_000_000;
    assert!(is_right, "{kept}: all that arrived is kept");
    assert_eq!(upload.append(raw, kept, true, &value[kept..]).status, 200);
    assert!(server.get("k").body == value);
}

#[test]
fn no_interim_response_goes_to_others() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    for version in [
        "X: y",
        "Upload-Draft-Interop-Version: 6",
        "Upload-Draft-Interop-Version: 9",
    ] {
        let lines = format!("Upload-Complete: ?1\r\n{version}\r\n");
        let mut raw = begin(&server, &lines, 600_000, b"x");
        assert_eq!(raw.silent_for(Duration::from_millis(200)), Ok(()));
        raw.send(vec![b'x'; 599_999]);
        let stored = raw.answer();
        assert_eq!((stored.status, stored.must("upload-complete")), (200, "?1"));
    }
    let found = server.dir.uploads();
    assert_eq!(found, [""; 0], "such a PUT is one like any other");
    if is_http2() {
        return; // it has interim responses of its own
    }
    let off = Launch::new(&[]).env("DATA_SERVER_TAKEOVER", "off").start();
    let lines = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
    let stored = Resumable::ask_to_create(&mut off.connect(), "k", lines, b"x");
    assert_eq!((stored.status, stored.must("upload-complete")), (200, "?1"));
    assert_eq!(off.dir.uploads(), [""; 0]);
}
