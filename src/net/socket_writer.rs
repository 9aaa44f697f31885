//! The sending side of a connection: bytes as they are, and parts of files by sendfile or a [`splice`] pipe.
//!
//! Tells the connection's state what the socket took and whether it waits for the peer. What a client sent before it went is
//! still performed, so responses to it are thrown away, and are no errors. One send never keeps a reactor for
//! longer than [`BURST`] bytes take.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::fs::sendfile;
use rustix::net::sockopt::{set_tcp_cork, tcp_congestion};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use tokio::io::Interest;

use super::socket::{Socket, is_again};
use super::splice;
use crate::http::{ConnectionState, Region};

/// Bytes sent before other connections of the reactor have their turn: this bounds how long one response can delay them.
pub(super) const BURST: usize = 512 << 10;

/// Bytes up to this length are copied together: one plain send costs less than a vectored one.
const TOGETHER: usize = 2 << 10;

thread_local! {
    /// Where short responses are copied together, on their reactor's thread: [`TOGETHER`] bytes at most.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What follows the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing that is known of: they are to leave at once.
    Nothing,
    /// More of the same response, at once: they may wait for it.
    More,
}

/// See the module.
#[derive(Debug)]
pub(super) struct SocketWriter {
    socket: Rc<Socket>,
    connection: Rc<ConnectionState>,
    cork: Cell<Cork>,
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

/// A peer that is gone is an error, not a signal, and a reactor never waits in the kernel.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl SocketWriter {
    pub(super) fn new(socket: &Rc<Socket>, connection: &Rc<ConnectionState>) -> Self {
        Self {
            socket: Rc::clone(socket),
            connection: Rc::clone(connection),
            cork: Cell::new(Cork::Untried),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends of `bufs`, one after the other, what the socket takes: how many bytes.
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        // What ends a connection leaves together with the end: one packet for both.
        let flags = if follows == Follows::More || self.connection.is_ending() {
            AT_ONCE | SendFlags::MORE
        } else {
            AT_ONCE
        };
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.connection.has_lost_client() {
            return Poll::Ready(Ok(all));
        }
        let polled = if all > TOGETHER {
            self.poll_call(cx, |socket| {
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, bufs, &mut nothing, flags)?)
            })
        } else {
            GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                for buf in bufs {
                    gathered.extend_from_slice(buf);
                }
                self.poll_call(cx, |socket| Ok(send(socket, gathered, flags)?))
            })
        };
        Poll::Ready(self.count(ready!(polled), all, follows))
    }

    /// Sends of `region` what the socket takes, [`BURST`] bytes at most: how many.
    pub(super) fn poll_send_region(
        &self,
        cx: &mut Context<'_>,
        region: &Region,
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        if self.connection.has_lost_client() {
            return Poll::Ready(Ok(region.len));
        }
        let polled = self.poll_call(cx, |socket| send_region(socket, region));
        Poll::Ready(self.count(ready!(polled), region.len, follows))
    }

    /// Counts what was `sent` of `all`, which is thrown away when the client is gone.
    fn count(&self, sent: io::Result<usize>, all: usize, follows: Follows) -> io::Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
        let progress = self.connection.progress();
        let sent = match sent {
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut) => {
                progress.set_writing(false);
                self.connection.lose_client();
                all
            }
            sent => sent?,
        };
        progress.count(sent);
        let more = sent < all || follows == Follows::More;
        self.connection.sent(sent, more);
        Ok(sent)
    }

    /// Has the kernel send full packets only, or what it holds and from then on at once. Failing costs packets, not bytes.
    pub(super) fn cork(&self, corked: bool) {
        if self.cork.get() == Cork::Untried && corked {
            self.cork.set(if is_paced(&self.socket) {
                Cork::Harmful
            } else {
                Cork::Out
            });
        }
        let wanted = if corked { Cork::In } else { Cork::Out };
        if matches!(self.cork.get(), Cork::In | Cork::Out) && self.cork.get() != wanted {
            let _ = self.socket.with(|socket| Ok(set_tcp_cork(socket, corked)?));
            self.cork.set(wanted);
        }
    }

    /// Runs `send` when the socket takes bytes, until it moves some or the socket is full.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let progress = self.connection.progress();
        if self.socket.has_write_hint() {
            match self.socket.with(&mut send) {
                Err(error) if is_again(&error) => {}
                result => {
                    progress.set_writing(false);
                    return Poll::Ready(result);
                }
            }
        }
        loop {
            let writable = self.socket.poll_write_ready(cx);
            progress.set_writing(writable.is_pending());
            ready!(writable)?;
            match self.socket.try_io(Interest::WRITABLE, &mut send) {
                Err(error) if is_again(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Whether the congestion control sends by a timer, as BBR does.
fn is_paced(socket: &Socket) -> bool {
    let name = socket.with(|socket| Ok(tcp_congestion(socket)?));
    name.is_ok_and(|name| name.starts_with("bbr"))
}

/// One step of `region`; a file that ends before the region does has been cut short by another program.
fn send_region(socket: BorrowedFd<'_>, region: &Region) -> io::Result<usize> {
    let (mut offset, most) = (region.offset, region.len.min(BURST));
    let sent = splice::send(socket, &region.file, offset, most);
    match sent.unwrap_or_else(|| sendfile(socket, &region.file, Some(&mut offset), most))? {
        0 => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file was cut short while it was sent",
        )),
        n => Ok(n),
    }
}
