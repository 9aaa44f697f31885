//! HTTP/2 on a connection (RFC 9113), as the h2 crate speaks it: requests are accepted, and each has a stream.
//!
//! A response from memory is sent here, every other one by a task of its stream ([`answering`]). Promises that every
//! stream which was begun has ended when the connection does, that a client learns which of its requests were read
//! before a connection ends in order (GOAWAY), and that one connection has bounded streams, memory and work, whatever
//! its client does. The sweep keeps the time limits of the connection, and those of each stream by itself.

mod answering;
mod frame_io;

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::{self, Builder, SendResponse};
use h2::{Reason, RecvStream};
use hyper::{Method, Request};
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Sleep, sleep};

use super::connections::LINGER;
use super::ending::poll_sent;
use super::reactor::{ConnectionContext, ConnectionError, Cut};
use super::socket_reader::SocketReader;
use super::socket_writer::Follows;
use crate::http::{
    Ends, Exchange, MAX_HEAD, Panicked, Phase, RequestBody, Responding, Stream, StreamBody,
    catch_panic, content_length,
};
use crate::metrics::TimeLimit;
use answering::{Answering, ResponseStage, StreamPermit};
pub(super) use frame_io::PREFACE;
use frame_io::{FrameIo, Output};

/// Requests of a connection at once.
const MOST_STREAMS: u32 = 100;

/// How far a client may be ahead with the bodies of its requests together, in bytes: so much is held for one whose
/// uploads wait for the disk. One upload may use all of it, for its speed is that by the round trip: 12 MB/s over 20 ms
/// with half of it (measured).
const WINDOW: u32 = 1 << 20;

/// The most that the requests which wait for a place may have in bodies, in bytes.
const MOST_WAITING: u64 = WINDOW as u64 / 2;

/// Streams that a client may reset before they are looked at; more end the connection.
const MOST_UNSEEN_RESETS: usize = 20;

/// Streams that may be reset for a client's errors; more end the connection.
const MOST_ERRORS: usize = 1024;

/// For so long what a client had sent to a stream before it knew of its reset is no error.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The most of one response that waits for the socket, in bytes: a piece that is sent and one that is read.
const MOST_QUEUED: usize = 128 << 10;

/// Empty SETTINGS, and a GOAWAY by which no request was read (RFC 9113, sections 3.4 and 6.8).
const NONE_READ: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// A request, and the way to answer it.
type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// The wait for a place that is shared.
type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>>>>;

/// Serves requests, of which the first bytes were `received`, until the connection ends. A client that has sent none,
/// or half a preface, when it ends learns that it may send all its requests again.
pub(super) async fn serve(
    context: &ConnectionContext<'_>,
    received: BytesMut,
) -> Result<(), ConnectionError> {
    if received.is_empty() {
        let mut left = NONE_READ;
        return poll_fn(|cx| {
            context.begin_turn(cx)?;
            let polled = (context.socket).poll_send_whole(cx, &mut left, Follows::Nothing);
            polled.map_err(ConnectionError::from)
        })
        .await;
    }
    let reader = SocketReader::raw(&context.socket, received);
    let output = Rc::new(Output::new(&context.socket));
    let connection = handshake(context, FrameIo::new(reader, &output)).await?;
    let mut streams = JoinSet::new();
    let mut connection = Multiplexer {
        context,
        connection,
        streams: &mut streams,
        output: Rc::clone(&output),
        queue: VecDeque::new(),
        place: Rc::default(),
        waiting: None,
        leaving: None,
    };
    let ended = poll_fn(|cx| connection.poll(cx)).await;
    // Nothing leaves any more; what was begun and changes something is finished, also for a client that has gone.
    drop(connection);
    output.close();
    while let Some(ended) = streams.join_next().await {
        count_panic(context, &ended);
    }
    match ended {
        // One side has sent the other the reason.
        Err(ConnectionError::Http2(error)) if error.is_go_away() => {
            tracing::debug!(peer = %context.client.peer, %error, "connection ended");
            Ok(())
        }
        ended => ended,
    }
}

/// A panic where a stream is served, outside of what performs its request, has ended the stream: h2 resets it.
fn count_panic(context: &ConnectionContext<'_>, ended: &Result<(), JoinError>) {
    if ended.as_ref().is_err_and(JoinError::is_panic) {
        context.reactor.counters.panics.add(1);
    }
}

