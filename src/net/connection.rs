//! One connection, from the first byte to an orderly close: hot requests in front, hyper for all others.
//!
//! Promises that the connection ends within its limits whatever the peer does, and that a request being answered when
//! the server drains is answered.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use hyper::rt::Write;
use hyper::server::conn::http1::{self, Parts};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::reactor::Reactor;
use super::socket::Socket;
use super::stream::{Next, Stream};
use super::watch::{Verdict, Watched};
use crate::http::{Link, MAX_HEAD, Phase, Session, Upgraded};

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
pub(super) async fn serve(socket: Socket, peer: SocketAddr, reactor: &Reactor) {
    let link = Rc::new(Link::new(Arc::clone(reactor.counters())));
    if let Err(error) = converse(socket, peer, reactor, &link).await {
        if error.is_parse() {
            link.refused_head();
        }
        tracing::debug!(%peer, %error, "connection broken");
    }
}

/// What broke a connection.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] hyper::Error),
}

impl Broken {
    fn is_parse(&self) -> bool {
        matches!(self, Self::Protocol(error) if error.is_parse())
    }
}

/// How a conversation ends.
enum End {
    /// By the rules of the protocol.
    Orderly,
    /// By ours: nothing more is sent or read.
    Cut,
}

async fn converse(
    socket: Socket,
    peer: SocketAddr,
    reactor: &Reactor,
    link: &Rc<Link>,
) -> Result<(), Broken> {
    let service = reactor.service();
    let mut stream = Stream::new(socket, peer, Rc::clone(link), Rc::clone(service));
    let watched = reactor.watch().add(link);
    let mut finishing = false;
    let next = poll_fn(|cx| {
        let verdict = watched.verdict(cx);
        if !heed(verdict, link) {
            return Poll::Ready(Ok(None));
        }
        finishing |= verdict == Some(Verdict::Finish);
        match stream.poll_front(cx) {
            // Polled before, so that a request which had arrived is still read.
            Poll::Pending if finishing && !stream.is_amid() => Poll::Ready(Ok(Some(Next::End))),
            polled => polled.map_ok(Some),
        }
    });
    match next.await? {
        // In a place of its own, so that a connection which does without has no room set aside for it.
        Some(Next::Protocol) => {
            let speaker = Speaker {
                peer,
                reactor,
                link,
                watched: &watched,
            };
            Box::pin(speaker.speak(stream, finishing)).await?;
        }
        // To close is to shut down in order here: nobody else has the socket.
        Some(Next::End) | None => {}
    }
    Ok(())
}

/// Shuts the connection down in order. A peer that is gone already needs no goodbye.
async fn say_farewell(stream: &mut Stream) {
    let _ = poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await;
}

/// A connection on which hyper is needed.
struct Speaker<'a> {
    peer: SocketAddr,
    reactor: &'a Reactor,
    link: &'a Rc<Link>,
    watched: &'a Watched<'a>,
}

impl Speaker<'_> {
    /// Has hyper go on with `stream`; `finishing` when it is to end with the answer under way.
    async fn speak(self, stream: Stream, mut finishing: bool) -> Result<(), hyper::Error> {
        let (link, reactor) = (self.link, self.reactor);
        let upgraded = Upgraded::default();
        let service = service_fn(|request| {
            reactor
                .service()
                .answer(link, self.peer, request, &upgraded)
        });
        let mut connection = reactor.protocol().serve_connection(stream, service);
        let end = poll_fn(|cx| {
            let verdict = self.watched.verdict(cx);
            if !heed(verdict, link) {
                return Poll::Ready(Ok(End::Cut));
            }
            finishing |= verdict == Some(Verdict::Finish);
            let is_watch = link.phase() == Phase::Watching;
            let mut polled = connection.poll_without_shutdown(cx);
            if polled.is_pending() && finishing && !link.is_part_held() && !link.is_in_front() {
                finishing = false;
                // Polled before, so that a request which had arrived is still read; and again, to close when there was none.
                Pin::new(&mut connection).graceful_shutdown();
                polled = connection.poll_without_shutdown(cx);
            }
            let is_told = link.is_finishing() && is_watch;
            let is_watch = link.phase() == Phase::Watching;
            if polled.is_pending() && is_told && (link.is_sending() || is_watch) {
                // Nobody waits for a subscriber that does not read; one that does can come back to where it was.
                return Poll::Ready(Ok(End::Cut));
            }
            let holds_answer = link.is_sending() || !link.regions().is_empty();
            if matches!(polled, Poll::Ready(Ok(()))) && holds_answer {
                // hyper calls a connection done whose last answer it holds, and goes on with it if it is asked to.
                return Poll::Pending;
            }
            polled.map_ok(|()| End::Orderly)
        })
        .await?;
        // hyper would leave a connection as it is that asked for any upgrade, also one that was answered as if it had not.
        let Parts {
            io: mut stream,
            read_buf,
            ..
        } = connection.into_parts();
        let end = match (end, upgraded.take()) {
            (End::Orderly, Some(session)) => {
                let is_early = stream.leave_framing() || !read_buf.is_empty();
                self.run(session, &mut stream, is_early).await
            }
            (end, _) => end,
        };
        if let End::Orderly = end {
            say_farewell(&mut stream).await;
        }
        Ok(())
    }

    /// Runs the session that the connection was upgraded to.
    async fn run(&self, session: Box<Session>, stream: &mut Stream, is_early: bool) -> End {
        // Aside, so that the others need no room for it.
        let mut running = Box::pin(session.run(TokioIo::new(stream), is_early));
        poll_fn(|cx| {
            if heed(self.watched.verdict(cx), self.link) {
                running.as_mut().poll(cx).map(|()| End::Orderly)
            } else {
                Poll::Ready(End::Cut)
            }
        })
        .await
    }
}

/// Passes on what the connection was told, before it goes on; false when it may not.
fn heed(verdict: Option<Verdict>, link: &Link) -> bool {
    link.begin_turn();
    match verdict {
        Some(Verdict::Nudge) => link.nudge(),
        Some(Verdict::LateHead) => link.give_up_head(),
        Some(Verdict::TooSlow) => return false,
        // A subscriber asks no more.
        Some(Verdict::Last) if link.phase() == Phase::Watching => link.finish(),
        Some(Verdict::Last) => link.end_after_answer(),
        Some(Verdict::Finish) => link.finish(),
        None => {}
    }
    true
}
