//! Behind proxies: whom they say a connection or a request is for, and where that counts.

mod fields;
mod header;
mod programs;
mod signed_on;
mod subpath;

use crate::support::prelude::*;

/// Clients that proxies name: addresses for documentation (RFC 5737).
const ANN: &str = "192.0.2.1";
const BOB: &str = "192.0.2.2";

/// Has one reactor write the log, so that its order is that of the requests.
const LOGGED: [&str; 3] = ["--access-log", "--threads", "1"];

/// A server that listens for a proxy too: where.
#[track_caller]
fn start(launch: Launch) -> (TestServer, SocketAddr) {
    let server = launch.start();
    let lines = server.stdout_so_far();
    let line = lines.iter().find(|line| line.contains(" proxy+"));
    let address = line.and_then(|line| line.rsplit_once('/')?.1.parse().ok());
    (server, address.expect("an address"))
}

/// The clients that the access log has, in its order, once the server has ended.
fn peers(server: &mut TestServer) -> Vec<String> {
    logged(server, "access")
}

/// The clients that the audit log has.
fn audited(server: &mut TestServer) -> Vec<String> {
    logged(server, "audit")
}

fn logged(server: &mut TestServer, target: &str) -> Vec<String> {
    server.stop();
    let events = server.logged(target).into_iter();
    events.map(|event| event.field("peer")).collect()
}

/// A server in whose directory anyone may read.
fn policy(dir: &DataDir, args: &[&str]) -> Launch {
    let text = "[[rule]]\nwho = [\"anonymous\"]\nprefix = \"\"\nmay = [\"read\", \"metrics\"]\n";
    let path = &*dir.write_private("access.toml", text);
    Launch::new(&[&["--access", path], args].concat()).on(dir)
}

/// Asserts that a client which guesses has to wait, and another behind the same proxy has not: `get` asks for a client,
/// with these lines.
#[track_caller]
fn fails_alone(get: &mut dyn FnMut(&str, &str) -> u16) {
    let wrong = "Authorization: Bearer wrong\r\n";
    let guesses: Vec<_> = (0..30).map(|_| get(ANN, wrong)).collect();
    assert!(guesses.ends_with(&[429]), "{guesses:?}");
    assert_eq!(get(BOB, wrong), 401, "another client");
    assert_eq!(get(ANN, ""), 404, "who claims nothing does not wait");
}