/// Answers the preface, which is there.
async fn handshake(
    context: &ConnectionContext<'_>,
    io: FrameIo,
) -> Result<server::Connection<FrameIo, Bytes>, ConnectionError> {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_pending_accept_reset_streams(MOST_UNSEEN_RESETS)
        .max_local_error_reset_streams(Some(MOST_ERRORS))
        .max_concurrent_reset_streams(MOST_STREAMS as usize)
        .reset_stream_duration(REFUSED_FOR)
        .max_send_buffer_size(MOST_QUEUED);
    let mut handshake = pin!(builder.handshake(io));
    poll_fn(|cx| {
        context.begin_turn(cx)?;
        let polled = handshake.as_mut().poll(cx);
        if polled.is_pending() && context.exchange.connection().is_late() {
            return Poll::Ready(Err(Cut.into()));
        }
        polled.map_err(ConnectionError::from)
    })
    .await
}

/// A connection with its streams.
struct Multiplexer<'a> {
    context: &'a ConnectionContext<'a>,
    connection: server::Connection<FrameIo, Bytes>,
    /// The streams whose response is not in memory.
    streams: &'a mut JoinSet<()>,
    output: Rc<Output>,
    /// The requests that wait for a place.
    queue: VecDeque<Asked>,
    /// Its own place for a stream.
    place: Rc<()>,
    waiting: Option<Waiting>,
    leaving: Option<Leaving>,
}

/// An orderly end: GOAWAY has been handed over.
#[derive(Default)]
struct Leaving {
    /// The time that the client has to acknowledge it, once all is sent.
    time: Option<Pin<Box<Sleep>>>,
    /// The connection ends without an acknowledgment.
    is_over: bool,
}

