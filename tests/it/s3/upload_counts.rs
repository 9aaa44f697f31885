//! How many unfinished uploads a server sees in the store: what it counts, and how many there may be.

use super::serve;
use crate::support::prelude::*;
use crate::support::s3::{Bucket, Fault, Stub};

/// As many as there may be.
const MOST: u64 = 10_000;

fn unfinished(server: &TestServer) -> u64 {
    Scrape::of(server.addr).count("data_server_uploads_unfinished", &[])
}

fn create(server: &TestServer) -> Resumable {
    Resumable::create(&mut server.connect(), "k", "", b"x")
}

fn end(server: &TestServer, upload: &Resumable) -> u16 {
    let answer = upload.append(&mut server.connect(), 1, true, b"y");
    answer.status
}

/// A server whose search of the store has found so many.
fn serve_and_find(bucket: &Bucket, found: u64) -> TestServer {
    // All are of one client.
    let server = serve(bucket, &["--max-uploads-per-client", "0"]);
    // One request each: 10,000 take minutes on a busy machine.
    let is_found = within(Duration::from_secs(900), || unfinished(&server) == found);
    assert!(is_found, "the store is searched: {}", unfinished(&server));
    server
}

#[test]
fn unfinished_uploads_are_counted_as_a_server_last_saw_them() {
    let stub = Stub::start();
    let first = serve(&stub.bucket, &[]);
    assert_eq!(unfinished(&first), 0);
    let [done, cancelled, left] = [(); 3].map(|()| create(&first));
    assert_eq!(unfinished(&first), 3);
    assert_eq!(end(&first, &done), 200);
    assert_eq!(cancelled.cancel(&mut first.connect()).status, 204);
    assert_eq!(unfinished(&first), 1);
    // Another finds those that were there before it, and no finished ones.
    let second = serve_and_find(&stub.bucket, 1);
    let other = create(&second);
    assert_eq!((unfinished(&first), unfinished(&second)), (1, 2));
    assert_eq!(other.offset(&mut first.connect()), 1);
    assert_eq!(unfinished(&first), 2, "it has met it");
    assert_eq!(end(&second, &other), 200);
    assert_eq!((unfinished(&first), unfinished(&second)), (2, 1));
    assert_eq!(other.state(&mut first.connect()).status, 204);
    assert_eq!(unfinished(&first), 1, "it has met it again");
    assert_eq!(left.cancel(&mut second.connect()).status, 204);
    assert_eq!(left.state(&mut first.connect()).status, 404);
    assert_eq!((unfinished(&first), unfinished(&second)), (0, 0));
}

#[test]
fn an_upload_that_its_client_never_heard_of_is_not_counted() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &[]);
    let mut raw = server.connect();
    raw.send("PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\nUpload-Complete: ?0\r\n\r\nx");
    eventually("it is there", || unfinished(&server) == 1);
    raw.finish();
    assert_eq!(raw.head().status, 400);
    eventually("it has gone", || unfinished(&server) == 0);
    // One that the store does not take was none.
    let refuse = Fault::Refuse(403, "AccessDenied", None);
    stub.fail("PUT", ".data-server/uploads", refuse, 1);
    let lines = "Upload-Complete: ?0\r\n";
    let refused = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    assert_eq!(refused.status, 500, "{refused:?}");
    assert_eq!(unfinished(&server), 0);
}

#[test]
fn the_number_of_unfinished_uploads_is_bounded() {
    let stub = Stub::start();
    let first = create(&serve(&stub.bucket, &[]));
    let folder = ".data-server/uploads/";
    let id = first.path.rsplit('/').next().expect("a name");
    // The server asks for each of them. What is refused at the bound is a unit test's too.
    let found = scaled(100, MOST);
    let others = (1..found).map(|n| format!("{folder}{n:032x}"));
    stub.copy(&format!("{folder}{id}"), others);
    let server = serve_and_find(&stub.bucket, found);
    assert_eq!(end(&server, &first), 200);
    assert_eq!(unfinished(&server), found - 1);
    if !is_full() {
        return;
    }
    let first = create(&server);
    let lines = "Upload-Complete: ?0\r\n";
    let ask = || Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    let refused = ask();
    assert_eq!(refused.status, 503, "{refused:?}");
    // One that ends makes room.
    assert_eq!(first.cancel(&mut server.connect()).status, 204);
    let last = ask();
    assert_eq!(last.status, 201, "{last:?}");
    assert_eq!(ask().status, 503);
    assert_eq!(end(&server, &Resumable::of(&last)), 200);
    assert_eq!(ask().status, 201);
}
