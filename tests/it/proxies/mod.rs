//! Behind proxies: whom they say a connection or a request is for, and where that counts.

mod header;

use crate::support::prelude::*;

/// Clients that proxies name: addresses for documentation (RFC 5737 and 3849).
const ANN: &str = "192.0.2.1";
const BOB: &str = "192.0.2.2";

/// A server that listens for a proxy too: where.
#[track_caller]
fn start(launch: Launch) -> (TestServer, SocketAddr) {
    let server = launch.start();
    let lines = server.stdout_so_far();
    let line = lines.iter().find(|line| line.contains(" proxy+"));
    let address = line.and_then(|line| line.rsplit_once('/')?.1.parse().ok());
    (server, address.expect("an address"))
}

/// The addresses of clients that the access log has, in its order, once the server has ended.
fn peers(server: &mut TestServer) -> Vec<String> {
    server.stop();
    let log = server.log();
    let events = log.iter().filter_map(|line| Event::parse(line));
    let access = events.filter(|event| event.target == "access");
    access.map(|event| event.field("peer")).collect()
}
