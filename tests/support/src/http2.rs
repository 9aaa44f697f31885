//! Tests that write HTTP/1.1, on servers that speak HTTP/2: what a test sends is parsed and sent on as a stream, and
//! what comes back is written to it as HTTP/1.1.
//!
//! The test holds one end of a socket pair, and a task the other. Requests that a test sends at once are sent on one by
//! one. A connection whose first request HTTP/2 has no words for (another version, an upgrade, a malformed head) goes
//! by HTTP/1.1. A test of what HTTP/1.1 alone has says [`http1_only!`](crate::http1_only).

mod answer;
mod client;
mod connection;
mod request;

use std::env;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use tokio::runtime::{Builder, Runtime};

use super::TlsClient;
pub use client::{Asked, Http2, Leave};
use connection::Place;

/// `tests/run --http2` sets it: servers and clients of the tests speak HTTP/2.
pub(crate) const HTTP2: &str = "DATA_SERVER_HTTP2";

static IS_ON: LazyLock<bool> = LazyLock::new(|| env::var_os(HTTP2).is_some_and(|on| on == "1"));

/// What translates for all connections, and serves the stores in memory.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
});

/// Whether clients of this run speak HTTP/2.
pub fn is_http2() -> bool {
    *IS_ON
}

/// What is expected of this run's protocol, where HTTP/1.1 and HTTP/2 differ.
pub fn by_protocol<T>(http1: T, http2: T) -> T {
    if is_http2() { http2 } else { http1 }
}

/// The end of a test: HTTP/1.1 on it is HTTP/2 on `server`, with TLS as `client` makes it. And how much of what the
/// test writes has been sent on.
pub(crate) fn translated(
    server: TcpStream,
    client: Option<TlsClient>,
) -> io::Result<(TcpStream, Arc<AtomicU64>)> {
    let (near, far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let place = Place::new(server.peer_addr()?, client);
    let passed_on = Arc::default();
    let told = Arc::clone(&passed_on);
    RUNTIME.spawn(async move {
        // The test sees the end.
        let _ = connection::translate(far, server, place, told).await;
    });
    // A `TcpStream` owns any socket.
    Ok((OwnedFd::from(near).into(), passed_on))
}

/// Ends the test in a run over HTTP/2: it is of what HTTP/1.1 alone has.
#[macro_export]
macro_rules! http1_only {
    ($why:literal) => {
        let why = concat!("HTTP/1.1 only: ", $why);
        $crate::only_where!(!$crate::is_http2(), &$crate::this_test(), why)
    };
}
