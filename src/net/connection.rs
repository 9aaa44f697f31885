//! One connection: hyper over its socket, from the first byte to an orderly close.
//!
//! Promises that the connection ends within its limits whatever the peer does, and that a request being answered when
//! the server drains is answered.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::TcpStream;

use super::reactor::Reactor;
use super::stream::Stream;
use super::watch::Verdict;
use crate::http::{Link, MAX_HEAD};

/// What hyper may hold of a request that is being received, in bytes.
const RECEIVE_BUFFER: usize = 256 << 10;

/// The protocol's settings, the same for all connections.
pub(super) fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    // The watch keeps all time limits, this one among them: hyper would need a timer for each request.
    protocol
        .header_read_timeout(None)
        .max_header_size(MAX_HEAD)
        .max_buf_size(RECEIVE_BUFFER);
    protocol
}

/// Serves `socket` until it is closed.
pub(super) async fn serve(socket: TcpStream, peer: SocketAddr, reactor: &Reactor) {
    let link = Rc::new(Link::new(Arc::clone(reactor.counters())));
    if let Err(error) = converse(socket, peer, reactor, &link).await {
        if error.is_parse() {
            link.refused_head();
        }
        tracing::debug!(%peer, %error, "connection broken");
    }
}

async fn converse(
    socket: TcpStream,
    peer: SocketAddr,
    reactor: &Reactor,
    link: &Rc<Link>,
) -> Result<(), hyper::Error> {
    let service = service_fn(|request| reactor.service().answer(link, peer, request));
    let connection = reactor
        .protocol()
        .serve_connection(Stream::new(socket, Rc::clone(link)), service);
    let mut connection = pin!(connection);
    let watched = reactor.watch().add(link);
    let mut finishing = false;
    poll_fn(|cx| {
        link.begin_turn();
        let verdict = watched.verdict(cx);
        match verdict {
            Some(Verdict::Nudge) => link.nudge(),
            Some(Verdict::LateHead) => link.give_up_head(),
            Some(Verdict::TooSlow) => return Poll::Ready(Ok(())),
            Some(Verdict::Finish) => finishing = true,
            None => {}
        }
        let polled = connection.as_mut().poll(cx);
        if polled.is_pending() && finishing && !link.is_part_held() {
            finishing = false;
            // Polled before, so that a request which had arrived is still read; and again, to close when there was none.
            connection.as_mut().graceful_shutdown();
            return connection.as_mut().poll(cx);
        }
        polled
    })
    .await
}
