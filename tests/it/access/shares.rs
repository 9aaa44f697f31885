//! Proves that each subject has a share of its own of what uploads may take, also where several ask from one address.

use super::{bearer, rule, serve, serve_on, subject};
use crate::support::prelude::*;

fn policy() -> String {
    let may = ["read", "write", "metrics"];
    let subjects = ["ann", "bob"].map(|name| subject(name) + &rule(name, "", &may));
    subjects.concat()
}

#[test]
fn one_subject_takes_no_unfinished_uploads_from_another_at_its_address() {
    directory_only!("resumable uploads");
    let dir = DataDir::temporary();
    let start = || serve_on(&dir, &policy(), &["--max-uploads-per-client", "3"]);
    let ask = |server: &TestServer, name| {
        let lines = format!("Upload-Complete: ?0\r\n{}", bearer(name));
        Resumable::ask_to_create(&mut server.connect(), "k", &lines, b"x").status
    };
    let server = start();
    assert_eq!([(); 4].map(|()| ask(&server, "ann")), [201, 201, 201, 503]);
    assert_eq!(ask(&server, "bob"), 201);
    drop(server);
    let server = start();
    eventually("they are ann's again", || ask(&server, "ann") == 503);
    assert_eq!(ask(&server, "bob"), 201);
}

#[test]
fn one_subject_takes_no_staged_bytes_from_another_at_its_address() {
    let server = serve(&policy(), &["--max-staged", "4MiB"]);
    let value = pattern(1, 2 << 20);
    let begin = |name, key, value: &[u8]| {
        let chunked = "Transfer-Encoding: chunked\r\n";
        let mut raw = server.connect();
        let lines = bearer(name) + chunked;
        raw.send(format!("PUT /{key} HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
        let _ = raw.offer(crate::support::chunked([value]));
        raw
    };
    let staged = || {
        let scrape = Scrape::over(&mut server.connect(), &bearer("ann"));
        scrape.count("data_server_staged_bytes", &[])
    };
    let part = &value[300_000..];
    let mut held = begin("ann", "held", part);
    // What it has yet to receive has its room.
    eventually("it has its share", || staged() >= part.len() as u64);
    assert_eq!(begin("ann", "more", &value).answer().status, 503);
    let mut other = begin("bob", "other", part);
    other.send("0\r\n\r\n");
    assert_eq!(other.answer().status, 200);
    held.send("0\r\n\r\n");
    assert_eq!(held.answer().status, 200);
}
