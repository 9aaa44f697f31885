//! The socket of a connection as hyper uses it: a [`SocketReader`] and a [`SocketWriter`].
//!
//! Sends what is in no memory in the place of the holes that hyper writes for it. Tells the connection's state when all that hyper had
//! has gone to the socket, and lets other connections have their turn after a burst of bytes.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{Shutdown, shutdown};

use super::socket_reader::SocketReader;
use super::socket_writer::{BURST, Follows, SocketWriter};
use crate::http::{ConnectionState, Phase, Piece, is_hole};

/// A response of so many bytes is long enough for full packets to gain more than two system calls cost.
const MIN_CORKED: usize = 256 << 10;

/// The most that the kernel may hold for a subscriber that does not read: by itself it would hold megabytes for each.
const HELD_FOR_SUBSCRIBER: usize = 64 << 10;

/// The socket of a connection, as hyper has it.
#[derive(Debug)]
pub(super) struct HyperIo {
    reader: TokioIo<SocketReader>,
    writer: Rc<SocketWriter>,
    connection: Rc<ConnectionState>,
    unflushed: Rc<Cell<bool>>,
    /// Bytes sent since the connection last waited for anything.
    burst: usize,
    /// The turn in which a burst was full.
    full: Option<u64>,
    is_narrow: bool,
}

impl HyperIo {
    pub(super) fn new(
        reader: SocketReader,
        writer: &Rc<SocketWriter>,
        connection: &Rc<ConnectionState>,
    ) -> Self {
        Self {
            reader: TokioIo::new(reader),
            writer: Rc::clone(writer),
            connection: Rc::clone(connection),
            unflushed: Rc::default(),
            burst: 0,
            full: None,
            is_narrow: false,
        }
    }

    /// Whether hyper has bytes that the socket has not: shared, for it is asked for while hyper has the rest.
    pub(super) fn unflushed(&self) -> &Rc<Cell<bool>> {
        &self.unflushed
    }

    /// After a burst, waits until the other sockets of the reactor have been looked at: waking oneself would come before
    /// that, and hyper would go on for as long as the socket takes bytes. hyper tries several times in a turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.burst < BURST {
            return Poll::Ready(());
        }
        let turn = self.connection.turn();
        match self.full.replace(turn) {
            // Registers the wake-up, to come after the driver has been polled.
            None => pin!(tokio::task::yield_now()).poll(cx),
            Some(full) if full == turn => Poll::Pending,
            Some(_) => {
                (self.burst, self.full) = (0, None);
                Poll::Ready(())
            }
        }
    }

    /// Sends what is to be sent in the place of `hole`: how many bytes.
    fn poll_move(&self, cx: &mut Context<'_>, hole: &[u8]) -> Poll<io::Result<usize>> {
        if self.writer.has_lost_client() {
            return Poll::Ready(Ok(hole.len()));
        }
        let mut waiting = self.connection.piece().borrow_mut();
        let Some(piece) = &mut *waiting else {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        };
        let follows = if self.connection.is_serving() || piece.len() > hole.len() {
            Follows::More
        } else {
            Follows::Nothing
        };
        let moved = match &*piece {
            Piece::Region(region) => {
                self.writer.cork(region.len >= MIN_CORKED);
                self.writer.poll_send_region(cx, region, follows)
            }
            Piece::Piped(piped) => self.writer.poll_send_piped(cx, piped, follows),
            Piece::Bytes(bytes) => {
                let bytes = IoSlice::new(&bytes[..bytes.len().min(hole.len())]);
                self.writer.poll_send(cx, &[bytes], follows)
            }
        };
        // All of it, where the client is gone.
        let moved = ready!(moved)?.min(hole.len());
        piece.advance(moved);
        if piece.is_empty() {
            *waiting = None;
        }
        Poll::Ready(Ok(moved))
    }

    pub(super) fn into_reader(self) -> SocketReader {
        self.reader.into_inner()
    }
}

impl Read for HyperIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.reader).poll_read(cx, buf);
        if polled.is_pending() {
            self.burst = 0;
        }
        polled
    }
}

impl Write for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unflushed.set(true);
        ready!(self.poll_turn(cx));
        let polled = match bufs.iter().position(|buf| is_hole(buf)) {
            None => self.writer.poll_send(cx, bufs, Follows::Nothing),
            Some(0) => self.poll_move(cx, &bufs[0]),
            Some(hole) => {
                let before = &bufs[..hole];
                let all: usize = before.iter().map(|buf| buf.len()).sum();
                match self.writer.poll_send(cx, before, Follows::More) {
                    // Of an error or a full socket hyper learns when it goes on.
                    Poll::Ready(Ok(sent)) if sent == all => match self.poll_move(cx, &bufs[hole]) {
                        Poll::Ready(Ok(moved)) => Poll::Ready(Ok(sent + moved)),
                        _ => Poll::Ready(Ok(sent)),
                    },
                    polled => polled,
                }
            }
        };
        self.burst = match &polled {
            Poll::Ready(sent) => self.burst + sent.as_ref().map_or(0, |&sent| sent),
            Poll::Pending => 0,
        };
        polled
    }

    /// hyper then sends a head and its body with one call.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called only when hyper has handed over all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.writer.poll_flush(cx))?;
        if !self.connection.is_serving() {
            self.writer.cork(false);
        }
        self.unflushed.set(false);
        self.connection.flushed();
        if self.connection.phase() == Phase::Watching && !self.is_narrow {
            self.is_narrow = true;
            let socket = self.writer.socket().raw();
            socket.expect_acknowledgments();
            // Failing costs memory of the kernel, no bytes.
            let _ =
                socket.with(|socket| Ok(set_socket_send_buffer_size(socket, HELD_FOR_SUBSCRIBER)?));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.writer.poll_close(cx))?;
        let socket = self.writer.socket();
        Poll::Ready(
            socket
                .raw()
                .with(|socket| Ok(shutdown(socket, Shutdown::Write)?)),
        )
    }
}
