//! Proves what MOVE and COPY of a value, and of a folder, do: in words of the protocol, to the files, for watchers, and
//! by the rules of access.

mod bounds;
mod change;
mod copied;
mod fields;
mod folders;

use crate::support::prelude::*;

/// Asks for a MOVE or COPY; `lines` beside Destination.
fn send(raw: &mut Raw, method: &str, from: &str, to: &str, lines: &str) -> Response {
    let lines = format!("Destination: {to}\r\n{lines}");
    ask(raw, method, from, &lines, b"")
}

/// The entity tag of the value of `key`.
fn etag(server: &TestServer, key: &str) -> String {
    let found = server.connect().get(key);
    assert_eq!(found.status, 200, "{key}");
    found.header("etag").expect("a tag").to_owned()
}