impl Multiplexer<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.leave(cx)?;
        while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
            count_panic(self.context, &ended);
        }
        let polled = self.poll_streams(cx);
        self.rest();
        // All frames of the streams so far leave together.
        if self.output.poll_flush(cx)?.is_ready() {
            self.give_up_waiting(cx)?;
        }
        polled
    }

    /// Records that no stream is under way: the connection rests, or receives a frame.
    fn rest(&self) {
        if !self.streams.is_empty() {
            return;
        }
        let exchange = &self.context.exchange;
        let is_between_frames = self.output.is_between_frames.get();
        if is_between_frames || exchange.phase() == Phase::Serving {
            exchange.end();
        }
        if !is_between_frames {
            exchange.begin_head();
        }
    }

    /// Begins an orderly end where it is due, and a hasty one where a head is late.
    fn leave(&mut self, cx: &Context<'_>) -> Result<(), Cut> {
        let context = self.context;
        context.begin_turn(cx)?;
        let connection = context.exchange.connection();
        let is_due = context.ends() != Ends::Open || connection.proven.has_ended();
        if is_due && self.leaving.is_none() {
            self.connection.graceful_shutdown();
            self.leaving = Some(Leaving::default());
        }
        let is_over = self.leaving.as_ref().is_some_and(|leaving| leaving.is_over);
        if connection.is_late() && !is_over {
            context.reactor.exceeds(TimeLimit::Header, context.client);
            self.connection.abrupt_shutdown(Reason::NO_ERROR);
            self.leaving = Some(Leaving {
                time: None,
                is_over: true,
            });
        }
        Ok(())
    }

    /// Ends a connection whose client should have said that it knows of the end. It cannot know before it was sent the
    /// responses that were handed over before.
    fn give_up_waiting(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(leaving) = &mut self.leaving
            && !leaving.is_over
            && !self.connection.has_streams()
            && poll_sent(&self.context.socket, cx)?.is_ready()
        {
            let time = (leaving.time).get_or_insert_with(|| Box::pin(sleep(LINGER)));
            leaving.is_over = time.as_mut().poll(cx).is_ready();
            if leaving.is_over {
                self.connection.abrupt_shutdown(Reason::NO_ERROR);
                cx.waker().wake_by_ref();
            }
        }
        Ok(())
    }

    /// Moves frames, and accepts requests as long as the connection may have more.
    fn poll_streams(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            let place = match self.poll_place(cx) {
                Poll::Ready(place) => Some(place),
                Poll::Pending => None,
            };
            // Those that waited for a place come first.
            let waited = place.as_ref().and_then(|_| self.queue.pop_front());
            let asked = match waited {
                None => ready!(self.connection.poll_accept(cx)?),
                waited => waited,
            };
            match (asked, place) {
                (None, _) => return Poll::Ready(Ok(())),
                (Some(asked), Some(place)) => self.accept(asked, place),
                (Some(asked), None) => self.put_off(asked, cx),
            }
        }
    }

    /// Has a request wait for a place. Bodies that wait keep their part of the window of the connection, which the
    /// uploads that are served need too: where they could take more than [`MOST_WAITING`], its client may ask again.
    /// One that its client has reset waits no more.
    fn put_off(&mut self, asked: Asked, cx: &mut Context<'_>) {
        let waits = |(_, response): &mut Asked| response.poll_reset(cx).is_pending();
        self.queue.retain_mut(waits);
        let waiting = self.queue.iter().chain([&asked]);
        let with_bodies = waiting.filter(|(request, _)| !request.body().is_end_stream());
        let lengths = with_bodies.map(|(request, _)| content_length(request.headers()));
        let bodies = lengths.fold(0, |all: u64, len| {
            all.saturating_add(len.unwrap_or(u64::MAX))
        });
        if bodies <= MOST_WAITING && self.queue.len() < MOST_STREAMS as usize {
            self.queue.push_back(asked);
        } else {
            let (_, mut response) = asked;
            response.send_reset(Reason::REFUSED_STREAM);
        }
    }

    /// A place for another stream. Without one, the connection is woken when it may have one, also if its own streams
    /// never end.
    fn poll_place(&mut self, cx: &mut Context<'_>) -> Poll<StreamPermit> {
        // What it got meanwhile goes to others, if it needs none.
        let waiting = self.waiting.take();
        if self.streams.len() >= MOST_STREAMS as usize {
            return Poll::Pending;
        }
        if Rc::strong_count(&self.place) == 1 {
            return Poll::Ready(StreamPermit::OfConnection(Rc::clone(&self.place)));
        }
        let places = &self.context.reactor.streams;
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Poll::Ready(StreamPermit::Shared(place));
        }
        let mut waiting = waiting.unwrap_or_else(|| Box::pin(Arc::clone(places).acquire_owned()));
        match waiting.as_mut().poll(cx) {
            // The semaphore is never closed.
            Poll::Ready(place) => place.map_or(Poll::Pending, |place| {
                Poll::Ready(StreamPermit::Shared(place))
            }),
            Poll::Pending => {
                self.waiting = Some(waiting);
                Poll::Pending
            }
        }
    }

    fn accept(&mut self, (request, response): Asked, place: StreamPermit) {
        self.context.socket.raw.send_on();
        let (head, body) = request.into_parts();
        let reactor = self.context.reactor;
        let exchange = Rc::new(Exchange::new(self.context.exchange.connection()));
        let stream = Rc::new(Stream::new(body, response));
        let body = StreamBody::new(&stream, &exchange, &head.headers);
        let answering = Answering {
            reactor: Rc::clone(reactor),
            client: self.context.client,
            connection: self.context.entered.index,
            output: Rc::clone(&self.output),
            is_head_alone: head.method == Method::HEAD,
            place: Cell::new(Some(place)),
            stream,
            exchange: Rc::clone(&exchange),
        };
        self.context.exchange.begin_streams();
        let request = Request::from_parts(head, RequestBody::Http2(body));
        let service = &reactor.service;
        let client = self.context.client;
        let begun = catch_panic(|| {
            // HTTP/2 has no upgrades, and no request has the socket.
            match service.call(&exchange, client, request, None) {
                Responding::Left(known) => {
                    let Ok(response) = known.into_inner();
                    answering.try_send(response)
                }
                work @ Responding::Right(_) => Some(ResponseStage::Responding(work)),
            }
        });
        match begun {
            Ok(Some(begun)) => drop(self.streams.spawn_local(answering.run(begun))),
            Ok(None) => {}
            Err(Panicked) => {
                reactor.counters.panics.add(1);
                answering.stream.reset(Reason::INTERNAL_ERROR);
            }
        }
    }
}
