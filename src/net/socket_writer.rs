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

use super::raw_socket::is_again;
use super::socket::{PIECE, Socket, TlsSession, cut_short};
use super::splice;
use crate::http::{ConnectionState, Piped, Region};

/// Bytes sent before other connections of the reactor have their turn: this bounds how long one response can delay them.
pub(super) const BURST: usize = 512 << 10;

/// Bytes up to this length are copied together: one plain send costs less than a vectored one.
const TOGETHER: usize = 2 << 10;

thread_local! {
    /// Where short responses are copied together, on their reactor's thread: [`TOGETHER`] bytes at most.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The rest that follows the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing that is known of: they are to leave at once.
    Nothing,
    /// More of the same response, at once: they may wait for it.
    More,
    /// More, or a flush: what is encrypted may be kept until then, as long as it is less than a [`PIECE`].
    Flush,
}

/// The writer of one connection.
#[derive(Debug)]
pub(super) struct SocketWriter {
    socket: Rc<Socket>,
    connection: Rc<ConnectionState>,
    cork: Cork,
}

/// A peer that is gone is an error, not a signal, and a reactor never waits in the kernel.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl SocketWriter {
    pub(super) fn new(socket: &Rc<Socket>, connection: &Rc<ConnectionState>) -> Self {
        Self {
            socket: Rc::clone(socket),
            connection: Rc::clone(connection),
            cork: Cork::default(),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends of `bufs`, one after the other, what the socket takes: how many bytes. Over TLS what it does not take at once
    /// is encrypted, and [`SocketWriter::poll_flush`] sends it.
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags(follows);
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.has_lost_client() {
            return Poll::Ready(Ok(all));
        }
        if let Some(tls) = self.socket.tls() {
            return self.poll_send_encrypted(tls, cx, (all, follows), || tls.encrypt(bufs));
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

    fn flags(&self, follows: Follows) -> SendFlags {
        // What ends a connection leaves together with the end: one packet for both.
        if follows != Follows::Nothing || self.connection.is_ending() {
            AT_ONCE | SendFlags::MORE
        } else {
            AT_ONCE
        }
    }

    /// Has `encrypt` encrypt bytes of `all`, once what was encrypted before has been sent: how many.
    fn poll_send_encrypted(
        &self,
        tls: &TlsSession,
        cx: &mut Context<'_>,
        (all, follows): (usize, Follows),
        encrypt: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags(follows);
        let may_wait = || follows == Follows::Flush && tls.encrypted() < PIECE;
        if !may_wait() {
            ready!(self.poll_send_all(tls, cx, flags))?;
        }
        let encrypted = encrypt()?;
        let more = encrypted < all || follows != Follows::Nothing;
        self.connection.sent(encrypted, more);
        if !may_wait() {
            // What the socket does not take now is sent before the next.
            let _ = self.poll_send_all(tls, cx, flags)?;
        }
        Poll::Ready(Ok(encrypted))
    }

    /// Sends all that `tls` has encrypted.
    fn poll_send_all(
        &self,
        tls: &TlsSession,
        cx: &mut Context<'_>,
        flags: SendFlags,
    ) -> Poll<io::Result<()>> {
        while tls.wants_write() && !self.connection.has_lost_client() {
            let sent = ready!(self.poll_call(cx, |socket| tls.write_to(socket, flags)));
            self.count_moved(sent, 0)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is encrypted and has not been sent: without TLS nothing.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.socket.tls() {
            Some(tls) => self.poll_send_all(tls, cx, self.flags(Follows::Nothing)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Says that nothing follows, where that is said: over TLS.
    pub(super) fn poll_close(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.socket.tls() {
            tls.close();
        }
        self.poll_flush(cx)
    }

    /// Sends of `region` what the socket takes, [`BURST`] bytes at most: how many.
    pub(super) fn poll_send_region(
        &self,
        cx: &mut Context<'_>,
        region: &Region,
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        let encrypt = |tls: &TlsSession| tls.encrypt_region(region);
        let send = |socket: BorrowedFd<'_>| send_region(socket, region);
        self.poll_send_unread(cx, (region.len, follows), encrypt, send)
    }

    /// Sends of `piped` what the socket takes: how many.
    pub(super) fn poll_send_piped(
        &self,
        cx: &mut Context<'_>,
        piped: &Piped,
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        let encrypt = |tls: &TlsSession| tls.encrypt_piped(piped);
        let send = |socket: BorrowedFd<'_>| piped.pass_to(socket);
        self.poll_send_unread(cx, (piped.len, follows), encrypt, send)
    }

    /// Sends what is in no memory of this process, `all` bytes: by `send`, or over TLS by `encrypt`, which reads them.
    fn poll_send_unread(
        &self,
        cx: &mut Context<'_>,
        (all, follows): (usize, Follows),
        encrypt: impl FnOnce(&TlsSession) -> io::Result<usize>,
        send: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if self.has_lost_client() {
            return Poll::Ready(Ok(all));
        }
        if let Some(tls) = self.socket.tls() {
            return self.poll_send_encrypted(tls, cx, (all, follows), || encrypt(tls));
        }
        let polled = self.poll_call(cx, send);
        Poll::Ready(self.count(ready!(polled), all, follows))
    }

    /// Whether the client is gone, so that what is sent is thrown away.
    pub(super) fn has_lost_client(&self) -> bool {
        self.connection.has_lost_client()
    }

    /// Counts what was `sent` of `all`, which is thrown away when the client is gone.
    fn count(&self, sent: io::Result<usize>, all: usize, follows: Follows) -> io::Result<usize> {
        let sent = self.count_moved(sent, all)?;
        let more = sent < all || follows != Follows::Nothing;
        self.connection.sent(sent, more);
        Ok(sent)
    }

    /// Counts what was `sent`; `all` when the client is gone.
    fn count_moved(&self, sent: io::Result<usize>, all: usize) -> io::Result<usize> {
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
        Ok(sent)
    }

    /// Has the kernel send full packets only, or what it holds and from then on at once.
    pub(super) fn cork(&self, corked: bool) {
        self.cork.set(&self.socket, corked);
    }

    /// Runs `send` when the socket takes bytes, until it moves some or the socket is full.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let progress = self.connection.progress();
        if self.socket.raw().has_write_hint() {
            match self.socket.raw().with(&mut send) {
                Err(error) if is_again(&error) => {}
                result => {
                    progress.set_writing(false);
                    return Poll::Ready(result);
                }
            }
        }
        loop {
            let writable = self.socket.raw().poll_write_ready(cx);
            progress.set_writing(writable.is_pending());
            ready!(writable)?;
            match self.socket.raw().try_io(Interest::WRITABLE, &mut send) {
                Err(error) if is_again(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// One step of `region`; a file that ends before the region does has been cut short by another program.
fn send_region(socket: BorrowedFd<'_>, region: &Region) -> io::Result<usize> {
    let (mut offset, most) = (region.offset, region.len.min(BURST));
    let sent = splice::send(socket, &region.file, offset, most);
    match sent.unwrap_or_else(|| sendfile(socket, &region.file, Some(&mut offset), most))? {
        0 => Err(cut_short()),
        n => Ok(n),
    }
}

/// Whether the kernel holds packets of a connection back until they are full. Failing costs packets, not bytes, and is no error.
#[derive(Debug, Default)]
pub(super) struct Cork(Cell<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Untried,
    /// Under a paced connection, holding back costs more than it gains; a unix socket has no packets: never.
    Useless,
    In,
    Out,
}

impl Cork {
    /// Has the kernel send full packets of `socket` only, or what it holds and from then on at once.
    pub(super) fn set(&self, socket: &Socket, corked: bool) {
        if self.0.get() == State::Untried && corked {
            self.0.set(if gains(socket) {
                State::Out
            } else {
                State::Useless
            });
        }
        let wanted = if corked { State::In } else { State::Out };
        if matches!(self.0.get(), State::In | State::Out) && self.0.get() != wanted {
            let _ = socket
                .raw()
                .with(|socket| Ok(set_tcp_cork(socket, corked)?));
            self.0.set(wanted);
        }
    }
}

/// Whether the congestion control does not send by a timer, as BBR does; a unix socket has none, and sends no packets.
fn gains(socket: &Socket) -> bool {
    let name = socket.raw().with(|socket| Ok(tcp_congestion(socket)?));
    name.is_ok_and(|name| !name.starts_with("bbr"))
}
