//! The content of a response's body: bytes in memory, parts of a file or of a value of an S3 store, or bytes made on the way; and
//! the chunks that hyper is given of it: bytes, or a hole of so many, where the connection sends bytes that lie in no memory of this
//! process.
//!
//! hyper counts and orders the bytes of a hole like any others, and never looks at them. The connection finds the hole among what it
//! is to write ([`is_hole`]), and sends the piece in its place that waits in the connection's state. The bytes of an S3 store are
//! asked for when their turn comes, and pass through as fast as the client takes them: at most one piece is held.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use crate::failpoint;
use crate::http::body::file::{FileBody, Region};
use crate::http::values::encoded::Encoded;
use crate::s3::{RemoteBody, RemotePiece};
use crate::store::{Error, IN_MEMORY, Object, Piped};

/// A body without an end of its own, made as fast as the client takes it.
pub trait EndlessBody: std::fmt::Debug {
    /// The next bytes, or `None` when the server ends it.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// A piece of a body, as the connection sends it.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// These bytes of a file.
    Region(Region),
    /// These bytes in a pipe.
    Piped(Piped),
}

impl Piece {
    /// Whether all of it has been sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its first `n` bytes have been sent.
    pub fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Region(region) => {
                region.offset += n as u64;
                region.len -= n;
            }
            Self::Piped(piped) => piped.len -= n,
        }
    }

    /// Its length, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len,
            Self::Piped(piped) => piped.len,
        }
    }
}

impl From<RemotePiece> for Piece {
    fn from(piece: RemotePiece) -> Self {
        match piece {
            RemotePiece::Bytes(bytes) => Self::Bytes(bytes),
            RemotePiece::Piped(piped) => Self::Piped(piped),
        }
    }
}

/// The content of a body that is left.
#[derive(Debug)]
pub enum Content {
    Empty,
    Bytes(Bytes),
    File(FileBody),
    /// From an S3 store.
    Remote(Box<RemotePart>),
    /// One after the other, and the length of all that is left.
    Parts(VecDeque<Content>, u64),
    /// Of unknown length.
    Encoded(Box<Encoded>),
    /// Without an end of its own. Boxed, so that other bodies are not larger for it.
    Endless(Box<dyn EndlessBody>),
}

impl Content {
    pub fn remote(part: RemotePart) -> Self {
        match part.remaining() {
            0 => Self::Empty,
            _ => Self::Remote(Box::new(part)),
        }
    }

    pub fn part(object: Arc<Object>, range: Range<u64>) -> Self {
        if range.is_empty() {
            return Self::Empty;
        }
        if let Some(bytes) = object.bytes() {
            // A value in memory is shorter than any usize.
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
            return Self::Bytes(bytes.slice(at(range.start)..at(range.end)));
        }
        Self::File(FileBody::new(object, range))
    }

    /// How many bytes are left, where that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.remaining()),
            Self::Remote(part) => Some(part.remaining()),
            Self::Parts(_, left) => Some(*left),
            Self::Encoded(_) | Self::Endless(_) => None,
        }
    }

    /// The next bytes where they are few, or what is in memory already; else the next piece.
    pub fn poll_short(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, Error>>> {
        let is_long = match self {
            Self::File(file) => file.remaining() > IN_MEMORY,
            Self::Parts(_, left) => *left > IN_MEMORY,
            Self::Remote(_) => true,
            _ => false,
        };
        if is_long && failpoint::takes_over() {
            return self.poll_piece(cx);
        }
        self.poll_bytes(cx).map_ok(Piece::Bytes)
    }

    /// The next bytes; files are read for them.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(bytes)))
            }
            Self::File(file) => file.poll_bytes(cx),
            Self::Remote(part) => part.poll_bytes(cx),
            Self::Parts(parts, left) => {
                poll_parts(parts, left, Bytes::len, |part| part.poll_bytes(cx))
            }
            Self::Encoded(encoded) => encoded.poll_piece(cx),
            Self::Endless(body) => body.poll_piece(cx).map(|piece| piece.map(Ok)),
        }
    }

    /// The next piece; files are left to the connection.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, Error>>> {
        match self {
            Self::File(file) => file.poll_region(cx).map_ok(Piece::Region),
            Self::Remote(part) => part.poll_piece(cx).map_ok(Piece::from),
            Self::Parts(parts, left) => {
                poll_parts(parts, left, Piece::len, |part| part.poll_piece(cx))
            }
            _ => self.poll_bytes(cx).map_ok(Piece::Bytes),
        }
    }
}

