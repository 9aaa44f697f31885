//! The sending side of an HTTP/2 connection: frames are gathered and leave together, and what its streams have handed over is
//! bounded.
//!
//! A response is a few small frames, and many responses leave at once: one call of the kernel takes them all. A stream
//! reads on in its value only while less than [`MOST_BYTES`] wait, so a client that takes nothing costs so much memory, and
//! not that of all its streams. Promises that no stream waits for a connection that has ended.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::input::Input;
use crate::net::socket_writer::{Follows, SocketWriter};

/// The most that is gathered before it is sent, in bytes.
const MOST_GATHERED: usize = 64 << 10;

/// So many bytes of a connection's responses wait for its socket; one piece of each stream may pass it.
const MOST_BYTES: usize = 256 << 10;

/// The output of a connection.
#[derive(Debug)]
pub(super) struct Output {
    writer: Rc<SocketWriter>,
    gathered: RefCell<BytesMut>,
    /// Bytes that streams have handed over, and the protocol has not passed on.
    queued: Cell<usize>,
    /// Streams that wait for room.
    waiting: RefCell<Vec<Waker>>,
    is_closed: Cell<bool>,
}

impl Output {
    /// Sends by `writer`.
    pub(super) fn new(writer: &Rc<SocketWriter>) -> Self {
        Self {
            writer: Rc::clone(writer),
            gathered: RefCell::default(),
            queued: Cell::new(0),
            waiting: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    /// Waits until a stream may hand over more; false when nothing leaves any more.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<bool> {
        if self.is_closed.get() {
            return Poll::Ready(false);
        }
        if self.queued.get() < MOST_BYTES {
            return Poll::Ready(true);
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// A stream has handed over so many bytes.
    pub(super) fn queue(&self, bytes: usize) {
        self.queued.set(self.queued.get() + bytes);
    }

    /// A stream follows changes: there may be nothing to send or receive for hours but what shows that the client is there.
    pub(super) fn watches(&self) {
        self.writer.socket().raw().expect_acknowledgments();
    }

    /// The connection has ended.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.pass_on(usize::MAX);
    }

    /// So many bytes of frames have been passed on.
    fn pass_on(&self, bytes: usize) {
        self.queued.set(self.queued.get().saturating_sub(bytes));
        if self.queued.get() < MOST_BYTES {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Takes `bufs`, and sends them when there is enough.
    fn poll_write(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.gathered.borrow().len() >= MOST_GATHERED {
            ready!(self.poll_send_gathered(cx, Follows::Flush))?;
        }
        let mut gathered = self.gathered.borrow_mut();
        let before = gathered.len();
        for buf in bufs {
            gathered.extend_from_slice(buf);
        }
        let taken = gathered.len() - before;
        self.pass_on(taken);
        Poll::Ready(Ok(taken))
    }

    fn poll_send_gathered(&self, cx: &mut Context<'_>, follows: Follows) -> Poll<io::Result<()>> {
        let mut gathered = self.gathered.borrow_mut();
        while !gathered.is_empty() {
            let bufs = [IoSlice::new(&gathered)];
            let sent = ready!(self.writer.poll_send(cx, &bufs, follows))?;
            gathered.advance(sent);
        }
        // Its memory goes with it: most connections wait most of the time.
        *gathered = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Sends all that was taken.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_gathered(cx, Follows::Nothing))?;
        self.writer.poll_flush(cx)
    }
}

/// Both sides, for the protocol.
#[derive(Debug)]
pub(super) struct FrameIo {
    input: Rc<Input>,
    output: Rc<Output>,
}

impl FrameIo {
    pub(super) fn new(input: &Rc<Input>, output: &Rc<Output>) -> Self {
        Self {
            input: Rc::clone(input),
            output: Rc::clone(output),
        }
    }
}

impl AsyncRead for FrameIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.input.poll_read(cx, buf)
    }
}

impl AsyncWrite for FrameIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.output.poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.output.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The protocol has no more frames. They are sent when the connection has looked at all its streams.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.pass_on(usize::MAX);
        Poll::Ready(Ok(()))
    }

    /// Sends what is left; the end of the connection is the connection's.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_flush(cx)
    }
}
