//! HTTP/2 and the port of TLS against clients that mean harm: floods of frames, stalls, streams that take nothing,
//! garbage. Each costs its own connection alone: it is ended, or costs next to nothing, and another client of the same
//! reactor is answered meanwhile.

mod conformance;
mod floods;
mod greedy;
mod port;
mod stalls;
mod strike;
mod wire;

use crate::prelude::*;

/// What a long value has, in bytes.
const LONG: usize = 40_000_000;

/// A server of one reactor, so that what holds it up holds up everybody, with values in memory.
fn server(more: &[&str]) -> TestServer {
    let dir = DataDir::in_memory();
    let args = ["--threads", "1", "--http2-clear"];
    let server = Launch::new(&[&args, more].concat()).on(&dir).in_the_clear();
    let server = server.start();
    server.dir.place("here", pattern(1, 1024));
    server.dir.place("large", pattern(2, 1 << 20));
    server.dir.place("long", pattern(3, LONG));
    server
}

/// The same on a port of TLS alone, and who has issued its certificate.
fn sealed_server(more: &[&str]) -> (Authority, TestServer) {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let args = [&["--threads", "1"], &own.options()[..], more].concat();
    let server = Launch::new(&args).on(&DataDir::in_memory());
    let server = server.listen("https://127.0.0.1:0").start();
    server.dir.place("large", pattern(2, 1 << 20));
    (authority, server)
}

fn assert_no_panics(scrape: &Scrape) {
    let panics: Vec<_> = scrape.all("data_server_panics_total", &[]).collect();
    assert!(!panics.is_empty(), "no count of panics");
    assert!(panics.iter().all(|count| count.value == 0.0), "{panics:?}");
}

/// A client that offers this protocol alone.
fn choosing(client: &TlsClient, protocol: &[u8]) -> TlsClient {
    let mut config = (*client.config).clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let mut choosing = client.clone();
    choosing.config = Arc::new(config);
    choosing
}
