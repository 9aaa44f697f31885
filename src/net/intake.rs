//! What a client sends, on its way to hyper: whole heads and their bodies, in order, and nothing that is in doubt.
//!
//! Bytes go from the socket straight into hyper's buffer, where the [`Framing`] looks at them. The beginning of a head is
//! taken back until the rest of it is there; so hyper sees a head whole or not at all, and one at fault never: it is given
//! a stand-in, and after that nothing more. Holds at most one head and a piece of 4 KiB.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, Interest, ReadBuf};

use super::inflow::Direct;
use super::is_again;
use super::socket::Socket;
use crate::http::{Fault, Found, Framing, Link, stand_in};

/// How much is read of the rest of a head at a time.
const PIECE: usize = 4 << 10;

/// The receiving side of a connection; the sending side is the socket itself.
#[derive(Debug)]
pub(super) struct Intake {
    /// Shared with the body of a large upload.
    socket: Rc<Socket>,
    link: Rc<Link>,
    framing: Framing,
    /// Received, and not given on.
    held: BytesMut,
    /// How many of the bytes held may be given on.
    passed: usize,
    end: Option<End>,
    /// The protocol is another than HTTP by now.
    is_free: bool,
}

/// Why nothing more is given on.
#[derive(Clone, Copy, Debug)]
enum End {
    /// A head was at fault; its refusal ends the connection.
    Refused,
    /// A body is malformed, which whoever reads it must hear.
    Broken,
}

impl Intake {
    pub(super) fn new(socket: Socket, link: Rc<Link>) -> Self {
        Self {
            socket: Rc::new(socket),
            link,
            framing: Framing::default(),
            held: BytesMut::new(),
            passed: 0,
            end: None,
            is_free: false,
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Gives everything on from now on, as it comes. True when there were more requests behind the one that
    /// asked for this: those are in doubt, and dropped.
    pub(super) fn leave_framing(&mut self) -> bool {
        self.is_free = true;
        self.link.set_part_held(false);
        !std::mem::take(&mut self.held).is_empty() || self.link.detour().is_on()
    }

    /// Whether the next byte begins a request, and all before it have been answered.
    pub(super) fn is_between(&self) -> bool {
        let is_open = self.end.is_none() && !self.is_free && !self.link.detour().is_on();
        let is_at_head = self.held.is_empty() && self.framing.is_between();
        is_open && is_at_head && self.link.is_between(self.framing.requests())
    }

    /// Whether it holds the beginning of a head, and nothing else.
    pub(super) fn holds_part(&self) -> bool {
        !self.held.is_empty() && self.passed == 0 && self.end.is_none()
    }

    /// Takes in what was read elsewhere, between requests.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        self.look();
    }

    /// A request that was read elsewhere has been answered there.
    pub(super) fn pass_over(&mut self) {
        self.framing.pass_over();
    }

    pub(super) fn poll_socket(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = self.socket.poll_read(cx, buf);
        if matches!(&polled, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted)
        {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.link.set_reading(polled.is_pending());
        self.link.received(buf.filled().len() - before);
        polled
    }

    /// Reads into `piece` without hyper: how many bytes, 0 at the end of the stream.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let readable = self.socket.poll_read_ready(cx);
            self.link.set_reading(readable.is_pending());
            ready!(readable)?;
            let mut received = None;
            let is_driven = self.socket.is_driven();
            let tried = self.socket.try_io(Interest::READABLE, |socket| {
                let (_, len) = recv(socket, &mut *piece, RecvFlags::DONTWAIT)?;
                received = Some(len);
                // Less than there was room for is all there is: to ask once more would be a system call for nothing.
                if is_driven && 0 < len && len < piece.len() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (received, tried) {
                (Some(len), _) => {
                    self.link.received(len);
                    return Poll::Ready(Ok(len));
                }
                (None, Err(error)) if !is_again(&error) => return Poll::Ready(Err(error)),
                (None, _) => {}
            }
        }
    }

    /// Reads up to `room` bytes into `body` without hyper: how many, 0 at the end of the stream.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut BytesMut,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let readable = self.socket.poll_read_ready(cx);
            self.link.set_reading(readable.is_pending());
            ready!(readable)?;
            match self.socket.try_read_buf(&mut (&mut *body).limit(room)) {
                Err(error) if is_again(&error) => {}
                read => {
                    self.link.received(*read.as_ref().unwrap_or(&0));
                    return Poll::Ready(read);
                }
            }
        }
    }

    /// Reads into `buf` and takes back what must not be given on yet; false at the end of the stream.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let start = buf.filled().len();
        ready!(self.poll_socket(cx, buf))?;
        let received = &mut buf.filled_mut()[start..];
        let (passed, found) = self.framing.go_on(received);
        if received.is_empty() || (passed == received.len() && found == Found::Nothing) {
            return Poll::Ready(Ok(!received.is_empty()));
        }
        if let Found::Large(large) = found {
            large.hide(&mut received[..passed]);
        }
        self.held.extend_from_slice(&received[passed..]);
        buf.set_filled(start + passed);
        self.settle(found);
        Poll::Ready(Ok(true))
    }

    /// Reads on in a head of which the beginning is held; false at the end of the stream.
    pub(super) fn poll_receive_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
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
        let (passed, found) = self.framing.go_on(&self.held);
        self.passed = passed;
        if let Found::Large(large) = found {
            large.hide(&mut self.held[..passed]);
        }
        self.settle(found);
    }

    /// Decides what becomes of what is held behind the bytes passed.
    fn settle(&mut self, found: Found) {
        match found {
            Found::Nothing => {}
            Found::Large(large) => {
                let early = self.held.split_off(self.passed).freeze();
                let body = Direct::new(Rc::clone(&self.socket), early, large.length);
                let request = self.framing.requests();
                self.link.detour().begin(request, Box::new(body));
            }
            Found::Fault(fault) => self.refuse(fault),
        }
        self.link.set_part_held(self.held.len() > self.passed);
    }

    fn refuse(&mut self, fault: Fault) {
        let head = self.held.split_off(self.passed);
        if fault == Fault::Chunks {
            self.end = Some(End::Broken);
        } else {
            self.held.extend_from_slice(&stand_in(&head));
            self.passed = self.held.len();
            self.end = Some(End::Refused);
            self.link.refuse(self.framing.requests() + 1, fault);
        }
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

impl AsyncRead for Intake {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_free {
            return self.poll_socket(cx, buf);
        }
        let start = buf.filled().len();
        loop {
            if self.passed > 0 {
                self.give(buf);
            }
            if buf.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
            ready!(self.link.detour().poll_over(cx));
            match self.end {
                // The refusal is on its way, and after it the connection ends: nothing is waited for.
                Some(End::Refused) => return Poll::Pending,
                Some(End::Broken) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                None => {}
            }
            let goes_on = if self.held.is_empty() {
                ready!(self.poll_receive(cx, buf))?
            } else {
                ready!(self.poll_receive_rest(cx))?
            };
            if !goes_on {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
