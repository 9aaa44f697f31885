//! The ceiling: hyper on one current-thread runtime, answering every request with the same kibibyte from memory.
//!
//! No store, no checks, no limits: what remains of a GET of 1 KiB when all that data-server does is taken away. Run as
//! `constant ADDR:PORT`; `benches/compare --constant` measures data-server against it.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::runtime::{Builder, LocalOptions};

fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8081".to_owned());
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let value = Bytes::from(vec![b'x'; 1024]);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let value = value.clone();
            let service = service_fn(move |_: Request<Incoming>| {
                let value = value.clone();
                async move { Ok::<_, Infallible>(Response::new(Full::new(value))) }
            });
            tokio::task::spawn_local(
                http1::Builder::new().serve_connection(TokioIo::new(socket), service),
            );
        }
    })
}
