//! The socket as hyper sees it.
//!
//! Writes what hyper queues as it is, except for slices that stand for a region of a file: these it sends with
//! sendfile, the head before them held back by `MSG_MORE` so that both leave together. It yields after each
//! [`BURST`], so that one download never keeps a reactor to itself, and tells the [`Link`] whether it waits for the peer.
//! A client that is still sending when its answer is complete is listened to for a while, so that it can read why.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_cork, tcp_congestion};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::intake::Intake;
use crate::http::{Link, Phase, Region, TIMED_OUT, is_region};

/// File bytes sent before other connections have their turn: well under a millisecond of copying.
const BURST: usize = 1 << 20;

/// Answers up to this length are copied together: one plain send costs less than a vectored one.
const TOGETHER: usize = 2 << 10;

/// What the kernel may hold for a subscriber that does not read: by itself it would hold megabytes for each.
const HELD_FOR_SUBSCRIBER: usize = 64 << 10;

/// How long a client that is still sending has to read an answer that came early.
const LINGER: Duration = Duration::from_secs(2);

/// A connection's socket.
pub(super) struct Stream {
    intake: TokioIo<Intake>,
    link: Rc<Link>,
    burst: usize,
    cork: Cork,
    yielded_in: Option<u64>,
    linger: Option<Pin<Box<Sleep>>>,
    is_narrow: bool,
}

/// Whether the kernel holds packets back until they are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cork {
    Untried,
    /// Under a paced connection, holding back costs more than it gains: never.
    Harmful,
    In,
    Out,
}

/// Whether the congestion control sends by a timer, as BBR does.
fn is_paced(socket: &TcpStream) -> bool {
    tcp_congestion(socket).is_ok_and(|name| name.starts_with("bbr"))
}

impl Stream {
    pub(super) fn new(socket: TcpStream, link: Rc<Link>) -> Self {
        Self {
            intake: TokioIo::new(Intake::new(socket, Rc::clone(&link))),
            link,
            burst: 0,
            cork: Cork::Untried,
            yielded_in: None,
            linger: None,
            is_narrow: false,
        }
    }

    /// What is received from now on is no HTTP. True when the client has sent of it already.
    pub(super) fn leave_framing(&mut self) -> bool {
        self.intake.inner_mut().leave_framing()
    }

    /// Runs `send` when the socket takes bytes, until it moves some or the socket is full.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&TcpStream, &Link) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let socket = &*self.intake.inner().socket();
        if self.link.take_nudge() {
            match send(socket, &self.link) {
                Err(error) if is_again(&error) => {}
                result => return Poll::Ready(result),
            }
        }
        loop {
            let writable = socket.poll_write_ready(cx);
            self.link.set_writing(writable.is_pending());
            ready!(writable)?;
            match socket.try_io(Interest::WRITABLE, || send(socket, &self.link)) {
                Err(error) if is_again(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_send_region(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx));
        self.cork(self.link.is_long());
        let polled = self.poll_send(cx, |socket, link| {
            let sent = link.with_region(|region| send_region(socket, region));
            let missing = || {
                Err(io::Error::other(
                    "a body stands for a file region that is not there",
                ))
            };
            sent.unwrap_or_else(missing)
        });
        let is_end = self.link.take_end();
        match polled {
            Poll::Ready(Ok(n)) => {
                self.burst += n;
                self.link.count(n);
                self.link.sent(n, !is_end);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.burst = 0,
        }
        if is_end {
            self.cork(false);
        }
        polled
    }

    /// After a burst, waits until the other sockets of the reactor have been looked at: waking oneself would come before
    /// that.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.burst >= BURST {
            self.burst = 0;
            // Registers the wake-up, to come after the driver has been polled.
            if pin!(tokio::task::yield_now()).poll(cx).is_pending() {
                self.yielded_in = Some(self.link.turn());
            }
        }
        if self.yielded_in == Some(self.link.turn()) {
            return Poll::Pending;
        }
        self.yielded_in = None;
        Poll::Ready(())
    }

    /// Has the kernel send full packets only, or what it holds and from then on at once. Failing costs packets, not bytes.
    fn cork(&mut self, corked: bool) {
        let socket = &*self.intake.inner().socket();
        if self.cork == Cork::Untried && corked {
            self.cork = if is_paced(socket) {
                Cork::Harmful
            } else {
                Cork::Out
            };
        }
        let wanted = if corked { Cork::In } else { Cork::Out };
        if matches!(self.cork, Cork::In | Cork::Out) && self.cork != wanted {
            let _ = set_tcp_cork(socket, corked);
            self.cork = wanted;
        }
    }

