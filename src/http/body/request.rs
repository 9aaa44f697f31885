//! The body of a request as it arrives: counted, held to the limit, and never taken as whole when it breaks off.
//!
//! It comes in frames from hyper or from an HTTP/2 stream, or, when it is large, from the socket itself ([`BodySource`]).

use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::{HeaderMap, Response};

use crate::http::body::stream::StreamBody;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::refusal::rejection::Rejection;
use crate::store::{self, BodySource};

/// A body that comes in frames.
#[derive(Debug)]
pub struct Frames(Protocol);

/// What brings the frames.
#[derive(Debug)]
enum Protocol {
    /// hyper, which speaks HTTP/1.
    Http1(Incoming),
    Http2(StreamBody),
}

impl From<Incoming> for Frames {
    fn from(body: Incoming) -> Self {
        Self(Protocol::Http1(body))
    }
}

impl From<StreamBody> for Frames {
    fn from(body: StreamBody) -> Self {
        Self(Protocol::Http2(body))
    }
}

impl Frames {
    /// Its length in bytes, where that is known.
    pub fn len(&self) -> Option<u64> {
        match &self.0 {
            Protocol::Http1(body) => body.size_hint().exact(),
            Protocol::Http2(body) => body.len(),
        }
    }

    /// Whether there is nothing to receive.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Protocol::Http1(body) => body.is_end_stream(),
            Protocol::Http2(body) => body.is_empty(),
        }
    }

    /// What hyper had passed on when it was dropped: it does so before anything is asked of it, unless the client waits
    /// to be told to go on.
    pub fn take_early(&mut self) -> BytesMut {
        let mut cx = Context::from_waker(Waker::noop());
        let mut early = BytesMut::new();
        while let Poll::Ready(Some(Ok(frame))) = self.poll_frame(&mut cx) {
            early.unsplit(frame.into_data().unwrap_or_default().into());
        }
        early
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Rejection>>> {
        match &mut self.0 {
            Protocol::Http1(body) => Pin::new(body).poll_frame(cx).map_err(|_| Rejection::CutOff),
            Protocol::Http2(body) => body.poll_frame(cx).map_err(|_| Rejection::CutOff),
        }
    }
}

/// The body of a request that has just arrived.
#[derive(Debug)]
pub enum RequestBody {
    /// hyper or the stream has it.
    Frames(Frames),
    /// The socket has it.
    Source(Box<dyn BodySource>),
}

impl RequestBody {
    /// Whether there is nothing to receive.
    fn is_empty(&self) -> bool {
        match self {
            Self::Frames(body) => body.is_empty(),
            Self::Source(_) => false,
        }
    }
}

/// The body of a request as it arrives, counted and held to the limit.
pub struct Received<'a> {
    body: RequestBody,
    left: u64,
    limit: u64,
    ended: bool,
    trailers: Option<HeaderMap>,
    connection: &'a ConnectionState,
}

impl<'a> Received<'a> {
    /// A large one was held to the limit when its length was announced.
    pub fn new(body: RequestBody, limit: u64, connection: &'a ConnectionState) -> Self {
        Self {
            ended: body.is_empty(),
            body,
            left: limit,
            limit,
            trailers: None,
            connection,
        }
    }

