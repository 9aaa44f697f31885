//! The body of a request to the store.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::feed::{Cut, Fed};

/// The body of a request to the store.
#[derive(Clone, Debug)]
pub enum SendBody {
    /// None, or one that has been sent.
    Empty,
    /// All of it, in memory.
    Whole(Bytes),
    /// So many bytes, as they come.
    Fed(Fed, u64),
    /// So many bytes, of which it breaks off after these.
    CutOff {
        /// What is sent first.
        begin: Option<Bytes>,
        /// How many were to come.
        len: u64,
    },
}

impl Body for SendBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let next = match std::mem::replace(&mut *self, Self::Empty) {
            Self::Empty => None,
            Self::Whole(bytes) => Some(Ok(bytes)),
            Self::Fed(fed, left) => {
                let next = fed.poll_next(cx);
                let taken = match &next {
                    Poll::Ready(Some(Ok(data))) => data.len() as u64,
                    _ => 0,
                };
                *self = Self::Fed(fed, left.saturating_sub(taken));
                ready!(next)
            }
            Self::CutOff { begin, len } => {
                *self = Self::CutOff { begin: None, len };
                Some(begin.ok_or(Cut))
            }
        };
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Empty => 0,
            Self::CutOff { len, .. } => *len,
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Fed(_, left) => *left,
        })
    }
}