/// The first file among `parts`.
pub fn first_file(parts: &mut VecDeque<Content>) -> Option<&mut FileBody> {
    parts.iter_mut().find_map(|part| match part {
        Content::File(file) => Some(file),
        _ => None,
    })
}

/// The bytes that `poll` gives of the first part that has some left; `left` is less by their `len`.
fn poll_parts<T>(
    parts: &mut VecDeque<Content>,
    left: &mut u64,
    len: impl FnOnce(&T) -> usize,
    mut poll: impl FnMut(&mut Content) -> Poll<Option<Result<T, Error>>>,
) -> Poll<Option<Result<T, Error>>> {
    while let Some(part) = parts.front_mut() {
        match ready!(poll(part)) {
            Some(piece) => {
                let piece = piece?;
                *left -= len(&piece) as u64;
                return Poll::Ready(Some(Ok(piece)));
            }
            None => drop(parts.pop_front()),
        }
    }
    Poll::Ready(None)
}

/// The most bytes of a hole that are shown at once.
const SHOWN: usize = 512 << 10;

/// Zeros that no code reads or writes, so that the kernel gives no memory for them.
static HOLE: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; SHOWN].into());

/// A chunk that hyper is given of a body.
#[derive(Debug)]
pub enum Chunk {
    /// These bytes.
    Bytes(Bytes),
    /// So many of the piece that waits.
    Hole(usize),
}

/// Whether `bytes` are of a hole, and not to be sent.
pub fn is_hole(bytes: &[u8]) -> bool {
    HOLE.as_ptr_range().contains(&bytes.as_ptr())
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Hole(len) => *len,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Hole(len) => &HOLE[..(*len).min(SHOWN)],
        }
    }

    fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Hole(len) => *len -= n,
        }
    }
}

/// A part of a value of an S3 store that is sent.
pub struct RemotePart {
    left: u64,
    state: State,
}

type Asking = Pin<Box<dyn Future<Output = Result<RemoteBody, Error>>>>;

enum State {
    /// The request for them; nothing happens before it is polled.
    Asking(Asking),
    Coming(RemoteBody),
}

impl RemotePart {
    /// Those that `body` brings.
    pub fn coming(body: RemoteBody) -> Self {
        Self {
            left: body.remaining(),
            state: State::Coming(body),
        }
    }

    /// The `len` bytes that `ask` will bring.
    pub fn asked(len: u64, ask: impl Future<Output = Result<RemoteBody, Error>> + 'static) -> Self {
        Self {
            left: len,
            state: State::Asking(Box::pin(ask)),
        }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let bytes = ready!(ready!(self.poll_coming(cx))?.poll_next(cx));
        if let Some(Ok(bytes)) = &bytes {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(bytes)
    }

    /// The next piece, or `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RemotePiece, Error>>> {
        let piece = ready!(ready!(self.poll_coming(cx))?.poll_piece(cx));
        if let Some(Ok(piece)) = &piece {
            self.left = self.left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece)
    }

    /// The bytes, once the store has been asked for them.
    fn poll_coming(&mut self, cx: &mut Context<'_>) -> Poll<Result<&mut RemoteBody, Error>> {
        if let State::Asking(ask) = &mut self.state {
            self.state = State::Coming(ready!(ask.as_mut().poll(cx))?);
        }
        match &mut self.state {
            State::Coming(body) => Poll::Ready(Ok(body)),
            State::Asking(_) => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for RemotePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemotePart")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