    /// The next bytes, or `None` once all have arrived; a body that breaks off is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Rejection> {
        if let Some(mut rest) = self.source() {
            if rest.left() == 0 {
                return Ok(None);
            }
            let read = store::read(&mut rest).await;
            return read.map(Some).map_err(|_| Rejection::CutOff);
        }
        while let Some(frame) = self.frame().await {
            let data = match frame?.into_data() {
                Ok(data) => data,
                Err(other) => {
                    self.trailers = other.into_trailers().ok();
                    continue;
                }
            };
            self.connection.progress().receive(data.len());
            let left = self.left.checked_sub(data.len() as u64);
            self.left = left.ok_or(Rejection::TooLarge { limit: self.limit })?;
            return Ok(Some(data));
        }
        self.ended = true;
        Ok(None)
    }

    /// What followed the body, once that has ended.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// All of the body, to be taken from the socket, unless hyper has it.
    pub fn source(&mut self) -> Option<MeteredBody<'_>> {
        let connection = self.connection;
        let RequestBody::Source(source) = &mut self.body else {
            return None;
        };
        Some(MeteredBody {
            source: &mut **source,
            connection,
            since: None,
        })
    }

    /// Whether the client can be told something before the response.
    pub fn has_interim(&self) -> bool {
        !matches!(&self.body, RequestBody::Frames(Frames(Protocol::Http1(_))))
    }

    /// Sends an interim response, if it can; `bytes` are what it is in HTTP/1.1.
    pub fn announce(&mut self, interim: Response<()>, bytes: Bytes) {
        match &mut self.body {
            RequestBody::Source(source) => source.announce(bytes),
            RequestBody::Frames(Frames(Protocol::Http2(body))) => body.announce(interim),
            RequestBody::Frames(_) => {}
        }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Rejection>> {
        let RequestBody::Frames(body) = &mut self.body else {
            return None;
        };
        // To ask hyper for the end of a body that is there takes a turn of its own.
        if body.is_empty() {
            return None;
        }
        let since = self.connection.metrics().start_waiting();
        let progress = self.connection.progress();
        let frame = poll_fn(|cx| match body.poll_frame(cx) {
            Poll::Pending if progress.is_given_up() => Poll::Ready(Some(Err(Rejection::CutOff))),
            polled => polled,
        });
        let frame = frame.await;
        self.connection.metrics().stop_waiting(since);
        frame
    }

    /// Receives all of it and keeps nothing.
    pub async fn discard(&mut self) -> Result<(), Rejection> {
        if let Some(mut rest) = self.source() {
            rest.take_early();
            while rest.left() > 0 {
                let dropped = poll_fn(|cx| rest.poll_discard(cx)).await;
                dropped.ok_or(Rejection::CutOff)?;
            }
        }
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        let is_whole = match &self.body {
            RequestBody::Source(source) => source.left() == 0,
            RequestBody::Frames(body) => self.ended || body.is_empty(),
        };
        if !is_whole {
            self.connection.leave_unread();
        }
    }
}

/// A body from the socket that counts what it moves, and the time that the client takes.
#[derive(Debug)]
pub struct MeteredBody<'a> {
    source: &'a mut dyn BodySource,
    connection: &'a ConnectionState,
    since: Option<Instant>,
}

impl MeteredBody<'_> {
    fn note(&mut self, mut polled: Poll<Option<usize>>) -> Poll<Option<usize>> {
        let progress = self.connection.progress();
        if polled.is_pending() && progress.is_given_up() {
            polled = Poll::Ready(None);
        }
        progress.set_reading(polled.is_pending());
        match polled {
            Poll::Pending if self.since.is_none() => {
                self.since = self.connection.metrics().start_waiting();
            }
            Poll::Pending => {}
            Poll::Ready(moved) => {
                self.connection.metrics().stop_waiting(self.since.take());
                self.count(moved.unwrap_or(0));
            }
        }
        polled
    }

    fn count(&self, bytes: usize) {
        self.connection.received(bytes);
        self.connection.progress().receive(bytes);
    }
}

impl BodySource for MeteredBody<'_> {
    fn left(&self) -> u64 {
        self.source.left()
    }

    fn take_early(&mut self) -> Bytes {
        let early = self.source.take_early();
        self.connection.progress().receive(early.len());
        early
    }

    fn announce(&mut self, head: Bytes) {
        self.source.announce(head);
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>> {
        let polled = self.source.poll_read(cx, buf);
        self.note(polled)
    }

    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>> {
        let polled = self.source.poll_splice(cx, pipe, is_empty);
        self.note(polled)
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let polled = self.source.poll_discard(cx);
        self.note(polled)
    }

    fn source(&self) -> Option<OwnedFd> {
        self.source.source()
    }

    fn taken(&mut self, len: u64) {
        self.source.taken(len);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.count(len);
    }
}
