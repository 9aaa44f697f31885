//! One stream of an HTTP/2 connection: the body of its request, and the way of its response.
//!
//! The body arrives in DATA frames. What is taken of it makes room for as much again (RFC 9113, section 6.9), so a client
//! is never more than its windows ahead of what performs the request. Promises that a body is whole only when the client
//! ended its side of the stream. Sends no body: the connection does.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderMap};

use crate::http::exchange::connection_state::ConnectionState;
use crate::http::head::raw::number;

/// A stream that a request has begun.
#[derive(Debug)]
pub struct Stream {
    received: RefCell<RecvStream>,
    response: RefCell<SendResponse<Bytes>>,
}

impl Stream {
    /// Of a request that has been accepted.
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

    /// Sends the head of the response; the stream ends with it if it `is_last`.
    pub fn respond(
        &self,
        head: Response<()>,
        is_last: bool,
    ) -> Result<SendStream<Bytes>, h2::Error> {
        self.response.borrow_mut().send_response(head, is_last)
    }

    /// Ready when the client takes no response any more. To be asked before there is one.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.response.borrow_mut().poll_reset(cx).map(drop)
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

    fn poll_trailers(&self, cx: &mut Context<'_>) -> Poll<Result<Option<HeaderMap>, h2::Error>> {
        self.received.borrow_mut().poll_trailers(cx)
    }

    /// Whether all of the body has been taken.
    pub fn is_received(&self) -> bool {
        self.received.borrow().is_end_stream()
    }
}

/// The body of a request, from its stream.
#[derive(Debug)]
pub struct StreamBody {
    stream: Rc<Stream>,
    state: Rc<ConnectionState>,
    len: Option<u64>,
    /// Sent when the client waits for it (RFC 9110, section 10.1.1).
    continue_100: Option<Response<()>>,
}

impl StreamBody {
    /// Of a request with these `headers` on `stream`, whose state is `state`; `continue_100` tells a client that waits to send it.
    pub fn new(
        stream: &Rc<Stream>,
        state: &Rc<ConnectionState>,
        headers: &HeaderMap,
        continue_100: impl FnOnce() -> Response<()>,
    ) -> Self {
        let len = headers.get(CONTENT_LENGTH);
        let len = len.and_then(|len| number(len.as_bytes()));
        let is_empty = stream.is_received();
        Self {
            stream: Rc::clone(stream),
            state: Rc::clone(state),
            len: if is_empty { Some(0) } else { len },
            continue_100: headers.contains_key(EXPECT).then(continue_100),
        }
    }

    /// Its length in bytes, where that is known.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether there is nothing to receive.
    pub fn is_empty(&self) -> bool {
        self.stream.is_received()
    }

    /// Sends an interim response.
    pub fn announce(&self, interim: Response<()>) {
        self.stream.announce(interim);
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let polled = self.poll_received(cx);
        self.state.progress().set_reading(polled.is_pending());
        if polled.is_pending()
            && let Some(continue_100) = self.continue_100.take()
        {
            self.stream.announce(continue_100);
        }
        polled
    }

    fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(data) = ready!(self.stream.poll_data(cx)) {
            return Poll::Ready(Some(data.map(Frame::data)));
        }
        let trailers = ready!(self.stream.poll_trailers(cx)).transpose();
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)))
    }
}
