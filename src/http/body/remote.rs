//! The bytes of a value of an S3 store, or of a range of it, on their way to a client.
//!
//! They are asked of the store when their turn comes, and pass through as fast as the client takes them: at most one piece
//! is held.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::s3::{RemoteBody, RemotePiece};
use crate::store::Error;

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
