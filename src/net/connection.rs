//! One connection, from the first byte to an orderly close: a loop with one owner of the socket at a time.
//!
//! On a listener for proxies, a header says first whom the connection is for. The connection rests, with no buffers,
//! until a request begins. Until its head is whole, the connection holds no more than the bytes of that head. hyper
//! then reads requests and answers them. hyper never sees a long upload: the connection receives it, and a new hyper
//! goes on behind it. Promises that the connection ends within its limits whatever the peer does, and that a request
//! under way is answered when the server drains.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use hyper_util::rt::TokioIo;

use super::connection_limit::Permit;
use super::ending::{self, PeerActivity};
use super::http1::{self, HyperIo, Next};
use super::http2::{self, PREFACE};
use super::reactor::{ConnectionContext, ConnectionError, Reactor};
use super::socket::Socket;
use super::socket_reader::SocketReader;
use super::tls::HTTP2;
use super::{proxy_header, takeover};
use crate::http::{Client, StopReason};

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
        let peer = context.client.peer;
        tracing::debug!(%peer, %error, "connection broken");
        let message = "certificate of a client refused";
        if let Some(why) = refused_certificate(&error)
            && let Some(left_out) = reactor.service.shared.throttle.pass(message)
        {
            tracing::warn!(%peer, error = %why, left_out, "{message}");
        }
    }
}

/// Why the certificate that the client showed is refused, where that is the error.
fn refused_certificate(error: &ConnectionError) -> Option<&rustls::Error> {
    let ConnectionError::Socket(error) = error else {
        return None;
    };
    let error = error.get_ref()?.downcast_ref::<rustls::Error>();
    error.filter(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
}

async fn run(context: &mut ConnectionContext<'_>) -> Result<(), ConnectionError> {
    let mut received = BytesMut::new();
    // Boxed, so that a connection at rest has no room set aside for what comes then.
    let peer = match protocol(context, &mut received).await? {
        Some(Protocol::Http1) => Box::pin(serve_http1(context, &mut received)).await?,
        Some(Protocol::Http2) => {
            Box::pin(http2::serve(context, received.split())).await?;
            // It still sends frames (PING, WINDOW_UPDATE) when its last request has been answered.
            PeerActivity::SendsFrames
        }
        None => PeerActivity::IsAnswered,
    };
    Box::pin(ending::end(context, peer)).await
}

/// So many bytes of a preface begin no request of HTTP/1.
const KNOWN: usize = b"PRI ".len();

/// The protocol that a client speaks.
enum Protocol {
    Http1,
    Http2,
}

/// Waits for the first bytes, and finds the protocol: the handshake of TLS agreed on it, or a client in the clear
/// begins with its preface, of which HTTP/2 has all or none. `None` when no bytes come, unless the server ends a
/// connection of HTTP/2. In the clear it may be one of HTTP/1, which is closed without a word, as by nginx.
async fn protocol(
    context: &mut ConnectionContext<'_>,
    received: &mut BytesMut,
) -> Result<Option<Protocol>, ConnectionError> {
    if let Some(tls) = context.socket.tls() {
        tls.borrow_mut().uncounted = Some(Arc::clone(&context.reactor.counters));
    }
    if !rest(context, received).await? {
        let is_ended = context.is_finishing() || context.exchange.connection().is_late();
        let tls = context.socket.tls().filter(|_| is_ended);
        let is_http2 = tls.is_some_and(|tls| tls.borrow().has_agreed_on(HTTP2));
        return Ok(is_http2.then_some(Protocol::Http2));
    }
    let has_agreed = match context.socket.tls() {
        None => false,
        Some(tls) => {
            let tls = tls.borrow();
            context.client.tls_version = tls.version();
            if let Some(certificate) = tls.client_certificate() {
                context
                    .exchange
                    .connection()
                    .proven
                    .set_certificate(certificate);
            }
            tls.has_agreed_on(HTTP2)
        }
    };
    let in_clear = context.socket.tls().is_none() && context.reactor.http2_clear;
    let is_part = |it: &BytesMut| it.len() < PREFACE.len() && PREFACE.starts_with(it);
    while (has_agreed || in_clear) && is_part(received) && rest(context, received).await? {}
    let is_known = received.starts_with(PREFACE) || is_part(received) && received.len() >= KNOWN;
    if !(has_agreed || in_clear && is_known) {
        return Ok(Some(Protocol::Http1));
    }
    if is_part(received) {
        received.clear();
    }
    Ok(Some(Protocol::Http2))
}

/// Serves HTTP/1, whose first bytes are `received`. Returns what the client may be doing at the end.
async fn serve_http1(
    context: &ConnectionContext<'_>,
    received: &mut BytesMut,
) -> Result<PeerActivity, ConnectionError> {
    while !received.is_empty() || rest(context, received).await? {
        let mut reader = SocketReader::new(
            &context.socket,
            std::mem::take(received),
            context.reactor.service.optional_fields(context.client.door),
        );
        receive_head(context, &mut reader).await?;
        let (next, behind) = if reader.begins_with_upload() {
            (Next::Stop(StopReason::Upload), reader.held)
        } else {
            Box::pin(http1::serve(context, reader)).await?
        };
        *received = behind;
        match next {
            Next::Rest => {}
            Next::Close => break,
            Next::Stop(StopReason::Error(error)) => {
                let service = &context.reactor.service;
                let response = service.reject(&context.exchange, context.client, error, received);
                let mut responding = Box::pin(takeover::respond(context, response));
                context.follow(|cx| responding.as_mut().poll(cx)).await?;
                break;
            }
            Next::Stop(StopReason::Upload) => {
                // Boxed, so that a connection at rest has no room set aside for it.
                let mut receiving = Box::pin(takeover::receive(context, received));
                if context.follow(|cx| receiving.as_mut().poll(cx)).await? {
                    break;
                }
            }
            Next::Upgrade(session) => {
                let is_early = !received.is_empty();
                received.clear();
                let reader = SocketReader::raw(&context.socket, BytesMut::new());
                let io = TokioIo::new(HyperIo::new(reader));
                let mut running = Box::pin(session.run(io, is_early));
                context
                    .follow(|cx| running.as_mut().poll(cx).map(Ok))
                    .await?;
                return Ok(PeerActivity::Subscribes);
            }
        }
    }
    Ok(if received.is_empty() {
        PeerActivity::IsAnswered
    } else {
        PeerActivity::SendsOn
    })
}

/// Waits for the first bytes of a request, or more of them; false when none come.
async fn rest(
    context: &ConnectionContext<'_>,
    received: &mut BytesMut,
) -> Result<bool, ConnectionError> {
    let exchange = &context.exchange;
    let polled = |cx: &mut Context<'_>| {
        let polled = context.poll_read(cx, |bytes| {
            received.extend_from_slice(bytes);
            exchange.begin_head();
        });
        match polled {
            Poll::Pending
                if received.is_empty() && context.may_end() || exchange.connection().is_late() =>
            {
                Poll::Ready(Ok(false))
            }
            polled => polled.map_ok(|read| read > 0),
        }
    };
    context.follow(polled).await
}

/// Waits for the rest of a first head without hyper, whose buffers a slow client would keep.
async fn receive_head(
    context: &ConnectionContext<'_>,
    reader: &mut SocketReader,
) -> Result<(), ConnectionError> {
    let polled = |cx: &mut Context<'_>| {
        let polled = reader.poll_head(cx);
        if polled.is_pending() && context.exchange.connection().is_late() {
            return Poll::Ready(Ok(()));
        }
        polled
    };
    context.follow(polled).await
}
