//! HTTP/1 on a connection, by hyper: requests are read and answered until something else is to be done with the socket.
//!
//! Promises that a request which arrived whole is performed although its client closes or resets the connection, and
//! that every byte received and not used is given back. [`HyperIo`] is the socket as hyper has it: it sends parts of
//! files in the place of the holes that hyper writes for them, and lets other connections have their turn after a burst
//! of bytes. Long uploads are left to the caller.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{Shutdown, shutdown};

use super::reactor::{ConnectionContext, ConnectionError, Cut};
use super::socket::Socket;
use super::socket_reader::{Held, SocketReader};
use super::socket_writer::{BURST, Follows};
use crate::http::{Ends, FramingError, Phase, RequestBody, Session, StopReason, is_hole};
use crate::metrics::TimeLimit;

/// From this length on, in bytes, full packets gain more than two system calls cost.
const MIN_CORKED: usize = 256 << 10;

/// The most that the kernel may hold for a subscriber that does not read: by itself it would hold megabytes for each.
const HELD_FOR_SUBSCRIBER: usize = 64 << 10;

/// The next step after hyper.
pub(super) enum Next {
    /// Requests go on.
    Rest,
    /// The connection closes in order.
    Close,
    /// The bytes behind begin with the head of a long upload, which is received, or a request is rejected, and the
    /// connection closes.
    Stop(StopReason),
    /// The protocol is another from now on.
    Upgrade(Box<Session>),
}

/// Has hyper serve requests until something else is to be done with the socket. The first requests are those that
/// `reader` holds. Returns the next step, and the bytes that were received and not used.
pub(super) async fn serve(
    context: &ConnectionContext<'_>,
    reader: SocketReader,
) -> Result<(Next, BytesMut), ConnectionError> {
    let input = Rc::clone(&reader.state);
    let io = HyperIo::new(reader);
    let upgrade = &context.upgrade;
    let service = service_fn(|request: Request<Incoming>| {
        if request.version() < Version::HTTP_11 {
            context.exchange.ends_bodies_by_close.set(true);
        }
        let (service, request) = (&context.reactor.service, request.map(RequestBody::Http1));
        service.call(&context.exchange, context.client, request, Some(upgrade))
    });
    let mut hyper = context.reactor.protocol.serve_connection(io, service);
    let connection = context.exchange.connection();
    let before = connection.requests.get();
    let buffers = context.reactor.take_buffers();
    let mut is_open = false;
    let next = poll_fn(|cx| {
        context.begin_turn(cx)?;
        let should_rest = connection.is_quiet() || !buffers.may_be_kept();
        let was_watching = context.exchange.phase() == Phase::Watching;
        input.is_starved.set(false);
        let polled = hyper.poll_without_shutdown(cx);
        guard_end(context, &mut is_open);
        let polled = match polled {
            // Its own refusal of a head is a response like any other: the client may still be sending.
            Poll::Ready(Err(error)) if error.is_parse() => {
                tracing::debug!(peer = %context.client.peer, %error, "refused a head");
                context.exchange.refused_head();
                context.exchange.leave_unread();
                Poll::Ready(())
            }
            polled => polled?.map(drop),
        };
        let has_more = input.requests.get() > connection.requests.get() - before;
        if polled.is_pending() && should_abort(context, was_watching, has_more, cx) {
            return Poll::Ready(Err(ConnectionError::from(Cut)));
        }
        // `poll_without_shutdown` is ready while the last response is still in hyper's buffer; polling again flushes
        // it.
        if context.socket.has_unflushed.get() {
            return Poll::Pending;
        }
        if polled.is_ready() {
            return Poll::Ready(Ok(Next::Close));
        }
        // Until hyper asks for more than there is, it may hold bytes of a body, or requests behind it.
        if context.exchange.is_serving() || !input.is_starved.get() {
            return Poll::Pending;
        }
        let next = next_step(context, input.held.get(), should_rest);
        next.map_or(Poll::Pending, |next| Poll::Ready(Ok(next)))
    })
    .await;
    let parts = hyper.into_parts();
    // hyper ends with any request for an upgrade, also one that was answered as if it had asked for none.
    let next = match (next?, upgrade.take()) {
        (Next::Close, Some(session)) => Next::Upgrade(session),
        (next, _) => next,
    };
    let mut received = BytesMut::from(parts.read_buf);
    received.unsplit(parts.io.reader.into_inner().held);
    Ok((next, received))
}

/// Has a body that only the end of the connection ends look cut until all of it is there, whatever ends the connection:
/// this process, too.
fn guard_end(context: &ConnectionContext<'_>, is_open: &mut bool) {
    let socket = &context.socket;
    let has_begun = *is_open && socket.has_unflushed.get();
    let is_now = context.exchange.is_unframed.get() || has_begun;
    if is_now != std::mem::replace(is_open, is_now) {
        socket.raw.reset_when_dropped(is_now);
    }
}

/// The next step of a connection that has answered all requests which hyper saw, and holds back these bytes; `None`
/// while it waits for more.
fn next_step(context: &ConnectionContext<'_>, held: Held, should_rest: bool) -> Option<Next> {
    // A head that came to its end in this turn is not late.
    let is_late = context.exchange.connection().is_late();
    match held {
        // What may come is the rest of a body, or of its framing, which must not be read as a request.
        _ if context.exchange.left_unread() => Some(Next::Close),
        Held::Stop(stop) => Some(Next::Stop(stop)),
        Held::Part if is_late => {
            context.reactor.exceeds(TimeLimit::Header, context.client);
            Some(Next::Stop(StopReason::Error(FramingError::Late)))
        }
        Held::Nothing if is_late || context.may_end() => Some(Next::Close),
        // Of a head that is held only its own reader knows which fields are taken out.
        Held::Nothing if should_rest && context.exchange.phase() == Phase::Idle => Some(Next::Rest),
        _ => None,
    }
}

