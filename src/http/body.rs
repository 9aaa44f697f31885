//! The body of an answer: bytes in memory, or regions of a file.
//!
//! A file is never read here. Each of its windows is handed to hyper as a [`Piece::Region`], which stands for bytes that
//! lie in one never-touched stretch of memory, while the [`Link`] holds the region itself; the stream recognises the
//! stretch and sends the region with sendfile. This relies on hyper keeping its write queue (no flattening): a test
//! compares digests of large values, which would come out as zeros.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::encode::Encoded;
use super::exchange::Exchange;
use super::file_body::{FileBody, WINDOW};
use super::link::Link;
use super::multipart::Multipart;
use super::subscription::Events;
use crate::store::{self, Object};

/// Stands for file bytes. Zeroed by the kernel on first touch, and never touched: address space, not memory.
static STAND_IN: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; WINDOW].into_boxed_slice());

/// Stands for a region of so many bytes, [`WINDOW`] at most.
pub(super) fn stand_in(len: usize) -> &'static [u8] {
    &STAND_IN[..len]
}

/// Whether `slice` stands for file bytes.
pub fn is_region(slice: &[u8]) -> bool {
    !slice.is_empty() && STAND_IN.as_ptr_range().contains(&slice.as_ptr())
}

/// What hyper queues for the socket.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// So many bytes of the file region that the connection's [`Link`] holds.
    Region(usize),
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(len) => *len,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Region(len) => stand_in(*len),
        }
    }

    fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Region(len) => *len -= n,
        }
    }
}

/// The body of an answer, with the exchange that ends when it does.
#[derive(Debug)]
pub struct Body {
    content: Content,
    exchange: Option<Exchange>,
}

#[derive(Debug)]
enum Content {
    Empty,
    Bytes(Bytes),
    File(FileBody),
    /// One after the other, and the length of all that is left.
    Parts(VecDeque<Content>, u64),
    /// Of unknown length.
    Encoded(Encoded),
    /// Without an end of its own. Boxed, so that other bodies are not larger for it.
    Events(Box<Events>),
}

impl Body {
    pub(super) fn empty() -> Self {
        Self {
            content: Content::Empty,
            exchange: None,
        }
    }

    pub(super) fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let content = if bytes.is_empty() {
            Content::Empty
        } else {
            Content::Bytes(bytes)
        };
        Self {
            content,
            exchange: None,
        }
    }

    /// This range of `object`, to be sent over the connection of `link`.
    pub(super) fn part(object: Arc<Object>, range: Range<u64>, link: &Rc<Link>) -> Self {
        let content = Content::part(object, range, link);
        Self {
            content,
            exchange: None,
        }
    }

    /// These parts of `object`, each in its framing.
    pub(super) fn parts(object: &Arc<Object>, multipart: Multipart, link: &Rc<Link>) -> Self {
        let mut parts = VecDeque::with_capacity(2 * multipart.parts.len() + 1);
        for (head, range) in multipart.parts {
            parts.push_back(Content::Bytes(head));
            parts.push_back(Content::part(Arc::clone(object), range, link));
        }
        parts.push_back(Content::Bytes(multipart.end));
        Self {
            content: Content::Parts(parts, multipart.len),
            exchange: None,
        }
    }

    pub(super) fn encoded(encoded: Encoded) -> Self {
        Self {
            content: Content::Encoded(encoded),
            exchange: None,
        }
    }

    pub(super) fn events(events: Box<Events>) -> Self {
        Self {
            content: Content::Events(events),
            exchange: None,
        }
    }

    /// All of it, if it is in memory, as that of an answer to an upload is; else nothing. Its exchange ends.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.content {
            Content::Bytes(bytes) => bytes,
            _ => Bytes::new(),
        }
    }

    /// Whether its first bytes can be sent without waiting for them.
    pub(super) fn is_at_hand(&mut self) -> bool {
        match &mut self.content {
            Content::File(file) => file.is_at_hand(),
            Content::Parts(parts, _) => first_file(parts).is_none_or(FileBody::is_at_hand),
            Content::Encoded(encoded) => encoded.is_at_hand(),
            Content::Empty | Content::Bytes(_) | Content::Events(_) => true,
        }
    }

    /// Waits for its first bytes: what cannot be read is found before a head has promised it.
    pub(super) async fn begin(&mut self) -> Result<(), store::Error> {
        poll_fn(|cx| match &mut self.content {
            Content::File(file) => file.poll_at_hand(cx),
            Content::Parts(parts, _) => {
                first_file(parts).map_or(Poll::Ready(Ok(())), |file| file.poll_at_hand(cx))
            }
            Content::Encoded(encoded) => encoded.poll_at_hand(cx),
            Content::Empty | Content::Bytes(_) | Content::Events(_) => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Has `exchange` end with this body.
    pub(super) fn ends(mut self, exchange: Exchange) -> Self {
        self.exchange = Some(exchange);
        self
    }
}

impl Content {
    fn part(object: Arc<Object>, range: Range<u64>, link: &Rc<Link>) -> Self {
        if range.is_empty() {
            return Self::Empty;
        }
        if let Some(bytes) = object.bytes() {
            // A value in memory is shorter than any usize.
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
            return Self::Bytes(bytes.slice(at(range.start)..at(range.end)));
        }
        Self::File(FileBody::new(object, range, link))
    }

    /// How many bytes are left, where that is known.
    fn remaining(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.remaining()),
            Self::Parts(_, left) => Some(*left),
            Self::Encoded(_) | Self::Events(_) => None,
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, store::Error>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Piece::Bytes(bytes))))
            }
            Self::File(file) => file
                .poll_window(cx)
                .map(|window| window.map(|len| len.map(Piece::Region))),
            Self::Parts(parts, left) => poll_parts(parts, left, cx),
            Self::Encoded(encoded) => encoded
                .poll_piece(cx)
                .map(|piece| piece.map(|bytes| bytes.map(Piece::Bytes))),
            Self::Events(events) => events
                .poll_piece(cx)
                .map(|piece| piece.map(|bytes| Ok(Piece::Bytes(bytes)))),
        }
    }
}

fn first_file(parts: &mut VecDeque<Content>) -> Option<&mut FileBody> {
    parts.iter_mut().find_map(|part| match part {
        Content::File(file) => Some(file),
        _ => None,
    })
}

fn poll_parts(
    parts: &mut VecDeque<Content>,
    left: &mut u64,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Piece, store::Error>>> {
    while let Some(part) = parts.front_mut() {
        match ready!(part.poll_piece(cx)) {
            Some(piece) => {
                let piece = piece?;
                *left -= piece.remaining() as u64;
                return Poll::Ready(Some(Ok(piece)));
            }
            None => drop(parts.pop_front()),
        }
    }
    Poll::Ready(None)
}

impl HttpBody for Body {
    type Data = Piece;
    type Error = store::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, store::Error>>> {
        let Some(piece) = ready!(self.content.poll_piece(cx)) else {
            return Poll::Ready(None);
        };
        let piece = piece?;
        if let Some(exchange) = &self.exchange {
            exchange.sent(piece.remaining());
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
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
