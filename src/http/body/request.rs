//! The body of a request as it arrives: counted, held to the limit, never complete when truncated.
//!
//! A body comes in frames from hyper or from a stream of HTTP/2, or, when it is large, from the socket itself
//! ([`BodySource`]), which counts what it moves. Bytes taken from a stream are added to its flow-control window (RFC
//! 9113, section 6.9), so unread bytes never exceed the windows. A body is complete only when the client has ended its
//! side. A body in a coding of its own is [decoded](Decoder) on the way. A [`Stream`] also sends the head of the
//! response, whose body the connection sends.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use hyper::Response;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderMap};

use crate::http::exchange::Exchange;
use crate::http::head::encode::{continue_100, encode_interim};
use crate::http::head::syntax::number;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{CUT_OFF, too_large};
use crate::store::{self, BodySource};

/// The most that is received of a body which is not used, in bytes. Where there is more, the connection ends with the
/// response.
const MOST_IGNORED: u64 = 64 << 10;

/// The body of a request that has just arrived, by what brings it.
#[derive(Debug)]
pub enum RequestBody {
    /// hyper, which speaks HTTP/1.
    Http1(Incoming),
    /// A stream of HTTP/2.
    Http2(StreamBody),
    /// The socket.
    Socket(Box<dyn BodySource>),
    /// One of the others, whose bytes are decoded.
    Decoded(Box<Decoded>),
    /// Nothing.
    Empty,
}

/// A body in a coding.
#[derive(Debug)]
pub struct Decoded {
    body: RequestBody,
    decoder: Box<dyn Decoder>,
    /// Bytes that have been received, and not decoded.
    received: Bytes,
}

/// A coding that is taken off a body as it arrives.
pub trait Decoder: Debug {
    /// Takes from `received` the next bytes; `None` where it has no more of them.
    fn decode(&mut self, received: &mut Bytes) -> Result<Option<Bytes>, Refusal>;

    /// The trailers, once all has been received.
    fn end(&mut self) -> Result<HeaderMap, Refusal>;
}

impl RequestBody {
    /// Its length in bytes, where that is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.size_hint().exact(),
            Self::Http2(body) => body.len,
            Self::Socket(source) => Some(source.remaining()),
            Self::Decoded(_) => None,
            Self::Empty => Some(0),
        }
    }

    /// True where there is nothing to receive.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.stream.is_received(),
            Self::Socket(source) => source.remaining() == 0,
            Self::Decoded(decoded) => decoded.body.is_empty(),
            Self::Empty => true,
        }
    }

    /// The next frame; the socket brings none.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        match self {
            Self::Http1(body) => Pin::new(body).poll_frame(cx).map_err(|_| CUT_OFF),
            Self::Http2(body) => body.poll_frame(cx).map_err(|_| CUT_OFF),
            Self::Socket(_) | Self::Decoded(_) | Self::Empty => Poll::Ready(None),
        }
    }
}

/// The body of a request as it arrives, counted and held to the limit.
pub struct Received<'a> {
    body: RequestBody,
    left: u64,
    limit: u64,
    /// True once all of it has been received.
    pub has_ended: bool,
    /// The trailers, once the body has ended.
    pub trailers: Option<HeaderMap>,
    exchange: &'a Exchange,
}

impl<'a> Received<'a> {
    /// A body that comes from the socket was held to the limit when its length was announced.
    pub fn new(body: RequestBody, limit: u64, exchange: &'a Exchange) -> Self {
        Self {
            has_ended: body.is_empty(),
            body,
            left: limit,
            limit,
            trailers: None,
            exchange,
        }
    }