/// True when the connection is not worth keeping: its client is gone, and nothing is done that changes anything; or it
/// is a subscriber that does not read while the server drains. `has_more` when other requests have arrived.
fn should_abort(
    context: &ConnectionContext<'_>,
    was_watching: bool,
    has_more: bool,
    cx: &mut Context<'_>,
) -> bool {
    let is_watching = context.exchange.phase() == Phase::Watching;
    if was_watching && context.ends() != Ends::Open {
        // A subscriber can resume when it reconnects.
        return is_watching || context.exchange.progress.writing.get();
    }
    if has_more || !context.exchange.is_for_client_alone() {
        return false;
    }
    match context.socket.poll_end(cx) {
        Poll::Pending => false,
        // A client that closes its side may still read what it asked for (RFC 9112, section 9.6), but for a response
        // without end.
        Poll::Ready(Ok(())) => {
            context.exchange.half_close();
            is_watching
        }
        Poll::Ready(Err(_)) => true,
    }
}

/// The socket of a connection, as hyper has it.
#[derive(Debug)]
pub(super) struct HyperIo {
    reader: TokioIo<SocketReader>,
    socket: Rc<Socket>,
    /// The socket has the small send buffer of a subscriber.
    is_narrow: bool,
}

impl HyperIo {
    pub(super) fn new(reader: SocketReader) -> Self {
        Self {
            socket: Rc::clone(&reader.socket),
            reader: TokioIo::new(reader),
            is_narrow: false,
        }
    }

    /// After a burst, waits until the reactor has looked at its other sockets: a task that wakes itself would run
    /// before them, and hyper writes for as long as the socket takes bytes.
    fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.socket.burst.get() < BURST {
            return Poll::Ready(());
        }
        // Registers the wake-up, to come after the driver has been polled.
        pin!(tokio::task::yield_now()).poll(cx)
    }

    /// Sends of the waiting region in the place of `hole`: how many bytes.
    fn poll_move(&self, cx: &mut Context<'_>, hole: &[u8]) -> Poll<io::Result<usize>> {
        if self.socket.exchange.has_lost_client() {
            return Poll::Ready(Ok(hole.len()));
        }
        let mut waiting = self.socket.exchange.region.borrow_mut();
        let Some(region) = &mut *waiting else {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        };
        let follows = if self.socket.exchange.is_serving() || region.len > hole.len() {
            Follows::More
        } else {
            Follows::Nothing
        };
        self.socket.raw.cork(region.len >= MIN_CORKED);
        let moved = self.socket.poll_send_region(cx, region, follows);
        // All of it, where the client is gone.
        let moved = ready!(moved)?.min(hole.len());
        region.advance(moved);
        if region.len == 0 {
            *waiting = None;
        }
        Poll::Ready(Ok(moved))
    }
}

impl Read for HyperIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.reader).poll_read(cx, buf);
        if polled.is_pending() {
            self.socket.burst.set(0);
        }
        polled
    }
}

impl Write for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket.has_unflushed.set(true);
        ready!(self.poll_turn(cx));
        let polled = match bufs.iter().position(|buf| is_hole(buf)) {
            None => self.socket.poll_send(cx, bufs, Follows::Nothing),
            Some(0) => self.poll_move(cx, &bufs[0]),
            Some(hole) => {
                let before = &bufs[..hole];
                let all: usize = before.iter().map(|buf| buf.len()).sum();
                match self.socket.poll_send(cx, before, Follows::More) {
                    // Of an error or a full socket hyper learns when it goes on.
                    Poll::Ready(Ok(sent)) if sent == all => match self.poll_move(cx, &bufs[hole]) {
                        Poll::Ready(Ok(moved)) => Poll::Ready(Ok(sent + moved)),
                        _ => Poll::Ready(Ok(sent)),
                    },
                    polled => polled,
                }
            }
        };
        self.socket.burst.set(match &polled {
            Poll::Ready(sent) => self.socket.burst.get() + sent.as_ref().map_or(0, |&sent| sent),
            Poll::Pending => 0,
        });
        polled
    }

    /// hyper then sends a head and its body with one call.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called only when hyper has handed over all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.socket.poll_flush(cx))?;
        if !self.socket.exchange.is_serving() {
            self.socket.raw.cork(false);
        }
        self.socket.has_unflushed.set(false);
        self.socket.exchange.flushed();
        if self.socket.exchange.phase() == Phase::Watching && !self.is_narrow {
            self.is_narrow = true;
            let socket = &self.socket.raw;
            socket.expect_acknowledgments();
            // Failing costs memory of the kernel, no bytes.
            let _ =
                socket.with(|socket| Ok(set_socket_send_buffer_size(socket, HELD_FOR_SUBSCRIBER)?));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.socket.poll_close(cx))?;
        let socket = &self.socket.raw;
        Poll::Ready(socket.with(|socket| Ok(shutdown(socket, Shutdown::Write)?)))
    }
}
