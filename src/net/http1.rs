//! HTTP/1 on a connection, as hyper speaks it: requests are read and answered until something else is to be done with the
//! socket.
//!
//! Promises that a request which arrived whole is performed although its client closes or resets the connection, and that
//! every byte received and not used is given back. Moves no long body: those are left to the caller.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;

use super::connection_context::ConnectionContext;
use super::hyper_io::HyperIo;
use super::socket_reader::SocketReader;
use super::timeouts::Command;
use crate::http::{FramingError, Phase, RequestBody, Session, Upload};
use crate::metrics::TimeLimit;

/// The next step after hyper.
pub(super) enum Next {
    /// Requests go on.
    Rest,
    /// The connection closes in order.
    Close,
    /// The connection closes at once: nothing more is sent or read.
    Cut,
    /// A request is rejected, and the connection closes.
    Reject(FramingError),
    /// The body of an upload is received.
    Receive(Box<Upload>),
    /// The protocol is another from now on.
    Upgrade(Box<Session>),
}

/// Has hyper serve requests, those that `reader` has first, until something else is to be done: what, and what was received
/// and not used.
pub(super) async fn serve(
    context: &ConnectionContext<'_>,
    reader: SocketReader,
) -> Result<(Next, BytesMut), hyper::Error> {
    let input = Rc::clone(reader.state());
    let io = HyperIo::new(reader, &context.writer, &context.state);
    let unflushed = Rc::clone(io.unflushed());
    let handover = &context.handover;
    let service = service_fn(|request: Request<Incoming>| {
        let (service, request) = (context.reactor.service(), request.map(RequestBody::Http1));
        service.call(&context.state, context.client, request, Some(handover))
    });
    let mut hyper = context.reactor.protocol().serve_connection(io, service);
    let before = context.state.requests();
    let warm = context.reactor.warm();
    let mut is_late = false;
    let next = poll_fn(|cx| {
        let command = context.commands.next(cx);
        if !context.apply_command(command) {
            return Poll::Ready(hyper::Result::Ok(Next::Cut));
        }
        is_late |= command == Some(Command::LateHead);
        let asked = context.state.requests();
        let rests = command == Some(Command::Rest) || !warm.may_keep_buffers();
        let was_watching = context.state.phase() == Phase::Watching;
        input.is_starved.set(false);
        let polled = hyper.poll_without_shutdown(cx)?;
        // A head that came to its end in this turn is not late.
        is_late &= context.state.requests() == asked;
        let has_more = input.requests.get() > context.state.requests() - before;
        if polled.is_pending() && should_abort(context, was_watching, has_more, cx) {
            return Poll::Ready(Ok(Next::Cut));
        }
        // hyper calls a connection done whose last response it holds, and goes on with it if it is asked to.
        if unflushed.get() {
            return Poll::Pending;
        }
        if polled.is_ready() {
            return Poll::Ready(Ok(Next::Close));
        }
        if let Some(upload) = handover.upload.take() {
            return Poll::Ready(Ok(Next::Receive(upload)));
        }
        if context.state.is_serving() || !input.is_starved.get() {
            return Poll::Pending;
        }
        let holds_part = input.holds_part.get();
        let next = match input.error.get() {
            Some(error) => Next::Reject(error),
            None if is_late && holds_part => {
                context.reactor.exceeds(TimeLimit::Header, context.client);
                Next::Reject(FramingError::Late)
            }
            None if is_late => Next::Close,
            None if context.state.is_draining() && !holds_part => Next::Close,
            None if rests && context.state.phase() == Phase::Idle => Next::Rest,
            None => return Poll::Pending,
        };
        Poll::Ready(Ok(next))
    })
    .await;
    let parts = hyper.into_parts();
    // hyper would leave a connection as it is that asked for any upgrade, also one that was answered as if it had not.
    let next = match (next?, handover.session.take()) {
        (Next::Close, Some(session)) => Next::Upgrade(session),
        (next, _) => next,
    };
    let mut received = BytesMut::from(parts.read_buf);
    received.unsplit(parts.io.into_reader().into_held());
    Ok((next, received))
}

/// Whether the connection is not worth keeping: its client is gone, and nothing is done that changes anything; or it is a
/// subscriber that does not read while the server drains. `has_more` when other requests have arrived.
fn should_abort(
    context: &ConnectionContext<'_>,
    was_watching: bool,
    has_more: bool,
    cx: &mut Context<'_>,
) -> bool {
    let is_watching = context.state.phase() == Phase::Watching;
    if was_watching && context.state.is_draining() {
        // A subscriber that comes back can go on where it was.
        return is_watching || context.state.progress().is_writing();
    }
    if has_more || !context.state.is_for_client_alone() {
        return false;
    }
    match context.socket.poll_end(cx) {
        Poll::Pending => false,
        // A client that closes its side may still read what it asked for (RFC 9112, section 9.6), but for a response
        // without end.
        Poll::Ready(Ok(())) => {
            context.state.half_close();
            is_watching
        }
        Poll::Ready(Err(_)) => true,
    }
}
