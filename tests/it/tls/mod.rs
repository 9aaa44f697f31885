//! TLS: handshakes, certificates and their replacement, transfers, and peers that do not keep to the protocol.

mod clients;
mod handshakes;
mod hostile;
mod options;
mod reload;
mod transfers;

use crate::support::prelude::*;

/// The names of the server in these tests.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A server that shows `own`.
fn start(own: &Issued, args: &[&str]) -> TestServer {
    let all: Vec<&str> = own.options().iter().chain(args).copied().collect();
    Launch::new(&all).listen("https://127.0.0.1:0").start()
}

/// An authority, a certificate of it, and a server that shows that.
fn started(args: &[&str]) -> (Authority, Issued, TestServer) {
    let authority = Authority::new();
    let own = authority.issue("own", &NAMES);
    let server = start(&own, args);
    (authority, own, server)
}

/// Whether this connection is served.
fn is_served(mut raw: Raw) -> bool {
    raw.offer(get_head("k")).is_ok() && raw.try_head().is_some()
}
