//! Bodies: how those of requests come, and what those of responses are made of. Here: the content of a response's body.

pub mod request;
pub mod response;
pub mod sources;

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;

use crate::failpoint;
use crate::http::body::sources::{Encoded, FileBody};
use crate::http::head::range::Multipart;
use crate::http::piece::Piece;
use crate::s3::RemoteBody;
use crate::store::{Error, Found, IN_MEMORY};

/// Pieces that are made as fast as the client takes them, perhaps without an end.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, Error>>>>;

/// The content that is left of a body.
pub enum Content {
    Bytes(Bytes),
    File(FileBody),
    /// A value of an S3 store.
    Remote(Box<RemoteBody>),
    /// Contents that are sent one after the other, and the length of all that is left.
    Parts(VecDeque<Content>, u64),
    /// A value that is compressed on the way, to an unknown length.
    Encoded(Box<Encoded>),
    Made(Pieces),
}

impl Content {
    pub const fn empty() -> Self {
        Self::Bytes(Bytes::new())
    }

    /// A range of a value, whose first bytes were requested.
    pub fn of(found: &mut Found, range: Range<u64>) -> Self {
        match found {
            _ if range.is_empty() => Self::empty(),
            Found::Object(object) => Self::Remote(Box::new(object.part(range))),
            Found::File(object) => match &object.bytes {
                Some(bytes) => {
                    // A value in memory is shorter than any usize.
                    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
                    Self::Bytes(bytes.slice(at(range.start)..at(range.end)))
                }
                None => Self::File(FileBody::new(Arc::clone(object), range)),
            },
        }
    }

    /// Several parts of a value, each in its `framing`.
    pub fn parts(framing: Multipart, mut part: impl FnMut(Range<u64>) -> Self) -> Self {
        let mut parts = VecDeque::with_capacity(2 * framing.parts.len() + 1);
        for (head, range) in framing.parts {
            parts.push_back(Self::Bytes(head));
            parts.push_back(part(range));
        }
        parts.push_back(Self::Bytes(framing.end));
        Self::Parts(parts, framing.len)
    }

    /// The first content that is read from a file or made on the way, if there is one.
    fn first_slow(&mut self) -> Option<&mut Self> {
        match self {
            Self::File(_) | Self::Encoded(_) => Some(self),
            Self::Parts(parts, _) => parts.iter_mut().find(|it| matches!(it, Self::File(_))),
            Self::Bytes(_) | Self::Remote(_) | Self::Made(_) => None,
        }
    }

    /// True where its first bytes can be sent at once.
    pub fn is_resident(&mut self) -> bool {
        match self.first_slow() {
            Some(Self::File(file)) => file.is_resident(),
            Some(Self::Encoded(_)) => false,
            _ => true,
        }
    }

    /// Brings its first bytes into memory.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.first_slow() {
            Some(Self::File(file)) => file.poll_resident(cx),
            Some(Self::Encoded(encoded)) => encoded.poll_resident(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The number of bytes that are left, where it is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.remaining()),
            Self::Remote(part) => Some(part.left),
            Self::Parts(_, left) => Some(*left),
            Self::Encoded(_) | Self::Made(_) => None,
        }
    }

    /// The next bytes, where they are few or in memory already; else the next piece.
    pub fn poll_short(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, Error>>> {
        let is_long = match self {
            Self::File(file) => file.remaining() > IN_MEMORY,
            Self::Parts(_, left) => *left > IN_MEMORY,
            _ => false,
        };
        self.poll_piece(cx, is_long && failpoint::takes_over())
    }

    /// The next piece. Files are left to the connection if `takes_files`, else read.
    pub fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        takes_files: bool,
    ) -> Poll<Option<Result<Piece, Error>>> {
        let bytes = match self {
            Self::Bytes(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Self::Bytes(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Self::File(file) if takes_files => {
                return file.poll_region(cx).map_ok(Piece::Region);
            }
            Self::File(file) => file.poll_bytes(cx),
            Self::Remote(part) => part.poll_next(cx),
            Self::Parts(parts, left) => {
                while let Some(part) = parts.front_mut() {
                    if let Some(piece) = ready!(part.poll_piece(cx, takes_files)?) {
                        *left -= piece.len() as u64;
                        return Poll::Ready(Some(Ok(piece)));
                    }
                    parts.pop_front();
                }
                return Poll::Ready(None);
            }
            Self::Encoded(encoded) => encoded.poll_piece(cx),
            Self::Made(pieces) => return pieces.as_mut().poll_next(cx),
        };
        bytes.map_ok(Piece::Bytes)
    }
}
