//! One connection, from the first byte to an orderly close: a loop with one owner of the socket at a time.
//!
//! On a listener for proxies, a header says first whom the connection is for. The connection rests, with no buffers, until a
//! request begins, and holds no more than what has come of its head until that is whole. hyper then reads requests and answers
//! them. The long body of an upload takes the socket over: hyper is dropped, the connection receives the body itself, and a new
//! hyper goes on behind it. Promises that the connection ends within its limits whatever the peer does, and that a request being
//! answered when the server drains is answered.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use hyper_util::rt::TokioIo;

use super::closing::{self, LINGER, LONGEST};
use super::connection_context::ConnectionContext;
use super::connection_limit::Permit;
use super::http1::{self, Next};
use super::http2::{self, PREFACE};
use super::hyper_io::HyperIo;
use super::reactor::{Http2, Reactor};
use super::socket::{Socket, TlsSession};
use super::socket_reader::SocketReader;
use super::takeover;
use super::timeouts::Command;
use super::tls::HTTP2;
use super::{idle_read, proxy_header};
use crate::http::{Client, Session};
use crate::metrics::{Direction, Handshake, ReactorCounters};

/// The error that broke a connection.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] hyper::Error),
    #[error("{0}")]
    Http2(#[from] h2::Error),
}

/// Serves `socket` until it is closed.
pub(super) async fn serve(
    socket: Socket,
    client: Client,
    permit: &mut Permit,
    reactor: &Rc<Reactor>,
) {
    let mut context = ConnectionContext::new(socket, client, reactor);
    if !permit.has_client() && !Box::pin(proxy_header::introduce(&mut context, permit)).await {
        return;
    }
    if let Err(error) = run(&mut context).await {
        if matches!(&error, ConnectionError::Protocol(error) if error.is_parse()) {
            context.state.refused_head();
        }
        tracing::debug!(peer = %context.client.peer, %error, "connection broken");
    }
}

async fn run(context: &mut ConnectionContext<'_>) -> Result<(), ConnectionError> {
    let mut received = BytesMut::new();
    // Boxed, so that a connection at rest has no room set aside for what comes then.
    let protocol = protocol(context, &mut received).await?;
    let is_orderly = match protocol {
        Some(Protocol::Http1) => Box::pin(serve_http1(context, &mut received)).await?,
        Some(Protocol::Http2) => Box::pin(http2::serve(context, received.split())).await?,
        None => true,
    };
    // A client of HTTP/2 says this and that (PING, WINDOW_UPDATE) when its last request has been answered.
    let is_http2 = matches!(protocol, Some(Protocol::Http2));
    let longest = if is_http2 { LINGER } else { LONGEST };
    if is_orderly {
        closing::close(context, is_http2 || !received.is_empty(), longest).await?;
    }
    Ok(())
}

/// The protocol that a client speaks.
enum Protocol {
    Http1,
    Http2,
}

/// Waits for the first bytes, and says what they are of: the handshake of TLS agreed on it, or a client in the clear begins
/// with it. `None` when no bytes come.
async fn protocol(
    context: &mut ConnectionContext<'_>,
    received: &mut BytesMut,
) -> io::Result<Option<Protocol>> {
    if !begin(context, received).await? {
        return Ok(None);
    }
    context.client.tls_version = context.socket.tls().and_then(TlsSession::version);
    let certificate = context.socket.tls();
    if let Some(certificate) = certificate.and_then(TlsSession::client_certificate) {
        context.state.proven().set_certificate(certificate);
    }
    let is_http2 = match context.socket.tls() {
        Some(tls) => tls.has_agreed_on(HTTP2),
        None if context.reactor.http2() == Http2::TlsOnly => false,
        None => {
            while received.len() < PREFACE.len() && PREFACE.starts_with(received) {
                if !rest(context, received).await? {
                    break;
                }
            }
            received.starts_with(PREFACE)
        }
    };
    Ok(Some(if is_http2 {
        Protocol::Http2
    } else {
        Protocol::Http1
    }))
}

/// Waits for the first bytes of a connection, and counts the handshake before them; false when none come.
async fn begin(context: &ConnectionContext<'_>, received: &mut BytesMut) -> io::Result<bool> {
    let mut handshake = HandshakeCounter::of(context);
    let mut resting = pin!(rest(context, received));
    poll_fn(|cx| {
        let polled = resting.as_mut().poll(cx);
        handshake.look();
        polled
    })
    .await
}

