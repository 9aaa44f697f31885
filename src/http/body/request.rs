//! The body of a request as it arrives: counted, held to the limit, and never taken as whole when it breaks off.
//!
//! It comes in frames from hyper or from an HTTP/2 stream, or, when it is large, from the socket itself ([`BodySource`]), which
//! counts what it moves.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::{HeaderMap, Response};

use crate::http::body::stream::StreamBody;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::refusal::rejection::Rejection;
use crate::store::{self, BodySource};

/// The body of a request that has just arrived, by what brings it.
#[derive(Debug)]
pub enum RequestBody {
    /// hyper, which speaks HTTP/1.
    Http1(Incoming),
    /// A stream of HTTP/2.
    Http2(StreamBody),
    /// The socket.
    Socket(Box<dyn BodySource>),
}

impl RequestBody {
    /// Its length in bytes, where that is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.size_hint().exact(),
            Self::Http2(body) => body.len(),
            Self::Socket(source) => Some(source.left()),
        }
    }

    /// Whether there is nothing to receive.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_empty(),
            Self::Socket(source) => source.left() == 0,
        }
    }

    /// The bytes that hyper had passed on when it was dropped: it does so before anything is asked of it, unless the client waits
    /// to be told to go on.
    pub fn take_early(&mut self) -> BytesMut {
        let mut cx = Context::from_waker(Waker::noop());
        let mut early = BytesMut::new();
        while let Poll::Ready(Some(Ok(frame))) = self.poll_frame(&mut cx) {
            early.unsplit(frame.into_data().unwrap_or_default().into());
        }
        early
    }

    /// The next frame; the socket brings none.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Rejection>>> {
        match self {
            Self::Http1(body) => Pin::new(body).poll_frame(cx).map_err(|_| Rejection::CutOff),
            Self::Http2(body) => body.poll_frame(cx).map_err(|_| Rejection::CutOff),
            Self::Socket(_) => Poll::Ready(None),
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
        if let Some(source) = self.source() {
            if source.left() == 0 {
                return Ok(None);
            }
            let read = store::read(source).await;
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

    /// The trailers, once the body has ended.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// The source of the body, unless it comes in frames.
    pub fn source(&mut self) -> Option<&mut (dyn BodySource + 'static)> {
        match &mut self.body {
            RequestBody::Socket(source) => Some(&mut **source),
            _ => None,
        }
    }

    /// Whether the client can be told something before the response.
    pub fn has_interim(&self) -> bool {
        !matches!(self.body, RequestBody::Http1(_))
    }

    /// Sends an interim response, if it can; `bytes` are what it is in HTTP/1.1.
    pub fn announce(&mut self, interim: Response<()>, bytes: Bytes) {
        match &mut self.body {
            RequestBody::Http1(_) => {}
            RequestBody::Http2(body) => body.announce(interim),
            RequestBody::Socket(source) => source.announce(bytes),
        }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Rejection>> {
        let body = &mut self.body;
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
        if let Some(source) = self.source() {
            source.take_early();
            while source.left() > 0 {
                let dropped = poll_fn(|cx| source.poll_discard(cx)).await;
                dropped.ok_or(Rejection::CutOff)?;
            }
        }
        while self.next().await?.is_some() {}
        Ok(())
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_empty() {
            self.connection.leave_unread();
        }
    }
}