    /// The next bytes, or `None` once all have arrived; a body that breaks off is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        match &mut self.body {
            RequestBody::Socket(source) if source.remaining() == 0 => return Ok(None),
            RequestBody::Socket(source) => {
                let read = store::read(&mut **source).await;
                return read.map(Some).map_err(|_| CUT_OFF);
            }
            RequestBody::Decoded(_) => return Box::pin(self.next_decoded()).await,
            RequestBody::Http1(_) | RequestBody::Http2(_) | RequestBody::Empty => {}
        }
        while let Some(frame) = self.frame().await {
            let data = match frame?.into_data() {
                Ok(data) => data,
                Err(other) => {
                    self.trailers = other.into_trailers().ok();
                    continue;
                }
            };
            self.exchange.progress.count_received(data.len());
            let left = self.left.checked_sub(data.len() as u64);
            self.left = left.ok_or_else(|| too_large(self.limit))?;
            return Ok(Some(data));
        }
        self.has_ended = true;
        Ok(None)
    }

    /// Has a `decoder` give the bytes. Those that arrive are not held to the limit then: it knows how many it gives.
    pub fn decode(&mut self, decoder: Box<dyn Decoder>) {
        self.left = u64::MAX;
        let body = mem::replace(&mut self.body, RequestBody::Empty);
        self.body = RequestBody::Decoded(Box::new(Decoded {
            body,
            decoder,
            received: Bytes::new(),
        }));
    }

    /// The next bytes of a body that is decoded.
    async fn next_decoded(&mut self) -> Result<Option<Bytes>, Refusal> {
        let RequestBody::Decoded(mut decoded) = mem::replace(&mut self.body, RequestBody::Empty)
        else {
            return Ok(None);
        };
        // Meanwhile it arrives as any other.
        mem::swap(&mut self.body, &mut decoded.body);
        let next = loop {
            let data = decoded.decoder.decode(&mut decoded.received)?;
            if data.is_some() {
                break data;
            }
            let Some(received) = self.next().await? else {
                self.trailers = Some(decoded.decoder.end()?);
                break None;
            };
            decoded.received = received;
        };
        mem::swap(&mut self.body, &mut decoded.body);
        self.body = RequestBody::Decoded(decoded);
        Ok(next)
    }

    /// The source of the body, unless it comes in frames.
    pub fn source(&mut self) -> Option<&mut (dyn BodySource + 'static)> {
        match &mut self.body {
            RequestBody::Socket(source) => Some(&mut **source),
            _ => None,
        }
    }

    /// True where an interim response can be sent.
    pub fn can_send_interim(&self) -> bool {
        !matches!(self.body, RequestBody::Http1(_))
    }

    /// Sends a 104 (Upload Resumption Supported), where it can.
    pub async fn announce(&mut self, interim: Response<()>) {
        match &mut self.body {
            RequestBody::Http1(_) | RequestBody::Decoded(_) | RequestBody::Empty => {}
            RequestBody::Http2(body) => body.stream.announce(interim),
            RequestBody::Socket(source) => {
                let mut head = encode_interim(&interim).into();
                poll_fn(|cx| source.poll_announce(cx, &mut head)).await;
            }
        }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Refusal>> {
        let body = &mut self.body;
        // hyper would report the end of the body one turn later.
        if body.is_empty() {
            return None;
        }
        let since = self.exchange.record.start_waiting();
        let progress = &self.exchange.progress;
        let frame = poll_fn(|cx| match body.poll_frame(cx) {
            Poll::Pending if progress.given_up.get() => Poll::Ready(Some(Err(CUT_OFF))),
            polled => polled,
        });
        let frame = frame.await;
        self.exchange.record.stop_waiting(since);
        frame
    }

    /// Receives a body that is not used, if it is short, so that the connection can go on. Returns true where it is not
    /// empty.
    pub async fn ignore(&mut self) -> Result<bool, Refusal> {
        if self.body.len().is_some_and(|len| len > MOST_IGNORED) {
            return Ok(true);
        }
        // The limit is that of values.
        self.left = u64::MAX;
        let mut received = 0;
        while received <= MOST_IGNORED {
            let Some(bytes) = self.next().await? else {
                break;
            };
            received += bytes.len() as u64;
        }
        Ok(received > 0)
    }

    /// All of it, if it has at most so many bytes.
    pub async fn whole(&mut self, most: usize) -> Result<Vec<u8>, Refusal> {
        let mut text = Vec::new();
        while let Some(bytes) = self.next().await? {
            if text.len() + bytes.len() > most {
                return Err(too_large(most as u64));
            }
            text.extend_from_slice(&bytes);
        }
        Ok(text)
    }

    /// Receives all of it and drops it.
    pub async fn discard(&mut self) -> Result<(), Refusal> {
        if let Some(source) = self.source() {
            source.take_early();
            while source.remaining() > 0 {
                let dropped = poll_fn(|cx| source.poll_discard(cx)).await;
                dropped.ok_or(CUT_OFF)?;
            }
        }
        while self.next().await?.is_some() {}
        Ok(())
    }
}

