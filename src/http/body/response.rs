//! The body of a response: its content, and the request, which ends with it.
//!
//! hyper takes it in [`Chunk`]s, a stream of HTTP/2 in [`Piece`]s. No byte of a long file passes through the memory of
//! this process. A body that cannot be read on ends early, after all that was read before has gone to the socket.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::Content;
use crate::http::exchange::RequestGuard;
use crate::http::piece::{Chunk, Piece};
use crate::store::{self, IN_MEMORY};

/// The body of a response.
pub struct Body {
    content: Content,
    /// The request, which ends with this body.
    guard: Option<RequestGuard>,
    /// The error that ends it early, until hyper takes it.
    fault: Option<Box<store::Error>>,
}

impl Body {
    pub(crate) fn of(content: Content) -> Self {
        Self {
            content,
            guard: None,
            fault: None,
        }
    }

    pub(crate) fn empty() -> Self {
        Self::of(Content::empty())
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::of(Content::Bytes(bytes.into()))
    }

    /// Its length in bytes, where that is known.
    pub fn known_len(&self) -> Option<u64> {
        self.content.remaining()
    }

    /// The next piece, or `None` at the end.
    pub fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece, store::Error>>> {
        let piece = ready!(self.content.poll_piece(cx, true));
        if let Some(Ok(piece)) = &piece {
            self.note(piece.len());
        }
        Poll::Ready(piece)
    }

    /// All of it, where it is short and in memory.
    pub fn take_short(&mut self) -> Option<Bytes> {
        let bytes = match &mut self.content {
            Content::Bytes(bytes) if bytes.len() as u64 <= IN_MEMORY => std::mem::take(bytes),
            _ => return None,
        };
        self.note(bytes.len());
        Some(bytes)
    }

    /// Counts bytes that leave.
    fn note(&self, bytes: usize) {
        if let Some(guard) = &self.guard {
            guard.exchange.handed(bytes);
        }
    }

    /// True where its first bytes can be sent at once.
    pub fn is_resident(&mut self) -> bool {
        self.content.is_resident()
    }

    /// Waits for its first bytes, so that a value that cannot be read is an error before a head has promised it.
    pub async fn make_resident(&mut self) -> Result<(), store::Error> {
        poll_fn(|cx| self.content.poll_resident(cx)).await
    }

    /// Ends the request of `guard` with this body.
    pub fn ends(&mut self, guard: RequestGuard) {
        self.guard = Some(guard);
    }
}

impl HttpBody for Body {
    type Data = Chunk;
    type Error = store::Error;

    /// hyper holds one piece at a time. An error waits until all pieces before it have gone to the socket: the client
    /// gets them, and sees that the body was cut.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, store::Error>>> {
        let Self {
            content,
            guard,
            fault,
        } = &mut *self;
        let Some(RequestGuard { exchange }) = guard else {
            return Poll::Ready(None);
        };
        if exchange.has_lost_client() {
            // The bytes are thrown away; a body without a known end ends with its client.
            let left = content.remaining().filter(|&left| left > 0);
            *content = Content::empty();
            let hole = left.map(|left| Chunk::Hole(usize::try_from(left).unwrap_or(usize::MAX)));
            return Poll::Ready(hole.map(|hole| Ok(Frame::data(hole))));
        }
        ready!(exchange.flush.poll_taken(cx));
        if exchange.ends_bodies_by_close.get() && content.remaining().is_none() {
            exchange.is_unframed.set(true);
        }
        if fault.is_none() {
            match ready!(content.poll_short(cx)) {
                None => {
                    exchange.is_unframed.set(false);
                    return Poll::Ready(None);
                }
                Some(Ok(piece)) => {
                    exchange.handed(piece.len());
                    return Poll::Ready(Some(Ok(Frame::data(exchange.chunk_of(piece)))));
                }
                Some(Err(error)) => {
                    *fault = Some(Box::new(error));
                    exchange.flush.hold_piece();
                    ready!(exchange.flush.poll_taken(cx));
                }
            }
        }
        Poll::Ready(fault.take().map(|error| Err(*error)))
    }

    fn is_end_stream(&self) -> bool {
        self.content.remaining() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.content
            .remaining()
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
