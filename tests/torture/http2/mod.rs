//! HTTP/2 and the port of TLS against clients that mean harm: floods of frames, stalls, streams that take nothing,
//! garbage. Each costs its own connection alone: it is ended, or costs next to nothing, and another client of the same
//! reactor is answered meanwhile.

mod conformance;
mod floods;
mod stalls;
mod strike;
mod wire;

use crate::support::{DataDir, Launch, TestServer, pattern};

/// A server of one reactor, so that what holds it up holds up everybody, with values in memory.
fn server(more: &[&str]) -> TestServer {
    let dir = DataDir::in_memory();
    let args = ["--threads", "1", "--http2-clear"];
    let server = Launch::new(&[&args, more].concat())
        .on(&dir)
        .in_the_clear()
        .start();
    server.dir.place("here", pattern(1, 1024));
    server.dir.place("large", pattern(2, 1 << 20));
    server
}