/// Serves HTTP/1, whose first bytes are `received`; false when the connection is cut.
async fn serve_http1(
    context: &ConnectionContext<'_>,
    received: &mut BytesMut,
) -> Result<bool, ConnectionError> {
    while !received.is_empty() || rest(context, received).await? {
        let mut reader = SocketReader::new(
            &context.socket,
            &context.state,
            received.split(),
            context.reactor.service().tells_of_client(),
        );
        if !receive_head(context, &mut reader).await? {
            return Ok(false);
        }
        let (next, behind) = Box::pin(http1::serve(context, reader)).await?;
        *received = behind;
        match next {
            Next::Rest => {}
            Next::Close => break,
            Next::Cut => return Ok(false),
            Next::Reject(error) => {
                let service = context.reactor.service();
                let response = service.reject(&context.state, context.client, error, received);
                let responding = Box::pin(takeover::respond(context, response));
                follow_commands(context, responding).await?;
                break;
            }
            Next::Receive(upload) => {
                context.reactor.counters().takes_over(Direction::Receive);
                let receiving = Box::pin(takeover::receive(context, upload, received));
                if follow_commands(context, receiving).await? {
                    break;
                }
            }
            Next::Upgrade(session) => {
                if !run_session(context, session, received).await {
                    return Ok(false);
                }
                received.clear();
                break;
            }
        }
    }
    Ok(true)
}

/// Waits for the first bytes of a request; false when none come.
async fn rest(context: &ConnectionContext<'_>, received: &mut BytesMut) -> io::Result<bool> {
    let state = &context.state;
    poll_fn(|cx| {
        let command = context.commands.next(cx);
        if !context.apply_command(command) {
            return Poll::Ready(Ok(false));
        }
        match idle_read::poll_receive(&context.socket, state, cx, received) {
            // Polled before, so that a request which had arrived is still read.
            Poll::Pending if state.is_draining() => Poll::Ready(Ok(false)),
            Poll::Pending if command == Some(Command::LateHead) => {
                // What has come of a head is rejected by who reads it.
                context.commands.repeat(Command::LateHead);
                Poll::Ready(Ok(false))
            }
            polled => polled,
        }
    })
    .await
}

/// Waits for the rest of a first head without hyper, whose buffers a slow client would keep; false when the connection is cut.
async fn receive_head(
    context: &ConnectionContext<'_>,
    reader: &mut SocketReader,
) -> io::Result<bool> {
    poll_fn(|cx| {
        let command = context.commands.next(cx);
        if !context.apply_command(command) {
            return Poll::Ready(Ok(false));
        }
        let polled = reader.poll_head(cx);
        if polled.is_pending() && command == Some(Command::LateHead) {
            context.commands.repeat(Command::LateHead);
            return Poll::Ready(Ok(true));
        }
        polled.map_ok(|()| true)
    })
    .await
}

/// Waits for a body that is `moving`, and follows the commands meanwhile; an error when the connection is cut.
/// Boxed by the caller, so that a connection at rest has no room set aside for it.
async fn follow_commands(
    context: &ConnectionContext<'_>,
    mut moving: Pin<Box<impl Future<Output = io::Result<bool>>>>,
) -> io::Result<bool> {
    poll_fn(|cx| {
        if context.apply_command(context.commands.next(cx)) {
            moving.as_mut().poll(cx)
        } else {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        }
    })
    .await
}

/// Runs the session that the connection was upgraded to; false when it was cut.
async fn run_session(
    context: &ConnectionContext<'_>,
    session: Box<Session>,
    received: &[u8],
) -> bool {
    let is_early = !received.is_empty();
    let reader = SocketReader::raw(&context.socket, &context.state, BytesMut::new());
    let io = TokioIo::new(HyperIo::new(reader, &context.writer, &context.state));
    let mut running = Box::pin(session.run(io, is_early));
    poll_fn(|cx| {
        if context.apply_command(context.commands.next(cx)) {
            running.as_mut().poll(cx).map(|()| true)
        } else {
            Poll::Ready(false)
        }
    })
    .await
}

/// A handshake that has not been counted yet. In the clear there is none.
pub(super) struct HandshakeCounter<'a> {
    session: Option<&'a TlsSession>,
    counters: &'a ReactorCounters,
}

impl<'a> HandshakeCounter<'a> {
    /// That of a new connection.
    pub(super) fn of(context: &'a ConnectionContext<'_>) -> Self {
        Self {
            session: context.socket.tls(),
            counters: context.reactor.counters(),
        }
    }

    /// Counts it, if it is over by now.
    pub(super) fn look(&mut self) {
        if let Some(handshake) = self.session.and_then(TlsSession::handshake) {
            self.session = None;
            self.counters.shakes_hands(handshake);
        }
    }
}

impl Drop for HandshakeCounter<'_> {
    fn drop(&mut self) {
        if self.session.is_some() {
            self.counters.shakes_hands(Handshake::Failed);
        }
    }
}
