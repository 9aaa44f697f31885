//! The body of an answer: bytes in memory, or regions of a file.
//!
//! A file is never read here. Each of its windows is handed to hyper as a [`Piece::Region`], which stands for bytes that
//! lie in one never-touched stretch of memory, while the [`Link`] holds the region itself; the stream recognises the
//! stretch and sends the region with sendfile. This relies on hyper keeping its write queue (no flattening): a test
//! compares digests of large values, which would come out as zeros.
//!
//! Holds one window at a time, whatever the value's size.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::encode::Encoded;
use super::exchange::Exchange;
use super::link::{Link, Region};
use super::multipart::Multipart;
use super::subscription::Events;
use crate::store::{self, Object};

/// How much of a file is brought into memory and given to hyper at a time.
pub(super) const WINDOW: usize = 1 << 20;

/// A body that is long enough for full packets to gain more than two system calls cost.
pub(super) const LONG: u64 = 256 << 10;

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
        Self::File(FileBody {
            object,
            link: Rc::clone(link),
            next: range.start,
            end: range.end,
            is_long: range.end - range.start >= LONG,
            coming: None,
        })
    }

    /// How many bytes are left, where that is known.
    fn remaining(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.end - file.next),
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

type Coming = Pin<Box<dyn Future<Output = Result<(), store::Error>>>>;

/// A value being sent from its file.
struct FileBody {
    object: Arc<Object>,
    link: Rc<Link>,
    next: u64,
    end: u64,
    is_long: bool,
    coming: Option<Coming>,
}

impl FileBody {
    /// Hands the next window to the link once it lies in memory; its length, or `None` at the end.
    fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<usize, store::Error>>> {
        let left = self.end - self.next;
        if left == 0 {
            return Poll::Ready(None);
        }
        let len = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW);
        if self.coming.is_none() && !self.object.is_resident(self.next, len as u64) {
            self.coming = Some(Box::pin(self.object.make_resident(self.next, len as u64)));
        }
        if let Some(coming) = &mut self.coming {
            let come = ready!(coming.as_mut().poll(cx));
            self.coming = None;
            if let Err(error) = come {
                return Poll::Ready(Some(Err(error)));
            }
        }
        self.link.send_region(Region {
            file: self.object.descriptor(),
            offset: self.next,
            len,
            is_long: self.is_long,
            is_last: self.next + len as u64 == self.end,
        });
        self.next += len as u64;
        Poll::Ready(Some(Ok(len)))
    }
}

impl std::fmt::Debug for FileBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileBody")
            .field("next", &self.next)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
