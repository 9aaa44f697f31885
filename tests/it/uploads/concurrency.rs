//! Proves that one request at a time has an upload, that a later one ends it, and that races leave a whole value or
//! none.

use crate::support::prelude::*;

/// An upload, and a connection on which a part of it hangs in the middle: `sent` bytes of it have been sent.
fn hanging(server: &TestServer, value: &[u8], sent: usize) -> (Resumable, Raw) {
    let upload = Resumable::create(&mut server.connect(), "k", "", b"");
    let mut raw = server.connect();
    raw.send(upload.append_head(0, true, value.len()));
    raw.send(&value[..sent]);
    let in_flight = || Scrape::of(server.addr).count("data_server_uploads_in_flight", &[]);
    let comes = || raw.is_taken() && in_flight() == 1;
    eventually("the part is being received", comes);
    (upload, raw)
}

/// Longer than what is taken over, and not.
const LENGTHS: [usize; 2] = [100_000, 2_500_000];

#[test]
fn a_request_for_the_offset_another_part_and_a_cancellation_end_a_part_that_hangs() {
    let server = needed!(TestServer::of_directory("resumable uploads", &[]));
    let ways = LENGTHS.map(|length| [(length, true), (length, false)]);
    for (length, asks) in ways.concat() {
        let value = pattern(1, length);
        let (upload, mut hangs) = hanging(&server, &value, length / 2);
        let raw = &mut server.connect();
        let offset = if asks {
            upload.offset(raw)
        } else {
            let refused = upload.append(raw, length, true, b"");
            assert_eq!(refused.status, 409);
            refused.must("upload-offset").parse().expect("an offset")
        };
        assert!(offset <= length / 2);
        let ended = hangs.head();
        assert_eq!(ended.status, 409, "{ended:?}");
        assert!(ended.closes());
        let raw = &mut server.connect();
        assert_eq!(upload.offset(raw), offset, "nothing is appended any more");
        let stored = upload.append(raw, offset, true, &value[offset..]);
        assert_eq!(stored.status, 200);
        assert!(server.get("k").body == value);
    }
    server.dir.clear();
    for length in LENGTHS {
        let (upload, mut hangs) = hanging(&server, &pattern(1, length), length / 2);
        assert_eq!(upload.cancel(&mut server.connect()).status, 204);
        assert!(hangs.head().status >= 400);
    }
    server.dir.assert_holds(&[]);
}

#[test]
fn of_many_that_append_the_same_part_one_succeeds() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&["--threads", "2"]);
    for round in 0..10 {
        let value = pattern(round, 300_000);
        let upload = Resumable::create(&mut server.connect(), "k", "", &value[..7]);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let append = || {
                let answer = upload.append(&mut server.connect(), 7, true, &value[7..]);
                answer.status
            };
            let racers = [(); 6].map(|()| scope.spawn(append));
            racers.map(|racer| racer.join().expect("an answer")).into()
        });
        let stored = statuses.iter().filter(|&&status| status == 200).count();
        let is_right = statuses.iter().all(|status| [200, 409].contains(status));
        assert!(is_right, "{statuses:?}");
        if stored == 0 {
            // Each was ended by a later one, the last by the answer to an earlier one.
            let raw = &mut server.connect();
            let offset = upload.offset(raw);
            let found = upload.append(raw, offset, true, &value[offset..]).status;
            assert_eq!(found, 200);
        }
        assert!(stored <= 1, "{statuses:?}");
        assert!(server.get("k").body == value, "round {round}");
    }
}

#[test]
fn cancelling_and_completing_race_to_a_whole_value_or_none() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&["--threads", "2"]);
    for round in 0..30 {
        let key = format!("k{round}");
        let value = pattern(round, 200_000);
        let upload = Resumable::create(&mut server.connect(), &key, "", &value[..100_000]);
        let (completed, cancelled) = thread::scope(|scope| {
            let cancel = scope.spawn(|| upload.cancel(&mut server.connect()).status);
            let raw = &mut server.connect();
            let completed = upload.append(raw, 100_000, true, &value[100_000..]).status;
            (completed, cancel.join().expect("an answer"))
        });
        let got = server.get(&key);
        match completed {
            200 => assert!(got.body == value, "round {round}"),
            _ => assert_eq!(got.status, 404, "round {round}: {completed} {cancelled}"),
        }
        assert_eq!(cancelled, 204);
    }
    server.dir.assert_no_uploads();
    server.dir.assert_nothing_staged();
}

const LONG: usize = 48 << 20;

/// What the server gathers of a part before it writes any of it, and more: of a shorter part nothing may be seen to
/// arrive.
const GATHERED: usize = 1 << 20;

/// A part was given up for another request while a disk thread took its bytes from the socket. The connection dropped
/// what came next from the same socket, and the thread wrote what came behind that: the value had a hole.
#[test]
fn a_part_that_is_given_up_while_it_arrives_leaves_no_hole() {
    plain_only!("parts that pass through the kernel");
    directory_only!("parts that pass through the kernel");
    let server = Launch::new(&["--threads", "2"]).start();
    let value = pattern(1, LONG);
    let lines = format!("Upload-Length: {LONG}\r\n");
    let upload = Resumable::create(&mut server.connect(), "k", &lines, b"");
    let received = || fs::metadata(upload.file(&server.dir, "")).map_or(0, |file| file.len());
    let (mut offset, mut given_up) = (0, 0);
    // The last byte is not sent, so that each of these parts is given up.
    while LONG - offset > GATHERED {
        let mut sender = server.connect();
        sender.send(upload.append_head(offset, true, LONG - offset));
        let (mut sending, rest, begun) = (sender.twin(), &value[offset..LONG - 1], offset as u64);
        thread::scope(|scope| {
            scope.spawn(move || sending.offer(rest));
            eventually("some of it has arrived", || received() > begun);
            offset = upload.offset(&mut server.connect());
            // What is still being sent has no reader.
            sender.finish();
        });
        given_up += 1;
        assert!(given_up < 1000, "{offset} bytes");
    }
    eprintln!("{given_up} parts");
    eventually("the rest is taken", || {
        let last = upload.append(&mut server.connect(), offset, true, &value[offset..]);
        if last.status == 409 {
            // A part that had not been begun came in between.
            offset = last.must("upload-offset").parse().expect("an offset");
        }
        last.status == 200
    });
    let stored = server.get("k").body;
    let hole = stored.iter().zip(&value).position(|(a, b)| a != b);
    assert_eq!((stored.len(), hole), (LONG, None));
}
