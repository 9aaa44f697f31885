//! A connection's socket, registered with the reactor's driver only once there is something to wait for.
//!
//! Most short connections have sent their request by the time they are looked at, and take the answer at once: to them
//! epoll would be two system calls for nothing. Promises the same to its users either way: the socket reports
//! that it is ready, they try, and are woken when it was not. Shared by the sides of one connection, on one reactor.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_send_buffer_size, set_tcp_cork, set_tcp_nodelay,
    set_tcp_user_timeout, socket_send_buffer_size, tcp_congestion,
};
use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

/// True when a call on a socket came too early, and is to be made again.
pub(super) fn is_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// How long the peer of a subscription may leave bytes without acknowledgment, in milliseconds.
const UNACKNOWLEDGED: u32 = 60_000;

/// The socket of one connection, without TLS.
#[derive(Debug)]
pub(super) struct RawSocket {
    registration: RefCell<Registration>,
    /// It may take bytes although the driver has not said so: until the first readiness event, and after a nudge, a
    /// write is tried before waiting for epoll.
    pub(super) has_write_hint: Cell<bool>,
    cork: Cell<Cork>,
    /// While all is to be sent: the most that the kernel may have unsent when it calls the socket writable, of a unix
    /// socket the size of its buffer; 0 while it does so as ever.
    mark: Cell<usize>,
}

/// How far the mark goes down at a time, in bytes.
const STEP: usize = 64 << 10;

/// The state of `TCP_CORK`, by which the kernel holds packets back until they are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cork {
    #[default]
    Untried,
    /// Under a paced connection, holding back costs more than it gains; a unix socket has no packets: never.
    Useless,
    In,
    Out,
}

#[derive(Debug)]
enum Registration {
    /// Not known to the driver; assumed to be ready.
    Fresh(std::net::TcpStream),
    Driven(TcpStream),
    /// The driver would not have it.
    Lost,
}

impl RawSocket {
    /// Takes `socket`, which must not block.
    pub(super) fn new(socket: std::net::TcpStream) -> Self {
        Self {
            registration: RefCell::new(Registration::Fresh(socket)),
            has_write_hint: Cell::new(false),
            cork: Cell::default(),
            mark: Cell::new(0),
        }
    }

