//! Proves that one client takes no room for uploads from the others: neither by what it announces and does not send,
//! nor by uploads that it leaves unfinished.

use crate::support::prelude::*;

const CREATE: &str = "Upload-Complete: ?0\r\n";

/// The whole room was taken, for a day, by a request without a byte.
#[test]
fn an_upload_that_announces_all_the_room_and_sends_nothing_takes_none() {
    directory_only!("what waits in a store is not staged");
    let dir = DataDir::temporary();
    let args = ["--max-staged", "1MiB", "--max-staged-per-client", "0"];
    let start = || Launch::new(&args).on(&dir).start();
    let mut server = start();
    let lines = format!("Content-Length: 0\r\n{CREATE}Upload-Length: 1048576\r\n");
    let created = server.request("POST", "/empty", &lines, b"");
    assert_eq!(created.status, 201);
    let staged =
        |server: &TestServer| Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
    assert_eq!(staged(&server), 0);
    server.store("k", pattern(1, 1 << 20));
    server.stop();
    drop(server);

    let server = start();
    assert_eq!(staged(&server), 0, "nor after a restart");
    server.store("k", pattern(2, 1 << 20));
    // A part that breaks off counts with what came of it.
    let upload = Resumable::of(&created);
    let mut raw = server.connect();
    raw.send(upload.append_head(0, true, 1 << 20));
    raw.send(vec![0; 1000]);
    eventually("it is announced", || staged(&server) == 1 << 20);
    // Before its body comes, also for a small one, which needs no file.
    for length in [1, 60_000, 100_000] {
        let refused = server.connect().ask(put_head("other", length));
        assert_eq!((refused.status, refused.closes()), (503, true), "{length}");
    }
    drop(raw);
    eventually("what came is left", || staged(&server) == 1000);
    server.store("other", pattern(1, 1_000_000));
}

#[test]
fn an_address_has_half_of_the_room_and_another_the_rest() {
    directory_only!("a value of a known length is sent on to a store and not staged");
    let server = TestServer::start(&["--max-staged", "4MiB"]);
    let half = pattern(1, 2 << 20);
    let begin = |host: u8| {
        let mut raw = Raw::connect_from([127, 0, 0, host], server.addr);
        raw.send(put_head(&format!("k{host}"), half.len()));
        raw.send(&half[..half.len() - 1]);
        raw
    };
    let staged = || Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
    let mut first = begin(2);
    eventually("it has its share", || staged() == 2 << 20);
    let refused = Raw::connect_from([127, 0, 0, 2], server.addr).ask(put_head("more", 100_000));
    assert_eq!(refused.status, 503);
    let text = refused.text();
    assert!(text.contains("--max-staged-per-client"), "{text}");
    let mut second = begin(3);
    for raw in [&mut first, &mut second] {
        raw.send(&half[half.len() - 1..]);
        assert_eq!(raw.answer().status, 200);
    }
}

/// 10,000 uploads without a byte shut out every other client for a day.
#[test]
fn one_client_has_some_of_the_unfinished_uploads_alone() {
    directory_only!("the files of uploads");
    let dir = DataDir::in_memory();
    let args = ["--max-uploads-per-client", "20"];
    let server = Launch::new(&args).on(&dir).start();
    let raw = &mut server.connect();
    let uploads = (0..20).map(|_| Resumable::create(raw, "k", "", b"x"));
    let uploads: Vec<_> = uploads.collect();
    let refused = Resumable::ask_to_create(raw, "k", CREATE, b"");
    assert_eq!(refused.status, 503);
    let text = refused.text();
    assert!(text.contains("--max-uploads-per-client"), "{text}");

    // A value that is all there needs no place: it is stored without a 104.
    let whole = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
    let stored = Resumable::ask_to_create(&mut server.connect(), "whole", whole, b"value");
    assert_eq!(stored.status, 200, "{stored:?}");
    assert_eq!(server.get("whole").body, b"value");

    drop(server);
    let server = Launch::new(&args).on(&dir).start();
    let raw = &mut server.connect();
    let refused = Resumable::ask_to_create(raw, "k", CREATE, b"");
    let status = refused.status;
    assert_eq!(status, 503, "after a restart they are still its own");
    assert_eq!(uploads[0].cancel(raw).status, 204);
    assert_eq!(uploads[1].append(raw, 1, true, b"y").status, 200);
    Resumable::create(raw, "k", "", b"");
    Resumable::create(raw, "k", "", b"");
    assert_eq!(Resumable::ask_to_create(raw, "k", CREATE, b"").status, 503);
}

