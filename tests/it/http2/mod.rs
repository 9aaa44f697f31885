//! HTTP/2 with a client that was not written for these tests, that of the h2 crate, with several requests at
//! once. What HTTP/2 has in common with HTTP/1.1 is tested by all of tests/it, run over HTTP/2 (`tests/run --http2`).

mod ends;
mod heads;
mod slow;
mod streams;

use crate::support::{Asked, Http2, Launch, TestServer};

/// A server that speaks HTTP/2 in the clear.
fn server(args: &[&str]) -> TestServer {
    launch(args).start()
}

fn launch(args: &[&str]) -> Launch {
    Launch::new(&[args, &["--http2-clear"]].concat()).in_the_clear()
}

/// Asks for `path`, with a body to come unless it `ends` with its head.
fn ask(client: &mut Http2, method: &str, path: &str, ends: bool) -> Asked {
    let asked = client.ask(method, &format!("http://t{path}"), &[], ends);
    asked.expect("a request")
}
