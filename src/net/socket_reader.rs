//! The receiving side of a connection, as hyper reads it: whole heads and their bodies, in order, never ambiguous.
//!
//! Bytes go from the socket into hyper's buffer, where the [`Framing`] looks at them, and takes out the fields that
//! nothing reads. The beginning of a head is taken back until the rest of it is there: hyper sees a head whole or not
//! at all, and never an invalid one, that of a long upload, or a byte behind it. So it is with the lines of a chunked
//! body. Holds at most one head, or one line, and [`PIECE`] bytes, besides what it was made with.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::socket::Socket;
use crate::http::{Framing, FramingError, OptionalFields, StopReason};

/// How much is read of the rest of a head at a time, in bytes.
const PIECE: usize = 4 << 10;

/// The state of a reader, which the loop of its connection reads while hyper has it.
#[derive(Debug, Default)]
pub(super) struct ReaderState {
    /// hyper wanted more than there is, in this turn.
    pub(super) is_starved: Cell<bool>,
    /// Requests whose head has arrived, that of a long upload among them.
    pub(super) requests: Cell<u64>,
    /// The bytes that are held back from hyper.
    pub(super) held: Cell<Held>,
}

/// The bytes that are held back from hyper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    #[default]
    Nothing,
    /// The beginning of a head, or of a line of a chunked body, which waits for its rest.
    Part,
    /// The head of a long upload, or a request that is invalid, and all behind it.
    Stop(StopReason),
}

/// The reader of one connection.
#[derive(Debug)]
pub(super) struct SocketReader {
    pub(super) socket: Rc<Socket>,
    pub(super) state: Rc<ReaderState>,
    framing: Option<Framing>,
    /// Received, and not given on.
    pub(super) held: BytesMut,
    /// How many of the bytes held may be given on.
    passed: usize,
}

impl SocketReader {
    /// Reads requests with these `optional` fields: first those in `received`, where a request begins.
    pub(super) fn new(socket: &Rc<Socket>, received: BytesMut, optional: OptionalFields) -> Self {
        let mut reader = Self::raw(socket, received);
        reader.framing = Some(Framing::new(optional));
        reader.passed = 0;
        reader.look();
        reader
    }

    /// Reads bytes that are no HTTP: first those `received`.
    pub(super) fn raw(socket: &Rc<Socket>, received: BytesMut) -> Self {
        Self {
            socket: Rc::clone(socket),
            state: Rc::default(),
            framing: None,
            passed: received.len(),
            held: received,
        }
    }

    /// Receives the rest of the head that it holds the beginning of; also ready when that head is not for hyper, and at
    /// the end of the stream.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.passed == 0 && self.state.held.get() == Held::Part {
            self.socket.exchange.begin_head();
            if !ready!(self.poll_receive_rest(cx))? {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// True where nothing is for hyper: the first request is a long upload.
    pub(super) fn begins_with_upload(&self) -> bool {
        self.passed == 0 && self.state.held.get() == Held::Stop(StopReason::Upload)
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut &*self.socket).poll_read(cx, buf);
        self.state.is_starved.set(polled.is_pending());
        // What is no HTTP/1 may not come for hours.
        let is_wanted = self.framing.is_some() && polled.is_pending();
        self.socket.exchange.progress.reading.set(is_wanted);
        self.socket.exchange.received(buf.filled().len() - before);
        polled
    }

    /// Reads into `buf`, and takes back what must not be given on yet; false at the end of the stream.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let start = buf.filled().len();
        ready!(self.poll_socket(cx, buf))?;
        let received = &mut buf.filled_mut()[start..];
        if received.is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.socket.exchange.begin_head();
        if let Some(framing) = &mut self.framing {
            let fed = framing.feed(received);
            self.state.requests.set(framing.heads);
            if fed.passed < fed.kept {
                let head = &received[fed.passed..fed.kept];
                self.held.extend_from_slice(head);
            }
            self.held.extend_from_slice(&received[fed.at..]);
            buf.set_filled(start + fed.passed);
            self.note(fed.stop);
        }
        Poll::Ready(Ok(true))
    }

    /// Reads on in a head of which the beginning is held; false at the end of the stream.
    fn poll_receive_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut piece = [0; PIECE];
        let mut piece = ReadBuf::new(&mut piece);
        ready!(self.poll_socket(cx, &mut piece))?;
        if piece.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.held.extend_from_slice(piece.filled());
        self.look();
        Poll::Ready(Ok(true))
    }

    /// Looks at all that is held.
    fn look(&mut self) {
        if let Some(framing) = &mut self.framing {
            let fed = framing.feed(&mut self.held);
            self.state.requests.set(framing.heads);
            let rest = self.held.len() - fed.at;
            self.held.copy_within(fed.at.., fed.kept);
            self.held.truncate(fed.kept + rest);
            self.passed = fed.passed;
            self.note(fed.stop);
        }
    }

    fn note(&mut self, stop: Option<StopReason>) {
        self.state.held.set(match stop {
            Some(stop) => Held::Stop(stop),
            None if self.held.len() > self.passed => Held::Part,
            None => Held::Nothing,
        });
    }

    fn give(&mut self, buf: &mut ReadBuf<'_>) {
        let len = self.passed.min(buf.remaining());
        buf.put_slice(&self.held[..len]);
        self.held.advance(len);
        self.passed -= len;
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
    }
}

impl AsyncRead for SocketReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buf.filled().len();
        loop {
            if self.passed > 0 {
                self.give(buf);
            }
            if buf.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
            match self.state.held.get() {
                // The reader of the body must learn that it is malformed.
                Held::Stop(StopReason::Error(FramingError::Chunks)) => {
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                // The loop of the connection goes on with it, once the requests before it have been answered.
                Held::Stop(_) => {
                    self.state.is_starved.set(true);
                    return Poll::Pending;
                }
                Held::Part | Held::Nothing => {}
            }
            let goes_on = if self.held.is_empty() {
                ready!(self.poll_receive(cx, buf))?
            } else {
                self.socket.exchange.begin_head();
                ready!(self.poll_receive_rest(cx))?
            };
            if !goes_on {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
