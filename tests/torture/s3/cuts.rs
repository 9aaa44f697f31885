//! Uploads and downloads that break off at each sixteenth, by the network and by a kill of the server. `tests/it` has
//! those that clients break off.

use super::{GOOD, Network};
use crate::prelude::*;
use crate::support::relay::{Fault, Faults};
use crate::support::s3::VersityGw;

/// Longer than one piece of an upload.
const LEN: usize = 3 << 20;

/// Longer than what the kernel holds of a connection.
const LONG: usize = 16 << 20;

/// Where a connection to the store breaks in `len` bytes: some way behind the head of the request.
fn places(len: usize) -> impl Iterator<Item = usize> {
    let sixteenths = (0..16).step_by(scaled(5, 1));
    sixteenths.map(move |sixteenth| len / 16 * sixteenth + 2_000)
}

/// How a client says how long its value is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Known,
    Unknown,
}

const LENGTHS: [Length; 2] = [Length::Known, Length::Unknown];

impl Length {
    /// The request that stores `value` so.
    fn put(self, value: &[u8]) -> Vec<u8> {
        match self {
            Self::Known => [put_head("up", value.len()).as_bytes(), value].concat(),
            Self::Unknown => {
                let head = "PUT /up HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
                [head.as_bytes(), &in_chunks(value, 100_000)].concat()
            }
        }
    }
}

#[test]
fn a_network_that_breaks_off_at_each_sixteenth_leaves_the_old_value() {
    let store = needed!(VersityGw::start(1));
    let network = Network::to(store.bucket.endpoints[0]);
    let value = pattern(1, LEN);
    store.bucket.place("down", &value);
    let (mut uploads, mut cut, mut whole) = (0, 0, 0);
    for at in places(LEN) {
        for fault in [Fault::Fin(at), Fault::Reset(at)] {
            for length in LENGTHS {
                store.bucket.place("up", "old");
                let server = network.serve(&store.bucket, Faults { up: fault, ..GOOD });
                let mut raw = server.connect();
                // A refusal may come before all was sent.
                let _ = raw.offer(length.put(&value));
                let Response { status, .. } = raw.answer();
                let is_told = matches!(status, 502..=504);
                assert!(is_told, "{length:?}, {fault:?}: {status}");
                assert_old(&store, &format!("{length:?}, {fault:?}"));
                uploads += 1;
            }
            let down = Faults {
                down: fault,
                ..GOOD
            };
            let server = network.serve(&store.bucket, down);
            match download(&server, &value) {
                Some(len) if len < LEN => cut += 1,
                Some(_) => whole += 1,
                None => {}
            }
        }
    }
    let downloads = format!("{cut} downloads cut, {whole} gone on with to their end");
    counted!("s3 wire: {uploads} uploads broken off: all old; {downloads}");
    assert!(whole > 0);
    assert_eq!(store.bucket.multipart_uploads(), 0);
}

/// How much of the value is received; `None` where none is.
fn download(server: &TestServer, value: &[u8]) -> Option<usize> {
    let mut raw = server.begin("GET", "/down", "");
    let head = raw.head();
    if head.status != 200 {
        assert!(matches!(head.status, 502..=504), "{}", head.status);
        return None;
    }
    let mut body = Vec::new();
    raw.stream_to(LEN, &mut vec![0; 64 << 10], |piece| {
        body.extend_from_slice(piece);
    });
    assert!(value.starts_with(&body), "{} bytes", body.len());
    Some(body.len())
}

#[track_caller]
fn assert_old(store: &VersityGw, what: &str) {
    let is_old = store.bucket.read("up").as_deref() == Some(b"old");
    assert!(is_old, "{what}: another value");
}

#[test]
fn a_server_that_is_killed_at_each_sixteenth_of_an_upload_leaves_the_old_value() {
    let store = needed!(VersityGw::start(1));
    let value = pattern(1, LONG);
    let (mut kills, mut whole) = (0, 0);
    for at in places(LONG) {
        for length in LENGTHS {
            store.bucket.place("up", "old");
            let network = Network::to(store.bucket.endpoints[0]);
            let up = Fault::Stall(at);
            let server = network.serve(&store.bucket, Faults { up, ..GOOD });
            let before = network.relay.passed_up();
            let mut request = length.put(&value);
            if length == Length::Known {
                // Without its last byte it is not whole, wherever the rest of it is.
                request.pop();
            }
            let mut raw = server.connect();
            thread::scope(|scope| {
                // Where the store stalls, the client does.
                scope.spawn(|| raw.offer(request));
                let comes = || network.relay.passed_up() - before >= at;
                eventually("the store has some of the upload", comes);
                drop(server);
            });
            // What was under way arrives, and then the end of the connection.
            network.relay.let_go();
            network.relay.end();
            kills += 1;
            // The server sends a value that it has all of as fast as it can: all of it may have been under way.
            if length == Length::Unknown && store.bucket.read("up").as_deref() == Some(&value) {
                whole += 1;
            } else {
                assert_old(&store, &format!("{length:?}, killed at {at}"));
            }
        }
    }
    let old = kills - whole;
    counted!("s3 kills: {kills} kills during an upload: {old} old, {whole} whole");
    assert!(whole < kills / 2, "too few uploads were cut");
    assert_eq!(store.bucket.multipart_uploads(), 0);
}
