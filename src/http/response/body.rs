//! The body of a response: bytes in memory, or parts of a file.
//!
//! hyper takes it in frames of bytes, for which files are read. A connection that sends the body itself takes its
//! [`Piece`]s, and no byte of a file passes through the memory of this process.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::http::exchange::record::RequestRecord;
use crate::http::response::encoded::Encoded;
use crate::http::response::file_body::{FileBody, Region};
use crate::http::semantics::multipart::Multipart;
use crate::store::{self, IN_MEMORY, Object};

/// A body without an end of its own, made as fast as the client takes it.
pub(in crate::http) trait EndlessBody: std::fmt::Debug {
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
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len,
        }
    }
}

/// The body of an answer, with the record that ends when it does.
#[derive(Debug)]
pub struct Body {
    content: Content,
    record: Option<RequestRecord>,
}

#[derive(Debug)]
enum Content {
    Empty,
    Bytes(Bytes),
    File(FileBody),
    /// One after the other, and the length of all that is left.
    Parts(VecDeque<Content>, u64),
    /// Of unknown length.
    Encoded(Box<Encoded>),
    /// Without an end of its own. Boxed, so that other bodies are not larger for it.
    Endless(Box<dyn EndlessBody>),
}

impl Body {
    fn of(content: Content) -> Self {
        Self {
            content,
            record: None,
        }
    }

    pub(in crate::http) fn empty() -> Self {
        Self::of(Content::Empty)
    }

    pub(in crate::http) fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let content = if bytes.is_empty() {
            Content::Empty
        } else {
            Content::Bytes(bytes)
        };
        Self::of(content)
    }

    /// This range of `object`.
    pub(in crate::http) fn part(object: Arc<Object>, range: Range<u64>) -> Self {
        Self::of(Content::part(object, range))
    }

    /// These parts of `object`, each in its framing.
    pub(in crate::http) fn parts(object: &Arc<Object>, multipart: Multipart) -> Self {
        let mut parts = VecDeque::with_capacity(2 * multipart.parts.len() + 1);
        for (head, range) in multipart.parts {
            parts.push_back(Content::Bytes(head));
            parts.push_back(Content::part(Arc::clone(object), range));
        }
        parts.push_back(Content::Bytes(multipart.end));
        Self::of(Content::Parts(parts, multipart.len))
    }

    pub(in crate::http) fn encoded(encoded: Box<Encoded>) -> Self {
        Self::of(Content::Encoded(encoded))
    }

    pub(in crate::http) fn endless(body: Box<dyn EndlessBody>) -> Self {
        Self::of(Content::Endless(body))
    }

    /// Whether it holds so much of a file that the connection had better send it itself.
    pub fn is_long(&self) -> bool {
        match &self.content {
            Content::File(file) => file.remaining() > IN_MEMORY,
            Content::Parts(parts, left) => *left > IN_MEMORY && parts.iter().any(Content::is_file),
            _ => false,
        }
    }

    /// Its length in bytes, where that is known.
    pub fn known_len(&self) -> Option<u64> {
        self.content.remaining()
    }

    /// The next piece, or `None` at the end.
    pub async fn next_piece(&mut self) -> Option<Result<Piece, store::Error>> {
        let piece = poll_fn(|cx| self.content.poll_piece(cx)).await;
        if let Some(Ok(piece)) = &piece {
            self.note(piece.len());
        }
        piece
    }

    /// So many bytes of it leave.
    fn note(&self, bytes: usize) {
        if let Some(record) = &self.record {
            record.sent(bytes);
        }
    }

    /// Whether its first bytes can be sent without waiting for them.
    pub(in crate::http) fn is_resident(&mut self) -> bool {
        match &mut self.content {
            Content::File(file) => file.is_resident(),
            Content::Parts(parts, _) => first_file(parts).is_none_or(FileBody::is_resident),
            Content::Encoded(encoded) => encoded.is_resident(),
            Content::Empty | Content::Bytes(_) | Content::Endless(_) => true,
        }
    }

    /// Waits for its first bytes: what cannot be read is found before a head has promised it.
    pub(in crate::http) async fn begin(&mut self) -> Result<(), store::Error> {
        poll_fn(|cx| match &mut self.content {
            Content::File(file) => file.poll_resident(cx),
            Content::Parts(parts, _) => {
                first_file(parts).map_or(Poll::Ready(Ok(())), |file| file.poll_resident(cx))
            }
            Content::Encoded(encoded) => encoded.poll_resident(cx),
            Content::Empty | Content::Bytes(_) | Content::Endless(_) => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Has `record` end with this body.
    pub(in crate::http) fn ends(mut self, record: RequestRecord) -> Self {
        self.record = Some(record);
        self
    }
}

impl Content {
    fn part(object: Arc<Object>, range: Range<u64>) -> Self {
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
    fn remaining(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.remaining()),
            Self::Parts(_, left) => Some(*left),
            Self::Encoded(_) | Self::Endless(_) => None,
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// The next bytes; files are read for them.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, store::Error>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(bytes)))
            }
            Self::File(file) => file.poll_bytes(cx),
            Self::Parts(parts, left) => {
                poll_parts(parts, left, Bytes::len, |part| part.poll_bytes(cx))
            }
            Self::Encoded(encoded) => encoded.poll_piece(cx),
            Self::Endless(body) => body.poll_piece(cx).map(|piece| piece.map(Ok)),
        }
    }

    /// The next piece; files are left to the connection.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, store::Error>>> {
        match self {
            Self::File(file) => {
                let region = file.poll_region(cx);
                region.map(|region| region.map(|region| region.map(Piece::Region)))
            }
            Self::Parts(parts, left) => {
                poll_parts(parts, left, Piece::len, |part| part.poll_piece(cx))
            }
            _ => {
                let bytes = self.poll_bytes(cx);
                bytes.map(|bytes| bytes.map(|bytes| bytes.map(Piece::Bytes)))
            }
        }
    }
}

fn first_file(parts: &mut VecDeque<Content>) -> Option<&mut FileBody> {
    parts.iter_mut().find_map(|part| match part {
        Content::File(file) => Some(file),
        _ => None,
    })
}

/// What `poll` gives of the first part that has something left; `left` is less by its `len`.
fn poll_parts<T>(
    parts: &mut VecDeque<Content>,
    left: &mut u64,
    len: impl FnOnce(&T) -> usize,
    mut poll: impl FnMut(&mut Content) -> Poll<Option<Result<T, store::Error>>>,
) -> Poll<Option<Result<T, store::Error>>> {
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

impl HttpBody for Body {
    type Data = Bytes;
    type Error = store::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, store::Error>>> {
        let is_lost = self.record.as_ref().is_some_and(RequestRecord::is_lost);
        if is_lost && self.content.remaining().is_none() {
            // What has no known end ends with its client.
            return Poll::Ready(None);
        }
        let bytes = ready!(self.content.poll_bytes(cx));
        if let Some(Ok(bytes)) = &bytes {
            self.note(bytes.len());
        }
        Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)))
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
