//! The sending side of a connection: bytes as they are, and file regions by sendfile or the [`conveyor`].
//!
//! Slices that stand for a region are sent from the file that the [`Link`] holds, the head before them held back by
//! `MSG_MORE` so that both leave together. Yields after each [`BURST`], so that one connection never keeps a reactor to
//! itself, and tells the link whether it waits for the peer.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::fs::sendfile;
use rustix::net::sockopt::{set_tcp_cork, tcp_congestion};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use tokio::io::Interest;

use super::super::is_again;
use super::super::socket::Socket;
use super::conveyor;
use crate::http::{Link, Region, is_region};

/// Bytes sent at once, and before other connections have their turn: some of them may be as greedy, and whoever wants
/// little waits for all of those.
const BURST: usize = 512 << 10;

/// Answers up to this length are copied together: one plain send costs less than a vectored one.
const TOGETHER: usize = 2 << 10;

thread_local! {
    /// Where a short answer is copied together, on its reactor's thread: [`TOGETHER`] bytes at most.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outlet {
    link: Rc<Link>,
    burst: usize,
    cork: Cork,
    yielded_in: Option<u64>,
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
fn is_paced(socket: &Socket) -> bool {
    let name = socket.with(|socket| Ok(tcp_congestion(socket)?));
    name.is_ok_and(|name| name.starts_with("bbr"))
}

impl Outlet {
    pub(super) fn new(link: Rc<Link>) -> Self {
        Self {
            link,
            burst: 0,
            cork: Cork::Untried,
            yielded_in: None,
        }
    }

    /// Sends of `bufs`, one after the other, until the socket is full; how many bytes.
    pub(super) fn poll_send(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match bufs.iter().position(|slice| is_region(slice)) {
            Some(0) => self.poll_send_region(socket, cx),
            Some(first_region) => self.poll_send_head(socket, cx, &bufs[..first_region]),
            None => self.poll_send_bytes(socket, cx, bufs),
        }
    }

    /// Work has been done that takes as long as sending so many bytes.
    pub(super) fn weigh(&mut self, bytes: usize) {
        self.burst += bytes;
    }

    /// There is nothing to do: the next turn is a new one.
    pub(super) fn rest(&mut self) {
        self.burst = 0;
    }

    /// Whether it waits for the others to have their turn.
    pub(super) fn has_yielded(&self) -> bool {
        self.yielded_in.is_some()
    }

    /// After a burst, waits until the other sockets of the reactor have been looked at: waking oneself would come before
    /// that.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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

    /// Runs `send` when the socket takes bytes, until it moves some or the socket is full.
    fn poll_call(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>, &Link) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if self.link.take_nudge() || socket.is_untold() {
            match socket.with(|socket| send(socket, &self.link)) {
                Err(error) if is_again(&error) => {}
                result => {
                    self.link.set_writing(false);
                    return Poll::Ready(result);
                }
            }
        }
        loop {
            let writable = socket.poll_write_ready(cx);
            self.link.set_writing(writable.is_pending());
            ready!(writable)?;
            match socket.try_io(Interest::WRITABLE, |socket| send(socket, &self.link)) {
                Err(error) if is_again(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_send_region(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx));
        self.cork(socket, self.link.regions().is_long());
        let polled = self.poll_call(socket, cx, |socket, link| {
            let sent = link
                .regions()
                .with_first(|region| send_region(socket, region));
            let missing = || {
                Err(io::Error::other(
                    "a body stands for a file region that is not there",
                ))
            };
            sent.unwrap_or_else(missing)
        });
        let is_end = self.link.regions().take_end();
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
            self.cork(socket, false);
        }
        polled
    }

    /// Has the kernel send full packets only, or what it holds and from then on at once. Failing costs packets, not bytes.
    fn cork(&mut self, socket: &Socket, corked: bool) {
        if self.cork == Cork::Untried && corked {
            self.cork = if is_paced(socket) {
                Cork::Harmful
            } else {
                Cork::Out
            };
        }
        let wanted = if corked { Cork::In } else { Cork::Out };
        if matches!(self.cork, Cork::In | Cork::Out) && self.cork != wanted {
            let _ = socket.with(|socket| Ok(set_tcp_cork(socket, corked)?));
            self.cork = wanted;
        }
    }

    fn poll_send_bytes(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What ends a connection leaves together with the end: one packet for both.
        let flags = if self.link.is_ending() {
            AT_ONCE | SendFlags::MORE
        } else {
            AT_ONCE
        };
        let sent = ready!(self.poll_send_slices(socket, cx, bufs, flags));
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
        socket: &Socket,
        cx: &mut Context<'_>,
        head: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.cork(socket, self.link.regions().is_long());
        let sent = ready!(self.poll_send_slices(socket, cx, head, AT_ONCE | SendFlags::MORE))?;
        if sent < head.iter().map(|slice| slice.len()).sum() {
            self.link.sent(sent, true);
            return Poll::Ready(Ok(sent));
        }
        // What hinders the region now will do so again when it is its turn alone.
        match self.poll_send_region(socket, cx) {
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
        socket: &Socket,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
    ) -> Poll<io::Result<usize>> {
        if bufs.iter().map(|buf| buf.len()).sum::<usize>() > TOGETHER {
            return self.poll_call(socket, cx, |socket, _| {
                Ok(send_vectored(socket, bufs, flags)?)
            });
        }
        GATHERED.with_borrow_mut(|gathered| {
            gathered.clear();
            for buf in bufs {
                gathered.extend_from_slice(buf);
            }
            self.poll_call(socket, cx, |socket, _| Ok(send(socket, gathered, flags)?))
        })
    }
}

/// A stream never waits in the kernel, and a peer that is gone is an error, not a signal.
pub(super) const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn send_vectored(
    socket: BorrowedFd<'_>,
    bufs: &[IoSlice<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    sendmsg(socket, bufs, &mut SendAncillaryBuffer::default(), flags)
}

/// One step of `region`; a file that ends before the region does has been cut short by somebody.
fn send_region(socket: BorrowedFd<'_>, region: &Region) -> io::Result<usize> {
    let (mut offset, most) = (region.offset, region.len.min(BURST));
    let sent = conveyor::send(socket, &region.file, offset, most);
    match sent.unwrap_or_else(|| sendfile(socket, &region.file, Some(&mut offset), most))? {
        0 => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file was cut short while it was sent",
        )),
        n => Ok(n),
    }
}
