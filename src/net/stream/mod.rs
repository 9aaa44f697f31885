//! A connection's socket: what is answered at once, and the rest as hyper sees it.
//!
//! Owns the [`Intake`] and the [`Outlet`], and the [`front`] between them. A client that is still sending when its answer is
//! complete is listened to for a while, so that it can read why.

mod conveyor;
mod front;
mod outlet;
mod short;
mod spare;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{Shutdown, send, shutdown};
use tokio::io::ReadBuf;
use tokio::time::Sleep;

use super::intake::Intake;
use super::socket::Socket;
use crate::http::{Link, Phase, Service, TIMED_OUT};
use outlet::Outlet;

pub(super) use conveyor::set_up;
pub(super) use front::Next;

/// What the kernel may hold for a subscriber that does not read: by itself it would hold megabytes for each.
const HELD_FOR_SUBSCRIBER: usize = 64 << 10;

/// How long a client that is still sending has to read an answer that came early.
const LINGER: Duration = Duration::from_secs(2);

/// A connection's socket.
pub(super) struct Stream {
    intake: TokioIo<Intake>,
    outlet: Outlet,
    service: Rc<Service>,
    link: Rc<Link>,
    peer: SocketAddr,
    /// What the socket did not take of an answer given in front of hyper.
    unsent: Option<Box<front::Unsent>>,
    /// What is received and stored in front of hyper.
    upload: Option<short::Upload>,
    /// Nothing more is to be read or answered.
    is_over: bool,
    linger: Option<Pin<Box<Sleep>>>,
    is_narrow: bool,
}

impl Stream {
    pub(super) fn new(
        socket: Socket,
        peer: SocketAddr,
        link: Rc<Link>,
        service: Rc<Service>,
    ) -> Self {
        Self {
            intake: TokioIo::new(Intake::new(socket, Rc::clone(&link))),
            outlet: Outlet::new(Rc::clone(&link)),
            service,
            link,
            peer,
            unsent: None,
            upload: None,
            is_over: false,
            linger: None,
            is_narrow: false,
        }
    }

    /// What is received from now on is no HTTP. True when the client has sent of it already.
    pub(super) fn leave_framing(&mut self) -> bool {
        self.intake.inner_mut().leave_framing()
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.outlet
            .poll_send(self.intake.inner().socket(), cx, bufs)
    }

    /// A head that was begun gets an answer, if the socket takes it; whoever is that late may not read either.
    fn say_goodbye(&self) {
        if self.link.heard() {
            self.link.refused_head();
            let socket = self.intake.inner().socket();
            let _ = socket.with(|socket| Ok(send(socket, TIMED_OUT, outlet::AT_ONCE)?));
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
            ready!(self.intake.inner().socket().poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.link.received(buf.filled().len());
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let Next::End = ready!(self.poll_front(cx))? {
            return Poll::Ready(Ok(()));
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
        self.poll_send(cx, bufs)
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
            let socket = self.intake.inner().socket();
            let _ =
                socket.with(|socket| Ok(set_socket_send_buffer_size(socket, HELD_FOR_SUBSCRIBER)?));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.intake.inner().socket();
        socket.with(|socket| Ok(shutdown(socket, Shutdown::Write)?))?;
        if self.link.left_unread() {
            self.poll_linger(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}