/// A value that is all there is stored without a place for its upload, and not whatever it is that the server lacks.
#[test]
fn a_shortage_of_descriptors_is_no_want_of_a_place() {
    directory_only!("the files of uploads");
    tracing_only!("files of uploads that cannot be made");
    let server = TestServer::start(&["--max-uploads-per-client", "1"]);
    let uploads = server.dir.own("uploads");
    let short = ["-P", text(&uploads), "-e", "inject=openat2:error=EMFILE"];
    let tracer = Attached::to(&server, &short);
    let whole = "Upload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\n";
    let refused = Resumable::ask_to_create(&mut server.connect(), "k", whole, b"value");
    assert!(tracer.has_injected());
    refused.says(503, "file descriptors");
    drop(tracer);
    server.dir.assert_holds(&[]);
}

/// The head of one PUT took all the space of the disk.
#[test]
fn a_put_that_announces_the_free_space_and_sends_nothing_leaves_it_to_others() {
    directory_only!("free space");
    let mount = needed!(Mount::tmpfs("size=300m", "space that is announced"));
    let server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    let mut greedy = server.connect();
    greedy.send(put_head("greedy", 290 << 20));
    // More than is gathered before it is written.
    greedy.send(vec![0; 1_000_000]);
    let in_flight = || Scrape::of(server.addr).only("data_server_uploads_in_flight");
    eventually("it is received", || in_flight() > 0.0);
    eventually("some of it is written", || free(&server) < 299 << 20);
    assert!(free(&server) > 280 << 20, "{}", free(&server));
    server.store("honest", pattern(1, 100_000));
    server.store("large", pattern(1, 100 << 20));
    // What cannot fit is refused before it comes.
    assert_eq!(server.connect().ask(put_head("k", 250 << 20)).status, 507);
    let upload = Resumable::create(&mut server.connect(), "r", "", b"x");
    let mut part = server.connect();
    part.send(upload.append_head(1, true, 100 << 20));
    part.send(vec![0; 3 << 20]);
    eventually("a part is received", || free(&server) < 196 << 20);
    drop(part);
    drop(greedy);
    let comes = || free(&server) > 195 << 20;
    eventually("what was set aside and did not come is free again", comes);
}

#[test]
fn no_upload_goes_below_min_free() {
    directory_only!("free space");
    let mount = needed!(Mount::tmpfs("size=64m", "a floor of free space"));
    let launch = Launch::new(&["--min-free", "32MiB"]).on(&mount.dir());
    let server = launch.start();
    let early = server.connect().ask(put_head("k", 40 << 20));
    assert_eq!(early.status, 507);
    let text = early.text();
    let is_right = text
        .contains("no more than --min-free is left for values: the disk has 64.0 MiB")
        && text.contains("is to keep 32.0 MiB");
    assert!(is_right, "{text}");
    // Nothing says how long it is: it is refused when it comes to the floor.
    let mut chunks = server.begin("PUT", "/chunks", "Transfer-Encoding: chunked\r\n");
    let value = vec![0; 40 << 20];
    let _ = chunks.offer(crate::support::chunked(value.chunks(1 << 20)));
    assert_eq!(chunks.answer().status, 507);
    // Another program takes what was there while a PUT is received.
    let mut under_way = server.connect();
    under_way.send(put_head("k", 24 << 20));
    under_way.send(&value[..1 << 20]);
    eventually("it is written", || free(&server) < 63 << 20);
    std::fs::write(server.dir.outside("fill"), &value[..12 << 20]).expect("the space is there");
    let _ = under_way.offer(&value[1 << 20..24 << 20]);
    assert_eq!(under_way.answer().status, 507);
    let mut small = 0;
    while server
        .put(&format!("small-{small}"), vec![0; 60_000])
        .status
        == 200
    {
        small += 1;
        assert!(small < 1000, "small values have no floor");
    }
    assert!(free(&server) >= 31 << 20, "{}", free(&server));
    assert!(small > 100, "{small}");
}

/// Bytes that are free where the values are.
fn free(server: &TestServer) -> u64 {
    let stat = rustix::fs::statvfs(server.dir.path()).expect("the file system");
    stat.f_bavail * stat.f_frsize
}