    /// Registers it with the driver, if it is not yet.
    fn driven(&self) -> io::Result<RefMut<'_, TcpStream>> {
        let mut state = self.registration.borrow_mut();
        if matches!(*state, Registration::Fresh(_))
            && let Registration::Fresh(socket) = std::mem::replace(&mut *state, Registration::Lost)
        {
            let driven = TcpStream::from_std(socket)
                .inspect_err(|error| tracing::warn!(%error, "cannot register a connection"));
            *state = Registration::Driven(driven?);
            self.has_write_hint.set(true);
        }
        RefMut::filter_map(state, |state| match state {
            Registration::Driven(socket) => Some(socket),
            _ => None,
        })
        .map_err(|_| io::ErrorKind::NotConnected.into())
    }

    /// Has the next write tried without EPOLLOUT: Linux reports writable only when a third of the buffer is free, which
    /// takes a slow but honest reader longer than the time its rate is measured over.
    pub(super) fn nudge(&self) {
        self.has_write_hint.set(true);
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match &*self.registration.borrow() {
            Registration::Driven(socket) if interest.is_readable() => socket.poll_read_ready(cx),
            Registration::Driven(socket) => {
                let ready = socket.poll_write_ready(cx);
                let hint = &self.has_write_hint;
                hint.set(hint.get() && ready.is_pending());
                ready
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Does `call`, when it is ready; `WouldBlock` when it is not, or turns out not to be.
    pub(super) fn try_io<T>(
        &self,
        interest: Interest,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Registration::Driven(socket) = &*self.registration.borrow() {
            return socket.try_io(interest, || call(socket.as_fd()));
        }
        let done = self.with(call);
        if done.as_ref().is_err_and(is_again) {
            self.driven()?;
        }
        done
    }

    /// Does `call`, once the socket is ready for `interest`, and again until it does not come too early.
    pub(super) fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            match self.try_io(interest, &mut call) {
                Err(error) if is_again(&error) => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// True if the kernel has bytes of the peer that were not read, as far as it tells.
    pub(super) fn has_unread(&self) -> bool {
        let unread = self.with(|socket| Ok(ioctl_fionread(socket)?));
        unread.is_ok_and(|unread| unread > 0)
    }

    /// Has the kernel end the connection of a peer that leaves what it was sent without acknowledgment for
    /// [`UNACKNOWLEDGED`]: a machine that has gone without a word.
    pub(super) fn expect_acknowledgments(&self) {
        // A unix socket has none, and its peer does not go so.
        let _ = self.with(|socket| Ok(set_tcp_user_timeout(socket, UNACKNOWLEDGED)?));
    }

    /// Has the kernel reset the connection when the socket is dropped. By itself it would keep up to megabytes for a
    /// peer that takes them slowly or never, outside of all limits. `false` takes it back.
    pub(super) fn reset_when_dropped(&self, resets: bool) {
        let linger = resets.then_some(Duration::ZERO);
        let _ = self.with(|socket| Ok(set_socket_linger(socket, linger)?));
    }

    /// Has the kernel send full packets only, or what it holds and from then on at once. Failing costs packets, not
    /// bytes.
    pub(super) fn cork(&self, corked: bool) {
        if self.cork.get() == Cork::Untried && corked {
            // BBR paces by a timer. A unix socket has no congestion control.
            let name = self.with(|socket| Ok(tcp_congestion(socket)?));
            let gains = name.is_ok_and(|name| !name.starts_with("bbr"));
            self.cork.set(if gains { Cork::Out } else { Cork::Useless });
        }
        let wanted = if corked { Cork::In } else { Cork::Out };
        if matches!(self.cork.get(), Cork::In | Cork::Out) && self.cork.get() != wanted {
            let _ = self.with(|socket| Ok(set_tcp_cork(socket, corked)?));
            self.cork.set(wanted);
        }
    }

    /// Has the kernel send what it holds back to fill a packet (`MSG_MORE`).
    pub(super) fn push(&self) {
        // A unix socket holds nothing back.
        let _ = self.with(|socket| Ok(set_tcp_nodelay(socket, true)?));
    }

    /// Waits until the kernel has sent all, and says to `count` what it has sent meanwhile. There is no safe call that
    /// asks how much that is: the mark below which the socket counts as writable is lowered a step at a time.
    pub(super) fn poll_sent(
        &self,
        cx: &mut Context<'_>,
        count: impl Fn(usize),
    ) -> Poll<io::Result<()>> {
        let is_first = self.mark.get() == 0;
        if is_first {
            let size = self.with(|socket| Ok(socket_send_buffer_size(socket)?))?;
            self.mark.set(size);
            if self.has_at_most(1)? {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            // The kernel compares it with twice what is unsent.
            let next = self.mark.get().saturating_sub(STEP).max(1);
            if !self.has_at_most(next)? {
                let wait = |_: BorrowedFd<'_>| Err(io::ErrorKind::WouldBlock.into());
                let _ = self.try_io::<()>(Interest::WRITABLE, wait);
                ready!(self.poll_ready(cx, Interest::WRITABLE))?;
                continue;
            }
            if !is_first {
                count((self.mark.get() - next) / 2);
            }
            if next == 1 {
                return Poll::Ready(Ok(()));
            }
            self.mark.set(next);
        }
    }

    /// Has the kernel call the socket writable where at most `mark` is unsent; whether it is. With a unix socket
    /// nothing is on the way: it is writable when the peer has read all but a little.
    fn has_at_most(&self, mark: usize) -> io::Result<bool> {
        self.with(|socket| {
            let mark = u32::try_from(mark).unwrap_or(u32::MAX);
            if SockRef::from(&socket).set_tcp_notsent_lowat(mark).is_err() {
                set_socket_send_buffer_size(socket, 1)?;
            }
            let mut writable = [PollFd::new(&socket, PollFlags::OUT)];
            poll(&mut writable, Some(&Timespec::default()))?;
            Ok(!writable[0].revents().is_empty())
        })
    }

    /// More is sent, after all.
    pub(super) fn send_on(&self) {
        let size = self.mark.take();
        if size > 0 {
            let _ = self.with(|socket| {
                if SockRef::from(&socket).set_tcp_notsent_lowat(0).is_err() {
                    // The kernel doubles it.
                    set_socket_send_buffer_size(socket, size / 2)?;
                }
                Ok(())
            });
        }
    }

    /// Does `call`, whether it is ready or not.
    pub(super) fn with<T>(
        &self,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match &*self.registration.borrow() {
            Registration::Fresh(socket) => call(socket.as_fd()),
            Registration::Driven(socket) => call(socket.as_fd()),
            Registration::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Receives into `buf`: how many bytes, 0 at the end of the stream. The driver need not know it where some have
    /// arrived.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let is_driven = matches!(*self.registration.borrow(), Registration::Driven(_));
        if !is_driven {
            let receive =
                |socket: BorrowedFd<'_>| Ok(recv(socket, &mut *buf, RecvFlags::DONTWAIT)?.1);
            match self.try_io(Interest::READABLE, receive) {
                // The driver knows it from now on.
                Err(error) if is_again(&error) => {}
                received => return Poll::Ready(received),
            }
        }
        let mut buf = ReadBuf::new(buf);
        ready!(self.poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Receives into memory that need not be set to anything before.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut socket = self.driven()?;
        loop {
            match Pin::new(&mut *socket).poll_read(cx, buf) {
                Poll::Ready(Err(error)) if is_again(&error) => {}
                polled => return polled,
            }
        }
    }
}
