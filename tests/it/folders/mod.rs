//! Proves that folders are things of their own: made, kept, listed, and removed with all that is below them.

mod administrators;
mod index;
mod kept;
mod listed;
mod made;
mod mounts;
mod removed;

use crate::support::prelude::*;

const DEEP: &str = "Depth: infinity\r\n";

fn make(server: &TestServer, folder: &str) -> u16 {
    server
        .request("MKCOL", &format!("/{folder}"), "", b"")
        .status
}

fn remove(server: &TestServer, folder: &str) -> Response {
    server.request("DELETE", &format!("/{folder}"), DEEP, b"")
}

/// What a report says: how many values went, how much stays, and the names of that.
fn report(answer: &Response) -> (u64, u64, Vec<String>) {
    let report = answer.json();
    let number = |name: &str| report[name].as_u64().expect("a number");
    let why = report["why"].as_array().expect("a list").iter();
    let why = why.map(|stayed| {
        assert!(stayed["reason"].as_str().is_some_and(|why| !why.is_empty()));
        stayed["name"].as_str().expect("a name").to_owned()
    });
    let why = why.collect();
    (number("removed"), number("stayed"), why)
}

fn is_there(server: &TestServer, folder: &str) -> bool {
    server.dir.file(folder).is_dir()
}
