//! The body of a response: bytes in memory, or parts of a file.
//!
//! hyper takes it in [`Chunk`]s, a stream of HTTP/2 in [`Piece`]s. Of what is long, no byte of a file passes through the memory of
//! this process.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::content::{Chunk, Content, EndlessBody, Piece, RemotePart, first_file};
use crate::http::body::file::FileBody;
use crate::http::exchange::record::RequestRecord;
use crate::http::values::encoded::Encoded;
use crate::http::values::range::Multipart;
use crate::store::{self, IN_MEMORY, Object};

/// The body of an answer, with the record that ends when it does.
#[derive(Debug)]
pub struct Body {
    content: Content,
    record: Option<RequestRecord>,
    /// Why it ends early, until that is told.
    fault: Option<Box<store::Error>>,
}

impl Body {
    fn of(content: Content) -> Self {
        Self {
            content,
            record: None,
            fault: None,
        }
    }

    pub(crate) fn empty() -> Self {
        Self::of(Content::Empty)
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let content = if bytes.is_empty() {
            Content::Empty
        } else {
            Content::Bytes(bytes)
        };
        Self::of(content)
    }

    /// This range of `object`.
    pub fn part(object: Arc<Object>, range: Range<u64>) -> Self {
        Self::of(Content::part(object, range))
    }

    /// These parts of `object`, each in its framing.
    pub fn parts(object: &Arc<Object>, multipart: Multipart) -> Self {
        Self::framed(multipart, |range| Content::part(Arc::clone(object), range))
    }

    /// This part of a value of an S3 store.
    pub fn remote(part: RemotePart) -> Self {
        Self::of(Content::remote(part))
    }

    /// These parts of a value of an S3 store, each in its framing.
    pub fn remote_parts(bodies: Vec<RemotePart>, multipart: Multipart) -> Self {
        let mut bodies = bodies.into_iter();
        Self::framed(multipart, |_| {
            bodies.next().map_or(Content::Empty, Content::remote)
        })
    }

    fn framed(multipart: Multipart, mut part: impl FnMut(Range<u64>) -> Content) -> Self {
        let mut parts = VecDeque::with_capacity(2 * multipart.parts.len() + 1);
        for (head, range) in multipart.parts {
            parts.push_back(Content::Bytes(head));
            parts.push_back(part(range));
        }
        parts.push_back(Content::Bytes(multipart.end));
        Self::of(Content::Parts(parts, multipart.len))
    }

    pub(crate) fn encoded(encoded: Box<Encoded>) -> Self {
        Self::of(Content::Encoded(encoded))
    }

    pub(crate) fn endless(body: Box<dyn EndlessBody>) -> Self {
        Self::of(Content::Endless(body))
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
        let piece = ready!(self.content.poll_piece(cx));
        if let Some(Ok(piece)) = &piece {
            self.note(piece.len());
        }
        Poll::Ready(piece)
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, store::Error>>> {
        let bytes = ready!(self.content.poll_bytes(cx));
        if let Some(Ok(bytes)) = &bytes {
            self.note(bytes.len());
        }
        Poll::Ready(bytes)
    }

    /// All of it, where it is short and in memory already.
    pub fn take_short(&mut self) -> Option<Bytes> {
        let bytes = match &self.content {
            Content::Empty => Bytes::new(),
            Content::Bytes(bytes) if bytes.len() as u64 <= IN_MEMORY => bytes.clone(),
            _ => return None,
        };
        self.note(bytes.len());
        self.content = Content::Empty;
        Some(bytes)
    }

    /// So many bytes of it leave.
    fn note(&self, bytes: usize) {
        if let Some(record) = &self.record {
            record.sent(bytes);
        }
    }

    /// Whether its first bytes can be sent without waiting for them.
    pub fn is_resident(&mut self) -> bool {
        match &mut self.content {
            Content::File(file) => file.is_resident(),
            Content::Parts(parts, _) => first_file(parts).is_none_or(FileBody::is_resident),
            Content::Encoded(encoded) => encoded.is_resident(),
            Content::Empty | Content::Bytes(_) | Content::Remote(_) | Content::Endless(_) => true,
        }
    }

    /// Waits for its first bytes: what cannot be read is found before a head has promised it.
    pub async fn begin(&mut self) -> Result<(), store::Error> {
        poll_fn(|cx| match &mut self.content {
            Content::File(file) => file.poll_resident(cx),
            Content::Parts(parts, _) => {
                first_file(parts).map_or(Poll::Ready(Ok(())), |file| file.poll_resident(cx))
            }
            Content::Encoded(encoded) => encoded.poll_resident(cx),
            Content::Empty | Content::Bytes(_) | Content::Remote(_) | Content::Endless(_) => {
                Poll::Ready(Ok(()))
            }
        })
        .await
    }

    /// Has `record` end with this body.
    pub fn ends(&mut self, record: RequestRecord) {
        self.record = Some(record);
    }
}

impl HttpBody for Body {
    type Data = Chunk;
    type Error = store::Error;

    /// One piece at a time is with hyper. An error comes after all that was given before has gone to the socket: the client sees
    /// what it was to get, and that it was cut.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, store::Error>>> {
        let Self {
            content,
            record,
            fault,
        } = &mut *self;
        let Some(record) = record else {
            return Poll::Ready(None);
        };
        if record.is_lost() {
            // It is thrown away. What has no known end ends with its client.
            let left = content.remaining().filter(|&left| left > 0);
            *content = Content::Empty;
            let hole = left.map(|left| Chunk::Hole(usize::try_from(left).unwrap_or(usize::MAX)));
            return Poll::Ready(hole.map(|hole| Ok(Frame::data(hole))));
        }
        ready!(record.poll_taken(cx));
        if fault.is_none() {
            match ready!(content.poll_short(cx)) {
                None => return Poll::Ready(None),
                Some(Ok(piece)) => {
                    record.sent(piece.len());
                    return Poll::Ready(Some(Ok(Frame::data(record.hand(piece)))));
                }
                Some(Err(error)) => {
                    *fault = Some(Box::new(error));
                    record.hold();
                    ready!(record.poll_taken(cx));
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