    fn poll_send_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What ends a connection leaves together with the end: one packet for both.
        let flags = if self.link.is_ending() {
            AT_ONCE | SendFlags::MORE
        } else {
            AT_ONCE
        };
        let sent = ready!(self.poll_send_slices(cx, bufs, flags));
        if let Ok(n) = sent {
            self.link.count(n);
            let all: usize = bufs.iter().map(|buf| buf.len()).sum();
            self.link.sent(n, n < all);
        }
        Poll::Ready(sent)
    }

    /// Sends `head`, held back until the region that follows leaves with it, and the region.
    fn poll_send_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.cork(self.link.is_long());
        let sent = ready!(self.poll_send_slices(cx, head, AT_ONCE | SendFlags::MORE))?;
        if sent < head.iter().map(|slice| slice.len()).sum() {
            self.link.sent(sent, true);
            return Poll::Ready(Ok(sent));
        }
        // What hinders the region now will do so again when it is its turn alone.
        match self.poll_send_region(cx) {
            Poll::Ready(Ok(more)) => {
                // The region has told whether anything is left.
                self.link.sent(sent, false);
                Poll::Ready(Ok(sent + more))
            }
            Poll::Ready(Err(_)) | Poll::Pending => {
                self.link.sent(sent, true);
                Poll::Ready(Ok(sent))
            }
        }
    }

    fn poll_send_slices(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
    ) -> Poll<io::Result<usize>> {
        let mut together = [0; TOGETHER];
        match gather(bufs, &mut together) {
            Some(bytes) => self.poll_send(cx, |socket, _| Ok(send(socket, bytes, flags)?)),
            None => self.poll_send(cx, |socket, _| Ok(send_vectored(socket, bufs, flags)?)),
        }
    }
}

/// A stream never waits in the kernel, and a peer that is gone is an error, not a signal.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn send_vectored(
    socket: &TcpStream,
    bufs: &[IoSlice<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    sendmsg(socket, bufs, &mut SendAncillaryBuffer::default(), flags)
}

impl Stream {
    /// A head that was begun gets an answer, if the socket takes it; whoever is that late may not read either.
    fn say_goodbye(&self) {
        if self.link.heard() {
            self.link.refused_head();
            let _ = self.intake.inner().socket().try_write(TIMED_OUT);
        }
    }

    /// Reads on until the peer is done: closing with bytes unread would reset the connection, and the peer might never
    /// see its answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let linger = self
            .linger
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if linger.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut unread = [0; 16 << 10];
        loop {
            let mut buf = ReadBuf::new(&mut unread);
            ready!(Pin::new(&mut *self.intake.inner().socket_mut()).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.link.received(buf.filled().len());
        }
    }
}

fn is_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// All of `bufs` in one piece, if they fit into `together`.
fn gather<'a>(bufs: &[IoSlice<'_>], together: &'a mut [u8; TOGETHER]) -> Option<&'a [u8]> {
    let mut len = 0;
    for buf in bufs {
        together.get_mut(len..len + buf.len())?.copy_from_slice(buf);
        len += buf.len();
    }
    Some(&together[..len])
}

/// One sendfile of `region`; a file that ends before the region does has been cut short by somebody.
fn send_region(socket: &TcpStream, region: &Region) -> io::Result<usize> {
    let mut offset = region.offset;
    match rustix::fs::sendfile(socket, &region.file, Some(&mut offset), region.len)? {
        0 => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file was cut short while it was sent",
        )),
        n => Ok(n),
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.link.is_late() {
            self.say_goodbye();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.intake).poll_read(cx, buf)
    }
}

impl Write for Stream {
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
        match bufs.iter().position(|slice| is_region(slice)) {
            Some(0) => self.poll_send_region(cx),
            Some(first_region) => self.poll_send_head(cx, &bufs[..first_region]),
            None => self.poll_send_bytes(cx, bufs),
        }
    }

    /// hyper keeps its write queue, and with it the slices that stand for regions, only when this is true.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called only when hyper has handed over all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.flushed();
        if self.link.phase() == Phase::Watching && !self.is_narrow {
            self.is_narrow = true;
            // Failing costs memory of the kernel, no bytes.
            let _ =
                set_socket_send_buffer_size(&*self.intake.inner().socket(), HELD_FOR_SUBSCRIBER);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut *self.intake.inner().socket_mut()).poll_shutdown(cx))?;
        if self.link.left_unread() {
            self.poll_linger(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}