/// A source of bytes; tests have others than a body.
pub trait FrameSource {
    /// The next bytes, or `None` at the end.
    fn next_frame(&mut self) -> impl Future<Output = Result<Option<Bytes>, Refusal>>;
}

impl FrameSource for Received<'_> {
    async fn next_frame(&mut self) -> Result<Option<Bytes>, Refusal> {
        self.next().await
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.has_ended && !self.body.is_empty() {
            self.exchange.leave_unread();
        }
    }
}

/// The length in bytes that a head with these `headers` announces.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    number(headers.get(CONTENT_LENGTH)?.as_bytes())
}

/// A stream of HTTP/2 on which a request has arrived.
#[derive(Debug)]
pub struct Stream {
    received: RefCell<RecvStream>,
    /// The way to answer it.
    pub response: RefCell<SendResponse<Bytes>>,
}

impl Stream {
    /// The stream of a request that has been accepted.
    pub fn new(received: RecvStream, response: SendResponse<Bytes>) -> Self {
        Self {
            received: RefCell::new(received),
            response: RefCell::new(response),
        }
    }

    /// Sends an interim response (1xx); the client may have gone.
    fn announce(&self, response: Response<()>) {
        let _ = self.response.borrow_mut().send_informational(response);
    }

    /// Ends both sides.
    pub fn reset(&self, reason: Reason) {
        self.response.borrow_mut().send_reset(reason);
    }

    /// The next bytes of the request's body, and `None` at its end.
    pub fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        let mut received = self.received.borrow_mut();
        let data = ready!(received.poll_data(cx));
        if let Some(Ok(data)) = &data {
            // Fails only for more than has come.
            let _ = received.flow_control().release_capacity(data.len());
        }
        Poll::Ready(data)
    }

    /// True once all of the body has been taken.
    pub fn is_received(&self) -> bool {
        self.received.borrow().is_end_stream()
    }
}

/// The body of a request on a stream.
#[derive(Debug)]
pub struct StreamBody {
    stream: Rc<Stream>,
    state: Rc<Exchange>,
    len: Option<u64>,
    /// 100 (Continue) is sent once the body is waited for (RFC 9110, section 10.1.1).
    is_awaited: bool,
}

impl StreamBody {
    /// The body of the request with these `headers` on `stream`, whose state is `state`.
    pub fn new(stream: &Rc<Stream>, state: &Rc<Exchange>, headers: &HeaderMap) -> Self {
        let empty = stream.is_received().then_some(0);
        Self {
            stream: Rc::clone(stream),
            state: Rc::clone(state),
            len: empty.or_else(|| content_length(headers)),
            is_awaited: headers.contains_key(EXPECT),
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let mut polled = self.stream.poll_data(cx).map_ok(Frame::data);
        if let Poll::Ready(None) = polled {
            let trailers = self.stream.received.borrow_mut().poll_trailers(cx);
            polled = trailers.map(Result::transpose).map_ok(Frame::trailers);
        }
        self.state.progress.reading.set(polled.is_pending());
        if polled.is_pending() && mem::take(&mut self.is_awaited) {
            self.stream.announce(continue_100());
        }
        polled
    }
}
