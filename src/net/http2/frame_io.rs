//! The socket of a connection as HTTP/2 uses it: frames are gathered, and leave together.
//!
//! A response is a few small frames, and many responses leave at once: one call of the kernel takes them all.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::input::Input;
use super::outstanding::Outstanding;
use crate::net::socket_writer::{Follows, SocketWriter};

/// The most that is gathered before it is sent, in bytes.
const MOST_GATHERED: usize = 64 << 10;

/// The sending side.
#[derive(Debug)]
pub(super) struct Output {
    writer: Rc<SocketWriter>,
    outstanding: Rc<Outstanding>,
    gathered: RefCell<BytesMut>,
}

impl Output {
    /// Sends by `writer`, and tells `outstanding` what has left.
    pub(super) fn new(writer: &Rc<SocketWriter>, outstanding: &Rc<Outstanding>) -> Self {
        Self {
            writer: Rc::clone(writer),
            outstanding: Rc::clone(outstanding),
            gathered: RefCell::default(),
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
        self.outstanding.left(taken);
        Poll::Ready(Ok(taken))
    }

    fn poll_send_gathered(&self, cx: &mut Context<'_>, follows: Follows) -> Poll<io::Result<()>> {
        let mut gathered = self.gathered.borrow_mut();
        while !gathered.is_empty() {
            let sent = ready!(
                self.writer
                    .poll_send(cx, &[IoSlice::new(&gathered)], follows)
            )?;
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
        self.output.outstanding.all_left();
        Poll::Ready(Ok(()))
    }

    /// Sends what is left; the end of the connection is the connection's.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_flush(cx)
    }
}
