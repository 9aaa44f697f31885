//! The body of an answer: bytes in memory, or regions of a file.
//!
//! A file is never read here. Each of its windows is handed to hyper as a [`Piece::Region`], which stands for bytes that
//! lie in one never-touched stretch of memory, while the [`Link`] holds the region itself; the stream recognises the
//! stretch and sends the region with sendfile. This relies on hyper keeping its write queue (no flattening): a test
//! compares digests of large values, which would come out as zeros.
//!
//! Holds one window at a time, whatever the value's size.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::exchange::Exchange;
use super::link::{Link, Region};
use crate::store::{self, Object};

/// How much of a file is brought into memory and given to hyper at a time.
pub(super) const WINDOW: usize = 1 << 20;

/// Stands for file bytes. Zeroed by the kernel on first touch, and never touched: address space, not memory.
static STAND_IN: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; WINDOW].into_boxed_slice());

/// Whether `slice` stands for file bytes.
pub fn is_region(slice: &[u8]) -> bool {
    STAND_IN.as_ptr_range().contains(&slice.as_ptr())
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
            Self::Region(len) => &STAND_IN[..*len],
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

    /// All of `object`, to be sent over the connection of `link`.
    pub(super) fn file(object: Arc<Object>, link: Rc<Link>) -> Self {
        let end = object.meta().len;
        Self {
            content: Content::File(FileBody {
                object,
                link,
                next: 0,
                end,
                coming: None,
            }),
            exchange: None,
        }
    }

    /// Has `exchange` end with this body.
    pub(super) fn ends(mut self, exchange: Exchange) -> Self {
        self.exchange = Some(exchange);
        self
    }

    fn remaining(&self) -> u64 {
        match &self.content {
            Content::Empty => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(file) => file.end - file.next,
        }
    }
}

impl HttpBody for Body {
    type Data = Piece;
    type Error = store::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, store::Error>>> {
        let piece = match &mut self.content {
            Content::Empty => return Poll::Ready(None),
            Content::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Empty;
                Piece::Bytes(bytes)
            }
            Content::File(file) => match ready!(file.poll_window(cx)) {
                Some(len) => Piece::Region(len?),
                None => return Poll::Ready(None),
            },
        };
        if let Some(exchange) = &mut self.exchange {
            exchange.sent(piece.remaining());
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining())
    }
}

type Coming = Pin<Box<dyn Future<Output = Result<(), store::Error>>>>;

/// A value being sent from its file.
struct FileBody {
    object: Arc<Object>,
    link: Rc<Link>,
    next: u64,
    end: u64,
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
