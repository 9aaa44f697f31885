//! Values in an S3 store: the contract through the socket, and what the server does when the store fails or lies.

mod check;
mod check_store;
mod contract;
mod credentials;
mod faults;
mod features;
mod listing;
mod long_values;
mod moves;
mod redirect;
mod statuses;
mod tls;
mod uploads;

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Stub, VersityGw};

/// Runs `test` on a server over a real store, where there is one, and over the store in memory. `name` is a prefix that
/// no other test has.
fn each(name: &str, test: impl Fn(&TestServer, &Bucket)) {
    each_with(name, &[], test);
}

/// The same, of servers with these options.
fn each_with(name: &str, args: &[&str], test: impl Fn(&TestServer, &Bucket)) {
    let stub = Stub::start();
    let real = VersityGw::shared().map(|store| &store.bucket);
    for bucket in real.into_iter().chain([&stub.bucket]) {
        let bucket = bucket.beneath(name);
        test(&serve(&bucket, args), &bucket);
    }
}

/// A server over this bucket.
#[track_caller]
fn serve(bucket: &Bucket, args: &[&str]) -> TestServer {
    Launch::new(args).on_bucket(bucket).start()
}

/// A server over this bucket of a store whose conditions are not of interest: it starts faster.
#[track_caller]
fn serve_plainly(bucket: &Bucket, args: &[&str]) -> TestServer {
    serve(bucket, &[args, &["--s3-conditions", "off"]].concat())
}

/// One request on a connection of its own, with these header lines, each ending in CRLF.
#[track_caller]
fn send(server: &TestServer, method: &str, key: &str, lines: &str, body: &[u8]) -> Response {
    let lines = format!("{lines}Accept: application/problem+json, */*\r\n");
    server.request(method, &format!("/{key}"), &lines, body)
}

/// The short name of the reason in a refusal.
#[track_caller]
fn reason(answer: &Response) -> String {
    let problem = answer.json();
    let kind = problem["type"].as_str().expect("its type");
    kind.rsplit(':').next().expect("its name").to_owned()
}
